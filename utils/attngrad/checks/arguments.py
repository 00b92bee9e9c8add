"""Checks of the arguments of checks: what must be a function, a flag, a word, a shape."""

from collections.abc import Sequence
from typing import Any

from attngrad.notation import DtypeError, RangeError, integer


def check_functions(**functions: Any) -> None:
    """Require functions, given by their names."""
    for name, value in functions.items():
        if not callable(value):
            raise DtypeError(f"{name}: expected a function, got {type(value).__name__}")


def check_text(name: str, value: Any) -> None:
    """Require text."""
    if not isinstance(value, str):
        raise DtypeError(f"{name}: expected text, got {type(value).__name__} {value!r}")


def is_one_of(value: Any, words: Sequence[str]) -> bool:
    """Return whether a value, of any type, is one of some words."""
    return isinstance(value, str) and value in words


def checked_shape(name: str, shape: Any) -> tuple[int, ...]:
    """Return a shape as a tuple of integers of at least 0."""
    if not isinstance(shape, tuple | list):
        raise DtypeError(f"{name}: expected a tuple of integers, got {type(shape).__name__}")
    return tuple(integer(f"{name}[{k}]", size, least=0) for k, size in enumerate(shape))


def check_exceptions(name: str, error: Any) -> None:
    """Require a class of exceptions, or a tuple of them that is not empty."""
    classes = error if isinstance(error, tuple) else (error,)
    if not classes or not all(isinstance(one, type) and issubclass(one, BaseException) for one in classes):
        raise DtypeError(f"{name}: expected a class of exceptions or a tuple of them, got {error!r}")


def check_kind(kind: Any, words: Sequence[str]) -> None:
    """Require the kind of a comparison that is one of some words."""
    if not is_one_of(kind, words):
        raise RangeError(f"kind: expected {' or '.join(map(repr, words))}, got {kind!r}")
