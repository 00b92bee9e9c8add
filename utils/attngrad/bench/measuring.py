"""Measuring: every contender is checked against the reference before any is timed."""

from collections.abc import Callable, Mapping

from attngrad import checks
from attngrad.bench.fingerprint import fingerprint
from attngrad.bench.memory import cpu_peak, cuda_peak
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
from attngrad.bench.timing import Clock, CpuClock, CudaClock, interleave, ratios, spread
from attngrad.bench.tuning import is_tuned, pages, tuned_run

CLOCKS = {"cpu": CpuClock, "cuda": CudaClock}
ROUNDS, SAMPLE_S = 11, 0.01
LEFT_OUT = "left out: compiling takes long"


def measure(
    operator: Operator,
    case: Case,
    device: str,
    *,
    rounds: int = ROUNDS,
    sample_s: float = SAMPLE_S,
    compiled: bool = True,
    memory: bool = False,
    flush: bool = False,
    clock: Clock | None = None,
    say: Callable[[str], None] = lambda told: None,
) -> Run:
    """Check all contenders of an operator on one case, then time them in turns.

    Without ``compiled`` those that need a compiler are left out. ``memory`` also measures peak memory, on the
    CPU in a process for each contender. ``flush`` empties the cache of a CUDA device before each call.

    Raises: AssertionError for a contender that is wrong or changes its inputs; nothing is timed then.
    """
    rounds = min(rounds, case.rounds or rounds)
    if case.tuned and not is_tuned():
        return tuned_run(operator.name, case.name, rounds, sample_s, compiled)
    inputs = draw(operator.shapes(case.sizes), case.dtype, device)
    contenders = operator.on(device)
    codes = {one.name: code_of(operator, one, device) for one in contenders}
    calls, notes = build(contenders, inputs, compiled, say)
    say("checking")
    bounds = {one.name for one in contenders if one.bound}
    verify(operator, {name: call for name, call in calls.items() if name not in bounds}, inputs, case.dtype)
    say("timing")
    clock = clock or (CudaClock(flush) if device == "cuda" else CpuClock())
    times = interleave(calls, clock, rounds=rounds, sample_s=sample_s)
    compared = ratios(times, to=contenders[0].name)
    peaks = peaks_of(operator, case, device, calls, say) if memory and not case.tuned else {}
    if operator.limit:
        notes |= remarks(operator.limit, device, calls, times)
    rows = [
        Row(name, code, spread(times[name]), compared[name], peaks.get(name), notes.get(name, ""))
        if name in calls
        else Row(name, code, note=notes[name])
        for name, code in codes.items()
    ]
    costs = (operator.flops(case.sizes), operator.moved(case.sizes) * ITEM_BYTES[case.dtype])
    facts = provenance(device, rounds, sample_s, flush)
    return Run(operator.name, device, case.name, case.sizes, case.dtype, *costs, facts, tuple(rows))


def code_of(operator: Operator, contender: Contender, device: str) -> str:
    """Return the fingerprint of what a row depends on: the contender, its inputs, and how it is timed."""
    return fingerprint([contender.build, operator.shapes, draw, interleave, ratios, CLOCKS[device]])


def remarks(
    limit: str, device: str, calls: Mapping[str, Call], times: Mapping[str, list[float]]
) -> dict[str, str]:
    """Return for each call its speed as a part of that of the limit, and on a CPU the pages it fetches."""
    told: dict[str, list[str]] = {name: [] for name in calls}
    for name, call in calls.items():
        if limit in calls and name != limit:
            slower = ratios({name: times[name], limit: times[limit]}, to=limit)[name].median
            told[name].append(f"{1.0 / slower:.2f} of limit")
        if device == "cpu":
            told[name].append(f"{pages(call)} pages")
    return {name: ", ".join(parts) for name, parts in told.items()}


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


def verify(operator: Operator, calls: Mapping[str, Call], inputs: Tensors, dtype: str) -> None:
    """Compare the results of every contender with the reference in float64, in the budget of its type.

    Formula: error <= factor x that of the first contender + one rounding, as `attngrad.checks.error_budget`.

    Raises: AssertionError that names the operator, the contender and the result or input.
    """
    exact = operator.exact({name: x.double().cpu().numpy() for name, x in inputs.items()})
    before = {name: x.clone() for name, x in inputs.items()}
    plain: Tensors = {}
    for contender, call in calls.items():
        told = f"{operator.name}, {contender}"
        got = call()
        plain = plain or got
        if sorted(got) != sorted(operator.outputs):
            raise AssertionError(f"{told}: expected {sorted(operator.outputs)}, got {sorted(got)}")
        for name, kind in operator.outputs.items():
            three = (got[name], plain[name], exact[name])
            checks.error_budget(f"{told}, {name}", *three, dtype=dtype, kind=kind)
        for name, x in inputs.items():
            if not x.equal(before[name]):
                raise AssertionError(f"{told}: it changes its input {name}, which the others get too")
