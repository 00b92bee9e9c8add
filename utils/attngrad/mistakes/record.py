"""What is recorded with a wrong version of a function."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Mistake:
    """One wrong variant.

    ``formula`` is LaTeX, ``seen`` says where it was seen, ``check`` names what must reject it, ``missed_by``
    the naive inputs on which it agrees with the right function:

    - of calculus: "one-entry" (arrays of one entry), "symmetric-matrix";
    - of softmax: "sum-loss" (a cotangent of ones), "one-key" and "one-row", "one-hot" (weights that sum to
      one), "unit-temperature", "moderate-logits", "equal-logits", "no-empty-row";
    - of attention: "unit-scale", "zero-bias", "equal-bias" (the same for all keys of a row), "hard-mask" (a
      bias of 0 and -inf), "one-head", "one-batch", "zero-lse-cotangent", "no-sink" (one of -inf), "uncapped"
      (scores far below the cap), "no-dropout", "ungrouped" (as many heads of keys as of queries), "one-block"
      (all keys in one), "identity-values";
    - of tables: "distinct-rows" (no two pairs share one), "short-sums" (of few small integers), "one-layer",
      "whole-blocks" (no key is missing from the last one), "one-token", "square" (as many queries as keys),
      "near-keys" (no distance beyond the last), "one-step", "one-device";
    - of positions and training loops: "equal-halves" (of a rotation's sines), "small-bias" (whose places fit
      into 32 bits), "unit-loss-scale", "large-gradients", "equal-counts" (of tokens), "whole-windows" (of
      accumulated steps), "random-cotangent".
    """

    id: str
    formula: str
    seen: str
    check: str
    function: Callable[..., Any]
    right: Callable[..., Any]
    stands_for: str
    missed_by: tuple[str, ...] = ()
