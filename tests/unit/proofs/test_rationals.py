"""The oracle against values computed by hand."""

from __future__ import annotations

from fractions import Fraction as F

import pytest
from sympy import (
    Abs,
    Function,
    IndexedBase,
    KroneckerDelta,
    Max,
    Rational,
    Sum,
    Symbol,
    exp,
    log,
    sin,
    sqrt,
    symbols,
)

from attngrad.proofs.rationals import Definition, NotExact, World, ZeroDenominator
from attngrad.proofs.sums import Norm2, Partial

from .engine_fuzz import product_rule_failures

n, m = symbols("n m", integer=True, positive=True)
i, j, k, l = symbols("i j k l", integer=True)
s, p, x, y, g = map(IndexedBase, ("s", "p", "x", "y", "g"))
c, t = Symbol("c"), Symbol("t", positive=True)
SOFTMAX = {"p": Definition((i,), exp(s[i]) / Sum(exp(s[l]), (l, 1, n)))}


def at_two(**options) -> World:
    """Return n = 2 with exp(s_1) = 2, exp(s_2) = 8, so p = (1/5, 4/5)."""
    return World({n: 2}, 1, SOFTMAX, {("s", 1): 1, ("s", 2): 3}, exp_model="powers", **options)


def test_softmax_and_its_jacobian_at_two():
    world = at_two()
    assert [world.value(p[k], {k: a}) for a in (1, 2)] == [F(1, 5), F(4, 5)]
    jacobian = {(a, b): world.value(Partial(p[i], s[j]), {i: a, j: b}) for a in (1, 2) for b in (1, 2)}
    assert jacobian == {(1, 1): F(4, 25), (1, 2): F(-4, 25), (2, 1): F(-4, 25), (2, 2): F(4, 25)}


def test_second_and_third_derivatives_of_softmax():
    world = at_two()
    second = Partial(Partial(p[1], s[1]), s[1])
    assert world.value(second) == F(1, 5) * F(4, 5) * (1 - F(2, 5))
    third = Partial(second, s[1])
    a = F(1, 5)
    assert world.value(third) == a * (1 - a) * (1 - 6 * a + 6 * a**2)


def test_mixed_second_derivative_of_a_polynomial():
    world = World({}, 0, given={("x", 1): F(2, 3), ("c",): F(5)})
    f = c**3 * x[1] ** 2
    assert world.value(Partial(Partial(f, x[1]), c)) == 3 * 25 * 2 * F(2, 3)
    assert world.value(Partial(Partial(f, c), x[1])) == 3 * 25 * 2 * F(2, 3)
    assert world.value(Partial(Partial(Partial(f, c), c), c)) == 6 * F(4, 9)


def test_a_sum_differentiated_by_one_entry_is_one():
    world = World({n: 3}, 0)
    assert world.value(Partial(Sum(x[k], (k, 1, n)), x[j]), {j: 2}) == 1
    assert world.value(Partial(Sum(x[k] ** 2, (k, 1, n)), x[j]), {j: 2}) == 2 * world.value(x[2])


def test_quotients_roots_and_absolute_values():
    world = World({n: 4}, 0, given={("x", 1): F(9, 4), ("y", 1): F(-2), ("c",): F(3)})
    assert world.value(sqrt(n)) == 2
    assert world.value(n ** Rational(-3, 2)) == F(1, 8)
    assert world.value(Partial(sqrt(x[1]), x[1])) == F(1, 3)
    assert world.value(Partial(Partial(sqrt(x[1]), x[1]), x[1])) == F(-1, 4) * F(8, 27)
    assert world.value(Partial(1 / x[1] ** 2, x[1])) == -2 / F(9, 4) ** 3
    assert world.value(Partial(Abs(y[1]) ** 3, y[1])) == -12
    assert world.value(Max(y[1], c)) == 3


def test_a_derivative_by_a_defined_name_takes_it_as_input():
    definitions = {**SOFTMAX, "L": Definition((), Sum(g[k] * p[k], (k, 1, n)))}
    world = World(
        {n: 2}, 1, definitions, {("s", 1): 1, ("s", 2): 3, ("g", 1): 5, ("g", 2): 7}, exp_model="powers"
    )
    loss = Symbol("L")
    assert world.value(Partial(loss, p[j]), {j: 2}) == 7
    assert world.value(Partial(loss, s[j]), {j: 2}) == F(4, 5) * (7 - (1 + F(28, 5)))
    assert world.value(Partial(Partial(loss**2, p[j]), s[j]), {j: 2}) == 2 * 7 * F(4, 5) * (
        7 - (1 + F(28, 5))
    )


def test_chain_rule_through_an_opaque_function():
    f, slope = Function("f"), Function("f'")
    world = World({}, 3)
    inner = c * x[1]
    assert world.value(Partial(f(inner), x[1])) == world.value(slope(inner) * c)
    assert world.value(Partial(Partial(f(inner), x[1]), c)) == world.value(
        slope(inner) + Function("f''")(inner) * inner
    )
    assert world.value(f(inner)) != world.value(slope(inner))


