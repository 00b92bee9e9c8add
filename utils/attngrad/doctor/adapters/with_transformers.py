"""The attention functions of `transformers`, called as its models call them."""

import warnings
from types import SimpleNamespace
from typing import Any
from unittest import mock

from attngrad.doctor.adapters.claiming import claims
from attngrad.doctor.case import Unsupported
from attngrad.doctor.spec import DTYPES

UP_TO_SINGLE = ("float32", "float16", "bfloat16")  # of functions that compute weights in float32
T5 = ("cross", "strides", "values", "mask", "hidden", "lowest")
BATCHED = ("bhnm", "1hnm", "b1nm", "11nm")


def _function(model: str, name: str) -> Any:
    """Return an attention function by the name of its implementation."""
    from importlib import import_module

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that no progress bars can be drawn in a notebook
        if name == "eager":
            return import_module(f"transformers.models.{model}.modeling_{model}").eager_attention_forward
        return import_module("transformers.modeling_utils").ALL_ATTENTION_FUNCTIONS[name]


def _called(
    model: str,
    name: str,
    q: Any,
    k: Any,
    v: Any,
    mask: Any,
    scale: float | None,
    sinks: Any = None,
    **options: Any,
) -> Any:
    """Call an attention function with a stand-in for its module; o comes as (B, N, H, D_v) and is turned.

    A mask is additive, 0 or the lowest number of its type, except to SDPA, which takes it as booleans.
    """
    import torch

    function = _function(model, name)
    if mask is not None:
        mask = mask.expand(q.shape[0], -1, -1, -1) if mask.ndim == 4 else mask.expand(q.shape[0], 1, -1, -1)
        if name != "sdpa":
            lowest = torch.finfo(q.dtype).min
            mask = torch.zeros(mask.shape, dtype=q.dtype, device=q.device).masked_fill(~mask, lowest)
    groups = q.shape[1] // k.shape[1]
    module = SimpleNamespace(num_key_value_groups=groups, training=False, is_causal=False, sinks=sinks)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return function(module, q, k, v, mask, scaling=scale, **options)[0].transpose(1, 2)


@claims(dtypes=DTYPES, bias=BATCHED, options=T5)
def t5_eager(q, k, v, position_bias=None, mask=None, scale=None):
    """Return the eager attention of T5."""
    return _called("t5", "eager", q, k, v, mask, scale, position_bias=position_bias)


@claims(dtypes=DTYPES, bias=BATCHED, options=(*T5, "gqa"))
def t5_sdpa(q, k, v, position_bias=None, mask=None, scale=None):
    """Return the SDPA attention of T5."""
    return _called("t5", "sdpa", q, k, v, mask, scale, position_bias=position_bias)


@claims(dtypes=("float32",), bias=("1hnm",), options=("cross", "strides", "values", "mask", "gqa"))
def t5_flex(q, k, v, position_bias=None, mask=None, scale=None):
    """Return the FlexAttention of T5, not compiled: compiled for a CPU it has no backward pass.

    It claims the bias that T5 passes, whose batch is 1, and reads it at each batch of q: with transformers
    5.24 more than one is an IndexError.

    Raises: Unsupported on a CPU for q, k or v that require a gradient.
    """
    from transformers.integrations import flex_attention

    if q.device.type == "cpu" and (q.requires_grad or k.requires_grad or v.requires_grad):
        raise Unsupported("FlexAttention has no gradient of q, k and v on a CPU")
    inside_compiler = mock.patch.object(flex_attention, "is_torchdynamo_compiling", return_value=True)
    with warnings.catch_warnings(), inside_compiler:  # where it compiles nothing of its own
        warnings.simplefilter("ignore")  # that it is not compiled
        return _called("t5", "flex_attention", q, k, v, mask, scale, position_bias=position_bias)


@claims(dtypes=UP_TO_SINGLE, options=("cross", "strides", "values", "mask", "gqa"))
def llama_eager(q, k, v, mask=None, scale=None):
    """Return the eager attention of Llama, whose softmax is in float32."""
    return _called("llama", "eager", q, k, v, mask, scale)


@claims(dtypes=UP_TO_SINGLE, options=("cross", "strides", "values", "mask", "gqa", "softcap-product"))
def gemma2_eager(q, k, v, mask=None, scale=None, softcap=None):
    """Return the eager attention of Gemma 2, whose soft-cap acts before the mask."""
    return _called("gemma2", "eager", q, k, v, mask, scale, softcap=softcap)


@claims(dtypes=DTYPES, options=("cross", "strides", "values", "mask", "gqa", "sink"))
def gpt_oss_eager(q, k, v, mask=None, scale=None, sinks=None):
    """Return the eager attention of GPT-OSS, which has a sink in each head.

    A case without sinks gets those of the lowest number, which take no weight.
    """
    import torch

    if sinks is None:
        sinks = torch.full((q.shape[1],), torch.finfo(q.dtype).min, dtype=q.dtype, device=q.device)
    return _called("gpt_oss", "eager", q, k, v, mask, scale, sinks=sinks)
