"""Attention on torch tensors, with every option of `attngrad.reference.attention`."""

import math
from typing import Any, SupportsIndex

import torch

from attngrad import closed
from attngrad.layers.arguments import (
    Beside,
    check_impl,
    finite,
    float_tensor,
    logits,
    mask_tensor,
    refuse,
    unreadable,
    widened,
)
from attngrad.notation import (
    Bool,
    DtypeError,
    Float,
    RangeError,
    ShapeError,
    boolean,
    check_broadcasts,
    check_same_shape,
    dropout_rate,
    finite_number,
    group_size,
    integer,
    positive_number,
)
from attngrad.offsets import relative_offset

CAPPED = ("scores", "product")


def _four(name: str, x: Any, axes: str, beside: Beside = None) -> torch.Tensor:
    """Return a finite float tensor of four axes."""
    x = float_tensor(name, x, rank=0, beside=beside)
    if x.ndim != 4:
        raise ShapeError(f"{name}: expected four axes ({axes}), got shape {tuple(x.shape)}")
    return finite(x, x, f"{name}: expected finite values")


def _checked_qkv(q: Any, k: Any, v: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, tuple[int, ...]]:
    """Return q, k and v, and the shape (B, H, N, M) of the scores."""
    q = _four("q", q, "B, H, N, D")
    k = _four("k", k, "B, H_kv, M, D", ("q", q.device))
    v = _four("v", v, "B, H_kv, M, D_v", ("q", q.device))
    for name, x in (("k", k), ("v", v)):
        if x.dtype != q.dtype:
            raise DtypeError(f"{name}: expected {q.dtype} as q, got {x.dtype}")
    (B, H, N, D), (_, H_kv, M, _) = q.shape, k.shape
    check_same_shape("k", k.shape, "B and D of q", (B, H_kv, M, D))
    check_same_shape("v", v.shape, "B, H_kv and M of k", (B, H_kv, M, v.shape[-1]))
    return q, k, v, (B, H, N, M)


def _checked_scale(scale: Any, D: int, like: torch.Tensor) -> torch.Tensor:
    """Return the factor of the scores as a 0-d tensor in the type of ``like``, finite there too."""
    if scale is None and D == 0:
        raise RangeError("scale: expected a number where queries have no feature, got None")
    if isinstance(scale, torch.Tensor):
        check_same_shape("scale", float_tensor("scale", scale, rank=0).shape, "a scalar", ())
    else:
        scale = 1.0 / math.sqrt(D) if scale is None else finite_number("scale", scale)
        scale = torch.tensor(scale, dtype=torch.float64)
    inside = scale.to(device=like.device, dtype=like.dtype)
    return finite(inside, scale, f"scale: expected a finite number in {like.dtype}")


def _checked_form(softcap: Any, softcap_on: Any, bias_inside_scale: Any, dtype: torch.dtype) -> closed.Form:
    """Return where the bias and the cap act."""
    if not isinstance(softcap_on, str) or softcap_on not in CAPPED:
        raise RangeError(f"softcap_on: expected one of {', '.join(map(repr, CAPPED))}, got {softcap_on!r}")
    inside = boolean("bias_inside_scale", bias_inside_scale)
    if softcap is None:
        return closed.Form(inside)
    cap, limits = positive_number("softcap", softcap), torch.finfo(dtype)
    if not limits.tiny <= cap <= limits.max:
        held = f"from {limits.tiny} to {limits.max}, the range of {dtype}"
        raise RangeError(f"softcap: expected a number {held}, got {cap}")
    return closed.Form(inside, **{f"{softcap_on}_cap": cap})


def _checked_mask(
    mask: Any, causal: Any, query_start: Any, shape: tuple[int, ...], device: torch.device
) -> torch.Tensor:
    """Return where a query may attend, in a shape that broadcasts to that of the scores and ends in N, M."""
    N, M = shape[-2:]
    allowed = torch.ones(N, M, dtype=torch.bool, device=device)
    if mask is not None:
        allowed = allowed & mask_tensor("mask", mask, shape, ("q", device))
    causal = boolean("causal", causal)
    if query_start is not None and not causal:
        raise RangeError(f"query_start: expected None without causal=True, got {query_start!r}")
    if not causal:
        return allowed
    # The position of the first query: minus the offset of the first key from it.
    start = M - N if query_start is None else -int(relative_offset(1, 1, query_start)[0, 0])
    keys, queries = torch.arange(M, device=device), torch.arange(N, device=device) + start
    return allowed & (keys <= queries[:, None])


