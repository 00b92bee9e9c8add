"""Text and notebook stay in step, one way at a time, and nothing that a person wrote is dropped."""

from pathlib import Path

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st

from booktools.notebooks import cell_digest, cells_of_text, read_notebook, text_of_cells, write_notebook
from booktools.paths import BookError
from booktools.sync import faults, write_notebook_from_text, write_text_from_notebook

TEXT = """---
kernelspec: {name: python3, display_name: Python 3, language: python}
---

(sec-one)=
# A chapter

With $p_i$ and

$$
p_i = q_i
$$ (eq-one)

+++

A second cell of text.

```{code-cell} ipython3
value = 1
value
```

```{code-cell} ipython3
:tags: [hide-input, nbval-ignore-output]

value + 1
```

```{code-cell} ipython3
---
mystnb:
  image:
    alt: a line that rises
---
value + 2
```

````{exercise}
:label: ex-one
Compute.
````
"""


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "01_one.md"
    path.write_text(TEXT)
    return path


@pytest.fixture
def notebook(text: Path) -> Path:
    """A notebook in step with the text, each code cell with an output that names it."""
    path = text.with_suffix(".ipynb")
    write_notebook_from_text(text, path)
    made = read_notebook(path)
    for number, cell in enumerate(cell for cell in made.cells if cell.cell_type == "code"):
        cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=f"output {number}")]
        cell.execution_count = number + 1
    write_notebook(path, made)
    return path


def outputs(path: Path) -> list[str | None]:
    cells = [cell for cell in read_notebook(path).cells if cell.cell_type == "code"]
    return [cell.outputs[0].text if cell.outputs else None for cell in cells]


def edit_cell(path: Path, position: int, source: str) -> None:
    edited = read_notebook(path)
    edited.cells[position].source = source
    write_notebook(path, edited)


def test_cells_are_those_of_the_text(notebook: Path) -> None:
    cells = read_notebook(notebook).cells
    assert [cell.cell_type for cell in cells] == ["markdown", "markdown", "code", "code", "code", "markdown"]
    assert cells[1].source == "A second cell of text."
    assert cells[3].metadata.tags == ["hide-input", "nbval-ignore-output"]
    assert cells[4].metadata.mystnb.image.alt == "a line that rises"


def test_equal_texts_give_equal_files(text: Path, notebook: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.ipynb"
    third = tmp_path / "third.ipynb"
    write_notebook_from_text(text, other)
    write_notebook_from_text(text, third)
    assert other.read_bytes() == third.read_bytes()
    names = [[cell.id for cell in read_notebook(path).cells] for path in (other, notebook)]
    assert names[0] == names[1]


def test_equal_cells_have_different_ids() -> None:
    cells = cells_of_text("```{code-cell} ipython3\nx\n```\n\n```{code-cell} ipython3\nx\n```\n")
    assert len({cell.id for cell in cells}) == 2


def test_a_second_sync_changes_nothing(text: Path, notebook: Path) -> None:
    before = notebook.read_bytes()
    assert write_notebook_from_text(text, notebook) is False
    assert notebook.read_bytes() == before
    assert faults(text, notebook) == []


def test_outputs_are_kept_where_the_source_is_kept(text: Path, notebook: Path) -> None:
    edited = TEXT.replace("value + 1", "value + 10").replace("A second cell", "Another cell")
    text.write_text(edited.replace("# A chapter", "# A longer chapter"))
    write_notebook_from_text(text, notebook)
    assert outputs(notebook) == ["output 0", None, "output 2"]
    assert faults(text, notebook) == []


def test_outputs_move_with_their_cells(text: Path, notebook: Path) -> None:
    text.write_text(TEXT.replace("+++\n", "```{code-cell} ipython3\nnew = 0\n```\n"))
    write_notebook_from_text(text, notebook)
    assert outputs(notebook) == [None, "output 0", "output 1", "output 2"]


@pytest.mark.parametrize("edit_text_too", [False, True])
def test_an_edited_notebook_is_not_overwritten(text: Path, notebook: Path, edit_text_too: bool) -> None:
    edit_cell(notebook, 2, "value = 7\nvalue")
    if edit_text_too:
        text.write_text(TEXT.replace("A second cell", "Another cell"))
    before = notebook.read_bytes()
    with pytest.raises(BookError, match="edited by hand") as caught:
        write_notebook_from_text(text, notebook)
    assert "cell 3 edited: code 'value = 7'" in str(caught.value)
    assert "make sync FROM=ipynb" in str(caught.value)
    assert notebook.read_bytes() == before


def test_added_removed_and_retagged_cells_are_seen(text: Path, notebook: Path) -> None:
    edited = read_notebook(notebook)
    edited.cells[3].metadata.tags = ["hide-input"]
    del edited.cells[1]
    edited.cells.append(nbformat.v4.new_markdown_cell("A last word."))
    write_notebook(notebook, edited)
    with pytest.raises(BookError) as caught:
        write_notebook_from_text(text, notebook)
    for said in ("1 cell removed after cell 1", "cell 3 edited", "cell 6 added: markdown 'A last word.'"):
        assert said in str(caught.value)


def test_a_notebook_that_sync_never_wrote_is_not_overwritten(text: Path, tmp_path: Path) -> None:
    stranger = tmp_path / "stranger.ipynb"
    write_notebook(stranger, nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("mine")]))
    with pytest.raises(BookError, match="edited by hand"):
        write_notebook_from_text(text, stranger)


