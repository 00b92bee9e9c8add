"""Keeps book/text and chapters in step, one way at a time, and never drops what a person wrote.

The text is what is edited: `make sync` writes the cells of the notebook from it and keeps the outputs of
cells whose source is the same. The notebook records the digests of the cells it was given, so an edit made
in it is seen; it is then not overwritten. `make sync FROM=ipynb` is the way back.
"""

import argparse
import difflib
import hashlib
import sys
from collections import defaultdict, deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_notebook

from booktools.notebooks import (
    DEFAULT_LEXER,
    RECORD,
    cell_digest,
    cells_of_text,
    headline,
    lexer_of_text,
    read_notebook,
    split_header,
    standard_metadata,
    text_of_cells,
    with_identities,
    write_notebook,
)
from booktools.paths import CHAPTERS, TEXTS, BookError, chapter_files, shown


def text_digest(text: str) -> str:
    """Return the digest of a whole text."""
    return hashlib.sha256(text.encode()).hexdigest()


def digests(cells: Sequence[NotebookNode]) -> list[str]:
    """Return the digests of some cells in order."""
    return [cell_digest(cell) for cell in cells]


def record_of(notebook: NotebookNode) -> dict[str, Any]:
    """Return what the last sync recorded in a notebook; empty for one that it has never written."""
    return dict(notebook.metadata.get(RECORD, {}))


def differences(before: Sequence[str], cells: Sequence[NotebookNode]) -> list[str]:
    """Name the cells that differ from the recorded digests `before`: edited, added or removed."""
    told = []
    matcher = difflib.SequenceMatcher(None, before, digests(cells), autojunk=False)
    for kind, first, last, start, stop in matcher.get_opcodes():
        if kind == "equal":
            continue
        paired = min(last - first, stop - start)
        for index in range(start, stop):
            verb = "edited" if index - start < paired else "added"
            told.append(f"cell {index + 1} {verb}: {headline(cells[index])}")
        if (removed := last - first - paired) > 0:
            told.append(f"{removed} cell{'s' if removed > 1 else ''} removed after cell {stop}")
    return told


def keep_outputs(cells: Sequence[NotebookNode], old: Sequence[NotebookNode]) -> None:
    """Give each code cell the outputs that a cell with the same source had, first come first served."""
    stored: defaultdict[str, deque[NotebookNode]] = defaultdict(deque)
    for cell in old:
        if cell.cell_type == "code":
            stored[cell.source].append(cell)
    for cell in cells:
        if cell.cell_type == "code" and stored[cell.source]:
            found = stored[cell.source].popleft()
            cell.outputs, cell.execution_count = found.outputs, found.execution_count


def recorded(cells: Sequence[NotebookNode], text: str, old: NotebookNode | None) -> NotebookNode:
    """Return a notebook of `cells` that records the text it is in step with."""
    record = {"cells": digests(cells), "text": text_digest(text)}
    if old is not None and "executed" in record_of(old):
        record["executed"] = record_of(old)["executed"]
    return new_notebook(cells=list(cells), metadata=standard_metadata() | {RECORD: record})


def write_notebook_from_text(text_path: Path, notebook_path: Path) -> bool:
    """Write the notebook of a text; tell whether anything changed.

    Raises:
        BookError: the notebook was edited since it was last in step with its text.
    """
    text = text_path.read_text(encoding="utf-8")
    cells = cells_of_text(text)
    old = read_notebook(notebook_path) if notebook_path.exists() else None
    if old is not None:
        changed = differences(record_of(old).get("cells", []), old.cells)
        if changed and digests(old.cells) != digests(cells):
            raise BookError(
                f"{shown(notebook_path)} was edited by hand, so it is not overwritten:\n  "
                + "\n  ".join(changed)
                + f"\n`make sync FROM=ipynb` takes these edits into {shown(text_path)}; to drop them, restore"
                + " the notebook with git, then `make sync`"
            )
        keep_outputs(cells, old.cells)
    new = recorded(cells, text, old)
    if old is not None and new == old:
        return False
    write_notebook(notebook_path, new)
    return True


