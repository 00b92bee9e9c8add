"""Softmax, log-softmax, cross-entropy and softmax at a temperature."""

from typing import Any

import torch

from attngrad import closed
from attngrad.layers.arguments import (
    check_impl,
    dense,
    float_tensor,
    mask_tensor,
    refuse,
    unreadable,
    widened,
)
from attngrad.notation import (
    NO_LABEL_IGNORED,
    Bool,
    DtypeError,
    Float,
    Int,
    check_same_shape,
    expected_labels,
    positive_number,
)


def _allowed(s: torch.Tensor, mask: Any) -> torch.Tensor:
    """Return where a key takes part: allowed by the mask, and not a logit of -inf.

    Raises: DtypeError or ShapeError for the mask, RangeError for a NaN or +inf that is not masked.
    """
    allowed = torch.ones_like(s, dtype=torch.bool)
    if mask is not None:
        allowed = mask_tensor("mask", mask, s.shape, ("s", s.device)).expand(s.shape)
    values = s.detach()
    refuse(allowed & (values.isnan() | values.isposinf()), values, "s: expected finite logits or -inf")
    return allowed & ~values.isneginf()


def softmax(
    s: Float[torch.Tensor, "*rows n"], mask: Bool[torch.Tensor, "..."] | None = None, *, impl: str = "closed"
) -> Float[torch.Tensor, "*rows n"]:
    """Return the softmax of each row, 0 in a row without a key.

    Formula: p_i = exp(s_i) / sum_j exp(s_j); ds = p (dp - sum_j p_j dp_j).

    Raises: DtypeError, ShapeError or RangeError as `attngrad.reference.softmax`; RangeError for another impl.

    >>> s = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.grad(softmax(s), s, torch.tensor([1.0, 0.0], dtype=torch.float64))[0]
    tensor([ 0.2500, -0.2500], dtype=torch.float64)
    """
    check_impl(impl)
    allowed = _allowed(float_tensor("s", s), mask)
    return closed.softmax(widened(s), allowed).to(s.dtype)


def log_softmax(
    s: Float[torch.Tensor, "*rows n"], mask: Bool[torch.Tensor, "..."] | None = None, *, impl: str = "closed"
) -> Float[torch.Tensor, "*rows n"]:
    """Return the logarithm of softmax, -inf at a key that is not allowed.

    Formula: log p_i = s_i - lse; ds = dlogp - p sum_j dlogp_j.

    Raises: as `softmax`.

    >>> log_softmax(torch.tensor([0.0, -1000.0]))
    tensor([    0., -1000.])
    """
    check_impl(impl)
    allowed = _allowed(float_tensor("s", s), mask)
    return closed.log_softmax(widened(s), allowed).to(s.dtype)


def _temperature(tau: Any, like: torch.Tensor) -> torch.Tensor:
    """Return the temperature as a 0-d tensor in the type that is computed in, positive there too."""
    if isinstance(tau, torch.Tensor):
        check_same_shape("tau", float_tensor("tau", tau, rank=0).shape, "a scalar", ())
    else:
        tau = torch.tensor(positive_number("tau", tau), dtype=torch.float64)
    inside = tau.to(device=like.device, dtype=like.dtype)
    wrong = ~((inside.detach() > 0.0) & inside.detach().isfinite())
    refuse(wrong, tau.detach(), f"tau: expected a positive finite number in {like.dtype}")
    return inside.masked_fill(wrong, torch.nan) if unreadable(wrong) else inside


