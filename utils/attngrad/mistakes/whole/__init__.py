"""Wrong attentions by id: the whole forward and backward pass with one step done wrong."""

from attngrad.mistakes.whole import (  # noqa: F401  each module records its own
    core,
    heads,
    masks,
    options,
    positions,
    products,
    reductions,
    scales,
    tails,
)
from attngrad.mistakes.whole.pipeline import Attention
from attngrad.mistakes.whole.record import REGISTER, Whole, right
from attngrad.mistakes.whole.state import STATE, Stateful

__all__ = ["STATE", "WHOLE", "Attention", "Stateful", "Whole", "right"]

WHOLE = dict(sorted(REGISTER.items()))
