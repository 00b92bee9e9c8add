"""A plain callable as an implementation: parameters by their names, leaves by what is asked for."""

from collections import namedtuple
from functools import partial

import numpy as np
import pytest
import torch

from attngrad.doctor import Spec, t5
from attngrad.doctor.running.runners import CannotRun, InProcess
from attngrad.doctor.spec import OPTIONS

from .run_subjects import case, close, exact

BIAS = np.random.default_rng(3).standard_normal((1, 2, 3, 5)).astype(np.float32).astype(np.float64)
MASK = BIAS[:, :1] > -1.0
Named = namedtuple("Named", ["out", "lse"])


def scores(q, k, scale, bias=None, mask=None):
    """Return the scores of all pairs."""
    s = q @ k.mT * scale
    s = s if bias is None else s + bias
    return s if mask is None else s.masked_fill(~mask, -torch.inf)


def attend(q, k, v, bias=None, mask=None, is_causal=False, sm_scale=1.0, window=None, return_lse=False):
    """Return attention with a few options, and the log-sum-exp where it is asked for."""
    allowed = mask
    if is_causal:
        N, M = q.shape[2], k.shape[2]
        corner = torch.ones(N, M, dtype=torch.bool).tril(M - N)
        allowed = corner if mask is None else mask & corner
    s = scores(q, k, sm_scale, bias, allowed)
    o = torch.softmax(s, dim=-1) @ v
    return (o, s.logsumexp(dim=-1)) if return_lse else o


def ran(function, one, spec=None):
    """Return what came of a case."""
    with InProcess(function, spec) as run:
        return run.run(one, spec or run.describe().spec)


def test_the_signature_tells_a_specification():
    with InProcess(attend) as run:
        told = run.describe()
    assert told.spec == Spec(
        bias=("bhnm", "1hnm", "b1nm", "11nm"),
        causal="both",
        options=("cross", "strides", "mask", "lse", "dlse"),
    )
    assert told.notes == ("not passed: window", "mask is passed with True where a query may attend")
    with InProcess(lambda query, key, value: value) as run:
        assert run.describe().spec == Spec(scale="default")


def test_every_option_of_a_signature_is_known():
    def everything(
        q, k, v, attn_mask, keep, dropout_p, causal, query_start, sink, softcap, lengths, enable_gqa
    ):
        """Take nearly all."""

    with InProcess(everything) as run:
        options = run.describe().spec.options
    named = {"mask", "dropout", "gqa", "packed", "query-start", "sink", "softcap"}
    assert set(options) == {"cross", "strides", *named}
    assert set(options) <= set(OPTIONS)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dtype": "float64", "bias_dtype": "float64"},
        {"causal": True},
        {"mask": MASK},
        {"bias": BIAS, "wants": ("dq", "dk", "dv", "dbias")},
        {"bias": BIAS, "mask": MASK, "causal": True, "wants": ("dbias", "dq")},
        {"dlse": np.ones((2, 2, 3))},
        {"strides": "sliced", "dlse": np.ones((2, 2, 3))},
    ],
)
def test_gradients_are_those_of_the_formula(options):
    one = case(**options)
    outcome = ran(attend, one)
    assert (outcome.status, outcome.faults) == ("ok", ())
    assert set(outcome.answers) == {"o", "lse", *one.wants}
    assert close(one, outcome, ("o", "lse", *one.wants))


@pytest.mark.parametrize("wants", [("dq",), ("dk", "dv"), ("dbias",), ()])
def test_only_what_is_wanted_requires_a_gradient(wants):
    seen = {}

    def watched(q, k, v, bias, scale):
        seen.update(dq=q.requires_grad, dk=k.requires_grad, dv=v.requires_grad, dbias=bias.requires_grad)
        return attend(q, k, v, bias, sm_scale=scale)

    outcome = ran(watched, case(bias=BIAS, wants=wants))
    assert {name for name, asked in seen.items() if asked} == set(wants)
    assert set(outcome.answers) == {"o", *wants}


def test_the_scale_is_a_leaf_where_its_gradient_is_wanted():
    one = case(wants=("dscale", "dq"))
    assert close(one, ran(attend, one), ("dscale", "dq"))


def test_a_gradient_that_autograd_does_not_find_is_missing():
    def cut(q, k, v, scale):
        return attend(q.detach(), k, v, sm_scale=scale)

    assert set(ran(cut, case()).answers) == {"o", "dk", "dv"}
    assert set(ran(lambda q, k, v, scale: v.detach()[:, :, :3], case()).answers) == {"o"}


def test_one_parameter_may_take_mask_and_bias():
    def both(query, key, value, attn_mask=None, scale=None):
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask, scale=scale)

    for options in ({"mask": MASK}, {"bias": BIAS}, {"mask": MASK, "bias": BIAS}):
        one = case(**options, wants=("dq", "dk", *(["dbias"] if "bias" in options else [])))
        assert close(one, ran(both, one), ("o", *one.wants))


@pytest.mark.parametrize(
    "returned",
    [
        lambda o, lse: (o, lse),
        lambda o, lse: [o, None, lse],
        lambda o, lse: {"out": o, "lse": lse},
        lambda o, lse: Named(o, lse),
    ],
)
def test_what_is_returned_may_have_several_forms(returned):
    def attention(q, k, v, scale):
        return returned(*attend(q, k, v, sm_scale=scale, return_lse=True))

    one = case()
    assert close(one, ran(attention, one), ("o", "lse", "dq", "dk", "dv"))


def test_what_returns_no_tensor_is_told():
    outcome = ran(lambda q, k, v, scale: {"weights": q}, case())
    assert outcome.status == "error"
    assert "expected a tensor, (o, lse), or o and lse by name, got dict" in outcome.text


