"""The checked arguments of attention on torch tensors, from which every implementation starts."""

import math
from typing import Any, NamedTuple

import torch

from attngrad import closed
from attngrad.layers.arguments import (
    Beside,
    dense,
    finite,
    float_tensor,
    logits,
    mask_tensor,
    unreadable,
)
from attngrad.layers.relative_bias import RelativeBias
from attngrad.notation import (
    DtypeError,
    RangeError,
    ShapeError,
    boolean,
    check_broadcasts,
    check_same_shape,
    dropout_rate,
    finite_number,
    positive_number,
)
from attngrad.offsets import relative_offset

CAPPED = ("scores", "product")

Shape = tuple[int, int, int, int]


class Place(NamedTuple):
    """Where queries may attend: by a mask, and from the position of the first query under a causal mask."""

    mask: torch.Tensor | None
    query_start: int | None
    shape: Shape
    device: torch.device

    def allowed(self) -> torch.Tensor:
        """Return it for all pairs, in a shape that broadcasts to that of the scores and ends in N, M."""
        N, M = self.shape[-2:]
        allowed = torch.ones(N, M, dtype=torch.bool, device=self.device)
        if self.mask is not None:
            allowed = allowed & self.mask
        if self.query_start is None:
            return allowed
        keys, queries = torch.arange(M, device=self.device), torch.arange(N, device=self.device)
        return allowed & (keys <= queries[:, None] + self.query_start)


class Bias(NamedTuple):
    """A bias in the type that is computed in: for pairs, or for diagonals (H or 1, N + M - 1), or none."""

    of_pairs: torch.Tensor | None = None
    of_diagonals: torch.Tensor | None = None


class Call(NamedTuple):
    """A call of attention, checked; scale, bias and sink come in the type that is computed in."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    scale: torch.Tensor
    form: closed.Form
    place: Place
    bias: Bias
    sink: torch.Tensor | None
    keep: torch.Tensor | None
    dropout: float


def _four(name: str, x: Any, axes: str, beside: Beside = None) -> torch.Tensor:
    """Return a finite float tensor of four axes."""
    x = float_tensor(name, x, rank=0, beside=beside)
    if x.ndim != 4:
        raise ShapeError(f"{name}: expected four axes ({axes}), got shape {tuple(x.shape)}")
    return finite(x, x, f"{name}: expected finite values")


def checked_qkv(q: Any, k: Any, v: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, Shape]:
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


def checked_scale(scale: Any, q: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return the factor of the scores as a 0-d tensor in the type that is computed in, finite there too."""
    D = q.shape[-1]
    if scale is None and D == 0:
        raise RangeError("scale: expected a number where queries have no feature, got None")
    if isinstance(scale, torch.Tensor):
        check_same_shape("scale", float_tensor("scale", scale, rank=0).shape, "a scalar", ())
    else:
        scale = 1.0 / math.sqrt(D) if scale is None else finite_number("scale", scale)
        scale = torch.tensor(scale, dtype=torch.float64)
    inside = scale.to(device=q.device, dtype=dtype)
    return finite(inside, scale, f"scale: expected a finite number in {dtype}")


def checked_form(softcap: Any, softcap_on: Any, bias_inside_scale: Any, dtype: torch.dtype) -> closed.Form:
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


def checked_place(
    mask: Any, causal: Any, query_start: Any, shape: Shape, device: torch.device, positions: bool
) -> Place:
    """Return where queries may attend; with ``positions`` a bias reads query_start too."""
    if mask is not None:
        mask = mask_tensor("mask", mask, shape, ("q", device))
    causal = boolean("causal", causal)
    if query_start is not None and not causal and not positions:
        raise RangeError(f"query_start: expected None without causal=True, got {query_start!r}")
    if not causal:
        return Place(mask, None, shape, device)
    N, M = shape[-2:]
    # The position of the first query: minus the offset of the first key from it.
    start = M - N if query_start is None else -int(relative_offset(1, 1, query_start)[0, 0])
    return Place(mask, start, shape, device)


def checked_bias(bias: Any, query_start: Any, place: Place, dtype: torch.dtype, by_diagonals: bool) -> Bias:
    """Return the bias; ``by_diagonals`` asks a module whose map looks at the offset alone for diagonals."""
    if bias is None:
        return Bias()
    beside = ("q", place.device)
    if not isinstance(bias, RelativeBias):
        return Bias(_bias_of_pairs(float_tensor("bias", bias, rank=0, beside=beside), place, dtype))
    N, M = place.shape[-2:]
    check_broadcasts("bias", (bias.heads, N, M), place.shape)
    if by_diagonals and bias.by_offset and N > 0 and M > 0:
        diagonals = dense("bias", bias.diagonals(N, M, query_start, dtype=dtype), beside)
        if not unreadable(diagonals) and not (diagonals < torch.inf).all():
            # What is not finite is refused unless it lies where no query attends.
            _bias_of_pairs(bias(N, M, query_start, dtype=dtype), place, dtype)
        return Bias(of_diagonals=diagonals)
    return Bias(_bias_of_pairs(dense("bias", bias(N, M, query_start, dtype=dtype), beside), place, dtype))


def _bias_of_pairs(bias: torch.Tensor, place: Place, dtype: torch.dtype) -> torch.Tensor:
    """Return a bias that broadcasts to the scores in the type that is computed in."""
    check_broadcasts("bias", bias.shape, place.shape)
    return logits("bias", bias, dtype, place.allowed, place.shape, " of (B, H, N, M)")


def checked_sink(sink: Any, q: torch.Tensor, dtype: torch.dtype) -> torch.Tensor | None:
    """Return the logit of the sink of each head in the type that is computed in."""
    if sink is None:
        return None
    sink, H = float_tensor("sink", sink, beside=("q", q.device)), q.shape[1]
    check_same_shape("sink", sink.shape, "the heads of q", (H,))
    return logits("sink", sink, dtype, lambda: torch.ones_like(sink, dtype=torch.bool), (H,))


def checked_keep(
    keep: Any, dropout: Any, shape: Shape, device: torch.device
) -> tuple[torch.Tensor | None, float]:
    """Return where dropout keeps a weight, and its rate."""
    rate = dropout_rate(dropout, keep)
    return (None if keep is None else mask_tensor("keep", keep, shape, ("q", device), "is kept")), rate
