"""The attention reference: its values by definition, gradients by differences, and mutants of its source."""

import importlib
import inspect
from types import ModuleType

import numpy as np
import pytest

from attngrad import reference as ref
from attngrad.checks import check_close

from .attention_cases import CASES, MASK, SHAPE, Case, D, H, M, N, check_forward, check_gradients

# The name attngrad.reference.attention is the function; its module is found by import alone.
SOURCE = inspect.getsource(importlib.import_module("attngrad.reference.attention"))


@pytest.mark.parametrize("name", CASES)
def test_the_forward_pass_is_its_definition(name):
    check_forward(name)


@pytest.mark.parametrize("name", CASES)
def test_every_gradient_agrees_with_differences(name):
    check_gradients(name)


LAYOUTS = [
    *(tuple(size if k >> axis & 1 else 1 for axis, size in enumerate(SHAPE)) for k in range(2 ** len(SHAPE))),
    *((), (1,), (M,), (N, 1), (N, M), (H, 1, 1), (H, N, M)),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("inside", [False, True], ids=["outside", "inside"])
def test_a_bias_of_every_layout_has_the_gradient_of_differences(layout, inside):
    check_gradients("layout", case=Case(bias=layout, options={"bias_inside_scale": inside}))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_the_gradient_of_a_broadcast_bias_is_the_sum_over_its_copies(layout):
    case = Case(bias=layout, options={"mask": MASK, "softcap": 1.5, "bias_inside_scale": True})
    inputs = case.inputs()
    saved = case.run(inputs)
    rng = np.random.default_rng(1)
    do, dlse = rng.standard_normal(saved.o.shape), rng.standard_normal(saved.lse.shape)
    got = ref.attention_vjp(saved, do, dlse).dbias
    copies = np.broadcast_to(inputs[3], SHAPE)
    full = ref.attention_vjp(case.run((*inputs[:3], copies, *inputs[4:])), do, dlse).dbias
    want, terms = np.zeros(layout), np.zeros(layout)
    for at in np.ndindex(SHAPE):
        own = tuple(k if size > 1 else 0 for k, size in zip(at[4 - len(layout) :], layout, strict=True))
        want[own] += full[at]
        terms[own] += abs(full[at])
    check_close("dbias", got, want, terms=terms)
    assert got.shape == layout


def test_the_scale_is_one_over_the_root_of_the_features_where_nothing_is_said():
    case, inputs = CASES["default-scale"], CASES["default-scale"].inputs()
    assert case.run(inputs).scale == ref.attention(*inputs, scale=1.0 / np.sqrt(D)).scale == 1.0 / np.sqrt(D)
    assert np.array_equal(case.run(inputs).o, ref.attention(*inputs, scale=1.0 / np.sqrt(D)).o)


def test_without_a_cotangent_lse_gets_zeros():
    saved = CASES["all"].run(CASES["all"].inputs())
    do = np.random.default_rng(2).standard_normal(saved.o.shape)
    for got, want in zip(
        ref.attention_vjp(saved, do), ref.attention_vjp(saved, do, np.zeros(saved.lse.shape)), strict=True
    ):
        assert np.array_equal(got, want)


def test_what_is_not_given_has_no_gradient():
    saved = CASES["no-bias"].run(CASES["no-bias"].inputs())
    found = ref.attention_vjp(saved, np.ones(saved.o.shape))
    assert found.dbias is None
    assert found.dsink is None
    assert isinstance(found.dscale, float)
    assert not saved.p_sink.any()


# option, the case that has it, and the same call without it: what it does must be seen in o or lse
ACTING = {
    "bias": ("plain", {"bias": None}),
    "scale": ("plain", {"scale": None}),
    "bias_inside_scale": ("inside", {"bias_inside_scale": False}),
    "softcap": ("cap", {"softcap": None}),
    "softcap value": ("cap", {"softcap": 1.6}),
    "softcap_on": ("cap-product", {"softcap_on": "scores"}),
    "mask": ("mask", {"mask": None}),
    "causal": ("causal", {"causal": False}),
    "query_start": ("causal-top-left", {"query_start": None}),
    "sink": ("sink", {"sink": None}),
    "keep": ("dropout", {"keep": None, "dropout": 0.0}),
    "dropout": ("dropout", {"dropout": 0.2}),
    "hidden": ("hidden", {"bias": np.zeros((H, N, M))}),
}


@pytest.mark.parametrize("option", ACTING)
def test_each_option_is_seen_to_act(option):
    name, without = ACTING[option]
    named = CASES[name].keywords(CASES[name].inputs())
    given, other = ref.attention(**named), ref.attention(**(named | without))
    assert np.abs(given.o - other.o).max() > 1e-2
    do = np.random.default_rng(3).standard_normal(given.o.shape)
    there, here = ref.attention_vjp(other, do), ref.attention_vjp(given, do)
    assert np.abs(there.dq - here.dq).max() > 1e-2


def test_inputs_are_left_as_they_were_and_strides_do_not_matter():
    case = CASES["all"]
    named = case.keywords(case.inputs())
    kept = {key: x.copy() for key, x in named.items() if isinstance(x, np.ndarray)}
    saved = ref.attention(**named)
    # A cotangent with stride 0, as the gradient of a sum has, and the inputs as views with other strides.
    do = np.broadcast_to(np.array(0.7), saved.o.shape)
    want = ref.attention_vjp(saved, np.ascontiguousarray(do))
    views = {key: np.asfortranarray(x) for key, x in kept.items()}
    for got in (ref.attention_vjp(saved, do), ref.attention_vjp(ref.attention(**(named | views)), do)):
        for ours, theirs in zip(got, want, strict=True):
            check_close("strides", ours, theirs, terms=10.0)
    assert all(np.array_equal(named[key], x) for key, x in kept.items())


# What is changed in the source, into what, and the case whose checks must reject it.
MUTANTS = {
    "delta forgotten": ("dp - delta[..., None] + dlse", "dp + dlse", "plain"),
    "cotangent of lse forgotten": (" + dlse[..., None])", ")", "plain"),
    "cotangent of lse subtracted": (" + dlse[..., None])", " - dlse[..., None])", "plain"),
    "delta of dropped weights": ("delta = (saved.p * dp)", "delta = (dropped * dp)", "dropout"),
    "dropout not in dp": ("dropped > 0.0) * saved.keep", "dropped > 0.0)", "dropout"),
    "dropout not in dv": ("dv = _transposed(dropped) @ do", "dv = _transposed(saved.p) @ do", "dropout"),
    "dropout not in o": ("o=(p * keep) @ values", "o=p @ values", "dropout"),
    "dropout without rate": ("shape) / (1.0 - rate)", "shape) / 1.0", "dropout"),
    "dropout by the rate": ("shape) / (1.0 - rate)", "shape) / rate", "dropout"),
    "no cap on scores backward": ("None if on_product else saved.softcap, ds)", "None, ds)", "cap"),
    "no cap on product backward": ("saved.softcap if on_product else None, ds)", "None, ds)", "cap-product"),
    "cap's derivative not squared": ("(capped / cap) ** 2", "(capped / cap)", "cap"),
    "cap's derivative of the quotient": ("(capped / cap) ** 2", "capped ** 2", "cap"),
    "cap not multiplied back": ("cap * np.tanh", "np.tanh", "cap"),
    "cap on product reaches the bias": ("else ds, saved.bias.sh", "else dx, saved.bias.sh", "cap-product"),
    "cap before the bias": (
        'allowed), cap if softcap_on == "product" else None)',
        "allowed), cap)",
        "cap",
    ),
    "cap on a hidden key": (
        "return bias, over_pairs, allowed",
        "return bias, np.where(allowed, over_pairs, -1e9), mask",
        "hidden-cap",
    ),
    "dq without scale": ("dq = saved.scale * through_keys", "dq = through_keys", "plain"),
    "dk without scale": ("dk = saved.scale * _transposed(dx)", "dk = _transposed(dx)", "plain"),
    "dk not transposed back": ("_transposed(dx) @ q", "_transposed(ds) @ q", "cap-product"),
    "bias inside without scale": ("saved.scale * ds if", "ds if", "inside"),
    "bias outside with scale": ("inside_scale else ds, ", "inside_scale else saved.scale * ds, ", "plain"),
    "bias inside as if outside": ("scale * b if bias_inside_scale else b", "b", "inside"),
    "bias outside as if inside": ("scale * b if bias_inside_scale else b", "scale * b", "plain"),
    "dscale without the bias": ("dscale += float(", "float(", "inside"),
    "dscale times the scale": ("float((through_keys * q).sum())", "float((dq * q).sum())", "plain"),
    "root of the features forgotten": ("1.0 / np.sqrt(D)", "1.0 / D", "default-scale"),
    "broadcast mean": ("x.sum(axis=stretched", "x.mean(axis=stretched", "shared-rows"),
    "broadcast last": ("x.sum(axis=stretched, keepdims=True)", "x[-1:, :, -1:]", "shared-rows"),
    "no sum over batch": (
        "x.sum(axis=tuple(range(x.ndim - len(shape))))",
        "x if x.ndim == len(shape) else x[-1]",
        "plain",
    ),
    "sink not in lse": ("lse=lse(logits, visible)", "lse=lse(s, allowed)", "sink"),
    "sink not in the weights": (
        "weights = softmax(logits, visible)",
        "weights = np.append(softmax(s, allowed), 0.0 * logits[..., -1:], axis=-1)",
        "sink",
    ),
    "dsink without lse": ("saved.p_sink * (dlse - delta)", "saved.p_sink * -delta", "sink"),
    "dsink without delta": ("saved.p_sink * (dlse - delta)", "saved.p_sink * dlse", "sink"),
    "dsink with the other sign": ("saved.p_sink * (dlse - delta)", "saved.p_sink * (delta - dlse)", "sink"),
    "other alignment": ("shape[-2:], query_start)", "shape[-2:], 0)", "causal"),
    "query_start not read": ("shape[-2:], query_start)", "shape[-2:])", "causal-top-left"),
    "causal without the mask": ("allowed & causal_mask", "allowed | True & causal_mask", "all"),
    "heads shared in turns": (
        "keys, values = expand_kv_heads(k, shape[1])",
        "keys, values = np.tile(k, (1, shape[1] // k.shape[1], 1, 1))",
        "plain",
    ),
    "only one head of a group": (
        "(reduce_kv_heads(x, saved.k.shape[1]) for x in (dk, dv))",
        "(x[:, :: x.shape[1] // saved.k.shape[1]] for x in (dk, dv))",
        "plain",
    ),
}  # fmt: skip


def mutated(fragment: str, replacement: str) -> ModuleType:
    """Return the module with one place of its source changed."""
    assert SOURCE.count(fragment) == 1, f"{fragment!r} occurs {SOURCE.count(fragment)} times in the source"
    module = ModuleType("mutated")
    exec(compile(SOURCE.replace(fragment, replacement), "mutated", "exec"), module.__dict__)
    return module


def check_all(name: str, library: ModuleType) -> None:
    """Require the forward pass and all gradients of a case to be right."""
    check_forward(name, library)
    check_gradients(name, library)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_changed_source_is_rejected(name):
    fragment, replacement, case = MUTANTS[name]
    library = mutated(fragment, replacement)
    with pytest.raises(AssertionError):
        check_all(case, library)


@pytest.mark.parametrize("name", sorted({case for *_, case in MUTANTS.values()}))
def test_the_source_as_it_is_passes_the_same_checks(name):
    check_all(name, mutated("dp - delta[..., None]", "dp - delta[..., None]"))
