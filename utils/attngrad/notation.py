"""Axis letters, shape annotations, and errors that name what was expected and what came.

One letter means one axis in every signature, formula and test:

    B batch    H heads    H_kv heads of keys and values (divides H)
    N queries  M keys     D, D_v features of a key, of a value
    n entries of one softmax row
    R rows of a bias table
    *rows      any number of leading axes, each index of which is one softmax row

Annotations such as ``Float[np.ndarray, "*rows n"]`` are checked at run time where jaxtyping is loaded
before this package (as the tests do). Elsewhere they stand for the array type alone, so NumPy suffices.
"""

import math
import operator
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

AXES = {
    "B": "batch",
    "H": "heads of queries",
    "H_kv": "heads of keys and values; divides H",
    "N": "queries",
    "M": "keys",
    "D": "features of a query or key of a head",
    "D_v": "features of a value of a head",
    "n": "entries of one softmax row",
    "R": "rows of a bias table",
    "rows": "all leading axes: one softmax row for each of their indices",
    "offsets": "distinct relative offsets",
    "diagonals": "diagonals of the pairs of N queries and M keys, N + M - 1",
    "steps": "steps of a difference",
    "points": "points of a figure",
    "V": "tokens of a vocabulary",
}


class ShapeError(ValueError):
    """Arrays whose shapes do not fit together."""


class DtypeError(TypeError):
    """A value of the wrong type, such as integers where floats belong."""


class RangeError(ValueError):
    """A value outside the range on which a formula holds."""


_jaxtyping = sys.modules.get("jaxtyping")
if _jaxtyping is not None:
    # Unsigned integers are integers too: jaxtyping's own Int leaves them out.
    Float, Bool, Int = _jaxtyping.Float, _jaxtyping.Bool, _jaxtyping.Integer
else:

    class Float:
        """A floating-point array; the subscript ``[type, "axes"]`` documents its shape."""

        def __class_getitem__(cls, item: tuple[Any, str]) -> Any:
            """Return the array type, which is all that holds without a run-time checker."""
            return item[0]

    class Bool(Float):
        """An array of booleans."""

    class Int(Float):
        """An array of integers."""


def first_index(where: Any) -> tuple[int, ...]:
    """Return the first index (row-major) at which a boolean array or torch tensor is true."""
    places = where.nonzero() if hasattr(where, "detach") else np.argwhere(where)
    return tuple(int(k) for k in places[0])


def float_array(name: str, x: Any, rank: int = 1) -> np.ndarray:
    """Return ``x`` as float64, refusing anything but a NumPy float array with at least ``rank`` axes.

    Raises: DtypeError for another type, a masked array (its mask would be lost), integers, booleans, complex
    or extended floats; ShapeError for too few axes.

    >>> float_array("s", np.array([1, 2]))
    Traceback (most recent call last):
    attngrad.notation.DtypeError: s: expected an array of floats, got int64
    """
    if not isinstance(x, np.ndarray | np.floating) or isinstance(x, np.ma.MaskedArray):
        raise DtypeError(f"{name}: expected a NumPy array of floats, got {type(x).__name__}")
    if x.dtype.kind != "f" or x.dtype.itemsize > 8:
        raise DtypeError(f"{name}: expected an array of floats, got {x.dtype}")
    if x.ndim < rank:
        raise ShapeError(f"{name}: expected at least {rank} axes, got shape {x.shape}")
    return np.asarray(x, dtype=np.float64)


def finite_array(name: str, x: Any, rank: int = 1) -> np.ndarray:
    """Return ``x`` as float64 like `float_array`, refusing NaN and infinities by position.

    Raises: RangeError for a NaN or an infinity, besides what `float_array` raises.
    """
    x = float_array(name, x, rank)
    if not np.isfinite(x).all():
        at = first_index(~np.isfinite(x))
        raise RangeError(f"{name}: expected finite values, got {x[at]} at index {at}")
    return x


def mask_array(name: str, mask: Any, shape: Sequence[int]) -> np.ndarray:
    """Return a boolean mask (True: may attend) broadcast to ``shape``; None allows everything.

    Raises: DtypeError for a mask that is not boolean; ShapeError for one of another shape.

    >>> mask_array("mask", np.array([[True], [False]]), (2, 3))
    array([[ True,  True,  True],
           [False, False, False]])
    """
    shape = tuple(shape)
    if mask is None:
        return np.ones(shape, dtype=bool)
    if not isinstance(mask, np.ndarray) or isinstance(mask, np.ma.MaskedArray):
        got = type(mask).__name__
        raise DtypeError(f"{name}: expected a NumPy array of booleans (True: may attend), got {got}")
    if mask.dtype != np.bool_:
        raise DtypeError(f"{name}: expected booleans (True: may attend), got {mask.dtype}")
    check_broadcasts(name, mask.shape, shape)
    return np.broadcast_to(mask, shape)


def check_broadcasts(name: str, shape: Sequence[int], target: Sequence[int]) -> None:
    """Require that ``shape`` broadcasts to exactly ``target``.

    Raises: ShapeError that names both shapes.
    """
    shape, target = tuple(shape), tuple(target)
    aligned = zip(reversed(shape), reversed(target), strict=False)
    if len(shape) > len(target) or any(size not in (1, wanted) for size, wanted in aligned):
        raise ShapeError(f"{name}: expected a shape that broadcasts to {target}, got {shape}")


