"""The backward pass: the weights of a tile are computed again, and no pair is stored."""

from typing import NamedTuple

import torch

from attngrad.tiled.geometry import Memory, SkewMemory, Tile, diagonals_of
from attngrad.tiled.scores import Heads, Inputs, Scores

Tensor = torch.Tensor


class Lines(NamedTuple):
    """What belongs to some queries of a block, the last one first, (heads, rows, C) each.

    With e = e^(s - top) and p = e inverse, ds = p (do.v + row) is e (do.v + row) where do and row come times
    the inverse; ``do`` comes divided by the rate at which dropout keeps, too. ``along`` is the sum of ds k.
    """

    q: Tensor
    top: Tensor
    row: Tensor
    do: Tensor
    along: Tensor


class Sums(NamedTuple):
    """What the tiles of a block add to: dk and dv (heads, M, C), ddiagonals (heads of a batch, diagonals)."""

    dk: Tensor | None
    dv: Tensor | None
    ddiagonals: Tensor | None


class Backward:
    """The cotangents of the inputs that need one, and None for the others."""

    def __init__(self, scores: Scores, needed: Inputs) -> None:
        inputs, like, tiling = scores.inputs, scores.factor, scores.tiling
        self.scores, self.needed = scores, needed
        self.memory, self.skew = Memory(tiling, like), SkewMemory(tiling, like)
        self.dq = torch.empty_like(inputs.q) if needed.q else None
        self.dk = like.new_zeros(inputs.k.shape) if needed.k else None
        self.dv = like.new_zeros(inputs.v.shape) if needed.v else None
        self.dscale = torch.zeros_like(like) if needed.scale else None
        diagonals = tiling.H, max(0, tiling.N + tiling.M - 1)
        self.ddiagonals = like.new_zeros(diagonals) if needed.diagonals else None
        self.dbias = torch.zeros_like(scores.bias) if needed.bias else None
        self.along_keys = needed.q or needed.scale
        self.through_scores = self.along_keys or needed.k or needed.diagonals or needed.bias

    def run(self, top: Tensor, inverse: Tensor, row: Tensor, do: Tensor) -> None:
        """Go through all tiles; top, inverse and row are (B, H, N, 1), do (B, H, N, D_v)."""
        tiling, scale = self.scores.tiling, self.scores.inputs.scale
        if not (self.through_scores or self.needed.v):
            return
        for heads in self.scores.blocks():
            lines, sums = self._lines(heads, top, inverse, row, do), self._sums(heads)
            strips = zip(*(x.split(tiling.rows, dim=1) for x in lines), strict=True)
            for rows, strip in zip(tiling.strips(), map(Lines._make, strips), strict=False):
                strip.along.zero_()
                for tile in tiling.tiles(rows):
                    self._add_tile(heads, tile, strip, sums)
            if self.dscale is not None:
                self.dscale += (heads.reversed(self.scores.inputs.q) * lines.along).sum()
            if self.dq is not None:
                heads.put(self.dq, lines.along.mul_(scale))

    def cotangents(self) -> tuple[Tensor | None, ...]:
        """Return dq, dk, dv, dscale, ddiagonals and dbias in the shapes and types of their inputs."""
        inputs, (dk, dv) = self.scores.inputs, (self.dk, self.dv)
        if dk is not None:
            dk = dk.to(inputs.k.dtype)
        if dv is not None:
            dv = dv.to(inputs.v.dtype)
        ddiagonals, dbias = self.ddiagonals, self.dbias
        if ddiagonals is not None:
            ddiagonals = ddiagonals.sum_to_size(inputs.diagonals.shape)
        if dbias is not None:
            dbias = dbias.view(inputs.bias.shape)
        return self.dq, dk, dv, self.dscale, ddiagonals, dbias

    def _lines(self, heads: Heads, top: Tensor, inverse: Tensor, row: Tensor, do: Tensor) -> Lines:
        """Return what belongs to all queries of a block."""
        top, inverse, row, do = map(heads.reversed, (top, inverse, row, do))
        row *= inverse
        do *= inverse / (1.0 - self.scores.options.dropout)
        return Lines(heads.q, top, row, do, torch.empty_like(heads.q))

    def _sums(self, heads: Heads) -> Sums:
        """Return views of what the tiles of a block add to."""
        batches, of_queries, of_keys = heads.block
        dk, dv = (
            None if x is None else x[batches, of_keys].view(heads.count, *x.shape[2:])
            for x in (self.dk, self.dv)
        )
        return Sums(dk, dv, None if self.ddiagonals is None else self.ddiagonals[of_queries])

    def _add_tile(self, heads: Heads, tile: Tile, lines: Lines, sums: Sums) -> None:
        """Add what a tile contributes."""
        options, keep = self.scores.options, self.scores.keep
        e = self.memory.tile(heads.count, tile)
        slope = heads.write(e, tile, lines.q)
        self.scores.base.exp_(e.sub_(lines.top))
        keep = None if keep is None else heads.pairs(keep, tile)
        if sums.dv is not None:
            kept = e if keep is None else (heads.by_batch(e) * keep).view(e.shape)
            sums.dv[:, tile.columns].baddbmm_(kept.mT, lines.do)
        if not self.through_scores:
            return
        ds = self._ds(heads, tile, lines, e, keep)
        if options.scores_cap is not None:
            ds *= slope
        self._add_to_bias(heads, tile, ds, sums)
        if options.product_cap is not None:
            ds *= slope
        if self.along_keys:
            lines.along.baddbmm_(ds, heads.k[:, tile.columns])
        if sums.dk is not None:
            sums.dk[:, tile.columns].baddbmm_(ds.mT, lines.q, alpha=1.0 / self.scores.base.unit)

    def _ds(self, heads: Heads, tile: Tile, lines: Lines, e: Tensor, keep: Tensor | None) -> Tensor:
        """Return ds = e (do.v + row) of a tile, where dropout acts on do.v."""
        ds, v_t = self.skew.tile(heads.count, tile), heads.v_t[..., tile.columns]
        if keep is None:
            return ds.copy_(lines.row).baddbmm_(lines.do, v_t).mul_(e)
        heads.by_batch(ds.baddbmm_(lines.do, v_t, beta=0.0)).mul_(keep)
        return ds.add_(lines.row).mul_(e)

    def _add_to_bias(self, heads: Heads, tile: Tile, ds: Tensor, sums: Sums) -> None:
        """Add the sums of the diagonals of ds, and ds itself, summed as its bias was broadcast."""
        if sums.ddiagonals is not None:
            by_diagonal = self.skew.sums(heads.count, tile)
            if heads.batches > 1:
                by_diagonal = heads.by_batch(by_diagonal).sum(dim=0)
            sums.ddiagonals[:, diagonals_of(tile)].add_(by_diagonal)
        if self.dbias is not None:
            part = heads.part(self.dbias, tile)
            part += heads.by_batch(ds).flip(-2).sum_to_size(part.shape)
