"""Runs the chapters and stores their outputs, or checks the stored ones.

A run is stored only when every output can be made again on another machine: no traceback, nothing on standard
error (a warning prints a path and differs from run to run), no absolute path, no address in memory; and only
when each picture has an alternative text in its cell's metadata, `mystnb: {image: {alt: ...}}`.
"""

import argparse
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from booktools.notebooks import RECORD, VOLATILE, code_digest, headline, read_notebook, write_notebook
from booktools.paths import CHAPTERS, BookError, chapter_files, shown

CELL_LIMIT_S = 300
FIXED_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
FOLDERS = "home|root|tmp|usr|opt|work|mnt|private|Users|var"
UNREPEATABLE = (
    (re.compile(rf"(?<![\w.:/])/(?:{FOLDERS})/[^\s'\"]*"), "an absolute path"),
    (re.compile(r"\b[A-Za-z]:\\\\?\w[^\s'\"]*"), "an absolute path"),
    (re.compile(r"\b0x[0-9a-f]{8,}\b"), "an address in memory"),
    (re.compile(r"Traceback \(most recent call last\)"), "a traceback"),
)


def texts_of_output(output: NotebookNode) -> Iterator[str]:
    """Yield what an output shows as text."""
    if output.output_type == "stream":
        yield output.text
    for kind, content in output.get("data", {}).items():
        if kind.startswith("text/"):
            yield content if isinstance(content, str) else "".join(content)


def output_faults(cell: NotebookNode) -> list[str]:
    """Say what is wrong with the outputs of one code cell."""
    told = []
    for output in cell.outputs:
        if output.output_type == "error":
            told.append(f"an error, {output.ename}: {output.evalue}")
        elif output.output_type == "stream" and output.name == "stderr":
            told.append(f"text on standard error: {output.text.strip().splitlines()[-1]!r}")
        for text in texts_of_output(output):
            for pattern, what in UNREPEATABLE:
                if found := pattern.search(text):
                    told.append(f"{what} in an output: {found.group()!r}")
        if any(kind.startswith("image/") for kind in output.get("data", {})):
            alternative = cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
            if not alternative.strip():
                told.append("a picture without alternative text: expected `mystnb: {image: {alt: ...}}`")
    return told


def code_cells(notebook: NotebookNode) -> list[tuple[int, NotebookNode]]:
    """Return the code cells of a notebook with their positions, counted from 1 over all cells."""
    return [(k, cell) for k, cell in enumerate(notebook.cells, 1) if cell.cell_type == "code"]


def faults(path: Path, notebook: NotebookNode) -> list[str]:
    """Say what is wrong with the outputs of a whole notebook, each fault with its place."""
    return [
        f"{shown(path)}, cell {position}, {headline(cell)}: {fault}"
        for position, cell in code_cells(notebook)
        for fault in output_faults(cell)
    ]


def staleness(path: Path, notebook: NotebookNode) -> list[str]:
    """Say whether the stored outputs are those of the code as it is now."""
    if notebook.metadata.get(RECORD, {}).get("executed") == code_digest(notebook):
        return []
    return [f"{shown(path)}: its code was edited after its last run: `make chapters NB={path.name[:2]}`"]


def run_cells(path: Path, notebook: NotebookNode) -> None:
    """Run the code cells in order in the chapter's own folder, showing each cell as it goes.

    Raises:
        BookError: a cell failed, took too long or ended its kernel.
    """
    folder = {"metadata": {"path": str(path.parent)}}
    # Where a kernel cuts what a cell prints into pieces differs from run to run.
    options = {"record_timing": False, "coalesce_streams": True, "resources": folder}
    client = NotebookClient(notebook, timeout=CELL_LIMIT_S, **options)
    cells = code_cells(notebook)
    with client.setup_kernel():
        for done, (position, cell) in enumerate(cells, 1):
            start = time.monotonic()
            print(f"  {path.stem} [{done}/{len(cells)}] {headline(cell)}", end="", flush=True)
            try:
                client.execute_cell(cell, position - 1, execution_count=done)
            except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
                print()
                told = COLOUR.sub("", str(error)).strip()
                raise BookError(f"{shown(path)}, cell {position}, {headline(cell)}:\n{told}") from error
            print(f"  {time.monotonic() - start:.1f} s", flush=True)


def settle(notebook: NotebookNode) -> None:
    """Drop what differs from run to run and number the cells by their order."""
    for done, (_, cell) in enumerate(code_cells(notebook), 1):
        for key in VOLATILE & set(cell.metadata):
            del cell.metadata[key]
        cell.execution_count = done
        for output in cell.outputs:
            output.pop("transient", None)
            if output.output_type == "execute_result":
                output.execution_count = done
    notebook.metadata["language_info"] = {"name": "python"}
    notebook.metadata.setdefault(RECORD, {})["executed"] = code_digest(notebook)


def execute(path: Path) -> None:
    """Run one chapter and store its outputs.

    Raises:
        BookError: a cell failed or an output cannot be made again elsewhere; what was stored stays.
    """
    notebook = read_notebook(path)
    for _, cell in code_cells(notebook):
        cell.outputs, cell.execution_count = [], None
    run_cells(path, notebook)
    settle(notebook)
    if told := faults(path, notebook):
        raise BookError("\n".join(told))
    write_notebook(path, notebook)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chapters, or with --check judge their stored outputs; the exit status is 1 on any fault."""
    parser = argparse.ArgumentParser(prog="python -m booktools.execute", description=__doc__)
    parser.add_argument("number", nargs="?", default="", help="one chapter, such as 02")
    parser.add_argument("--check", action="store_true", help="run nothing, judge what is stored")
    options = parser.parse_args(arguments)
    os.environ.update(FIXED_ENVIRONMENT)
    failed = False
    try:
        for path in chapter_files(CHAPTERS, ".ipynb", options.number):
            if options.check:
                notebook = read_notebook(path)
                told = staleness(path, notebook) + faults(path, notebook)
                failed |= bool(told)
                print("\n".join(told) if told else f"{shown(path)}: outputs are those of its code")
            else:
                execute(path)
                print(f"{shown(path)}: outputs stored")
    except BookError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
