"""A bias that pairs share by their positions, as a module: a table with any map, or the slopes of ALiBi."""

from collections.abc import Callable
from typing import Any, SupportsIndex

import numpy as np
import torch
from torch import nn

from attngrad.notation import DtypeError, Float, RangeError, ShapeError, check_same_shape, integer
from attngrad.offsets import AlibiMap, BeitMap, ClipMap, OffsetMap, T5Map, WindowMap, relative_offset
from attngrad.offsets.arguments import bounded, integer_array, row_array

Map = Callable[[int, int, int | None], Any]
KNOWN = (OffsetMap, ClipMap, T5Map, WindowMap, BeitMap, AlibiMap)
BY_OFFSET = (OffsetMap, ClipMap, T5Map)


def _float_type(dtype: Any, otherwise: torch.dtype) -> torch.dtype:
    """Return a floating-point type, or the other one for None."""
    if dtype is None:
        return otherwise
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise DtypeError(f"dtype: expected a floating-point type of torch, got {dtype!r}")
    return dtype


def _integers(name: str, x: Any) -> np.ndarray:
    """Return integers of NumPy or torch as int64 of NumPy."""
    return integer_array(name, x.detach().cpu().numpy() if isinstance(x, torch.Tensor) else x)


def _rows_of_map(map: Any, rows: Any) -> int | None:
    """Return how many rows a table needs for a map, None without a table."""
    if isinstance(map, KNOWN):
        if rows is not None:
            raise RangeError(f"rows: expected None, since {map!r} has R = {map.R}, got {rows}")
        return map.R
    if not callable(map):
        told = "a map of attngrad.offsets, or a callable (N, M, query_start) -> rows"
        raise DtypeError(f"map: expected {told}, got {type(map).__name__}")
    if rows is None:
        raise DtypeError("rows: expected the number of rows of the table for a map of your own, got None")
    return integer("rows", rows, least=1)


def gathered(table: torch.Tensor, row: torch.Tensor, sort: bool) -> torch.Tensor:
    """Return the entries (H, N, M) of a table (H, R) in rows (N, M).

    Two operations do it, and their backward passes differ in how they add. That of index_select runs through
    the pairs in order on a CPU, and in any order on a GPU. That of indexing, which is taken with ``sort``,
    sorts the pairs by their rows on a GPU, and so fixes the order there.
    """
    return table[:, row] if sort else table.index_select(1, row.flatten()).unflatten(1, row.shape)


