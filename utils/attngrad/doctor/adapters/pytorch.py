"""The attention of PyTorch: SDPA by each of its CPU backends, multi-head attention, FlexAttention."""

import warnings
from collections.abc import Callable
from typing import Any

from attngrad.doctor.adapters.claiming import claims
from attngrad.doctor.case import Unsupported
from attngrad.doctor.spec import BIASES, DTYPES, t5

COMMON = ("cross", "strides", "mask", "empty-rows")
ADDED = {"dtypes": DTYPES, "bias": BIASES, "options": (*COMMON, "values", "gqa", "hidden", "lowest")}
CAUSAL = {"dtypes": DTYPES, "causal": "both", "alignment": "top-left"}


def _sdpa(
    backend: str,
    q: Any,
    k: Any,
    v: Any,
    attn_mask: Any,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Any:
    """Return SDPA with one backend forced, or the one that torch selects for "".

    Raises: Unsupported where torch refuses: causal masking beside a mask, or a backend without a kernel.
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    if is_causal and attn_mask is not None:
        raise Unsupported("SDPA takes causal masking or attn_mask, not both")
    options = {"attn_mask": attn_mask, "is_causal": is_causal, "scale": scale}
    if enable_gqa:  # new in torch 2.5
        options["enable_gqa"] = True
    if not backend:
        return scaled_dot_product_attention(q, k, v, **options)
    with warnings.catch_warnings(), sdpa_kernel(getattr(SDPBackend, backend)):
        warnings.simplefilter("ignore")  # why a kernel is not used
        try:
            return scaled_dot_product_attention(q, k, v, **options)
        except RuntimeError as error:
            if "No available kernel" in str(error):
                raise Unsupported(f"SDPA has no kernel of {backend} for this case") from error
            raise


@claims(**ADDED)
def sdpa_math(q, k, v, attn_mask=None, scale=None, enable_gqa=False):
    """Return SDPA by its composite implementation, with a bias or mask."""
    return _sdpa("MATH", q, k, v, attn_mask, False, scale, enable_gqa)


@claims(**CAUSAL, options=("cross", "strides", "values", "gqa"))
def sdpa_math_causal(q, k, v, is_causal=False, scale=None, enable_gqa=False):
    """Return SDPA by its composite implementation, with its flag for causal masking."""
    return _sdpa("MATH", q, k, v, None, is_causal, scale, enable_gqa)


@claims(**CAUSAL, options=(*COMMON, "gqa"))
def sdpa_flash(q, k, v, attn_mask=None, is_causal=False, scale=None, enable_gqa=False):
    """Return SDPA by its flash kernel, which gives a bias no gradient."""
    return _sdpa("FLASH_ATTENTION", q, k, v, attn_mask, is_causal, scale, enable_gqa)


@claims(**ADDED)
def sdpa(q, k, v, attn_mask=None, scale=None, enable_gqa=False):
    """Return SDPA by the backend that torch selects, with a bias or mask."""
    return _sdpa("", q, k, v, attn_mask, False, scale, enable_gqa)


@claims(**CAUSAL, options=("cross", "strides", "values", "gqa"))
def sdpa_causal(q, k, v, is_causal=False, scale=None, enable_gqa=False):
    """Return SDPA by the backend that torch selects, with its flag for causal masking."""
    return _sdpa("", q, k, v, None, is_causal, scale, enable_gqa)


def _multihead(q: Any, k: Any, v: Any, bias: Any, mask: Any, need_weights: bool) -> Any:
    """Return the core of `torch.nn.MultiheadAttention`, with the identity for each projection."""
    import torch
    from torch.nn.functional import multi_head_attention_forward

    (B, H, N, D), M = q.shape, k.shape[2]
    if mask is not None:
        hidden = torch.zeros(mask.shape, dtype=q.dtype, device=q.device).masked_fill(~mask, -torch.inf)
        bias = hidden if bias is None else bias + hidden
    if bias is not None:
        bias = bias.expand(B, H, N, M).reshape(B * H, N, M)
    tokens = [x.permute(2, 0, 1, 3).reshape(x.shape[2], B, H * D) for x in (q, k, v)]  # (N, B, H D)
    identity = torch.eye(H * D, dtype=q.dtype, device=q.device)
    o, _ = multi_head_attention_forward(
        *tokens, H * D, H, torch.cat([identity] * 3), None, None, None, False, 0.0, identity, None,
        training=False, attn_mask=bias, need_weights=need_weights,
    )  # fmt: skip
    return o.reshape(N, B, H, D).permute(1, 2, 0, 3)


@claims(dtypes=DTYPES, bias=BIASES, scale="default", options=("cross", "strides", "mask", "hidden", "lowest"))
def multihead_attention_weights(q, k, v, bias=None, mask=None):
    """Return multi-head attention that computes its weights: a batched product, softmax, a product."""
    return _multihead(q, k, v, bias, mask, need_weights=True)


@claims(dtypes=DTYPES, bias=BIASES, scale="default", options=(*COMMON, "hidden", "lowest"))
def multihead_attention(q, k, v, bias=None, mask=None):
    """Return multi-head attention without weights, which calls SDPA."""
    return _multihead(q, k, v, bias, mask, need_weights=False)


def _flex(q: Any, k: Any, v: Any, scale: float | None, enable_gqa: bool, added: Callable) -> Any:
    """Return FlexAttention, not compiled, with ``added``(b, h, i, j) on each score.

    Raises: Unsupported on a CPU for q, k or v that require a gradient.
    """
    from torch.nn.attention.flex_attention import flex_attention

    if q.device.type == "cpu" and (q.requires_grad or k.requires_grad or v.requires_grad):
        raise Unsupported("FlexAttention has no gradient of q, k and v on a CPU")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is not compiled
        return flex_attention(
            q, k, v, lambda s, b, h, i, j: s + added(b, h, i, j), scale=scale, enable_gqa=enable_gqa
        )


@claims(dtypes=("float32", "float64"), map=t5(32, 128), options=("cross", "strides", "values", "gqa"))
def flex_table(q, k, v, table, row, scale=None, enable_gqa=False):
    """Return FlexAttention with a table that its score_mod reads."""
    return _flex(q, k, v, scale, enable_gqa, lambda b, h, i, j: table[h, row[i, j]])


@claims(dtypes=("float32", "float64"), bias=("bhnm",), options=("cross", "strides", "values", "gqa"))
def flex_bias(q, k, v, bias, scale=None, enable_gqa=False):
    """Return FlexAttention with a dense bias that its score_mod reads."""
    return _flex(q, k, v, scale, enable_gqa, lambda b, h, i, j: bias[b, h, i, j])
