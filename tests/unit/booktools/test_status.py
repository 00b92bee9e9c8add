"""The status page says what the chapters and the lock say."""

from pathlib import Path

import nbformat
import pytest

from booktools.notebooks import RECORD, code_digest, write_notebook
from booktools.paths import LOCK, BookError
from booktools.status import CORE, package_rows, page

LOCKED = "\n".join(f"{name}==1.{number}" for number, name in enumerate(CORE))


def chapter(folder: Path, heading: str = "# The title") -> Path:
    made = nbformat.v4.new_notebook()
    prose = f"(sec-one)=\n{heading}\n\n```{{exercise}}\nOne.\n```\n\n````{{exercise-start}}\n````"
    made.cells = [nbformat.v4.new_markdown_cell(prose), nbformat.v4.new_code_cell("1 + 1")]
    made.metadata[RECORD] = {"executed": code_digest(made)}
    path = folder / "01_one.ipynb"
    write_notebook(path, made)
    return path


def test_the_page_counts_what_a_chapter_holds(tmp_path: Path) -> None:
    text = page([chapter(tmp_path)], LOCKED)
    assert "| [The title](../chapters/01_one.ipynb) | 1 | 0 | 2 | current |" in text
    assert text == page([chapter(tmp_path)], LOCKED)


def test_code_that_was_edited_after_its_run_is_stale(tmp_path: Path) -> None:
    path = chapter(tmp_path)
    path.write_text(path.read_text().replace("1 + 1", "1 + 2"))
    assert "| stale |" in page([path], LOCKED)


def test_a_chapter_without_a_title_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BookError, match="heading of the first level"):
        page([chapter(tmp_path, "## only a section")], LOCKED)


def test_releases_with_conditions_stand_in_one_row() -> None:
    lock = LOCKED + "\nnumpy==2.5 ; python_full_version >= '3.12'"
    assert package_rows(lock)[0] == "| numpy | 1.0, 2.5 (Python >= 3.12) |"


def test_a_core_package_that_is_not_pinned_is_an_error() -> None:
    with pytest.raises(BookError, match="expected a line torch==") as caught:
        package_rows(LOCKED.replace("torch", "torches"))
    assert "requirements.txt" in str(caught.value)


def test_the_lock_pins_every_core_package() -> None:
    assert len(package_rows(LOCK.read_text())) == len(CORE)
