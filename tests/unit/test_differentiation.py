"""Four ways to a derivative agree with formulas that are known, and what they cannot do is refused."""

import numpy as np
import pytest

from attngrad.checks import UNIT_ROUNDOFF, check_close
from attngrad.differentiation import (
    Dual,
    central_difference,
    complex_step,
    dual_derivative,
    forward_difference,
)
from attngrad.notation import DtypeError, RangeError, ShapeError
from attngrad.reference import softmax, softmax_jvp

RNG = np.random.default_rng(3)
S, T = RNG.normal(size=(4, 5)), RNG.normal(size=(4, 5))
A, B, W = RNG.normal(size=(3, 4)), RNG.normal(size=(5, 2)), RNG.normal(size=(4, 5))
U = UNIT_ROUNDOFF["float64"]
POWERS = np.arange(5.0)


def plain_softmax(s):
    """Return softmax in operators alone, so that it runs on floats, complex numbers and Duals."""
    weights = np.exp(s)
    return weights / weights.sum(axis=-1, keepdims=True)


WAYS = {
    "forward": (lambda f, x, t: forward_difference(f, x, t, h=1e-8), 1e-6),
    "central": (lambda f, x, t: central_difference(f, x, t, h=1e-5), 1e-9),
    "complex": (complex_step, 1e-14),
    "dual": (dual_derivative, 1e-14),
}


@pytest.mark.parametrize("name", WAYS)
def test_each_way_gives_the_jvp_of_softmax_as_well_as_it_can(name):
    way, bound = WAYS[name]
    got = way(plain_softmax, S, T)
    want = softmax_jvp(softmax(S), T)
    assert np.abs(want).max() > 0.05
    assert np.abs(got - want).max() < bound
    assert np.abs(got * 1.001 - want).max() > bound


