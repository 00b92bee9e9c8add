"""Attention with closed-form derivatives: the scores of all pairs at once, in memory of O(B H N M).

Shapes: q (B, H, N, D), k (B, H_kv, M, D), v (B, H_kv, M, D_v); bias, allowed and keep broadcast to
(B, H, N, M); scale is a 0-d tensor, sink (H,). ``keep`` holds the factors of dropout. A sink is one more
column of the weights, to which no value belongs.
"""

from typing import NamedTuple

import torch

from attngrad.closed.modes import call
from attngrad.closed.softmax import largest, through_softmax

Tensor = torch.Tensor


class Form(NamedTuple):
    """Where the bias stands, and the cap at each of its two places; at most one has one."""

    bias_inside_scale: bool = False
    product_cap: float | None = None
    scores_cap: float | None = None


class Scores(NamedTuple):
    """What the scores are made of."""

    q: Tensor
    k: Tensor
    bias: Tensor | None
    scale: Tensor
    allowed: Tensor
    form: Form


def _matmul(a: Tensor, b: Tensor) -> Tensor:
    """Return the matrix product in the type of its factors, under autocast too."""
    device = a.device.type
    if not torch.amp.is_autocast_available(device):
        return a @ b
    with torch.autocast(device, enabled=False):
        return a @ b


