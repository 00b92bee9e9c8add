"""The checks themselves: what they accept, and that each one rejects a planted mistake."""

import numpy as np
import pytest
import torch

from attngrad import checks
from attngrad.notation import DtypeError, RangeError


def softmax(s):
    """Return softmax of the last axis."""
    weights = np.exp(s - s.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def vjp(s, dp):
    """Return the cotangent of the logits."""
    p = softmax(s)
    return p * (dp - (p * dp).sum(axis=-1, keepdims=True))


def written_into(argument, result, value):
    """Return a result after writing into an argument."""
    argument[...] = value
    return result


S = np.random.default_rng(0).standard_normal((3, 5))
DERIVATIVE_CHECKS = [checks.check_vjp, checks.check_jvp]


def test_the_table_holds_the_rules_of_the_book():
    table = checks.TOLERANCES
    assert (table["float64"].rtol, table["float64"].atol) == (1e-12, 1e-12)
    assert (table["difference"].rtol, checks.STEP) == (1e-6, 1e-6)
    assert (table["forward"].factor, table["backward"].factor, table["reduced"].factor) == (2.0, 3.0, 6.0)
    assert checks.UNIT_ROUNDOFF["float32"] == np.finfo(np.float32).eps / 2
    assert checks.UNIT_ROUNDOFF["bfloat16"] == torch.finfo(torch.bfloat16).eps / 2


@pytest.mark.parametrize("check", DERIVATIVE_CHECKS)
def test_a_right_derivative_passes(check):
    assert check(softmax, vjp, S, name="softmax").startswith("softmax: 3 random directions agree")


PLANTED = {
    "factor 1 + 1e-5": lambda s, x: 1.00001 * vjp(s, x),
    "factor 2": lambda s, x: 2.0 * vjp(s, x),
    "sign": lambda s, x: -vjp(s, x),
    "zero": lambda s, x: 0.0 * vjp(s, x),
    "one entry": lambda s, x: vjp(s, x) + np.eye(1, s.size, 3).reshape(s.shape) * 1e-3,
    "nan": lambda s, x: vjp(s, x) * np.nan,
    "shape": lambda s, x: vjp(s, x)[:, :-1],
    "broadcast": lambda s, x: vjp(s, x)[None],
    "two results": lambda s, x: (vjp(s, x), vjp(s, x)),
    "nothing": lambda s, x: None,
    "in place on the cotangent": lambda s, x: written_into(x, vjp(s, x), 2.0 * x),
    "in place on the input": lambda s, x: written_into(s, vjp(s, x), 0.0),
}


@pytest.mark.parametrize("check", DERIVATIVE_CHECKS)
@pytest.mark.parametrize("mistake", PLANTED)
def test_a_planted_derivative_fails(check, mistake):
    with pytest.raises(AssertionError):
        check(softmax, PLANTED[mistake], S)


@pytest.mark.parametrize("check", DERIVATIVE_CHECKS)
def test_a_check_that_zero_would_pass_fails_unless_zero_is_meant(check):
    def constant(s):
        return np.ones(s.shape)

    def zero(s, x):
        return np.zeros(s.shape)

    with pytest.raises(AssertionError, match="zero would pass"):
        check(constant, zero, S)
    check(constant, zero, S, nonzero=False)


def test_a_small_wrong_gradient_is_not_hidden_by_a_large_one():
    def f(x, y):
        return np.sin(x) + 1e-3 * y

    def right(x, y, u):
        return np.cos(x) * u, 1e-3 * u

    def wrong(x, y, u):
        return np.cos(x) * u, 2e-3 * u

    checks.check_vjp(f, right, (S, S))
    with pytest.raises(AssertionError, match="input 1"):
        checks.check_vjp(f, wrong, (S, S))


def test_a_function_that_returns_nan_is_not_passed():
    with pytest.raises(AssertionError, match="the function itself returned a NaN"):
        checks.check_vjp(lambda s: s * np.nan, lambda s, u: u, S)


def test_the_order_of_results_matters():
    a, b = S[:2, :2].copy(), S[1:, 1:3].copy()

    def product(x, y):
        return x * y

    checks.check_vjp(product, lambda x, y, u: (y * u, x * u), (a, b))
    with pytest.raises(AssertionError):
        checks.check_vjp(product, lambda x, y, u: (x * u, y * u), (a, b))


def test_derivative_checks_want_float64():
    with pytest.raises(DtypeError, match="input 0: expected a float64 array, got float32"):
        checks.check_vjp(softmax, vjp, S.astype(np.float32))
    with pytest.raises(RangeError, match="trials: expected an integer of at least 1, got 0"):
        checks.check_vjp(softmax, vjp, S, trials=0)


def test_adjoint_maps_pass_and_others_fail():
    A = np.arange(6.0).reshape(2, 3)
    checks.check_adjoint(lambda t: A @ t, lambda u: A.T @ u, (3,), (2,))
    for wrong in (2.0 * A, -A, 0.0 * A, A + np.eye(2, 3) * 1e-9):
        with pytest.raises(AssertionError):
            checks.check_adjoint(lambda t: A @ t, lambda u, wrong=wrong: wrong.T @ u, (3,), (2,))
    with pytest.raises(AssertionError, match="zero would pass"):
        checks.check_adjoint(lambda t: 0.0 * t, lambda u: 0.0 * u, (3,), (3,))
    with pytest.raises(AssertionError, match=r"got shape \(3,\) for output 0 of shape \(2,\)"):
        checks.check_adjoint(lambda t: t, lambda u: A.T @ u, (3,), (2,))


@pytest.mark.parametrize(
    ("got", "want", "kind"),
    [
        (1.0 + 1e-11, 1.0, "float64"),
        (np.nan, 1.0, "float64"),
        (1.0, np.nan, "float64"),
        (np.nan, np.nan, "float64"),
        (np.inf, -np.inf, "float64"),
        (1e300, np.inf, "float64"),
        (1.0 + 1e-5, 1.0, "difference"),
        (np.ones(3), np.ones(1), "float64"),
        (np.ones(3), 1.0, "float64"),
        (np.array([1, 2]), np.array([1, 3]), "equal"),
        (np.array([np.nan]), np.array([np.nan]), "equal"),
        (1e-15, 0.0, "float64"),
    ],
)
def test_what_differs_is_rejected(got, want, kind):
    with pytest.raises(AssertionError):
        checks.check_close("x", got, want, kind)


@pytest.mark.parametrize(
    ("got", "want", "kind", "terms"),
    [
        (1.0 + 1e-13, 1.0, "float64", None),
        (1e-15, 0.0, "float64", 1.0),
        (-np.inf, -np.inf, "float64", None),
        (1.0 + 1e-7, 1.0, "difference", None),
        (1e-8, 0.0, "difference", 1.0),
        (torch.ones(3, requires_grad=True), np.ones(3), "float64", None),
        (torch.ones(3, dtype=torch.bfloat16), np.ones(3), "float64", None),
        (np.array([True]), np.array([True]), "equal", None),
        (np.zeros((0, 3)), np.zeros((0, 3)), "float64", None),
    ],
)
def test_what_agrees_is_accepted(got, want, kind, terms):
    checks.check_close("x", got, want, kind, terms)


def test_the_worst_entry_is_named():
    with pytest.raises(AssertionError, match=r"ds: got 1.5, want 1 at index \(0, 1\); error 5.00e-01"):
        checks.check_close("ds", np.array([[1.0, 1.5]]), np.ones((1, 2)))
    with pytest.raises(RangeError, match=r"kind: expected 'equal' or one of .*float64.* got 'forward'"):
        checks.check_close("ds", 1.0, 1.0, "forward")


def test_report_prints_what_it_asserted(capsys):
    checks.report("p", np.array([0.25, 1 / 3]), np.array([0.25, 1 / 3]), digits=4)
    checks.report("row sum", -1e-17, 0.0, terms=1.0, digits=3)
    checks.report("small", 1.25e-9, 1.25e-9, digits=4)
    checks.report("count", np.array([1, 2]), np.array([1, 2]), kind="equal")
    checks.report("many", np.ones((3, 6)), np.ones((3, 6)), digits=3)
    checks.report("slope", 2.0 + 1e-9, 2.0, kind="difference")
    assert capsys.readouterr().out.splitlines() == [
        "p: [0.2500, 0.3333]  (within 1e-12)",
        "row sum: 0.00  (within 1e-12)",
        "small: 1.250 x 1e-09  (within 1e-12)",
        "count: [1, 2]  (equal)",
        "many: shape (3, 6), norm 4.24  (within 1e-12)",
        "slope: 2.0000  (within 1e-06)",
    ]


def test_report_prints_nothing_where_values_differ(capsys):
    with pytest.raises(AssertionError):
        checks.report("p", 0.25, 0.26)
    assert capsys.readouterr().out == ""


def test_report_refuses_digits_that_are_not_certified(capsys):
    with pytest.raises(RangeError, match="digits: expected 1 to 5 for kind 'difference', got 6"):
        checks.report("slope", 2.0, 2.0, kind="difference", digits=6)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("noise", [0.0, 4e-16, -4e-16, 3e-14])
@pytest.mark.parametrize("value", [1.0, 0.1, 100.0, 1e-5, 0.5, 2 / 3, 123.456, 1e7])
def test_rounding_noise_does_not_change_the_printed_line(capsys, value, noise):
    noisy = value * (1.0 + noise)
    for got, want in ((value, value), (noisy, value), (value, noisy), (noisy, noisy)):
        checks.report("x", got, want, digits=10)
    assert len(set(capsys.readouterr().out.splitlines())) == 1


def test_a_value_on_which_machines_would_round_apart_is_refused():
    with pytest.raises(RangeError, match="lies halfway between two numbers of 2 digits"):
        checks.report("x", 0.125, 0.125, digits=2)


def budget(error, plain=1e-3, **options):
    """Run the error budget on a vector with a known error of the result and of the plain run."""
    exact = np.array([1.0, -0.5, 0.25])
    options = {"dtype": "bfloat16", **options}
    got, rough = exact.copy(), exact.copy()
    got[1], rough[1] = exact[1] + error, exact[1] + plain
    return checks.error_budget("dq", got, rough, exact, **options)


def test_error_budget_is_a_multiple_of_the_plain_error_plus_one_rounding():
    unit = checks.UNIT_ROUNDOFF["bfloat16"]
    budget(0.99 * (3e-3 + unit))
    budget(0.99 * (2e-3 + unit), kind="forward")
    for error, kind in ((1.01 * (3e-3 + unit), "backward"), (1.01 * (2e-3 + unit), "forward")):
        with pytest.raises(AssertionError, match=r"exceeds .* a plain run has 1.00e-03"):
            budget(error, kind=kind)


def test_error_budget_rejects_zero_nan_and_shapes():
    exact = np.array([2.0**-13, -(2.0**-12)])
    half = exact.astype(np.float16)
    with pytest.raises(AssertionError, match="zero would pass"):
        checks.error_budget("db", half, half + np.float16(1e-3), exact, dtype="float16")
    with pytest.raises(AssertionError, match="got is not finite"):
        budget(np.nan)
    with pytest.raises(AssertionError, match="plain is not finite"):
        budget(0.0, plain=np.inf)
    with pytest.raises(AssertionError, match=r"got has shape \(1,\), exact has \(2,\)"):
        checks.error_budget("db", half[:1], half, exact, dtype="float16")
    with pytest.raises(AssertionError, match="exceeds"):
        checks.error_budget("db", np.float16(0.0) * half, half, exact, dtype="float16")
    for option in ({"dtype": "float8"}, {"kind": "equal"}):
        with pytest.raises(RangeError, match=next(iter(option))):
            budget(0.0, **option)


def fail(message="expected two\n  lines"):
    """Raise a ValueError of two lines."""
    raise ValueError(message)


def test_expect_error_prints_one_line(capsys):
    checks.expect_error(ValueError, fail, match="two lines")
    assert capsys.readouterr().out == "ValueError: expected two lines\n"


def test_expect_error_prints_the_name_of_the_error_that_came(capsys):
    checks.expect_error(ValueError, lambda: (_ for _ in ()).throw(RangeError("tau: too small")), match="tau")
    assert capsys.readouterr().out == "RangeError: tau: too small\n"


@pytest.mark.parametrize(
    ("error", "function", "match", "message"),
    [
        (ValueError, lambda: 3, "", "expected ValueError, but int was returned"),
        (KeyError, fail, "", "expected KeyError, got ValueError"),
        (ValueError, fail, "three", "expected 'three' in the message, got: expected two lines"),
        (AssertionError, lambda: None, "", "expected AssertionError, but NoneType was returned"),
    ],
)
def test_expect_error_fails_on_anything_else(capsys, error, function, match, message):
    with pytest.raises(AssertionError, match=message):
        checks.expect_error(error, function, match=match)
    assert capsys.readouterr().out == ""
