"""Checks at their edges: what they call and with what, which bounds they use, and what they refuse."""

import numpy as np
import pytest
import torch

from attngrad import checks
from attngrad.checks.compare import check_not_vacuous
from attngrad.notation import DtypeError, RangeError, ShapeError

S = np.random.default_rng(0).standard_normal((3, 5))
T = np.random.default_rng(1).standard_normal((3, 5))


@pytest.mark.parametrize(
    ("write", "told"),
    [
        (lambda x, y, u: x.__imul__(2.0), "input 0"),
        (lambda x, y, u: y.fill(0.0), "input 1"),
        (lambda x, y, u: u.__imul__(2.0), "cotangent 0"),
        (lambda x, y, u: np.negative(u, out=u), "cotangent 0"),
    ],
)
def test_a_vjp_that_writes_into_an_argument_is_named(write, told):
    def vjp(x, y, u):
        result = y * u, x * u
        write(x, y, u)
        return result

    x, y = S.copy(), T.copy()
    with pytest.raises(AssertionError, match=f"vjp changed its argument {told}"):
        checks.check_vjp(np.multiply, vjp, (x, y))
    assert np.array_equal(x, S)
    assert np.array_equal(y, T)


@pytest.mark.parametrize("check", [checks.check_vjp, checks.check_jvp])
def test_a_function_that_writes_into_its_input_is_named(check):
    def f(x):
        x += 1.0
        return np.sin(x)

    with pytest.raises(AssertionError, match="f changed its argument input 0"):
        check(f, lambda x, u: np.cos(x + 1.0) * u, S)


def test_a_jvp_or_an_adjoint_map_that_writes_is_named():
    def jvp(x, t):
        t *= np.cos(x)
        return t

    def double(t):
        t *= 2.0
        return t

    with pytest.raises(AssertionError, match="jvp changed its argument tangent 0"):
        checks.check_jvp(np.sin, jvp, S)
    with pytest.raises(AssertionError, match="double changed its argument t,"):
        checks.check_adjoint(double, lambda u: 2.0 * u, (3,), (3,))
    with pytest.raises(AssertionError, match="double changed its argument u,"):
        checks.check_adjoint(lambda t: 2.0 * t, double, (3,), (3,))


@pytest.mark.parametrize("check", [checks.check_vjp, checks.check_jvp])
def test_complex_results_and_missing_ones_are_refused(check):
    with pytest.raises(DtypeError, match="expected numbers, got complex128"):
        check(np.sin, lambda x, u: np.cos(x) * u + 0j, S)
    with pytest.raises(DtypeError, match="expected numbers, got complex128"):
        check(lambda x: x + 0j, lambda x, u: u, S)
    with pytest.raises(AssertionError, match=r"got None for (input|output) 0, expected an array"):
        check(np.sin, lambda x, u: None, S)
    with pytest.raises(RangeError, match="inputs: expected at least one array, got none"):
        check(np.sin, lambda u: (), ())


@pytest.mark.parametrize("check", [checks.check_vjp, checks.check_jvp])
@pytest.mark.filterwarnings("ignore:overflow")
def test_a_bound_that_is_not_finite_passes_nothing(check):
    def jump(x):
        return np.where(x > 0.5, np.inf, x)

    x = np.array([0.5 - 1e-9, 0.1])
    with pytest.raises(AssertionError, match="other outputs are infinite a step beside"):
        check(jump, lambda x, u: 100.0 * u, x)
    with pytest.raises(AssertionError, match=r"the bound is inf|got a NaN or an infinity"):
        check(lambda x: 1e308 * np.sign(x) + x, lambda x, u: 7.0 * u, np.array([1e-9, -1e-9, 1.0, 2.0]))


@pytest.mark.parametrize("check", [checks.check_vjp, checks.check_jvp])
def test_infinite_results_fail(check):
    with pytest.raises(AssertionError, match="got a NaN or an infinity"):
        check(np.sin, lambda x, u: np.where(x > 0.0, np.inf, u), S)


