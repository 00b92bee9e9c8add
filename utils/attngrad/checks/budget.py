"""Error budgets for low precision: no worse than a small multiple of a plain run in the same type."""

from typing import Any

import numpy as np

from attngrad.checks.arguments import check_kind, is_one_of
from attngrad.checks.compare import check_not_vacuous, real_array
from attngrad.checks.tolerances import TOLERANCES, UNIT_ROUNDOFF
from attngrad.notation import DtypeError, RangeError, boolean, first_index, integer

MARGIN = 4.0


def error_budget(
    name: str,
    got: Any,
    plain: Any,
    exact: Any,
    *,
    dtype: str,
    kind: str = "backward",
    axis: int | None = None,
    nonzero: bool = True,
) -> str:
    """Check a low-precision result against float64, measured by the error of a plain run in its type.

    Formula: max|got - exact| <= factor max|plain - exact| + u max|exact|, where factor is 2 for kind
    "forward" and 3 for "backward", and u is the unit roundoff of ``dtype``: one rounding of the result.

    Without ``axis`` a row that is small beside the others may be wrong altogether, even zero. With it the
    maxima run along that axis alone, one budget for each row; a row whose exact values are all 0 may stay so.

    Raises: AssertionError for a value that is not finite, a shape that differs, an exceeded budget, or one
    of a quarter of the largest exact value or more (unless nonzero is False); DtypeError for got or plain in
    another type than dtype, or exact in less than float64, where the type can be told: not of a number, a
    list, or a wide NumPy array for bfloat16; RangeError for an unknown dtype, kind or axis.

    >>> error_budget("thirds", np.float32(1 / 3), np.float32(1 / 3), 1 / 3, dtype="float32")
    'thirds: error within 3 x that of a plain float32 run + one rounding'
    """
    _check_names(dtype, kind)
    boolean("nonzero", nonzero)
    got, plain, exact = _three(name, got, plain, exact, dtype)
    axes = _axes(axis, exact.ndim)
    with np.errstate(over="ignore"):
        error, measure, size = (_largest(x, axes) for x in (got - exact, plain - exact, exact))
        factor = TOLERANCES[kind].factor
        bound = np.asarray(factor * measure + UNIT_ROUNDOFF[dtype] * size)
    for row in np.ndindex(bound.shape):
        told = name if axis is None else f"{name}, row {row} along axis {axis}"
        # Beside rows that have a size, one of zeros is a row without a key.
        live = nonzero and bool(size[row] > 0.0 or not size.any())
        _check_row(told, error[row], measure[row], size[row], bound[row], live)
    return f"{name}: error within {factor:.0f} x that of a plain {dtype} run + one rounding"


def _check_names(dtype: str, kind: str) -> None:
    """Require a type and a kind for which the table has a budget."""
    if not is_one_of(dtype, tuple(UNIT_ROUNDOFF)):
        raise RangeError(f"dtype: expected one of {', '.join(UNIT_ROUNDOFF)}, got {dtype!r}")
    check_kind(kind, ("forward", "backward"))


def _check_row(told: str, error: float, measure: float, size: float, bound: float, nonzero: bool) -> None:
    """Require an error within its bound, and a bound that is finite and small beside the result."""
    if not np.isfinite(bound):
        raise AssertionError(f"{told}: the budget is {bound}, within which everything would pass")
    if nonzero:
        check_not_vacuous(told, float(size), float(bound), margin=MARGIN)
    if not error <= bound:
        raise AssertionError(f"{told}: error {error:.2e} exceeds {bound:.2e}; a plain run has {measure:.2e}")


def _three(name: str, got: Any, plain: Any, exact: Any, dtype: str) -> tuple[np.ndarray, ...]:
    """Return the three results as finite float64 arrays of one shape and of the types that were said."""
    for what, x, wanted in (("got", got, dtype), ("plain", plain, dtype), ("exact", exact, "float64")):
        told = _type_name(x, wanted)
        if told is not None and told != wanted:
            raise DtypeError(f"{name}: expected {what} in {wanted}, got {told}")
    arrays = {"got": got, "plain": plain, "exact": exact}
    arrays = {what: real_array(f"{name}: {what}", x) for what, x in arrays.items()}
    for what, x in arrays.items():
        if x.shape != arrays["exact"].shape:
            raise AssertionError(f"{name}: {what} has shape {x.shape}, exact has {arrays['exact'].shape}")
        if not np.isfinite(x).all():
            at = first_index(~np.isfinite(x))
            told = f"expected finite values, got {x[at]} at index {at}"
            raise AssertionError(f"{name}: {what} is not finite: {told}")
    return tuple(arrays.values())


def _type_name(x: Any, wanted: str) -> str | None:
    """Return the name of the type of an array or tensor of floats, None where it cannot tell."""
    if hasattr(x, "detach"):
        return str(x.dtype).removeprefix("torch.")
    if not isinstance(x, np.ndarray | np.floating) or x.dtype.kind != "f":
        return None
    # NumPy has no bfloat16: its values come in a wider type.
    wider = wanted == "bfloat16" and x.dtype.itemsize >= 4
    return None if wider else x.dtype.name


def _axes(axis: int | None, ndim: int) -> tuple[int, ...]:
    """Return the axes over which a maximum runs."""
    if axis is None:
        return tuple(range(ndim))
    axis = integer("axis", axis)
    if not -ndim <= axis < ndim:
        raise RangeError(f"axis: expected an axis of {ndim}, got {axis}")
    return (axis,)


def _largest(x: np.ndarray | np.floating, axes: tuple[int, ...]) -> np.ndarray:
    """Return the largest absolute entry over some axes."""
    return np.asarray(np.abs(x).max(axis=axes, initial=0.0))
