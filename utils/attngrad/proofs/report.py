"""What the proofs say, for the terminal, for a notebook and for the ledger page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from .claim import Chapter, Claim, Identity, Theorem, Wrong
from .examine import Result, examine, page_formulas
from .ledger import chapter as find_chapter

BADGE = {"PROVED": "success", "EXACT": "success", "ARGUED": "info", "MEASURED": "info",
         "DEFINED": "secondary", "ASSUMED": "secondary", "REFUTED": "danger"}


def verdicts(page: str) -> str:
    """Prove the formulas of a page, mutants left out, and return one line a claim.

    Raises
    ------
    AssertionError
        When a verdict is not the one that its kind of label promises.

    Example
    -------
    >>> print(verdicts("02_softmax_jacobian").splitlines()[0])  # doctest: +SKIP
    eq-answer-jacobian              PROVED
    """
    chapter = find_chapter(page)
    formulas = page_formulas(chapter)
    results = [examine(chapter, formulas, c, mutants=False) for c in chapter.claims]
    faults = [f for r in results for f in r.faults]
    if faults:
        raise AssertionError("\n".join(faults))
    rows = [f"{r.label:<32}{r.verdict.word}{_refuted(r)}" for r in results if not r.label.startswith("def-")]
    return "\n".join([*rows, "", summary(results)])


def _refuted(result: Result) -> str:
    k = len(result.mistakes)
    return f"   ({k} known mistake{'s' * (k > 1)} refuted)" if k else ""


def summary(results: Sequence[Result]) -> str:
    """Return how many claims have which verdict, as one line."""
    count = Counter(r.verdict.word for r in results)
    return f"{len(results)} entries: " + ", ".join(f"{count[w]} {w}" for w in BADGE if count[w])


def row(result: Result) -> str:
    """Return one line of `make proofs`: label, verdict, time, mistakes refuted, mutants killed."""
    refuted = sum(v.word == "REFUTED" for v in result.mistakes.values())
    mutants = ", ".join(f"{k} {what}" for k, what in _counts(result) if k)
    mistakes = f"{refuted}/{len(result.mistakes)} refuted" if result.mistakes else ""
    return f"{result.label:<32}{result.verdict.word:<11}{1000 * result.seconds:7.0f} ms  {mistakes:<13}{mutants}"


def _counts(result: Result) -> tuple[tuple[int, str], ...]:
    return (result.killed, "killed"), (result.equivalent, "say the same"), (result.also_true, "also true")


def ledger_page(found: Sequence[tuple[Chapter, Sequence[Result]]]) -> str:
    """Return the text of ``book/ledger.md``."""
    parts = [_INTRODUCTION.strip()]
    for chapter, results in found:
        killed, same = sum(r.killed for r in results), sum(r.equivalent for r in results)
        parts.append(f"## {{doc}}`../chapters/{chapter.page}`")
        parts.append(f"{summary(results)}. {killed} planted errors rejected, none accepted; {same} further changes leave the meaning as it is.")
        parts += ["\n\n".join(_entry(chapter, chapter[r.label], r)) for r in results]
    return "\n\n".join(parts) + "\n"


def _entry(chapter: Chapter, claim: Claim, result: Result) -> Iterator[str]:
    badge = BADGE[result.verdict.word]
    yield f"(claim-{claim.label})="
    where = f"{{eq}}`{claim.label}`"
    yield f"{{bdg-{badge}}}`{result.verdict.word}` **{claim.label}** {where}: {_detail(claim, result)} Read as `{result.fingerprint}`."
    lines = []
    if claim.uses:
        lines.append("Builds on " + ", ".join(f"{{claim}}`{u}`" for u in claim.uses) + ".")
    if claim.assume:
        lines.append("Assumes " + ", ".join(f"{{claim}}`{a}`" for a in claim.assume) + ".")
    for name, verdict in result.mistakes.items():
        shown = f"{{claim}}`{name}`" if name.startswith("bad-") else f"`{name}`"
        lines.append(f"The mistake {shown} is refuted {verdict.detail}.")
    if result.killed:
        kinds = ((result.killed, "planted errors rejected"), (result.equivalent, "changes say the same"),
                 (result.also_true, "changes give another true statement"))
        lines.append(", ".join(f"{k} {what}" for k, what in kinds if k) + ".")
    if lines:
        yield "\n".join(f"- {line}" for line in lines)


def _detail(claim: Claim, result: Result) -> str:
    if isinstance(claim, Theorem):
        grounds = ", ".join([*(f"{{claim}}`{r}`" for r in claim.rests_on), *claim.classical])
        return f"the proof is on the page and rests on {grounds}. Attacked on {result.verdict.detail}."
    if isinstance(claim, Wrong):
        right = f" Right: {{claim}}`{claim.instead}`." if claim.instead else ""
        return f"wrong, {result.verdict.detail}.{right}"
    if isinstance(claim, Identity) and claim.at:
        return f"{result.verdict.detail}, every entry compared on exact rational numbers."
    return f"{result.verdict.detail}."


_INTRODUCTION = r"""
# The ledger

Every displayed formula of the book that states something has an entry here. The formula itself stands on its page and nowhere else: the proofs read what is printed.

{bdg-success}`PROVED`
: Both sides have the same normal form, for every size. A second program has compared them on exact rational numbers as well.

{bdg-success}`EXACT`
: A worked instance at the stated sizes, compared on exact rational numbers at every entry.

{bdg-info}`ARGUED`
: An inequality or an order. The proof is on the page; the entry names the proved lines and the classical theorems it rests on. A test has tried to break it on random and extreme instances, and where equality is claimed to occur, has found it.

{bdg-info}`MEASURED`
: A numerical fact, measured at each run and compared to the last printed digit.

{bdg-danger}`REFUTED`
: A wrong formula, shown because it is common. The entry gives an exact counterexample.

{bdg-secondary}`DEFINED` and {bdg-secondary}`ASSUMED`
: What the proofs unfold, and what they take for granted. They are read from the page too.

Each formula is also attacked: signs, letters, factors, sums, brackets and numbers are changed one at a time, in the printed string and in the object that was read. An error counts as rejected when the formula can no longer be read, or an exact counterexample exists. A change that leaves the meaning as it is, or turns an inequality or a number into another true statement, is counted apart. The run fails when anything else survives. `make proofs` repeats all of it.

"Read as" is a fingerprint of the object that was read. Spacing, brackets' sizes and colours do not change it; any change of meaning does, also a harmless one, and then this page no longer agrees with the book and the tests fail.
"""
