"""The attention reference at its edges: empty axes, extreme numbers, what is not read, and bad input."""

import numpy as np
import pytest

from attngrad import reference as ref
from attngrad.checks import check_close
from attngrad.notation import DtypeError, RangeError, ShapeError

B, H, H_KV, N, M, D, D_V = 2, 4, 2, 3, 5, 6, 9
RNG = np.random.default_rng(8)
GOOD = {
    "q": RNG.standard_normal((B, H, N, D)),
    "k": RNG.standard_normal((B, H_KV, M, D)),
    "v": RNG.standard_normal((B, H_KV, M, D_V)),
    "bias": RNG.standard_normal((H, N, M)),
    "sink": RNG.standard_normal(H),
}
DO, DLSE = RNG.standard_normal((B, H, N, D_V)), RNG.standard_normal((B, H, N))


def row(q, k, v, **options):
    """Return attention of one query with one feature over some keys with one feature."""
    q, k, v = (np.array(x, dtype=np.float64).reshape(1, 1, -1, 1) for x in (q, k, v))
    return ref.attention(q, k, v, **options)


def gradients(saved, do=None, dlse=None):
    """Return the gradients for cotangents of ones, or those given."""
    return ref.attention_vjp(saved, np.ones(saved.o.shape) if do is None else do, dlse)


EMPTY = {
    "B": (0, 4, 2, 3, 5, 6, 9),
    "N": (2, 4, 2, 0, 5, 6, 9),
    "M": (2, 4, 2, 3, 0, 6, 9),
    "D": (2, 4, 2, 3, 5, 0, 9),
    "D_v": (2, 4, 2, 3, 5, 6, 0),
    "N and M": (2, 4, 2, 0, 0, 6, 9),
}


@pytest.mark.parametrize("axis", EMPTY)
@pytest.mark.parametrize("options", [{}, {"causal": True, "softcap": 2.0}, {"sink": np.zeros(4)}], ids=str)
def test_an_empty_axis_gives_empty_results_of_the_right_shape(axis, options):
    b, h, h_kv, n, m, d, d_v = EMPTY[axis]
    q, k, v = np.ones((b, h, n, d)), np.ones((b, h_kv, m, d)), np.ones((b, h_kv, m, d_v))
    saved = ref.attention(q, k, v, np.zeros((h, n, m)), scale=1.5, **options)
    assert (saved.o.shape, saved.lse.shape, saved.p.shape) == ((b, h, n, d_v), (b, h, n), (b, h, n, m))
    found = gradients(saved, dlse=np.ones(saved.lse.shape))
    assert [x.shape for x in found[:4]] == [q.shape, k.shape, v.shape, (h, n, m)]
    assert all(np.isfinite(x).all() for x in found if x is not None)
    if m == 0:
        assert not saved.o.any()
        assert (saved.lse == (0.0 if "sink" in options else -np.inf)).all()
    if d == 0 and not options:
        check_close("p", saved.p, np.full(saved.p.shape, 1.0 / m))


def test_a_single_key_takes_all_and_sends_only_the_cotangent_of_lse():
    saved = row([2.0], [3.0], [7.0], bias=np.array(0.5), scale=1.0)
    assert saved.o.item() == 7.0
    assert saved.lse.item() == 6.5
    found = gradients(saved)
    assert (found.dq.item(), found.dk.item(), found.dv.item(), found.dbias.item()) == (0.0, 0.0, 1.0, 0.0)
    found = gradients(saved, dlse=np.ones((1, 1, 1)))
    assert (found.dq.item(), found.dk.item(), found.dbias.item(), found.dscale) == (3.0, 2.0, 1.0, 6.0)


def test_a_scale_of_zero_gives_equal_weights_and_a_derivative_by_the_scale():
    q, k, v = GOOD["q"], GOOD["k"], GOOD["v"]
    saved = ref.attention(q, k, v, scale=0.0)
    check_close("p", saved.p, np.full(saved.p.shape, 1.0 / M))
    found = gradients(saved, DO)
    assert not found.dq.any()
    assert not found.dk.any()
    assert abs(found.dscale) > 0.1


