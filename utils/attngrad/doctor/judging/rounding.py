"""Rounding to the types of attention, which NumPy has in part: values stay in float64 or float32 arrays."""

import numpy as np

from attngrad.checks import UNIT_ROUNDOFF
from attngrad.notation import RangeError

# TF32 has the exponents of float32 and eleven significant bits: what tensor cores make of float32 factors.
ROUNDOFF = {**UNIT_ROUNDOFF, "tf32": 2.0**-11}
# The smallest number that is not flushed to zero: float16 keeps its subnormal numbers, others may not.
SMALLEST = {
    "float64": 2.0**-1022,
    "float32": 2.0**-126,
    "tf32": 2.0**-126,
    "float16": 2.0**-24,
    "bfloat16": 2.0**-126,
}
LOWEST = {
    "float64": float(np.finfo(np.float64).min),
    "float32": float(np.finfo(np.float32).min),
    "float16": float(np.finfo(np.float16).min),
    "bfloat16": -(2.0 - 2.0**-7) * 2.0**127,
}
_DROPPED_BITS = {"bfloat16": 16, "tf32": 13}


def stored(x: np.ndarray, dtype: str) -> np.ndarray:
    """Return x as an array that holds it once it is stored in ``dtype``: float32 for types of less.

    Raises: RangeError for a type that is not known.

    >>> stored(np.array([1.0, 1.01]), "bfloat16").tolist()
    [1.0, 1.0078125]
    """
    if dtype not in ROUNDOFF:
        raise RangeError(f"dtype: expected one of {', '.join(ROUNDOFF)}, got {dtype!r}")
    with np.errstate(over="ignore", under="ignore"):
        if dtype == "float64":
            return np.asarray(x, dtype=np.float64)
        if dtype == "float16":
            return np.asarray(x).astype(np.float16).astype(np.float32)
        x = np.asarray(x, dtype=np.float32)
    return x if dtype == "float32" else _fewer_bits(x, _DROPPED_BITS[dtype])


def _fewer_bits(x: np.ndarray, dropped: int) -> np.ndarray:
    """Return float32 with the last bits rounded away, halves to the even neighbour; NaN stays."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    half, last = np.uint32((1 << (dropped - 1)) - 1), (bits >> np.uint32(dropped)) & np.uint32(1)
    kept = (bits + half + last) & np.uint32(0xFFFFFFFF << dropped & 0xFFFFFFFF)
    return np.where(np.isnan(x), x, kept.view(np.float32)).reshape(np.shape(x))


def rounded(x: np.ndarray, dtype: str) -> np.ndarray:
    """Return the values that ``dtype`` holds, as float64.

    Raises: RangeError for a type that is not known.

    >>> rounded(np.array([0.1, 65520.0]), "float16").tolist()
    [0.0999755859375, inf]
    """
    return stored(x, dtype).astype(np.float64)
