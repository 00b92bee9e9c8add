"""The torch face: softmax, log-softmax and cross-entropy with closed-form derivatives.

Arguments and conventions are those of `attngrad.reference`. float16 and bfloat16 are computed in float32
inside and rounded once on the way out, in both directions.

Backward passes are written in differentiable operations: reverse over reverse, forward over reverse and
reverse over forward use the closed forms. Forward over forward, such as jacfwd of jacfwd, which torch would
get wrong, is computed in plain operations. Forward mode does not work inside torch.compile.

Checking values reads one boolean back from the device, which waits for the work queued on it. Values that
cannot be read are not checked: inside torch.func.vmap, inside torch.compile, and on the meta device. There
a bad logit, target or temperature makes the row NaN, or the loss infinite, instead of raising an error.
Types and shapes are checked everywhere.
"""

from typing import Any

try:
    import torch
except ModuleNotFoundError as missing:
    told = "attngrad.layers needs torch, which the extra attngrad[torch] brings"
    raise ModuleNotFoundError(told) from missing

from torch._C._functorch import get_unwrapped, is_batchedtensor, is_functorch_wrapped_tensor

from attngrad import closed
from attngrad.notation import (
    NO_LABEL_IGNORED,
    Bool,
    DtypeError,
    Float,
    Int,
    RangeError,
    ShapeError,
    check_broadcasts,
    check_same_shape,
    expected_labels,
    first_index,
    positive_number,
)

IMPLEMENTATIONS = ("closed",)


def _check_impl(impl: str) -> None:
    """Refuse an implementation that does not exist; nothing falls back to another one."""
    if impl not in IMPLEMENTATIONS:
        raise RangeError(f"impl: expected one of {', '.join(map(repr, IMPLEMENTATIONS))}, got {impl!r}")


def _unreadable(x: torch.Tensor) -> bool:
    """Return whether Python cannot look at the values: under vmap, while compiling, on the meta device."""
    if torch.compiler.is_compiling() or x.is_meta:
        return True
    while is_functorch_wrapped_tensor(x):
        if is_batchedtensor(x):
            return True
        x = get_unwrapped(x)
    return False


def _refuse(wrong: torch.Tensor, values: torch.Tensor, told: str, more: str = "") -> None:
    """Raise a RangeError that names the first value that is wrong, where values can be read."""
    if not _unreadable(wrong) and wrong.any():
        at = first_index(wrong)
        place = f" at index {at}" if at else ""
        raise RangeError(f"{told}, got {values[at].item()}{place}{more}")


def _float_tensor(name: str, x: Any, rank: int = 1) -> torch.Tensor:
    """Return ``x`` if it is a float tensor with enough axes; raise DtypeError or ShapeError otherwise."""
    if not isinstance(x, torch.Tensor):
        raise DtypeError(f"{name}: expected a torch tensor of floats, got {type(x).__name__}")
    if not x.is_floating_point():
        raise DtypeError(f"{name}: expected a tensor of floats, got {x.dtype}")
    if x.ndim < rank:
        raise ShapeError(f"{name}: expected at least {rank} axes, got shape {tuple(x.shape)}")
    return x


def _inside(x: torch.Tensor) -> torch.Tensor:
    """Return ``x`` in the type that is computed in: float32 for the 16-bit types, else its own."""
    return x if x.dtype in (torch.float32, torch.float64) else x.to(torch.float32)


def _allowed(s: torch.Tensor, mask: Any) -> torch.Tensor:
    """Return where a key takes part: allowed by the mask, and not a logit of -inf.

    Raises: DtypeError or ShapeError for the mask, RangeError for a NaN or +inf that is not masked.
    """
    allowed = torch.ones_like(s, dtype=torch.bool)
    if mask is not None:
        if not isinstance(mask, torch.Tensor):
            got = type(mask).__name__
            raise DtypeError(f"mask: expected a torch tensor of booleans (True: may attend), got {got}")
        if mask.dtype != torch.bool:
            raise DtypeError(f"mask: expected booleans (True: may attend), got {mask.dtype}")
        check_broadcasts("mask", mask.shape, s.shape)
        allowed = mask.expand(s.shape)
    values = s.detach()
    _refuse(allowed & (values.isnan() | values.isposinf()), values, "s: expected finite logits or -inf")
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
    _check_impl(impl)
    allowed = _allowed(_float_tensor("s", s), mask)
    return closed.softmax(_inside(s), allowed).to(s.dtype)