def softmax_temperature(
    s: Float[torch.Tensor, "*rows n"],
    tau: float | Float[torch.Tensor, ""],
    mask: Bool[torch.Tensor, "..."] | None = None,
    *,
    impl: str = "closed",
) -> Float[torch.Tensor, "*rows n"]:
    """Return the softmax of s / tau, differentiable by the logits and by a temperature given as a 0-d tensor.

    Formula: with g = J dp, ds = g / tau and dtau = -sum g s / tau^2.

    Raises: RangeError unless tau is positive and finite, also in the type that is computed in; else as
    `softmax`.

    >>> softmax_temperature(torch.tensor([0.0, 2.0]), 2.0)
    tensor([0.2689, 0.7311])
    """
    check_impl(impl)
    allowed = _allowed(float_tensor("s", s), mask)
    x = widened(s).masked_fill(~allowed, 0.0)
    tau = _temperature(tau, x)
    # Subtracting a constant of the row keeps x / tau in range. A weight below exp(-10000) is 0 in all types,
    # so cutting there changes nothing and keeps infinities away.
    x = (x - closed.top(x.detach(), allowed)).clamp(min=torch.finfo(x.dtype).min).masked_fill(~allowed, 0.0)
    x = torch.maximum(x, -1e4 * tau.detach())
    return closed.softmax_temperature(x, tau, allowed).to(s.dtype)


def _targets(y: Any, s: torch.Tensor) -> torch.Tensor:
    """Return targets as weights in the type that is computed in; integer labels become one-hot rows."""
    n, rows = s.shape[-1], s.shape[:-1]
    inside = widened(s).dtype
    if isinstance(y, torch.Tensor) and not (y.is_floating_point() or y.is_complex() or y.dtype == torch.bool):
        check_same_shape("y (labels)", y.shape, "the rows of s", rows)
        dense("y", y, ("s", s.device))
        wrong = (y < 0) | (y >= n)
        refuse(wrong, y, f"y: expected {expected_labels(n)}", NO_LABEL_IGNORED)
        one_hot = (y.unsqueeze(-1) == torch.arange(n, device=y.device)).to(inside)
        return one_hot.masked_fill(wrong.unsqueeze(-1), torch.nan) if unreadable(wrong) else one_hot
    if not isinstance(y, torch.Tensor):
        told = f"y: expected a torch tensor of float weights or integer labels, got {type(y).__name__}"
        raise DtypeError(told)
    y = float_tensor("y", y, beside=("s", s.device))
    if y.dtype not in (s.dtype, inside):
        raise DtypeError(f"y: expected {s.dtype} as s, or integer labels, got {y.dtype}")
    check_same_shape("y", y.shape, "s", s.shape)
    return y.to(inside)


def cross_entropy(
    s: Float[torch.Tensor, "*rows n"],
    y: Float[torch.Tensor, "*rows n"] | Int[torch.Tensor, "*rows"],
    mask: Bool[torch.Tensor, "..."] | None = None,
    *,
    impl: str = "closed",
) -> Float[torch.Tensor, "*rows"]:
    """Return the cross-entropy of each row for any weights y, differentiable by the logits and by y.

    Formula: loss = lse sum_j y_j - sum_j s_j y_j; ds = dloss (p sum_j y_j - y); dy = -dloss log p. The loss
    has the type of the logits, as torch's: in float16 one above 65504 is rounded to inf, while its gradient
    stays right. Hand over the logits in float32 where that can happen.

    Raises: RangeError for a label outside 0..n-1, a target that is not finite, or weight on a masked key;
    else as `softmax`.

    >>> s = torch.zeros(2, 4, requires_grad=True)
    >>> loss = cross_entropy(s, torch.tensor([0, 3]))
    >>> torch.autograd.grad(loss.sum(), s)[0][0]
    tensor([-0.7500,  0.2500,  0.2500,  0.2500])
    """
    check_impl(impl)
    allowed = _allowed(float_tensor("s", s), mask)
    y = _targets(y, s)
    weight = y.detach()
    refuse(~weight.isfinite(), weight, "y: expected finite weights")
    told = "y: expected weight 0 on masked keys and logits of -inf"
    refuse((weight != 0.0) & ~allowed, weight, told)
    return closed.cross_entropy(widened(s), y, allowed).to(s.dtype)
