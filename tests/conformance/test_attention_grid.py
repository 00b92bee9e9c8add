"""Attention with closed-form derivatives against autograd, the reference and torch's own attention."""

import importlib
import inspect

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from attngrad import layers
from attngrad.checks import check_close

from .attention_eager import Case, as_tensors, check_case, layer, without_each_option

INSIDE, CAP = {"bias_inside_scale": True}, {"softcap": 1.5}
PRODUCT = {"softcap": 1.5, "softcap_on": "product"}
CASES = {
    "plain": Case(),
    "no bias": Case(bias=None),
    "default scale": Case(scale=None),
    "negative scale": Case(scale=-0.7),
    "shared": Case(bias="B1NM"),
    "inside": Case(options=INSIDE),
    "cap": Case(options=CAP),
    "cap, inside": Case(options=CAP | INSIDE),
    "cap on the product": Case(options=PRODUCT),
    "cap on the product, inside": Case(options=PRODUCT | INSIDE),
    "mask": Case(mask=True),
    "causal": Case(options={"causal": True}),
    "causal, top left": Case(options={"causal": True, "query_start": 0}),
    "causal, with empty rows": Case(options={"causal": True, "query_start": -3}),
    "causal, more queries than keys": Case((2, 4, 2, 13, 11, 9, 6), options={"causal": True}),
    "sink": Case(sink=True),
    "sink, mask": Case(sink=True, mask=True),
    "dropout": Case(keep=True),
    "hidden": Case(hidden=True),
    "hidden, inside": Case(hidden=True, options=INSIDE),
    "hidden, cap": Case(hidden=True, options=CAP),
    "hidden, cap on the product": Case(hidden=True, options=PRODUCT),
    "all": Case(sink=True, hidden=True, mask=True, keep=True, options=CAP | INSIDE | {"causal": True}),
    "all, cap on the product": Case(
        bias="B1NM", sink=True, hidden=True, mask=True, keep=True,
        options=PRODUCT | INSIDE | {"causal": True, "query_start": 4},
    ),
}  # fmt: skip
LAYOUTS = ["BHNM", "HNM", "NM", "1HNM", "B1NM", "BH1M", "BHN1", "11NM", "B11M", "H11", "M", "1111", ""]
SIZES = {
    "one query": (2, 4, 2, 1, 13, 9, 6),
    "one key": (2, 4, 2, 11, 1, 9, 6),
    "one of each": (1, 1, 1, 1, 1, 1, 1),
    "primes": (3, 5, 5, 17, 19, 5, 7),
    "one head of keys": (2, 3, 1, 7, 5, 9, 3),
    "groups of three": (3, 6, 2, 5, 7, 3, 9),
    "no key": (2, 4, 2, 3, 0, 5, 6),
    "no query": (2, 4, 2, 0, 3, 5, 6),
    "no batch": (0, 4, 2, 2, 3, 5, 6),
    "no feature of a value": (2, 4, 2, 3, 5, 9, 0),
}


@pytest.mark.parametrize("name", CASES)
def test_every_option(name):
    check_case(CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_every_option_acts_on_its_case(name):
    case = CASES[name]
    inputs, rest = as_tensors(case.drawn()), as_tensors(case.rest())
    o, lse = layer(**inputs, **rest)
    for option, without in without_each_option(case).items():
        other = as_tensors(without.drawn())
        named = {key: x for key, x in inputs.items() if key in other}
        if option == "hidden":
            named["bias"] = inputs["bias"].masked_fill(inputs["bias"].isneginf(), 0.0)
        changed, _ = layer(**named, **as_tensors(without.rest()))
        assert (o - changed).abs().max() > 0.05, option
    assert lse.isfinite().any()


@pytest.mark.parametrize("form", [{}, INSIDE, CAP, PRODUCT | INSIDE])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_of_the_bias(layout, form):
    check_case(Case(bias=layout, mask=True, options=form))


@pytest.mark.parametrize("name", SIZES)
def test_sizes_at_the_edge(name):
    sizes = SIZES[name]
    check_case(Case(sizes))
    check_case(Case(sizes, bias="B1NM", sink=True, mask=True, keep=True, options=CAP | INSIDE))
    check_case(Case(sizes, bias=None, scale=None, options={"causal": True} | PRODUCT))


forms = st.fixed_dictionaries(
    {"bias_inside_scale": st.booleans(), "softcap": st.none() | st.floats(0.3, 30.0)},
    optional={"softcap_on": st.sampled_from(["scores", "product"])},
)
starts = st.none() | st.integers(-4, 14)
causal = st.just({}) | st.builds(lambda start: {"causal": True, "query_start": start}, starts)
cases = st.builds(
    lambda B, H_kv, group, rest, **named: Case((B, H_kv * group, H_kv, *rest), **named),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 3),
    st.tuples(*[st.integers(1, 13)] * 4),
    bias=st.sampled_from([None, *LAYOUTS]),
    scale=st.none() | st.integers(-7, 7).map(lambda seventh: seventh / 7),
    sink=st.booleans(),
    hidden=st.booleans(),
    mask=st.booleans(),
    keep=st.booleans(),
    options=st.builds(lambda form, also: form | also, forms, causal),
)


