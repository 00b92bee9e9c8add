"""Position arithmetic in integers: which offset and which mask a pair of query and key has.

Key j sits at position j and query i at position i + query_start. The default query_start = M - N aligns
the last query with the last key; query_start = 0 aligns the first ones.
"""

from typing import SupportsIndex

import numpy as np

from attngrad.notation import Bool, Int, RangeError, integer

_LARGEST = 2**61  # so that the sum of a position, a start and an offset fits into 64 bits


def _sizes(N: SupportsIndex, M: SupportsIndex, query_start: SupportsIndex | None) -> tuple[int, int, int]:
    """Check the sizes and fill in the default alignment."""
    n_queries, n_keys = integer("N", N, least=0), integer("M", M, least=0)
    start = n_keys - n_queries if query_start is None else integer("query_start", query_start)
    for name, size in (("N", n_queries), ("M", n_keys), ("query_start", start)):
        if abs(size) > _LARGEST:
            raise RangeError(f"{name}: expected an integer of at most 2^61 in size, got {size}")
    return n_queries, n_keys, start


def relative_offset(
    N: SupportsIndex, M: SupportsIndex, query_start: SupportsIndex | None = None
) -> Int[np.ndarray, "N M"]:
    r"""Return key position minus query position for every pair.

    Formula: offset[i, j] = j - (i + query_start), with query_start = M - N by default.

    Raises: DtypeError for what is no integer; RangeError for a negative size, or one beyond 2^61.

    >>> relative_offset(2, 4)
    array([[-2, -1,  0,  1],
           [-3, -2, -1,  0]])
    >>> relative_offset(2, 4, query_start=0)
    array([[ 0,  1,  2,  3],
           [-1,  0,  1,  2]])
    """
    n_queries, n_keys, start = _sizes(N, M, query_start)
    keys = np.arange(n_keys, dtype=np.int64)
    queries = np.arange(n_queries, dtype=np.int64) + start
    return keys[None, :] - queries[:, None]


def causal_mask(
    N: SupportsIndex, M: SupportsIndex, query_start: SupportsIndex | None = None
) -> Bool[np.ndarray, "N M"]:
    """Return True where a query may attend: to keys that are not after it.

    Formula: mask[i, j] = (j <= i + query_start). With N > M the first queries have no key by default.

    Raises: as `relative_offset`.

    >>> causal_mask(2, 3)
    array([[ True,  True, False],
           [ True,  True,  True]])
    """
    return relative_offset(N, M, query_start) <= 0


def multiplicity(
    N: SupportsIndex, M: SupportsIndex, query_start: SupportsIndex | None = None
) -> tuple[Int[np.ndarray, " offsets"], Int[np.ndarray, " offsets"]]:
    """Return every offset that occurs, in increasing order, and how many pairs have it.

    Formula: count(o) = number of i with 0 <= i + query_start + o < M. The counts add up to N M.

    Raises: as `relative_offset`.

    >>> offsets, counts = multiplicity(2, 3)
    >>> offsets.tolist(), counts.tolist()
    ([-2, -1, 0, 1], [1, 2, 2, 1])
    """
    n_queries, n_keys, start = _sizes(N, M, query_start)
    if n_queries == 0 or n_keys == 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    offsets = np.arange(1 - n_queries - start, n_keys - start, dtype=np.int64)
    first = np.maximum(0, -start - offsets)
    last = np.minimum(n_queries - 1, n_keys - 1 - start - offsets)
    return offsets, last - first + 1
