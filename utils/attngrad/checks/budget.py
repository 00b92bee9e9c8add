"""Error budgets for low precision: no worse than a small multiple of a plain run in the same type."""

from typing import Any

import numpy as np

from attngrad.checks.compare import as_numpy, check_not_vacuous
from attngrad.checks.tolerances import TOLERANCES, UNIT_ROUNDOFF
from attngrad.notation import RangeError


def error_budget(
    name: str, got: Any, plain: Any, exact: Any, *, dtype: str, kind: str = "backward", nonzero: bool = True
) -> str:
    """Check a low-precision result against float64, measured by the error of a plain run in its type.

    Formula: max|got - exact| <= factor max|plain - exact| + u max|exact|, where factor is 2 for kind
    "forward" and 3 for "backward", and u is the unit roundoff of ``dtype``: one rounding of the result.

    Raises: AssertionError for a value that is not finite, a shape that differs, an exceeded budget, or a
    budget within which zero would pass (unless nonzero is False); RangeError for an unknown dtype or kind.

    >>> error_budget("thirds", np.float32(1 / 3), np.float32(1 / 3), 1 / 3, dtype="float32")
    'thirds: error within 3 x that of a plain float32 run + one rounding'
    """
    if dtype not in UNIT_ROUNDOFF:
        raise RangeError(f"dtype: expected one of {', '.join(UNIT_ROUNDOFF)}, got {dtype!r}")
    if kind not in ("forward", "backward"):
        raise RangeError(f"kind: expected 'forward' or 'backward', got {kind!r}")
    arrays = {"got": as_numpy(got), "plain": as_numpy(plain), "exact": as_numpy(exact)}
    for what, x in arrays.items():
        if x.shape != arrays["exact"].shape:
            raise AssertionError(f"{name}: {what} has shape {x.shape}, exact has {arrays['exact'].shape}")
        if not np.isfinite(x).all():
            raise AssertionError(f"{name}: {what} is not finite")
    exact = arrays["exact"]
    error = float(np.abs(arrays["got"] - exact).max(initial=0.0))
    measure = float(np.abs(arrays["plain"] - exact).max(initial=0.0))
    size = float(np.abs(exact).max(initial=0.0))
    factor = TOLERANCES[kind].factor
    bound = factor * measure + UNIT_ROUNDOFF[dtype] * size
    if nonzero:
        check_not_vacuous(name, size, bound, margin=1.0)
    if not error <= bound:
        raise AssertionError(f"{name}: error {error:.2e} exceeds {bound:.2e}; a plain run has {measure:.2e}")
    return f"{name}: error within {factor:.0f} x that of a plain {dtype} run + one rounding"