@pytest.mark.parametrize("size", [1e4, 1e150, 1e300])
def test_large_scores_pick_the_largest_and_tiny_ones_weigh_alike(size):
    saved = row([1.0], [size, -size, size], [1.0, 5.0, 2.0], scale=1.0)
    assert saved.p.ravel().tolist() == [0.5, 0.0, 0.5]
    assert saved.o.item() == 1.5
    assert saved.lse.item() == pytest.approx(size + np.log(2.0), rel=1e-15)
    assert gradients(saved).dbias is None
    assert np.isfinite(gradients(saved).dk).all()
    tiny = row([1 / size], [1 / size, 0.0, -1 / size], [1.0, 5.0, 3.0], scale=1.0)
    assert tiny.o.item() == pytest.approx(3.0, rel=1e-7)


def test_a_bias_near_the_largest_number_is_used():
    bias = np.array([1e308, -1e308, 1e308])
    for options in ({}, {"bias_inside_scale": True}):
        saved = row([1.0], [1.0, 2.0, 3.0], [1.0, 5.0, 2.0], bias=bias, scale=1.0, **options)
        assert saved.p.ravel().tolist() == [0.5, 0.0, 0.5]
        found = gradients(saved, np.full((1, 1, 1, 1), 4.0))
        assert found.dbias.ravel().tolist() == [-1.0, 0.0, 1.0]
        assert np.isfinite(found.dscale)
    capped = row([1.0], [1.0, 2.0, 3.0], [1.0, 5.0, 2.0], bias=bias, scale=1.0, softcap=0.5)
    assert capped.s.ravel().tolist() == [0.5, -0.5, 0.5]
    assert not gradients(capped).dbias.any()


BEYOND = {
    "q.k": (([1e200], [0.0, 1e200]), {}, r"scale q.k: .* got inf at index \(0, 0, 0, 1\)"),
    "-q.k": (([1e200], [-1e200, 0.0]), {}, r"scale q.k: .* got -inf at index \(0, 0, 0, 0\)"),
    "q.k under a cap": (([1e200], [0.0, 1e200]), {"softcap": 1.0}, r"scale q.k: .* \(0, 0, 0, 1\)"),
    "scale": (([1e5], [0.0, 1e5]), {"scale": 1e300}, r"scale q.k: .* got inf at index \(0, 0, 0, 1\)"),
    "bias": (
        ([1e154], [0.0, 1e154]),
        {"bias": np.array([1.0, 1.7e308])},
        r"scores: .* got inf at index \(0, 0, 0, 1\)",
    ),
    "-bias": (
        ([-1e154], [1e154, 0.0]),
        {"bias": np.array([-1.7e308, 1.0])},
        r"scores: .* got -inf at index \(0, 0, 0, 0\)",
    ),
    "bias inside": (
        ([1.0], [0.0, 1.0]),
        {"bias": np.array([1.0, 1e308]), "scale": 10.0, "bias_inside_scale": True},
        r"scores: expected numbers within the range of floats, got inf at index \(0, 0, 0, 1\)",
    ),
}


@pytest.mark.usefixtures("raw_errors")
@pytest.mark.parametrize("case", BEYOND)
def test_a_score_beyond_the_floats_is_named_and_does_not_hide_its_key(case):
    (q, k), options, message = BEYOND[case]
    with pytest.raises(RangeError, match=message):
        row(q, k, [1.0, 2.0], **({"scale": 1.0} | options))
    # Where that key is masked nothing is read, and the gradient is finite.
    at = int(message[-3]) if message.endswith(r"\)") else 0
    mask = np.arange(2) != at
    saved = row(q, k, [1.0, 2.0], **({"scale": 1.0} | options), mask=mask)
    assert saved.o.item() == [1.0, 2.0][1 - at]
    assert all(np.isfinite(x).all() for x in gradients(saved) if x is not None)
    assert not saved.s.ravel()[at]


def test_a_small_scale_may_bring_large_queries_and_keys_back():
    saved = row([1e200], [1e200], [3.0], scale=1e-300)
    assert saved.lse.item() == pytest.approx(1e100, rel=1e-15)
    assert gradients(saved).dscale == 0.0


@pytest.mark.usefixtures("raw_errors")
def test_a_product_of_cotangent_and_value_beyond_the_floats_is_named():
    saved = row([1.0], [1.0, 2.0], [1.0, 1e200])
    with pytest.raises(RangeError, match=r"do.v: expected numbers .* got inf at index \(0, 0, 0, 1\)"):
        gradients(saved, np.full((1, 1, 1, 1), 1e200))
    for hidden in ({"mask": np.array([True, False])}, {"keep": np.array([True, False]), "dropout": 0.5}):
        saved = row([1.0], [1.0, 2.0], [1.0, 1e200], **hidden)
        assert np.isfinite(gradients(saved, np.full((1, 1, 1, 1), 1e200)).dq).all()