def _grouped(x: Tensor, H_kv: int) -> Tensor:
    """Return the rows of all heads of a group below each other: (B, H_kv, H / H_kv N, C)."""
    B, H, N, C = x.shape
    return x.reshape(B, H_kv, H // H_kv * N, C)


def _separate(x: Tensor, like: Tensor) -> Tensor:
    """Return grouped rows as (B, H, N, C), with H and N as in ``like``."""
    return x.reshape(*like.shape[:3], x.shape[-1])


def over_features(a: Tensor, b: Tensor) -> Tensor:
    """Return a b^T for each head: (B, H, N, C) and (B, H_kv, M, C) give (B, H, N, M)."""
    return _separate(_matmul(_grouped(a, b.shape[1]), b.mT), a)


def over_keys(w: Tensor, x: Tensor) -> Tensor:
    """Return w x for each head: (B, H, N, M) and (B, H_kv, M, C) give (B, H, N, C)."""
    return _separate(_matmul(_grouped(w, x.shape[1]), x), w)


def over_queries(w: Tensor, x: Tensor, H_kv: int) -> Tensor:
    """Return w^T x summed over each group: (B, H, N, M) and (B, H, N, C) give (B, H_kv, M, C)."""
    return _matmul(_grouped(w, H_kv).mT, _grouped(x, H_kv))


def capped(x: Tensor, cap: float | None) -> Tensor:
    """Return cap tanh(x / cap), or x without a cap."""
    return x if cap is None else cap * (x / cap).tanh()


def through_cap(x: Tensor, cap: float, moved: Tensor) -> Tensor:
    """Return a cotangent or a tangent times the derivative of the cap at x: tanh' = 1 - tanh^2."""
    return moved * (1.0 - (x / cap).tanh().square())


def read(x: Tensor, allowed: Tensor) -> Tensor:
    """Return x where a key takes part and 0 elsewhere: what stands there is not read."""
    return torch.where(allowed, x, 0.0)


def product(parts: Scores) -> Tensor:
    """Return scale q.k of all pairs, in front of a cap on it."""
    return read(over_features(parts.scale * parts.q, parts.k), parts.allowed)


def added(x: Tensor, parts: Scores) -> Tensor:
    """Return the product plus the bias, in front of a cap on the scores."""
    if parts.bias is None:
        return x
    b = read(parts.bias, parts.allowed)
    return x + (parts.scale * b if parts.form.bias_inside_scale else b)


def _flagged(x: Tensor) -> Tensor:
    """Return x with NaN in the place of an infinity: an overflow, which a cap or a softmax would hide."""
    return x + (x - x)


def uncapped(parts: Scores) -> Tensor:
    """Return the scores of all pairs, in front of a cap on them; NaN beyond the range of their type."""
    x, cap = product(parts), parts.form.product_cap
    return _flagged(added(x if cap is None else capped(_flagged(x), cap), parts))


def scores(parts: Scores) -> Tensor:
    """Return the scores of all pairs, (B, H, N, M)."""
    return capped(uncapped(parts), parts.form.scores_cap)


def through_scores(parts: Scores, ds: Tensor, needed: tuple[bool, ...]) -> tuple[Tensor | None, ...]:
    """Return dq, dk, dbias and dscale for a cotangent of the scores, each where it is needed."""
    q, k, bias, scale, allowed, form = parts
    by_q, by_k, by_bias, by_scale = needed
    if form.scores_cap is not None:
        ds = through_cap(uncapped(parts), form.scores_cap, ds)
    dx, dq, dk, dbias, dscale = ds, None, None, None, None
    if form.product_cap is not None and (by_q or by_k or by_scale):
        dx = through_cap(product(parts), form.product_cap, ds)
    if by_q or by_scale:
        along = over_keys(dx, k)
        dq = scale * along if by_q else None
        dscale = (q * along).sum() if by_scale else None
    if by_scale and bias is not None and form.bias_inside_scale:
        dscale = dscale + (ds * read(bias, allowed)).sum()
    if by_k:
        dk = scale * over_queries(dx, q, k.shape[1])
    if by_bias:
        dbias = (scale * ds if form.bias_inside_scale else ds).sum_to_size(bias.shape)
    return dq, dk, dbias, dscale


def tangent_of_scores(
    parts: Scores, tq: Tensor | None, tk: Tensor | None, tbias: Tensor | None, tscale: Tensor | None
) -> Tensor:
    """Return the tangent of the scores; a tangent of None is 0."""
    q, k, bias, scale, allowed, form = parts
    scaled = torch.zeros_like(q) if tq is None else scale * tq
    ts = over_features(scaled if tscale is None else scaled + tscale * q, k)
    if tk is not None:
        ts = ts + over_features(scale * q, tk)
    if form.product_cap is not None:
        ts = through_cap(product(parts), form.product_cap, ts)
    if tbias is not None:
        ts = ts + (scale * tbias if form.bias_inside_scale else tbias)
    if tscale is not None and bias is not None and form.bias_inside_scale:
        ts = ts + tscale * read(bias, allowed)
    if form.scores_cap is not None:
        ts = through_cap(uncapped(parts), form.scores_cap, ts)
    return read(ts, allowed)


def with_sink(s: Tensor, allowed: Tensor, sink: Tensor) -> tuple[Tensor, Tensor]:
    """Return the scores, and what takes part, with the sink of each head as one more column."""
    column = sink[:, None, None].expand(*s.shape[:3], 1)
    there = torch.cat([allowed.expand(s.shape), torch.ones_like(column, dtype=torch.bool)], dim=-1)
    return torch.cat([s, column], dim=-1), there


def _widened(x: Tensor, p: Tensor) -> Tensor:
    """Return x with a column of 0 for the sink, where p has one."""
    more = p.shape[-1] - x.shape[-1]
    return torch.nn.functional.pad(x, (0, more)) if more else x


def dropped(p: Tensor, keep: Tensor | None) -> Tensor:
    """Return the weights, or a cotangent or tangent of them, times the factors of dropout."""
    return p if keep is None else p * keep


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    scale: Tensor,
    sink: Tensor | None,
    allowed: Tensor,
    keep: Tensor | None,
    *form: bool | float | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return o (B, H, N, D_v), lse (B, H, N) and the weights before dropout, the sink's column last."""
    s = scores(Scores(q, k, bias, scale, allowed, Form(*form)))
    if sink is not None:
        s, allowed = with_sink(s, allowed, sink)
    s = s.masked_fill(~allowed, -torch.inf)
    # The shift cancels, so it need not be differentiated.
    top = largest(s.detach())
    exponentials = (s - top).exp()
    total = exponentials.sum(dim=-1, keepdim=True)
    empty = total == 0.0
    total = total.masked_fill(empty, 1.0)
    lse = (top + total.log()).masked_fill(empty, -torch.inf).squeeze(-1)
    p = exponentials / total
    return over_keys(dropped(p[..., : k.shape[2]], keep), v), lse, p


class Attention(torch.autograd.Function):
    """o, lse and p of `attend`; saves its inputs, lse and p.

    The backward pass reads p, so p is an output: a second derivative reaches the inputs through it.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(q, k, v, bias, scale, sink, allowed, keep, *form):
        return attend(q, k, v, bias, scale, sink, allowed, keep, *form)

    @staticmethod
    def setup_context(ctx, inputs, output):
        # torch.func wants the inputs flat: it would count the entries of a tuple as inputs.
        ctx.form = Form(*inputs[8:])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[:8], *output[1:])
        ctx.save_for_forward(*inputs[:8], *output[1:])

    @staticmethod
    def backward(ctx, do, dlse, dp):
        q, k, v, bias, scale, _, allowed, keep, lse, p = ctx.saved_tensors
        by_q, by_k, by_v, by_bias, by_scale, by_sink = ctx.needs_input_grad[:6]
        needed, M = (by_q, by_k, by_bias, by_scale), k.shape[2]
        dq = dk = dv = dbias = dscale = dsink = None
        if do is not None:
            # The output of a query without a key is constant: a cotangent there is not read.
            do = do.masked_fill(~allowed.any(dim=-1, keepdim=True), 0.0)
            dv = over_queries(dropped(p[..., :M], keep), do, k.shape[1]) if by_v else None
        moved = any(x is not None for x in (do, dlse, dp))
        if moved and (by_sink or any(needed)):
            ds = through_weights(v, keep, lse, p, do, dlse, dp)
            dsink = ds[..., -1].sum(dim=(0, 2)) if by_sink else None
            if any(needed):
                parts = Scores(q, k, bias, scale, allowed, ctx.form)
                dq, dk, dbias, dscale = through_scores(parts, ds[..., :M], needed)
        return dq, dk, dv, dbias, dscale, dsink, *[None] * 5


def through_weights(
    v: Tensor,
    keep: Tensor | None,
    lse: Tensor,
    p: Tensor,
    do: Tensor | None,
    dlse: Tensor | None,
    dp: Tensor | None,
) -> Tensor:
    """Return ds = p (dp - sum p dp + dlse), with a column for a sink; a cotangent of None is 0."""
    if do is not None:
        by_o = _widened(dropped(over_features(do, v), keep), p)
        dp = by_o if dp is None else dp + by_o
    row = 0.0 if dp is None else (p * dp).sum(dim=-1, keepdim=True)
    if dlse is not None:
        # An lse of -inf is constant: a cotangent there is not read.
        row = row - dlse.masked_fill(lse.isneginf(), 0.0).unsqueeze(-1)
    return p * (-row if dp is None else dp - row)


class ForwardAttention(Attention):
    """Attention with its derivative in forward mode."""

    @staticmethod
    def jvp(ctx, tq, tk, tv, tbias, tscale, tsink, *_):
        q, k, v, bias, scale, _, allowed, keep, _, p = ctx.saved_tensors
        M = k.shape[2]
        ts = tangent_of_scores(Scores(q, k, bias, scale, allowed, ctx.form), tq, tk, tbias, tscale)
        ts = _widened(ts, p)
        if tsink is not None:
            ts = ts + torch.nn.functional.pad(tsink[:, None, None], (M, 0))
        tp = through_softmax(p, ts)
        to = over_keys(dropped(tp[..., :M], keep), v)
        if tv is not None:
            to = to + over_keys(dropped(p[..., :M], keep), tv)
        return to, (p * ts).sum(dim=-1), tp


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    scale: Tensor,
    sink: Tensor | None,
    allowed: Tensor,
    keep: Tensor | None,
    form: Form,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return o, lse and the weights of `attend`, with their closed-form derivatives."""
    inputs = (q, k, v, bias, scale, sink, allowed, keep, *form)
    return call(Attention, ForwardAttention, attend, *inputs)
