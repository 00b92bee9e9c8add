"""The NumPy reference: values by definition, derivatives by differences, masks, empty rows, large logits."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attngrad import reference as ref
from attngrad.checks import check_adjoint, check_close, check_jvp, check_vjp
from attngrad.notation import DtypeError, RangeError, ShapeError

SHAPES = [(1,), (2,), (7,), (3, 5), (2, 1, 13), (2, 3, 5, 11), (4, 1), (0, 3)]
LARGEST = np.finfo(np.float64).max


def draw(shape, seed=0):
    """Return random logits and a random mask with an empty first row."""
    rng = np.random.default_rng(seed)
    s = 2.0 * rng.standard_normal(shape)
    mask = rng.random(shape) < 0.6
    if mask.ndim > 1 and mask.size:
        mask.reshape(-1, shape[-1])[0] = False
    return s, mask


def has_two_keys(mask):
    """Return whether some row has two keys: with one its weight is 1 and every derivative 0."""
    return bool((mask.sum(axis=-1) > 1).any())


def literal_softmax(s, mask):
    """Return softmax by its definition, entry by entry in Python numbers; 0 in a row without a key."""
    p = np.zeros_like(s)
    for row in np.ndindex(s.shape[:-1]):
        keys = [j for j in range(s.shape[-1]) if mask[row + (j,)]]
        for i in keys:
            p[row + (i,)] = 1.0 / sum(np.exp(s[row + (j,)] - s[row + (i,)]) for j in keys)
    return p


@pytest.mark.parametrize("shape", SHAPES)
def test_softmax_is_its_definition(shape):
    s, mask = draw(shape)
    check_close("p", ref.softmax(s), literal_softmax(s, np.ones_like(mask)))
    check_close("masked p", ref.softmax(s, mask), literal_softmax(s, mask))


@pytest.mark.parametrize("shape", SHAPES)
def test_lse_and_log_softmax_are_their_definitions(shape):
    s, mask = draw(shape)
    with np.errstate(divide="ignore"):
        want = np.log(np.where(mask, np.exp(s), 0.0).sum(axis=-1))
        check_close("lse", ref.lse(s, mask), want, terms=np.abs(s).sum(axis=-1))
        check_close("log p", ref.log_softmax(s, mask), np.log(literal_softmax(s, mask)))
    assert isinstance(ref.lse(s, mask), np.ndarray)


@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 8), st.floats(-50.0, 50.0))
def test_softmax_is_invariant_under_a_shift_of_the_row(seed, rows, n, shift):
    s, mask = draw((rows, n), seed)
    check_close("p", ref.softmax(s + shift, mask), ref.softmax(s, mask), terms=100.0)
    check_close("lse", ref.lse(s + shift), ref.lse(s) + shift, terms=100.0)


@given(st.integers(0, 10**6), st.integers(1, 8))
def test_softmax_follows_a_permutation_of_the_keys(seed, n):
    s, mask = draw((3, n), seed)
    order = np.random.default_rng(seed).permutation(n)
    check_close("p", ref.softmax(s[:, order], mask[:, order]), ref.softmax(s, mask)[:, order])


@given(st.integers(0, 10**6), st.integers(1, 8))
def test_jacobian_is_symmetric_psd_with_norm_at_most_one_half(seed, n):
    p = ref.softmax(4.0 * draw((4, n), seed)[0])
    jacobian = ref.softmax_jacobian(p)
    assert (jacobian == np.swapaxes(jacobian, -1, -2)).all()
    eigenvalues = np.linalg.eigvalsh(jacobian)
    assert eigenvalues.min() >= -1e-15
    assert eigenvalues.max() <= 0.5 + 1e-15
    check_close("J 1", jacobian.sum(axis=-1), np.zeros((4, n)), terms=2.0 * p)


@pytest.mark.parametrize("shape", [(1,), (2,), (5,), (3, 4), (2, 3, 7)])
def test_the_products_agree_with_the_jacobian_and_with_differences(shape):
    s, mask = draw(shape)
    for allowed in (None, mask):
        nonzero = has_two_keys(np.ones(shape, dtype=bool) if allowed is None else allowed)
        p = ref.softmax(s, allowed)
        x = np.random.default_rng(1).standard_normal(shape)
        product = np.einsum("...ij,...j->...i", ref.softmax_jacobian(p), x)
        check_close("J x", ref.softmax_vjp(p, x), product, terms=np.abs(x).max())
        check_close("J x", ref.softmax_jvp(p, x), product, terms=np.abs(x).max())

        def softmax(logits, allowed=allowed):
            return ref.softmax(logits, allowed)

        check_vjp(softmax, lambda s, u, f=softmax: ref.softmax_vjp(f(s), u), s, nonzero=nonzero)
        check_jvp(softmax, lambda s, t, f=softmax: ref.softmax_jvp(f(s), t), s, nonzero=nonzero)


def test_the_gradient_of_lse_is_softmax_and_its_hessian_the_jacobian():
    s, mask = draw((3, 5))
    mask[0] = True
    check_vjp(lambda s: ref.lse(s, mask), lambda s, u: u[:, None] * ref.softmax(s, mask), s)


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_the_second_derivative_is_the_derivative_of_the_jacobian(n):
    s = draw((2, n))[0]

    def jvp(s, t):
        return np.einsum("...ijl,...l->...ij", ref.softmax_hessian(ref.softmax(s)), t)

    check_jvp(lambda s: ref.softmax_jacobian(ref.softmax(s)), jvp, s, nonzero=n > 1)


def test_the_second_derivative_is_symmetric_in_all_indices():
    third = ref.softmax_hessian(ref.softmax(draw((2, 5))[0]))
    for order in ((0, 2, 1, 3), (0, 3, 2, 1), (0, 2, 3, 1)):
        check_close("symmetry", third.transpose(order), third)
    for row in np.ndindex(2, 5, 5):
        check_close("sum", third[row].sum(), 0.0, terms=1.0)


@pytest.mark.parametrize("shape", [(1,), (2,), (3, 4), (2, 3, 7)])
def test_log_softmax_derivatives(shape):
    s, mask = draw(shape)
    for allowed in (None, mask):

        def log_softmax(logits, allowed=allowed):
            return ref.log_softmax(logits, allowed)

        def vjp(s, u, allowed=allowed):
            return ref.log_softmax_vjp(ref.softmax(s, allowed), u, allowed)

        def jvp(s, t, allowed=allowed):
            return ref.log_softmax_jvp(ref.softmax(s, allowed), t, allowed)

        nonzero = has_two_keys(np.ones(shape, dtype=bool) if allowed is None else allowed)
        check_vjp(log_softmax, vjp, s, nonzero=nonzero)
        check_jvp(log_softmax, jvp, s, nonzero=nonzero)
        check_adjoint(
            lambda t, f=jvp: f(s, t), lambda u, f=vjp: f(s, u), shape, shape, nonzero=nonzero
        )


def test_a_cotangent_on_a_masked_log_weight_is_not_read():
    p, mask = ref.softmax(np.zeros(3), np.array([True, True, False])), np.array([True, True, False])
    assert ref.log_softmax_vjp(p, np.array([0.0, 0.0, 5.0]), mask).tolist() == [0.0, 0.0, 0.0]
    assert ref.log_softmax_vjp(np.zeros(2), np.ones(2)).tolist() == [0.0, 0.0]


def test_a_weight_that_underflows_still_has_a_log_gradient():
    s = np.array([0.0, -1000.0])
    assert ref.softmax(s)[1] == 0.0
    assert ref.log_softmax_vjp(ref.softmax(s), np.array([0.0, 1.0])).tolist() == [-1.0, 1.0]


def test_cross_entropy_for_targets_that_do_not_sum_to_one():
    s, mask = draw((4, 5))
    mask[0] = True
    y = np.where(mask, np.random.default_rng(2).standard_normal((4, 5)), 0.0)
    for allowed in (None, mask):
        loss = ref.cross_entropy(s, y, allowed)
        want = ref.lse(s, allowed) * y.sum(axis=-1) - (s * y).sum(axis=-1)
        check_close("loss", loss, want, terms=np.abs(s * y).sum(axis=-1) + 10.0)
        check_vjp(
            lambda s, a=allowed: ref.cross_entropy(s, y, a),
            lambda s, u, a=allowed: ref.cross_entropy_vjp(ref.softmax(s, a), y, u),
            s,
        )


def test_labels_stand_for_one_hot_rows():
    s, labels = draw((2, 3, 5))[0], np.array([[0, 4, 2], [1, 1, 3]])
    one_hot, p, dloss = np.eye(5)[labels], ref.softmax(s), np.random.default_rng(3).standard_normal((2, 3))
    check_close("loss", ref.cross_entropy(s, labels), ref.cross_entropy(s, one_hot))
    check_close("ds", ref.cross_entropy_vjp(p, labels, dloss), ref.cross_entropy_vjp(p, one_hot, dloss))


@pytest.mark.parametrize("tau", [0.25, 1.0, 3.0])
def test_temperature_derivatives(tau):
    s, mask = draw((3, 5))
    for allowed in (None, mask):

        def value(s, tau, allowed=allowed):
            return ref.softmax_temperature(s, tau, allowed)

        def vjp(s, tau, u, f=value):
            return ref.softmax_temperature_vjp(f(s, tau), s, tau, u)

        def jvp(s, tau, ts, ttau, f=value):
            return ref.softmax_temperature_jvp(f(s, tau), s, tau, ts, ttau)

        check_close("p", value(s, tau), ref.softmax(s / tau, allowed))
        check_vjp(value, vjp, (s, np.array(tau)))
        check_jvp(value, jvp, (s, np.array(tau)))


def test_temperature_shifts_before_it_divides():
    s = np.array([1e300, 1e300, -LARGEST, -np.inf])
    p = ref.softmax_temperature(s, 1e-20)
    assert p.tolist() == [0.5, 0.5, 0.0, 0.0]
    ds, dtau = ref.softmax_temperature_vjp(p, s, 1e-20, np.array([1.0, 0.0, 0.0, 0.0]))
    assert np.isfinite(ds).all()
    assert dtau == 0.0


def test_a_row_without_a_key_has_no_weight_and_no_gradient():
    s, none = draw((2, 3))[0], np.zeros((2, 3), dtype=bool)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for logits, mask in ((s, none), (np.full((2, 3), -np.inf), None), (np.zeros((2, 0)), None)):
            p = ref.softmax(logits, mask)
            assert p.shape == logits.shape
            assert (p == 0.0).all()
            assert (ref.lse(logits, mask) == -np.inf).all()
            assert (ref.log_softmax(logits, mask) == -np.inf).all()
            assert (ref.cross_entropy(logits, np.zeros_like(logits), mask) == 0.0).all()
            u = np.ones_like(logits)
            assert (ref.softmax_vjp(p, u) == 0.0).all()
            assert (ref.log_softmax_vjp(p, u, mask) == 0.0).all()
            assert (ref.log_softmax_jvp(p, u, mask) == 0.0).all()
            assert (ref.cross_entropy_vjp(p, np.zeros_like(p), np.ones(2)) == 0.0).all()
            assert (ref.softmax_temperature(logits, 2.0, mask) == 0.0).all()
            ds, dtau = ref.softmax_temperature_vjp(p, logits, 2.0, u)
            assert (ds == 0.0).all()
            assert dtau == 0.0


def test_a_logit_of_minus_infinity_is_a_masked_key():
    s, mask = draw((3, 5))
    hidden = np.where(mask, s, -np.inf)
    for function in (ref.softmax, ref.lse, ref.log_softmax):
        assert np.array_equal(function(hidden), function(s, mask))


@pytest.mark.parametrize("garbage", [np.nan, np.inf, 1e300])
def test_what_a_masked_key_holds_is_not_read(garbage):
    s, mask = draw((3, 5))
    filled = np.where(mask, s, garbage)
    y = np.where(mask, 0.5, 0.0)
    for function in (ref.softmax, ref.lse, ref.log_softmax):
        assert np.array_equal(function(filled, mask), function(s, mask))
    assert np.array_equal(ref.cross_entropy(filled, y, mask), ref.cross_entropy(s, y, mask))
    p, u = ref.softmax(s, mask), np.random.default_rng(4).standard_normal((3, 5))
    got = ref.softmax_temperature_vjp(p, filled, 2.0, u)
    assert np.array_equal(got[0], ref.softmax_temperature_vjp(p, s, 2.0, u)[0])
    assert got[1] == ref.softmax_temperature_vjp(p, s, 2.0, u)[1]


@pytest.mark.parametrize("size", [1e4, 1e300, LARGEST])
def test_large_logits_stay_finite(size):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        s = np.array([[size, size, -size], [-size, -size, -size]])
        assert ref.softmax(s).tolist() == [[0.5, 0.5, 0.0], [1 / 3, 1 / 3, 1 / 3]]
        assert np.isfinite(ref.lse(s)).all()
        y = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
        check_close("loss", ref.cross_entropy(s, y), np.log([2.0, 3.0]))


def test_narrow_floats_are_computed_in_float64():
    s = np.array([0.1, 0.7, -0.3], dtype=np.float32)
    assert np.array_equal(ref.softmax(s), ref.softmax(s.astype(np.float64)))
    assert ref.softmax(s).dtype == ref.lse(s).dtype == np.float64
    assert ref.softmax(np.array([30000.0, 30000.0], dtype=np.float16)).tolist() == [0.5, 0.5]


def test_inputs_are_left_as_they_were_and_strides_do_not_matter():
    s, mask = draw((5, 3))
    before = s.copy()
    for view, allowed in ((s.T, mask.T), (s[::-1, ::2], mask[::-1, ::2])):
        assert np.array_equal(ref.softmax(view, allowed), ref.softmax(view.copy(), allowed.copy()))
    constant = np.broadcast_to(np.array(0.7), (5, 3))
    check_close("ds", ref.softmax_vjp(ref.softmax(s), constant), np.zeros((5, 3)), terms=1.0)
    assert np.array_equal(s, before)


@pytest.mark.parametrize(("H", "H_kv"), [(6, 2), (6, 6), (5, 1), (6, 3)])
def test_shared_heads_are_expanded_and_their_cotangents_summed(H, H_kv):
    x = np.random.default_rng(5).standard_normal((2, H_kv, 3, 5))
    expanded = ref.expand_kv_heads(x, H)
    for h in range(H):
        assert np.array_equal(expanded[:, h], x[:, h // (H // H_kv)])
    check_adjoint(
        lambda t: ref.expand_kv_heads(t, H),
        lambda u: ref.reduce_kv_heads(u, H_kv),
        (2, H_kv, 3, 5),
        (2, H, 3, 5),
    )


@pytest.mark.usefixtures("raw_errors")
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("function", [ref.softmax, ref.lse, ref.log_softmax])
def test_nan_and_infinity_are_named_by_position(function, bad):
    s = np.zeros((2, 3))
    s[1, 0] = bad
    with pytest.raises(RangeError, match=rf"s: expected finite logits or -inf, got {bad} at index \(1, 0\)"):
        function(s)


P3, P23 = np.full(3, 1 / 3), np.full((2, 3), 1 / 3)
BAD_CALLS = {
    "integers": (lambda: ref.softmax(np.array([1, 2])), DtypeError, "s: expected .* floats, got int"),
    "list": (lambda: ref.softmax([1.0]), DtypeError, "s: expected a NumPy array of floats, got list"),
    "scalar": (lambda: ref.softmax(np.array(1.0)), ShapeError, r"s: expected at least 1 axes, .* \(\)"),
    "float mask": (lambda: ref.softmax(P3, P3), DtypeError, "mask: expected booleans .* got float64"),
    "long mask": (lambda: ref.softmax(P3, np.ones(4, bool)), ShapeError, r"mask: .* to \(3,\), got \(4,\)"),
    "vjp": (lambda: ref.softmax_vjp(P23, P3), ShapeError, r"dp: expected shape \(2, 3\) .* got \(3,\)"),
    "jvp": (lambda: ref.softmax_jvp(P3, P23), ShapeError, r"ts: expected shape \(3,\) .* got \(2, 3\)"),
    "log vjp": (lambda: ref.log_softmax_vjp(P23, P3), ShapeError, r"dlogp: expected shape \(2, 3\) as for p"),
    "log jvp": (lambda: ref.log_softmax_jvp(P23, P3), ShapeError, r"ts: expected shape \(2, 3\) as for p"),
    "nan": (lambda: ref.softmax_vjp(P3, P3 * np.nan), RangeError, r"dp: .* got nan at index \(0,\)"),
    "target shape": (lambda: ref.cross_entropy(P23, P3), ShapeError, r"y: expected shape \(2, 3\) as for s"),
    "label shape": (lambda: ref.cross_entropy(P23, np.array([1])), ShapeError, r"y \(labels\): .* \(2,\) as"),
    "ignored label": (
        lambda: ref.cross_entropy(P23, np.array([0, -100])),
        RangeError,
        r"y: expected labels from 0 to 2, got -100 at index \(1,\); no label is ignored",
    ),
    "label n": (lambda: ref.cross_entropy(P23, np.array([3, 0])), RangeError, r"got 3 at index \(0,\)"),
    "bool target": (lambda: ref.cross_entropy(P3, P3 > 0), DtypeError, "y: expected float weights or int"),
    "masked target": (
        lambda: ref.cross_entropy(P3, P3, np.array([True, False, True])),
        RangeError,
        r"y: expected weight 0 on masked keys .* got 0.33\d* at index \(1,\)",
    ),
    "empty target": (
        lambda: ref.cross_entropy_vjp(np.zeros(3), P3, np.array(1.0)),
        RangeError,
        r"y: expected weight 0 on a row without a key, got 0.33\d* at index \(0,\)",
    ),
    "dloss": (
        lambda: ref.cross_entropy_vjp(P23, P23, np.array(1.0)),
        ShapeError,
        r"dloss: expected shape \(2,\) as for the rows of p, got \(\)",
    ),
    "tau": (lambda: ref.softmax_temperature(P3, 0.0), RangeError, "tau: expected a positive .* got 0"),
    "tau nan": (lambda: ref.softmax_temperature_vjp(P3, P3, np.nan, P3), RangeError, "tau: .* got nan"),
    "heads": (
        lambda: ref.expand_kv_heads(np.ones((1, 4, 2, 2)), 6),
        ShapeError,
        "H: expected a multiple of H_kv = 4, got H = 6",
    ),
    "fewer heads": (lambda: ref.expand_kv_heads(np.ones((1, 4, 2, 2)), 2), ShapeError, "H_kv = 4, got H = 2"),
    "no heads": (lambda: ref.reduce_kv_heads(np.ones((1, 4, 2, 2)), 0), RangeError, "H_kv: .* at least 1"),
    "rank": (lambda: ref.expand_kv_heads(np.ones((4, 2)), 4), ShapeError, "x: expected at least 3 axes"),
}


@pytest.mark.usefixtures("raw_errors")
@pytest.mark.parametrize("case", BAD_CALLS)
def test_bad_input_is_named(case):
    call, error, message = BAD_CALLS[case]
    with pytest.raises(error, match=message):
        call()