@settings(max_examples=150)
@given(cases, st.integers(0, 10**6))
def test_any_combination_of_options(case, seed):
    check_case(case, seed)


def sdpa(q, k, v, bias=None, **named):
    """Return torch's own attention, by its plain implementation."""
    with sdpa_kernel(SDPBackend.MATH):
        return scaled_dot_product_attention(q, k, v, attn_mask=bias, **named)


@pytest.mark.parametrize("heads", [(4, 4), (6, 2)])
@pytest.mark.parametrize("layout", [None, "BHNM", "1HNM", "NM", "B1NM", "BH1M"])
@pytest.mark.parametrize("scale", [None, 0.37])
def test_torch_attention_with_a_bias_that_is_learned(layout, heads, scale):
    case = Case((2, *heads, 11, 13, 9, 6), bias=layout, scale=None)
    inputs = {name: torch.tensor(x, requires_grad=True) for name, x in case.drawn().items()}
    do = torch.tensor(case.cotangents()[0])
    options = {"scale": scale, "enable_gqa": heads[0] != heads[1]}
    want = torch.autograd.grad(sdpa(**inputs, **options), list(inputs.values()), do)
    o = layers.attention(**inputs, scale=scale)
    check_close("o", o, sdpa(**inputs, **options), terms=5.0)
    got = torch.autograd.grad(o, list(inputs.values()), do)
    for name, *both in zip(inputs, got, want, strict=True):
        check_close(f"d{name}", *both, terms=100.0)


@pytest.mark.parametrize("sizes", [(2, 4, 4, 11, 13, 9, 6), (2, 4, 2, 13, 11, 9, 6)])
def test_causal_attention_of_torch_is_aligned_top_left(sizes):
    case = Case(sizes, bias=None, scale=None)
    inputs = [torch.tensor(x, requires_grad=True) for x in case.drawn().values()]
    do = torch.tensor(case.cotangents()[0])
    want = sdpa(*inputs, is_causal=True, enable_gqa=True)
    got = layers.attention(*inputs, causal=True, query_start=0)
    check_close("o", got, want, terms=5.0)
    for name, *both in zip("qkv", *(torch.autograd.grad(o, inputs, do) for o in (got, want)), strict=True):
        check_close(f"d{name}", *both, terms=100.0)
    assert (layers.attention(*inputs, causal=True) - want).abs().max() > 0.1


CLOSED, LAYER = (importlib.import_module(f"attngrad.{part}.attention") for part in ("closed", "layers"))
ARGUMENTS = importlib.import_module("attngrad.layers.attention_arguments")
BACKWARD = CLOSED.Attention.backward


def scores_without(**wrong):
    """Return `through_scores` with some of its results replaced."""
    right = CLOSED.through_scores

    def planted(parts, ds, needed):
        found = zip(("dq", "dk", "dbias", "dscale"), right(parts, ds, needed), strict=True)
        return tuple(wrong[name](parts, ds, x) if name in wrong else x for name, x in found)

    return planted


