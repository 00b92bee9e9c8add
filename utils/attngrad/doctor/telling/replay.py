"""What a standalone script does with its formula: give the case to the implementation, and compare.

A copy of this file lies beside the scripts that the doctor writes, with ``doctor_inside``, a copy of what
runs an implementation. Both import NumPy alone, and torch where the case has its tensors.
"""

import faulthandler
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Formula = Callable[[Mapping[str, Any]], Mapping[str, Any]]
Case = tuple[dict[str, Any], dict[str, np.ndarray]]


def replay(formula: Formula, target: str, path: str | Path, limit_s: float = 600.0) -> int:
    """Print what the implementation gives and what the formula gives.

    Returns 1 if they differ by more than rounding or something else was done wrong, 2 if the implementation
    cannot be run, else 0. A case that is right alone is run again behind those that came before it. A hang
    ends the process with status 1 after ``limit_s`` seconds.
    """
    from doctor_inside.loading import CannotRun, load  # beside this file
    from doctor_inside.session import Session

    sys.path.insert(0, str(Path.cwd()))
    with np.load(path, allow_pickle=False) as stored:
        held = {name: stored[name] for name in stored.files}
    bounds = {name: held.pop(name) for name in list(held) if name.startswith("bound_")}
    before = [_case(held, f"before{k}_") for k in range(4) if f"before{k}_told" in held]
    told, arrays = _case(held, "")
    faulthandler.dump_traceback_later(limit_s, exit=True, file=sys.__stderr__)
    try:
        session, wanted = Session(*load(target), told["claims"]), formula({**told, **arrays})
        status = _shown(session.run(told, arrays), wanted, bounds, told["claims"])
        if status == 0 and before:
            print(f"{told['name']} is right alone; behind {', '.join(one['name'] for one, _ in before)}:")
            session = Session(*load(target), told["claims"])
            for earlier in before:
                session.run(*earlier)
            status = _shown(session.run(told, arrays), wanted, bounds, told["claims"])
    except CannotRun as error:
        print(error, file=sys.stderr)
        return 2
    finally:
        faulthandler.cancel_dump_traceback_later()
    if status == 0:
        print("All is within rounding. If the doctor says otherwise, more calls matter.")
    return status


def _case(held: dict[str, np.ndarray], prefix: str) -> Case:
    """Take what is told of a case, and its arrays, out of those of a file."""
    names = [name for name in held if name.startswith(prefix)]
    arrays = {name.removeprefix(prefix): held.pop(name) for name in names}
    return json.loads(str(arrays.pop("told"))), arrays


def _shown(
    came: Any, wanted: Mapping[str, Any], bounds: Mapping[str, np.ndarray], claims: Mapping[str, Any]
) -> int:
    """Print what came of a case; return 1 if something is wrong, 2 if it is not supported, else 0."""
    reply, runs = came
    if reply["status"] == "unsupported":
        print(f"unsupported: {reply['text']}", file=sys.stderr)
        return 2
    faults = [*reply["faults"], *([reply["text"]] if reply["status"] != "ok" else [])]
    if "lse" not in claims["options"] and runs and "lse" not in runs[0]:
        wanted = {name: x for name, x in wanted.items() if name != "lse"}
    off = reply["status"] == "ok" and _compared(wanted, runs, bounds)
    for number, run in enumerate(runs[1:] if claims["deterministic"] else [], start=2):
        names = [name for name, x in runs[0].items() if not np.array_equal(x, run.get(name), equal_nan=True)]
        faults += [f"{name} has other bits in run {number}" for name in names]
    for fault in faults:
        print(fault)
    return 1 if faults or off else 0


def _compared(
    wanted: Mapping[str, Any], runs: list[dict[str, np.ndarray]], bounds: Mapping[str, np.ndarray]
) -> bool:
    """Print a line for each answer, of later runs where it is off, and say whether one is."""
    off = False
    for number, run in enumerate(runs):
        for name, want in wanted.items():
            bound = bounds[f"bound_{name}"]
            wrong, line = _line(run.get(name), np.asarray(want), bound, summed=name == "dbias")
            off |= wrong
            if number == 0 or wrong:
                print(f"{name:7} {line}" + (f" (run {number + 1})" if number else ""))
    return off


def _line(got: np.ndarray | None, want: np.ndarray, bound: np.ndarray, summed: bool) -> tuple[bool, str]:
    """Return whether an answer is off, and its worst entry."""
    if got is None:
        return True, f"OFF   got None, want an array of shape {want.shape}"
    got = np.asarray(got, dtype=np.float64)
    if summed and got.shape != want.shape and got.ndim >= want.ndim:
        got = got.sum(axis=tuple(range(got.ndim - want.ndim)))
        got = got.sum(axis=tuple(axis for axis, size in enumerate(want.shape) if size == 1), keepdims=True)
    if got.size == want.size == 1:
        got = got.reshape(want.shape)
    if got.shape != want.shape:
        return True, f"OFF   got shape {got.shape}, want {want.shape}"
    with np.errstate(invalid="ignore"):
        error = np.where(got == want, 0.0, np.abs(got - want))
    over = np.where(np.isnan(error), np.inf, error / np.maximum(bound, np.finfo(np.float64).tiny))
    at = tuple(int(index) for index in np.unravel_index(over.argmax(), over.shape))
    wrong = not over[at] <= 1.0
    numbers = f"got {got[at]:.9g}, want {want[at]:.9g}, difference {error[at]:.3g}, rounding {bound[at]:.3g}"
    return bool(wrong), f"{'OFF ' if wrong else 'fine'}  at {at}: {numbers}"
