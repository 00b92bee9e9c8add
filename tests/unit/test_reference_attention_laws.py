"""Laws of the bias gradient under their hypotheses, and what breaks where a hypothesis fails."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attngrad import reference as ref
from attngrad.checks import check_close
from attngrad.offsets import causal_mask

from .attention_cases import CASES, H_KV, HIDDEN, MASK, SHAPE, B, H, M, N

RNG = np.random.default_rng(5)


def cotangents(saved, seed=6):
    """Return random cotangents of o and of lse."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal(saved.o.shape), rng.standard_normal(saved.lse.shape)


def full(name, **options):
    """Return the keywords of a case with a bias of full shape, and with other options in their place."""
    case = CASES[name]
    named = case.keywords(case.inputs()) | options
    if named["bias"] is not None:
        named["bias"] = np.broadcast_to(named["bias"], SHAPE).copy()
    return named


def row_sums(saved, do, dlse):
    """Return the sums of the rows of the bias gradient, and those of the absolute entries."""
    dbias = ref.attention_vjp(saved, do, dlse).dbias
    return dbias.sum(axis=-1), 1.0 + np.abs(dbias).sum(axis=-1)


OUTSIDE = ["plain", "negative-scale", "mask", "causal", "causal-empty-rows", "hidden", "dropout"]
OUTSIDE += ["cap-product"]


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_row_of_the_bias_gradient_sums_to_the_cotangent_of_its_lse(name):
    saved = ref.attention(**full(name))
    do, dlse = cotangents(saved)
    has_key = saved.lse > -np.inf
    sums, terms = row_sums(saved, do, dlse)
    check_close("row sums", sums, np.where(has_key, dlse, 0.0), terms=terms)
    sums, terms = row_sums(saved, do, None)
    check_close("row sums", sums, np.zeros(sums.shape), terms=terms)
    assert np.abs(ref.attention_vjp(saved, do).dbias).max() > 0.1


def test_inside_the_scale_a_row_sums_to_the_scale_times_that_cotangent():
    saved = ref.attention(**full("inside"))
    do, dlse = cotangents(saved)
    sums, terms = row_sums(saved, do, dlse)
    check_close("row sums", sums, 0.6 * dlse, terms=terms)


def test_with_a_sink_the_row_and_the_sink_share_the_cotangent():
    saved = ref.attention(**full("sink"))
    do, dlse = cotangents(saved)
    found = ref.attention_vjp(saved, do, dlse)
    terms = 1.0 + np.abs(found.dbias).sum(axis=(0, 2, 3)) + np.abs(found.dsink)
    check_close("sum", found.dbias.sum(axis=(0, 2, 3)) + found.dsink, dlse.sum(axis=(0, 2)), terms=terms)
    assert np.abs(found.dbias.sum(axis=(0, 2, 3)) - dlse.sum(axis=(0, 2))).max() > 0.1
    # One row alone: its own part of the sink's gradient.
    one = {key: x[:1, :, :1] for key, x in full("sink").items() if key in ("q", "bias")}
    one |= {key: x[:1] for key, x in full("sink").items() if key in ("k", "v")}
    saved = ref.attention(**(full("sink") | one))
    do, dlse = cotangents(saved)
    found = ref.attention_vjp(saved, do, dlse)
    check_close("row and sink", found.dbias.sum(axis=-1)[0, :, 0] + found.dsink, dlse[0, :, 0], terms=10.0)


def test_a_row_of_weights_and_the_weight_of_the_sink_sum_to_one():
    saved = ref.attention(**full("sink-mask"))
    check_close("weights", saved.p.sum(axis=-1) + saved.p_sink, np.ones(saved.lse.shape))
    empty = ~MASK.any(axis=-1)
    assert (saved.p_sink[0, :, 1] == 1.0).all()
    assert empty[0, 0, 1]
    check_close("lse", saved.lse[0, :, 1], full("sink-mask")["sink"])


def test_under_a_cap_the_row_sums_to_its_cotangent_only_before_the_cap():
    saved = ref.attention(**full("cap"))
    do, dlse = cotangents(saved)
    sums, terms = row_sums(saved, do, dlse)
    assert np.abs(sums - dlse).max() > 0.1
    before = ref.attention_vjp(saved, do, dlse).dbias / (1.0 - (saved.s / 1.5) ** 2)
    check_close("row sums", before.sum(axis=-1), dlse, terms=terms + np.abs(before).sum(axis=-1))


