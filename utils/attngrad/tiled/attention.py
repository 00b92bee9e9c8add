"""Attention in tiles as an autograd function."""

from contextlib import AbstractContextManager, nullcontext

import torch

from attngrad.tiled.backward import Backward
from attngrad.tiled.forward import attend
from attngrad.tiled.overflow import base_for
from attngrad.tiled.scores import Inputs, Options, Scores, live_diagonals

Tensor = torch.Tensor

PLAIN = Options()


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: Tensor,
    *,
    diagonals: Tensor | None = None,
    bias: Tensor | None = None,
    sink: Tensor | None = None,
    mask: Tensor | None = None,
    keep: Tensor | None = None,
    options: Options = PLAIN,
) -> tuple[Tensor, Tensor]:
    """Return o (B, H, N, D_v) and lse (B, H, N) in the type of the scale, which all but q, k and v share.

    Formula: o = softmax(s) v with s[h, i, j] = scale q.k + diagonals[h, j - i + N - 1] + bias[h, i, j]. The
    bias of diagonals is (H or 1, N + M - 1). ``bias``, ``mask`` (True: may attend) and ``keep`` (True: is
    kept by dropout) broadcast to (B, H, N, M), and the cotangent of a bias has its shape.

    Shapes: q (B, H, N, D), k (B, H_kv, M, D), v (B, H_kv, M, D_v), scale (), sink (H,).

    Raises: RangeError for a score beyond the range of floats.
    """
    inputs = Inputs(q, k, v, scale, diagonals, bias, sink, mask, keep)
    detached = Inputs(*(None if x is None else x.detach() for x in inputs))
    base, live = base_for(detached, options), live_diagonals(detached, options)
    return Attention.apply(base, live, options, *inputs)[:2]


class Attention(torch.autograd.Function):
    """o, lse, top and inverse of `attend`; saves its inputs and these."""

    @staticmethod
    def forward(base, live, options, *inputs):
        with _in_own_type(inputs[0]):
            return attend(Scores(Inputs(*inputs), options, base, live))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.base, ctx.live, ctx.options = inputs[:3]
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*output[2:])
        ctx.save_for_backward(*inputs[3:], *output)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, do, dlse, *_):
        *inputs, o, lse, top, inverse = ctx.saved_tensors
        found, needed = Inputs(*inputs), Inputs(*ctx.needs_input_grad[3:])
        if do is None and dlse is None:
            return (None,) * len(ctx.needs_input_grad)
        do, row = row_terms(o, lse, inverse, do, dlse)
        with _in_own_type(o):
            backward = Backward(Scores(found, ctx.options, ctx.base, ctx.live), needed)
            backward.run(top, inverse, row, do)
        dsink = through_sink(found.sink, lse, row) if needed.sink else None
        return None, None, None, *backward.cotangents(), dsink, None, None


def _in_own_type(x: Tensor) -> AbstractContextManager:
    """Return a context in which products have the type of their factors, under autocast too."""
    device = x.device.type
    if not torch.amp.is_autocast_available(device) or not torch.is_autocast_enabled(device):
        return nullcontext()
    return torch.autocast(device, enabled=False)


def row_terms(
    o: Tensor, lse: Tensor, inverse: Tensor, do: Tensor | None, dlse: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return do, and what is added in each row of ds = p (do.v + row), which is dlse - do.o, (B, H, N, 1).

    The output of a query without a key is constant, and so is an lse of minus infinity: what comes as their
    cotangent is not read.
    """
    if do is None:
        do = o.new_zeros(()).expand(o.shape)
    without_key = inverse == 0.0
    if without_key.any():
        do = do.masked_fill(without_key, 0.0)
    row = (do * o).sum(dim=-1, keepdim=True).neg_()
    if dlse is not None:
        row += dlse.masked_fill(lse.isneginf(), 0.0).unsqueeze(-1)
    return do, row


def through_sink(sink: Tensor, lse: Tensor, row: Tensor) -> Tensor:
    """Return the cotangent of the sink, whose weight in each row meets no value."""
    weight = (sink[:, None] - lse).exp().masked_fill(sink.isneginf()[:, None], 0.0)
    return (weight * row.squeeze(-1)).sum(dim=(0, 2))
