"""What a grader answers."""

from dataclasses import dataclass
from textwrap import fill

from attngrad.mistakes import MISTAKES

WIDTH = 76


@dataclass(frozen=True, repr=False)
class Judgement:
    """A verdict on an answer: ``word``, what is told about it, and whether it is right.

    Formulas are PROVED, EXACT (a worked instance), REFUTED, REFUSED (not an answer, or not readable) or
    UNDECIDED; functions RIGHT or WRONG. Printed, it says all of it and never the answer.
    """

    ok: bool
    word: str
    told: str

    def __str__(self) -> str:
        return self.told

    __repr__ = __str__


def judgement(ok: bool, name: str, word: str, detail: str = "", notes: tuple[str, ...] = ()) -> Judgement:
    """Return a verdict with its text: one paragraph for the detail, one for each note, lines as they are.

    >>> judgement(False, "eq-x", "REFUTED", "at n = 1: left side 0, your formula 1")
    eq-x: REFUTED at n = 1: left side 0, your formula 1
    """
    head = " ".join(filter(None, (f"{name}: {word}", detail)))
    return Judgement(ok, word, "\n".join(map(_paragraph, (head, *notes))))


def _paragraph(text: str) -> str:
    """Return a text with its first line filled to the width of a page; further lines keep their columns."""
    first, line_end, rest = text.partition("\n")
    filled = fill(first, WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return filled + line_end + rest


def told_of_mistake(name: str, shown: str = "") -> str:
    """Return a mistake by name, where a page shows it, what it does and where it was seen, if on record.

    >>> told_of_mistake("the scale lost")
    'the scale lost'
    """
    record = MISTAKES.get(name)
    told = f"{name}, shown as {shown}" if shown not in ("", name) else name
    if record is None:
        return told
    what = (record.function.__doc__ or "").strip().partition("\n")[0]
    return f"{told}. {what} Seen: {record.seen}."