@pytest.mark.parametrize("on", ["scores", "product"])
def test_a_cap_far_above_the_scores_does_nothing_and_one_far_below_levels_them(on):
    named = {key: GOOD[key] for key in ("q", "k", "v", "bias")}
    free, high = ref.attention(**named), ref.attention(**named, softcap=1e12, softcap_on=on)
    check_close("o", high.o, free.o, terms=10.0)
    for got, want in zip(gradients(high, DO, DLSE), gradients(free, DO, DLSE), strict=True):
        if want is not None:
            check_close("gradients", got, want, terms=100.0)
    low = ref.attention(**named, softcap=1e-300, softcap_on=on)
    assert np.abs(low.s - (0.0 if on == "scores" else named["bias"])).max() <= 1e-300
    assert not gradients(low, DO, DLSE).dq.any()


@pytest.mark.parametrize("garbage", [np.nan, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("options", [{}, {"bias_inside_scale": True}, {"softcap": 1.0}], ids=str)
def test_what_the_bias_holds_at_a_masked_key_is_not_read(garbage, options):
    mask = RNG.random((H, N, M)) < 0.6
    mask[1, 2] = False
    named = GOOD | {"mask": mask} | options
    there = ref.attention(**named)
    here = ref.attention(**(named | {"bias": np.where(mask, GOOD["bias"], garbage)}))
    for name in ("o", "lse", "p", "p_sink", "x", "s"):
        assert np.array_equal(getattr(here, name), getattr(there, name))
    for got, want in zip(gradients(here, DO, DLSE), gradients(there, DO, DLSE), strict=True):
        assert np.array_equal(got, want)
    assert not gradients(here, DO, DLSE).dbias[~mask].any()


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_narrow_floats_are_computed_in_float64(dtype):
    narrow = {key: x.astype(dtype) for key, x in GOOD.items()}
    wide = {key: x.astype(np.float64) for key, x in narrow.items()}
    there, here = ref.attention(**wide), ref.attention(**narrow)
    assert np.array_equal(here.o, there.o)
    assert here.o.dtype == here.lse.dtype == here.p.dtype == np.float64
    do, dlse = DO.astype(dtype), DLSE.astype(dtype)
    wanted = gradients(there, do.astype(np.float64), dlse.astype(np.float64))
    for got, want in zip(gradients(here, do, dlse), wanted, strict=True):
        assert np.array_equal(got, want)
        assert np.asarray(got).dtype == np.float64
    # Two numbers whose product leaves the range of float16.
    big = np.full((1, 1, 1, 1), 30000.0, dtype=np.float16)
    assert ref.attention(big, big, big).lse.item() == 9e8


def attend(**changed):
    """Call attention on sound arguments with some replaced."""
    return ref.attention(**(GOOD | changed))


def back(do=DO, dlse=DLSE):
    """Call the backward pass on sound arguments with some replaced."""
    return ref.attention_vjp(ref.attention(**GOOD), do, dlse)


SOUND = GOOD | {"do": DO, "dlse": DLSE}


def replaced(name, x):
    """Call attention or its backward pass with one array replaced."""
    return back(**{name: x}) if name in ("do", "dlse") else attend(**{name: x})


def with_nan(x):
    """Return a copy with a NaN in its last entry."""
    x = x.copy()
    x.reshape(-1)[-1] = np.nan
    return x


NO_FLOATS = {
    "integers": (lambda x: np.rint(x).astype(np.int64), DtypeError, "expected an array of floats, got int64"),
    "booleans": (lambda x: x > 0.0, DtypeError, "expected an array of floats, got bool"),
    "complex": (lambda x: x + 0j, DtypeError, "expected an array of floats, got complex128"),
    "list": (lambda x: x.tolist(), DtypeError, "expected a NumPy array of floats, got list"),
    "masked": (np.ma.array, DtypeError, "expected a NumPy array of floats, got MaskedArray"),
    "nan": (with_nan, RangeError, r"expected finite .*, got nan at index"),
}


@pytest.mark.usefixtures("raw_errors")
@pytest.mark.parametrize("kind", NO_FLOATS)
@pytest.mark.parametrize("name", SOUND)
def test_what_is_no_finite_float_array_is_named(name, kind):
    change, error, message = NO_FLOATS[kind]
    with pytest.raises(error, match=rf"^{name}: {message}"):
        replaced(name, change(SOUND[name]))


@pytest.mark.usefixtures("raw_errors")
@pytest.mark.parametrize("name", ["q", "k", "v", "do", "dlse"])
def test_infinities_are_named_but_for_a_bias_or_a_sink_of_minus_infinity(name):
    bad = SOUND[name].copy()
    bad.reshape(-1)[0] = -np.inf
    with pytest.raises(RangeError, match=rf"^{name}: expected finite values, got -inf at index \(0, 0"):
        replaced(name, bad)


def cut(name, axis):
    """Return a sound array without its last entry along an axis."""
    return np.delete(SOUND[name], -1, axis=axis)


def flat(name):
    """Return a sound array with its first two axes in one."""
    return SOUND[name].reshape(-1, *SOUND[name].shape[2:])


SHAPES = {
    "q flat": ("q", flat("q"), r"q: expected four axes \(B, H, N, D\), got shape \(8, 3, 6\)"),
    "k flat": ("k", flat("k"), r"k: expected four axes \(B, H_kv, M, D\), got shape \(4, 5, 6\)"),
    "v flat": ("v", flat("v"), r"v: expected four axes \(B, H_kv, M, D_v\), got shape \(4, 5, 9\)"),
    "q number": ("q", np.array(1.0), r"q: expected four axes \(B, H, N, D\), got shape \(\)"),
    "do number": ("do", np.array(1.0), r"do: expected shape \(2, 4, 3, 9\) as for o, got \(\)"),
    "dlse number": ("dlse", np.array(1.0), r"dlse: expected shape \(2, 4, 3\) as for lse, got \(\)"),
    "q of five axes": ("q", GOOD["q"][None], r"q: expected four axes .* got shape \(1, 2, 4, 3, 6\)"),
    "k batch": ("k", cut("k", 0), r"k: .* \(2, 2, 5, 6\) as for B and D of q, got \(1, 2, 5, 6\)"),
    "k features": ("k", cut("k", 3), r"k: .* \(2, 2, 5, 6\) as for B and D of q, got \(2, 2, 5, 5\)"),
    "v batch": ("v", cut("v", 0), r"v: .* \(2, 2, 5, 9\) as for B, H_kv and M of k, got \(1, 2, 5, 9\)"),
    "v heads": ("v", cut("v", 1), r"v: .* \(2, 2, 5, 9\) as for B, H_kv and M of k, got \(2, 1, 5, 9\)"),
    "v keys": ("v", cut("v", 2), r"v: .* \(2, 2, 5, 9\) as for B, H_kv and M of k, got \(2, 2, 4, 9\)"),
    "q heads": ("q", cut("q", 1), "H: expected a multiple of H_kv = 2, got H = 3"),
    "bias swapped": ("bias", np.zeros((H, M, N)), r"bias: .* broadcasts to \(2, 4, 3, 5\), got \(4, 5, 3\)"),
    "bias batch": ("bias", np.zeros((3, H, N, M)), r"bias: .* to \(2, 4, 3, 5\), got \(3, 4, 3, 5\)"),
    "bias of key heads": ("bias", np.zeros((H_KV, N, M)), r"bias: .* to \(2, 4, 3, 5\), got \(2, 3, 5\)"),
    "bias of five axes": ("bias", np.zeros((1, B, H, N, M)), r"bias: .* got \(1, 2, 4, 3, 5\)"),
    "mask swapped": ("mask", np.ones((M, N), bool), r"mask: .* to \(2, 4, 3, 5\), got \(5, 3\)"),
    "keep swapped": ("keep", np.ones((M, N), bool), r"keep: .* to \(2, 4, 3, 5\), got \(5, 3\)"),
    "sink of key heads": ("sink", np.zeros(H_KV), r"sink: .* \(4,\) as for the heads of q, got \(2,\)"),
    "sink by batch": ("sink", np.zeros((B, H)), r"sink: expected shape \(4,\) .* got \(2, 4\)"),
    "sink number": ("sink", np.array(0.0), r"sink: expected at least 1 axes, got shape \(\)"),
    "do of one": ("do", np.ones((1, 1, 1, 1)), r"do: .* \(2, 4, 3, 9\) as for o, got \(1, 1, 1, 1\)"),
    "do swapped": ("do", np.swapaxes(DO, 1, 2), r"do: .* \(2, 4, 3, 9\) as for o, got \(2, 3, 4, 9\)"),
    "dlse of o": ("dlse", DO, r"dlse: expected shape \(2, 4, 3\) as for lse, got \(2, 4, 3, 9\)"),
    "dlse flat": ("dlse", flat("dlse"), r"dlse: expected shape \(2, 4, 3\) as for lse, got \(8, 3\)"),
}  # fmt: skip


@pytest.mark.usefixtures("raw_errors")
@pytest.mark.parametrize("case", SHAPES)
def test_a_wrong_shape_is_named_with_what_was_expected(case):
    name, x, message = SHAPES[case]
    with pytest.raises(ShapeError, match=f"^{message}"):
        replaced(name, x)


HUGE = np.full((N, M), 1.0)
HUGE[1, 2] = np.inf
OPTIONS = {
    "no heads": ({"q": GOOD["q"][:, :0]}, RangeError, "H: expected an integer of at least 1, got 0"),
    "scale nan": ({"scale": np.nan}, RangeError, "scale: expected a finite number, got nan"),
    "scale text": ({"scale": "1"}, DtypeError, "scale: expected a number, got str"),
    "scale True": ({"scale": True}, DtypeError, "scale: expected a number, got bool"),
    "scale array": ({"scale": np.ones(H)}, DtypeError, r"scale: .* an array of shape \(4,\) and float64"),
    "scale masked": ({"scale": np.ma.array(1.0)}, DtypeError, "scale: .* got MaskedArray"),
    "no feature": (
        {"q": np.zeros((B, H, N, 0)), "k": np.zeros((B, H_KV, M, 0))},
        RangeError,
        "scale: expected a number where queries have no feature, got None",
    ),
    "inside": ({"bias_inside_scale": 1}, DtypeError, "bias_inside_scale: expected True or False, got int 1"),
    "cap zero": ({"softcap": 0.0}, RangeError, "softcap: expected a positive finite number, got 0.0"),
    "cap infinite": ({"softcap": np.inf}, RangeError, "softcap: expected a positive finite number, got inf"),
    "cap True": ({"softcap": True}, DtypeError, "softcap: expected a number, got bool"),
    "cap place": (
        {"softcap_on": "bias"},
        RangeError,
        "softcap_on: expected one of 'scores', 'product', got 'bias'",
    ),
    "mask float": ({"mask": np.ones((N, M))}, DtypeError, "mask: expected booleans .*may attend.* float64"),
    "mask int": ({"mask": np.ones((N, M), int)}, DtypeError, "mask: expected booleans .* got int64"),
    "mask masked": ({"mask": np.ma.array([True] * M)}, DtypeError, "mask: .* got MaskedArray"),
    "causal": ({"causal": 1}, DtypeError, "causal: expected True or False, got int 1"),
    "start alone": ({"query_start": 0}, RangeError, "query_start: expected None without causal=True, got 0"),
    "start float": ({"causal": True, "query_start": 1.0}, DtypeError, "query_start: expected an integer"),
    "keep float": ({"keep": np.ones((N, M))}, DtypeError, r"keep: .* \(True: is kept\), got float64"),
    "keep list": ({"keep": [True] * M}, DtypeError, r"keep: .* booleans \(True: is kept\), got list"),
    "keep alone": ({"dropout": 0.25}, DtypeError, "keep: expected a mask .* dropout = 0.25, got None"),
    "dropout one": ({"dropout": 1.0}, RangeError, "dropout: expected a rate from 0 to less than 1, got 1.0"),
    "dropout below": ({"dropout": -0.5}, RangeError, "dropout: expected a rate .* got -0.5"),
    "dropout nan": ({"dropout": np.nan}, RangeError, "dropout: expected a finite number, got nan"),
    "dropout True": ({"dropout": True}, DtypeError, "dropout: expected a number, got bool"),
    "bias infinite": (
        {"bias": HUGE},
        RangeError,
        r"bias: expected finite logits or -inf, got inf at index \(0, 0, 1, 2\) of \(B, H, N, M\)",
    ),
    "sink infinite": (
        {"sink": np.array([0.0, np.inf, 0.0, 0.0])},
        RangeError,
        r"sink: expected finite logits or -inf, got inf at index \(1,\)",
    ),
}  # fmt: skip


@pytest.mark.usefixtures("raw_errors")
@pytest.mark.parametrize("case", OPTIONS)
def test_a_wrong_option_is_named(case):
    changed, error, message = OPTIONS[case]
    with pytest.raises(error, match=f"^{message}"):
        attend(**changed)


def test_sound_arguments_pass():
    assert back().dbias.shape == (H, N, M)
    start = np.int64(1)
    assert np.array_equal(attend(causal=True, query_start=start).o, attend(causal=True, query_start=1).o)