def write_text_from_notebook(text_path: Path, notebook_path: Path) -> bool:
    """Write the text of a notebook that was edited by hand; tell whether anything changed.

    Raises:
        BookError: the text was edited too, so that one of the two would be lost.
    """
    if not notebook_path.exists():
        raise BookError(f"expected the notebook {shown(notebook_path)}; there is none: run `make sync`")
    notebook = read_notebook(notebook_path)
    text = text_path.read_text(encoding="utf-8") if text_path.exists() else ""
    if text and digests(cells_of_text(text)) == digests(notebook.cells):
        return write_notebook_from_text(text_path, notebook_path)
    if text and text_digest(text) != record_of(notebook).get("text"):
        raise BookError(
            f"{shown(text_path)} and {shown(notebook_path)} were both edited since they were last in "
            "step, so neither is overwritten; restore one of them with git, then `make sync` to keep the "
            "text or `make sync FROM=ipynb` to keep the notebook"
        )
    lexer = lexer_of_text(text) if text else DEFAULT_LEXER
    written = text_of_cells(notebook.cells, split_header(text)[0], lexer)
    text_path.write_text(written, encoding="utf-8")
    cells = with_identities(cells_of_text(written))
    keep_outputs(cells, notebook.cells)
    write_notebook(notebook_path, recorded(cells, written, notebook))
    return True


def faults(text_path: Path, notebook_path: Path) -> list[str]:
    """Say how a notebook and its text are out of step; nothing when they agree."""
    if not text_path.exists():
        return [f"{shown(notebook_path)} has no text {shown(text_path)}: `make sync FROM=ipynb` writes it"]
    if not notebook_path.exists():
        return [f"{shown(text_path)} has no notebook {shown(notebook_path)}: `make sync` writes it"]
    notebook = read_notebook(notebook_path)
    text = text_path.read_text(encoding="utf-8")
    told = differences(digests(cells_of_text(text)), notebook.cells)
    if told:
        return [f"{shown(notebook_path)} differs from {shown(text_path)} (`make sync`): {'; '.join(told)}"]
    if recorded(notebook.cells, text, notebook).metadata[RECORD] != record_of(notebook):
        return [f"{shown(notebook_path)} does not record the text it is made from: run `make sync`"]
    return []


def pairs(number: str) -> list[tuple[Path, Path]]:
    """Return each chapter's text and notebook, whichever of the two exists."""
    names = {path.stem for path in CHAPTERS.glob("[0-9][0-9]_*.ipynb")} if not number else set()
    names |= {path.stem for path in TEXTS.glob("[0-9][0-9]_*.md")} if not number else set()
    if not names:
        names = {path.stem for path in chapter_files(TEXTS, ".md", number)}
    return [(TEXTS / f"{name}.md", CHAPTERS / f"{name}.ipynb") for name in sorted(names)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write what is out of step, or with --check only say so; the exit status is 1 on any fault."""
    parser = argparse.ArgumentParser(prog="python -m booktools.sync", description=__doc__)
    parser.add_argument("number", nargs="?", default="", help="one chapter, such as 02")
    parser.add_argument("--from", dest="source", choices=("text", "ipynb"), default="text")
    parser.add_argument("--check", action="store_true", help="change nothing")
    options = parser.parse_args(arguments)
    try:
        chapters = pairs(options.number)
    except BookError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return max(treat(*chapter, source=options.source, check=options.check) for chapter in chapters)


def treat(text_path: Path, notebook_path: Path, *, source: str, check: bool) -> int:
    """Check one chapter or write it, say what was done, and return 1 when something is wrong."""
    try:
        if check:
            told = faults(text_path, notebook_path)
            print("\n".join(told) if told else f"{shown(notebook_path)}: in step")
            return int(bool(told))
        write, target = write_notebook_from_text, notebook_path
        if source == "ipynb":
            write, target = write_text_from_notebook, text_path
        print(f"{shown(target)}: {'written' if write(text_path, notebook_path) else 'unchanged'}")
        return 0
    except BookError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