def test_results_of_another_number_fail():
    with pytest.raises(AssertionError, match="returns other shapes a step beside"):
        checks.check_vjp(lambda x: x[x >= S[0, 0]], lambda x, u: u, S)


def attention_like(s, v):
    """Return two outputs, of which the second does not depend on the second input."""
    weights = np.exp(s - s.max(axis=-1, keepdims=True))
    total = weights.sum(axis=-1, keepdims=True)
    return (weights / total) @ v, (np.log(total) + s.max(axis=-1, keepdims=True))[..., 0]


def attention_like_vjp(s, v, do, dlse, lse_factor=1.0):
    """Return the cotangents of both inputs for a cotangent of each output."""
    p = np.exp(s - attention_like(s, v)[1][..., None])
    dp = do @ v.T
    return p * (dp - (p * dp).sum(-1, keepdims=True) + lse_factor * dlse[..., None]), p.T @ do


def attention_like_jvp(s, v, ts, tv, swap=False):
    """Return the tangents of both outputs."""
    p = np.exp(s - attention_like(s, v)[1][..., None])
    tp = p * (ts - (p * ts).sum(-1, keepdims=True))
    return tp @ v + p @ tv, (p * ts).sum(axis=-1) * (2.0 if swap else 1.0)


def test_functions_of_several_outputs_are_checked_with_a_cotangent_for_each():
    v = np.random.default_rng(2).standard_normal((5, 2))
    checks.check_vjp(attention_like, attention_like_vjp, (S, v))
    checks.check_jvp(attention_like, attention_like_jvp, (S, v))
    with pytest.raises(AssertionError):
        checks.check_vjp(attention_like, lambda *a: attention_like_vjp(*a, lse_factor=0.0), (S, v))
    with pytest.raises(AssertionError, match=r"jvp, output 1 \(0,\): claimed"):
        checks.check_jvp(attention_like, lambda *a: attention_like_jvp(*a, swap=True), (S, v))
    with pytest.raises(AssertionError, match="got 1 results for 2 arrays of output"):
        checks.check_jvp(attention_like, lambda *a: attention_like_jvp(*a)[0], (S, v))


def test_a_small_output_is_not_hidden_by_a_large_one():
    def f(x):
        return 1e6 * np.sin(x), 1e-3 * x

    def wrong(x, u, w):
        return 1e6 * np.cos(x) * u + 2e-3 * w

    checks.check_vjp(f, lambda x, u, w: 1e6 * np.cos(x) * u + 1e-3 * w, S)
    with pytest.raises(AssertionError, match="vjp, output 1, input 0"):
        checks.check_vjp(f, wrong, S)


def test_every_input_and_every_output_must_be_seen_to_move():
    def first(x, y):
        return np.sin(x) + 0.0 * y

    with pytest.raises(AssertionError, match="vjp, input 1: the result is so small"):
        checks.check_vjp(first, lambda x, y, u: (np.cos(x) * u, 0.0 * u), (S, T))
    with pytest.raises(AssertionError, match="jvp, output 1: the result is so small"):
        checks.check_jvp(lambda x: (np.sin(x), np.ones(3)), lambda x, t: (np.cos(x) * t, np.zeros(3)), S)


def test_one_trial_that_moves_is_enough():
    """The size that zero is compared with is the largest over all trials."""
    seed, draws = 0, np.zeros((3, 2))
    while not 0.0 < 5.0 * np.abs(draws[::2].prod(axis=1)).max() < np.abs(draws[1].prod()):
        seed += 1
        draws = np.random.default_rng(seed).standard_normal((3, 2))  # u and t of each trial
    # The pairing at x = 1 is u itself, and its derivative slope u t: only the second trial is above 1e-4 u.
    slope = 2e-4 * np.abs(draws[:, 0]).max() / np.abs(draws[1].prod())
    x = np.array(1.0)
    checks.check_vjp(lambda x: 1.0 + slope * (x - 1.0), lambda x, u: slope * u, x, seed=seed)
    with pytest.raises(AssertionError, match="zero would pass"):
        checks.check_vjp(lambda x: 1.0 + slope * (x - 1.0), lambda x, u: slope * u, x, seed=seed, trials=1)


