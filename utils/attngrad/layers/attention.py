"""Attention on torch tensors, with every option of `attngrad.reference.attention`."""

from typing import SupportsIndex

import torch

from attngrad import closed
from attngrad.layers.arguments import IMPLEMENTATIONS, check_impl, refuse, unreadable, widened
from attngrad.layers.attention_arguments import (
    Call,
    checked_bias,
    checked_form,
    checked_keep,
    checked_place,
    checked_qkv,
    checked_scale,
    checked_sink,
)
from attngrad.layers.relative_bias import RelativeBias
from attngrad.notation import Bool, Float, RangeError, boolean, group_size, integer

Results = tuple[torch.Tensor, torch.Tensor]


def attention(
    q: Float[torch.Tensor, "B H N D"],
    k: Float[torch.Tensor, "B H_kv M D"],
    v: Float[torch.Tensor, "B H_kv M D_v"],
    bias: Float[torch.Tensor, "..."] | RelativeBias | None = None,
    *,
    scale: float | Float[torch.Tensor, ""] | None = None,
    bias_inside_scale: bool = False,
    softcap: float | None = None,
    softcap_on: str = "scores",
    mask: Bool[torch.Tensor, "..."] | None = None,
    causal: bool = False,
    query_start: SupportsIndex | None = None,
    sink: Float[torch.Tensor, " H"] | None = None,
    keep: Bool[torch.Tensor, "..."] | None = None,
    dropout: float = 0.0,
    return_lse: bool = False,
    impl: str = "closed",
) -> Float[torch.Tensor, "B H N D_v"] | tuple[Float[torch.Tensor, "B H N D_v"], Float[torch.Tensor, "B H N"]]:
    """Return attention, or attention and lse, differentiable by q, k, v, bias, scale and sink.

    Formula: as `attngrad.reference.attention`, and backward as `attngrad.reference.attention_vjp`. A scale
    that is to be learned is a 0-d tensor. The cotangent of a bias is summed over the axes along which it was
    broadcast, and then rounded. A `RelativeBias` is called here, with the sizes and query_start.

    q, k and v have one type, which is that of o. bias, scale and sink may have others, in which their
    cotangents come; they are computed with in float64 if q is of that type, else in float32. lse comes in the
    type that is computed in: 16 bits would not serve to merge partial results. Autocast changes none of it.

    impl says how it is computed; none falls back to another one.

    - "closed" keeps the weights of all pairs for the backward pass: memory of O(B H N M).
    - "tiled" keeps o and lse, and computes the weights of a tile again: memory of O(B H (N + M)) beside a
      bias, mask or keep that is given for all pairs. A `RelativeBias` of a map by offset is never spread over
      the pairs, nor is its cotangent; another one is, as is a tensor. There is no second and no forward
      derivative, and it does not run inside torch.func.vmap or torch.compile.
    - "triton" does so on a CUDA device, by `attngrad.kernels`: with a `RelativeBias` of a map by offset or
      without a bias, and without softcap, sink, keep and bias_inside_scale.

    Raises: as `attngrad.reference.attention`; DtypeError for k or v in another type than q; RangeError for
    another impl, for what an impl does not compute, or for a bias, scale, sink or cap that the type that is
    computed in does not hold.

    >>> x, bias = torch.zeros(1, 1, 2, 1), torch.tensor([[0.0, -torch.inf], [0.0, 0.0]])
    >>> attention(x, x, torch.tensor([1.0, 3.0]).reshape(1, 1, 2, 1), bias).flatten()
    tensor([1., 2.])
    """
    check_impl(impl, IMPLEMENTATIONS)
    q, k, v, shape = checked_qkv(q, k, v)
    group_size(integer("H", shape[1], least=1), k.shape[1])
    dtype, of_module = widened(q[:0]).dtype, isinstance(bias, RelativeBias)
    scale = checked_scale(scale, q, dtype)
    form = checked_form(softcap, softcap_on, bias_inside_scale, dtype)
    place = checked_place(mask, causal, query_start, shape, q.device, positions=of_module)
    bias = checked_bias(bias, query_start, place, dtype, by_diagonals=impl != "closed")
    sink, (keep, rate) = checked_sink(sink, q, dtype), checked_keep(keep, dropout, shape, q.device)
    with_lse = boolean("return_lse", return_lse)
    call = Call(q, k, v, scale, form, place, bias, sink, keep, rate)
    o, lse = {"closed": _closed, "tiled": _tiled, "triton": _triton}[impl](call)
    return (o.to(q.dtype), lse) if with_lse else o.to(q.dtype)