def gauge(name, constant):
    """Return attention before and after a constant is added to each row of the bias."""
    named = full(name)
    return ref.attention(**named), ref.attention(**(named | {"bias": named["bias"] + constant}))


CONSTANT = RNG.standard_normal((B, H, N, 1))


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_constant_on_a_row_of_the_bias_moves_lse_alone(name):
    before, after = gauge(name, CONSTANT)
    check_close("o", after.o, before.o, terms=10.0)
    check_close("p", after.p, before.p, terms=10.0)
    check_close("lse", after.lse, before.lse + CONSTANT[..., 0], terms=10.0)
    do, _ = cotangents(before)
    for got, want in zip(ref.attention_vjp(after, do), ref.attention_vjp(before, do), strict=True):
        if want is not None:
            check_close("gradients", got, want, terms=100.0)


@pytest.mark.parametrize("name", ["cap", "sink"])
def test_under_a_cap_or_beside_a_sink_a_constant_is_seen(name):
    before, after = gauge(name, CONSTANT)
    assert np.abs(after.o - before.o).max() > 0.1


def test_a_constant_on_the_sink_and_on_the_row_moves_lse_alone():
    named = full("sink")
    moved = named | {"bias": named["bias"] + 0.7, "sink": named["sink"] + 0.7}
    check_close("o", ref.attention(**moved).o, ref.attention(**named).o, terms=10.0)
    check_close("lse", ref.attention(**moved).lse, ref.attention(**named).lse + 0.7, terms=10.0)


@pytest.mark.parametrize("name", ["plain", "mask", "cap", "cap-product", "sink", "dropout", "hidden-cap"])
def test_a_bias_inside_is_a_bias_outside_divided_by_the_scale(name):
    named = full(name)
    inside = named | {"bias": named["bias"] / named["scale"], "bias_inside_scale": True}
    there, here = ref.attention(**named), ref.attention(**inside)
    check_close("o", here.o, there.o, terms=10.0)
    check_close("lse", here.lse, there.lse, terms=10.0)
    do, dlse = cotangents(there)
    outer, inner = ref.attention_vjp(there, do, dlse), ref.attention_vjp(here, do, dlse)
    check_close("dbias", inner.dbias, named["scale"] * outer.dbias, terms=10.0)
    check_close("dq", inner.dq, outer.dq, terms=100.0)
    assert np.abs(inner.dbias - outer.dbias).max() > 1e-2
    # The scale now multiplies the bias too: d/dscale of scale b / scale0 is sum(ds b) / scale0.
    b = np.where(there.p > 0.0, named["bias"], 0.0)
    share = (outer.dbias * b).sum() / named["scale"]
    check_close("dscale", inner.dscale, outer.dscale + share, terms=1000.0)


def test_with_the_unit_matrix_as_values_attention_is_softmax():
    named = full("mask") | {"v": np.broadcast_to(np.eye(M), (B, H_KV, M, M))}
    saved = ref.attention(**named)
    keys = ref.expand_kv_heads(named["k"], H)
    s = 0.6 * np.einsum("bhic,bhjc->bhij", named["q"], keys) + named["bias"]
    check_close("p", saved.p, ref.softmax(s, MASK), terms=1.0)
    check_close("o", saved.o, saved.p, terms=1.0)
    check_close("lse", saved.lse, ref.lse(s, MASK), terms=10.0)
    do, _ = cotangents(saved)
    check_close("dbias", ref.attention_vjp(saved, do).dbias, ref.softmax_vjp(saved.p, do), terms=10.0)


@pytest.mark.parametrize("name", ["plain", "mask", "dropout", "sink", "cap", "all", "all-product"])
def test_delta_is_the_product_of_the_output_and_its_cotangent(name):
    """With dP = dO V^T and the factors of dropout; `dO . O` needs no weights."""
    saved = ref.attention(**full(name))
    do, _ = cotangents(saved)
    values = ref.expand_kv_heads(saved.v, H)
    dp = np.einsum("bhic,bhjc->bhij", do, values) * saved.keep
    check_close("delta", (saved.p * dp).sum(axis=-1), (do * saved.o).sum(axis=-1), terms=100.0)
    # dP is the gradient of <do, o> by the weights: the pairing is linear in them.
    tp = RNG.standard_normal(SHAPE)
    moved = ((tp * saved.keep) @ values * do).sum()
    check_close("dp", (dp * tp).sum(), moved, terms=1e4)


