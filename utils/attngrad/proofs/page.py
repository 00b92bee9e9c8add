"""The displays of a chapter's text: the only source of every labelled formula."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LABEL = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_FENCE = re.compile(r"^\s*(`{3,}|:{3,}|~{3,})\s*(\{[\w:-]+\}|[\w+-]*)")
_CLOSE = re.compile(r"^(?P<tex>.*?)\$\$\s*(?:\((?P<label>[^)]*)\))?\s*$")
_COMMENT = re.compile(r"<!--.*?-->|^%.*?$", re.S | re.M)
_VERBATIM = ("{code-cell}", "{literalinclude}", "{code-block}")


class PageError(ValueError):
    """A text whose displays cannot be told apart, with the line at fault."""


@dataclass(frozen=True)
class Display:
    """One displayed formula: its label (None when it has none), its TeX and its first line."""

    label: str | None
    tex: str
    line: int
    page: str


def displays(text: str, page: str = "text") -> list[Display]:
    r"""Return the displays of a MyST text, in order; code is passed over.

    Raises
    ------
    PageError
        For a display without an end, a malformed label, or a label given twice.

    Example
    -------
    >>> displays("$$\nx = y\n$$ (eq-one)")[0].label
    'eq-one'
    """
    found: list[Display] = []
    for start, tex, label in _raw(text, page):
        if label is not None and not LABEL.fullmatch(label):
            raise PageError(
                f"{page}:{start}: a label is lower-case letters, digits and hyphens; got {label!r}"
            )
        if label is not None and any(d.label == label for d in found):
            raise PageError(f"{page}:{start}: the label {label!r} is given twice")
        found.append(Display(label, tex.strip(), start, page))
    return found


def _raw(text: str, page: str) -> Iterator[tuple[int, str, str | None]]:
    """Yield (line, TeX, label) of each ``$$`` display outside verbatim blocks and comments."""
    lines = _COMMENT.sub(lambda m: "\n" * m[0].count("\n"), text).split("\n")
    at, open_fences = 0, []
    while at < len(lines):
        line = lines[at]
        at += 1
        if fence := _FENCE.match(line):
            _follow(open_fences, fence[1], fence[2])
        if (open_fences and open_fences[-1][1]) or not line.lstrip().startswith("$$"):
            continue
        start, body = at, line.lstrip()[2:]
        while not (end := _CLOSE.match(body.split("\n")[-1])):
            if at == len(lines):
                raise PageError(f"{page}:{start}: this display has no closing $$")
            body += "\n" + lines[at]
            at += 1
        head = body.rsplit("\n", 1)[0] + "\n" if "\n" in body else ""
        yield start, head + end["tex"], end["label"]


def _follow(open_fences: list[tuple[str, bool]], fence: str, info: str) -> None:
    """Open or close a block: ``open_fences`` holds each open fence and whether its content is verbatim."""
    if open_fences:
        opened, verbatim = open_fences[-1]
        if not info and fence[0] == opened[0] and len(fence) >= len(opened):
            open_fences.pop()
            return
        if verbatim:
            return
    open_fences.append((fence, info in _VERBATIM or not info.startswith("{")))


def book_root(start: Path | None = None) -> Path:
    """Return the folder of the book's sources: ``start``, else ``$ATTNGRAD_BOOK``, else the library's own.

    Raises
    ------
    FileNotFoundError
        When the library is installed without the book beside it.
    """
    named = os.environ.get("ATTNGRAD_BOOK")
    root = start or (Path(named) if named else Path(__file__).resolve().parents[3])
    if not (root / "book" / "text").is_dir():
        raise FileNotFoundError(
            f"the proofs read the formulas of book/text, and {root} has no such folder: "
            "clone the book and install it with `pip install -e .`, or name its folder with --book"
        )
    return root


def load(page: str, root: Path | None = None) -> str:
    """Return the text of one chapter, for example ``02_softmax_jacobian``."""
    return (book_root(root) / "book" / "text" / f"{page}.md").read_text(encoding="utf-8")
