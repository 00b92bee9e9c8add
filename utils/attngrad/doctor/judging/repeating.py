"""Whether runs of the same case give the same answers."""

import numpy as np

from attngrad.doctor.case import Case
from attngrad.doctor.judging.regions import place
from attngrad.doctor.outcome import Finding, Outcome


def findings(
    case: Case, outcome: Outcome, bound: dict[str, np.ndarray], deterministic: bool
) -> list[Finding]:
    """Return a finding for each answer that a later run gives otherwise than the first.

    Bits are compared if equal bits are promised; else two runs may differ by what rounding explains of each.
    """
    found: dict[str, Finding] = {}
    for number, again in enumerate(outcome.repeats, start=2):
        for name, first in outcome.answers.items():
            if name in found or name not in bound:
                continue
            finding = _differs(case, name, first, again.get(name), bound[name], deterministic, number)
            if finding is not None:
                found[name] = finding
    return list(found.values())


def _differs(
    case: Case, name: str, first: np.ndarray, again: np.ndarray | None, bound: np.ndarray,
    deterministic: bool, number: int,
) -> Finding | None:  # fmt: skip
    """Return what is another in a later run than in the first."""
    run = f"run {number} of the same input"
    if again is None:
        return Finding(case.name, name, "repeat", f"{name} is missing in {run}, and was there in the first")
    if again.shape != first.shape:
        text = f"{name} has shape {again.shape} in {run}, and {first.shape} in the first"
        return Finding(case.name, name, "repeat", text)
    with np.errstate(invalid="ignore"):
        off = np.abs(again - first)
    same = (again == first) | (np.isnan(again) & np.isnan(first))
    off = np.where(same, 0.0, np.where(np.isnan(off), np.inf, off))
    limit = np.zeros(first.shape) if deterministic else np.broadcast_to(2.0 * bound, first.shape)
    if not np.any(off > limit):
        return None
    index = tuple(int(k) for k in np.unravel_index(int(np.argmax(off - limit)), off.shape))
    explained = "equal bits are promised" if deterministic else f"rounding explains {limit[index]:.1e}"
    at = f" at {place(name, index)}" if index else ""
    text = f"{name} differs in {run} by {off[index]:.1e} where {explained}{at}: "
    text += f"first {first[index]:.6g}, then {again[index]:.6g}"
    values = (float(again[index]), float(first[index]))
    return Finding(case.name, name, "repeat", text, float(off[index]), float(limit[index]), index, *values)
