"""Attention that others wrote, ready to be judged: of PyTorch, of `transformers`, and this library's own.

Each is a callable with its specification as ``spec``, and a target: "attngrad.doctor.adapters:sdpa_math".
torch and transformers are imported when one is called.
"""

from attngrad.doctor.adapters.own import (
    layers_alibi,
    layers_attention,
    layers_table,
    layers_tiled,
    layers_tiled_bias,
    layers_triton,
)
from attngrad.doctor.adapters.pytorch import (
    flex_bias,
    flex_table,
    multihead_attention,
    multihead_attention_weights,
    sdpa,
    sdpa_causal,
    sdpa_flash,
    sdpa_math,
    sdpa_math_causal,
)
from attngrad.doctor.adapters.with_transformers import (
    gemma2_eager,
    gpt_oss_eager,
    llama_eager,
    t5_eager,
    t5_flex,
    t5_sdpa,
)

__all__ = [
    "flex_bias",
    "flex_table",
    "gemma2_eager",
    "gpt_oss_eager",
    "layers_alibi",
    "layers_attention",
    "layers_table",
    "layers_tiled",
    "layers_tiled_bias",
    "layers_triton",
    "llama_eager",
    "multihead_attention",
    "multihead_attention_weights",
    "sdpa",
    "sdpa_causal",
    "sdpa_flash",
    "sdpa_math",
    "sdpa_math_causal",
    "t5_eager",
    "t5_flex",
    "t5_sdpa",
]
