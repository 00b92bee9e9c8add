"""The cell of a chapter: measured here where the reader asks, else what was recorded, else "not measured"."""

import os
from collections.abc import Iterator
from importlib.util import find_spec

from attngrad.bench.measuring import measure
from attngrad.bench.registry import find
from attngrad.bench.results import recorded
from attngrad.bench.spec import Case, Operator, check_device
from attngrad.bench.table import run_lines, unmeasured_lines
from attngrad.notation import RangeError

VARIABLE = "ATTNGRAD_BENCH"
WORDS = ("live", "compile")
LIVE_ROUNDS = 7


def show(
    name: str,
    device: str = "cpu",
    *,
    live: bool | None = None,
    compiled: bool | None = None,
    case: str | None = None,
) -> None:
    """Print a benchmark of an operator on one kind of device.

    With ``live`` its quick case, or ``case``, is measured now, on a device that is there; ``compiled`` takes
    in the contenders that have to be compiled first. Both default to what $ATTNGRAD_BENCH says: "live",
    "live,compile", or nothing. Otherwise the recorded rows are printed, the same on every machine.

    Raises: RangeError for an unknown operator, device, case or word; AssertionError for a wrong contender.
    """
    operator, words = find(name), _words()
    check_device(device)
    named = None if case is None else operator.case(case, device)
    live = "live" in words if live is None else live
    compiled = "compile" in words if compiled is None else compiled
    reason = missing(device) if live else ""
    lines = [f"{operator.name} on {device}: {operator.work}"]
    if live and not reason:
        chosen = named or operator.case(operator.quick[device], device)
        run = measure(operator, chosen, device, rounds=LIVE_ROUNDS, compiled=compiled)
        lines += ["", *run_lines(operator, run, "measured now")]
    else:
        lines += [f"cannot be measured here: {reason}"] if reason else []
        lines += _recorded_lines(operator, device, named)
    print("\n".join(lines))


def missing(device: str) -> str:
    """Return what is missing to measure on a kind of device, empty where nothing is."""
    if find_spec("torch") is None:
        return "torch is not installed; the extra attngrad[torch] brings it"
    import torch

    return "torch sees no CUDA device" if device == "cuda" and not torch.cuda.is_available() else ""


def _words() -> set[str]:
    """Return what the environment asks for."""
    words = {word.strip() for word in os.environ.get(VARIABLE, "").split(",")} - {""}
    if unknown := words - set(WORDS):
        got = ", ".join(sorted(unknown))
        raise RangeError(f"{VARIABLE}: expected words among {', '.join(WORDS)}, got {got}")
    return words


def _recorded_lines(operator: Operator, device: str, case: Case | None) -> Iterator[str]:
    """Yield the recorded runs, or that nothing is measured."""
    runs = recorded(operator.name, device)
    chosen = [run for run in runs.values() if case is None or case.name == run.case]
    for run in chosen:
        yield from ("", *run_lines(operator, run, "recorded"))
    if not chosen:
        yield from ("", *unmeasured_lines(operator.on(device, case)))
