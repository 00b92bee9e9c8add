"""A chapter's run is stored only when every output can be made again on another machine."""

from pathlib import Path

import nbformat
import pytest

from booktools.execute import execute, faults, output_faults, staleness
from booktools.notebooks import read_notebook, write_notebook
from booktools.paths import BookError

ALT = {"mystnb": {"image": {"alt": "one black dot"}}}
PICTURE = """from IPython.display import Image, display
import base64
display(Image(base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"), format="gif"))"""


def chapter(folder: Path, *cells: tuple[str, dict]) -> Path:
    """Write a notebook of code cells, each a source and its metadata."""
    made = nbformat.v4.new_notebook()
    made.cells = [nbformat.v4.new_code_cell(source, metadata=metadata) for source, metadata in cells]
    path = folder / "01_one.ipynb"
    write_notebook(path, made)
    return path


def test_a_second_run_stores_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = chapter(tmp_path, ("x = 2\nprint(x)", {}), ("x + 1", {}), (PICTURE, ALT))
    assert staleness(path, read_notebook(path))
    execute(path)
    stored = path.read_bytes()
    notebook = read_notebook(path)
    assert notebook.cells[0].outputs[0].text == "2\n"
    assert notebook.cells[1].outputs[0].data["text/plain"] == "3"
    assert [cell.execution_count for cell in notebook.cells] == [1, 2, 3]
    assert (staleness(path, notebook), faults(path, notebook)) == ([], [])
    assert "01_one [2/3] code 'x + 1'" in capsys.readouterr().out
    execute(path)
    assert path.read_bytes() == stored
    assert b"iopub" not in stored


def test_what_a_cell_prints_in_pieces_is_one_output(tmp_path: Path) -> None:
    slowly = "import time\nfor n in range(3):\n    print(n, flush=True)\n    time.sleep(0.5)"
    path = chapter(tmp_path, (slowly, {}))
    execute(path)
    assert [output.text for output in read_notebook(path).cells[0].outputs] == ["0\n1\n2\n"]


def test_edited_code_is_stale(tmp_path: Path) -> None:
    path = chapter(tmp_path, ("x = 2", {}))
    execute(path)
    edited = read_notebook(path)
    edited.cells[0].source = "x = 3"
    assert "make chapters NB=01" in staleness(path, edited)[0]


@pytest.mark.parametrize(
    ("source", "metadata", "said"),
    [
        ("1 / 0", {}, "ZeroDivisionError"),
        ("import sys; print('careful', file=sys.stderr)", {}, "standard error: 'careful'"),
        ("import warnings; warnings.warn('old')", {}, "standard error"),
        ("print('/' + 'home/somebody/file.py')", {}, "an absolute path in an output"),
        ("object()", {}, "an address in memory"),
        ("print('Traceback (most recent ' + 'call last)')", {}, "a traceback in an output"),
        (PICTURE, {}, "a picture without alternative text"),
        (PICTURE, {"mystnb": {"image": {"alt": " "}}}, "a picture without alternative text"),
    ],
)
def test_what_cannot_be_made_again_is_not_stored(
    tmp_path: Path, source: str, metadata: dict, said: str
) -> None:
    path = chapter(tmp_path, ("x = 2", {}), (source, metadata))
    before = path.read_bytes()
    with pytest.raises(BookError) as caught:
        execute(path)
    assert said in str(caught.value)
    assert "cell 2" in str(caught.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("text", ["a/b is a ratio", "https://example.org/home/x", "1/2", "dL/db", "0x1f"])
def test_what_only_looks_like_a_path_passes(text: str) -> None:
    cell = nbformat.v4.new_code_cell("x")
    cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=text)]
    assert output_faults(cell) == []


def test_a_stored_error_is_a_fault() -> None:
    cell = nbformat.v4.new_code_cell("x")
    cell.outputs = [nbformat.v4.new_output("error", ename="ValueError", evalue="bad", traceback=[])]
    assert output_faults(cell) == ["an error, ValueError: bad"]
