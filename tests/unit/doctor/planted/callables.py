"""Attention as plain functions of tensors, with autograd or with a Function of its own: right."""

import math

import torch
from torch.nn import functional

from .dense import wide


def einsum_attention(q, k, v, bias=None, mask=None, *, scale=None, is_causal=False):
    """Return softmax(scale q.k + bias) v by einsum; autograd has the gradients."""
    scale = 1.0 / math.sqrt(q.shape[-1]) if scale is None else scale
    s = scale * torch.einsum("bhnd,bhmd->bhnm", wide(q), wide(k))
    if bias is not None:
        s = s + wide(bias)
    if is_causal:
        N, M = s.shape[-2:]
        s = s.masked_fill(torch.ones(N, M, dtype=torch.bool).triu(M - N + 1), -torch.inf)
    if mask is not None:
        s = s.masked_fill(~mask, -torch.inf)
    return torch.einsum("bhnm,bhme->bhne", torch.softmax(s, dim=-1), wide(v)).to(q.dtype)


def grouped_attention(q, k, v, bias=None, *, scale=None):
    """Return attention with the heads of keys repeated for the query heads of each group."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    return einsum_attention(q, k, v, bias, scale=scale)


def table_attention(q, k, v, table, row, *, scale=None):
    """Return attention with a bias that is gathered from a table (H, R)."""
    return einsum_attention(q, k, v, wide(table)[:, row], scale=scale)


def sdpa_attention(q, k, v, bias=None, *, scale=None, is_causal=False):
    """Return what torch's own attention gives, with the bias as its mask."""
    return functional.scaled_dot_product_attention(q, k, v, bias, scale=scale, is_causal=is_causal)


class ByHand(torch.autograd.Function):
    """Attention with a dense bias (B, H, N, M) and its backward pass in five lines."""

    @staticmethod
    def forward(ctx, q, k, v, bias, scale):
        """Return o."""
        p = torch.softmax(scale * (wide(q) @ wide(k).mT) + wide(bias), dim=-1)
        ctx.save_for_backward(q, k, v, p, bias)
        ctx.scale = scale
        return (p @ wide(v)).to(q.dtype)

    @staticmethod
    def backward(ctx, do):
        """Return the gradients of q, k, v and the bias, summed where it was broadcast."""
        q, k, v, p, bias = ctx.saved_tensors
        do = wide(do)
        dp = do @ wide(v).mT
        ds = p * (dp - (p * dp).sum(dim=-1, keepdim=True))
        dq, dk, dv = ctx.scale * (ds @ wide(k)), ctx.scale * (ds.mT @ wide(q)), p.mT @ do
        dbias = ds.sum_to_size(bias.shape).to(bias.dtype)
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), dbias, None


def function_attention(q, k, v, bias, scale):
    """Return attention by the Function above."""
    return ByHand.apply(q, k, v, bias, scale)