def log_softmax(
    s: Float[torch.Tensor, "*rows n"], mask: Bool[torch.Tensor, "..."] | None = None, *, impl: str = "closed"
) -> Float[torch.Tensor, "*rows n"]:
    """Return the logarithm of softmax, -inf at a key that is not allowed.

    Formula: log p_i = s_i - lse; ds = dlogp - p sum_j dlogp_j.

    Raises: as `softmax`.

    >>> log_softmax(torch.tensor([0.0, -1000.0]))
    tensor([    0., -1000.])
    """
    _check_impl(impl)
    allowed = _allowed(_float_tensor("s", s), mask)
    return closed.log_softmax(_inside(s), allowed).to(s.dtype)


def _temperature(tau: Any, like: torch.Tensor) -> torch.Tensor:
    """Return the temperature as a 0-d tensor in the type that is computed in, positive there too."""
    if isinstance(tau, torch.Tensor):
        check_same_shape("tau", _float_tensor("tau", tau, rank=0).shape, "a scalar", ())
    else:
        tau = torch.tensor(positive_number("tau", tau), dtype=torch.float64)
    inside = tau.to(device=like.device, dtype=like.dtype)
    wrong = ~((inside.detach() > 0.0) & inside.detach().isfinite())
    _refuse(wrong, tau.detach(), f"tau: expected a positive finite number in {like.dtype}")
    return inside.masked_fill(wrong, torch.nan) if _unreadable(wrong) else inside


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
    _check_impl(impl)
    allowed = _allowed(_float_tensor("s", s), mask)
    x = _inside(s).masked_fill(~allowed, 0.0)
    tau = _temperature(tau, x)
    # Subtracting a constant of the row keeps x / tau in range. A weight below exp(-10000) is 0 in all types,
    # so cutting there changes nothing and keeps infinities away.
    x = (x - closed.top(x.detach(), allowed)).clamp(min=torch.finfo(x.dtype).min).masked_fill(~allowed, 0.0)
    x = torch.maximum(x, -1e4 * tau.detach())
    return closed.softmax_temperature(x, tau, allowed).to(s.dtype)


def _targets(y: Any, s: torch.Tensor) -> torch.Tensor:
    """Return targets as weights in the type that is computed in; integer labels become one-hot rows."""
    n, rows = s.shape[-1], s.shape[:-1]
    inside = _inside(s).dtype
    if isinstance(y, torch.Tensor) and not (y.is_floating_point() or y.is_complex() or y.dtype == torch.bool):
        check_same_shape("y (labels)", y.shape, "the rows of s", rows)
        wrong = (y < 0) | (y >= n)
        _refuse(wrong, y, f"y: expected {expected_labels(n)}", NO_LABEL_IGNORED)
        one_hot = (y.unsqueeze(-1) == torch.arange(n, device=y.device)).to(inside)
        return one_hot.masked_fill(wrong.unsqueeze(-1), torch.nan) if _unreadable(wrong) else one_hot
    if not isinstance(y, torch.Tensor):
        told = f"y: expected a torch tensor of float weights or integer labels, got {type(y).__name__}"
        raise DtypeError(told)
    y = _float_tensor("y", y)
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
    _check_impl(impl)
    allowed = _allowed(_float_tensor("s", s), mask)
    y = _targets(y, s)
    weight = y.detach()
    _refuse(~weight.isfinite(), weight, "y: expected finite weights")
    told = "y: expected weight 0 on masked keys and logits of -inf"
    _refuse((weight != 0.0) & ~allowed, weight, told)
    return closed.cross_entropy(_inside(s), y, allowed).to(s.dtype)
