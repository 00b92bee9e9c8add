"""Derivative checks: central differences of a frozen pairing, and the adjoint identity."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attngrad.checks.arguments import check_functions, checked_shape
from attngrad.checks.calls import call_on_copies, check_number, check_results, labelled, several
from attngrad.checks.compare import check_not_vacuous
from attngrad.checks.tolerances import STEP, TOLERANCES
from attngrad.notation import DtypeError, RangeError, boolean, first_index, integer

Arrays = Sequence[np.ndarray] | np.ndarray
RTOL = TOLERANCES["difference"].rtol


@dataclass(frozen=True)
class _Tested:
    """A function under test at its inputs: what it returns there, and where that is finite."""

    name: str
    function: Callable[..., Any]
    inputs: tuple[np.ndarray, ...]
    outputs: tuple[np.ndarray, ...]
    finite: tuple[np.ndarray, ...]

    def moved(self, directions: Sequence[np.ndarray], step: float) -> list[np.ndarray]:
        """Return the outputs at inputs moved by a step, 0 where the output is infinite, a constant."""
        inputs = [np.asarray(x + step * t) for x, t in zip(self.inputs, directions, strict=True)]
        results = _values(self.name, self.function, inputs)
        shapes = [(y.shape, out.shape) for y, out in zip(results, self.outputs, strict=False)]
        if len(results) != len(self.outputs) or any(got != want for got, want in shapes):
            raise AssertionError(f"{self.name}: the function returns other shapes a step beside the inputs")
        for y, out, finite in zip(results, self.outputs, self.finite, strict=True):
            if not np.where(finite, np.isfinite(y), y == out).all():
                raise AssertionError(f"{self.name}: other outputs are infinite a step beside the inputs")
        return [np.where(finite, y, 0.0) for y, finite in zip(results, self.finite, strict=True)]

    def difference(self, directions: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the central difference of each output along the directions."""
        above, below = self.moved(directions, STEP), self.moved(directions, -STEP)
        return [np.asarray((high - low) / (2.0 * STEP)) for high, low in zip(above, below, strict=True)]


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
    constant. Where f returns a tuple, vjp takes one cotangent for each output, and each output is also
    checked with the cotangents of the others at 0. Functions are called on copies of the arrays.

    Returns one line that says what was compared.

    Raises: AssertionError for a wrong shape or value, a NaN, an argument that was changed, or where zero
    would pass and nonzero is True; DtypeError for what is not real numbers, or no function; RangeError
    without an input, or for a NaN in one.

    >>> check_vjp(np.sin, lambda x, u: np.cos(x) * u, np.array([0.3, 2.0]), name="sine")
    'sine: 3 random directions agree with central differences within 1e-6'
    """
    check_functions(f=f, vjp=vjp)
    tested, rng = _tested(name, f, inputs, trials), _random(seed, nonzero)
    seen = np.zeros((len(tested.inputs), 2))  # the largest derivative of each input, and the widest bound
    for _ in range(trials):
        cotangents = [np.asarray(rng.standard_normal(out.shape)) for out in tested.outputs]
        directions = [np.asarray(rng.standard_normal(x.shape)) for x in tested.inputs]
        changes = [tested.difference(_alone(directions, k)) for k in range(len(directions))]
        seen = np.maximum(seen, _compare_pairing(tested, name, vjp, cotangents, directions, changes))
        for label, alone in _one_by_one(name, cotangents):
            _compare_pairing(tested, label, vjp, alone, directions, changes)
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
    and the largest |f(x)|, for each output on its own. Infinite outputs are taken as constant. Where f
    returns a tuple, jvp returns one tangent for each output. Functions are called on copies of the arrays.

    Raises: as `check_vjp`.

    >>> check_jvp(np.sin, lambda x, t: np.cos(x) * t, np.array([0.3, 2.0]), name="sine")
    'sine: 3 random directions agree with central differences within 1e-6'
    """
    check_functions(f=f, jvp=jvp)
    tested, rng = _tested(name, f, inputs, trials), _random(seed, nonzero)
    seen = np.zeros((len(tested.outputs), 2))  # the largest derivative of each output, and the widest bound
    for _ in range(trials):
        tangents = [np.asarray(rng.standard_normal(x.shape)) for x in tested.inputs]
        arguments = [*labelled("input", tested.inputs), *labelled("tangent", tangents)]
        claimed = several(name, call_on_copies(name, jvp, arguments), "output")
        check_results(name, claimed, tested.outputs, "output")
        seen = np.maximum(seen, _compare_entries(tested, claimed, tested.difference(tangents)))
    for k, (largest, widest) in enumerate(seen if nonzero else ()):
        check_not_vacuous(_output(tested, k, ""), largest, widest)
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

    Raises: AssertionError for a wrong shape or value, an argument that was changed, or where zero maps
    would pass and nonzero is True.

    >>> A = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    >>> check_adjoint(lambda t: A @ t, lambda u: A.T @ u, (3,), (2,), name="matrix")
    'matrix: <u, J t> = <J^T u, t> within 1e-12'
    """
    check_functions(apply=apply, transpose=transpose)
    rng = _random(seed, nonzero)
    t = np.asarray(rng.standard_normal(checked_shape("tangent_shape", tangent_shape)))
    u = np.asarray(rng.standard_normal(checked_shape("cotangent_shape", cotangent_shape)))
    forward = several(name, call_on_copies(name, apply, [("t", t)]), "output")
    backward = several(name, call_on_copies(name, transpose, [("u", u)]), "input")
    check_results(name, forward, (u,), "output")
    check_results(name, backward, (t,), "input")
    left, right = u * forward[0], t * backward[0]
    bound = TOLERANCES["float64"].atol * float(np.abs(left).sum() + np.abs(right).sum())
    check_number(name, float(left.sum()), float(right.sum()), bound)
    if nonzero:
        check_not_vacuous(name, abs(float(right.sum())), bound)
    return f"{name}: <u, J t> = <J^T u, t> within 1e-12"


def _tested(name: str, f: Callable, inputs: Arrays, trials: int) -> _Tested:
    """Return f at its inputs, a tuple of float64 arrays or one array without a NaN; require a trial."""
    integer("trials", trials, least=1)
    inputs = (inputs,) if isinstance(inputs, np.ndarray) else inputs
    if not isinstance(inputs, tuple | list):
        raise DtypeError(f"inputs: expected a float64 array or a tuple of them, got {type(inputs).__name__}")
    inputs = tuple(inputs)
    if not inputs:
        raise RangeError("inputs: expected at least one array, got none")
    for k, x in enumerate(inputs):
        if not isinstance(x, np.ndarray) or isinstance(x, np.ma.MaskedArray) or x.dtype != np.float64:
            plain = isinstance(x, np.ndarray) and not isinstance(x, np.ma.MaskedArray)
            got = x.dtype if plain else type(x).__name__
            raise DtypeError(f"input {k}: expected a float64 array, got {got}")
        if np.isnan(x).any():
            raise RangeError(f"input {k}: expected numbers, got nan at index {first_index(np.isnan(x))}")
    outputs = _values(name, f, inputs)
    return _Tested(name, f, inputs, outputs, tuple(np.asarray(np.isfinite(out)) for out in outputs))


def _random(seed: int, nonzero: bool) -> np.random.Generator:
    """Return a generator, and refuse a flag that is none."""
    boolean("nonzero", nonzero)
    return np.random.default_rng(integer("seed", seed, least=0))


def _values(name: str, f: Callable, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Return the outputs of f as float64 arrays, refusing a NaN."""
    outputs = several(name, call_on_copies(name, f, labelled("input", inputs)), "output of the function")
    if any(np.isnan(out).any() for out in outputs):
        raise AssertionError(f"{name}: the function itself returned a NaN")
    return outputs


