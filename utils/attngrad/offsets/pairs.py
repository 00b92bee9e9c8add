"""Offsets and masks of all pairs of a query and a key."""

from collections.abc import Sequence
from typing import SupportsIndex

import numpy as np

from attngrad.notation import Bool, DtypeError, Int
from attngrad.offsets.arguments import bounded


def _sizes(N: SupportsIndex, M: SupportsIndex, query_start: SupportsIndex | None) -> tuple[int, int, int]:
    """Check the sizes and fill in the default alignment."""
    n_queries, n_keys = bounded("N", N, least=0), bounded("M", M, least=0)
    start = n_keys - n_queries if query_start is None else bounded("query_start", query_start)
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


def packed_offset(
    lengths: Sequence[SupportsIndex] | np.ndarray,
) -> tuple[Int[np.ndarray, "M M"], Bool[np.ndarray, "M M"]]:
    """Return the offsets of sequences packed into one, and True where a pair is of one sequence.

    Formula: positions count from 0 in each sequence; offset[i, j] = position of j - position of i. Within a
    sequence it is j - i, as without packing; the offset of a pair of two sequences, which the mask must hide,
    stays smaller than the longest of them.

    Raises: DtypeError or RangeError for a length that is no integer, negative, or beyond 2^61.

    >>> offset, same = packed_offset([2, 1])
    >>> offset
    array([[ 0,  1,  0],
           [-1,  0, -1],
           [ 0,  1,  0]])
    >>> same[1]
    array([ True,  True, False])
    """
    if isinstance(lengths, str | bytes) or not hasattr(lengths, "__iter__"):
        raise DtypeError(f"lengths: expected a sequence of integers, got {type(lengths).__name__}")
    sizes = [bounded(f"lengths[{k}]", length, least=0) for k, length in enumerate(lengths)]
    parts = [np.arange(size, dtype=np.int64) for size in sizes]
    position = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
    sequence = np.repeat(np.arange(len(sizes)), sizes)
    return position[None, :] - position[:, None], sequence[None, :] == sequence[:, None]
