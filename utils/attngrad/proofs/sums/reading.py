"""SymPy expressions to terms and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

from sympy import (
    Abs,
    Add,
    Dummy,
    Expr,
    Function,
    Indexed,
    Integer,
    KroneckerDelta,
    Mul,
    NumberSymbol,
    Pow,
    Rational,
    S,
    Sum,
    Symbol,
    exp,
    log,
)

from . import functions, powers
from .nodes import Norm2, Partial
from .terms import Atom, CannotDecide, Key, Number, Poly, Term, constant, monomial, number, product, single

if TYPE_CHECKING:
    from .algebra import Algebra

Names = Mapping[Symbol, Atom]


def terms_of(algebra: Algebra, e: Expr, names: Names) -> list[Term]:
    """Return an expression as a list of terms; ``names`` holds the letters that are bound outside it.

    Raises: CannotDecide for whatever the normal form does not cover.
    """
    read = READERS.get(type(e))
    if read is None:
        read = next((f for kind, f in READERS.items() if isinstance(e, kind)), None)
    if read is None:
        raise CannotDecide(f"the normal form does not cover {type(e).__name__}: {e}")
    return read(algebra, e, names)


def poly_of(algebra: Algebra, e: Expr, names: Names) -> Poly:
    """Return an expression as a canonical polynomial."""
    if isinstance(e, Symbol):
        return monomial(_letter(algebra, e, names))
    if isinstance(e, Integer):
        return constant(int(e))
    return algebra.freeze(terms_of(algebra, e, names))


def _letter(algebra: Algebra, e: Symbol, names: Names) -> Atom:
    return names[e] if e in names else ("s", algebra.key(e))


def _rational(value: Rational) -> Number:
    return int(value.p) if value.q == 1 else Fraction(int(value.p), int(value.q))


def _add(algebra: Algebra, e: Add, names: Names) -> list[Term]:
    return [t for a in e.args for t in terms_of(algebra, a, names)]


def _mul(algebra: Algebra, e: Mul, names: Names) -> list[Term]:
    result = [Term(1, {}, {})]
    for a in e.args:
        result = product(result, terms_of(algebra, a, names))
    return result


def _pow(algebra: Algebra, e: Pow, names: Names) -> list[Term]:
    base, exponent = e.args
    if not isinstance(exponent, Rational):
        inside = (poly_of(algebra, base, names), poly_of(algebra, exponent, names))
        return single(("F", algebra.key(Function("pow")), inside))
    exponent = _rational(exponent)
    if isinstance(exponent, int) and exponent > 0:
        result = terms_of(algebra, base, names)
        return product(*[result if k == 0 else terms_of(algebra, base, names) for k in range(exponent)])
    if isinstance(base, (Symbol, Indexed)) and isinstance(exponent, int):
        ((atom, one),) = terms_of(algebra, base, names)[0].factors.items()
        return single(atom, exponent * one)
    return powers.power(algebra, poly_of(algebra, base, names), exponent)


def _sum(algebra: Algebra, e: Sum, names: Names) -> list[Term]:
    bound = {}
    for limit in reversed(e.limits):
        if len(limit) != 3:
            raise CannotDecide(f"the sum over {limit[0]} has no limits")
        low, high = poly_of(algebra, limit[1], names), poly_of(algebra, limit[2], names)
        algebra.refuse_dependent(low, high)
        letter = algebra.fresh(low, high)
        bound[letter] = (low, high)
        names = {**names, limit[0]: letter}
    return [
        Term(t.coefficient, {**bound, **t.bound}, t.factors) for t in terms_of(algebra, e.function, names)
    ]


def _indexed(algebra: Algebra, e: Indexed, names: Names) -> list[Term]:
    return single(("x", algebra.key(e.base), tuple(poly_of(algebra, i, names) for i in e.indices)))


def _delta(algebra: Algebra, e: KroneckerDelta, names: Names) -> list[Term]:
    if len(e.args) != 2:
        raise CannotDecide(f"a Kronecker delta with a range of its own: {e}")
    return functions.delta(
        algebra,
        algebra.freeze(
            [
                *terms_of(algebra, e.args[0], names),
                *(Term(-t.coefficient, t.bound, t.factors) for t in terms_of(algebra, e.args[1], names)),
            ]
        ),
    )


def _inside(build: Callable) -> Callable:
    def read(algebra: Algebra, e: Expr, names: Names) -> list[Term]:
        return build(algebra, poly_of(algebra, e.args[0], names))

    return read


def _function(algebra: Algebra, e: Function, names: Names) -> list[Term]:
    return functions.function(algebra, algebra.key(e.func), [poly_of(algebra, a, names) for a in e.args])


def _partial(algebra: Algebra, e: Partial, names: Names) -> list[Term]:
    raise CannotDecide(f"the derivative {e} is not carried out: the normal form knows no calculus")


def _constant(algebra: Algebra, e: Expr, names: Names) -> list[Term]:
    return single(("N", algebra.key(e)))


READERS: dict[type, Callable[..., list[Term]]] = {
    Symbol: lambda algebra, e, names: single(_letter(algebra, e, names)),
    Dummy: lambda algebra, e, names: single(_letter(algebra, e, names)),
    Rational: lambda algebra, e, names: number(_rational(e)),
    Add: _add,
    Mul: _mul,
    Pow: _pow,
    Sum: _sum,
    Indexed: _indexed,
    KroneckerDelta: _delta,
    exp: _inside(functions.exponential),
    log: _inside(functions.logarithm),
    Abs: _inside(functions.absolute),
    type(S.Exp1): lambda algebra, e, names: single(("e", ((), ()))),
    Norm2: _constant,
    NumberSymbol: _constant,
    Partial: _partial,
    Function: _function,
}


# --- and back --------------------------------------------------------------------------------


@cache
def bound_symbol(position: int) -> Dummy:
    """Return the symbol of the bound letter with this number; it never equals a symbol of the input."""
    return Dummy(f"k{position}", integer=True)


def expression(algebra: Algebra, poly: Poly) -> Expr:
    """Return a canonical polynomial as a SymPy expression."""
    known = algebra.written
    if poly not in known:
        known[poly] = Add(*[_product(algebra, key, value) for key, value in poly])
    return known[poly]


def _rational_of(value: Number) -> Rational:
    return Integer(value) if isinstance(value, int) else Rational(value.numerator, value.denominator)


def _product(algebra: Algebra, key: Key, value: Number = 1) -> Expr:
    bound, factors = key
    powers_of = [_power(algebra, atom, exponent) for atom, exponent in factors]
    inside = Mul(*powers_of) if bound or value == 1 else Mul(_rational_of(value), *powers_of)
    if not bound:
        return inside
    limits = [
        (bound_symbol(b[1]), expression(algebra, low), expression(algebra, high)) for b, low, high in bound
    ]
    return Sum(inside, *limits) if value == 1 else _rational_of(value) * Sum(inside, *limits)


def _power(algebra: Algebra, atom: Atom, exponent: Number) -> Expr:
    known = algebra.written
    if (atom, exponent) not in known:
        base = _atom(algebra, atom)
        known[atom, exponent] = base if exponent == 1 else _raised(base, exponent, atom[0] not in "pr")
    return known[atom, exponent]


def _raised(base: Expr, exponent: Number, evaluate: bool) -> Expr:
    """Return a power; the canonical base of a denominator needs none of SymPy's own simplification."""
    return Pow(base, _rational_of(exponent), evaluate=evaluate)


def _atom(algebra: Algebra, atom: Atom) -> Expr:
    tag = atom[0]
    if tag in "sN":
        return algebra.objects[atom[1]]
    if tag == "b":
        return bound_symbol(atom[1])
    if tag == "n":
        return Integer(atom[1])
    if tag in "xF":
        args = [expression(algebra, p) for p in atom[2]]
        return algebra.objects[atom[1]][tuple(args)] if tag == "x" else algebra.objects[atom[1]](*args)
    if tag == "e":
        return exp(_product(algebra, atom[1]), evaluate=False)
    inside = expression(algebra, atom[1])
    if tag == "d":
        return KroneckerDelta(0, inside, evaluate=False)
    return {"l": log, "a": Abs}[tag](inside, evaluate=False) if tag in "la" else inside