def test_the_score_gradients_are_those_of_softmax_of_do_v():
    saved = ref.attention(**full("plain"))
    do, _ = cotangents(saved)
    dp = np.einsum("bhic,bhjc->bhij", do, ref.expand_kv_heads(saved.v, H))
    found = ref.attention_vjp(saved, do)
    check_close("dbias", found.dbias, ref.softmax_vjp(saved.p, dp), terms=10.0)
    shared, weights, q, out = (
        x.reshape(B, H_KV, H // H_KV, N, -1) for x in (found.dbias, saved.p, saved.q, do)
    )
    dq = 0.6 * np.einsum("bhij,bhjc->bhic", found.dbias, ref.expand_kv_heads(saved.k, H))
    check_close("dq", found.dq, dq, terms=100.0)
    check_close("dk", found.dk, 0.6 * np.einsum("bghij,bghic->bgjc", shared, q), terms=100.0)
    check_close("dv", found.dv, np.einsum("bghij,bghic->bgjc", weights, out), terms=100.0)
    # The three pairings <q, dq>, <k, dk> and scale dscale are one number.
    pairing = 0.6 * found.dscale
    check_close("q dq", (saved.q * found.dq).sum(), pairing, terms=1e4)
    check_close("k dk", (saved.k * found.dk).sum(), pairing, terms=1e4)


@pytest.mark.parametrize("start", [None, 0, -2, 1, 100, -100])
def test_causal_is_the_mask_of_that_name(start):
    named = full("mask")
    by_name = ref.attention(**named, causal=True, query_start=start)
    mask = MASK & causal_mask(N, M, start)
    by_mask = ref.attention(**(named | {"mask": mask}))
    assert np.array_equal(by_name.o, by_mask.o)
    assert np.array_equal(by_name.lse, by_mask.lse)


def test_a_hidden_key_is_a_masked_key_with_and_without_a_cap():
    for name in ("plain", "cap", "cap-product", "sink", "inside"):
        named = full(name)
        hidden = named | {"bias": np.where(HIDDEN, -np.inf, named["bias"])}
        there, here = ref.attention(**named, mask=~HIDDEN), ref.attention(**hidden)
        do, dlse = cotangents(there)
        assert np.array_equal(here.o, there.o)
        assert np.array_equal(here.lse, there.lse)
        for got, want in zip(
            ref.attention_vjp(here, do, dlse), ref.attention_vjp(there, do, dlse), strict=True
        ):
            assert (got is None and want is None) or np.array_equal(got, want)


def test_a_row_without_a_key_is_zero_and_sends_nothing():
    saved = ref.attention(**full("mask"))
    do, dlse = cotangents(saved)
    at = (0, slice(None), 1)
    assert not saved.o[at].any()
    assert (saved.lse[at] == -np.inf).all()
    found = ref.attention_vjp(saved, do, dlse)
    assert not found.dq[at].any()
    assert not found.dbias[at].any()
    other = do.copy()
    other[at] = 7.0
    for got, want in zip(ref.attention_vjp(saved, other, dlse), found, strict=True):
        assert (got is None and want is None) or np.array_equal(got, want)


def test_a_sink_of_minus_infinity_is_no_sink():
    named = full("sink") | {"sink": np.full(H, -np.inf)}
    there, here = ref.attention(**(named | {"sink": None})), ref.attention(**named)
    do, dlse = cotangents(here)
    assert np.array_equal(here.o, there.o)
    assert np.array_equal(here.lse, there.lse)
    assert ref.attention_vjp(here, do, dlse).dsink.tolist() == [0.0] * H


def test_one_step_after_another_gives_the_causal_whole():
    named = full("plain", causal=True)
    whole = ref.attention(**named)
    for i in range(N):
        seen = M - N + i + 1
        step = {key: named[key][:, :, :seen] for key in "kv"}
        step |= {"q": named["q"][:, :, i : i + 1], "bias": named["bias"][:, :, i : i + 1, :seen]}
        check_close("o", ref.attention(**(named | step)).o, whole.o[:, :, i : i + 1], terms=10.0)


def test_the_bias_gradient_follows_a_permutation_of_the_keys():
    named, order = full("mask"), RNG.permutation(M)
    moved = named | {key: named[key][:, :, order] for key in "kv"}
    moved |= {key: named[key][..., order] for key in ("bias", "mask")}
    there, here = ref.attention(**named), ref.attention(**moved)
    do, dlse = cotangents(there)
    got, want = ref.attention_vjp(here, do, dlse).dbias, ref.attention_vjp(there, do, dlse).dbias
    check_close("dbias", got, want[..., order], terms=10.0)


def test_the_gradient_is_linear_in_its_cotangents():
    saved = ref.attention(**full("all"))
    (do, dlse), (other, also) = cotangents(saved), cotangents(saved, 7)
    parts = [ref.attention_vjp(saved, *pair) for pair in ((do, dlse), (other, also))]
    both = ref.attention_vjp(saved, 2.0 * do - other, 2.0 * dlse - also)
    for got, one, two in zip(both, *parts, strict=True):
        check_close("linear", got, 2.0 * np.asarray(one) - two, terms=1e3)


SIZES = st.integers(1, 6)


@given(st.integers(0, 10**6), SIZES, SIZES, SIZES, st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_the_row_law_at_every_size(seed, n, m, d, causal, drops, hides, on_product):
    """A row sums to the cotangent of its lse at any size and option but a sink and a cap on scores."""
    rng = np.random.default_rng(seed)
    bias = np.where(rng.random((3, n, m)) < 0.3 * hides, -np.inf, rng.standard_normal((3, n, m)))
    saved = ref.attention(
        *(rng.standard_normal(s) for s in ((1, 3, n, d), (1, 1, m, d), (1, 1, m, 2))), bias,
        causal=causal, keep=rng.random((1, 3, n, m)) < 0.8 if drops else None, dropout=0.2 * drops,
        softcap=1.0 if on_product else None, softcap_on="product",
    )  # fmt: skip
    do, dlse = cotangents(saved, seed)
    sums, terms = row_sums(saved, do, dlse)
    check_close("row sums", sums, np.where(saved.lse > -np.inf, dlse, 0.0)[0], terms=terms)


BROKEN = {
    "delta of dropped weights": lambda p, dp, keep, dlse: p * (dp - (p * keep * dp).sum(-1, keepdims=True)),
    "no delta": lambda p, dp, keep, dlse: p * dp,
    "diagonal": lambda p, dp, keep, dlse: p * (1.0 - p) * dp,
    "lse with the other sign": lambda p, dp, keep, dlse: ref.softmax_vjp(p, dp) - p * dlse[..., None],
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_row_law_rejects_a_broken_gradient(name):
    saved = ref.attention(**full("dropout"))
    do, dlse = cotangents(saved)
    dp = np.einsum("bhic,bhjc->bhij", do, ref.expand_kv_heads(saved.v, H)) * saved.keep
    wrong = BROKEN[name](saved.p, dp, saved.keep, dlse)
    with pytest.raises(AssertionError, match="row sums"):
        check_close("row sums", wrong.sum(axis=-1), dlse, terms=1.0 + np.abs(wrong).sum(axis=-1))


def test_the_row_law_does_not_see_a_missing_factor_or_a_missing_head():
    """Both keep every sum of a row: the scale on a bias outside, and one head in place of their sum."""
    saved = ref.attention(**full("plain"))
    do, _ = cotangents(saved)
    dbias = ref.attention_vjp(saved, do).dbias
    for wrong in (0.6 * dbias, dbias[:, -1:]):
        terms = np.abs(wrong).sum(axis=-1)
        check_close("row sums", wrong.sum(axis=-1), np.zeros(terms.shape), terms=terms)
    assert np.abs(dbias[:, -1] - dbias.sum(axis=1)).max() > 0.1


def test_a_sum_of_weights_as_loss_has_no_gradient_but_through_dropout():
    """The loss of all weights is constant; dropped weights no longer sum to one."""
    unit = {"v": np.ones((B, H_KV, M, 1))}
    for name, least in (("plain", None), ("dropout", 1e-2), ("sink", 1e-2)):
        saved = ref.attention(**(full(name) | unit))
        found = ref.attention_vjp(saved, np.ones(saved.o.shape))
        largest = max(np.abs(x).max() for x in (found.dq, found.dk, found.dbias))
        assert largest < 1e-14 if least is None else largest > least