def weights_without(name):
    """Return `through_weights` as if one of its arguments were None."""
    right = CLOSED.through_weights
    names = list(inspect.signature(right).parameters)

    def planted(*given):
        return right(**dict(zip(names, given, strict=True)) | {name: None})

    return planted


def no_delta(v, keep, lse, p, do, dlse, dp):
    """Return ds without the mean of its row."""
    dp = CLOSED.dropped(CLOSED.over_features(do, v), keep)
    return p * (torch.nn.functional.pad(dp, (0, p.shape[-1] - dp.shape[-1])) + dlse.unsqueeze(-1))


def last_of_group(w, x, H_kv):
    """Return w^T x of the last head of each group."""
    step = w.shape[1] // H_kv
    return w[:, step - 1 :: step].mT @ x[:, step - 1 :: step]


def kept_all(ctx, do, dlse, dp):
    """Return the cotangents with dv as if dropout had kept all weights."""
    found, p, k = BACKWARD(ctx, do, dlse, dp), ctx.saved_tensors[-1], ctx.saved_tensors[1]
    return *found[:2], CLOSED.over_queries(p, do, k.shape[1]), *found[3:]


def hidden_as_zero(bias, *rest, **named):
    """Return the bias with -inf read as 0."""
    right = ARGUMENTS.checked_bias(bias, *rest, **named)
    return right._replace(of_pairs=right.of_pairs.masked_fill(right.of_pairs.isneginf(), 0.0))


def causal_top_left(*given, **named):
    """Return where queries may attend, with the first query aligned with the first key."""
    return ARGUMENTS.checked_place(*given, **named)._replace(query_start=0)


def by_scores(**wrong):
    """Return where `scores_without` is planted."""
    return {"closed.through_scores": scores_without(**wrong)}


MISTAKES = {
    "no delta": ("all", {"closed.through_weights": no_delta}),
    "cotangent of lse ignored": ("plain", {"closed.through_weights": weights_without("dlse")}),
    "keep not in dp": ("dropout", {"closed.through_weights": weights_without("keep")}),
    "keep not in dv": ("dropout", {"closed.Attention.backward": staticmethod(kept_all)}),
    "dq without the scale": ("plain", by_scores(dq=lambda parts, ds, x: x / parts.scale)),
    "dk without the scale": ("plain", by_scores(dk=lambda parts, ds, x: x / parts.scale)),
    "scale in the bias outside": ("plain", by_scores(dbias=lambda parts, ds, x: x * parts.scale)),
    "no scale in the bias inside": ("inside", by_scores(dbias=lambda parts, ds, x: x / parts.scale)),
    "bias not in dscale": ("inside", by_scores(dscale=lambda parts, ds, x: x - (ds * parts.bias).sum())),
    "last batch alone in dbias": ("plain", by_scores(dbias=lambda parts, ds, x: ds[-1])),
    "last head alone in dbias": ("shared", by_scores(dbias=lambda parts, ds, x: ds[:, -1:])),
    "mean over the batch in dbias": ("plain", by_scores(dbias=lambda parts, ds, x: x / len(ds))),
    "last head of a group alone": ("plain", {"closed.over_queries": last_of_group}),
    "no derivative of the cap": ("cap", {"closed.through_cap": lambda x, cap, moved: moved}),
    "nor of that on the product": ("cap on the product", {"closed.through_cap": lambda x, cap, moved: moved}),
    "hidden key read as a bias of 0": ("hidden", {"layers.checked_bias": hidden_as_zero}),
    "causal mask aligned top left": ("causal", {"layers.checked_place": causal_top_left}),
}


@pytest.mark.parametrize("against", ["autograd", "the reference"])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(mistake, against, monkeypatch):
    name, planted = MISTAKES[mistake]
    check_case(CASES[name])
    for target, wrong in planted.items():
        part, *owners, attribute = target.split(".")
        owner = {"closed": CLOSED, "layers": LAYER}[part]
        for inner in owners:
            owner = getattr(owner, inner)
        monkeypatch.setattr(owner, attribute, wrong)
    with pytest.raises(AssertionError, match=f"by {against}: got"):
        check_case(CASES[name], against=(against,))