# Functions of one array with their derivatives along a tangent.
RULES = {
    "negative": (lambda x: -x, lambda x, t: -t),
    "square": (np.square, lambda x, t: 2 * x * t),
    "sqrt": (lambda x: np.sqrt(x * x + 1), lambda x, t: x * t / np.sqrt(x * x + 1)),
    "exp": (np.exp, lambda x, t: np.exp(x) * t),
    "log": (lambda x: np.log(x * x + 1), lambda x, t: 2 * x * t / (x * x + 1)),
    "sin": (np.sin, lambda x, t: np.cos(x) * t),
    "cos": (np.cos, lambda x, t: -np.sin(x) * t),
    "tanh": (np.tanh, lambda x, t: t / np.cosh(x) ** 2),
    "add": (lambda x: x + W + x, lambda x, t: 2 * t),
    "subtract": (lambda x: 3.0 - x - W, lambda x, t: -t),
    "multiply": (lambda x: x * W * x, lambda x, t: 2 * W * x * t),
    "divide": (lambda x: W / (x * x + 2), lambda x, t: -2 * W * x * t / (x * x + 2) ** 2),
    "divide by a constant": (lambda x: x / W, lambda x, t: t / W),
    "matmul": (lambda x: A @ x @ B, lambda x, t: A @ t @ B),
    "matmul with itself": (lambda x: x @ x.T, lambda x, t: t @ x.T + x @ t.T),
    "power": (lambda x: x**3, lambda x, t: 3 * x * x * t),
    "power of entries": (lambda x: x**POWERS, lambda x, t: POWERS * x ** (POWERS - 1) * t),
    "sum": (lambda x: x.sum(axis=0), lambda x, t: t.sum(axis=0)),
    "sum of all": (np.sum, lambda x, t: t.sum()),
    "entries": (lambda x: x[1:, [0, 0, 3]] * 2.0, lambda x, t: 2 * t[1:, [0, 0, 3]]),
    "broadcast": (lambda x: x[:, :1] + x, lambda x, t: t[:, :1] + t),
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_every_rule_of_dual_numbers_is_the_derivative(name):
    f, derivative = RULES[name]
    want = np.asarray(derivative(S, T))
    got = dual_derivative(f, S, T)
    check_close(name, got, want, terms=1.0)
    check_close(name, complex_step(f, S, T), want, terms=1.0)
    assert np.abs(want).max() > 0.1
    assert np.array_equal(f(Dual(S, T)).value, f(S))


def test_a_power_of_zero_is_constant_also_at_zero():
    x = np.array([0.0, 2.0])
    for n, want in ((0, [0.0, 0.0]), (1, [1.0, 1.0]), (2, [0.0, 4.0])):
        assert dual_derivative(lambda x, n=n: x**n, x, np.ones(2)).tolist() == want


def test_the_error_of_a_central_difference_stays_below_its_bound():
    """Of x^5 at 1.3; the rounding of the points counts as much as that of the function."""
    x, t, slope = np.array(1.3), np.array(1.0), 5 * 1.3**4
    for h in np.geomspace(1e-9, 1e-1, 33):
        error = abs(float(central_difference(lambda x: x * x * x * x * x, x, t, h)) - slope)
        rounding = U * (4 * (1.3 + h) ** 5 + 1.3 * slope) / h
        assert error <= h**2 * 60 * (1.3 + h) ** 2 / 6 + rounding + 4 * U * slope


def test_a_complex_step_and_a_dual_number_do_not_depend_on_the_size_of_the_function():
    """A difference loses a million times its accuracy under a million times larger constant."""
    x, t = np.array(0.7), np.array(1.0)

    def lifted(x):
        return np.exp(x) + 1e6

    errors = {name: abs(float(way(lifted, x, t)) / np.exp(0.7) - 1) for name, (way, _) in WAYS.items()}
    assert errors["complex"] <= 4 * U
    assert errors["dual"] <= 4 * U
    assert errors["central"] > 1e-8
    assert errors["forward"] > 1e-5


def test_what_is_not_analytic_is_wrong_in_a_complex_step_and_refused_by_dual_numbers():
    x, t = np.array([-2.0, 3.0]), np.array([1.0, 1.0])
    assert central_difference(np.abs, x, t, 1e-6).round(6).tolist() == [-1.0, 1.0]
    with pytest.raises(DtypeError, match="f: expected complex values of a complex argument, got float64"):
        complex_step(np.abs, x, t)
    assert complex_step(lambda x: np.sqrt(x * np.conj(x)), x, t).tolist() == [0.0, 0.0]
    with pytest.raises(DtypeError, match=r"Dual: expected add, .* got absolute"):
        dual_derivative(np.abs, x, t)


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (lambda: forward_difference(np.exp, S, T, 0.0), RangeError, "h: expected a positive finite number"),
        (lambda: central_difference(np.exp, S, T, -1.0), RangeError, "h: expected a positive finite number"),
        (lambda: complex_step(np.exp, S, T, np.inf), RangeError, "h: expected a positive finite number"),
        (lambda: central_difference(np.exp, S, T[0], 1e-6), ShapeError, r"t: expected shape \(4, 5\)"),
        (lambda: dual_derivative(np.exp, S, T * np.nan), RangeError, "t: expected finite values"),
        (lambda: dual_derivative(np.exp, np.arange(3), T), DtypeError, "x: expected an array of floats"),
        (lambda: central_difference(lambda x: x > 0, S, T, 1e-6), DtypeError, "f: expected real floats"),
        (lambda: forward_difference(lambda x: x * 1j, S, T, 1e-6), DtypeError, "f: expected real floats"),
        (lambda: dual_derivative(lambda x: x.value, S, T), DtypeError, "f: expected a Dual for a Dual, got"),
        (lambda: dual_derivative(softmax, S, T), DtypeError, "s: expected a NumPy array of floats, got Dual"),
        (lambda: dual_derivative(np.asarray, S, T), DtypeError, "a Dual has a value and a tangent"),
        (lambda: dual_derivative(lambda x: x**x, S, T), DtypeError, "Dual: expected add, .* got power"),
        (lambda: dual_derivative(lambda x: x > 0, S, T), DtypeError, "Dual: expected add, .* got greater"),
        (
            lambda: dual_derivative(np.max, S, T),
            DtypeError,
            "Dual: expected a plain call of maximum, got red",
        ),
        (lambda: np.exp(Dual(S, T), out=S), DtypeError, "Dual: expected a plain call of exp"),
        (lambda: Dual(S, T).sum(out=S), DtypeError, "out: a Dual cannot be written in place"),
        (lambda: Dual(S, T[:2]), ShapeError, r"tangent: expected shape \(4, 5\) as for value, got \(2, 5\)"),
        (lambda: Dual(S, 1), DtypeError, "tangent: expected a NumPy array of floats, got int"),
    ],
)
def test_bad_input_is_named(raw_errors, call, error, told):
    with pytest.raises(error, match=told):
        call()
