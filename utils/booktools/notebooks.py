"""Notebooks as plain data: cells from MyST text and back, digests, and a layout on disk that never wavers."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbformat import NotebookNode

from booktools.paths import BookError, shown

RECORD = "booktools"
DEFAULT_LEXER = "ipython3"
# What an editor or a run leaves in a cell's metadata and no author means.
VOLATILE = frozenset({"execution", "collapsed", "scrolled", "jupyter", "ExecuteTime", "trusted"})
HEADER = re.compile(r"\A---\n.*?\n---\n+", re.DOTALL)


def digest(*parts: str) -> str:
    """Return a short name for a sequence of strings, equal for equal sequences."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def authored_metadata(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a cell that its author wrote, such as tags and an image's alternative text."""
    return {key: value for key, value in cell["metadata"].items() if key not in VOLATILE}


def cell_digest(cell: Mapping[str, Any]) -> str:
    """Return a digest of what an author writes in a cell: its kind, source and metadata, not its outputs."""
    return digest(cell["cell_type"], cell["source"], json.dumps(authored_metadata(cell), sort_keys=True))


def code_digest(notebook: NotebookNode) -> str:
    """Return a digest of all code of a notebook in order, the cause of all its outputs."""
    return digest(*(cell.source for cell in notebook.cells if cell.cell_type == "code"))


def with_identities(cells: Sequence[NotebookNode]) -> list[NotebookNode]:
    """Give each cell an id made from its kind and source, so that equal texts give equal files."""
    seen: Counter[str] = Counter()
    for cell in cells:
        name = digest(cell.cell_type, cell.source)
        seen[name] += 1
        cell["id"] = name if seen[name] == 1 else f"{name}-{seen[name]}"
    return list(cells)


def split_header(text: str) -> tuple[str, str]:
    """Split a MyST text into its YAML header, empty when it has none, and its body."""
    found = HEADER.match(text)
    return (found.group(), text[found.end() :]) if found else ("", text)


def cells_of_text(text: str) -> list[NotebookNode]:
    """Return the cells of a MyST text, without outputs."""
    parsed = jupytext.reads(split_header(text)[1], fmt="md:myst")
    return with_identities([bare_cell(cell) for cell in parsed.cells])


def bare_cell(cell: Mapping[str, Any]) -> NotebookNode:
    """Return a copy of what an author wrote in a cell: no outputs, no count, no traces of an editor.

    Raises:
        BookError: the cell is neither code nor Markdown.
    """
    kinds = {"code": nbformat.v4.new_code_cell, "markdown": nbformat.v4.new_markdown_cell}
    if cell["cell_type"] not in kinds:
        raise BookError(f"expected cells of code or markdown; got {headline(cell)}")
    return kinds[cell["cell_type"]](cell["source"], metadata=authored_metadata(cell))


def lexer_of_text(text: str) -> str:
    """Return the language that the code cells of a MyST text name."""
    parsed = jupytext.reads(split_header(text)[1], fmt="md:myst")
    return str(parsed.metadata.get("jupytext", {}).get("default_lexer", DEFAULT_LEXER))


def text_of_cells(cells: Sequence[NotebookNode], header: str = "", lexer: str = DEFAULT_LEXER) -> str:
    """Return the MyST text of some cells.

    Raises:
        BookError: a cell cannot be written so that it is read back as it was.
    """
    if not cells:
        return header
    settings = {"default_lexer": lexer, "notebook_metadata_filter": "-all"}
    plain = nbformat.v4.new_notebook(metadata={"jupytext": settings})
    plain.cells = [bare_cell(cell) for cell in cells]
    text = header + split_header(jupytext.writes(plain, fmt="md:myst"))[1]
    again = [cell_digest(cell) for cell in cells_of_text(text)]
    for position, cell in enumerate(plain.cells, 1):
        if again[position - 1 : position] != [cell_digest(cell)]:
            raise BookError(
                f"cell {position}, {headline(cell)}, cannot be written as MyST text and read back as it was"
            )
    return text


def headline(cell: Mapping[str, Any], width: int = 50) -> str:
    """Return a name for a cell that its author knows it by: its kind and its first line."""
    first = cell["source"].strip().split("\n")[0]
    return f"{cell['cell_type']} {(first[:width] + '...' if len(first) > width else first)!r}"


def read_notebook(path: Path) -> NotebookNode:
    """Read a notebook.

    Raises:
        BookError: the file is not a notebook of format 4.
    """
    try:
        return nbformat.read(path, as_version=4)
    except (ValueError, nbformat.reader.NotJSONError, nbformat.ValidationError) as error:
        raise BookError(f"expected a notebook in {shown(path)}: {error}") from error


def write_notebook(path: Path, notebook: NotebookNode) -> None:
    """Write a notebook with a fixed order of keys and one line feed at its end."""
    nbformat.validate(notebook)
    text = json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")


def standard_metadata() -> dict[str, Any]:
    """Return the metadata of every chapter: no release of Python, which differs from machine to machine."""
    return {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
