"""What is recorded with an exercise in code."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from textwrap import fill
from typing import Any

import numpy as np

from attngrad.mistakes import mistake

Sizes = Mapping[str, int]
Function = Callable[..., Any]


@dataclass(frozen=True)
class Exercise:
    """One function to be written by a reader.

    - ``signature`` and ``asks`` say what is wanted; printed, an exercise shows both.
    - ``instances`` are sizes, the smallest first; ``draw(rng, sizes)`` returns the arguments of one.
    - ``right`` returns the right result, ``terms`` the sum of the absolute terms of which each entry of it is
      made, in the same shape; both take the arguments.
    - ``second(function, arguments)`` is a second opinion that does not know ``right``, such as `check_vjp`;
      it raises an AssertionError.
    - ``mistakes`` are wrong functions of the same arguments; a key that is an id of `attngrad.mistakes`
      brings what is on record about it.
    - ``results`` names the results where there are several.
    """

    name: str
    signature: str
    asks: str
    instances: tuple[Sizes, ...]
    draw: Callable[[np.random.Generator, Sizes], tuple]
    right: Function
    terms: Function
    second: Callable[[Function, tuple], object]
    mistakes: Mapping[str, Function] = field(default_factory=dict)
    results: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([self.signature, fill(self.asks, 76, initial_indent="  ", subsequent_indent="  ")])

    def arguments(self, seed: int) -> list[tuple]:
        """Return the arguments of each instance; they depend on the seed and the place in the list alone."""
        return [self.draw(np.random.default_rng([seed, k]), sizes) for k, sizes in enumerate(self.instances)]


def on_record(*ids: str) -> dict[str, Function]:
    """Return mistakes of the library that take the arguments of an exercise as they are."""
    return {id: mistake(id).function for id in ids}
