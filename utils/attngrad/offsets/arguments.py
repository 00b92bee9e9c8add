"""Checks of integers and of arrays of integers."""

from typing import Any

import numpy as np

from attngrad.notation import DtypeError, RangeError, ShapeError, first_index, integer

LARGEST = 2**61  # so that the sum of a position, a start and an offset fits into 64 bits


def bounded(name: str, value: Any, least: int | None = None) -> int:
    """Return an integer argument of at most 2^61 in size."""
    number = integer(name, value, least)
    if abs(number) > LARGEST:
        raise RangeError(f"{name}: expected an integer of at most 2^61 in size, got {number}")
    return number


def integer_array(name: str, x: Any) -> np.ndarray:
    """Return an array of integers as int64, each of at most 2^61 in size.

    Raises: DtypeError for what is no NumPy array of integers; RangeError that names the first too large.

    >>> integer_array("row", np.array([1.0]))
    Traceback (most recent call last):
    attngrad.notation.DtypeError: row: expected an array of integers, got float64
    """
    if not isinstance(x, np.ndarray | np.integer) or isinstance(x, np.ma.MaskedArray):
        raise DtypeError(f"{name}: expected a NumPy array of integers, got {type(x).__name__}")
    if x.dtype.kind not in "iu":
        raise DtypeError(f"{name}: expected an array of integers, got {x.dtype}")
    x = np.asarray(x)
    within(name, x, -LARGEST, LARGEST, "integers of at most 2^61 in size")
    return x.astype(np.int64)


def within(name: str, x: np.ndarray, least: int, most: int, told: str) -> None:
    """Require integers from ``least`` to ``most``.

    Raises: RangeError that says what was expected and names the first other integer and its index.
    """
    wrong = (x < least) | (x > most)
    if wrong.any():
        at = first_index(np.asarray(wrong))
        place = f" at index {at}" if at else ""
        raise RangeError(f"{name}: expected {told}, got {x[at]}{place}")


def row_array(name: str, row: Any, R: int) -> np.ndarray:
    """Return rows of a table of R rows, one for each pair, as int64.

    Raises: DtypeError for another type; ShapeError unless there are two axes; RangeError for another row.
    """
    row = integer_array(name, row)
    if row.ndim != 2:
        raise ShapeError(f"{name}: expected two axes (N, M), got shape {row.shape}")
    told = f"rows from 0 to {R - 1}, since the table has R = {R}" if R else "no row, since the table has none"
    within(name, row, 0, R - 1, told)
    return row
