"""What a case is made of, said before its numbers are drawn."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attngrad.doctor.cases.frame import Frame

Rows = Callable[[int, int, int | None], Any]


@dataclass(frozen=True)
class Recipe:
    """A case without its numbers. ``acts`` are words of what it does beside the sizes:

    "mask", "padding", "empty-rows", "hidden", "lowest", "lowest-row", "packed", "dropout", "dlse", "softcap",
    "softcap-product", "sink", "equal", "outlier", "aligned", "coherent", "identity-values",
    "identity-cotangent", "no-bias-values".

    ``bias`` is "" for none, "table", "shared-table", "slopes", or a shape of `attngrad.doctor.spec.BIASES`.
    ``numbers_of`` names the case whose numbers it has, its own if "".
    ``spread`` is the standard deviation of the products, ``start`` None for positions that end with the keys.
    """

    name: str
    why: str
    frame: Frame
    N: int
    M: int
    B: int = 3
    H: int = 5
    H_kv: int | None = None
    D: int = 32
    D_v: int | None = None
    bias: str = ""
    acts: tuple[str, ...] = ()
    causal: bool = False
    start: int | None = None
    scale: float = 1.0
    spread: float = 1.3
    strides: str = ""
    repeats: int = 1
    only: tuple[str, ...] = ()
    exercises: tuple[str, ...] = ()
    numbers_of: str = ""
