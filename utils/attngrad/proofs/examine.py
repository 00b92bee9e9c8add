"""Everything that is asked of one claim: its verdict, its known mistakes, its mutants."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from . import floats
from .claim import Chapter, Claim, Definition, Hypothesis, Identity, LedgerError, Number, Theorem, Wrong
from .mutants import of_reading, of_string
from .page import Display, displays, load
from .prove import Context, Verdict, definition_of, judge, judge_reading, rule_of
from .read import ReadError, Reading, fingerprint, read
from .witness import BadPlant

GOOD = {
    "eq-": ("PROVED", "EXACT"),
    "def-": ("DEFINED", "ASSUMED"),
    "thm-": ("ARGUED",),
    "bad-": ("REFUTED",),
    "num-": ("MEASURED",),
}
DEAD = ("REFUTED", "REFUSED")


@dataclass
class Result:
    """The outcome of one claim.

    ``equivalent`` counts changes of the formula that leave its meaning as it is, ``also_true`` changes
    of an inequality or a number that give another true statement, such as one digit less. The
    fingerprint, which the ledger page holds, tells those from the formula itself.
    """

    label: str
    verdict: Verdict
    seconds: float = 0.0
    mistakes: dict[str, Verdict] = field(default_factory=dict)
    fingerprint: str = ""
    killed: int = 0
    equivalent: int = 0
    also_true: int = 0
    alive: list[tuple[str, str, str]] = field(default_factory=list)
    mutant_seconds: float = 0.0

    @property
    def faults(self) -> list[str]:
        """Return what is wrong with this claim, one sentence each."""
        out = []
        prefix = self.label.partition("-")[0] + "-"
        if self.verdict.word not in GOOD[prefix]:
            out.append(f"{self.label}: {self.verdict}")
        out += [
            f"{self.label}: the mistake {name} is not refuted: {v}"
            for name, v in self.mistakes.items()
            if v.word != "REFUTED"
        ]
        out += [f"{self.label}: a mutant survives ({kind}): {text} ({why})" for kind, text, why in self.alive]
        return out


def page_formulas(chapter: Chapter, text: str | None = None) -> dict[str, Display]:
    """Return the labelled displays of the chapter's page.

    Raises
    ------
    LedgerError
        When a label of the page is not in the ledger, or the ledger names one that the page lacks.
    """
    formulas = {
        d.label: d for d in displays(load(chapter.page) if text is None else text, chapter.page) if d.label
    }
    claimed = {c.label for c in chapter.claims}
    unknown = sorted(set(formulas) - claimed)
    missing = sorted(claimed - set(formulas))
    if unknown:
        raise LedgerError(f"{chapter.page}: displays without a ledger entry: {', '.join(unknown)}")
    if missing:
        raise LedgerError(f"{chapter.page}: ledger entries without a display: {', '.join(missing)}")
    return formulas


def verdict(
    chapter: Chapter, formulas: Mapping[str, Display], claim: Claim, tex: str | None = None
) -> Verdict:
    """Return the verdict on a claim, or on ``tex`` in its place."""
    text = formulas[claim.label].tex if tex is None else tex
    if isinstance(claim, Theorem):
        return Verdict(*floats.attack(chapter, formulas, claim, text))
    if isinstance(claim, Number):
        return Verdict(*floats.measure(chapter, formulas, claim, text))
    if isinstance(claim, (Definition, Hypothesis)):
        return _definition(chapter, formulas, claim, text)
    return judge(Context(chapter, formulas, claim), text, quote=isinstance(claim, Wrong))


def mark(tex: str, reading: Reading) -> str:
    """Return a short name for what a reader sees: the object that was read, and the words beside it."""
    words = re.findall(r"\\(?:text|textrm|textit|mbox|intertext)\s*\{([^{}]*)\}", tex)
    shown = "|".join([fingerprint(reading), *(" ".join(w.split()) for w in words)])
    return hashlib.sha256(shown.encode()).hexdigest()[:8]


def lines_without_reason(tex: str, reading: Reading) -> list[int]:
    """Return the lines of a derivation over several lines whose reason is missing: a word at least."""
    if len(reading.statements) < 2 or r"\\" not in tex:
        return []
    return [k for k, s in enumerate(reading.statements, start=1) if not re.search(r"[A-Za-z]{3}", s.reason)]


def _definition(chapter: Chapter, formulas: Mapping[str, Display], claim: Claim, tex: str) -> Verdict:
    try:
        reading = read(tex, chapter.table_of(claim))
        if isinstance(claim, Hypothesis):
            for statement in reading.statements:
                rule_of(claim.label, statement, reading, chapter.table_of(claim))
            return Verdict("ASSUMED", "numbers that satisfy it are planted")
        definition_of(claim.label, reading, chapter.table_of(claim))
    except (ReadError, LedgerError) as error:
        return Verdict("REFUSED", str(error))
    return Verdict("DEFINED", "what proofs unfold")


def examine(chapter: Chapter, formulas: Mapping[str, Display], claim: Claim, mutants: bool = True) -> Result:
    """Return the verdict on one claim, on every known mistake and on every mutant."""
    start = time.process_time()
    result = Result(claim.label, verdict(chapter, formulas, claim))
    if result.verdict.word != "REFUSED":
        reading = read(formulas[claim.label].tex, chapter.table_of(claim), quote=isinstance(claim, Wrong))
        result.fingerprint = mark(formulas[claim.label].tex, reading)
        if bare := lines_without_reason(formulas[claim.label].tex, reading):
            result.verdict = Verdict("REFUSED", f"line {bare[0]} of the derivation gives no reason")
    if mistakes := _mistakes(chapter, formulas, claim):
        context = Context(chapter, formulas, claim)
        result.mistakes = {name: judge(context, tex, quote=True) for name, tex in mistakes.items()}
    result.seconds = time.process_time() - start
    if mutants and not result.faults:
        start = time.process_time()
        for kind, text, found in _mutants(chapter, formulas, claim):
            if found.word in DEAD:
                result.killed += 1
            elif found.word in ("PROVED", "SAME"):
                result.equivalent += 1
            elif found.word in ("ARGUED", "MEASURED"):
                result.also_true += 1
            else:
                result.alive.append((kind, text, str(found)))
        result.mutant_seconds = time.process_time() - start
    return result


def _mistakes(chapter: Chapter, formulas: Mapping[str, Display], claim: Claim) -> dict[str, str]:
    """Return the known wrong forms: the page's own ``bad-`` formulas and those of the claim."""
    if not isinstance(claim, Identity):
        return {}
    shown = {
        c.label: formulas[c.label].tex
        for c in chapter.claims
        if isinstance(c, Wrong) and c.instead == claim.label
    }
    return {**shown, **claim.mistakes}


