"""What all kernels of attention share: rows of a tensor, products of two tiles, and the scores of a tile.

Capital letters are whole tensors, small letters tiles of them. Queries are i, keys j; in a tile of pairs one
of them is a column and the other a row of indices, so that both broadcast to the tile.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl

# The interpreter, which runs kernels on a CPU, is chosen when a kernel is defined.
INTERPRETED = bool(triton.knobs.runtime.interpret)
_INTERPRETED = tl.constexpr(INTERPRETED)


class Strided(NamedTuple):
    """A tensor of four axes, and the steps between entries along each axis."""

    entries: torch.Tensor
    b: int
    h: int
    row: int
    column: int


def strided(x: torch.Tensor | None) -> Strided | None:
    """Return a tensor as kernels take it, None for none."""
    return None if x is None else Strided(x, *x.stride())


@triton.jit
def pointers(X, b, h, row, column):
    """Return where the entries X[b, h, row, column] stand; 64 bits hold every offset."""
    head = X.entries + b.to(tl.int64) * X.b + h.to(tl.int64) * X.h
    return head + row.to(tl.int64) * X.row + column.to(tl.int64) * X.column


@triton.jit
def load_rows(X, b, h, row, rows, FEATURES: tl.constexpr, WIDTH: tl.constexpr):
    """Return rows of one head, (len(row), WIDTH); 0 beyond its ``rows`` rows and FEATURES columns."""
    column = tl.arange(0, WIDTH)
    there = (row < rows)[:, None] & (column < FEATURES)[None, :]
    return tl.load(pointers(X, b, h, row[:, None], column[None, :]), mask=there, other=0.0)


@triton.jit
def store_rows(X, tile, b, h, row, rows, FEATURES: tl.constexpr, WIDTH: tl.constexpr):
    """Write rows of one head, rounded to its type, as `load_rows` reads them."""
    column = tl.arange(0, WIDTH)
    there = (row < rows)[:, None] & (column < FEATURES)[None, :]
    tile = tile.to(X.entries.dtype.element_ty)
    tl.store(pointers(X, b, h, row[:, None], column[None, :]), tile, mask=there)


@triton.jit
def dot(x, y):
    """Return the product of two tiles, added up in float32; float32 factors are not shortened."""
    if _INTERPRETED:  # which would multiply the bits of two bfloat16 as integers
        x, y = x.to(tl.float32), y.to(tl.float32)
    return tl.dot(x, y, input_precision="ieee")


@triton.jit
def scores(
    qk, i, j, b, h, DIAGONALS, MASK, N, M, start, CAUSAL: tl.constexpr, OF_KEYS: tl.constexpr
):  # fmt: skip
    """Return s = scale q.k + bias for a tile of pairs, -inf where query i may not attend to key j.

    DIAGONALS (H, N + M - 1) holds the bias of the pairs with j - i = 1 - N .. M - 1. Query i stands at the
    position of key i + start. A mask OF_KEYS is the same for all queries.
    """
    inside = (i < N) & (j < M)
    seen = inside
    if CAUSAL:
        seen &= j <= i + start
    if MASK is not None:
        if OF_KEYS:
            seen &= tl.load(pointers(MASK, b, h, tl.zeros_like(j), j), mask=j < M, other=0) != 0
        else:
            seen &= tl.load(pointers(MASK, b, h, i, j), mask=inside, other=0) != 0
    if DIAGONALS is not None:
        qk += tl.load(DIAGONALS + h.to(tl.int64) * (N + M - 1) + (j - i + N - 1), mask=inside, other=0.0)
    return tl.where(seen, qk, -float("inf"))
