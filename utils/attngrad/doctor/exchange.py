"""Cases and answers as arrays by name, in the layout of the implementation: what files and processes carry.

A file of cases is an npz with one text, "manifest", and for each case the arrays "case/q", "case/k" and so
on, in the axes that the specification asks for. bfloat16, which NumPy lacks, is carried in float32. A file of
answers has "case/o", "case/dq" and so on in the same axes; "case/unsupported" or "case/error" is a text that
says why there are none.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from attngrad.doctor.case import FORWARD, GRADIENTS, Case
from attngrad.doctor.outcome import Outcome
from attngrad.doctor.spec import Spec
from attngrad.notation import RangeError

FORMAT = 1
FLOATS = ("q", "k", "v", "do", "dlse", "sink")
IN_BIAS_DTYPE = ("bias", "table")
BY_TOKEN = ("q", "k", "v", "do", "o", "dq", "dk", "dv")
TOLD = (
    "name", "why", "dtype", "bias_dtype", "scale", "bias_inside_scale", "dropout", "causal", "query_start",
    "softcap", "softcap_on", "lengths", "strides", "repeats", "wants", "exercises", "notes",
)  # fmt: skip
CARRIED = {"float64": np.float64, "float32": np.float32, "float16": np.float16, "bfloat16": np.float32}


def turned(name: str, x: np.ndarray, spec: Spec) -> np.ndarray:
    """Return an array with its axes as the implementation has them, or back: both are the same exchange."""
    if name in BY_TOKEN and spec.layout == "bnhd" and x.ndim == 4:
        return np.swapaxes(x, 1, 2)
    if name in ("table", "dtable") and spec.table == "rh" and x.ndim == 2:
        return np.swapaxes(x, 0, 1)
    return x


def case_arrays(case: Case, spec: Spec) -> dict[str, np.ndarray]:
    """Return the arrays of a case, contiguous, in the axes and types of the implementation."""
    arrays = {name: getattr(case, name) for name in (*FLOATS, *IN_BIAS_DTYPE)}
    kept = {name: x for name, x in arrays.items() if x is not None}
    for name, x in kept.items():
        dtype = case.bias_dtype if name in IN_BIAS_DTYPE else case.dtype
        kept[name] = np.ascontiguousarray(turned(name, x, spec), dtype=CARRIED[dtype])
    for name in ("row", "mask", "keep"):
        if getattr(case, name) is not None:
            kept[name] = np.ascontiguousarray(getattr(case, name))
    return kept


def told(case: Case, spec: Spec) -> dict[str, Any]:
    """Return what a case says beside its arrays, as JSON can hold it."""
    return {**{name: getattr(case, name) for name in TOLD}, "sizes": case.sizes, "layout": spec.layout,
            "framework": spec.framework, "device": spec.device}  # fmt: skip


def pack(cases: Iterable[Case], spec: Spec, seed: int) -> dict[str, np.ndarray]:
    """Return a file of cases as a dictionary, to be saved with `numpy.savez`."""
    cases = tuple(cases)
    manifest = {"format": FORMAT, "seed": seed, "spec": json.loads(spec.to_json()),
                "cases": [told(case, spec) for case in cases]}  # fmt: skip
    packed = {f"{case.name}/{key}": x for case in cases for key, x in case_arrays(case, spec).items()}
    return {"manifest": np.array(json.dumps(manifest, default=int)), **packed}


def unpack(stored: Mapping[str, np.ndarray]) -> tuple[tuple[Case, ...], Spec, int]:
    """Return the cases of a file, its specification and its seed.

    Raises: RangeError for what is no file of cases of this format.
    """
    try:
        manifest = json.loads(str(stored["manifest"]))
        known = manifest["format"]
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise RangeError("cases: expected a file that `attention-doctor cases` wrote, got another") from error
    if known != FORMAT:
        raise RangeError(f"cases: expected format {FORMAT}, got {known!r}")
    spec = Spec.from_json(json.dumps(manifest["spec"]))
    return tuple(_case(one, stored, spec) for one in manifest["cases"]), spec, int(manifest["seed"])


def _case(told: Mapping[str, Any], stored: Mapping[str, np.ndarray], spec: Spec) -> Case:
    """Return one case of a file, its arrays in the axes of `attngrad.doctor.case`."""
    prefix = f"{told['name']}/"
    arrays = {key.removeprefix(prefix): stored[key] for key in stored if key.startswith(prefix)}
    for name in (*FLOATS, *IN_BIAS_DTYPE):
        if name in arrays:
            arrays[name] = np.ascontiguousarray(turned(name, arrays[name], spec), dtype=np.float64)
    options = {name: told[name] for name in TOLD}
    for name in ("lengths", "wants", "exercises"):
        options[name] = tuple(options[name])
    return Case(**options, **arrays)


def expected_shape(case: Case, name: str) -> tuple[int, ...]:
    """Return the shape of an answer in the axes of `attngrad.doctor.case`."""
    s = case.sizes
    if name in GRADIENTS and name != "dscale":
        x = getattr(case, name[1:])
        if x is None:
            raise RangeError(f"{name}: expected no such answer of case {case.name}")
        return x.shape
    shapes = {"o": (s["B"], s["H"], s["N"], s["D_v"]), "lse": (s["B"], s["H"], s["N"]), "dscale": ()}
    return shapes[name]


def canonical(case: Case, spec: Spec, name: str, x: Any) -> np.ndarray | str:
    """Return an answer as float64 in the axes of `attngrad.doctor.case`, or a sentence on what is wrong.

    A dbias may have any shape to which the bias broadcasts; it is summed to that of the bias.
    """
    x = np.asarray(x)
    if x.dtype.kind not in "fiu":
        return f"{name} has type {x.dtype}, expected floats"
    with np.errstate(invalid="ignore", over="ignore"):
        x = np.asarray(turned(name, x, spec), dtype=np.float64)
    want = expected_shape(case, name)
    if x.shape == want:
        return x
    if name == "dscale" and x.size == 1:
        return x.reshape(())
    if name == "dbias" and (summed := _summed(x, want)) is not None:
        return summed
    asked = turned(name, np.empty(want), spec).shape
    return f"{name} has shape {turned(name, x, spec).shape}, expected {asked}"


def _summed(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """Return the sum over the axes along which ``shape`` broadcasts to that of x; None if it does not."""
    try:
        fits = np.broadcast_shapes(shape, x.shape) == x.shape
    except ValueError:
        fits = False
    if not fits:
        return None
    with np.errstate(invalid="ignore"):
        x = x.sum(axis=tuple(range(x.ndim - len(shape))))
        stretched = tuple(axis for axis, size in enumerate(shape) if size == 1)
        return np.asarray(x.sum(axis=stretched, keepdims=True))


def outcome(case: Case, spec: Spec, runs: list[Mapping[str, Any]], faults: Iterable[str] = ()) -> Outcome:
    """Return what came of a case from the raw answers of its runs, the first and later ones."""
    faults, read = list(faults), []
    for number, run in enumerate(runs):
        arrays: dict[str, np.ndarray] = {}
        for name in (*FORWARD, *GRADIENTS):
            if run.get(name) is None or (name in GRADIENTS and name not in case.wants):
                continue
            came = canonical(case, spec, name, run[name])
            if not isinstance(came, str):
                arrays[name] = came
            elif number == 0:
                faults.append(f"shape: {came}")
        read.append(arrays)
    return Outcome("ok", answers=read[0], repeats=tuple(read[1:]), faults=tuple(faults))
