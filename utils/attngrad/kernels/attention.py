"""Attention with a bias by offset, forward and backward in kernels of Triton."""

from typing import SupportsIndex

import torch

from attngrad.kernels.arguments import (
    checked_diagonals,
    checked_mask,
    checked_qkv,
    checked_scale,
    checked_start,
)
from attngrad.kernels.launching import Inputs, Needed, Outputs, attend, send_back
from attngrad.notation import Bool, Float, boolean


class Final(torch.autograd.Function):
    """A cotangent that hangs on what it was made of, and refuses to be differentiated."""

    @staticmethod
    def forward(ctx, x, *_):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, _):
        told = "attngrad.kernels.attention has no second derivative"
        raise RuntimeError(f"{told}; attngrad.layers.attention has one with impl='closed'")


class Attention(torch.autograd.Function):
    """o and lse; saves its inputs, o and lse, from which the backward pass computes the weights again."""

    @staticmethod
    def forward(ctx, q, k, v, diagonals, scale, mask, causal, start, deterministic):
        bias = None if diagonals is None else diagonals.contiguous()
        o, lse = attend(Inputs(q, k, v, bias, scale, mask, causal, start))
        ctx.save_for_backward(q, k, v, bias, scale, mask, o, lse)
        ctx.place, ctx.deterministic = (causal, start), deterministic
        ctx.set_materialize_grads(False)
        return o, lse

    @staticmethod
    def backward(ctx, do, dlse):
        *inputs, o, lse = ctx.saved_tensors
        # A cotangent that does not come is one zero at every place.
        do = o.new_zeros(()).expand(o.shape) if do is None else do
        dlse = lse.new_zeros(()).expand(lse.shape) if dlse is None else dlse
        with torch.no_grad():
            x, y = Inputs(*inputs, *ctx.place), Outputs(o, lse, do, dlse)
            found = send_back(x, y, Needed(*ctx.needs_input_grad[:5]), ctx.deterministic)
        if torch.is_grad_enabled():
            found = [None if dx is None else Final.apply(dx, *inputs, do, dlse) for dx in found]
        return *found, None, None, None, None


def attention(
    q: Float[torch.Tensor, "B H N D"],
    k: Float[torch.Tensor, "B H_kv M D"],
    v: Float[torch.Tensor, "B H_kv M D_v"],
    diagonals: Float[torch.Tensor, "..."] | None = None,
    *,
    scale: float | Float[torch.Tensor, ""] | None = None,
    mask: Bool[torch.Tensor, "..."] | None = None,
    causal: bool = False,
    query_start: SupportsIndex | None = None,
    return_lse: bool = False,
    deterministic: bool = True,
) -> Float[torch.Tensor, "B H N D_v"] | tuple[Float[torch.Tensor, "B H N D_v"], Float[torch.Tensor, "B H N"]]:
    """Return attention, or attention and lse, differentiable by q, k, v, diagonals and scale.

    Formula: o = softmax(s) v with s[h, i, j] = scale q.k + diagonals[h, j - i + N - 1], so that diagonals
    (H, N + M - 1) hold the bias from offset j - i = 1 - N to M - 1; with (1, N + M - 1) all heads share it.
    Backward, the cotangent of a diagonal is the sum of ds along it, and over the batch. A bias of -inf hides
    the pairs of its diagonal. The other arguments are those of `attngrad.reference.attention`.

    q, k and v are float16, bfloat16 or float32, of at most 128 features. Products of tiles are added up in
    float32, as are all gradients, and rounded once; the weights and ds are rounded to the type of q in front
    of a product. lse is float32. There is no second derivative.

    No tensor of all pairs is held. With ``deterministic`` the sums along diagonals pass through memory of
    B H N M / 64 floats (/ 32 for float32), and repeated runs agree in every bit; without it they are added in
    the order in which programs finish, and all other results still agree.

    Values are not read: what is not finite gives results that are not finite.

    Raises: DtypeError, ShapeError or RangeError that names the argument, what was expected and what came, as
    `attngrad.layers.attention`.
    """
    q, k, v, shape = checked_qkv(q, k, v)
    bias, factor = checked_diagonals(diagonals, q, shape), checked_scale(scale, q)
    place = checked_start(causal, query_start, shape)
    with_lse, ordered = boolean("return_lse", return_lse), boolean("deterministic", deterministic)
    o, lse = Attention.apply(q, k, v, bias, factor, checked_mask(mask, q, shape), *place, ordered)
    return (o, lse) if with_lse else o
