"""Which form of a function serves: a class for compiled code, one with forward mode, or plain operations."""

from collections.abc import Callable
from typing import Any

import torch
from torch._C._functorch import TransformType, get_interpreter_stack


def forward_levels() -> int:
    """Return how many forward-mode transforms of torch.func are at work, one inside the other."""
    return sum(level.key() == TransformType.Jvp for level in get_interpreter_stack() or ())


def call(compiled: type, eager: type, plain: Callable[..., Any], *arguments: Any) -> Any:
    """Return the function by the class for compiled code, by that with `jvp`, or by plain operations."""
    if torch.compiler.is_compiling():
        return compiled.apply(*arguments)
    return plain(*arguments) if forward_levels() > 1 else eager.apply(*arguments)
