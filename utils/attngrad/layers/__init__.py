"""The torch face: attention, softmax, log-softmax and cross-entropy with closed-form derivatives.

`RelativeBias` is the bias of pairs by their positions, as a module; its maps are those of `attngrad.offsets`.

Arguments and conventions are those of `attngrad.reference`. float16 and bfloat16 are computed in float32
inside and rounded once on the way out, in both directions.

Backward passes are written in differentiable operations: reverse over reverse, forward over reverse and
reverse over forward use the closed forms. Forward over forward, such as jacfwd of jacfwd, which torch would
get wrong, is computed in plain operations. Forward mode does not work inside torch.compile. All this is said
of impl="closed", the default; the other implementations of attention have a first derivative alone.

Checking values reads one boolean for each tensor back from the device, which waits for the work queued on
it. Values that cannot be read are not checked: inside torch.func.vmap, inside torch.compile, and on the meta
device. There a bad logit, feature, target, scale or temperature, or a score beyond the range of its type,
makes the row or the loss NaN or infinite instead of raising an error. Types and shapes are always checked.
"""

try:
    import torch  # noqa: F401
except ModuleNotFoundError as missing:
    told = "attngrad.layers needs torch, which the extra attngrad[torch] brings"
    raise ModuleNotFoundError(told) from missing

from attngrad.layers.arguments import IMPLEMENTATIONS
from attngrad.layers.attention import attention
from attngrad.layers.relative_bias import RelativeBias
from attngrad.layers.softmax import cross_entropy, log_softmax, softmax, softmax_temperature
from attngrad.offsets import AlibiMap, BeitMap, ClipMap, OffsetMap, T5Map, WindowMap

__all__ = [
    "IMPLEMENTATIONS",
    "AlibiMap",
    "BeitMap",
    "ClipMap",
    "OffsetMap",
    "RelativeBias",
    "T5Map",
    "WindowMap",
    "attention",
    "cross_entropy",
    "log_softmax",
    "softmax",
    "softmax_temperature",
]
