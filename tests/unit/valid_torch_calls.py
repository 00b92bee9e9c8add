"""A valid call of every public function and module of the torch face."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from attngrad import layers, offsets

from .malformed import Kind, flag, floats, integers, masks, number, size, thing, torch_type, word
from .valid_calls import (
    ALL,
    AT_END,
    LABELS,
    LOGITS,
    OFFSET,
    OPTION_FREE,
    OPTION_KINDS,
    OPTIONS,
    QKV,
    Call,
    H,
    M,
    P,
    R,
    S,
    default,
    fine,
)
from .valid_offset_calls import PAIR_KINDS, PAIRS

OWN_TYPE = "each may have a type of its own, in which its cotangent comes"


def tensors(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with tensors in the place of arrays."""
    return {name: torch.tensor(x) if isinstance(x, np.ndarray) else x for name, x in arguments.items()}


def of_logits(function: Callable[..., Any], **more: Any) -> Call:
    """Return a call of a function of logits, a mask and perhaps a temperature."""
    kinds: dict[str, Kind] = {"s": floats, "mask": masks, "impl": word}
    kinds |= dict.fromkeys(more, number(positive=True, tensor=True))
    arguments = {**tensors({"s": S, "mask": ALL}), "impl": "closed", **more}
    return Call(function, arguments, kinds, LOGITS | fine("the result has its type", s=("float32",)))


def of_targets(y: np.ndarray) -> Call:
    """Return a call of cross-entropy with weights or labels as targets."""
    labels = y.ndim == 1
    arguments = {**tensors({"s": S, "y": y, "mask": ALL}), "impl": "closed"}
    kinds = {"s": floats, "y": integers(0, M - 1) if labels else floats, "mask": masks, "impl": word}
    says = {("y", "float64"): "as for s"} if labels else {("y", "int64"): "y (labels)"}
    harmless = default("mask")
    if labels:
        harmless |= fine("the result has its type", s=("float32",))
        harmless |= fine("no label rests on the hidden key", s=("-inf",))
    else:
        says |= {("s", "-inf"): "logits of -inf", ("s", "float32"): "torch.float64"}
    return Call(layers.cross_entropy, arguments, kinds, harmless, says, told={"s": "s|logits of -inf"})


BIAS = layers.RelativeBias(H, offsets.OffsetMap(5))
AT_LEAST_ONE = PAIR_KINDS | {"N": size(least=1), "M": size(least=1)}
OWN_MAP = {"heads": H, "map": lambda N, M, start: np.ones((N, M), int), "rows": R, "dtype": torch.float64}

LAYERS = {
    "softmax": of_logits(layers.softmax),
    "log_softmax": of_logits(layers.log_softmax),
    "softmax_temperature": of_logits(layers.softmax_temperature, tau=0.7),
    "cross_entropy": of_targets(P),
    "cross_entropy, labels": of_targets(LABELS),
    "attention": Call(
        layers.attention,
        {**tensors(QKV | OPTIONS), "return_lse": True, "impl": "closed"},
        dict.fromkeys(QKV, floats)
        | OPTION_KINDS
        | {"scale": number(tensor=True), "return_lse": flag, "impl": word},
        OPTION_FREE | fine(OWN_TYPE, bias=("float32",), sink=("float32",)),
    ),
    "attention, tiled": Call(
        layers.attention,
        {**tensors(QKV | OPTIONS), "return_lse": True, "impl": "tiled"},
        dict.fromkeys(QKV, floats)
        | OPTION_KINDS
        | {"scale": number(tensor=True), "return_lse": flag, "impl": word},
        OPTION_FREE | fine(OWN_TYPE, bias=("float32",), sink=("float32",)),
    ),
    "RelativeBias": Call(
        layers.RelativeBias,
        OWN_MAP,
        {"heads": size(least=1), "map": thing, "rows": size(least=1), "dtype": torch_type},
        default("dtype"),
        free={"device": "torch says what is no device"},
    ),
    "RelativeBias.forward": Call(
        BIAS.forward,
        {**PAIRS, "dtype": torch.float64},
        {**PAIR_KINDS, "dtype": torch_type},
        default("query_start", "dtype"),
    ),
    "RelativeBias.diagonals": Call(
        BIAS.diagonals,
        {**PAIRS, "dtype": torch.float64},
        AT_LEAST_ONE | {"dtype": torch_type},
        default("query_start", "dtype"),
    ),
    "RelativeBias.score_mod": Call(
        BIAS.score_mod,
        {**PAIRS},
        AT_LEAST_ONE,
        default("query_start"),
    ),
    "RelativeBias.at": Call(
        BIAS.at,
        {"offset": OFFSET, "dtype": torch.float64},
        {"offset": integers(-4, 4), "dtype": torch_type},
        default("dtype")
        | fine("integers of torch will do", offset=("tensor",))
        | fine("pairs of any number", offset=(*AT_END, "short in front", "empty in front", "transposed")),
    ),
}
