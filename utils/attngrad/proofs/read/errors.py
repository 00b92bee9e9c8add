"""The reader's one error: what is wrong, where, and what was perhaps meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ReadError(ValueError):
    """A formula that is not read, with the place that stopped the reader.

    ``message`` says what is wrong, ``position`` counts characters from 0, ``line`` and ``column``
    count from 1. Its text shows the line with a caret under the place.
    """

    def __init__(self, message: str, text: str, position: int):
        position = min(max(position, 0), len(text))
        start = text.rfind("\n", 0, position) + 1
        end = text.find("\n", position)
        shown = text[start : end if end >= 0 else len(text)].replace("\t", " ")
        self.message = message
        self.position = position
        self.line = text.count("\n", 0, position) + 1
        self.column = position - start + 1
        where = f"line {self.line}, column {self.column}"
        super().__init__(f"{message} ({where})\n  {shown}\n  {' ' * (position - start)}^")


class TableError(ValueError):
    """A notation table that gives one symbol two meanings, or two meanings one look."""


def near(word: str, known: Iterable[str], limit: int = 4) -> list[str]:
    r"""Return the known names that somebody who wrote ``word`` may have meant.

    Example
    -------
    >>> near(r"\bar{w}", [r"\bar{v}", "s", "W"])
    ['\\bar{v}']
    """
    names = sorted(set(known))
    bare = word.lower().strip("\\'\"")
    same = [n for n in names if n.lower().strip("\\") == bare]
    close = difflib.get_close_matches(word, names, n=limit, cutoff=0.6)
    holding = [n for n in names if len(bare) > 2 and bare in n.lower()]
    return list(dict.fromkeys(same + close + holding))[:limit]


def unknown(word: str, known: Iterable[str], what: str = "symbol") -> str:
    """Return the message for a name that the notation table does not have."""
    meant = near(word, known)
    hint = f"; near it: {', '.join(meant)}" if meant else ""
    return f"unknown {what} {word}: not in the notation table{hint}"