def check_same_shape(name: str, shape: Sequence[int], other: str, wanted: Sequence[int]) -> None:
    """Require two equal shapes; nothing is broadcast.

    Raises: ShapeError that names both arrays and both shapes.

    >>> check_same_shape("dp", (3,), "p", (2, 3))
    Traceback (most recent call last):
    attngrad.notation.ShapeError: dp: expected shape (2, 3) as for p, got (3,)
    """
    if tuple(shape) != tuple(wanted):
        raise ShapeError(f"{name}: expected shape {tuple(wanted)} as for {other}, got {tuple(shape)}")


def check_has_entries(name: str, shape: Sequence[int]) -> None:
    """Require an array with at least one entry.

    Raises: ShapeError that names the shape.
    """
    if 0 in tuple(shape):
        raise ShapeError(f"{name}: expected at least one entry, got shape {tuple(shape)}")


def integer(name: str, value: Any, least: int | None = None) -> int:
    """Return an integer argument as int, at least ``least`` where that is given.

    Raises: DtypeError for a boolean or what is no integer; RangeError below ``least``.

    >>> integer("N", 2.0)
    Traceback (most recent call last):
    attngrad.notation.DtypeError: N: expected an integer, got float 2.0
    """
    if isinstance(value, bool | np.bool_) or not hasattr(type(value), "__index__"):
        raise DtypeError(f"{name}: expected an integer, got {type(value).__name__} {value!r}")
    try:
        number = operator.index(value)
    except TypeError as error:
        raise DtypeError(f"{name}: expected an integer, got {type(value).__name__} {value!r}") from error
    if least is not None and number < least:
        raise RangeError(f"{name}: expected an integer of at least {least}, got {number}")
    return number


def boolean(name: str, value: Any) -> bool:
    """Return a flag as bool.

    Raises: DtypeError for what is neither True nor False.

    >>> boolean("causal", 1)
    Traceback (most recent call last):
    attngrad.notation.DtypeError: causal: expected True or False, got int 1
    """
    if not isinstance(value, bool | np.bool_):
        raise DtypeError(f"{name}: expected True or False, got {type(value).__name__} {value!r}")
    return bool(value)


def group_size(H: int, H_kv: int) -> int:
    """Return how many query heads share one head of keys and values.

    Raises: ShapeError unless H_kv divides H.

    >>> group_size(8, 2)
    4
    """
    if H_kv == 0 or H % H_kv:
        raise ShapeError(f"H: expected a multiple of H_kv = {H_kv}, got H = {H}")
    return H // H_kv


def dropout_rate(dropout: Any, keep: Any) -> float:
    """Return the rate of a dropout whose mask of kept weights is given.

    Raises: DtypeError or RangeError for what is no rate from 0 to less than 1, or a rate without a mask.

    >>> dropout_rate(0.25, np.array([True, False]))
    0.25
    """
    rate = finite_number("dropout", dropout)
    if not 0.0 <= rate < 1.0:
        raise RangeError(f"dropout: expected a rate from 0 to less than 1, got {rate}")
    if keep is None and rate > 0.0:
        raise DtypeError(f"keep: expected a mask of the weights that are kept at dropout = {rate}, got None")
    return rate


def finite_number(name: str, value: Any) -> float:
    """Return a finite number, or an array of no axes that holds one, as float.

    Raises: DtypeError for what is no number; RangeError for NaN, infinity, or a number beyond the floats.

    >>> finite_number("ttau", np.array(0.5))
    0.5
    """
    told = type(value).__name__
    if isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray):
        told = f"an array of shape {value.shape} and {value.dtype}"
        value = value.item() if value.ndim == 0 else value
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        raise DtypeError(f"{name}: expected a number, got {told}")
    try:
        number = float(value)
    except OverflowError as error:
        raise RangeError(f"{name}: expected a finite number, got one beyond the range of floats") from error
    if not math.isfinite(number):
        raise RangeError(f"{name}: expected a finite number, got {number}")
    return number


def positive_number(name: str, value: Any) -> float:
    """Return a positive finite number, or an array of no axes that holds one, as float.

    Raises: DtypeError for what is no number; RangeError for zero, a negative number, NaN or infinity.

    >>> positive_number("tau", 0.0)
    Traceback (most recent call last):
    attngrad.notation.RangeError: tau: expected a positive finite number, got 0.0
    """
    try:
        number = finite_number(name, value)
    except RangeError as error:
        raise RangeError(str(error).replace("a finite", "a positive finite")) from error
    if not number > 0.0:
        raise RangeError(f"{name}: expected a positive finite number, got {number}")
    return number


def expected_labels(n: int) -> str:
    """Return which labels a row of n keys can have, as errors say it."""
    return f"labels from 0 to {n - 1}" if n > 0 else "no label, since a row has no key"


NO_LABEL_IGNORED = "; no label is ignored: give a row of zeros as its target instead"
