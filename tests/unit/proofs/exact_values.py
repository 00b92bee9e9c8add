"""A small evaluator on exact rationals, apart from the engine: expressions that agree here are alike.

Entries, logarithms, opaque functions and derivatives get a rational that is a hash of what they are of.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from fractions import Fraction
from itertools import product

from sympy import Abs, Add, Expr, Indexed, KroneckerDelta, Mul, Pow, Rational, Sum, Symbol

from attngrad.proofs.read.explain import _fixed

Values = Mapping[Symbol, int]


def drawn(key: object) -> Fraction:
    """Return a rational that depends on the key alone, never zero."""
    digest = hashlib.blake2b(repr(key).encode(), digest_size=4).digest()
    return Fraction(1 + digest[0] + 256 * digest[1], 1 + digest[2] % 97)


def value(e: Expr, at: Values) -> Fraction:
    """Return the value at these sizes and index values."""
    if isinstance(e, Rational):
        return Fraction(int(e.p), int(e.q))
    if isinstance(e, Symbol):
        return Fraction(at[e]) if e in at else drawn(e.name)
    if isinstance(e, Add):
        return sum((value(a, at) for a in e.args), Fraction(0))
    if isinstance(e, Mul):
        return _product(e, at)
    if isinstance(e, Sum):
        return _sum(e, at)
    if isinstance(e, KroneckerDelta):
        return Fraction(value(e.args[0], at) == value(e.args[1], at))
    if isinstance(e, Abs):
        return abs(value(e.args[0], at))
    if isinstance(e, Indexed):
        return drawn((str(e.base), *(value(k, at) for k in e.indices)))
    if isinstance(e, Pow) and e.exp.is_Integer:
        return value(e.base, at) ** int(e.exp)
    if isinstance(e, Pow):
        return drawn(("power", value(e.base, at), str(e.exp)))
    if type(e).__name__ == "Partial":
        return drawn(("partial", *(_fixed(part.xreplace(dict(at)), {}) for part in e.args)))
    return drawn((type(e).__name__, str(e.func), *(value(a, at) for a in e.args)))


def _product(e: Mul, at: Values) -> Fraction:
    out = Fraction(1)
    for factor in e.args:
        out *= value(factor, at)
    return out


def _sum(e: Sum, at: Values) -> Fraction:
    spans = [range(int(value(low, at)), int(value(high, at)) + 1) for _, low, high in e.limits]
    letters = [limit[0] for limit in e.limits]
    return sum(
        (value(e.function, {**at, **dict(zip(letters, where, strict=True))}) for where in product(*spans)),
        Fraction(0),
    )


def alike(left: Expr, right: Expr, letters: Mapping[Symbol, int], sizes: Mapping[Symbol, int]) -> bool:
    """Say whether two expressions agree at every value of the letters from 1 to the given number."""
    for where in product(*[range(1, high + 1) for high in letters.values()]):
        at = {**sizes, **dict(zip(letters, where, strict=True))}
        if value(left, at) != value(right, at):
            return False
    return True
