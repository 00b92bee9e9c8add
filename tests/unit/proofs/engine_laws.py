"""Laws of algebra with sums, deltas, tables and blocks, as a self-test of the normal form.

Each law is an equation that the normal form must prove, or one that it must not. The second kind holds for
some sizes or by accident of names, and is wrong in general.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from sympy import (
    Abs,
    Dummy,
    Expr,
    Function,
    IndexedBase,
    Integer,
    KroneckerDelta,
    Rational,
    Sum,
    Symbol,
    exp,
    log,
    sqrt,
)

from attngrad.proofs.sums import CannotDecide, is_zero
from attngrad.proofs.sums.rules import PowerRule, RowSumRule, Rule, SumRule
from attngrad.proofs.sums.spans import Scope

N, M = (Symbol(name, integer=True, positive=True) for name in "NM")
P, Q, R, I, J, K, L, U = (Symbol(name, integer=True) for name in "pqrijklu")
RHO, STRAY = Symbol("rho", integer=True), Symbol("stray", integer=True)
BETA = IndexedBase("beta", integer=True)
X, Y, A, B, W, T, MASK = map(IndexedBase, ("x", "y", "A", "B", "w", "t", "m"))
S, Z, C = Symbol("s"), Symbol("Z", positive=True), Symbol("c")
POSITIVE = IndexedBase("a", positive=True)
ONE = Integer(1)
SCOPE = Scope({P: (1, N), Q: (1, N), I: (1, N), U: (1, M), R: (1, N), RHO: (1 - N, M - 1), BETA: (1, N)})
ROWS = RowSumRule(A, (1, N))


class Law(NamedTuple):
    """An equation, whether the normal form must prove it, and the rules it may use."""

    name: str
    left: Expr
    right: Expr
    holds: bool = True
    rules: tuple[Rule, ...] = ()


def total(body: Callable[[Symbol], Expr], low: Expr = ONE, high: Expr = N) -> Expr:
    """Return the sum of a body over a letter of its own."""
    letter = Dummy("k", integer=True)
    return Sum(body(letter), (letter, low, high))


def delta(a: Expr, b: Expr) -> Expr:
    """Return a Kronecker delta that SymPy does not simplify."""
    return KroneckerDelta(a, b, evaluate=False)


def softmax(entry: Expr, row: Callable[[Symbol], Expr]) -> Expr:
    """Return exp(entry) over the sum of exp along a row."""
    return exp(entry) / total(lambda k: exp(row(k)))


def _sums() -> Iterator[Law]:
    twice = total(lambda k: X[k]) ** 2
    yield Law("alpha equivalence", Sum(X[K], (K, 1, N)), Sum(X[L], (L, 1, N)))
    yield Law("Fubini", Sum(B[K, L], (K, 1, N), (L, 1, M)), Sum(B[K, L], (L, 1, M), (K, 1, N)))
    yield Law(
        "names carry no meaning", Sum(B[K, L], (K, 1, N), (L, 1, N)), Sum(B[L, K], (L, 1, N), (K, 1, N))
    )
    yield Law("a square has two letters", twice, Sum(X[K] * X[L], (K, 1, N), (L, 1, N)))
    yield Law("a square is no sum of squares", twice, total(lambda k: X[k] ** 2), False)
    yield Law(
        "a sum is not its transpose", total(lambda k: B[P, k] * X[k]), total(lambda k: B[k, P] * X[k]), False
    )
    yield Law(
        "distribution",
        S * total(lambda k: X[k] + Y[k]),
        total(lambda k: S * X[k]) + total(lambda k: Y[k] * S),
    )
    yield Law("like terms", total(lambda k: X[k]) + total(lambda k: X[k]), 2 * total(lambda k: X[k]))
    yield Law("count", total(lambda k: ONE), N)
    yield Law("count of an offset range", total(lambda k: ONE, 1 - N, M - 1), N + M - 1)
    yield Law(
        "count inside a product", total(lambda k: total(lambda l: X[k], ONE, M)), M * total(lambda k: X[k])
    )
    yield Law(
        "nested letters of one name",
        total(lambda k: X[k]) * Sum(Sum(Y[K], (K, 1, N)) * X[K], (K, 1, N)),
        total(lambda k: X[k]) ** 2 * total(lambda k: Y[k]),
    )
    yield Law("three alike", total(lambda k: X[k]) ** 3, total(lambda k: X[k]) * twice)
    yield Law(
        "variance by pairs",
        total(lambda k: N * X[k] ** 2) - twice,
        Rational(1, 2) * total(lambda k: total(lambda l: (X[k] - X[l]) ** 2)),
    )


def _deltas() -> Iterator[Law]:
    yield Law("collapse", total(lambda k: delta(k, P) * X[k]), X[P])
    yield Law("no collapse across axes", total(lambda k: delta(k, U) * X[k]), X[U], False)
    yield Law("no collapse of what has no range", total(lambda k: delta(k, STRAY) * X[k]), X[STRAY], False)
    yield Law("no collapse one beyond the end", total(lambda k: delta(k, P + 1)), ONE, False)
    yield Law("zero outside", total(lambda k: delta(k, P + N) * X[k]), Integer(0))
    yield Law("a delta is its square", delta(P, Q) ** 2, delta(P, Q))
    yield Law("a delta joins its letters", delta(P, Q) * X[P] * Y[Q], delta(Q, P) * X[Q] * Y[P])
    yield Law("a chain of deltas", delta(P, Q) * delta(Q, I) * X[I], delta(I, P) * delta(P, Q) * X[P])
    yield Law("a delta in two spellings", delta(P - Q, 0), delta(Q + 1, P + 1))
    yield Law("bucketed table", total(lambda k: delta(k, BETA[U]) * T[k]), T[BETA[U]])
    yield Law(
        "a delta of a table solves nothing",
        total(lambda k: delta(k, BETA[k]) * X[k]),
        total(lambda k: X[k]),
        False,
    )
    yield Law("a self-referential delta stays", total(lambda k: delta(k, BETA[k])), ONE, False)
    yield Law(
        "diagonal form",
        Sum(delta(L - K, RHO) * B[K, L], (K, 1, N), (L, 1, M)),
        Sum(delta(L - K, RHO) * B[K, K + RHO], (K, 1, N), (L, 1, M)),
    )
    yield Law(
        "table adjoint",
        total(lambda r: T[r] * Sum(delta(L - K, r) * B[K, L], (K, 1, N), (L, 1, M)), 1 - N, M - 1),
        Sum(B[K, L] * T[L - K], (K, 1, N), (L, 1, M)),
    )
    yield Law(
        "shift",
        Sum(delta(K, L + 1) * X[K] * Y[L], (K, 1, N), (L, 1, N)),
        total(lambda k: X[k + 1] * Y[k], ONE, N - 1),
    )


def _blocks() -> Iterator[Law]:
    head, tail = total(lambda k: X[k], ONE, R), total(lambda k: X[k], R + 1)
    yield Law("two blocks", head + tail, total(lambda k: X[k]))
    yield Law("a block is not the whole", head, total(lambda k: X[k]), False)
    yield Law("products of blocks", (head + tail) ** 2, total(lambda k: X[k]) ** 2)
    yield Law("count of a block", total(lambda k: ONE, R + 1), N - R)
    yield Law("no count that may be negative", total(lambda k: ONE, ONE, N - 2), N - 2, False)
    yield Law("written out", total(lambda k: X[k], ONE, Integer(3)), X[1] + X[2] + X[3])
    yield Law("an empty sum", total(lambda k: X[k], ONE, Integer(0)), Integer(0))
    yield Law("counted from 0", total(lambda k: X[k + 1], Integer(0), N - 1), total(lambda k: X[k]))
    yield Law(
        "counted from 2",
        total(lambda k: X[k - 1] * Y[k], Integer(2), N),
        total(lambda k: X[k] * Y[k + 1], ONE, N - 1),
    )
    yield Law("a shift is no identity", total(lambda k: X[k + 1]), total(lambda k: X[k]), False)
    yield Law("first element", total(lambda k: X[k], Integer(2)) + X[1], total(lambda k: X[k]))


def _powers() -> Iterator[Law]:
    norm = total(lambda k: X[k])
    yield Law("inverse of a sum", 1 / norm, 1 / Sum(X[L], (L, 1, N)))
    yield Law("sum over itself", norm / Sum(X[L], (L, 1, N)), ONE)
    yield Law("factor leaves the denominator", 1 / total(lambda k: S * X[k]), 1 / (S * norm))
    yield Law("factor free of the letter", 1 / (Y[P] * total(lambda k: X[k] * Y[P])), Y[P] ** -2 / norm)
    yield Law(
        "capture in a denominator",
        total(lambda k: X[k] / total(lambda l: B[k, l])),
        total(lambda k: X[k]) / total(lambda l: total(lambda k: B[k, l])),
        False,
    )
    yield Law(
        "inner and outer letter differ",
        total(lambda k: X[k] / total(lambda l: B[k, l] * Y[l])),
        total(lambda l: X[l] / total(lambda k: B[l, k] * Y[k])),
    )
    yield Law("common denominator", X[P] / (X[P] + Y[P]) + Y[P] / (X[P] + Y[P]), ONE)
    yield Law("inverse is not additive", 1 / (X[P] + Y[P]), 1 / X[P] + 1 / Y[P], False)
    yield Law("root of a size", sqrt(N) * sqrt(N), N)
    yield Law("root of a number", sqrt(8), 2 * sqrt(2))
    yield Law("root of a square has a sign", sqrt(X[P] ** 2), X[P], False)
    yield Law("cube of a root", sqrt(norm + Z) ** 3 / (norm + Z), sqrt(norm + Z))


def _functions() -> Iterator[Law]:
    f = Function("f")
    row = total(lambda k: exp(X[k]))
    yield Law("exp of a sum", exp(X[P] + Y[Q]), exp(Y[Q]) * exp(X[P]))
    yield Law("exp is not linear", exp(X[P] + Y[Q]), exp(X[P]) + exp(Y[Q]), False)
    yield Law("log of softmax", log(softmax(X[P], lambda k: X[k])), X[P] - log(row))
    yield Law("log of a positive product", log(Z * POSITIVE[P]), log(POSITIVE[P]) + log(Z))
    yield Law("no log of factors of unknown sign", log(X[P] * Y[P]), log(X[P]) + log(Y[P]), False)
    yield Law("softmax sums to one", total(lambda p: softmax(X[p], lambda k: X[k])), ONE)
    yield Law("shift invariance", softmax(X[P] + C, lambda k: X[k] + C), softmax(X[P], lambda k: X[k]))
    yield Law(
        "scaling is no invariance",
        softmax(2 * X[P], lambda k: 2 * X[k]),
        softmax(X[P], lambda k: X[k]),
        False,
    )
    yield Law(
        "online merge",
        exp(C - Z) * total(lambda k: exp(X[k] - C), ONE, R) + exp(-Z) * total(lambda k: exp(X[k]), R + 1),
        total(lambda k: exp(X[k] - Z)),
    )
    yield Law("absolute values", Abs(P - Q) * Abs(-S), Abs(S) * Abs(Q - P))
    yield Law("an absolute value of known sign", Abs(P - N), N - P)
    yield Law("opaque arguments", f(total(lambda k: X[k])), f(Sum(X[L], (L, 1, N))))
    yield Law("opaque functions are not linear", f(X[P] + Y[P]), f(X[P]) + f(Y[P]), False)


def _rules() -> Iterator[Law]:
    yield Law("row sum", total(lambda k: A[P, k] * Z), Z, rules=(ROWS,))
    yield Law("row sum in a denominator", Z / total(lambda k: A[P, k] * Z), ONE, rules=(ROWS,))
    yield Law("column sum", total(lambda k: A[k, P]), ONE, False, (ROWS,))
    yield Law("diagonal", total(lambda k: A[k, k]), ONE, False, (ROWS,))
    yield Law("row of another axis", total(lambda k: A[P, k], ONE, M), ONE, False, (ROWS,))
    yield Law("part of a row", total(lambda k: A[P, k], ONE, R), ONE, False, (ROWS,))
    yield Law("weighted row", total(lambda k: A[P, k] * X[k]), ONE, False, (ROWS,))
    yield Law("squares of a row", total(lambda k: A[P, k] ** 2), ONE, False, (ROWS,))
    weights = SumRule(X[I] * Y[I], (I, 1, N), total=C)
    yield Law("hypothesis on a product", total(lambda k: Y[k] * X[k] * S), S * C, rules=(weights,))
    yield Law("hypothesis needs both factors", total(lambda k: Y[k] * S), S * C, False, (weights,))
    rows = SumRule(B[Q, I], (I, 1, M), parameters=(Q,), total=W[Q])
    yield Law("parameters", total(lambda j: B[P, j], ONE, M), W[P], rules=(rows,))
    yield Law("a parameter is free of the letter", total(lambda j: B[j, j], ONE, M), W[P], False, (rows,))
    yield Law("mask", MASK[P] ** 3 * X[P], MASK[P] * X[P], rules=(PowerRule(MASK),))
    yield Law("mask without its rule", MASK[P] ** 3 * X[P], MASK[P] * X[P], False)


LAWS: tuple[Law, ...] = tuple(
    law for group in (_sums, _deltas, _blocks, _powers, _functions, _rules) for law in group()
)


def broken_laws(decide: Callable[..., bool] = is_zero) -> list[str]:
    """Return the names of the laws that are not decided as they must be.

    >>> broken_laws()
    []
    """
    broken = []
    for law in LAWS:
        try:
            proved = decide(law.left - law.right, SCOPE, law.rules)
        except CannotDecide:
            proved = None
        if proved is not law.holds:
            broken.append(law.name)
    return broken
