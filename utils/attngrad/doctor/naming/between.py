"""What an implementation keeps from call to call, told from repeated runs and from what it did beside."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from attngrad.doctor.case import Case
from attngrad.doctor.judging import bounds
from attngrad.doctor.naming.explaining import Evidence
from attngrad.doctor.outcome import Finding, Outcome
from attngrad.mistakes.whole import right

Tried = tuple[Case, Outcome, tuple[Finding, ...]]
UNINITIALISED = "accumulator-uninitialised"
Key = Callable[[Case], tuple[int, ...]]
KEYS: tuple[Key, ...] = (  # which calls share a buffer, beside those of answers of the same shape
    lambda case: (),
    lambda case: (case.sizes["N"], case.sizes["M"]),
    lambda case: tuple(case.sizes.values()),
)


def kept_between_calls(tried: Sequence[Tried], explained: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Return the ids of mistakes between calls that findings and repeated runs show, each once.

    What was left unwritten in answers that are ``explained`` is left out.
    """
    shown = [pair for one in tried for pair in _of_one(*one)]
    return tuple(dict.fromkeys(id for id, what in shown if id != UNINITIALISED or what not in explained))


def _of_one(case: Case, outcome: Outcome, findings: tuple[Finding, ...]) -> Iterator[tuple[str, str]]:
    """Yield what one case shows, and of which answer."""
    changed = any(finding.kind == "input-changed" for finding in findings)
    for finding in sorted(findings, key=lambda finding: (finding.kind, finding.what)):
        if finding.kind == "input-changed":
            yield "input-overwritten", finding.what
        elif finding.kind == "unwritten":
            yield UNINITIALISED, finding.what
        elif finding.kind == "repeat" and not changed:
            yield _of_repeats(case, outcome, finding.what), finding.what


def _of_repeats(case: Case, outcome: Outcome, name: str) -> str:
    """Return what answers to equal calls show: sums over calls, another order of sums, or what was left."""
    runs = [outcome.answers.get(name), *(answers.get(name) for answers in outcome.repeats)]
    first = runs[0]
    if first is None or any(run is None or run.shape != first.shape for run in runs):
        return UNINITIALISED
    bound = np.broadcast_to(bounds.healthy(case, right(case).answers())[name], first.shape)
    later = [(number, run) for number, run in enumerate(runs) if number]
    if all(_near(run, first, bound) for _, run in later):
        return "sum-order-not-fixed"
    if all(_near(run, (number + 1) * first, (number + 2) * bound) for number, run in later):
        return "output-accumulated-between-calls"
    return UNINITIALISED


def explained_by_calls(tried: Sequence[Tried], found: list[Evidence], between: tuple[str, ...]) -> bool:
    """Say whether every wrong answer is the sum of those of all calls before, where calls are added up."""
    if "output-accumulated-between-calls" not in between:
        return False
    wrong = [(e, name) for e in found for name in e.wrong]
    return any(all(_is_sum(tried, e, name, key) for e, name in wrong) for key in KEYS)


def _is_sum(tried: Sequence[Tried], e: Evidence, name: str, key: Key) -> bool:
    """Say whether an answer is the sum of the right ones of all calls so far that share a buffer with it."""
    total, band = e.exact[name].copy(), e.bound[name] * np.ones(e.exact[name].shape)
    for case, outcome, _ in tried[: e.number]:
        exact = right(case).answers()
        if name in outcome.answers and exact[name].shape == total.shape and key(case) == key(e.case):
            calls = 1 + len(outcome.repeats)
            total += calls * exact[name]
            band = band + calls * bounds.healthy(case, exact)[name]
    return _near(e.got[name], total, band)


def _near(x: np.ndarray, y: np.ndarray, bound: np.ndarray) -> bool:
    """Say whether two answers differ by no more than twice a bound."""
    finite = np.isfinite(y)
    if not np.array_equal(x[~finite], y[~finite], equal_nan=True):
        return False
    return bool((np.abs(x[finite] - y[finite]) <= 2.0 * bound[finite]).all())
