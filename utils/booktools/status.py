"""Writes book/status.md: what each chapter holds, whether its outputs are current, the pinned releases."""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from nbformat import NotebookNode

from booktools.execute import code_cells, faults, staleness
from booktools.notebooks import read_notebook
from booktools.paths import CHAPTERS, LOCK, STATUS, BookError, chapter_files, shown

CORE = ("numpy", "torch", "sympy", "lark", "matplotlib", "jupyter-book", "sphinx", "hypothesis", "nbval")
PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<release>[^\s;]+)(?:\s*;\s*(?P<marker>.+))?")
PAGE = """# Status

The outputs in the chapters are stored in them. `make test` runs every cell again and compares what it prints,
so a chapter that is current here is one that has just been checked.

| Chapter | Code cells | Figures | Exercises | Outputs |
| :-- | --: | --: | --: | :-- |
{chapters}

They were made with these releases, from the lock `requirements.txt`:

| Package | Release |
| :-- | :-- |
{packages}
"""


def title_of(notebook: NotebookNode, path: Path) -> str:
    """Return the first heading of a chapter.

    Raises:
        BookError: it has none.
    """
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and (found := re.search(r"^# +(.+)$", cell.source, re.MULTILINE)):
            return found.group(1).strip()
    raise BookError(f"expected a heading of the first level in {shown(path)}; found none")


def chapter_row(path: Path) -> str:
    """Return the row of one chapter."""
    notebook = read_notebook(path)
    cells = [cell for _, cell in code_cells(notebook)]
    outputs = [output for cell in cells for output in cell.outputs]
    figures = sum(any(kind.startswith("image/") for kind in output.get("data", {})) for output in outputs)
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    exercises = len(re.findall(r"^[`:]{3,}\{exercise(?:-start)?\}", prose, re.MULTILINE))
    current = "stale" if staleness(path, notebook) or faults(path, notebook) else "current"
    title = f"[{title_of(notebook, path)}](../chapters/{path.name})"
    return f"| {title} | {len(cells)} | {figures} | {exercises} | {current} |"


def package_rows(lock: str) -> list[str]:
    """Return a row for each core package, one line of the lock each.

    Raises:
        BookError: the lock does not pin a core package.
    """
    pins = [found for line in lock.splitlines() if (found := PIN.fullmatch(line.strip()))]
    rows = []
    for name in CORE:
        mine = [pin for pin in pins if pin["name"] == name]
        if not mine:
            raise BookError(f"expected a line {name}==... in {shown(LOCK)}; there is none")
        rows.append(f"| {name} | {', '.join(map(release_of, mine))} |")
    return rows


def release_of(pin: re.Match[str]) -> str:
    """Return the release that a line of the lock pins, with its condition when it has one."""
    if pin["marker"] is None:
        return pin["release"]
    condition = pin["marker"].replace("python_full_version", "Python").replace("'", "")
    return f"{pin['release']} ({condition})"


def page(notebooks: Sequence[Path], lock: str) -> str:
    """Return the text of the status page, equal for equal chapters and lock."""
    chapters = "\n".join(chapter_row(path) for path in notebooks)
    return PAGE.format(chapters=chapters, packages="\n".join(package_rows(lock)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or with --check say whether it is what would be written."""
    parser = argparse.ArgumentParser(prog="python -m booktools.status", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing")
    options = parser.parse_args(arguments)
    try:
        wanted = page(chapter_files(CHAPTERS, ".ipynb"), LOCK.read_text(encoding="utf-8"))
    except BookError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    fresh = STATUS.exists() and STATUS.read_text(encoding="utf-8") == wanted
    if options.check:
        told = "fresh" if fresh else "not what the chapters and the lock say: run `make chapters`"
        print(f"{shown(STATUS)}: {told}")
        return int(not fresh)
    if not fresh:
        STATUS.write_text(wanted, encoding="utf-8")
    print(f"{shown(STATUS)}: {'unchanged' if fresh else 'written'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