def test_entries_do_not_depend_on_the_order_of_evaluation():
    forward, backward = World({n: 3}, 5), World({n: 3}, 5)
    first = [forward.value(x[a]) for a in (1, 2, 3)]
    second = [backward.value(x[a]) for a in (3, 2, 1)][::-1]
    assert first == second
    assert [World({n: 3}, 6).value(x[a]) for a in (1, 2, 3)] != first


def test_drawn_numbers_keep_their_declared_kind():
    table, positive = IndexedBase("beta", integer=True), IndexedBase("a", positive=True)
    world = World({n: 3}, 0, ranges={table: (1, n), j: (2, 2)})
    values = {world.value(table[a]) for a in range(1, 40)}
    assert values == {1, 2, 3}
    assert world.value(j) == 2
    assert all(world.value(positive[a]) > 0 for a in range(1, 40))
    assert all(world.value(x[a]) != 0 for a in range(1, 40))
    assert min(world.value(x[a]) for a in range(1, 40)) < 0
    assert world.value(t) > 0
    assert all(World({}, a, exp_model="powers").value(c).denominator == 1 for a in range(20))


class TestExponentials:
    def test_formal_exponentials_are_independent_and_positive(self):
        world = World({}, 0)
        assert world.value(exp(0 * c)) == 1
        assert world.value(exp(x[1])) == world.value(exp(x[1])) > 0
        assert world.value(exp(x[1] + x[2])) != world.value(exp(x[1]) * exp(x[2]))
        assert world.value(log(exp(x[1]))) == world.value(x[1])
        assert world.value(exp(log(t))) == world.value(t)

    def test_powers_are_a_homomorphism(self):
        world = World(
            {},
            0,
            given={("x", 1): 3, ("x", 2): -5, ("y", 1): F(12, 35), ("y", 2): F(7, 9)},
            exp_model="powers",
        )
        assert world.value(exp(x[1] + x[2])) == world.value(exp(x[1]) * exp(x[2])) == F(1, 4)
        assert world.value(log(exp(x[2]))) == -5
        assert world.value(log(y[1] * y[2])) == world.value(log(y[1]) + log(y[2]))
        assert world.value(log(y[1] ** 2)) == 2 * world.value(log(y[1])) != 0
        assert world.value(log(8 * y[1] / y[1])) == 3

    @pytest.mark.parametrize("model", ["formal", "powers"])
    def test_derivatives_of_exp_and_log(self, model):
        world = World({}, 0, given={("x", 1): 2, ("t",): F(3, 2)}, exp_model=model)
        e = world.value(exp(x[1]))
        assert world.value(Partial(exp(x[1] ** 2 - x[1]), x[1])) == 3 * e
        assert world.value(Partial(Partial(exp(x[1]), x[1]), x[1])) == e
        assert world.value(Partial(log(t), t)) == F(2, 3)
        assert world.value(Partial(Partial(log(t), t), t)) == F(-4, 9)


@pytest.mark.parametrize(
    ("expression", "error", "words"),
    [
        (sqrt(y[1]), NotExact, r"y\[1\] = 2 is no perfect power .* plant"),
        (sqrt(-y[1]), NotExact, "no perfect power"),
        (log(-t * t), NotExact, "positive argument"),
        (exp(y[1] / 3), NotExact, "small integer"),
        (sin(y[1]), NotExact, "opaque symbol"),
        (Norm2(IndexedBase("J")), NotExact, "numerically"),
        (Symbol("s") * 0.5, NotExact, "Float"),
        (Partial(Abs(y[1] - 2), y[1]), NotExact, "no derivative"),
        (Partial(Max(y[1], 2), y[1]), NotExact, "tie"),
        (x[y[1] / 4], NotExact, "index or limit is an integer"),
        (1 / (y[1] - 2), ZeroDenominator, "denominator is 0"),
        (KroneckerDelta(1, k), ValueError, "no value for the index letter k"),
        (Sum(x[k], (k, 1, m)), ValueError, "no value for the size m"),
        (Symbol("D") + 1, ValueError, "defined by itself"),
        (p[1, 2], ValueError, "defined with 1 indices, used with 2"),
    ],
)
def test_errors_name_the_cause(expression, error, words):
    definitions = {"D": Definition((), Symbol("D") + 1), **SOFTMAX}
    world = World({n: 2}, 0, definitions, {("y", 1): 2}, exp_model="powers")
    with pytest.raises(error, match=words):
        world.value(expression)


def test_deltas_come_before_what_has_no_value():
    world = World({n: 2}, 0, given={("x", 1): 1})
    assert world.value(KroneckerDelta(j, 2) / (x[j] - 1), {j: 1}) == 0


def test_bad_worlds_are_named():
    with pytest.raises(ValueError, match=r"'formal', 'powers'.*got 'real'"):
        World({}, 0, exp_model="real")
    with pytest.raises(ValueError, match="size n is an integer from 1, got 0"):
        World({n: 0}, 0)
    with pytest.raises(ValueError, match="p is defined"):
        World({n: 2}, 0, SOFTMAX, {("p", 1): F(1)})
    with pytest.raises(ValueError, match=r"range 3\.\.2 of r is empty"):
        World({n: 2}, 0, ranges={Symbol("r", integer=True): (3, n)}).value(Symbol("r", integer=True))


def test_products_are_differentiated_as_polynomials_are():
    assert product_rule_failures(60) == []
