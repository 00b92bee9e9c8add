"""Closed-form derivatives as torch autograd functions: whole rows at once, no blocks.

`attngrad.layers` checks the arguments and calls these with floats in float32 or float64 and a boolean tensor
that says where a key takes part. Backward passes consist of differentiable operations on saved tensors, so
they can be differentiated again.

Each function has two classes. torch.compile refuses one with a forward-mode derivative, so a class without it
serves there, and the class derived from it adds `jvp`. torch does not differentiate a `jvp` by an outer
forward level: under two nested forward levels the value is computed in plain operations, which torch
differentiates itself.
"""

from attngrad.closed.attention import (
    Attention,
    Form,
    ForwardAttention,
    Scores,
    added,
    attend,
    attention,
    capped,
    product,
)
from attngrad.closed.modes import forward_levels
from attngrad.closed.softmax import (
    CrossEntropy,
    ForwardCrossEntropy,
    ForwardLogSoftmax,
    ForwardSoftmax,
    ForwardSoftmaxTemperature,
    LogSoftmax,
    Softmax,
    SoftmaxTemperature,
    cross_entropy,
    largest,
    log_softmax,
    log_weights,
    loss_of_rows,
    shifted,
    softmax,
    softmax_temperature,
    tempered,
    through_softmax,
    top,
    weights,
)

__all__ = [
    "Attention",
    "CrossEntropy",
    "Form",
    "ForwardAttention",
    "ForwardCrossEntropy",
    "ForwardLogSoftmax",
    "ForwardSoftmax",
    "ForwardSoftmaxTemperature",
    "LogSoftmax",
    "Scores",
    "Softmax",
    "SoftmaxTemperature",
    "added",
    "attend",
    "attention",
    "capped",
    "cross_entropy",
    "forward_levels",
    "largest",
    "log_softmax",
    "log_weights",
    "loss_of_rows",
    "product",
    "shifted",
    "softmax",
    "softmax_temperature",
    "tempered",
    "through_softmax",
    "top",
    "weights",
]
