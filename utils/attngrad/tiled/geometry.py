"""Strips and tiles of the pairs, and two views in which a tile and a vector of diagonals meet.

Queries are walked from the last to the first: row r stands for query N - 1 - r. A bias by offset is a vector
with one entry for each diagonal, and query i and key j have entry j - i + N - 1 of it, which is r + j. For
three queries and four keys, with six diagonals:

              key 0 1 2 3
    row 0, query 2  0 1 2 3
    row 1, query 1  1 2 3 4
    row 2, query 0  2 3 4 5

Hankel view: one step down and one step to the right are the same step in the vector. So a view of the vector
with strides (1, 1) is the bias of a tile, and no pair is gathered.

Skew view: backwards the entries of a tile are added up by diagonals. They are written into rows that end in
zeros, and read as rows that are shorter by one. So each row starts one place later than the row above it, and
a diagonal stands in a column:

    written    a b c d . .      read    a b c d . .
    with       e f g h . .      with    . e f g h .
    pitch 6    i j k l . .      pitch 5 . . i j k l

The sums of the columns are those of the diagonals, in their order, and nothing is copied.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch

Tensor = torch.Tensor

CACHE_LINE = 64  # bytes
# At most so many rows and columns has a tile, and so many entries have those of all heads that go together.
ROWS, COLUMNS, ENTRIES = 256, 2048, 2**19


def parts(start: int, stop: int, size: int) -> Iterator[slice]:
    """Yield slices of at most ``size`` that cover start to stop."""
    for first in range(start, stop, size):
        yield slice(first, min(first + size, stop))


def length(part: slice) -> int:
    """Return how many places a slice covers."""
    return part.stop - part.start


class Block(NamedTuple):
    """Heads that are computed at once: some batches, some heads of queries, and a head of keys for each."""

    batches: slice
    heads: slice
    shared: slice


class Tile(NamedTuple):
    """Some rows and some columns."""

    rows: slice
    columns: slice


class Tiling:
    """How all pairs are divided. Outside the diagonals ``live`` they are hidden, and no tile goes there.

    A tile has at most so many ``rows`` and ``columns``, and a block at most so many ``heads`` in all batches.
    """

    def __init__(self, B: int, H: int, H_kv: int, N: int, M: int, live: slice) -> None:
        self.B, self.H, self.H_kv, self.N, self.M, self.live = B, H, H_kv, N, M, live
        self.rows, self.columns = max(1, min(N, ROWS)), max(1, min(M, COLUMNS))
        self.heads = max(1, min(B * H_kv, ENTRIES // (self.rows * self.columns)))

    def blocks(self) -> Iterator[Block]:
        """Yield all heads; where H_kv < H, those of a block are the n-th ones of their groups."""
        group = self.H // self.H_kv
        for batches in parts(0, self.B, max(1, self.heads // self.H_kv)):
            for shared in parts(0, self.H_kv, self.heads):
                for n in range(group):
                    heads = slice(shared.start * group + n, shared.stop * group, group)
                    yield Block(batches, heads, shared)

    def strips(self) -> Iterator[slice]:
        """Yield the rows of all tiles."""
        return parts(0, self.N, self.rows)

    def tiles(self, rows: slice) -> Iterator[Tile]:
        """Yield the tiles of some rows, of about the same width, from the first live diagonal to the last."""
        start = max(0, self.live.start - (rows.stop - 1))
        stop = min(self.M, self.live.stop - rows.start)
        if start < stop:
            number = math.ceil((stop - start) / self.columns)
            for columns in parts(start, stop, math.ceil((stop - start) / number)):
                yield Tile(rows, columns)


def diagonals_of(tile: Tile) -> slice:
    """Return the diagonals that meet a tile."""
    return slice(tile.rows.start + tile.columns.start, tile.rows.stop + tile.columns.stop - 1)


def hankel(diagonals: Tensor, tile: Tile) -> Tensor:
    """Return the entries of diagonals (heads, N + M - 1) for the pairs of a tile, (heads, rows, columns)."""
    shape = (len(diagonals), length(tile.rows), length(tile.columns))
    first = diagonals.storage_offset() + diagonals_of(tile).start
    return diagonals.as_strided(shape, (diagonals.stride(0), 1, 1), first)


def padded(columns: int, dtype: torch.dtype) -> int:
    """Return a pitch of rows in memory: at least so many columns, and an odd number of cache lines.

    Products with a transposed tile take a third longer where the pitch is a power of two.
    """
    line = CACHE_LINE // dtype.itemsize
    return line * (math.ceil(columns / line) | 1)


class Memory:
    """Memory for one tile at a time."""

    def __init__(self, tiling: Tiling, like: Tensor) -> None:
        self.all = like.new_empty(tiling.heads, tiling.rows, padded(tiling.columns, like.dtype))

    def tile(self, heads: int, tile: Tile) -> Tensor:
        """Return memory for a tile, (heads, rows, columns)."""
        shape = (heads, length(tile.rows), length(tile.columns))
        return self.all.as_strided(shape, self.all.stride())


class SkewMemory(Memory):
    """Memory for one tile at a time, whose diagonals can be added up."""

    def __init__(self, tiling: Tiling, like: Tensor) -> None:
        self.written = padded(tiling.columns + tiling.rows - 1, like.dtype)
        self.all = like.new_empty(tiling.heads, tiling.rows, self.written)

    def tile(self, heads: int, tile: Tile) -> Tensor:
        """Return memory for a tile, (heads, rows, columns), with zeros behind each row."""
        columns = length(tile.columns)
        if columns < self.written:
            self.all[..., columns : self.written] = 0.0
        self.written = columns
        return super().tile(heads, tile)

    def sums(self, heads: int, tile: Tile) -> Tensor:
        """Return the sums of the diagonals of the tile that was written, (heads, rows + columns - 1)."""
        head, pitch, _ = self.all.stride()
        shape = (heads, length(tile.rows), length(tile.rows) + length(tile.columns) - 1)
        return self.all.as_strided(shape, (head, pitch - 1, 1)).sum(dim=1)
