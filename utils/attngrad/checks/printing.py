"""Printing what was compared, to digits that are the same on every machine."""

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from typing import Any

import numpy as np

from attngrad.checks.arguments import check_exceptions, check_functions, check_text
from attngrad.checks.compare import as_numpy, certified_error, check_close, real_array
from attngrad.checks.tolerances import TOLERANCES
from attngrad.notation import RangeError, check_broadcasts, finite_number, first_index, integer


def _exponent(scale: float) -> int:
    """Return the power of ten of a scale, refusing one so close to the next that machines could differ.

    A scale just below a power of ten counts as that power: 0.9999999999999999 is printed as 1.0 is.
    """
    if scale == 0.0:
        return 0
    log = math.log10(scale) + 1e-9
    # 1e-12 of the scale, the error that is certified, moves its logarithm by less than this.
    low, high = math.floor(log - 5e-13), math.floor(log + 5e-13)
    if low != high:
        raise RangeError(f"scale: {scale!r} lies where machines would count its digits apart; give terms=")
    return low


def _rounded(entry: float, error: float, power: int, decimals: int, digits: int) -> str:
    """Return an entry, in units of 10^power, rounded to some decimals; refuse one near a rounding tie."""
    if not math.isfinite(entry):
        return str(entry)
    # Decimals hold a float exactly, so that nothing overflows and nothing is rounded twice.
    with localcontext(prec=1100):
        units = Decimal(entry).scaleb(decimals - power)
        window = Decimal(max(error, 1e-15 * abs(entry))).scaleb(decimals - power)
        if abs(abs(units) % 1 - Decimal("0.5")) <= window:
            raise RangeError(
                f"digits: a value lies halfway between two numbers of {digits} digits, "
                "where machines round apart; choose another number of digits"
            )
        text = units.quantize(Decimal(1)).scaleb(-decimals)
    return f"{abs(text) if text == 0 else text:.{decimals}f}"


def _norm(x: np.ndarray, error: np.ndarray) -> tuple[float, float]:
    """Return the root of the sum of squares, and its error where each entry has a given one."""
    largest = float(np.abs(x).max())
    if largest == 0.0 or not math.isfinite(largest):
        return largest, 0.0
    with np.errstate(over="ignore"):
        # Dividing first keeps the squares in range.
        norm = float(largest * np.sqrt(np.square(x / largest).sum()))
        moved = float(largest * np.sqrt(np.square(error / largest).sum()))
    if not math.isfinite(norm):
        raise RangeError("norm: the root of the sum of squares is beyond the range of floats")
    return norm, moved + x.size * 2.0**-53 * norm


def format_value(value: Any, digits: int, scale: float | None = None, error: Any = None) -> str:
    """Return a value to that many digits of ``scale`` (default: its largest entry), equal on every machine.

    ``error`` is what each entry may be off (default: 1e-12 of it); it decides how near a rounding tie an
    entry may lie. More than sixteen entries are summed up by their shape and the root of the sum of their
    squares.

    Raises: RangeError where an entry lies so near halfway between two numbers that could be printed that
    its error reaches over it, or a norm beyond the range of floats; DtypeError unless digits is an integer.

    >>> format_value(np.array([0.25, -1 / 3]), 4)
    '[0.2500, -0.3333]'
    """
    digits, x = integer("digits", digits, least=1), as_numpy(value)
    if x.dtype.kind in "biu":
        return np.array2string(x, separator=", ", threshold=16)
    x = real_array("value", x)
    if error is None:
        error = 1e-12 * np.where(np.isfinite(x), np.abs(x), 0.0)
    errors = _broadcast_errors(error, x.shape)
    if scale is not None and not (scale := finite_number("scale", scale)) >= 0.0:
        raise RangeError(f"scale: expected a number of at least 0, got {scale}")
    if x.size > 16:
        norm, off = _norm(x, errors)
        over = min(scale * math.sqrt(x.size), np.finfo(float).max) if scale else scale
        return f"shape {x.shape}, norm {format_value(norm, digits, over, off)}"
    largest = float(np.abs(x[np.isfinite(x)]).max(initial=0.0))
    exponent = _exponent(largest if scale is None else scale)
    power = exponent if not -4 <= exponent < 7 else 0
    decimals = max(0, digits - 1 - exponent + power)
    texts = np.empty(x.shape, dtype=object)
    for at in np.ndindex(x.shape):
        texts[at] = _rounded(float(x[at]), float(errors[at]), power, decimals, digits)
    text = np.array2string(texts, separator=", ", formatter={"all": str})
    return f"{text} x 1e{power:+03d}" if power else text


def _broadcast_errors(error: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return what each entry may be off; refuse another shape, and what is negative or not finite."""
    errors = real_array("error", error)
    check_broadcasts("error", errors.shape, shape)
    wrong = np.asarray(~(np.isfinite(errors) & (errors >= 0.0)))
    if wrong.any():
        at = first_index(wrong)
        raise RangeError(f"error: expected finite numbers of at least 0, got {errors[at]} at index {at}")
    return np.broadcast_to(errors, shape)


def report(
    name: str, got: Any, want: Any, kind: str = "float64", *, terms: Any = None, digits: int | None = None
) -> None:
    """Assert that two values agree, then print the value and the bound within which they agree.

    The value is printed to the digits that the rule certifies, or to fewer where ``digits`` says so.

    Whoever prints it prints the same text: a value whose certified error reaches over a rounding tie is
    refused.

    Raises: as `check_close` and `format_value`; RangeError for more digits than are certified.

    >>> report("p", np.array([0.25, 0.75]), np.array([0.25, 0.75]), digits=4)
    p: [0.2500, 0.7500]  (within 1e-12)
    """
    check_close(name, got, want, kind, terms)
    rule = TOLERANCES[kind]
    certified = rule.digits or 10
    digits = certified if digits is None else integer("digits", digits)
    if not 1 <= digits <= certified:
        raise RangeError(f"digits: expected 1 to {certified} for kind {kind!r}, got {digits}")
    sizes = [np.abs(x[np.isfinite(x)]) for x in map(as_numpy, (want, 0.0 if terms is None else terms))]
    scale = max(float(size.max(initial=0.0)) for size in sizes)
    text = format_value(got, digits, scale, certified_error(want, kind, terms))
    gap = "\n" if "\n" in text else " "
    print(f"{name}:{gap}{text}  ({rule.bound})")


def expect_error(
    error: type[Exception] | tuple[type[Exception], ...],
    function: Callable,
    *args: Any,
    match: str = "",
    **kwargs: Any,
) -> None:
    """Call a function that must raise ``error`` with ``match`` in its message, and print it in one line.

    ``error`` may be a tuple of errors, any of which will do.

    Raises: AssertionError where nothing, another error or another message comes.

    >>> expect_error(ZeroDivisionError, lambda: 1 // 0, match="by zero")
    ZeroDivisionError: integer division or modulo by zero
    """
    check_exceptions("error", error)
    check_functions(function=function)
    check_text("match", match)
    wanted = " or ".join(one.__name__ for one in (error if isinstance(error, tuple) else (error,)))
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
        raise AssertionError(f"expected {wanted}, got {got}") from raised
    raise AssertionError(f"expected {wanted}, but {type(result).__name__} was returned")
