"""Maps from pairs to rows of a table, each with the number of rows that it needs."""

import math
from dataclasses import dataclass
from typing import SupportsIndex

import numpy as np

from attngrad.notation import Float, Int, RangeError, ShapeError, boolean, integer
from attngrad.offsets.arguments import bounded
from attngrad.offsets.pairs import relative_offset
from attngrad.offsets.rows import checked_buckets, clip_offset, offset_row, t5_bucket
from attngrad.offsets.slopes import alibi_slopes
from attngrad.offsets.windows import beit_index, window_index


class OffsetRows:
    """A map that looks at nothing but the offset of a pair: ``of`` says which row an offset has."""

    R: int

    def of(self, offset: Int[np.ndarray, "..."]) -> Int[np.ndarray, "..."]:
        """Return the row of each offset."""
        raise NotImplementedError

    def __call__(
        self, N: SupportsIndex, M: SupportsIndex, query_start: SupportsIndex | None = None
    ) -> Int[np.ndarray, "N M"]:
        """Return the row of every pair."""
        return self.of(relative_offset(N, M, query_start))


@dataclass(frozen=True)
class OffsetMap(OffsetRows):
    """One row for each offset between positions of sequences of at most ``max_len``.

    Formula: row = offset + max_len - 1, R = 2 max_len - 1.

    Raises: DtypeError or RangeError for a length that is no integer of at least 1; where it is called,
    RangeError for an offset of a longer sequence.

    >>> OffsetMap(3)(2, 3)
    array([[1, 2, 3],
           [0, 1, 2]])
    """

    max_len: int

    def __post_init__(self) -> None:
        """Check the length."""
        bounded("max_len", self.max_len, least=1)

    @property
    def R(self) -> int:
        """Return the number of rows."""
        return 2 * int(self.max_len) - 1

    def of(self, offset: Int[np.ndarray, "..."]) -> Int[np.ndarray, "..."]:
        """Return the row of each offset."""
        return offset_row(offset, int(self.max_len) - 1)


@dataclass(frozen=True)
class ClipMap(OffsetRows):
    """One row for each offset up to a distance; what is farther shares the outer rows.

    Formula: row = clip(offset) + max_distance, R = 2 max_distance + 1.

    Raises: DtypeError or RangeError for a distance that is no integer of at least 0.

    >>> ClipMap(1)(1, 4)
    array([[0, 0, 0, 1]])
    """

    max_distance: int

    def __post_init__(self) -> None:
        """Check the distance."""
        bounded("max_distance", self.max_distance, least=0)

    @property
    def R(self) -> int:
        """Return the number of rows."""
        return 2 * int(self.max_distance) + 1

    def of(self, offset: Int[np.ndarray, "..."]) -> Int[np.ndarray, "..."]:
        """Return the row of each offset."""
        return offset_row(clip_offset(offset, self.max_distance), self.max_distance)


@dataclass(frozen=True)
class T5Map(OffsetRows):
    """The buckets of T5, R = num_buckets of them.

    Raises: as `t5_bucket`.

    >>> T5Map(4, 8)(1, 4, query_start=1)
    array([[1, 0, 3, 3]])
    """

    num_buckets: int = 32
    max_distance: int = 128
    bidirectional: bool = True

    def __post_init__(self) -> None:
        """Check the sizes."""
        checked_buckets(self.num_buckets, self.max_distance, self.bidirectional)

    @property
    def R(self) -> int:
        """Return the number of rows."""
        return int(self.num_buckets)

    def of(self, offset: Int[np.ndarray, "..."]) -> Int[np.ndarray, "..."]:
        """Return the bucket of each offset."""
        return t5_bucket(offset, self.num_buckets, self.max_distance, self.bidirectional)


def _whole(name: str, n: int, N: SupportsIndex, M: SupportsIndex, query_start: SupportsIndex | None) -> None:
    """Require that all tokens of a window attend to all of them."""
    sizes = integer("N", N, least=0), integer("M", M, least=0)
    if sizes != (n, n):
        raise ShapeError(f"{name}: expected N = M = {n}, all tokens of the window, got N, M = {sizes}")
    if query_start is not None and integer("query_start", query_start) != 0:
        raise RangeError(f"query_start: expected None or 0 in a window, got {query_start}")


@dataclass(frozen=True, init=False, repr=False)
class WindowMap:
    """One row for each offset in a window of two or three axes, as `window_index_2d` and `window_index_3d`.

    Raises: DtypeError or RangeError for a size that is no integer of at least 1, or another number of axes;
    where it is called, ShapeError unless N = M = the number of tokens.

    >>> WindowMap(1, 2)(2, 2)
    array([[1, 0],
           [2, 1]])
    """

    sizes: tuple[int, ...]

    def __init__(self, *sizes: SupportsIndex) -> None:
        """Check the sizes and keep them."""
        if len(sizes) not in (2, 3):
            raise RangeError(f"sizes: expected two or three, got {len(sizes)}")
        kept = tuple(bounded(f"sizes[{k}]", size, least=1) for k, size in enumerate(sizes))
        object.__setattr__(self, "sizes", kept)

    def __repr__(self) -> str:
        """Return the call that makes this map."""
        return f"WindowMap({', '.join(map(str, self.sizes))})"

    @property
    def R(self) -> int:
        """Return the number of rows."""
        return math.prod(2 * size - 1 for size in self.sizes)

    def __call__(
        self, N: SupportsIndex, M: SupportsIndex, query_start: SupportsIndex | None = None
    ) -> Int[np.ndarray, "N M"]:
        """Return the row of every pair."""
        _whole(repr(self), math.prod(self.sizes), N, M, query_start)
        return window_index(*self.sizes)


@dataclass(frozen=True)
class BeitMap:
    """The rows of `beit_index`: a window of two axes with a class token in front.

    Raises: DtypeError or RangeError for a size that is no integer of at least 1; where it is called,
    ShapeError unless N = M = 1 + height width.

    >>> BeitMap(1, 1)(2, 2)
    array([[3, 1],
           [2, 0]])
    """

    height: int
    width: int

    def __post_init__(self) -> None:
        """Check the sizes."""
        bounded("height", self.height, least=1)
        bounded("width", self.width, least=1)

    @property
    def R(self) -> int:
        """Return the number of rows."""
        return (2 * int(self.height) - 1) * (2 * int(self.width) - 1) + 3

    def __call__(
        self, N: SupportsIndex, M: SupportsIndex, query_start: SupportsIndex | None = None
    ) -> Int[np.ndarray, "N M"]:
        """Return the row of every pair."""
        _whole(repr(self), 1 + int(self.height) * int(self.width), N, M, query_start)
        return beit_index(self.height, self.width)


@dataclass(frozen=True)
class AlibiMap:
    """ALiBi: no table, but a slope for each head, by which the distance of a pair is multiplied.

    Raises: DtypeError or RangeError for heads that are no integer of at least 1, or a flag that is none.

    >>> AlibiMap(2).slopes
    array([0.0625    , 0.00390625])
    """

    heads: int
    learned: bool = False

    def __post_init__(self) -> None:
        """Check the heads and the flag."""
        integer("heads", self.heads, least=1)
        boolean("learned", self.learned)

    @property
    def R(self) -> None:
        """Return None: there is no table."""
        return None

    @property
    def slopes(self) -> Float[np.ndarray, " H"]:
        """Return the slope of each head."""
        return alibi_slopes(self.heads)
