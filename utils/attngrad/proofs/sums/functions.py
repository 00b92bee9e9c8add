"""Canonical exponentials, logarithms, absolute values, opaque functions and deltas of polynomials."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING

from sympy import Max, Min

from .powers import content, divided, is_whole, power, primes, split
from .terms import (
    UNIT,
    Atom,
    CannotDecide,
    Number,
    Poly,
    Term,
    constant,
    monomial,
    number,
    product,
    scaled,
    sign_of,
    single,
    value_of,
)

if TYPE_CHECKING:
    from .algebra import Algebra


def exponential(algebra: Algebra, poly: Poly) -> list[Term]:
    """Return exp of a polynomial as one factor for each of its terms; exp(log(x)) is x."""
    terms = [Term(1, {}, {})]
    for key, value in poly:
        bound, factors = key
        if not bound and len(factors) == 1 and factors[0][0][0] == "l" and factors[0][1] == 1:
            terms = product(terms, power(algebra, factors[0][0][1], value))
        else:
            terms = product(terms, single(("e", key), value))
    return terms


def logarithm(algebra: Algebra, poly: Poly) -> list[Term]:
    """Return log of a polynomial; it splits over positive factors, and log(exp(x)) is x."""
    if not poly:
        raise CannotDecide("the logarithm of 0")
    value, atoms, parts = split(algebra, poly)
    out: list[Term] = []
    unknown: list[tuple[Atom, Number]] = []
    for atom, e in atoms.items():
        if atom[0] == "e":
            out += [Term(t.coefficient * e, t.bound, t.factors) for t in algebra.thaw(((atom[1], 1),))]
        elif algebra.positive(atom):
            inside = atom[1] if atom[0] in "pr" else constant(atom[1]) if atom[0] == "n" else monomial(atom)
            out += single(("l", inside), 1, e)
        else:
            unknown.append((atom, e))
    doubtful = [p for p in parts if not algebra.positive_poly(p)]
    for part in parts:
        if part not in doubtful:
            out += single(("l", part))
    odd = all(is_whole(e) and e % 2 for _, e in unknown)
    if len(unknown) + len(doubtful) == 1 and value > 0 and odd:
        inside = doubtful[0] if doubtful else monomial(unknown[0][0])
        out += single(("l", inside), 1, 1 if doubtful else unknown[0][1])
        unknown, doubtful = [], []
    if unknown or doubtful or value < 0:
        sign = 1 if value > 0 else -1
        rest = product([Term(sign, {}, dict(unknown))], *map(algebra.thaw, doubtful))
        out += single(("l", algebra.freeze(rest)))
    return out + _log_number(abs(value))


def _log_number(value: Number) -> list[Term]:
    value = Fraction(value)
    terms: list[Term] = []
    for part, sign in ((value.numerator, 1), (value.denominator, -1)):
        for prime, count in primes(part):
            terms += single(("l", constant(prime)), 1, sign * count)
    return terms


def absolute(algebra: Algebra, poly: Poly) -> list[Term]:
    """Return the absolute value of a polynomial, split over products."""
    if algebra.spans.nonnegative(poly):
        return algebra.thaw(poly)
    if algebra.spans.nonnegative(scaled(poly, -1)):
        return algebra.thaw(scaled(poly, -1))
    value, atoms, parts = split(algebra, poly)
    factors: dict[Atom, Number] = {}
    for atom, e in atoms.items():
        if algebra.positive(atom) or atom[0] in "da" or not is_whole(e):
            factors[atom] = factors.get(atom, 0) + e
            continue
        inside = atom[1] if atom[0] == "p" else monomial(atom)
        inside = scaled(inside, sign_of(inside))
        factors["a", inside] = factors.get(("a", inside), 0) + e
    terms = [Term(abs(value), {}, factors)]
    for part in parts:
        if algebra.positive_poly(part):
            terms = product(terms, algebra.thaw(part))
        else:
            terms = product(terms, single(("a", scaled(part, sign_of(part)))))
    return terms


def function(algebra: Algebra, key: str, args: Iterable[Poly]) -> list[Term]:
    """Return an opaque function of polynomials; the order of the arguments of Max and Min says nothing."""
    symmetric = algebra.objects[key] in (Max, Min)
    return single(("F", key, tuple(sorted(args) if symmetric else args)))


def delta(algebra: Algebra, poly: Poly) -> list[Term]:
    """Return the delta that is 1 where a polynomial is 0; ranges or divisors may decide it."""
    fixed = value_of(poly)
    if fixed is not None:
        return number(0 if fixed else 1)
    if any(bound for (bound, _), _ in poly):
        raise CannotDecide("a sum stands inside a Kronecker delta")
    poly = divided(poly, content(poly))
    rest = tuple((k, v) for k, v in poly if k != UNIT)
    offset = dict(poly).get(UNIT, 0)
    step = content(rest)
    if algebra.spans.whole(rest) and not is_whole(Fraction(offset) / step):
        return []
    if algebra.spans.outside(poly, ((), ())):
        return []
    return single(("d", scaled(poly, sign_of(poly))))
