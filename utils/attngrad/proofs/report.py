"""What the proofs say, for the terminal, for a notebook and for the ledger page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from textwrap import fill

from .claim import Chapter, Claim, Identity, Theorem, Wrong
from .examine import Result, examine, page_formulas
from .ledger import chapter as find_chapter
from .page import load
from .witness import describe

WIDTH = 76
BADGE = {
    "PROVED": "success",
    "EXACT": "success",
    "ARGUED": "info",
    "MEASURED": "info",
    "DEFINED": "secondary",
    "ASSUMED": "secondary",
    "REFUTED": "danger",
}


def verdicts(page: str) -> str:
    """Prove the formulas of a page, mutants left out, and return the labels by verdict.

    Raises
    ------
    AssertionError
        When a verdict is not the one that its kind of label promises.
    """
    chapter = find_chapter(page)
    formulas = page_formulas(chapter)
    results = [examine(chapter, formulas, c, mutants=False) for c in chapter.claims]
    faults = [f for r in results for f in r.faults]
    if faults:
        raise AssertionError("\n".join(faults))
    out = []
    for word in ("PROVED", "EXACT", "ARGUED", "MEASURED", "REFUTED"):
        labels = [r.label for r in results if r.verdict.word == word]
        text = fill(
            ", ".join(labels), WIDTH, break_on_hyphens=False, initial_indent="  ", subsequent_indent="  "
        )
        out += [f"{word}: {len(labels)}", text] if labels else []
    mistakes = sum(len(r.mistakes) for r in results)
    return "\n".join([*out, f"known mistakes refuted, those shown on the page included: {mistakes}"])


def summary(results: Sequence[Result]) -> str:
    """Return how many claims have which verdict, as one line."""
    count = Counter(r.verdict.word for r in results)
    return f"{len(results)} entries: " + ", ".join(f"{count[w]} {w}" for w in BADGE if count[w])


def row(result: Result) -> str:
    """Return one line of `make proofs`: label, verdict, time, mistakes refuted, mutants killed."""
    refuted = sum(v.word == "REFUTED" for v in result.mistakes.values())
    mutants = ", ".join(f"{k} {what}" for k, what in _counts(result) if k)
    mistakes = f"{refuted}/{len(result.mistakes)} refuted" if result.mistakes else ""
    return (
        f"{result.label:<32}{result.verdict.word:<11}{1000 * result.seconds:7.0f} ms  {mistakes:<13}{mutants}"
    )


def _counts(result: Result) -> tuple[tuple[int, str], ...]:
    return (result.killed, "killed"), (result.equivalent, "say the same"), (result.also_true, "also true")


def ledger_page(found: Sequence[tuple[Chapter, Sequence[Result]]]) -> str:
    """Return the text of ``book/ledger.md``."""
    parts = [_INTRODUCTION.strip()]
    for chapter, results in found:
        killed, same = sum(r.killed for r in results), sum(r.equivalent for r in results)
        parts.append(f"## {title(load(chapter.page))}")
        parts.append(
            f"{summary(results)}. {killed} planted errors rejected, none accepted; {same} further changes "
            f"leave the meaning as it is. The formulas stand in {{doc}}`../chapters/{chapter.page}`."
        )
        parts.append("Symbols, as the proofs read them:")
        parts.append("\n".join(_symbols(chapter)))
        parts += ["\n".join(_entry(chapter[r.label], r)) for r in results]
    return "\n\n".join(parts) + "\n"


def title(text: str) -> str:
    """Return the first heading of a page."""
    return next(line[2:].strip() for line in text.splitlines() if line.startswith("# "))


def _symbols(chapter: Chapter) -> Iterator[str]:
    """Yield one table row for each kind of symbol: what it is, and which symbols are of that kind."""
    table, groups = chapter.table, {}
    for letter in table.index:
        low, high = table.range(letter)
        groups.setdefault(f"index from ${low}$ to ${high}$", []).append(letter)
    for name, axes in table.names.items():
        shape = r" \times ".join(str(high) for _, high in table.axes(name))
        kind = {"size": "size, an integer from 1", "+": "positive number", (): "number"}.get(
            axes, f"array, ${shape}$"
        )
        groups.setdefault(kind, []).append(name)
    yield "| kind | symbols |"
    yield "|---|---|"
    for kind, names in groups.items():
        yield f"| {kind} | {', '.join(f'${n}$' for n in names)} |"
    if table.kronecker:
        yield f"| one if the indices are equal, else zero | ${table.kronecker}_{{ij}}$ |"


def _entry(claim: Claim, result: Result) -> Iterator[str]:
    """Yield the lines of one claim; a backslash ends a line that must break."""
    yield f"(claim-{claim.label})="
    word = result.verdict.word
    badge = f"{{bdg-{BADGE[word]}}}`{word}`"
    yield f"{badge} **{claim.label}** {{eq}}`{claim.label}` {_detail(claim, result)}\\"
    notes = [f"Builds on {_links(claim.uses)}."] * bool(claim.uses)
    notes += [f"Assumes {_links(claim.assume)}."] * bool(claim.assume)
    shown = [name for name in result.mistakes if name.startswith("bad-")]
    notes += [f"Known mistakes: {_links(shown)}."] * bool(shown)
    notes += [
        f"The mistake `{name}` is refuted {describe(v.witness, '$')}."
        for name, v in result.mistakes.items()
        if name not in shown
    ]
    counts = [
        (result.killed, "planted error rejected", "planted errors rejected"),
        (result.equivalent, "change says the same", "changes say the same"),
        (result.also_true, "change gives another true statement", "changes give other true statements"),
    ]
    if result.killed:
        notes.append(", ".join(f"{k} {one if k == 1 else many}" for k, one, many in counts if k) + ".")
    yield " ".join([*notes, f"Read as `{result.fingerprint}`."])


def _links(labels: Sequence[str]) -> str:
    return ", ".join(f"{{claim}}`{label}`" for label in labels)


def _detail(claim: Claim, result: Result) -> str:
    if isinstance(claim, Theorem):
        grounds = ", ".join([_links(claim.rests_on), *claim.classical])
        return f"by the proof on the page, which rests on {grounds}. Attacked on {result.verdict.detail}."
    if isinstance(claim, Wrong):
        return f"is wrong {describe(result.verdict.witness, '$')}. Right: {_links([claim.instead])}."
    if isinstance(claim, Identity) and claim.at:
        return f"{result.verdict.detail}, every entry proved."
    return f"{result.verdict.detail}."


_INTRODUCTION = r"""
# The ledger

