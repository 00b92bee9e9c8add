"""What is wrong with the answers of a case, by how much, and where."""

from collections.abc import Iterable

import numpy as np

from attngrad.doctor.case import Case
from attngrad.doctor.judging import bounds, low, repeating
from attngrad.doctor.judging.exact import answers
from attngrad.doctor.judging.laws import broken
from attngrad.doctor.judging.precision import lack
from attngrad.doctor.judging.regions import place, region, what_stands_there
from attngrad.doctor.outcome import KINDS, Finding, Outcome
from attngrad.doctor.spec import Spec

SEVERITY = {kind: rank for rank, kind in enumerate((
    "crash", "hang", "error", "guard", "input-changed", "nan", "wrong", "unwritten", "missing", "shape",
    "repeat", "probe", "law", "imprecise",
))}  # fmt: skip


def verdict(findings: Iterable[Finding]) -> str:
    """Return "healthy" without findings, "imprecise" if precision is all that is wrong, else "wrong".

    >>> verdict([Finding("long", "dtable", "imprecise", "")])
    'imprecise'
    """
    kinds = {finding.kind for finding in findings}
    if not kinds:
        return "healthy"
    return "imprecise" if kinds == {"imprecise"} else "wrong"


def judge(case: Case, outcome: Outcome, spec: Spec) -> tuple[Finding, ...]:
    """Return what is wrong with the outcome of a case, worst first: a finding for each answer and fault.

    An answer is "wrong" beyond `bounds.healthy`, and "imprecise" within `bounds.low_precision` if its error
    is no constant factor and small beside the answer. A formula is right only if cases of full precision are
    right too: `verdict` takes the worst of all.
    """
    if outcome.status == "unsupported":
        return ()
    if outcome.status != "ok":
        text = f"{KINDS[outcome.status]}: {outcome.text}" if outcome.text else KINDS[outcome.status]
        return (Finding(case.name, "case", outcome.status, text),)
    with np.errstate(over="ignore", invalid="ignore"):  # of what stood in memory that was never written
        return tuple(sorted(_findings(case, outcome, spec), key=_rank))


def _findings(case: Case, outcome: Outcome, spec: Spec) -> list[Finding]:
    """Return what is wrong with the answers of a case, and its faults."""
    found = [_fault(case, fault) for fault in outcome.faults]
    exact = answers(case)
    bound = bounds.healthy(case, exact)
    misshapen = {finding.what for finding in found if finding.kind == "shape"}
    for name, want in exact.items():
        got = outcome.answers.get(name)
        if got is None:
            if name not in misshapen and (name != "lse" or spec.has("lse")):
                found.append(Finding(case.name, name, "missing", f"{name} is missing: {KINDS['missing']}"))
            continue
        finding = judge_answer(case, name, got, want, np.broadcast_to(bound[name], want.shape))
        found += [] if finding is None else [finding]
    found += repeating.findings(case, outcome, bound, spec.deterministic)
    imprecise = {finding.what for finding in found if finding.kind == "imprecise"}
    precise = {name: x for name, x in outcome.answers.items() if name not in imprecise}
    return found + broken(case, precise, bound)


def _rank(finding: Finding) -> tuple[int, float]:
    """Return the place of a finding: its kind, then by how many times its bound it is off."""
    return SEVERITY[finding.kind], -finding.error / finding.bound if finding.bound else 0.0


def _fault(case: Case, fault: str) -> Finding:
    """Return the finding of a fault, "kind: sentence", whose sentence starts with what it is about."""
    kind, _, text = fault.partition(": ")
    if kind not in KINDS or not text:
        kind, text = "error", fault
    return Finding(case.name, text.split(" ", 1)[0].strip("',:"), kind, text)


def judge_answer(
    case: Case, name: str, got: np.ndarray, want: np.ndarray, bound: np.ndarray
) -> Finding | None:
    """Return what is wrong with one answer, None if rounding explains it."""
    if got.shape != want.shape:
        text = f"{name} has shape {got.shape}, expected {want.shape}"
        return Finding(case.name, name, "shape", text)
    empty = np.isneginf(want)
    if np.any(empty & (got != want)):
        return _not_empty(case, name, got, want, empty)
    finite = np.isfinite(got) | empty
    if not finite.all():
        return _not_finite(case, name, got, want, ~finite)
    got, want = (np.where(empty, 0.0, x) for x in (got, want))
    error = np.abs(got - want)
    wrong = error > bound
    if not wrong.any():
        return None
    level = lack(case, name, got, want, bound)
    return _off(case, name, got, want, bound, error, wrong, level)


def _not_empty(case: Case, name: str, got: np.ndarray, want: np.ndarray, empty: np.ndarray) -> Finding:
    """Return the finding of a number where a query has no key."""
    wrong = empty & (got != want)
    index = tuple(int(k) for k in np.argwhere(wrong)[0])
    text = f"{name} is {got[index]:.6g} for a query without a key at {place(name, index)}: want -inf"
    return Finding(case.name, name, "wrong", text, np.inf, 0.0, index, float(got[index]), -np.inf)


def _not_finite(case: Case, name: str, got: np.ndarray, want: np.ndarray, wrong: np.ndarray) -> Finding:
    """Return the finding of entries that are NaN or infinite."""
    index = tuple(int(k) for k in np.argwhere(wrong)[0])
    value = "NaN" if np.isnan(got[index]) else f"{got[index]:.6g}"
    where = region(name, wrong)
    text = f"{name} has {int(wrong.sum())} of {wrong.size} entries that are NaN or infinite, the first at "
    text += f"{place(name, index)}: got {value}, want {want[index]:.6g}{'; ' + where if where else ''}"
    return Finding(case.name, name, "nan", text, np.inf, 0.0, index, float(got[index]), float(want[index]))


def _pair(got: float, want: float) -> str:
    """Return two numbers in as many digits as it takes to tell them apart, six at least."""
    digits = next((n for n in (6, 9, 12) if f"{got:.{n}g}" != f"{want:.{n}g}"), 17)
    return f"got {got:.{digits}g}, want {want:.{digits}g}"


def _off(
    case: Case, name: str, got: np.ndarray, want: np.ndarray, bound: np.ndarray, error: np.ndarray,
    wrong: np.ndarray, level: str | None,
) -> Finding:  # fmt: skip
    """Return the finding of an answer that is off, at the entry that is off most."""
    index = tuple(int(k) for k in np.unravel_index(int(np.argmax(np.where(wrong, error, -1.0))), error.shape))
    text = f"{name} is off by {error[index]:.1e} where rounding explains {bound[index]:.1e}"
    text += f", worst at {place(name, index)}" if index else ""
    text += f": {_pair(float(got[index]), float(want[index]))}"
    if level is None:
        more = (region(name, wrong), what_stands_there(case, got, want, bound, wrong))
    else:
        more = (f"the formula is right, {low.told(level, name, case)}",)
    text = "; ".join([text, *filter(None, more)])
    kind = "wrong" if level is None else "imprecise"
    return Finding(
        case.name, name, kind, text, float(error[index]), float(bound[index]), index, float(got[index]),
        float(want[index]),
    )  # fmt: skip
