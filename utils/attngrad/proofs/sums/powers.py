"""Canonical rational powers of polynomials.

All symbols stand for real numbers and every denominator is assumed not to be 0. A power is split only
where that is valid: integer exponents over any product, other exponents over positive factors.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import floor, gcd
from typing import TYPE_CHECKING

from .terms import (
    ONE,
    Atom,
    CannotDecide,
    Number,
    Poly,
    Term,
    letters,
    product,
    scaled,
    sign_of,
    single,
)

if TYPE_CHECKING:
    from .algebra import Algebra


def is_whole(value: Number) -> bool:
    """Say whether a number is an integer."""
    return value == floor(value)


def content(poly: Poly) -> Number:
    """Return the largest positive rational that divides every coefficient into an integer."""
    top, bottom = 0, 1
    for _, value in poly:
        value = Fraction(value)
        top = gcd(top, value.numerator)
        bottom = bottom * value.denominator // gcd(bottom, value.denominator)
    return Fraction(top, bottom) if bottom > 1 else top


def divided(poly: Poly, value: Number) -> Poly:
    """Return ``poly / value`` with integers kept as integers."""
    if value in (1, -1):
        return scaled(poly, value)
    quotients = [(key, Fraction(c) / value) for key, c in poly]
    return tuple((key, int(q) if q.denominator == 1 else q) for key, q in quotients)


def split(algebra: Algebra, poly: Poly) -> tuple[Number, dict[Atom, Number], list[Poly]]:
    """Write a non-zero polynomial as number * powers of atoms * parts that have no common factor."""
    if len(poly) == 1:
        (bound, factors), value = poly[0]
        if not bound:
            return value, dict(factors), []
        return _components(algebra, Term(value, {b: (low, high) for b, low, high in bound}, dict(factors)))
    value = content(poly)
    poly = divided(poly, value)
    common = _common(poly)
    if common:
        inverse = Term(1, {}, {atom: -e for atom, e in common.items()})
        rest = algebra.freeze(product(algebra.thaw(poly), [inverse]))
        if not rest:
            raise CannotDecide("a polynomial vanishes once a common factor is taken out")
        more, atoms, parts = split(algebra, rest)
        for atom, exponent in atoms.items():
            common[atom] = common.get(atom, 0) + exponent
        return value * more, {a: e for a, e in common.items() if e}, parts
    return value, {}, [poly]


def _common(poly: Poly) -> dict[Atom, Number]:
    """Return the atoms, with exponents, that divide every term and are free of its bound letters."""
    shared: dict[Atom, Number] | None = None
    for (bound, factors), _ in poly:
        inner = {b for b, _low, _high in bound}
        here = {a: e for a, e in factors if a[0] != "d" and not inner & letters(a)}
        if shared is None:
            shared = here
            continue
        both = {a: min(shared.get(a, 0), here.get(a, 0)) for a in {*shared, *here}}
        shared = {a: e for a, e in both.items() if e}
        if not shared:
            return {}
    return shared or {}


def grouped(term: Term) -> Iterator[tuple[set[Atom], dict[Atom, Number]]]:
    """Yield the groups of bound letters that factors connect, with those factors; first the loose factors."""
    groups: list[tuple[set[Atom], dict[Atom, Number]]] = [({letter}, {}) for letter in term.bound]
    loose: dict[Atom, Number] = {}
    for atom, exponent in term.factors.items():
        touched = [g for g in groups if g[0] & letters(atom)]
        if not touched:
            loose[atom] = exponent
            continue
        first = touched[0]
        first[1][atom] = exponent
        for other in touched[1:]:
            first[0].update(other[0])
            first[1].update(other[1])
            groups.remove(other)
    yield set(), loose
    yield from groups


def _components(algebra: Algebra, term: Term) -> tuple[Number, dict[Atom, Number], list[Poly]]:
    """Write one term as its loose factors times sums that share no bound letter."""
    groups = grouped(term)
    _, loose = next(groups)
    value, parts = term.coefficient, []
    for inner, factors in groups:
        bound = {b: term.bound[b] for b in term.bound if b in inner}
        key, sign = algebra.name(Term(1, bound, factors))
        value *= sign
        parts.append(((key, 1),))
    return value, loose, parts


def power(algebra: Algebra, base: Poly, exponent: Number) -> list[Term]:
    """Return a power of a polynomial with a rational exponent.

    Raises: CannotDecide for a power of 0 or of a delta that has no value.
    """
    if exponent == 1:
        return algebra.thaw(base)
    if not base:
        if exponent > 0:
            return []
        raise CannotDecide("a denominator is 0 for every value of the variables")
    if not is_whole(exponent):
        return _root(algebra, base, exponent)
    if exponent >= 0:
        return product(*[algebra.thaw(base) for _ in range(int(exponent))])
    value, atoms, parts = split(algebra, base)
    factors: dict[Atom, Number] = {}
    if any(atom[0] == "d" for atom in atoms):
        raise CannotDecide("a Kronecker delta stands in a denominator, where it may be 0")
    for atom, e in atoms.items():
        factors[atom] = e * exponent
    for part in parts:
        sign = sign_of(part)
        value *= sign
        atom = ("p", scaled(part, sign))
        factors[atom] = factors.get(atom, 0) + exponent
    return [Term(_number_power(value, exponent), {}, factors)]


def _number_power(value: Number, exponent: Number) -> Number:
    result = Fraction(value) ** int(exponent)
    return int(result) if result.denominator == 1 else result


def _root(algebra: Algebra, base: Poly, exponent: Number) -> list[Term]:
    """Return a power that is not an integer; only positive factors leave the base."""
    value, atoms, parts = split(algebra, base)
    out: dict[Atom, Number] = {}
    kept = [Term(1 if value > 0 else -1, {}, {})]
    for atom, e in atoms.items():
        if algebra.positive(atom):
            atom = ("r", atom[1]) if atom[0] == "p" else atom
            out[atom] = out.get(atom, 0) + e * exponent
        else:
            kept = product(kept, single(atom, e))
    for part in parts:
        if algebra.positive_poly(part):
            atom = ("r", part)
            out[atom] = out.get(atom, 0) + exponent
        else:
            kept = product(kept, algebra.thaw(part))
    rest = algebra.freeze(kept)
    atom = _bare(rest)
    if atom is not None:
        out[atom] = out.get(atom, 0) + exponent
    elif rest != ONE:
        out["r", rest] = exponent
    return product([Term(1, {}, {a: e for a, e in out.items() if e})], number_root(abs(value), exponent))


def _bare(poly: Poly) -> Atom | None:
    """Return the entry, symbol or function value that a polynomial is, or None."""
    if len(poly) != 1:
        return None
    (bound, factors), value = poly[0]
    if bound or value != 1 or len(factors) != 1 or factors[0][1] != 1:
        return None
    return factors[0][0] if factors[0][0][0] in "sfbxF" else None


def primes(value: int) -> Iterator[tuple[int, int]]:
    """Yield the primes of a positive integer with their exponents."""
    divisor = 2
    while divisor * divisor <= value:
        count = 0
        while value % divisor == 0:
            value //= divisor
            count += 1
        if count:
            yield divisor, count
        divisor += 1 if divisor == 2 else 2
    if value > 1:
        yield value, 1


def number_root(value: Number, exponent: Number) -> list[Term]:
    """Return a power of a positive rational: a rational times primes with exponents between 0 and 1."""
    outside, factors = Fraction(1), {}
    value = Fraction(value)
    for part, sign in ((value.numerator, 1), (value.denominator, -1)):
        for prime, count in primes(part):
            e = Fraction(exponent) * count * sign
            outside *= Fraction(prime) ** floor(e)
            if e != floor(e):
                factors["n", prime] = e - floor(e)
    return [Term(int(outside) if outside.denominator == 1 else outside, {}, factors)]