def test_the_seed_changes_the_directions():
    seen = []
    for seed in (0, 1):
        checks.check_vjp(np.sin, lambda x, u: seen.append(u) or np.cos(x) * u, S, seed=seed, trials=1)
        checks.check_jvp(np.sin, lambda x, t: seen.append(t) or np.cos(x) * t, S, seed=seed, trials=1)
        checks.check_adjoint(lambda t: seen.append(t) or 2.0 * t, lambda u: 2.0 * u, (3,), (3,), seed=seed)
    for first, second in zip(seen[:3], seen[3:], strict=True):
        assert not (first == second).any()


def test_a_temperature_may_be_an_input_of_its_own():
    def vjp(x, tau, u):
        return u / tau, -(u * x).sum() / tau**2

    checks.check_vjp(np.divide, vjp, (S, np.array(2.0)))


def test_zero_is_within_the_bound_up_to_a_hundredth():
    check_not_vacuous("x", 100.01, 1.0)
    for size in (100.0, 1.0):
        with pytest.raises(AssertionError, match="zero would pass"):
            check_not_vacuous("x", size, 1.0)


def test_the_unit_roundoff_is_half_the_spacing_at_one():
    for name, unit in checks.UNIT_ROUNDOFF.items():
        assert unit == torch.finfo(getattr(torch, name)).eps / 2, name
    assert set(checks.UNIT_ROUNDOFF) == {"float64", "float32", "float16", "bfloat16"}


def test_a_small_entry_is_compared_by_its_own_size():
    want = np.array([1.0, 1e-8])
    checks.check_close("x", want * (1.0 + 0.9e-12), want)
    for kind, error in (("float64", 1.1e-12), ("difference", 1.1e-6)):
        with pytest.raises(AssertionError, match=r"at index \(1,\)"):
            checks.check_close("x", want * [1.0, 1.0 + error], want, kind)


def test_a_wanted_zero_needs_terms_unless_it_is_met():
    checks.check_close("x", np.array([1.0, 0.0]), np.array([1.0, 0.0]))
    with pytest.raises(AssertionError, match=r"x: got 1e-17, want 0 at index \(1,\); .* pass terms="):
        checks.check_close("x", np.array([1.0, 1e-17]), np.array([1.0, 0.0]))
    checks.check_close("x", np.array([1.0, 1e-17]), np.array([1.0, 0.0]), terms=1.0)


def test_terms_add_to_the_relative_part_and_bound_a_difference_alone():
    checks.check_close("x", 1.0 + 2.9e-12, 1.0, terms=2.0)
    with pytest.raises(AssertionError, match=r"exceeds 3\.00e-12"):
        checks.check_close("x", 1.0 + 3.1e-12, 1.0, terms=2.0)
    checks.check_close("x", 1.0 + 1.9e-6, 1.0, "difference", terms=2.0)
    checks.check_close("x", 1.0 + 0.9e-6, 1.0, "difference", terms=0.5)
    for error, terms in ((2.1e-6, 2.0), (1.1e-6, 0.5)):
        with pytest.raises(AssertionError, match="exceeds"):
            checks.check_close("x", 1.0 + error, 1.0, "difference", terms=terms)


@pytest.mark.parametrize(
    ("terms", "error", "told"),
    [
        (np.inf, RangeError, "terms: expected finite numbers of at least 0, got inf"),
        (np.nan, RangeError, "terms: .* got nan"),
        (np.array([1.0, -1.0]), RangeError, r"terms: .* got -1.0 at index \(1,\)"),
        (np.ones(3), ShapeError, r"terms: expected a shape that broadcasts to \(2,\), got \(3,\)"),
        (np.ones((2, 2)), ShapeError, "terms: expected a shape"),
        (1j, DtypeError, "terms: expected numbers"),
    ],
)
def test_terms_are_finite_and_fit(terms, error, told):
    with pytest.raises(error, match=told):
        checks.check_close("x", np.ones(2), np.ones(2), terms=terms)