def test_running_a_notebook_is_not_editing_it(text: Path, notebook: Path) -> None:
    ran = read_notebook(notebook)
    ran.cells[2].metadata["execution"] = {"iopub.execute_input": "2026-01-01T00:00:00"}
    ran.cells[2].execution_count = 17
    write_notebook(notebook, ran)
    text.write_text(TEXT.replace("A second cell", "Another cell"))
    assert write_notebook_from_text(text, notebook)


def test_the_same_edit_on_both_sides_is_no_conflict(text: Path, notebook: Path) -> None:
    edit_cell(notebook, 2, "value = 7\nvalue")
    text.write_text(TEXT.replace("value = 1", "value = 7"))
    assert write_notebook_from_text(text, notebook)
    assert faults(text, notebook) == []


def test_the_way_back_writes_the_text(text: Path, notebook: Path) -> None:
    edit_cell(notebook, 2, "value = 7\nvalue")
    assert write_text_from_notebook(text, notebook)
    assert text.read_text() == TEXT.replace("value = 1", "value = 7")
    assert outputs(notebook) == ["output 0", "output 1", "output 2"]
    assert faults(text, notebook) == []
    assert write_notebook_from_text(text, notebook) is False


def test_the_way_back_makes_a_text_where_there_is_none(text: Path, notebook: Path) -> None:
    text.unlink()
    assert "has no text" in faults(text, notebook)[0]
    write_text_from_notebook(text, notebook)
    assert faults(text, notebook) == []


def test_edits_on_both_sides_are_both_kept(text: Path, notebook: Path) -> None:
    edit_cell(notebook, 2, "value = 7\nvalue")
    edited = TEXT.replace("A second cell", "Another cell")
    text.write_text(edited)
    before = notebook.read_bytes()
    with pytest.raises(BookError, match="both edited"):
        write_text_from_notebook(text, notebook)
    assert (text.read_text(), notebook.read_bytes()) == (edited, before)


def test_the_check_names_what_is_out_of_step(text: Path, notebook: Path, tmp_path: Path) -> None:
    text.write_text(TEXT.replace("value + 2", "value + 3"))
    assert "cell 5 edited: code 'value + 2'" in faults(text, notebook)[0]
    assert "has no notebook" in faults(text, tmp_path / "none.ipynb")[0]


def test_a_cell_that_myst_cannot_hold_is_refused() -> None:
    cell = nbformat.v4.new_markdown_cell("before\n\n+++\n\nafter")
    with pytest.raises(BookError, match="cell 1, markdown 'before', cannot be written"):
        text_of_cells([cell])


def test_a_cell_of_another_kind_is_refused() -> None:
    with pytest.raises(BookError, match="expected cells of code or markdown; got raw '<b>'"):
        text_of_cells([nbformat.v4.new_raw_cell("<b>")])


def test_a_file_that_is_no_notebook_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.ipynb"
    path.write_text("# not a notebook")
    with pytest.raises(BookError, match="expected a notebook"):
        read_notebook(path)


ODD = ("---", ":note: x", "```", "    indented")
LINES = st.lists(st.sampled_from(("x = 1", "# a comment", "$a_i$", "", "- item", "| a |", *ODD)), max_size=5)
CELLS = st.lists(st.tuples(st.sampled_from(["code", "markdown"]), LINES), min_size=1, max_size=6)


@given(CELLS)
def test_what_is_written_is_read_back(drawn: list[tuple[str, list[str]]]) -> None:
    cells = []
    for kind, lines in drawn:
        if source := "\n".join(lines).strip():
            make = nbformat.v4.new_code_cell if kind == "code" else nbformat.v4.new_markdown_cell
            cells.append(make(source))
    try:
        text = text_of_cells(cells)
    except BookError:
        # Only a line that has a meaning to MyST may keep a cell from being written.
        assert any(line in ODD for _, lines in drawn for line in lines)
        return
    again = cells_of_text(text)
    assert [cell_digest(cell) for cell in again] == [cell_digest(cell) for cell in cells]
    assert text_of_cells(again) == text
