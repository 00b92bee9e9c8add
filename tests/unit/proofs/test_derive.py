"""Derivatives under definitions, compared with the oracle, which shares no calculus with them."""

import random

import pytest
from sympy import Abs, Expr, IndexedBase, Sum, Symbol, exp, log, symbols

from attngrad.proofs.derive import Definition, Deriver, softmax_of
from attngrad.proofs.rationals import World, ZeroDenominator
from attngrad.proofs.sums import CannotDecide, Partial, Scope

n = Symbol("n", integer=True, positive=True)
i, j, l = symbols("i j l", integer=True)
x, y, s, p = map(IndexedBase, ("x", "y", "s", "p"))
SCOPE = Scope({i: (1, n), j: (1, n)})


def term(r: random.Random, depth: int, letter: Symbol) -> Expr:
    """Return a random expression in x, y and one index letter."""
    if depth == 0:
        return r.choice([x[letter], y[letter], x[i], x[j], Symbol("c")])
    a, b = term(r, depth - 1, letter), term(r, depth - 1, letter)
    return r.choice(
        [a + b, a * b, a - b, a**2, a / (b**2 + 1), Sum(term(r, depth - 1, l), (l, 1, n)), exp(a)]
    )


@pytest.mark.parametrize("seed", range(40))
def test_random_expressions_against_the_oracle(seed: int) -> None:
    r = random.Random(seed)
    deriver = Deriver({}, SCOPE)
    f = next(f for f in (term(r, 2, i) for _ in range(99)) if deriver.depends(f, x[j]))
    mine = deriver.partial(f, x[j])
    compared = 0
    for world_seed in range(3):
        world = World({n: 2}, world_seed)
        for at in ({i: 1, j: 1}, {i: 1, j: 2}):
            try:
                assert world.value(mine, at) == world.value(Partial(f, x[j]), at)
                compared += 1
            except ZeroDenominator:
                continue
    assert compared


def softmax() -> Definition:
    return Definition("p", (i,), exp(s[i]) / Sum(exp(s[l]), (l, 1, n)))


def test_a_softmax_is_recognised_and_other_forms_are_not() -> None:
    assert softmax_of(softmax(), SCOPE) is not None
    others = [
        exp(s[i]) / Sum(exp(y[l]), (l, 1, n)),
        exp(s[i]) / Sum(exp(s[l]), (l, 2, n)),
        exp(s[i]) / n,
        s[i] / Sum(s[l], (l, 1, n)),
    ]
    for body in others:
        assert softmax_of(Definition("p", (i,), body), SCOPE) is None


def test_what_has_no_derivative_is_refused() -> None:
    with pytest.raises(CannotDecide, match="no derivative everywhere"):
        Deriver({}, SCOPE).partial(Abs(x[i]), x[j])
    with pytest.raises(CannotDecide, match="exponent"):
        Deriver({}, SCOPE).partial(2 ** x[i], x[j])
    with pytest.raises(CannotDecide, match="does not depend"):
        Deriver({}, SCOPE).partial(y[i], x[j])


def test_a_mask_that_depends_on_the_variable_is_refused() -> None:
    masked = Definition("p", (i,), s[i] * exp(s[i]) / Sum(s[l] * exp(s[l]), (l, 1, n)))
    with pytest.raises(CannotDecide, match="coefficient"):
        Deriver({"p": masked}, SCOPE).partial(p[i], s[j])


def test_logarithms_of_what_may_be_negative_are_left_alone() -> None:
    deriver = Deriver({}, SCOPE)
    assert deriver.split_logarithms(log(x[i] * y[i]), ()).has(log)
    assert not deriver.split_logarithms(log(exp(x[i])), ()).has(log)