def test_values_beyond_comparison_are_refused():
    with pytest.raises(DtypeError, match="masked array"):
        checks.check_close("x", np.ma.array([1.0, 2.0], mask=[False, True]), np.array([1.0, 2.0]))
    with pytest.raises(AssertionError, match="error inf exceeds"):
        checks.check_close("x", 1.5e308, -1.5e308)


def budget(got, plain, exact, **options):
    """Run the error budget in float32."""
    got, plain = (np.asarray(x, dtype=np.float32) for x in (got, plain))
    return checks.error_budget("dq", got, plain, np.asarray(exact), **{"dtype": "float32", **options})


def test_a_budget_of_a_quarter_of_the_result_is_refused():
    exact = [1.0, 0.5]
    budget(exact, [1.0 + 0.25 / 3 - 1e-3, 0.5], exact)
    with pytest.raises(AssertionError, match="zero would pass"):
        budget(exact, [1.0 + 0.25 / 3 + 1e-3, 0.5], exact)


def test_a_row_of_zeros_is_hidden_without_an_axis_and_found_with_one():
    exact = np.array([[1000.0, 500.0], [0.25, -0.5], [0.0, 0.0]])
    plain = exact * (1.0 + 1e-3)
    got = exact.copy()
    budget(got, plain, exact, axis=-1)
    got[1] = 0.0
    budget(got, plain, exact)
    with pytest.raises(AssertionError, match=r"dq, row \(1,\) along axis -1: error 5.00e-01 exceeds"):
        budget(got, plain, exact, axis=-1)
    got = exact.copy()
    got[2, 0] = 1e-3
    with pytest.raises(AssertionError, match=r"dq, row \(2,\) along axis 1: error"):
        budget(got, plain, exact, axis=1)
    with pytest.raises(AssertionError, match=r"dq, row \(1,\) along axis 1: the result is so small"):
        budget(exact, plain + [[0.0], [0.1], [0.0]], exact, axis=1)
    with pytest.raises(AssertionError, match="the result is so small"):
        budget(0.0 * exact, 0.0 * exact, 0.0 * exact, axis=1)
    for axis, error in ((2, RangeError), (True, DtypeError)):
        with pytest.raises(error, match="axis: expected"):
            budget(exact, plain, exact, axis=axis)


@pytest.mark.parametrize(
    ("which", "x", "dtype"),
    [
        ("got", torch.ones(2, dtype=torch.float64), "float32"),
        ("got", torch.ones(2, dtype=torch.float32), "bfloat16"),
        ("got", np.ones(2), "float32"),
        ("got", np.ones(2, dtype=np.float32), "float16"),
        ("got", np.ones(2, dtype=np.float16), "bfloat16"),
        ("plain", torch.ones(2, dtype=torch.float16), "bfloat16"),
        ("exact", torch.ones(2, dtype=torch.float32), "float32"),
        ("got", torch.ones(2, dtype=torch.int64), "float32"),
    ],
)
def test_a_budget_is_for_results_of_the_type_that_is_said(which, x, dtype):
    arrays = {"got": [1.0, 1.0], "plain": [1.0, 1.0], "exact": [1.0, 1.0], which: x}
    wanted = "float64" if which == "exact" else dtype
    with pytest.raises(DtypeError, match=f"dq: expected {which} in {wanted}, got "):
        checks.error_budget("dq", **arrays, dtype=dtype)


def test_a_budget_refuses_complex_results_and_one_that_is_not_finite():
    with pytest.raises(DtypeError, match="got: expected numbers, got complex128"):
        checks.error_budget("dq", np.ones(2) + 0j, np.ones(2, np.float32), np.ones(2), dtype="float32")
    big = np.array([1.5e308, 1.0])
    with pytest.raises(AssertionError, match="the budget is inf"):
        checks.error_budget("dq", big, -big, big, dtype="float64")