class RelativeBias(nn.Module):
    """A learned bias for each head and pair, by their positions.

    Formula: bias[h, i, j] = table[h, row[i, j]], and backward dtable[h, r] = sum of dbias[h, i, j] over the
    pairs in row r, as `attngrad.reference.table_bias_vjp`. With `AlibiMap`, bias = -slopes[h] |offset|.

    ``map`` says which row a pair has: OffsetMap, ClipMap, T5Map, WindowMap or BeitMap, AlibiMap, or any
    callable that takes N, M and query_start and returns integers (N, M); then ``rows`` says how many rows
    the table has. The table is zero at first. Slopes are `attngrad.offsets.alibi_slopes`, learned if the map
    says so.

    With heads=1 the bias is (1, N, M), which attention broadcasts: its gradient is the sum over the heads. A
    bias for several layers is called once and passed to each; its gradient is the sum over the layers.

    The rows of the last call are kept, outside the state of the module, and never the bias, which would stay
    behind the table once that moves.

    Tables and slopes of 16 bits are gathered, and their gradients added up, in float32 and rounded once. The
    sum has a fixed order: repeated runs agree in every bit at a fixed number of threads.

    Raises: DtypeError or RangeError for heads or rows that are no integer of at least 1; RangeError for rows
    that are not those of the map, or heads that are not those of AlibiMap; DtypeError for a map that is none.

    >>> shared = RelativeBias(2, ClipMap(1))
    >>> shared.table.data = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    >>> bias = shared(2, 3)
    >>> bias[1]
    tensor([[4., 5., 6.],
            [4., 4., 5.]], grad_fn=<SelectBackward0>)
    >>> bias.sum().backward()
    >>> shared.table.grad[1]
    tensor([3., 2., 1.])
    """

    table: nn.Parameter | None
    slopes: torch.Tensor | None

    def __init__(
        self,
        heads: SupportsIndex,
        map: Map | AlibiMap,
        *,
        rows: SupportsIndex | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        """Make the table or the slopes."""
        super().__init__()
        self.heads, self.map = integer("heads", heads, least=1), map
        self.R = _rows_of_map(map, rows)
        self._row: torch.Tensor | None = None
        self._row_of: tuple[int, int, int | None] | None = None
        alibi = isinstance(map, AlibiMap)
        if alibi and self.heads != map.heads:
            raise RangeError(f"heads: expected {map.heads} as in {map!r}, got {self.heads}")
        shape = (self.heads,) if alibi else (self.heads, self.R)
        dtype = _float_type(dtype, torch.get_default_dtype())
        made = torch.empty(shape, dtype=dtype, device=device)
        self.register_parameter("table", None if alibi else nn.Parameter(made))
        if alibi and map.learned:
            self.slopes = nn.Parameter(made)
        else:
            self.register_buffer("slopes", made if alibi else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the table to zero, or the slopes to those of ALiBi."""
        with torch.no_grad():
            if self.table is not None:
                self.table.zero_()
            if self.slopes is not None:
                self.slopes.copy_(torch.tensor(self.map.slopes))

    def extra_repr(self) -> str:
        """Return what a printed model says about this module."""
        return f"heads={self.heads}, map={self.map!r}"

    def forward(
        self,
        N: SupportsIndex,
        M: SupportsIndex,
        query_start: SupportsIndex | None = None,
        *,
        dtype: torch.dtype | None = None,
    ) -> Float[torch.Tensor, "H N M"]:
        """Return the bias of N queries and M keys; query i stands at position i + query_start, or M - N.

        The bias has the type of the table, or ``dtype``: a table of 16 bits asked for float32 gets the
        cotangents of its pairs unrounded.

        Raises: DtypeError or RangeError for sizes that are no integers of at least 0; RangeError for a row
        outside the table, or an offset for which the map has none; ShapeError for rows of another shape.
        """
        sizes = integer("N", N, least=0), integer("M", M, least=0)
        start = None if query_start is None else integer("query_start", query_start)
        source = self._source()
        key = (*sizes, start)
        if self._row_of != key or self._row is None or self._row.device != source.device:
            self._row, self._row_of = self._rows(*key).to(source.device), key
        return self._bias(self._row, dtype)

    def at(
        self, offset: np.ndarray | torch.Tensor, *, dtype: torch.dtype | None = None
    ) -> Float[torch.Tensor, "H N M"]:
        """Return the bias of pairs with these offsets, key position minus query position, (N, M).

        For sequences packed into one, offsets restart: `attngrad.offsets.packed_offset`.

        Raises: DtypeError for what is no integers, or a map that looks at more than the offset; ShapeError
        for other than two axes; RangeError as `forward`.
        """
        offset = _integers("offset", offset)
        if offset.ndim != 2:
            raise ShapeError(f"offset: expected two axes (N, M), got shape {offset.shape}")
        if isinstance(self.map, AlibiMap):
            return self._bias(self._on_device(np.abs(offset)), dtype)
        if not isinstance(self.map, BY_OFFSET):
            raise DtypeError(f"map: expected OffsetMap, ClipMap, T5Map or AlibiMap, got {self.map!r}")
        return self._bias(self._on_device(self.map.of(offset)), dtype)

    @property
    def by_offset(self) -> bool:
        """Return whether the bias of a pair depends on its offset alone."""
        return isinstance(self.map, (*BY_OFFSET, AlibiMap))

    def diagonals(
        self,
        N: SupportsIndex,
        M: SupportsIndex,
        query_start: SupportsIndex | None = None,
        *,
        dtype: torch.dtype | None = None,
    ) -> Float[torch.Tensor, "H diagonals"]:
        """Return the bias of each diagonal of the pairs, of which there are N + M - 1.

        Formula: diagonals[h, j - i + N - 1] = bias[h, i, j], for bias = forward(N, M, query_start). They are
        the bias of one query, the last one, and of as many keys as there are diagonals.

        Raises: DtypeError for a map that looks at more than the offset; RangeError without a query or a key;
        else as `forward`.

        >>> RelativeBias(1, ClipMap(1)).diagonals(2, 3).shape
        torch.Size([1, 4])
        """
        N, M = integer("N", N, least=1), integer("M", M, least=1)
        if not self.by_offset:
            raise DtypeError(f"map: expected OffsetMap, ClipMap, T5Map or AlibiMap, got {self.map!r}")
        start = M - N if query_start is None else bounded("query_start", query_start)
        return self.forward(1, N + M - 1, start + N - 1, dtype=dtype).squeeze(1)

    def score_mod(
        self, N: SupportsIndex, M: SupportsIndex, query_start: SupportsIndex | None = None
    ) -> Callable[..., torch.Tensor]:
        """Return the function by which FlexAttention adds this bias to its scores.

        It is called as score_mod(score, b, h, i, j), for query i and key j, and reads the bias of diagonals,
        or of pairs where the map looks at more than the offset. It holds what the table was when it was made:
        make one for each step. Its gradient reaches the table where FlexAttention has one, on CUDA devices.

        Raises: as `forward`.

        >>> score = torch.zeros(())
        >>> RelativeBias(2, ClipMap(1)).score_mod(3, 3)(score, 0, 1, 2, 0).item()
        0.0
        """
        if self.by_offset:
            diagonals, last = self.diagonals(N, M, query_start), integer("N", N) - 1

            def of_offset(score: Any, b: Any, h: Any, i: Any, j: Any) -> torch.Tensor:
                return score + diagonals[h if self.heads > 1 else 0, j - i + last]

            return of_offset
        bias = self.forward(N, M, query_start)

        def of_pair(score: Any, b: Any, h: Any, i: Any, j: Any) -> torch.Tensor:
            return score + bias[h if self.heads > 1 else 0, i, j]

        return of_pair

    def _source(self) -> torch.Tensor:
        """Return the table, or the slopes."""
        source = self.slopes if self.table is None else self.table
        assert source is not None
        return source

    def _on_device(self, row: np.ndarray) -> torch.Tensor:
        """Return integers as a tensor beside the table."""
        return torch.tensor(row, device=self._source().device)

    def _rows(self, N: int, M: int, query_start: int | None) -> torch.Tensor:
        """Return the row of every pair, or its distance for ALiBi."""
        if isinstance(self.map, AlibiMap):
            return torch.tensor(np.abs(relative_offset(N, M, query_start)))
        assert self.R is not None
        row = _integers("rows of the map", self.map(N, M, query_start))
        check_same_shape("rows of the map", row.shape, "N and M", (N, M))
        return torch.tensor(row_array("rows of the map", row, self.R))

    def _bias(self, row: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
        """Return the bias of pairs by their rows or distances."""
        source = self._source()
        inside = source if source.dtype == torch.float64 else source.to(torch.float32)
        if self.table is None:
            bias = inside[:, None, None] * -row
        else:
            bias = gathered(inside, row, sort=inside.device.type != "cpu")
        return bias.to(_float_type(dtype, source.dtype))


# The compiler is to take rows as constants, since tracing the NumPy code fails at a second size. This is what
# torch.compiler.assume_constant_result does, but to call that loads the compiler, which takes a second.
RelativeBias._rows._dynamo_marked_constant = True  # type: ignore[attr-defined]
