"""Rows of a table from offsets: one a distance, clipped, and T5's buckets."""

from bisect import bisect_left
from functools import lru_cache
from typing import Any, SupportsIndex

import numpy as np

from attngrad.notation import Int, RangeError, boolean, integer
from attngrad.offsets.arguments import bounded, integer_array, row_array, within


def clip_offset(offset: Int[np.ndarray, "..."], max_distance: SupportsIndex) -> Int[np.ndarray, "..."]:
    """Return offsets with everything beyond a distance moved to it.

    Formula: min(max(offset, -max_distance), max_distance).

    Raises: DtypeError for what is no integer; RangeError for a negative distance, or a size beyond 2^61.

    >>> clip_offset(np.array([-3, -2, 1, 9]), 2)
    array([-2, -2,  1,  2])
    """
    distance = bounded("max_distance", max_distance, least=0)
    return np.asarray(np.clip(integer_array("offset", offset), -distance, distance))


def offset_row(offset: Int[np.ndarray, "..."], max_distance: SupportsIndex) -> Int[np.ndarray, "..."]:
    """Return the row of each offset in a table with one row for each from -max_distance to max_distance.

    Formula: row = offset + max_distance, in a table of R = 2 max_distance + 1 rows.

    Raises: RangeError that names an offset for which the table has no row; else as `clip_offset`.

    >>> offset_row(np.array([-2, 0, 2]), 2)
    array([0, 2, 4])
    """
    distance, offset = bounded("max_distance", max_distance, least=0), integer_array("offset", offset)
    has = f"offsets from {-distance} to {distance}, for which the table of {2 * distance + 1} rows has one"
    within("offset", offset, -distance, distance, has)
    return np.asarray(offset + distance)


@lru_cache(maxsize=64)
def _edges(buckets: int, exact: int, max_distance: int) -> np.ndarray:
    """Return the distance at which each bucket after ``exact`` begins.

    Formula: with L = buckets - exact, bucket exact + u begins at the smallest n for which
    log(n / exact) / log(max_distance / exact) >= u / L, that is n^L exact^u >= max_distance^u exact^L.
    """
    L = buckets - exact

    def begins(u: int) -> int:
        least = max_distance**u * exact**L
        return exact + bisect_left(
            range(exact, max_distance + 1), True, key=lambda n: n**L * exact**u >= least
        )

    return np.array([begins(u) for u in range(1, L)], dtype=np.int64)


def checked_buckets(num_buckets: Any, max_distance: Any, bidirectional: Any) -> tuple[int, int, int]:
    """Return the buckets of one direction, how many of them hold one distance each, and the last distance.

    Raises: DtypeError or RangeError as `t5_bucket`.
    """
    bidirectional = boolean("bidirectional", bidirectional)
    buckets = integer("num_buckets", num_buckets, least=4 if bidirectional else 2)
    if bidirectional and buckets % 2:
        told = "an even number with bidirectional=True, half for each direction"
        raise RangeError(f"num_buckets: expected {told}, got {buckets}")
    buckets = buckets // 2 if bidirectional else buckets
    exact, last = buckets // 2, bounded("max_distance", max_distance)
    if last <= exact:
        told = f"more than {exact}, the buckets of one distance each"
        raise RangeError(f"max_distance: expected {told}, got {last}")
    return buckets, exact, last


def t5_bucket(
    offset: Int[np.ndarray, "..."],
    num_buckets: SupportsIndex = 32,
    max_distance: SupportsIndex = 128,
    bidirectional: bool = True,
) -> Int[np.ndarray, "..."]:
    """Return T5's bucket of each offset, exactly.

    Formula: for one direction with b buckets and e = b // 2 of them for single distances, a distance n has
    bucket n if n < e, else min(e + floor((b - e) log(n / e) / log(max_distance / e)), b - 1). The minimum is
    needed from max_distance on. With bidirectional=True each direction has b = num_buckets / 2, later keys
    in the upper half; row b is never used, since a later key has n >= 1. Otherwise later keys, which a causal
    mask hides, share bucket 0.

    The floor is taken by comparing integers. In float32, as transformers takes it, the default sizes give
    the same; few others differ by one bucket at a distance where one begins: 48 buckets up to 81 put distance
    54 into bucket 39, not 40. In bfloat16 the default sizes differ too: distance 16 has bucket 9, not 10.

    Raises: DtypeError for what is no integer; RangeError for an odd number of buckets with
    bidirectional=True, for too few of them, or for a max_distance of no more than e.

    >>> t5_bucket(np.array([-128, -8, -7, 0, 1, 8, 16, 90, 91, 128, 600]))
    array([15,  8,  7,  0, 17, 24, 26, 30, 31, 31, 31])
    >>> t5_bucket(np.array([-128, -16, -15, 0, 7]), bidirectional=False)
    array([31, 16, 15,  0,  0])
    """
    buckets, exact, last = checked_buckets(num_buckets, max_distance, bidirectional)
    offset = integer_array("offset", offset)
    distance = np.abs(offset) if bidirectional else np.maximum(-offset, 0)
    far = exact + np.searchsorted(_edges(buckets, exact, last), distance, side="right")
    bucket = np.where(distance < exact, distance, far)
    return np.asarray(np.where(offset > 0, buckets, 0) + bucket if bidirectional else bucket)


def rows_count(row: Int[np.ndarray, "N M"], R: SupportsIndex) -> Int[np.ndarray, " R"]:
    """Return how many pairs have each row of a table, 0 for a row that none has.

    Formula: count[r] = number of pairs (i, j) with row[i, j] = r. The counts add up to N M.

    Raises: DtypeError for what is no integer; ShapeError unless row has two axes; RangeError that names a
    row outside the table.

    >>> rows_count(np.array([[1, 2], [0, 1]]), 4)
    array([1, 2, 1, 0])
    """
    rows = bounded("R", R, least=0)
    return np.bincount(row_array("row", row, rows).ravel(), minlength=rows)