Every displayed formula of the book that states something has an entry here. The formula itself stands on
its page and nowhere else: the proofs read what is printed.

{bdg-success}`PROVED`
: Both sides have the same normal form, for every size. A second program has compared them on exact rational
  numbers as well.

{bdg-success}`EXACT`
: A worked instance at the stated sizes. Every entry has the same normal form on both sides, and was compared
  on exact rational numbers as well.

{bdg-info}`ARGUED`
: An inequality or an order. The proof is on the page; the entry names the proved lines and the classical
  theorems it rests on. A test has tried to break it on random and extreme instances, and where equality is
  claimed to occur, has found it.

{bdg-info}`MEASURED`
: A numerical fact, measured at each run and compared to the last printed digit.

{bdg-danger}`REFUTED`
: A wrong formula, shown as a warning. The entry gives an exact counterexample.

{bdg-secondary}`DEFINED` and {bdg-secondary}`ASSUMED`
: What the proofs unfold, and what they take for granted. They are read from the page too.

Each formula is also attacked: signs, letters, factors, sums, brackets and numbers are changed one at a
time, in the printed string and in the object that was read. An error counts as rejected when the formula
can no longer be read, or an exact counterexample exists. A change that leaves the meaning as it is, or
turns an inequality or a number into another true statement, is counted apart. The run fails when anything
else survives. `make proofs` repeats all of it.

In a counterexample an exponent is printed in units of $\log 2$: $s = (-1, -3)$ means that $e^{s}$ is
$(\frac12, \frac18)$.

An equation is meant wherever both sides have a value: denominators are not zero, and what stands under a
root or a logarithm is not negative. The proofs refuse a formula in which such a condition has been
cancelled away.

"Read as" is a fingerprint of the object that was read and of the words beside it. Spacing, brackets' sizes
and colours do not change it; any change of meaning does, also a harmless one, and then this page no longer
agrees with the book and the tests fail.
"""