def _mutants(
    chapter: Chapter, formulas: Mapping[str, Display], claim: Claim
) -> Iterator[tuple[str, str, Verdict]]:
    """Yield (kind, text, verdict) of every mutant; ``SAME`` marks one that reads as the same object."""
    if isinstance(claim, Wrong):
        return
    tex = formulas[claim.label].tex
    original = read(tex, chapter.table_of(claim))
    same = fingerprint(original)
    context = Context(chapter, formulas, claim) if isinstance(claim, Identity) else None
    for kind, mutant in of_string(tex, chapter.table):
        yield kind, mutant, _judge_mutant(chapter, formulas, claim, context, same, mutant)
    if context is not None:
        for kind, reading in of_reading(original):
            yield kind, f"object of {claim.label}", judge_reading(context, reading)


def _judge_mutant(chapter, formulas, claim, context, same, mutant) -> Verdict:
    try:
        if fingerprint(read(mutant, chapter.table_of(claim))) == same:
            return Verdict("SAME")
    except ReadError as error:
        return Verdict("REFUSED", str(error))
    if context is not None:
        return judge(context, mutant, cross_check=False)
    if isinstance(claim, (Definition, Hypothesis)):
        return _mutated_definition(chapter, formulas, claim, mutant)
    return verdict(chapter, formulas, claim, mutant)


def _mutated_definition(
    chapter: Chapter, formulas: Mapping[str, Display], claim: Claim, mutant: str
) -> Verdict:
    """A wrong definition is dead when a claim that builds on it fails; which one is named."""
    if verdict(chapter, formulas, claim, mutant).word == "REFUSED":
        return Verdict("REFUSED")
    changed = {**formulas, claim.label: replace(formulas[claim.label], tex=mutant)}
    dependents = [
        c for c in chapter.claims if isinstance(c, Identity) and claim.label in _builds_on(chapter, c)
    ]
    for other in dependents:
        try:
            # A counterexample is enough here; whether the prover agrees is asked of the printed formula.
            found = judge(Context(chapter, changed, other), changed[other.label].tex, cross_check=False)
        except (BadPlant, LedgerError) as error:
            return Verdict("REFUTED", str(error))
        except ReadError as error:
            return Verdict("REFUSED", str(error))
        if found.word not in GOOD["eq-"]:
            return Verdict("REFUTED", f"{other.label} fails: {found.word}")
    if isinstance(claim, Definition):
        same = Identity("eq-same", (claim.label,), at=claim.at)
        if judge(Context(chapter, formulas, same), mutant).word in GOOD["eq-"]:
            return Verdict("SAME", "it follows from the definition as printed")
    return Verdict("UNDECIDED", f"all {len(dependents)} claims that build on it still hold")


def _builds_on(chapter: Chapter, claim: Claim) -> set[str]:
    uses, assume = chapter.closure(claim)
    return {*uses, *assume}
