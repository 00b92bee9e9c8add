"""The forward pass: each row meets its keys tile by tile, and what comes of the tiles is merged."""

from collections.abc import Callable
from functools import partial, reduce
from typing import NamedTuple

import torch

from attngrad.tiled.geometry import Memory, Tile
from attngrad.tiled.scores import Heads, Scores

Tensor = torch.Tensor


class State(NamedTuple):
    """Attention of some queries over some keys.

    ``top`` is the largest score, or the lowest number if no key takes part, or 0 where the base does not
    shift. The others are the sums of e^(s - top) and of e^(s - top) v over the keys. Shapes: (..., 1),
    (..., 1), (..., D_v).
    """

    top: Tensor
    total: Tensor
    weighted: Tensor


def over_nothing(queries: tuple[int, ...], v: Tensor) -> State:
    """Return the state of queries over no key."""
    lowest = v.new_full((*queries, 1), torch.finfo(v.dtype).min)
    return State(lowest, torch.zeros_like(lowest), v.new_zeros(*queries, v.shape[-1]))


def over_tile(heads: Heads, tile: Tile, q: Tensor, memory: Memory) -> State:
    """Return the state of the rows of a tile, whose queries are q (heads, rows, D), over its columns."""
    s = memory.tile(heads.count, tile)
    heads.write(s, tile, q)
    if heads.scores.base.shifts:
        top = s.amax(dim=2, keepdim=True).clamp_(min=torch.finfo(s.dtype).min)
        s.sub_(top)
    else:
        top = s.new_zeros(*q.shape[:2], 1)
    p = heads.scores.base.exp_(s)
    total = p.sum(dim=2, keepdim=True)
    if heads.scores.keep is not None:
        heads.by_batch(p).mul_(heads.pairs(heads.scores.keep, tile))
    return State(top, total, p.bmm(heads.v[:, tile.columns]))


def merged(one: State, other: State, exp_: Callable[[Tensor], Tensor]) -> State:
    """Return the state over the keys of both."""
    top = torch.maximum(one.top, other.top)
    fades = exp_(one.top - top), exp_(other.top - top)
    return State(top, *(x * fades[0] + y * fades[1] for x, y in zip(one[1:], other[1:], strict=True)))


def over_keys(heads: Heads, rows: slice, q: Tensor, memory: Memory) -> State:
    """Return the state of some rows, whose queries are q (heads, rows, D), over all keys."""
    states = (over_tile(heads, tile, q, memory) for tile in heads.scores.tiling.tiles(rows))
    first = next(states, None)
    if first is None:
        return over_nothing(q.shape[:2], heads.v)
    return reduce(partial(merged, exp_=heads.scores.base.exp_), states, first)


def attend(scores: Scores) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return o (B, H, N, D_v), lse (B, H, N), and what makes weights of scores: e^(s - top) inverse = p.

    top and inverse are (B, H, N, 1). The inverse is that of the total, and 0 for a query without a key.
    """
    (q, _, v), like, tiling = scores.inputs[:3], scores.factor, scores.tiling
    whole = State(*(like.new_empty(*q.shape[:3], C) for C in (1, 1, v.shape[-1])))
    memory = Memory(tiling, like)
    for heads in scores.blocks():
        strips = zip(tiling.strips(), heads.q.split(tiling.rows, dim=1), strict=False)
        states = [over_keys(heads, *strip, memory) for strip in strips]
        for x, lines in zip(whole, zip(*states, strict=True), strict=False):
            heads.put(x, torch.cat(lines, dim=1))
    return finished(scores, whole)


def finished(scores: Scores, state: State) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return what `attend` does for the state of all queries over all keys."""
    without_key = state.total == 0.0
    if scores.inputs.sink is not None:
        state = merged(state, over_sink(scores), scores.base.exp_)
    top, total, o = state
    inverse = total.reciprocal().masked_fill_(without_key, 0.0)
    o.mul_(inverse if scores.options.dropout == 0.0 else inverse / (1.0 - scores.options.dropout))
    log = scores.base.log_(total).add_(top)
    if not scores.base.shifts:
        # The lse of small scores absorbs nothing. A total far from 1 would make cotangents small or large.
        top, inverse = log.masked_fill(without_key, 0.0), inverse.sign_()
    return o, log.div_(scores.base.unit).squeeze(-1), top, inverse


def over_sink(scores: Scores) -> State:
    """Return the state over a key with the logit of the sink of each head and without a value."""
    s = scores.inputs.sink[:, None, None] * scores.base.unit
    top = s.clamp(min=torch.finfo(s.dtype).min)
    return State(top, scores.base.exp_(s - top), torch.zeros_like(top))
