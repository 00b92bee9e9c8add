"""The plain data that the engine computes with: atoms, terms and frozen polynomials.

An atom is a tuple that starts with a tag:

======================  =====================================================================
``('s', key)``          a symbol: a scalar, a size or a free index letter
``('f', number)``       a bound letter while its term is being worked on
``('b', number)``       a bound letter of a canonical term
``('x', key, indices)`` an entry of an array; the indices are polynomials
``('d', poly)``         1 where the polynomial is 0, else 0 (Kronecker delta, Iverson bracket)
``('p', poly)``         a base of negative integer powers
``('r', poly)``         a base of powers that are not integers
``('n', prime)``        a prime with an exponent between 0 and 1
``('e', key)``          exp of one monomial; the exponent of the atom is its coefficient
``('l', poly)``         log           ``('a', poly)`` absolute value
``('F', key, polys)``   any other function     ``('N', key)`` a named constant or norm
======================  =====================================================================

A key is ``(bound, factors)``: limits ``(letter, low, high)`` in order and sorted ``(atom, exponent)`` pairs.
A polynomial is a sorted tuple of ``(key, coefficient)``; equal polynomials are equal tuples.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

Number = int | Fraction
Atom = tuple
Key = tuple
Poly = tuple

UNIT: Key = ((), ())
ZERO: Poly = ()
ONE: Poly = ((UNIT, 1),)
LETTERS = frozenset("sfb")


class CannotDecide(Exception):
    """What the engine refuses, with the reason and, where there is one, the way out."""


class Term(NamedTuple):
    """A coefficient times a sum over bound letters of a product of atoms."""

    coefficient: Number
    bound: Mapping[Atom, tuple[Poly, Poly]]
    factors: Mapping[Atom, Number]


def constant(value: Number) -> Poly:
    """Return a number as a polynomial."""
    return ((UNIT, value),) if value else ZERO


def monomial(atom: Atom, exponent: Number = 1, coefficient: Number = 1) -> Poly:
    """Return a power of one atom as a polynomial."""
    return ((((), ((atom, exponent),)), coefficient),)


def single(atom: Atom, exponent: Number = 1, coefficient: Number = 1) -> list[Term]:
    """Return a power of one atom as a list of one term."""
    return [Term(coefficient, {}, {atom: exponent})]


def number(value: Number) -> list[Term]:
    """Return a number as a list of terms."""
    return [Term(value, {}, {})] if value else []


def add(left: Poly, right: Poly, scale: Number = 1) -> Poly:
    """Return ``left + scale * right``."""
    total = dict(left)
    for key, value in right:
        total[key] = total.get(key, 0) + scale * value
    return tuple(sorted((k, v) for k, v in total.items() if v))


def scaled(poly: Poly, scale: Number) -> Poly:
    """Return ``scale * poly``."""
    return tuple((key, value * scale) for key, value in poly) if scale else ZERO


def value_of(poly: Poly) -> Number | None:
    """Return the number that a constant polynomial is, or None."""
    if not poly:
        return 0
    return poly[0][1] if len(poly) == 1 and poly[0][0] == UNIT else None


def times(left: Term, right: Term) -> Term:
    """Return the product of two terms whose bound letters are different."""
    if not right.factors and not right.bound:
        return Term(left.coefficient * right.coefficient, left.bound, left.factors)
    factors = dict(left.factors)
    for atom, exponent in right.factors.items():
        total = factors.get(atom, 0) + exponent
        if total:
            factors[atom] = total
        else:
            del factors[atom]
    return Term(left.coefficient * right.coefficient, {**left.bound, **right.bound}, factors)


def product(*groups: Iterable[Term]) -> list[Term]:
    """Return the distributed product of several lists of terms."""
    result = [Term(1, {}, {})]
    for group in groups:
        group = list(group)
        result = [times(a, b) for a in result for b in group]
    return result


def inner_polys(atom: Atom) -> tuple[Poly, ...]:
    """Return the polynomials inside an atom."""
    tag = atom[0]
    if tag == "x" or tag == "F":
        return atom[2]
    if tag == "e":
        return (((atom[1], 1),),)
    if tag in "dprla":
        return (atom[1],)
    return ()


@lru_cache(maxsize=1 << 16)
def letters(atom: Atom) -> frozenset[Atom]:
    """Return the symbols and letters that occur free in an atom."""
    if atom[0] in LETTERS:
        return frozenset((atom,))
    return frozenset().union(*[poly_letters(p) for p in inner_polys(atom)])


@lru_cache(maxsize=1 << 16)
def poly_letters(poly: Poly) -> frozenset[Atom]:
    """Return the symbols and letters that occur free in a polynomial, limits included."""
    found: set[Atom] = set()
    for (bound, factors), _ in poly:
        here: set[Atom] = set()
        for atom, _exponent in factors:
            here |= letters(atom)
        for letter, low, high in bound:
            here |= poly_letters(low) | poly_letters(high)
            here.discard(letter)
        found |= here
    return frozenset(found)


@lru_cache(maxsize=1 << 16)
def has_sums(poly: Poly) -> bool:
    """Say whether a polynomial holds a sum at any depth."""
    return any(
        bound or any(has_sums(p) for atom, _ in factors for p in inner_polys(atom))
        for (bound, factors), _ in poly
    )


def holding(term: Term, letter: Atom) -> list[Atom]:
    """Return the atoms of a term in which a letter occurs."""
    return [atom for atom in term.factors if letter in letters(atom)]


@lru_cache(maxsize=1 << 16)
def offsets(poly: Poly, letter: Atom) -> frozenset[Number]:
    """Return the numbers c of all places, at any depth, where a polynomial is ``letter + c``."""
    if letter not in poly_letters(poly):
        return frozenset()
    parts = linear_part(poly, letter)
    if parts is not None and parts[0] == 1 and value_of(parts[1]) is not None:
        return frozenset((value_of(parts[1]),))
    return frozenset().union(
        *[offsets(p, letter) for (_, factors), _ in poly for a, _e in factors for p in inner_polys(a)]
    )


def linear_part(poly: Poly, letter: Atom) -> tuple[Number, Poly] | None:
    """Write a polynomial as ``c * letter + rest``, the rest free of the letter, or return None."""
    wanted = ((), ((letter, 1),))
    coefficient: Number = 0
    rest = []
    for key, value in poly:
        if key == wanted:
            coefficient = value
        else:
            rest.append((key, value))
    remaining = tuple(rest)
    if not coefficient or letter in poly_letters(remaining):
        return None
    return coefficient, remaining


def solve(poly: Poly, letter: Atom) -> Poly | None:
    """Return the value of a letter where the polynomial is 0, if its coefficient is 1 or -1."""
    parts = linear_part(poly, letter)
    if parts is None or abs(parts[0]) != 1:
        return None
    return scaled(parts[1], -parts[0])


def multiplied(poly: Poly, values: Mapping[Atom, Poly]) -> Poly | None:
    """Put polynomials in the place of letters of a linear polynomial of letters; None if it is not one."""
    total: dict[Key, Number] = {}
    for key, value in poly:
        bound, factors = key
        if bound or len(factors) > 1 or (factors and (factors[0][1] != 1 or factors[0][0][0] not in LETTERS)):
            return None
        for inner, c in values.get(factors[0][0], ((key, 1),)) if factors else ((key, 1),):
            total[inner] = total.get(inner, 0) + value * c
    return tuple(sorted((k, v) for k, v in total.items() if v))


def sign_of(poly: Poly) -> int:
    """Return a sign that ``poly`` and ``-poly`` never share; it rarely depends on the letters' order."""
    total = sum(value for _, value in poly)
    if not total:
        total = sum(value * (1 + len(bound)) for (bound, _), value in poly)
    if not total:
        total = sum(value * sum(len(inner_polys(a)) + 2 for a, _ in factors) for (_, factors), value in poly)
    return 1 if (total or poly[0][1]) > 0 else -1
