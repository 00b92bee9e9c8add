"""Answers for the graders: what a page prints, what it must not tell, and small errors of it."""

import re
from collections.abc import Iterator

from attngrad.exercises import Judgement
from attngrad.exercises.ground import Ground, ground, grounds
from attngrad.exercises.sides import one_sided
from attngrad.proofs.claim import Identity
from attngrad.proofs.examine import page_formulas
from attngrad.proofs.ledger import PAGES, chapter
from attngrad.proofs.mutants import of_string
from attngrad.proofs.read import fingerprint
from attngrad.proofs.read.explain import plain

REASON = re.compile(r"&&\s*\\text\s*\{(?:[^{}]|\{[^{}]*\})*\}|\\end\{(?:aligned|split|gathered)\}")

NEXT = re.compile(r"\\\\|\\q?quad")


def identities(*pages: str) -> list[str]:
    """Return the labels of all identities of some pages, all pages by default."""
    return [c.label for page in pages or PAGES for c in chapter(page).claims if isinstance(c, Identity)]


def printed(label: str) -> str:
    """Return the whole formula of a label in LaTeX."""
    page = next(page for page in PAGES if any(c.label == label for c in chapter(page).claims))
    return page_formulas(chapter(page))[label].tex


def printed_answer(label: str, part: int = 0) -> str:
    """Return the last side of the formula of a label, or of one equation of several, in LaTeX."""
    text = printed(label)[ground(label, part).asked.statements[-1].at + 1 :]
    if len(grounds(label)) > 1:
        text = NEXT.split(text)[0]
    return " ".join(REASON.sub(" ", text).split())


def right_answers(label: str) -> list[str]:
    """Return the printed answers to a label: sides, where a display is one equation or chain, and wholes."""
    parts = grounds(label)
    if len(parts) == 1:
        return [printed_answer(label), printed(label)]
    return [f"{part.left_tex} = {printed_answer(label, k)}" for k, part in enumerate(parts)]


def small_errors(label: str) -> Iterator[str]:
    """Yield the printed answers with one small error each."""
    for part, asked in enumerate(grounds(label)):
        left = f"{asked.left_tex} = " if len(grounds(label)) > 1 else ""
        for _, mutant in of_string(printed_answer(label, part), asked.table):
            yield left + mutant


def secrets(asked: Ground) -> list[str]:
    """Return what would give the answer away: as LaTeX, as SymPy writes it, in words, as a fingerprint.

    An answer that is a number or a name says nothing by itself, since any text may hold it.
    """
    if asked.right.is_number or asked.right.is_Symbol or not asked.right.args:
        return []
    texts = [printed_answer(asked.label), str(asked.right), plain(asked.right)]
    return [squeezed(x) for x in texts] + [fingerprint(one_sided(asked.asked, asked.right))]


def one_line(found: Judgement) -> str:
    """Return what a verdict tells, as one line."""
    return " ".join(found.told.split())


def squeezed(text: str) -> str:
    """Return a text without spaces, since verdicts are filled to a width."""
    return "".join(text.split())


def told_secrets(told: str, asked: Ground, given: str = "") -> list[str]:
    """Return what a verdict gives away that the answer which was given did not hold already."""
    return [x for x in secrets(asked) if x in squeezed(told) and x not in squeezed(given)]
