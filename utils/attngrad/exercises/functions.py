"""A function as an answer: right on random instances, or where it fails first, and which mistake it is."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from attngrad.checks.compare import as_numpy, certified_error
from attngrad.exercises.outcome import Judgement, judgement, told_of_mistake
from attngrad.exercises.record import Exercise
from attngrad.notation import first_index

Results = tuple[np.ndarray, ...]


class NotAResult(Exception):
    """What a function did or returned is no result; the text says what it is."""


@dataclass(frozen=True)
class _Wanted:
    """The arguments of one instance, its right results, and how far each entry may be off."""

    arguments: tuple
    results: Results
    bounds: Results


def judge(exercise: Exercise, function: Callable[..., Any], seed: int) -> Judgement:
    """Return the verdict on a function."""
    wanted = [_wanted(exercise, arguments) for arguments in exercise.arguments(seed)]
    outcomes = [_outcome(exercise, function, one) for one in wanted]
    for sizes, one, outcome in zip(exercise.instances, wanted, outcomes, strict=True):
        complaint = outcome if isinstance(outcome, str) else _difference(exercise, one, outcome)
        if complaint:
            where = ", ".join(f"{name} = {size}" for name, size in sizes.items())
            notes = [f"known mistake: {told}" for told in _agreeing(exercise, wanted, outcomes)][:1]
            return judgement(False, exercise.name, "WRONG", f"at {where}: {complaint}", tuple(notes))
    for one in wanted:
        try:
            exercise.second(function, one.arguments)
        except AssertionError as error:
            told = f"it agrees with the library, and a check that does not know the library says: {error}"
            return judgement(False, exercise.name, "UNDECIDED", told)
    return judgement(True, exercise.name, "RIGHT", f"on {len(wanted)} random instances")


def _wanted(exercise: Exercise, arguments: tuple) -> _Wanted:
    """Return what an instance asks for."""
    results, terms = (_as_tuple(exercise, f(*_copies(arguments))) for f in (exercise.right, exercise.terms))
    bounds = tuple(certified_error(x, "float64", t) for x, t in zip(results, terms, strict=True))
    return _Wanted(arguments, tuple(map(as_numpy, results)), bounds)


def _as_tuple(exercise: Exercise, results: Any) -> tuple:
    return tuple(results) if exercise.results else (results,)


def _copies(arguments: tuple) -> tuple:
    return tuple(x.copy() if isinstance(x, np.ndarray) else x for x in arguments)


def _outcome(exercise: Exercise, function: Callable[..., Any], wanted: _Wanted) -> Results | str:
    """Return the results of a function on copies of the arguments, or why there are none."""
    given = _copies(wanted.arguments)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            returned = function(*given)
    except Exception as error:
        return f"it raises {type(error).__name__}: {' '.join(str(error).split()) or 'no message'}"
    try:
        results = _checked(exercise, returned, wanted.results)
    except NotAResult as reason:
        return str(reason)
    for k, (mine, theirs) in enumerate(zip(wanted.arguments, given, strict=True)):
        if isinstance(mine, np.ndarray) and (
            mine.shape != theirs.shape or mine.tobytes() != theirs.tobytes()
        ):
            return f"it changes its argument {k + 1} of {exercise.signature}, which it must leave as it is"
    return results


def _checked(exercise: Exercise, returned: Any, like: Sequence[np.ndarray]) -> Results:
    """Return what a function returned as float64 arrays of the right number and shapes.

    Raises: NotAResult that says what came instead.
    """
    if not exercise.results:
        return (_array("it", returned, like[0]),)
    names = ", ".join(exercise.results)
    if not isinstance(returned, tuple | list) or len(returned) != len(like):
        count = f"{len(returned)} results" if isinstance(returned, tuple | list) else type(returned).__name__
        raise NotAResult(f"it returns {count}, expected {names}")
    return tuple(
        _array(f"{name}: it", x, y) for name, x, y in zip(exercise.results, returned, like, strict=True)
    )


def _array(told: str, x: Any, like: np.ndarray) -> np.ndarray:
    """Return one result as a float64 array, refusing another kind of value, type or shape."""
    if x is None:
        raise NotAResult(f"{told} returns None, expected an array of shape {like.shape}")
    if not isinstance(x, np.ndarray | np.floating) and not hasattr(x, "detach"):
        raise NotAResult(f"{told} returns {type(x).__name__}, expected an array of shape {like.shape}")
    if "float64" not in str(x.dtype):
        raise NotAResult(f"{told} returns numbers of type {x.dtype}, expected float64")
    if tuple(x.shape) != like.shape:
        raise NotAResult(f"{told} returns shape {tuple(x.shape)}, expected {like.shape}")
    return as_numpy(x).copy()


def _difference(exercise: Exercise, wanted: _Wanted, results: Results) -> str:
    """Return the first entry that is off by more than its bound, in words; nothing when there is none."""
    names = exercise.results or ("",)
    for name, got, want, bound in zip(names, results, wanted.results, wanted.bounds, strict=True):
        wrong = _off(got, want, bound)
        if wrong.any():
            at = first_index(wrong)
            where = " ".join(filter(None, (name, f"at index {at}" if at else "")))
            return f"{where}: {_apart(got[at], want[at], bound[at])}".removeprefix(": ")
    return ""


def _off(got: np.ndarray, want: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """Return where a value is not the wanted one; a NaN is only what a NaN is."""
    with np.errstate(invalid="ignore"):
        near = np.abs(got - want) <= bound
    return ~np.asarray(near | (got == want) | (np.isnan(got) & np.isnan(want)))


def _shown(value: float, bound: float) -> str:
    """Return a value to four digits; what is within the bound of 0 is 0, so that all machines print alike."""
    return "0" if abs(value) <= bound else f"{value:.4g}"


def _apart(got: float, want: float, bound: float) -> str:
    """Return two values in words, and how far they are apart where four digits do not tell."""
    yours, right = _shown(got, bound), _shown(want, bound)
    gap = f"; they differ by about {abs(got - want):.0e}" if yours == right else ""
    return f"your value is {yours}, the right one {right}{gap}"


def _agreeing(
    exercise: Exercise, wanted: Sequence[_Wanted], outcomes: Sequence[Results | str]
) -> Iterator[str]:
    """Yield what is known of each mistake that gives these results on every instance."""
    for name, function in exercise.mistakes.items():
        theirs = [_outcome(exercise, function, one) for one in wanted]
        pairs = zip(outcomes, theirs, wanted, strict=True)
        if all(_agree(mine, other, one) for mine, other, one in pairs):
            yield told_of_mistake(name)


def _agree(mine: Results | str, other: Results | str, wanted: _Wanted) -> bool:
    """Say whether two outcomes are results that agree in every entry, within the bound."""
    if isinstance(mine, str) or isinstance(other, str):
        return False
    return not any(_off(a, b, bound).any() for a, b, bound in zip(mine, other, wanted.bounds, strict=True))
