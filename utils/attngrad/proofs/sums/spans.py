"""Typed ranges of index letters and integer tables, and the inequalities that follow from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sympy import Basic, Expr, IndexedBase, Symbol, sympify

from .terms import ONE, UNIT, Atom, Poly, add, constant, monomial, scaled

Limits = tuple[Poly, Poly]


class Scope:
    """The typed range of each free index letter and of the values of each integer table.

    Raises: TypeError for a key that is no symbol or array, or a range that is no pair.

    >>> from sympy import symbols
    >>> i, n = Symbol('i', integer=True), Symbol('n', integer=True, positive=True)
    >>> Scope({i: (1, n)}).ranges[i]
    (1, n)
    """

    def __init__(self, ranges: Mapping[Symbol | IndexedBase, tuple[Any, Any]] | None = None):
        self.ranges: dict[Basic, tuple[Expr, Expr]] = {}
        for name, limits in (ranges or {}).items():
            if not isinstance(name, (Symbol, IndexedBase)):
                raise TypeError(f"a range belongs to a Symbol or an IndexedBase, got {name!r}")
            if not isinstance(limits, tuple) or len(limits) != 2:
                raise TypeError(f"the range of {name} is a pair (lowest, highest), got {limits!r}")
            self.ranges[name] = (sympify(limits[0]), sympify(limits[1]))
        self._identity = frozenset(self.ranges.items())

    def with_ranges(self, ranges: Mapping[Symbol | IndexedBase, tuple[Any, Any]]) -> Scope:
        """Return a copy with further ranges, which win over those of the same name."""
        return Scope({**self.ranges, **ranges})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scope) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __repr__(self) -> str:
        return f"Scope({self.ranges!r})"


class Spans:
    """Proves that an index polynomial is never negative; it never guesses.

    ``declared`` returns the range of a free letter or table from the scope, ``positive`` says whether a
    symbol is a size (1, 2, 3, ...), ``whole`` whether an atom only takes integers.
    """

    def __init__(
        self,
        declared: Callable[[Atom], Limits | None],
        positive: Callable[[Atom], bool],
        whole: Callable[[Atom], bool],
    ):
        self._declared = declared
        self._positive = positive
        self._whole = whole
        self._fresh: dict[Atom, Limits] = {}
        self._known: dict[Poly, bool] = {}

    def clear(self) -> None:
        """Forget the bound letters of the last expression."""
        self._fresh.clear()
        self._known.clear()

    def declare(self, letter: Atom, limits: Limits) -> None:
        """Give a bound letter its range."""
        self._fresh[letter] = limits

    def limits(self, atom: Atom) -> Limits | None:
        """Return the range of a letter or of a table entry, or None."""
        return self._fresh.get(atom) if atom[0] == "f" else self._declared(atom)

    def whole(self, poly: Poly) -> bool:
        """Say whether a polynomial surely takes integer values only."""
        return all(
            not bound
            and int(value) == value
            and all(
                exponent > 0 and exponent == int(exponent) and self._whole_atom(atom)
                for atom, exponent in factors
            )
            for (bound, factors), value in poly
        )

    def _whole_atom(self, atom: Atom) -> bool:
        return atom[0] in "fb" or self._whole(atom)

    def nonnegative(self, poly: Poly) -> bool:
        """Say whether a polynomial is provably never negative, for all sizes and all letters in range."""
        if poly not in self._known:
            self._known[poly] = self._decide(poly, 8)
        return self._known[poly]

    def inside(self, poly: Poly, limits: Limits) -> bool:
        """Say whether an index provably lies between two limits, for all sizes."""
        low, high = limits
        return self.nonnegative(add(poly, low, -1)) and self.nonnegative(add(high, poly, -1))

    def outside(self, poly: Poly, limits: Limits) -> bool:
        """Say whether an index provably lies below or above two limits, for all sizes."""
        below = add(add(limits[0], poly, -1), ONE, -1)
        above = add(add(poly, limits[1], -1), ONE, -1)
        return self.nonnegative(below) or self.nonnegative(above)

    def _decide(self, poly: Poly, depth: int) -> bool:
        """Put the worse end of its range in the place of each letter, then look at the sizes."""
        if depth == 0 or any(bound for (bound, _), _ in poly):
            return False
        for (_bound, factors), _ in poly:
            for atom, _exponent in factors:
                limits = self.limits(atom)
                if limits is not None:
                    parts = _factor_out(poly, atom)
                    return parts is not None and self._at_worst(*parts, limits, depth - 1)
        return self._sizes_only(poly)

    def _at_worst(self, slope: Poly, rest: Poly, limits: Limits, depth: int) -> bool:
        for end, sloped in ((limits[0], slope), (limits[1], scaled(slope, -1))):
            if self._decide(sloped, depth):
                return self._decide(add(multiply(slope, end), rest), depth)
        return False

    def _sizes_only(self, poly: Poly) -> bool:
        """Write each size as 1 + something that is not negative; all coefficients must be at least 0."""
        if all(value >= 0 for _, value in poly):
            return all(self._positive(a) for (_, factors), _ in poly for a, _e in factors)
        shifted: Poly = ()
        for (_bound, factors), value in poly:
            part = constant(value)
            for atom, exponent in factors:
                if not self._positive(atom) or exponent != int(exponent) or not 0 < exponent < 5:
                    return False
                for _ in range(int(exponent)):
                    part = multiply(part, add(monomial(atom), ONE))
            shifted = add(shifted, part)
        return all(value >= 0 for _, value in shifted)


def multiply(left: Poly, right: Poly) -> Poly:
    """Return the product of two polynomials without sums."""
    total: dict = {}
    for (_, first), a in left:
        for (_, second), b in right:
            powers = dict(first)
            for atom, exponent in second:
                powers[atom] = powers.get(atom, 0) + exponent
            key = ((), tuple(sorted((x, e) for x, e in powers.items() if e)))
            total[key] = total.get(key, 0) + a * b
    return tuple(sorted((k, v) for k, v in total.items() if v))


def _factor_out(poly: Poly, atom: Atom) -> tuple[Poly, Poly] | None:
    """Write a polynomial as ``slope * atom + rest``, or return None if it is not linear in the atom."""
    slope, rest = [], []
    for key, value in poly:
        powers = dict(key[1])
        exponent = powers.pop(atom, 0)
        if exponent == 1:
            slope.append((((), tuple(sorted(powers.items()))) if powers else UNIT, value))
        elif exponent == 0:
            rest.append((key, value))
        else:
            return None
    return tuple(sorted(slope)), tuple(rest)
