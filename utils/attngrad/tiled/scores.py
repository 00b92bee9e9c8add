"""The scores of a tile, and what is read of the inputs for it."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch

from attngrad.tiled.geometry import Block, Tile, Tiling, hankel, length

Tensor = torch.Tensor

LOG2_E = 1.4426950408889634


class Inputs(NamedTuple):
    """The tensors of attention, as `attngrad.tiled.attention` takes them."""

    q: Tensor
    k: Tensor
    v: Tensor
    scale: Tensor
    diagonals: Tensor | None
    bias: Tensor | None
    sink: Tensor | None
    mask: Tensor | None
    keep: Tensor | None


class Options(NamedTuple):
    """The position of the first query under a causal mask, the rate of dropout, and at most one cap."""

    query_start: int | None = None
    dropout: float = 0.0
    product_cap: float | None = None
    scores_cap: float | None = None


class Base(NamedTuple):
    """The base of the exponential; scores are multiplied by ``unit``, the logarithm of e in it.

    Where ``shifts`` is False, all scores are so small that the forward pass need not look for the largest of
    a row: no power of the base leaves the range of floats, nor does a sum of them.
    """

    unit: float
    exp_: Callable[[Tensor], Tensor]
    log_: Callable[[Tensor], Tensor]
    shifts: bool = True


# torch takes a third of the time to exponentiate with base 2. Base e is for scores near the largest float.
TWO = Base(LOG2_E, Tensor.exp2_, Tensor.log2_)
UNSHIFTED = TWO._replace(shifts=False)
E = Base(1.0, Tensor.exp_, Tensor.log_)


class Scores:
    """The scores of all pairs times the unit of the base: what they are made of, and how they are divided."""

    def __init__(self, inputs: Inputs, options: Options, base: Base, live: slice) -> None:
        (B, H, N, _), (_, H_kv, M, _) = inputs.q.shape, inputs.k.shape
        self.inputs, self.options, self.base = inputs, options, base
        self.factor = inputs.scale * base.unit
        self.diagonals = self._diagonals(N, M)
        self.bias, self.mask, self.keep = map(four_axes, (inputs.bias, inputs.mask, inputs.keep))
        self.tiling = Tiling(B, H, H_kv, N, M, live)

    def _diagonals(self, N: int, M: int) -> Tensor | None:
        """Return the bias of each diagonal times the unit, minus infinity where a causal mask hides it."""
        given, start = self.inputs.diagonals, self.options.query_start
        if given is None and start is None:
            return None
        if given is None:
            given = self.factor.new_zeros(1, max(0, N + M - 1))
        scaled = given * self.base.unit
        if start is not None:
            scaled[:, max(0, start + N) :] = -torch.inf
        return scaled.expand(self.inputs.q.shape[1], -1)

    def blocks(self) -> Iterator["Heads"]:
        """Yield the heads of each block."""
        return (Heads(self, block) for block in self.tiling.blocks())


class Heads:
    """The scores of the heads of a block, ``count`` of them over all its batches.

    Shapes: q (heads, N, D) in reverse and times the factor, k (heads, M, D), v (heads, M, D_v). What has axes
    for batches and heads of a batch has one axis for both where there is one batch.
    """

    def __init__(self, scores: Scores, block: Block) -> None:
        inputs = scores.inputs
        self.scores, self.block, self.batches = scores, block, length(block.batches)
        self.q = self.reversed(inputs.q).mul_(scores.factor)
        self.k, self.v = self.by_key(inputs.k), self.by_key(inputs.v)
        self.k_t, self.v_t, self.count = self.k.mT, self.v.mT, len(self.q)
        self.diagonals = None if scores.diagonals is None else scores.diagonals[block.heads]

    def reversed(self, x: Tensor) -> Tensor:
        """Return what x (B, H, N, C) holds for these heads, the last query first, (heads, N, C)."""
        part = x[self.block.batches, self.block.heads].flip(2)
        return part.to(self.scores.factor.dtype).flatten(0, 1)

    def put(self, x: Tensor, lines: Tensor) -> None:
        """Write lines (heads, N, C), the last query first, into x (B, H, N, C)."""
        part = x[self.block.batches, self.block.heads]
        part.copy_(lines.flip(1).view(part.shape))

    def by_key(self, x: Tensor) -> Tensor:
        """Return what x (B, H_kv, M, C) holds for these heads, (heads, M, C)."""
        return x[self.block.batches, self.block.shared].flatten(0, 1).to(self.scores.factor.dtype)

    def by_batch(self, x: Tensor) -> Tensor:
        """Return x (heads, ...) as (batches, heads of a batch, ...), unless there is one batch."""
        return x if self.batches == 1 else x.unflatten(0, (self.batches, self.count // self.batches))

    def part(self, x: Tensor, tile: Tile) -> Tensor:
        """Return the part of x, which broadcasts to (B, H, N, M), for a tile, its first query first."""
        (batches, heads, _), N = self.block, self.q.shape[1]
        at = (batches, heads, slice(N - tile.rows.stop, N - tile.rows.start), tile.columns)
        part = x[tuple(part if n > 1 else slice(None) for n, part in zip(x.shape, at, strict=True))]
        return part[0] if self.batches == 1 else part

    def pairs(self, x: Tensor, tile: Tile) -> Tensor:
        """Return what x, which broadcasts to (B, H, N, M), holds for the rows and columns of a tile."""
        return self.part(x, tile).flip(-2)

    def write(self, s: Tensor, tile: Tile, q: Tensor) -> Tensor | None:
        """Write the scores of a tile into s, and return the slope of a cap on them.

        Shapes: s and the slope (heads, rows, columns), q (heads, rows, D).
        """
        k_t, bias, slope = self.k_t[..., tile.columns], self._bias(tile), None
        if self.scores.options.product_cap is None and self.scores.options.scores_cap is None:
            if bias is not None:
                self.by_batch(s).copy_(bias)
            s.baddbmm_(q, k_t, beta=0.0 if bias is None else 1.0)
        else:
            slope = self._cap(s.baddbmm_(q, k_t, beta=0.0), bias)
        for hidden in self._hidden(tile):
            self.by_batch(s).masked_fill_(hidden, -torch.inf)
            if slope is not None:
                self.by_batch(slope).masked_fill_(hidden, 0.0)
        return slope

    def _bias(self, tile: Tile) -> Tensor | None:
        """Return the bias of a tile times the unit; it broadcasts to (batches, heads, rows, columns)."""
        near = None if self.diagonals is None else hankel(self.diagonals, tile)
        if self.scores.bias is None:
            return near
        dense = self.pairs(self.scores.bias, tile) * self.scores.base.unit
        return dense if near is None else dense + near

    def _cap(self, s: Tensor, bias: Tensor | None) -> Tensor:
        """Turn the product s into scores with a cap, and return the derivative of the cap."""
        on_product, on_scores = self.scores.options[2:]
        cap = (on_product or on_scores) * self.scores.base.unit
        if bias is not None and on_scores is not None:
            self.by_batch(s).add_(bias)
        slope = 1.0 - s.div_(cap).tanh_().square()
        s *= cap
        if bias is not None and on_product is not None:
            self.by_batch(s).add_(bias)
        return slope

    def _hidden(self, tile: Tile) -> Iterator[Tensor]:
        """Yield where pairs of a tile are hidden, as far as the bias in their scores does not see to it.

        A cap would make a bias of minus infinity finite, and a hidden entry of a dense bias may be anything.
        """
        dense, capped = self.scores.bias, self.scores.options.scores_cap is not None
        if self.scores.mask is not None:
            yield ~self.pairs(self.scores.mask, tile)
        if self.diagonals is not None and (capped or dense is not None):
            yield hankel(self.diagonals, tile).isneginf()
        if dense is not None and capped:
            yield self.pairs(dense, tile).isneginf()


def live_diagonals(inputs: Inputs, options: Options) -> slice:
    """Return between which diagonals all pairs lie that take part."""
    N, number = inputs.q.shape[2], max(0, inputs.q.shape[2] + inputs.k.shape[2] - 1)
    if options.query_start is not None:
        number = min(number, max(0, options.query_start + N))
    if inputs.diagonals is None or not (hidden := inputs.diagonals[:, :number] == -torch.inf).any():
        return slice(0, number)
    live = (~hidden.all(dim=0)).nonzero()
    return slice(int(live[0]), int(live[-1]) + 1) if len(live) else slice(0, 0)


def four_axes(x: Tensor | None) -> Tensor | None:
    """Return what broadcasts to (B, H, N, M) with all four axes."""
    return None if x is None else x[(None,) * (4 - x.ndim)]
