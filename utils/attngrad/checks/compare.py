"""Comparing values by a row of the table, and printing what was compared."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from attngrad.checks.tolerances import TOLERANCES
from attngrad.notation import DtypeError, RangeError, first_index


def as_numpy(x: Any) -> np.ndarray:
    """Return an array, a number or a torch tensor as a NumPy array; floats become float64."""
    if hasattr(x, "detach"):
        x = x.detach().cpu()
        # NumPy has no bfloat16.
        x = x.double() if x.is_floating_point() else x
    x = np.asarray(x)
    return x.astype(np.float64) if x.dtype.kind == "f" else x


def _floats(name: str, x: Any) -> np.ndarray:
    """Return a value to compare as float64; refuse what is not numeric."""
    x = as_numpy(x)
    if x.dtype.kind not in "fiu":
        raise DtypeError(f"{name}: expected numbers, got {x.dtype}")
    return x.astype(np.float64)


def check_close(name: str, got: Any, want: Any, kind: str = "float64", terms: Any = None) -> None:
    """Require that two values agree by a row of the table.

    Formula: |got - want| <= rtol |want| + atol terms, entry by entry, where ``terms`` is the sum of the
    absolute terms of which each entry is made (default: the largest |want|). Infinities must be equal.

    Raises: AssertionError that names the worst entry; RangeError for a kind that has no such rule.

    >>> check_close("row sum", 0.1 + 0.2, 0.3)
    """
    if kind == "equal":
        return _check_equal(name, as_numpy(got), as_numpy(want))
    rule = TOLERANCES.get(kind)
    if rule is None or rule.rtol == 0.0:
        usable = [key for key, row in TOLERANCES.items() if row.rtol > 0.0]
        raise RangeError(f"kind: expected 'equal' or one of {usable}, got {kind!r}")
    got, want = _floats(name, got), _floats(name, want)
    _check_shapes(name, got, want)
    finite = np.isfinite(want)
    same = np.where(finite, np.isfinite(got), got == want)
    if not same.all():
        at = first_index(~same)
        raise AssertionError(f"{name}: got {got[at]}, want {want[at]} at index {at}")
    got, want = np.where(finite, got, 0.0), np.where(finite, want, 0.0)
    scale = np.abs(want).max(initial=0.0)
    terms = scale if terms is None else _floats("terms", terms)
    bound = rule.rtol * np.abs(want) + max(rule.atol, 0.0) * terms
    if kind == "difference":
        bound = rule.rtol * np.maximum(scale, terms)
    _check_within(name, np.asarray(np.abs(got - want)), np.broadcast_to(bound, want.shape), got, want)


def _check_shapes(name: str, got: np.ndarray, want: np.ndarray) -> None:
    """Require equal shapes, with nothing broadcast."""
    if got.shape != want.shape:
        raise AssertionError(f"{name}: got shape {got.shape}, want shape {want.shape}")


def _check_equal(name: str, got: np.ndarray, want: np.ndarray) -> None:
    """Require equal shapes and entries; a NaN equals nothing."""
    _check_shapes(name, got, want)
    if not (got == want).all():
        at = first_index(got != want)
        raise AssertionError(f"{name}: got {got[at]}, want {want[at]} at index {at}; they must be equal")


def _check_within(name: str, error: np.ndarray, bound: np.ndarray, got: np.ndarray, want: np.ndarray) -> None:
    """Require every error to be within its bound; name the entry that exceeds it most."""
    excess = np.asarray(error - bound)
    if excess.size and not excess.max() <= 0.0:
        at = np.unravel_index(int(np.argmax(excess)), excess.shape)
        where = f" at index {tuple(int(k) for k in at)}" if at else ""
        raise AssertionError(
            f"{name}: got {got[at]:.6g}, want {want[at]:.6g}{where}; "
            f"error {error[at]:.2e} exceeds {bound[at]:.2e}"
        )


def check_not_vacuous(name: str, size: float, bound: float, margin: float = 100.0) -> None:
    """Refuse a comparison in which a zero in place of the result would have passed.

    Raises: AssertionError unless ``size`` exceeds ``margin`` times ``bound``.
    """
    if not size > margin * bound:
        raise AssertionError(
            f"{name}: the result is so small that zero would pass within {bound:.1e}; "
            "use a random cotangent, or say nonzero=False if zero is meant"
        )


def _significant(x: np.ndarray, scale: float, digits: int) -> tuple[int, int]:
    """Return the power of ten to print apart, and the decimals that show so many digits of ``scale``."""
    # The small term keeps 0.9999999999999999 and 1.0 at the same number of decimals.
    exponent = math.floor(math.log10(scale) + 1e-9) if scale > 0.0 else 0
    power = exponent if not -4 <= exponent < 7 else 0
    decimals = max(0, digits - 1 - exponent + power)
    units = np.abs(x[np.isfinite(x)]) / 10.0**power * 10.0**decimals
    if (np.abs(units - np.floor(units) - 0.5) < 1e-6).any():
        raise RangeError(
            f"digits: a value lies halfway between two numbers of {digits} digits, "
            "where machines round apart; choose another number of digits"
        )
    return power, decimals


def format_value(value: Any, digits: int, scale: float | None = None) -> str:
    """Return a value to that many digits of ``scale`` (default: its largest entry), equal on every machine.

    More than sixteen entries are summed up by their shape and the root of the sum of their squares.

    Raises: RangeError where a value lies halfway between two numbers that could be printed.

    >>> format_value(np.array([0.25, -1 / 3]), 4)
    '[0.2500, -0.3333]'
    """
    x = as_numpy(value)
    if x.dtype.kind in "biu":
        return np.array2string(x, separator=", ", threshold=16)
    if x.size > 16:
        norm = np.sqrt(np.square(x).sum())
        return f"shape {x.shape}, norm {format_value(norm, digits, scale and scale * math.sqrt(x.size))}"
    largest = float(np.abs(x[np.isfinite(x)]).max(initial=0.0))
    power, decimals = _significant(x, largest if scale is None else scale, digits)

    def one(entry: float) -> str:
        return f"{round(entry / 10.0**power, decimals) + 0.0:.{decimals}f}"

    text = np.array2string(x, separator=", ", formatter={"float_kind": one})
    return f"{text} x 1e{power:+03d}" if power else text


def report(
    name: str, got: Any, want: Any, kind: str = "float64", *, terms: Any = None, digits: int | None = None
) -> None:
    """Assert that two values agree, then print the value and the bound within which they agree.

    The value is printed to the digits that the rule certifies, or to fewer where ``digits`` says so.

    Raises: as `check_close`; RangeError for more digits than are certified.

    >>> report("p", np.array([0.25, 0.75]), np.array([0.25, 0.75]), digits=4)
    p: [0.2500, 0.7500]  (within 1e-12)
    """
    check_close(name, got, want, kind, terms)
    rule = TOLERANCES[kind]
    certified = rule.digits or 10
    digits = certified if digits is None else digits
    if not 1 <= digits <= certified:
        raise RangeError(f"digits: expected 1 to {certified} for kind {kind!r}, got {digits}")
    sizes = [np.abs(x[np.isfinite(x)]) for x in map(as_numpy, (want, 0.0 if terms is None else terms))]
    scale = max(float(size.max(initial=0.0)) for size in sizes)
    text = format_value(got, digits, scale)
    gap = "\n" if "\n" in text else " "
    print(f"{name}:{gap}{text}  ({rule.bound})")


def expect_error(
    error: type[Exception], function: Callable, *args: Any, match: str = "", **kwargs: Any
) -> None:
    """Call a function that must raise ``error`` with ``match`` in its message, and print it in one line.

    Raises: AssertionError where nothing, another error or another message comes.

    >>> expect_error(ZeroDivisionError, lambda: 1 // 0, match="by zero")
    ZeroDivisionError: integer division or modulo by zero
    """
    try:
        result = function(*args, **kwargs)
    except error as raised:
        message = " ".join(str(raised).split())
        if match not in message:
            raise AssertionError(f"expected {match!r} in the message, got: {message}") from raised
        print(f"{type(raised).__name__}: {message}")
        return
    except Exception as raised:
        got = f"{type(raised).__name__}: {raised}"
        raise AssertionError(f"expected {error.__name__}, got {got}") from raised
    raise AssertionError(f"expected {error.__name__}, but {type(result).__name__} was returned")
