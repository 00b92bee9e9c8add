"""The normal form of sums with Kronecker deltas, integer tables and symbolic limits.

Two expressions whose difference has the normal form 0 are equal for all sizes and for all values of their
index letters in range. A normal form that is not 0 says nothing: only a counterexample refutes.

Two kinds of assumption are made: symbols are real, and denominators (bases of negative powers) are not 0.
Ranges come from a ``Scope``. What has no range is never collapsed; limits that depend on another bound
index are refused.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sympy import Expr, sympify

from .algebra import Algebra
from .reading import expression, terms_of
from .rules import Rule
from .spans import Scope
from .terms import Atom, Number, Poly, Term, letters, product

ROUNDS = 4


@lru_cache(maxsize=128)
def _algebra(scope: Scope, rules: tuple[Rule, ...]) -> Algebra:
    return Algebra(scope, rules)


def _frozen(expr: Any, scope: Scope, rules: tuple[Rule, ...]) -> tuple[Algebra, Poly]:
    expr = sympify(expr)
    if not isinstance(expr, Expr):
        raise TypeError(f"the normal form is that of an expression, got {expr!r}")
    if not isinstance(scope, Scope):
        raise TypeError(f"the ranges come from a Scope, got {scope!r}")
    algebra = _algebra(scope, tuple(rules))
    algebra.begin()
    return algebra, algebra.freeze(terms_of(algebra, expr, {}))


def normal_form(expr: Any, scope: Scope, rules: tuple[Rule, ...] = ()) -> Expr:
    """Return the normal form; 0 proves that the expression is 0 for all sizes.

    Formula: a sum of coefficient * Sum(product of deltas, entries and powers), bound letters renamed
    canonically.

    Raises: CannotDecide for a derivative that is not carried out, for limits that depend on another bound
    index, and for every kind of expression that the normal form does not cover; TypeError for no expression
    or scope.

    >>> from sympy import IndexedBase, KroneckerDelta, Sum, Symbol
    >>> from sympy import IndexedBase, KroneckerDelta, Sum, Symbol
    >>> i, j = Symbol('i', integer=True), Symbol('j', integer=True)
    >>> n, x = Symbol('n', integer=True, positive=True), IndexedBase('x')
    >>> normal_form(Sum(KroneckerDelta(i, j) * x[i], (i, 1, n)) - x[j], Scope({j: (1, n)}))
    0
    """
    algebra, poly = _frozen(expr, scope, rules)
    return expression(algebra, poly)


def is_zero(expr: Any, scope: Scope, rules: tuple[Rule, ...] = ()) -> bool:
    """Say whether an expression is provably 0, if need be over a common denominator.

    Formula: e = 0 if and only if D e = 0, where D is a product of powers of the denominators of e. This
    assumes what every quotient assumes: that its denominators are not 0. False is not a refutation.

    Raises: as ``normal_form``.

    >>> from sympy import symbols
    >>> a, b = symbols('a b')
    >>> is_zero(a / (a + b) + b / (a + b) - 1, Scope())
    True
    """
    algebra, poly = _frozen(expr, scope, rules)
    for _ in range(ROUNDS):
        if not poly:
            return True
        common = _denominators(algebra, poly)
        if not common:
            return False
        poly = algebra.freeze(product(algebra.thaw(poly), [Term(1, {}, common)]))
    return not poly


def _denominators(algebra: Algebra, poly: Poly) -> dict[Atom, Number]:
    """Return the bases of negative powers, free of bound letters, with the exponents that clear them.

    A sum that may be empty does not count: where it is, the numerator may be an empty sum too.
    """
    found: dict[Atom, Number] = {}
    for (bound, factors), _ in poly:
        inner = {b for b, _low, _high in bound}
        for atom, exponent in factors:
            base = atom[0] in "pr" and exponent < 0 and not inner & letters(atom)
            if base and algebra.sums_filled(atom[1]):
                found[atom] = max(found.get(atom, 0), -exponent)
    return found
