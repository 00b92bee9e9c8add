"""Derivative checks: central differences of a frozen pairing, and the adjoint identity."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from attngrad.checks.compare import as_numpy, check_not_vacuous
from attngrad.checks.tolerances import STEP, TOLERANCES
from attngrad.notation import DtypeError, RangeError

Arrays = Sequence[np.ndarray] | np.ndarray


def _inputs(inputs: Arrays) -> tuple[np.ndarray, ...]:
    """Return the inputs as a tuple of float64 arrays; a single array stands for one input."""
    inputs = (inputs,) if isinstance(inputs, np.ndarray) else tuple(inputs)
    for k, x in enumerate(inputs):
        if not isinstance(x, np.ndarray) or x.dtype != np.float64:
            got = getattr(x, "dtype", type(x).__name__)
            raise DtypeError(f"input {k}: expected a float64 array, got {got}")
    return inputs


def _several(result: Any) -> tuple[np.ndarray, ...]:
    """Return one result or several as a tuple of arrays."""
    return tuple(map(as_numpy, result)) if isinstance(result, tuple | list) else (as_numpy(result),)


def _moved(inputs: tuple[np.ndarray, ...], directions: Sequence[np.ndarray], step: float) -> list[np.ndarray]:
    """Return the inputs moved by a step along the directions."""
    return [np.asarray(x + step * t) for x, t in zip(inputs, directions, strict=True)]


def _value(name: str, f: Callable, inputs: Sequence[np.ndarray]) -> np.ndarray:
    """Return f as a float64 array, refusing a NaN."""
    out = np.asarray(as_numpy(f(*inputs)), dtype=np.float64)
    if np.isnan(out).any():
        raise AssertionError(f"{name}: the function itself returned a NaN")
    return out


def check_vjp(
    f: Callable[..., Any],
    vjp: Callable[..., Any],
    inputs: Arrays,
    *,
    name: str = "vjp",
    seed: int = 0,
    trials: int = 3,
    nonzero: bool = True,
) -> str:
    """Check ``vjp(*inputs, u)`` against central differences of the frozen pairing <u, f(inputs)>.

    Formula: (<u, f(x + h t)> - <u, f(x - h t)>) / 2h = <vjp(x, u), t> for random u and t, with each input
    moved on its own, to 1e-6 of the larger of |derivative| and |<u, f(x)>|. Infinite outputs are taken as
    constant. Returns one line that says what was compared.

    Raises: AssertionError for a wrong shape or value, a NaN, or where zero would pass and nonzero is True.

    >>> check_vjp(np.sin, lambda x, u: np.cos(x) * u, np.array([0.3, 2.0]), name="sine")
    'sine: 3 random directions agree with central differences within 1e-6'
    """
    inputs, out, finite = _prepared(name, f, inputs, trials)
    rng = np.random.default_rng(seed)
    seen = np.zeros((len(inputs), 2))  # the largest derivative of each input, and the widest bound
    for _ in range(trials):
        u = rng.standard_normal(out.shape)
        cotangents = _several(vjp(*inputs, u))
        _check_results(name, cotangents, inputs, "input")
        loss = float((np.where(finite, out, 0.0) * u).sum())
        for k, x in enumerate(inputs):
            directions = [np.zeros_like(y) for y in inputs]
            directions[k] = t = np.asarray(rng.standard_normal(x.shape))
            change = _difference(name, f, inputs, directions, finite)
            numeric, claimed = float((u * change).sum()), float((cotangents[k] * t).sum())
            bound = TOLERANCES["difference"].rtol * max(abs(numeric), abs(loss))
            _check_number(f"{name}, input {k}", claimed, numeric, bound)
            seen[k] = np.maximum(seen[k], (abs(numeric), bound))
    for k, (largest, widest) in enumerate(seen if nonzero else ()):
        check_not_vacuous(f"{name}, input {k}", largest, widest)
    return f"{name}: {trials} random directions agree with central differences within 1e-6"


def check_jvp(
    f: Callable[..., Any],
    jvp: Callable[..., Any],
    inputs: Arrays,
    *,
    name: str = "jvp",
    seed: int = 0,
    trials: int = 3,
    nonzero: bool = True,
) -> str:
    """Check ``jvp(*inputs, *tangents)`` entry by entry against central differences along random tangents.

    Formula: (f(x + h t) - f(x - h t)) / 2h = jvp(x, t), to 1e-6 of the larger of the largest |derivative|
    and the largest |f(x)|. Infinite outputs are taken as constant.

    Raises: as `check_vjp`.

    >>> check_jvp(np.sin, lambda x, t: np.cos(x) * t, np.array([0.3, 2.0]), name="sine")
    'sine: 3 random directions agree with central differences within 1e-6'
    """
    inputs, out, finite = _prepared(name, f, inputs, trials)
    rng = np.random.default_rng(seed)
    largest = widest = 0.0
    for _ in range(trials):
        tangents = [rng.standard_normal(x.shape) for x in inputs]
        claimed = _several(jvp(*inputs, *tangents))
        _check_results(name, claimed, (out,), "output")
        numeric = _difference(name, f, inputs, tangents, finite)
        size = np.abs(numeric).max(initial=0.0)
        bound = TOLERANCES["difference"].rtol * max(size, np.abs(out[finite]).max(initial=0.0))
        for at in np.ndindex(out.shape):
            _check_number(f"{name}, output {at}", float(claimed[0][at]), float(numeric[at]), bound)
        largest, widest = max(largest, size), max(widest, bound)
    if nonzero:
        check_not_vacuous(name, largest, widest)
    return f"{name}: {trials} random directions agree with central differences within 1e-6"


def check_adjoint(
    apply: Callable[[np.ndarray], Any],
    transpose: Callable[[np.ndarray], Any],
    tangent_shape: Sequence[int],
    cotangent_shape: Sequence[int],
    *,
    name: str = "adjoint",
    seed: int = 0,
    nonzero: bool = True,
) -> str:
    """Check that two linear maps are adjoint: <u, J t> = <J^T u, t> for random t and u.

    Formula: |<u, apply(t)> - <transpose(u), t>| <= 1e-12 times the sum of the absolute terms of both.

    Raises: AssertionError for a wrong shape or value, or where zero maps would pass and nonzero is True.

    >>> A = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    >>> check_adjoint(lambda t: A @ t, lambda u: A.T @ u, (3,), (2,), name="matrix")
    'matrix: <u, J t> = <J^T u, t> within 1e-12'
    """
    rng = np.random.default_rng(seed)
    t, u = rng.standard_normal(tuple(tangent_shape)), rng.standard_normal(tuple(cotangent_shape))
    forward, backward = _several(apply(t)), _several(transpose(u))
    _check_results(name, forward, (u,), "output")
    _check_results(name, backward, (t,), "input")
    left, right = u * forward[0], t * backward[0]
    bound = TOLERANCES["float64"].atol * float(np.abs(left).sum() + np.abs(right).sum())
    _check_number(name, float(left.sum()), float(right.sum()), bound)
    if nonzero:
        check_not_vacuous(name, abs(float(right.sum())), bound)
    return f"{name}: <u, J t> = <J^T u, t> within 1e-12"


def _prepared(
    name: str, f: Callable, inputs: Arrays, trials: int
) -> tuple[tuple[np.ndarray, ...], np.ndarray, np.ndarray]:
    """Return the inputs as float64 arrays, f at them, and where f is finite; require a trial."""
    if trials < 1:
        raise RangeError(f"trials: expected at least 1, got {trials}")
    inputs = _inputs(inputs)
    out = _value(name, f, inputs)
    return inputs, out, np.asarray(np.isfinite(out))


def _difference(
    name: str,
    f: Callable,
    inputs: tuple[np.ndarray, ...],
    directions: Sequence[np.ndarray],
    finite: np.ndarray,
) -> np.ndarray:
    """Return the central difference of f along the directions, 0 at outputs that are infinite."""
    above = _value(name, f, _moved(inputs, directions, STEP))
    below = _value(name, f, _moved(inputs, directions, -STEP))
    return (np.where(finite, above, 0.0) - np.where(finite, below, 0.0)) / (2.0 * STEP)


def _check_results(
    name: str, results: tuple[np.ndarray, ...], like: Sequence[np.ndarray], what: str
) -> None:
    """Require as many results as arrays in ``like``, of their shapes and finite."""
    if len(results) != len(like):
        raise AssertionError(f"{name}: got {len(results)} results for {len(like)} arrays of {what}")
    for k, (result, x) in enumerate(zip(results, like, strict=True)):
        if result.shape != x.shape:
            raise AssertionError(f"{name}: got shape {result.shape} for {what} {k} of shape {x.shape}")
        if not np.isfinite(result).all():
            raise AssertionError(f"{name}: got a NaN or an infinity for {what} {k}")


def _check_number(name: str, claimed: float, numeric: float, bound: float) -> None:
    """Require two numbers to agree within a bound."""
    if not abs(claimed - numeric) <= bound:
        raise AssertionError(
            f"{name}: claimed {claimed:.5g}, want {numeric:.5g}; "
            f"error {abs(claimed - numeric):.1e} exceeds {bound:.1e}"
        )
