"""Measuring: every contender is checked against the reference before any is timed."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from attngrad import checks
from attngrad.bench.fingerprint import fingerprint
from attngrad.bench.memory import LONG_S, cpu_peak, cuda_peak
from attngrad.bench.provenance import provenance
from attngrad.bench.results import Row, Run
from attngrad.bench.spec import (
    ITEM_BYTES,
    Call,
    Case,
    Contender,
    Operator,
    Tensors,
    Unavailable,
    draw,
)
from attngrad.bench.timing import Clock, CpuClock, CudaClock, Spread, interleave, ratios, spread
from attngrad.bench.tuning import SAMPLES, is_tuned, pages, tuned_run
from attngrad.checks.compare import real_array

CLOCKS = {"cpu": CpuClock, "cuda": CudaClock}
ROUNDS, SAMPLE_S = 11, 0.01
LEFT_OUT = "left out: compiling takes long"


def measure(
    operator: Operator,
    case: Case,
    device: str,
    *,
    rounds: int | None = None,
    sample_s: float | None = None,
    compiled: bool = True,
    memory: bool = False,
    flush: bool = False,
    clock: Clock | None = None,
    say: Callable[[str], None] = lambda told: None,
) -> Run:
    """Check all contenders of an operator on one case, then time them in turns.

    Without ``compiled`` those that need a compiler are left out. ``memory`` also measures peak memory, on the
    CPU in a process for each contender. ``flush`` empties the cache of a CUDA device before each call.
    Without ``rounds`` or ``sample_s`` those of the case are taken; more rounds than it has are not.

    Raises: AssertionError for a contender that is wrong or changes its inputs; nothing is timed then.
    """
    rounds, sample_s = _extent(case, rounds, sample_s)
    if case.tuned and not is_tuned():
        return tuned_run(operator.name, case.name, rounds, sample_s, compiled)
    inputs = draw(operator.shapes(case.sizes), case.dtype, device)
    contenders = operator.on(device, case)
    codes = {one.name: code_of(operator, one, device) for one in contenders}
    calls, notes = build(contenders, inputs, compiled, say)
    say("checking")
    checked = {one.name: calls[one.name] for one in contenders if one.name in calls and not one.bound}
    plain = None if contenders[0] is operator.contenders[0] else operator.plain_in_strips(inputs)
    judged = verify(operator, checked, inputs, case.dtype, plain)
    say("timing")
    clock = clock or (CudaClock(flush) if device == "cuda" else CpuClock())
    times = interleave(calls, clock, rounds=rounds, sample_s=sample_s)
    compared = ratios(times, to=contenders[0].name)
    peaks = peaks_of(operator, case, device, calls, say) if memory and not case.tuned else {}
    found = details(operator, device, calls, times)
    rows = [
        Row(name, code, spread(times[name]), compared[name], peaks.get(name),
            **found[name], **judged.get(name, {}))
        if name in calls
        else Row(name, code, note=notes[name])
        for name, code in codes.items()
    ]  # fmt: skip
    costs = (operator.flops(case.sizes), operator.moved(case.sizes) * ITEM_BYTES[case.dtype])
    facts = provenance(device, rounds, sample_s, flush)
    return Run(operator.name, device, case.name, case.sizes, case.dtype, *costs, facts, tuple(rows))


def code_of(operator: Operator, contender: Contender, device: str) -> str:
    """Return the fingerprint of what a row depends on: the contender, its inputs, and how it is timed."""
    return fingerprint([contender.build, operator.shapes, draw, interleave, ratios, CLOCKS[device]])


def _extent(case: Case, rounds: int | None, sample_s: float | None) -> tuple[int, float]:
    """Return how many rounds to measure and how long a sample lasts."""
    rounds = case.rounds or ROUNDS if rounds is None else min(rounds, case.rounds or rounds)
    return rounds, (case.sample_s or SAMPLE_S if sample_s is None else sample_s)


def details(
    operator: Operator, device: str, calls: Mapping[str, Call], times: Mapping[str, list[float]]
) -> dict[str, dict[str, Any]]:
    """Return for each call what a row has beside times and memory, as far as the operator asks for it.

    That is its speed as a part of that of the limit, the pages that it fetches on a CPU, and the share of the
    time of another contender that it does not take.
    """
    told: dict[str, dict[str, Any]] = {name: {} for name in calls}
    for name, call in calls.items():
        whole, limit = operator.contender(name, device).part_of, operator.limit
        if whole in calls:
            told[name]["rest"] = rest(times[name], times[whole])
        if limit in calls and name != limit:
            slower = ratios({name: times[name], limit: times[limit]}, to=limit)[name].median
            told[name]["limit"] = 1.0 / slower
        if limit and device == "cpu":
            told[name]["pages"] = pages(call, 1 if min(times[name]) > LONG_S else SAMPLES)
    return told


def rest(part: Sequence[float], whole: Sequence[float]) -> Spread:
    """Return the share of the time of the whole that its part does not take.

    Formula: 1 - part / whole within each round, and the quartiles of that over the rounds.

    >>> rest([0.75, 1.5, 1.0], [1.0, 2.0, 1.0])
    Spread(low=0.125, median=0.25, high=0.25)
    """
    found = ratios({"part": part, "whole": whole}, to="whole")["part"]
    return Spread(1.0 - found.high, 1.0 - found.median, 1.0 - found.low)


def peaks_of(
    operator: Operator, case: Case, device: str, calls: Mapping[str, Call], say: Callable[[str], None]
) -> dict[str, int | None]:
    """Return the peak memory of each call in bytes, None where the system does not tell it."""
    peaks = {}
    for name, call in calls.items():
        say(f"memory of {name}")
        peaks[name] = cuda_peak(call) if device == "cuda" else cpu_peak(operator.name, case.name, name)
    return peaks


def build(
    contenders: tuple[Contender, ...], inputs: Tensors, compiled: bool, say: Callable[[str], None]
) -> tuple[dict[str, Call], dict[str, str]]:
    """Return the calls of the contenders that can run, and for the others the reason why not."""
    calls, notes = {}, {}
    for one in contenders:
        if one.compiled and not compiled:
            notes[one.name] = LEFT_OUT
            continue
        say(f"building {one.name}")
        try:
            calls[one.name] = one.build(inputs)
        except Unavailable as reason:
            notes[one.name] = str(reason)
    return calls, notes


def verify(
    operator: Operator,
    calls: Mapping[str, Call],
    inputs: Tensors,
    dtype: str,
    plain: Tensors | None = None,
) -> dict[str, dict[str, Any]]:
    """Compare the results of every contender with the reference in float64, in the budget of its type.

    Formula: error <= factor x that of the plain run + one rounding, as `attngrad.checks.error_budget`.
    Without the results ``plain`` of a plain run, it is the first contender. Returned are for each contender
    its ``error`` and whether it ``repeats``, as a `Row` has them.

    Raises: AssertionError that names the operator, the contender and the result or input.
    """
    exact = operator.exact({name: x.double().cpu().numpy() for name, x in inputs.items()})
    before = {name: x.clone() for name, x in inputs.items()}
    judged: dict[str, dict[str, Any]] = {}
    for contender, call in calls.items():
        told = f"{operator.name}, {contender}"
        got = call()
        plain = plain or got
        if sorted(got) != sorted(operator.outputs):
            raise AssertionError(f"{told}: expected {sorted(operator.outputs)}, got {sorted(got)}")
        for name, kind in operator.outputs.items():
            three = (got[name], plain[name], exact[name])
            checks.error_budget(f"{told}, {name}", *three, dtype=dtype, kind=kind)
        again = call()
        judged[contender] = {
            "error": max(_error(got[name], exact[name]) for name in operator.outputs),
            "repeats": all(bool(got[name].equal(again[name])) for name in operator.outputs),
        }
        for name, x in inputs.items():
            if not x.equal(before[name]):
                raise AssertionError(f"{told}: it changes its input {name}, which the others get too")
    return judged


def _error(got: Any, exact: np.ndarray) -> float:
    """Return the largest error of a result as a part of its largest entry."""
    return float(np.abs(real_array("got", got) - exact).max() / np.abs(exact).max())
