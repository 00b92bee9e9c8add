"""One formula by itself: how it is read, and what the proofs make of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from .claim import Chapter, Definition, Hypothesis, Identity, LedgerError
from .derive import names_in
from .examine import page_formulas
from .ledger import chapter as find_chapter
from .page import Display
from .prove import Context, definition_of, judge
from .read import Reading, explain, read


def ask(tex: str, page: str, uses: Sequence[str] = (), assume: Sequence[str] = ()) -> str:
    """Return how a formula is read in the notation of a page, and the verdict on it.

    Without ``uses``, the page's definitions of the names in the formula are in force, the first one
    where a name has several; those are listed.

    Raises
    ------
    ReadError
        When the formula cannot be read: the place and the reason.
    LedgerError
        For a label that the page does not have.
    """
    chapter = find_chapter(page)
    formulas = page_formulas(chapter)
    reading = read(tex, chapter.table)
    for label, kinds in (*((u, (Definition, Identity)) for u in uses), *((a, (Hypothesis,)) for a in assume)):
        if label not in formulas:
            raise LedgerError(f"no label {label!r} on {page}")
        if not isinstance(chapter[label], kinds):
            wanted = " or ".join(k.__name__.lower() for k in kinds)
            raise LedgerError(f"{label} is no {wanted}")
    lines = [explain(reading)]
    chosen = list(uses)
    if not uses:
        chosen, open_names = definitions_for(reading, chapter, formulas)
        lines += [
            f"{n} has several definitions: {', '.join(ls)}; the first is taken, --uses takes others"
            for n, ls in open_names.items()
        ]
    claim = Identity("eq-asked", tuple(chosen), tuple(assume))
    lines.append(f"with {', '.join(chosen) or 'no definitions'}:")
    lines.append(str(judge(Context(chapter, formulas, claim), tex)))
    return "\n".join(lines)


def definitions_for(
    reading: Reading, chapter: Chapter, formulas: Mapping[str, Display]
) -> tuple[list[str], dict[str, list[str]]]:
    """Return the labels that define the names of a formula, and the names with more than one."""
    by_name: dict[str, list[str]] = defaultdict(list)
    bodies: dict[str, Reading] = {}
    for claim in chapter.claims:
        if isinstance(claim, Definition) and not claim.at:
            bodies[claim.label] = read(formulas[claim.label].tex, chapter.table)
            by_name[definition_of(claim.label, bodies[claim.label], chapter.table).name].append(claim.label)
    chosen: list[str] = []
    several: dict[str, list[str]] = {}
    todo = sorted(_names(reading))
    while todo:
        name = todo.pop(0)
        labels = by_name.get(name, [])
        if len(labels) > 1:
            several[name] = labels
        if labels and labels[0] not in chosen:
            chosen.append(labels[0])
            todo += sorted(_names(bodies[labels[0]]) - {name})
    return chosen, several


def _names(reading: Reading) -> set[str]:
    return {name for s in reading.statements for side in (s.lhs, s.rhs) for name in names_in(side)}
