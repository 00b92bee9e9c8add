"""One run of a case: forward, backward, and what was done beside the answers."""

import sysconfig
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import arrays
from .subject_case import ANSWERS, SubjectCase
from .uninitialised import filled_memory

FORWARD = ("o", "lse")
GRADIENTS = tuple(name for name in ANSWERS if name not in FORWARD)
HERE = str(Path(__file__).parent)
LIBRARIES = tuple({sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")})


class Run:
    """What came of one run. ``status`` is "ok", "unsupported" or "error", and ``text`` its reason."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.status, self.text = "ok", ""
        self.answers: dict[str, np.ndarray] = {}
        self.faults: list[str] = []
        self.seconds = 0.0
        self.broken = False


def run(subject: Any, told: Mapping[str, Any], given: Mapping[str, np.ndarray]) -> Run:
    """Run a case once on fresh arrays."""
    came = Run()
    try:
        case = SubjectCase(told, given)
    except Exception as error:  # torch or the device is missing, or memory is short
        came.status, came.text = "unsupported", f"no arrays could be made: {type(error).__name__}: {error}"
        came.broken = "CUDA error" in came.text
        return came
    before = {name: arrays.raw(x) for name, x in case.memory().items()}
    if case.framework == "torch":
        _leave_stale(case)
    started = time.perf_counter()
    try:
        with filled_memory():
            _passes(subject, case, came, before)
    except (Exception, SystemExit) as error:
        came.status, came.text = _reason(error)
        came.broken = "CUDA error" in came.text
        came.answers = {}
    came.seconds = time.perf_counter() - started
    if not came.broken and came.status != "unsupported":
        came.faults += case.guard_faults()
        came.faults += _changed(case, before, "backward")
    return came


def _passes(subject: Any, case: SubjectCase, came: Run, before: dict[str, np.ndarray]) -> None:
    """Call forward and backward and read what they return."""
    saved = subject.forward(case)
    _wait(case)
    if not isinstance(saved, Mapping):
        raise TypeError(f"forward: expected a dict with o, got {_kind(saved)}")
    if "o" not in saved:
        came.faults.append(f"shape: o: expected it by this name from forward, got {_listed(saved)}")
    came.faults += _changed(case, before, "forward")
    for name in FORWARD:
        _read(name, saved.get(name), case, came)
    gradients = subject.backward(case, saved)
    _wait(case)
    if not isinstance(gradients, Mapping):
        raise TypeError(f"backward: expected a dict of gradients, got {_kind(gradients)}")
    for name, value in gradients.items():
        if name in case.wants:
            _read(name, value, case, came)
        elif name not in ANSWERS:
            expected = ", ".join(GRADIENTS)
            came.faults.append(f"shape: {name} is no known answer, expected one of {expected}")


def _read(name: str, value: Any, case: SubjectCase, came: Run) -> None:
    """Keep an answer as an array of its own, and say what is wrong with its type and device."""
    if value is None:
        return
    if not isinstance(value, np.ndarray | np.generic | float | int) and not arrays.is_tensor(value):
        expected = f"an array of {case.framework}"
        came.faults.append(f"shape: {name} is a {type(value).__name__}, expected {expected}")
        return
    if arrays.is_tensor(value):
        if str(value.layout) != "torch.strided":
            value = value.to_dense()
        if value.device.type != case.device.split(":")[0]:
            came.faults.append(f"shape: {name} lies on {value.device}, expected {case.device}")
    if arrays.is_tensor(value) or isinstance(value, np.ndarray):
        came.faults += _type_fault(name, arrays.dtype_name(value), case)
        came.faults += _left_fault(name, arrays.unwritten(value))
    kept = arrays.numpy_copy(value)
    if kept.dtype.kind in "iuf":
        came.answers[name] = kept


def _type_fault(name: str, got: str, case: SubjectCase) -> list[str]:
    """Return what is wrong with a type: one that holds less than q or the input itself, or no float."""
    expected = min((case.dtype, case.dtype_of(name)), key=arrays.BYTES.__getitem__)
    expected = "float32" if case.framework == "numpy" and expected == "bfloat16" else expected
    size = arrays.BYTES.get(got, 0)
    if got == expected or size > arrays.BYTES[expected]:
        return []
    return [f"shape: {name} has type {got}, expected {expected}"]


def _left_fault(name: str, left: np.ndarray | None) -> list[str]:
    """Return how many entries still hold the fill of fresh memory."""
    if left is None or not left.any():
        return []
    first = tuple(int(k) for k in np.argwhere(left)[0])
    text = f"{int(left.sum())} of {left.size} entries hold fresh memory, never set, the first at {first}"
    return [f"unwritten: {name}: {text}"]


def _changed(case: SubjectCase, before: dict[str, np.ndarray], when: str) -> list[str]:
    """Return what of the inputs was overwritten; each is told once."""
    found = []
    for name, memory in case.memory().items():
        if name not in before:
            continue
        at = arrays.first_difference(before[name], arrays.raw(memory), memory.shape)
        if at is not None:
            del before[name]
            where = "" if tuple(memory.shape) == tuple(getattr(case, name).shape) else " of its whole memory"
            found.append(f"input-changed: {name} differs after {when}, first at {at}{where}")
    return found


def _leave_stale(case: SubjectCase) -> None:
    """Free memory of the sizes of the answers that holds NaN, for code that torch.empty does not reach."""
    stale = [arrays.fill_unwritten(x.clone()) for x in case.inputs().values()]
    del stale


def _wait(case: SubjectCase) -> None:
    """Wait for a device, so that its errors come here."""
    if case.framework == "torch" and case.device.startswith("cuda"):
        import torch

        torch.cuda.synchronize()


def _kind(x: Any) -> str:
    """Return what something is, for an error."""
    return "None" if x is None else type(x).__name__


def _listed(saved: Mapping[str, Any]) -> str:
    """Return the names of a dictionary, for an error."""
    return ", ".join(map(str, saved)) or "nothing"


def _reason(error: BaseException) -> tuple[str, str]:
    """Return the status and text of an exception: "Type: message (file line N)"."""
    if any(kind.__name__ == "Unsupported" for kind in type(error).__mro__):
        return "unsupported", str(error)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(HERE)]
    own = [f for f in frames if not f.filename.startswith(LIBRARIES)] or frames
    where = f" ({Path(own[-1].filename).name} line {own[-1].lineno})" if own else ""
    message = " ".join(str(error).split())[:500]
    return "error", f"{type(error).__name__}{': ' if message else ''}{message}{where}"