def _closed(call: Call) -> Results:
    """Return o and lse from the weights of all pairs."""
    q, k, v = (widened(x) for x in call[:3])
    allowed, bias = call.place.allowed(), call.bias.of_pairs
    if bias is not None:
        allowed = allowed & ~bias.detach().isneginf()
    factors = None if call.keep is None else call.keep.to(q.dtype) / (1.0 - call.dropout)
    o, lse, _ = closed.attention(q, k, v, bias, call.scale, call.sink, allowed, factors, call.form)
    _refuse_overflow(lse, closed.Scores(q, k, bias, call.scale, allowed, call.form))
    return o, lse


def _refuse_overflow(lse: torch.Tensor, parts: closed.Scores) -> None:
    """Refuse a score beyond the range of its type, which makes the log-sum-exp NaN."""
    if unreadable(lse) or not lse.detach().isnan().any():
        return
    x = closed.product(parts).detach()
    s = closed.added(closed.capped(x, parts.form.product_cap), parts).detach()
    for name, values in (("scale q.k", x), ("scores", s)):
        refuse(~values.isfinite(), values, f"{name}: expected numbers within the range of floats")


def _tiled(call: Call) -> Results:
    """Return o and lse from the tiles of the pairs."""
    from attngrad import tiled

    if unreadable(call.q):
        where = "inside torch.func.vmap, inside torch.compile, and on the meta device"
        raise RangeError(f"impl: expected 'closed' {where}, got 'tiled'")
    bias, diagonals = call.bias
    if call.form.bias_inside_scale:
        bias, diagonals = (_scaled(x, call.scale) for x in (bias, diagonals))
    return tiled.attention(
        call.q, call.k, call.v, call.scale, diagonals=diagonals, bias=bias, sink=call.sink,
        mask=call.place.mask, keep=call.keep,
        options=tiled.Options(call.place.query_start, call.dropout, *call.form[1:]),
    )  # fmt: skip


def _scaled(bias: torch.Tensor | None, scale: torch.Tensor) -> torch.Tensor | None:
    """Return a bias times the scale; one of minus infinity stays so, whatever the sign of the scale."""
    if bias is None:
        return None
    hidden = bias.isneginf()
    return (scale * bias.masked_fill(hidden, 0.0)).masked_fill(hidden, -torch.inf)


def _triton(call: Call) -> Results:
    """Return o and lse from kernels of Triton."""
    refused = {
        "bias": call.bias.of_pairs is not None,
        "bias_inside_scale": call.form.bias_inside_scale,
        "softcap": call.form[1:] != (None, None),
        "sink": call.sink is not None,
        "keep": call.keep is not None,
    }
    for name, is_given in refused.items():
        if is_given:
            wanted = "a RelativeBias of a map by offset" if name == "bias" else "none"
            raise RangeError(f"{name}: expected {wanted} with impl='triton'; 'tiled' and 'closed' take it")
    from attngrad import kernels

    causal, start = call.place.query_start is not None, call.place.query_start
    return kernels.attention(
        call.q, call.k, call.v, call.bias.of_diagonals, scale=call.scale, mask=call.place.mask,
        causal=causal, query_start=start, return_lse=True,
    )  # fmt: skip
