"""Calling functions under test: on copies, so that one that writes into its arguments is found."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from attngrad.checks.compare import real_array

Labelled = Sequence[tuple[str, np.ndarray]]


def labelled(label: str, arrays: Sequence[np.ndarray]) -> Labelled:
    """Return arrays with the names by which errors call them: "input 0", "input 1", and so on."""
    return [(f"{label} {k}", x) for k, x in enumerate(arrays)]


def call_on_copies(name: str, function: Callable[..., Any], arguments: Labelled) -> Any:
    """Return what a function makes of copies of its arguments.

    Raises: AssertionError that names the first argument that the function changed.
    """
    copies = [x.copy() for _, x in arguments]
    result = function(*copies)
    for (label, x), copy in zip(arguments, copies, strict=True):
        if copy.shape != x.shape or copy.tobytes() != x.tobytes():
            told = getattr(function, "__name__", "the function")
            raise AssertionError(f"{name}: {told} changed its argument {label}, which it must leave as it is")
    return result


def several(name: str, result: Any, what: str) -> tuple[np.ndarray, ...]:
    """Return one result or a tuple of results as a tuple of float64 arrays.

    Raises: AssertionError for None in place of an array; DtypeError for what is not real numbers.
    """
    results = tuple(result) if isinstance(result, tuple | list) else (result,)
    for k, x in enumerate(results):
        if x is None:
            raise AssertionError(f"{name}: got None for {what} {k}, expected an array")
    return tuple(real_array(f"{name}, {what} {k}", x) for k, x in enumerate(results))


def check_results(
    name: str, results: tuple[np.ndarray, ...], like: Sequence[np.ndarray], what: str
) -> None:
    """Require as many results as arrays in ``like``, of their shapes and finite.

    Raises: AssertionError that names the result.
    """
    if len(results) != len(like):
        raise AssertionError(f"{name}: got {len(results)} results for {len(like)} arrays of {what}")
    for k, (result, x) in enumerate(zip(results, like, strict=True)):
        if result.shape != x.shape:
            raise AssertionError(f"{name}: got shape {result.shape} for {what} {k} of shape {x.shape}")
        if not np.isfinite(result).all():
            raise AssertionError(f"{name}: got a NaN or an infinity for {what} {k}")


def check_number(name: str, claimed: float, numeric: float, bound: float) -> None:
    """Require two numbers to agree within a bound.

    Raises: AssertionError where they do not, or where a bound that is not finite would let all pass.
    """
    if not np.isfinite(bound):
        raise AssertionError(f"{name}: the bound is {bound}, within which everything would pass")
    if not abs(claimed - numeric) <= bound:
        raise AssertionError(
            f"{name}: claimed {claimed:.5g}, want {numeric:.5g}; "
            f"error {abs(claimed - numeric):.1e} exceeds {bound:.1e}"
        )