def _checked_bias(
    bias: Any, allowed: torch.Tensor, q: torch.Tensor, shape: tuple[int, ...]
) -> tuple[torch.Tensor | None, torch.Tensor]:
    """Return the bias in the type that is computed in, and where a key takes part: not where it is -inf."""
    if bias is None:
        return None, allowed
    bias = float_tensor("bias", bias, rank=0, beside=("q", q.device))
    check_broadcasts("bias", bias.shape, shape)
    inside = logits("bias", bias, q.dtype, allowed, shape, " of (B, H, N, M)")
    return inside, allowed & ~bias.detach().isneginf()


def _checked_sink(sink: Any, q: torch.Tensor, H: int) -> torch.Tensor | None:
    """Return the logit of the sink of each head in the type that is computed in."""
    if sink is None:
        return None
    sink = float_tensor("sink", sink, beside=("q", q.device))
    check_same_shape("sink", sink.shape, "the heads of q", (H,))
    return logits("sink", sink, q.dtype, torch.ones_like(sink, dtype=torch.bool), (H,))


def _checked_keep(keep: Any, dropout: Any, q: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor | None:
    """Return the factors of dropout, 0 or 1 / (1 - dropout), in the shape of their mask."""
    rate = dropout_rate(dropout, keep)
    if keep is None:
        return None
    return mask_tensor("keep", keep, shape, ("q", q.device), "is kept").to(q.dtype) / (1.0 - rate)


def _refuse_overflow(lse: torch.Tensor, parts: closed.Scores) -> None:
    """Refuse a score beyond the range of its type, which makes the log-sum-exp NaN."""
    if unreadable(lse) or not lse.detach().isnan().any():
        return
    x = closed.product(parts).detach()
    s = closed.added(closed.capped(x, parts.form.product_cap), parts).detach()
    for name, values in (("scale q.k", x), ("scores", s)):
        refuse(~values.isfinite(), values, f"{name}: expected numbers within the range of floats")


def attention(
    q: Float[torch.Tensor, "B H N D"],
    k: Float[torch.Tensor, "B H_kv M D"],
    v: Float[torch.Tensor, "B H_kv M D_v"],
    bias: Float[torch.Tensor, "..."] | None = None,
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
    broadcast, and then rounded.

    q, k and v have one type, which is that of o. bias, scale and sink may have others, in which their
    cotangents come; they are computed with in float64 if q is of that type, else in float32. lse comes in the
    type that is computed in: 16 bits would not serve to merge partial results. Autocast changes none of it.

    impl="closed" keeps the weights of all pairs for the backward pass: memory of O(B H N M).

    Raises: as `attngrad.reference.attention`; DtypeError for k or v in another type than q; RangeError for
    another impl, or for a bias, scale, sink or cap that the type that is computed in does not hold.

    >>> x, bias = torch.zeros(1, 1, 2, 1), torch.tensor([[0.0, -torch.inf], [0.0, 0.0]])
    >>> attention(x, x, torch.tensor([1.0, 3.0]).reshape(1, 1, 2, 1), bias).flatten()
    tensor([1., 2.])
    """
    check_impl(impl)
    q, k, v, shape = _checked_qkv(q, k, v)
    group_size(integer("H", shape[1], least=1), k.shape[1])
    queries, keys, values = widened(q), widened(k), widened(v)
    scale = _checked_scale(scale, q.shape[-1], queries)
    form = _checked_form(softcap, softcap_on, bias_inside_scale, queries.dtype)
    allowed = _checked_mask(mask, causal, query_start, shape, q.device)
    bias, allowed = _checked_bias(bias, allowed, queries, shape)
    sink, factors = _checked_sink(sink, queries, shape[1]), _checked_keep(keep, dropout, queries, shape)
    with_lse = boolean("return_lse", return_lse)
    o, lse, _ = closed.attention(queries, keys, values, bias, scale, sink, allowed, factors, form)
    _refuse_overflow(lse, closed.Scores(queries, keys, bias, scale, allowed, form))
    return (o.to(q.dtype), lse) if with_lse else o.to(q.dtype)
