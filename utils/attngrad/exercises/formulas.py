"""A formula as an answer: proved, or refuted by the smallest exact counterexample, its mistake named."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from attngrad.exercises.answers import Answer, NoAnswer, find_answer
from attngrad.exercises.ground import Ground, grounds
from attngrad.exercises.known import Known
from attngrad.exercises.outcome import Judgement, judgement
from attngrad.exercises.smallest import smallest_failure
from attngrad.exercises.telling import told_of
from attngrad.proofs.prove import judge_reading
from attngrad.proofs.read import Reading, Statement
from attngrad.proofs.sums import CannotDecide
from attngrad.proofs.witness import search


def judge(label: str, answer: Any, names: Sequence[str] | None, derivatives: bool) -> Judgement:
    """Return the verdict on an answer to the question that a label stands for."""
    parts = grounds(label)
    try:
        asked, read = find_answer(parts, answer, names, derivatives)
    except NoAnswer as reason:
        return judgement(False, label, "REFUSED", str(reason))
    verdict = judge_reading(asked.context, read.reading)
    if verdict.word in ("PROVED", "EXACT"):
        if read.clash:
            return judgement(False, label, "REFUSED", f"right, but not as it is written: {read.clash}")
        sizes = ", ".join(f"{name} = {size}" for name, size in asked.context.at.items())
        return judgement(True, label, verdict.word, f"at {sizes}, every entry" if sizes else verdict.detail)
    if verdict.word == "REFUSED":
        return judgement(False, label, "REFUSED", verdict.detail)
    return _not_proved(asked, read, verdict.word, verdict.detail)


def _not_proved(asked: Ground, read: Answer, word: str, detail: str) -> Judgement:
    """Return the verdict on an answer that is not proved: a counterexample, or that none was found."""
    failure = smallest_failure(asked.context, read.reading)
    if failure is None and word != "REFUTED":
        return judgement(False, asked.label, "UNDECIDED", detail)
    if _proves_all(asked, read.reading):
        return judgement(False, asked.label, "UNDECIDED", "proof and oracle disagree about this formula")
    notes = [f"note: {read.clash}. Judged all the same, as the sum binds it."] if read.clash else []
    known = next(_agreeing(asked, read.reading), None)
    if known is not None:
        notes.append(f"known mistake: {known.told}")
    shown = "by an exact counterexample" if asked.asks_for_numbers else detail
    told = shown if failure is None else told_of(asked, read.reading, failure)
    return judgement(False, asked.label, "REFUTED", told, tuple(notes))


def _proves_all(asked: Ground, reading: Reading) -> bool:
    """Say whether the prover proves what the oracle refutes: then one of them errs."""
    try:
        return all(asked.context.proves(s, reading.scope) for s in reading.statements)
    except CannotDecide:
        return False


def _agreeing(asked: Ground, reading: Reading) -> Iterator[Known]:
    """Yield the known mistakes to which an answer is equal, for every size."""
    value = reading.statements[-1].rhs
    for known, wrong in asked.mistakes:
        same = Statement(value, wrong.statements[-1].rhs, "=", "", (), 0)
        scope = reading.scope.with_ranges(wrong.scope.ranges)
        try:
            if search(asked.context.case, (same,), scope.ranges).witness:
                continue
            if asked.context.proves(same, scope):
                yield known
        except CannotDecide:
            continue