def _alone(arrays: Sequence[np.ndarray], k: int) -> list[np.ndarray]:
    """Return the arrays with all but one of them at 0."""
    return [x if m == k else np.zeros_like(x) for m, x in enumerate(arrays)]


def _one_by_one(name: str, cotangents: Sequence[np.ndarray]) -> Iterator[tuple[str, list[np.ndarray]]]:
    """Yield the cotangents with all but one at 0, named by their output, where there are several."""
    for k in range(len(cotangents) if len(cotangents) > 1 else 0):
        yield f"{name}, output {k}", _alone(cotangents, k)


def _pairing(cotangents: Sequence[np.ndarray], values: Sequence[np.ndarray]) -> float:
    """Return the sum of the products of cotangents and values, over all outputs."""
    return sum(float((u * y).sum()) for u, y in zip(cotangents, values, strict=True))


def _compare_pairing(
    tested: _Tested,
    label: str,
    vjp: Callable,
    cotangents: Sequence[np.ndarray],
    directions: Sequence[np.ndarray],
    changes: Sequence[Sequence[np.ndarray]],
) -> np.ndarray:
    """Compare vjp with the changes along each input; return the derivative and the bound of each input."""
    arguments = [*labelled("input", tested.inputs), *labelled("cotangent", cotangents)]
    claimed = several(label, call_on_copies(label, vjp, arguments), "input")
    check_results(label, claimed, tested.inputs, "input")
    outputs = [np.where(finite, out, 0.0) for out, finite in zip(tested.outputs, tested.finite, strict=True)]
    loss, found = _pairing(cotangents, outputs), []
    for k, (result, t) in enumerate(zip(claimed, directions, strict=True)):
        numeric = _pairing(cotangents, changes[k])
        bound = RTOL * max(abs(numeric), abs(loss))
        check_number(f"{label}, input {k}", float((result * t).sum()), numeric, bound)
        found.append((abs(numeric), bound))
    return np.array(found)


def _output(tested: _Tested, k: int, at: Any) -> str:
    """Return the name by which an error calls an entry of an output."""
    if len(tested.outputs) > 1:
        return f"{tested.name}, output {k} {at}".rstrip()
    return f"{tested.name}, output {at}" if at != "" else tested.name


def _compare_entries(
    tested: _Tested, claimed: Sequence[np.ndarray], numeric: Sequence[np.ndarray]
) -> np.ndarray:
    """Compare tangents entry by entry; return the largest derivative and the bound of each output."""
    found = []
    for k, (got, want) in enumerate(zip(claimed, numeric, strict=True)):
        size = float(np.abs(want).max(initial=0.0))
        bound = RTOL * max(size, float(np.abs(tested.outputs[k][tested.finite[k]]).max(initial=0.0)))
        for at in np.ndindex(want.shape):
            check_number(_output(tested, k, at), float(got[at]), float(want[at]), bound)
        found.append((size, bound))
    return np.array(found)
