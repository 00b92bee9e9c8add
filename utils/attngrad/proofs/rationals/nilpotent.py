"""Exact numbers for derivatives: rational polynomials in eps_0, eps_1, ... with eps**2 = 0.

The coefficient of eps_0 in f(x + eps_0) is the derivative of f; that of eps_0 eps_1 in f(x + eps_0 + eps_1)
the second derivative. Plain integers and fractions are used where there is no eps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import reduce
from math import factorial
from operator import or_

Rational = int | Fraction


class ZeroDenominator(ArithmeticError):
    """A quotient whose denominator is 0 for the numbers drawn: another seed may do."""


class Nilpotent:
    """A number a + sum of b_mask * (product of the eps whose bits are in mask)."""

    __slots__ = ("parts",)

    def __init__(self, parts: Mapping[int, Rational]):
        self.parts = parts

    def __add__(self, other: Number) -> Number:
        parts = dict(self.parts)
        for mask, value in parts_of(other).items():
            parts[mask] = parts.get(mask, 0) + value
        return Nilpotent(parts)

    def __mul__(self, other: Number) -> Number:
        parts: dict[int, Rational] = {}
        for one, a in self.parts.items():
            for two, b in parts_of(other).items():
                if not one & two:
                    parts[one | two] = parts.get(one | two, 0) + a * b
        return Nilpotent(parts)

    __radd__ = __add__
    __rmul__ = __mul__


Number = Rational | Nilpotent


def parts_of(number: Number) -> Mapping[int, Rational]:
    """Return the coefficients of a number by mask."""
    return number.parts if isinstance(number, Nilpotent) else {0: number}


def real(number: Number) -> Rational:
    """Return the part of a number that holds no eps."""
    return number.parts.get(0, 0) if isinstance(number, Nilpotent) else number


def is_plain(number: Number) -> bool:
    """Say whether a number holds no eps."""
    return not isinstance(number, Nilpotent) or not any(v for m, v in number.parts.items() if m)


def small(number: Number) -> Nilpotent:
    """Return the part of a number that holds eps."""
    return Nilpotent({m: v for m, v in parts_of(number).items() if m and v})


def part(number: Number, bit: int) -> Number:
    """Return the coefficient of one eps, itself a number in the others."""
    return Nilpotent({m ^ bit: v for m, v in parts_of(number).items() if m & bit})


def taylor(number: Number, derivative: Callable[[int], Rational]) -> Number:
    """Return f(a + h) = sum over k of f^(k)(a) h**k / k!, k up to the number of eps in h."""
    if is_plain(number):
        return derivative(0)
    step, total = small(number), Nilpotent({0: derivative(0)})
    rising: Number = 1
    for k in range(1, reduce(or_, step.parts).bit_count() + 1):
        rising = rising * step
        total = total + rising * (Fraction(derivative(k)) / factorial(k))
    return total


def integer_power(number: Number, exponent: int) -> Number:
    """Return a power with an integer exponent.

    Raises: ZeroDenominator for a negative power of a number whose plain part is 0.
    """
    if exponent >= 0:
        result: Number = 1
        for _ in range(exponent):
            result = result * number
        return result
    base = real(number)
    if not base:
        raise ZeroDenominator("a denominator is 0")
    inverse = taylor(number, lambda k: (-1) ** k * factorial(k) / Fraction(base) ** (k + 1))
    return integer_power(inverse, -exponent)
