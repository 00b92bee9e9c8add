"""Rows of a table for the pairs of an image's or a video's window."""

import math
from typing import SupportsIndex

import numpy as np

from attngrad.notation import Int, RangeError
from attngrad.offsets.arguments import bounded


def window_axes(*sizes: SupportsIndex) -> tuple[Int[np.ndarray, "M M"], ...]:
    """Return, for each axis of a window, the row of every pair in a table of that axis alone.

    Formula: row = x_i - x_j + size - 1 with x the coordinate on the axis, query minus key, in a table of
    2 size - 1 rows. Tokens run over the last axis first.

    Raises: DtypeError for a size that is no integer; RangeError for one below 1 or beyond 2^61, or for none.

    >>> high, wide = window_axes(1, 2)
    >>> high.tolist(), wide.tolist()
    ([[0, 0], [0, 0]], [[1, 0], [2, 1]])
    """
    if not sizes:
        raise RangeError("sizes: expected the size of at least one axis, got none")
    shape = [bounded(f"sizes[{k}]", size, least=1) for k, size in enumerate(sizes)]
    places = [x.ravel() for x in np.indices(shape, dtype=np.int64)]
    return tuple(x[:, None] - x[None, :] + size - 1 for x, size in zip(places, shape, strict=True))


def window_index(*sizes: SupportsIndex) -> Int[np.ndarray, "M M"]:
    """Return the row of every pair of a window in a table of all offsets, those of the last axis in turn.

    Raises: as `window_axes`.
    """
    rows = window_axes(*sizes)
    index = np.zeros_like(rows[0])
    for row, size in zip(rows, sizes, strict=True):
        index = index * (2 * int(size) - 1) + row
    return index


def window_index_2d(height: SupportsIndex, width: SupportsIndex) -> Int[np.ndarray, "M M"]:
    """Return Swin's row of every pair of a window of an image: its relative_position_index.

    Formula: row = (y_i - y_j + height - 1) (2 width - 1) + (x_i - x_j + width - 1), query minus key, in a
    table of R = (2 height - 1) (2 width - 1) rows. Token y width + x stands in row y, column x.

    Raises: as `window_axes`.

    >>> window_index_2d(2, 2)
    array([[4, 3, 1, 0],
           [5, 4, 2, 1],
           [7, 6, 4, 3],
           [8, 7, 5, 4]])
    """
    return window_index(height, width)


def window_index_3d(
    depth: SupportsIndex, height: SupportsIndex, width: SupportsIndex
) -> Int[np.ndarray, "M M"]:
    """Return Video Swin's row of every pair of a window of a video.

    Formula: as `window_index_2d`, with the axis of time in front, in a table of R = (2 depth - 1)
    (2 height - 1) (2 width - 1) rows.

    Raises: as `window_axes`.

    >>> window_index_3d(2, 1, 1)
    array([[1, 0],
           [2, 1]])
    """
    return window_index(depth, height, width)


def beit_index(height: SupportsIndex, width: SupportsIndex) -> Int[np.ndarray, "M M"]:
    """Return BEiT's row of every pair of an image with a class token in front.

    Formula: pairs of patches as `window_index_2d`, in a table of R = (2 height - 1) (2 width - 1) + 3 rows.
    Row R - 3 is that of the class token as query and a patch as key, R - 2 of a patch as query and the class
    token as key, R - 1 of the class token with itself.

    Raises: as `window_axes`.

    >>> beit_index(1, 2)
    array([[5, 3, 3],
           [4, 1, 0],
           [4, 2, 1]])
    """
    patches = window_index(height, width)
    offsets = math.prod(2 * int(size) - 1 for size in (height, width))
    index = np.empty((len(patches) + 1, len(patches) + 1), dtype=np.int64)
    index[1:, 1:] = patches
    index[0, 1:], index[1:, 0], index[0, 0] = offsets, offsets + 1, offsets + 2
    return index
