"""Uninitialised memory filled with NaN while an implementation runs, so that what it leaves out is seen.

`numpy.empty` and `torch.empty` with their relatives are exchanged for the time of a call. torch's own switch,
deterministic mode, would do it too, but exchanges algorithms, hides races and warns.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import numpy as np

from .arrays import UNWRITTEN, dtype_name, fill_unwritten, is_tensor

MAKERS = ("empty", "empty_like", "empty_strided")
METHODS = ("new_empty", "new_empty_strided")
_filling: dict[Callable, Callable] = {}


def _never() -> bool:
    """Say that nothing is being compiled."""
    return False


def _filled(make: Callable, compiling: Callable[[], bool]) -> Callable:
    """Return a function that makes the same array and fills it; the same one at each call."""
    if make not in _filling:

        @wraps(make)
        def filled(*args: Any, **kwargs: Any) -> Any:
            """Make the array and fill it with NaN where it is one of plain floats in memory."""
            x = make(*args, **kwargs)
            if compiling():
                return x
            plain = not is_tensor(x) or (str(x.layout) == "torch.strided" and x.device.type != "meta")
            return fill_unwritten(x) if plain and dtype_name(x) in UNWRITTEN else x

        _filling[make] = filled
    return _filling[make]


@contextmanager
def filled_memory() -> Iterator[None]:
    """Fill what NumPy and torch allocate with NaN, and put everything back afterwards.

    numba reads the functions of NumPy by their identity, so NumPy is left alone beside it. What torch
    compiles is left as it is.
    """
    places: list[tuple[Any, str]] = []
    if "numba" not in sys.modules:
        places += [(np, name) for name in MAKERS[:2]]
    torch, compiling = sys.modules.get("torch"), _never
    if torch is not None and hasattr(torch, "Tensor"):
        compiling = torch.compiler.is_compiling
        places += [(torch, name) for name in MAKERS] + [(torch.Tensor, name) for name in METHODS]
    own = [(owner, name, vars(owner).get(name)) for owner, name in places]
    try:
        for owner, name in places:
            setattr(owner, name, _filled(getattr(owner, name), compiling))
        yield
    finally:
        for owner, name, make in own:
            if make is None:  # inherited: the exchanged one hid it
                delattr(owner, name)
            else:
                setattr(owner, name, make)