class ByHand(torch.autograd.Function):
    """Attention of a custom backward pass, with a context in front."""

    @staticmethod
    def forward(ctx, q, k, v, causal=False, scale=1.0):
        with torch.enable_grad():
            ctx.leaves = [x.detach().requires_grad_() for x in (q, k, v)]
            ctx.o = attend(*ctx.leaves, is_causal=causal, sm_scale=scale)
        return ctx.o.detach()

    @staticmethod
    def backward(ctx, do):
        return (*torch.autograd.grad(ctx.o, ctx.leaves, do), None, None)


class SetUp(ByHand):
    """The same with its context set up apart."""

    @staticmethod
    def forward(q, k, v, causal, scale):
        return attend(q, k, v, is_causal=causal, sm_scale=scale)

    @staticmethod
    def setup_context(ctx, inputs, output):
        q, k, v, causal, scale = inputs
        with torch.enable_grad():
            ctx.leaves = [x.detach().requires_grad_() for x in (q, k, v)]
            ctx.o = attend(*ctx.leaves, is_causal=causal, sm_scale=scale)


class Layer(torch.nn.Module):
    """A module."""

    def forward(self, q, k, v, is_causal=False, scale=1.0):
        return attend(q, k, v, is_causal=is_causal, sm_scale=scale)


@pytest.mark.parametrize("function", [ByHand, SetUp, Layer, Layer(), partial(attend, window=3)])
def test_functions_of_autograd_and_modules_are_callables(function):
    for one in (case(), case(causal=True, wants=("dv",))):
        outcome = ran(function, one)
        assert (outcome.status, outcome.text) == ("ok", "")
        assert close(one, outcome, ("o", *one.wants))


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda q, k, v, foo: v, "foo has no default and no known meaning; known names are q, query"),
        (lambda q, k: q, "no v found; known names are"),
        (lambda x: x, "x has no default and no known meaning"),
        (lambda q, k, v, scale=1.0, sm_scale=1.0: v, "one parameter that is a scale, got scale and sm_scale"),
        (max, "max: it has no signature; wrap it in a function of q, k, v"),
    ],
)
def test_a_signature_that_is_not_understood_is_refused(function, said):
    with pytest.raises(CannotRun) as error:
        InProcess(function)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"bias": BIAS}, "the callable takes no bias"),
        ({"mask": MASK}, "the callable takes no mask"),
        ({"sink": np.zeros(2)}, "the callable takes no sink"),
        ({"softcap": 2.0}, "the callable takes no soft-cap"),
        ({"keep": MASK, "dropout": 0.5}, "the callable takes no mask of dropout"),
        ({"causal": True}, "the callable takes no flag for causal masking"),
        ({"table": np.zeros((2, 1)), "row": np.zeros((3, 5), int)}, "the callable takes no table"),
        ({"lengths": (2, 1), "M": 3}, "the callable takes no lengths of packed sequences"),
    ],
)
def test_a_case_with_more_than_the_callable_takes_is_not_tried(options, said):
    outcome = ran(lambda q, k, v, scale: attend(q, k, v, sm_scale=scale), case(**options))
    assert (outcome.status, outcome.text) == ("unsupported", said)


def test_what_is_built_in_is_claimed_and_not_passed():
    def decoder(q, k, v):
        return attend(q, k, v, is_causal=True, sm_scale=0.5)

    one = case(causal=True, scale=0.5)
    assert close(one, ran(decoder, one, Spec(causal="always", scale=0.5)))
    assert ran(decoder, one, Spec(causal="both", scale=0.5)).status == "unsupported"
    assert ran(decoder, one, Spec(causal="always")).text == "the callable takes no scale"
    moved = case(causal=True, scale=0.5, query_start=0)
    told = "the callable takes no position of the first query"
    assert ran(decoder, moved, Spec(causal="always", scale=0.5)).text == told
    assert ran(decoder, moved, Spec(causal="always", scale=0.5, alignment="top-left")).status == "ok"


def test_what_has_no_default_gets_what_changes_nothing():
    def needy(q, k, v, bias, mask, keep, dropout, scale):
        p = torch.softmax(scores(q, k, scale, bias, mask), dim=-1)
        return (p * keep / (1.0 - dropout)) @ v

    for one in (case(), case(bias=BIAS), case(keep=MASK, dropout=0.25)):
        assert close(one, ran(needy, one))


def test_a_table_needs_a_map():
    def shared(q, k, v, table, row, scale):
        return attend(q, k, v, table[:, row], sm_scale=scale)

    with InProcess(shared) as run:
        told = run.describe()
        said = "is taken for the table of a bias, and tried where the specification has a map"
        assert told.notes == (f"table {said}",)
        assert run.run(case(), told.spec).text == "the callable needs a table"
    spec = Spec(map=t5(4, 8))
    one = case(table=np.arange(8.0).reshape(2, 4) / 8.0, row=spec.map(3, 5), wants=("dtable", "dk"))
    outcome = ran(shared, one, spec)
    want = exact(one)
    assert np.allclose(outcome.answers["dk"], want["dk"], atol=1e-6)
    dbias = want["dbias"].sum(axis=0) if want["dbias"].ndim == 4 else want["dbias"]
    dtable = np.zeros((2, 4))
    for h in range(2):
        np.add.at(dtable[h], one.row, dbias[h])
    assert np.allclose(outcome.answers["dtable"], dtable, atol=1e-6)


def test_a_callable_is_not_run_with_numpy():
    assert "with torch alone" in ran(attend, case(), Spec(framework="numpy")).text
