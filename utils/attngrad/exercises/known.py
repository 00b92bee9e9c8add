"""The known mistakes about a left side: the page's own, the ledger's, and the graders'."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from attngrad.exercises.distractors import DISTRACTORS
from attngrad.exercises.outcome import told_of_mistake
from attngrad.exercises.sides import aligned, left_of
from attngrad.proofs.claim import Chapter, Claim, Identity, LedgerError, Wrong
from attngrad.proofs.derive import names_in
from attngrad.proofs.page import Display
from attngrad.proofs.prove import Context
from attngrad.proofs.read import Reading, read


@dataclass(frozen=True)
class Known:
    """A known mistake: what is told about it, its formula, and the claim whose ground it needs."""

    told: str
    tex: str
    claim: Claim


def known_mistakes(page: Chapter, formulas: Mapping[str, Display], claim: Identity) -> list[Known]:
    """Return the mistakes with the left side of a claim, those of identities with the same one included."""
    siblings = {c.label: c for c in page.claims if _same_question(page, formulas, claim, c)}
    found = []
    for other in page.claims:
        if isinstance(other, Wrong) and other.instead in siblings:
            told = told_of_mistake(other.mistake or other.label, other.label)
            found.append(Known(told, formulas[other.label].tex, other))
    for sibling in siblings.values():
        for name, tex in {**sibling.mistakes, **DISTRACTORS.get(sibling.label, {})}.items():
            found.append(Known(told_of_mistake(name), tex, sibling))
    return found


def _same_question(page: Chapter, formulas: Mapping[str, Display], one: Identity, other: Claim) -> bool:
    """Say whether two identities have one left side, on the same ground or on more of it."""
    if not isinstance(other, Identity) or (one.at, one.assume) != (other.at, other.assume):
        return False
    grounds = [set(page.closure(claim)[0]) for claim in (one, other)]
    nested = grounds[0] <= grounds[1] or grounds[1] <= grounds[0]
    return nested and left_of(formulas[one.label].tex) == left_of(formulas[other.label].tex)


def widened(
    page: Chapter, formulas: Mapping[str, Display], claim: Identity, known: Sequence[Known]
) -> Identity:
    """Return the claim with the definitions that only a known mistake needs.

    A definition is added only where it gives a meaning to names that the claim does not speak of.
    """
    left = read(formulas[claim.label].tex, page.table_of(claim)).statements[0].lhs
    for label in dict.fromkeys(label for mistake in known for label in mistake.claim.uses):
        wider = replace(claim, uses=(*claim.uses, label))
        if label in page.closure(claim)[0] or page[label].at not in ({}, claim.at):
            continue
        try:
            here, there = Context(page, formulas, claim), Context(page, formulas, wider)
        except LedgerError:
            continue
        spoken = names_in(left).union(*(names_in(d.body) for d in here.definitions.values()))
        if not (set(there.definitions) - set(here.definitions)) & spoken:
            claim = wider
    return claim


def readings(known: Sequence[Known], context: Context, asked: Reading) -> Iterator[tuple[Known, Reading]]:
    """Yield each mistake as it is read, if it speaks of the very left side that is asked."""
    for mistake in known:
        reading = aligned(read(mistake.tex, context.table, quote=True), asked, context.definitions)
        if reading is not None:
            yield mistake, reading
