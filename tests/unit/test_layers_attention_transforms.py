"""Attention on torch tensors: second and forward derivatives, torch.func, torch.compile, the meta device."""

import importlib
import subprocess
import sys
import textwrap
from functools import partial

import numpy as np
import pytest
import torch
from torch.autograd.gradcheck import GradcheckError
from torch.func import grad, jacfwd, jacrev, jvp, vmap

from attngrad import closed, layers
from attngrad.checks import check_close
from attngrad.notation import DtypeError, RangeError, ShapeError

CLOSED = importlib.import_module("attngrad.closed.attention")
FORWARD_MODE = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
B, H, H_KV, N, M, D, D_V = 2, 2, 1, 3, 4, 3, 2
RNG = np.random.default_rng(0)
SHAPES = [(B, H, N, D), (B, H_KV, M, D), (B, H_KV, M, D_V), (H, N, M), (), (H,)]
INPUTS = tuple(torch.tensor(RNG.standard_normal(shape)) for shape in SHAPES)
NAMES = ("q", "k", "v", "bias", "scale", "sink")
MASK = torch.tensor(RNG.random((B, 1, N, M)) < 0.7)
MASK[0, 0, 1] = False
KEEP = torch.tensor(RNG.random((B, H, N, M)) < 0.7)
FORMS = {
    "plain": {},
    "inside": {"bias_inside_scale": True},
    "cap": {"softcap": 1.3, "bias_inside_scale": True},
    "cap on the product": {"softcap": 1.3, "softcap_on": "product"},
}


def attend(*inputs, **options):
    """Return o and lse of the layer under a mask with an empty row, and dropout."""
    named = dict(zip(NAMES, inputs, strict=True))
    return layers.attention(**named, mask=MASK, keep=KEEP, dropout=0.3, return_lse=True, **options)


def plain(*inputs, form):
    """Return o and lse in plain operations, which torch differentiates."""
    q, k, v, bias, scale, sink = inputs
    return closed.attend(q, k, v, bias, scale, sink, MASK, KEEP.double() / 0.7, *form)[:2]


def as_form(options):
    """Return the options of the layer as the closed form takes them."""
    named = dict(options)
    cap, place = named.pop("softcap", None), named.pop("softcap_on", "scores")
    return closed.Form(**named, **({f"{place}_cap": cap} if cap else {}))


COTANGENTS = torch.tensor(RNG.standard_normal((B, H, N, D_V))), torch.tensor(RNG.standard_normal((B, H, N)))


def loss(f, **options):
    """Return a scalar function of the inputs: o and lse in a random direction."""

    def value(*inputs):
        return sum((x * u).sum() for x, u in zip(f(*inputs, **options), COTANGENTS, strict=True))

    return value


def trainable():
    """Return copies of the inputs that want a gradient."""
    return tuple(x.clone().requires_grad_() for x in INPUTS)


first = partial(torch.autograd.gradcheck, fast_mode=True)
second = partial(torch.autograd.gradgradcheck, fast_mode=True)


@FORWARD_MODE
@pytest.mark.parametrize("options", FORMS.values(), ids=FORMS)
def test_first_second_and_forward_derivatives(options):
    f = partial(attend, **options)
    assert first(f, trainable(), check_forward_ad=True, check_batched_grad=True)
    assert second(f, trainable(), check_fwd_over_rev=True)


def test_derivatives_without_a_sink_or_a_bias():
    def alone(q, k, v):
        o, lse = layers.attention(q, k, v, mask=MASK, return_lse=True)
        return o, lse.masked_fill(lse.isneginf(), 0.0)

    assert first(alone, trainable()[:3])
    assert second(alone, trainable()[:3])


def cotangent_of_p_ignored(v, keep, lse, p, do, dlse, dp):
    """Return ds as if p were not read by the backward pass."""
    return RIGHT["through_weights"](v, keep, lse, p, do, dlse, None if do is not None else 0.0 * p)


def no_tangent_of_k(parts, tq, tk, tbias, tscale):
    """Return the tangent of the scores without that of k."""
    return RIGHT["tangent_of_scores"](parts, tq, None, tbias, tscale)


RIGHT = {name: getattr(CLOSED, name) for name in ("through_weights", "tangent_of_scores")}


def test_a_lost_cotangent_of_p_is_found_by_the_second_derivative(monkeypatch):
    monkeypatch.setattr(CLOSED, "through_weights", cotangent_of_p_ignored)
    assert first(attend, trainable())
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        second(attend, trainable())


@FORWARD_MODE
def test_a_lost_tangent_is_found_in_forward_mode(monkeypatch):
    monkeypatch.setattr(CLOSED, "tangent_of_scores", no_tangent_of_k)
    assert first(attend, trainable())
    with pytest.raises(GradcheckError, match="Jacobian computed with forward mode mismatch"):
        first(attend, trainable(), check_forward_ad=True)


@FORWARD_MODE
@pytest.mark.parametrize("inner", [jacrev, jacfwd])
@pytest.mark.parametrize("outer", [jacrev, jacfwd])
@pytest.mark.parametrize("options", FORMS.values(), ids=FORMS)
def test_second_derivatives_in_every_combination_of_modes(options, outer, inner):
    by = (0, 1, 2, 3, 4, 5)
    got = outer(inner(loss(attend, **options), by), by)(*INPUTS)
    want = jacrev(jacrev(loss(plain, form=as_form(options)), by), by)(*INPUTS)
    for first, *rows in zip(NAMES, got, want, strict=True):
        for second, *both in zip(NAMES, *rows, strict=True):
            check_close(f"by {first} and {second}", *both, terms=100.0)


@FORWARD_MODE
def test_nested_forward_levels_need_plain_operations(monkeypatch):
    want = jacrev(jacrev(loss(plain, form=closed.Form()), 4), 4)(*INPUTS)
    check_close("second derivative", jacfwd(jacfwd(loss(attend), 4), 4)(*INPUTS), want, terms=100.0)
    monkeypatch.setattr("attngrad.closed.modes.forward_levels", lambda: 0)
    check_close("second derivative", jacfwd(jacrev(loss(attend), 4), 4)(*INPUTS), want, terms=100.0)
    wrong = jacfwd(jacfwd(loss(attend), 4), 4)(*INPUTS)
    assert (wrong - want).abs() > 0.01 * want.abs()


def test_attention_works_under_vmap():
    more = [torch.stack([x, -0.5 * x, x.flip(-1) if x.ndim else 2.0 * x]) for x in INPUTS]
    outs = vmap(attend)(*more)
    by_all = vmap(grad(loss(attend), argnums=(0, 1, 2, 3, 4, 5)))(*more)
    for row, inputs in enumerate(zip(*more, strict=True)):
        for got, want in zip(outs, attend(*inputs), strict=True):
            check_close("value", got[row], want, terms=10.0)
        wanted = grad(loss(plain, form=closed.Form()), argnums=(0, 1, 2, 3, 4, 5))(*inputs)
        for name, got, want in zip(NAMES, by_all, wanted, strict=True):
            check_close(f"d{name}", got[row], want, terms=100.0)


@FORWARD_MODE
@pytest.mark.parametrize("options", FORMS.values(), ids=FORMS)
def test_forward_mode_reaches_through_vmap(options):
    more, tangents = (tuple(torch.stack([x, factor * x + 0.1]) for x in INPUTS) for factor in (-0.5, 0.7))
    outs, moved = jvp(vmap(partial(attend, **options)), more, tangents)
    for row in range(2):
        at = [tuple(x[row] for x in xs) for xs in (more, tangents)]
        wanted = jvp(partial(plain, form=as_form(options)), *at)
        for name, got, want in zip(("o", "lse"), outs, wanted[0], strict=True):
            check_close(name, got[row], want, terms=10.0)
        for name, got, want in zip(("to", "tlse"), moved, wanted[1], strict=True):
            check_close(name, got[row], want, terms=100.0)


def over_queries(f):
    """Return a function of queries alone: f under vmap at fixed keys and values, in a random direction."""
    k, v = (torch.stack([x, x.flip(2)]) for x in INPUTS[1:3])
    return lambda q: (vmap(f)(q, k, v) * torch.stack([COTANGENTS[0], COTANGENTS[0].flip(0)])).sum()


AROUND_VMAP = {
    "grad": lambda f, q: grad(over_queries(f))(q),
    "grad of grad": lambda f, q: grad(lambda q: grad(over_queries(f))(q).pow(3).sum())(q),
    "grad of vmap of grad": lambda f, q: grad(
        lambda q: vmap(grad(lambda q: f(q, *INPUTS[1:3]).pow(3).sum()))(q).pow(3).sum()
    )(q),
    "jacfwd of jacrev": lambda f, q: jacfwd(jacrev(over_queries(f)))(q),
    "jacrev of jacfwd": lambda f, q: jacrev(jacfwd(over_queries(f)))(q),
    "vmap": lambda f, q: vmap(vmap(f, (0, None, None)), (None, 0, 0))(q, *(x[None] for x in INPUTS[1:3])),
}


@FORWARD_MODE
@pytest.mark.parametrize("transform", AROUND_VMAP.values(), ids=AROUND_VMAP)
def test_transforms_around_vmap(transform):
    def layer(q, k, v):
        return layers.attention(q, k, v, scale=0.6, mask=MASK, softcap=1.3)

    def in_plain_operations(q, k, v):
        scale = torch.tensor(0.6, dtype=torch.float64)
        return closed.attend(q, k, v, None, scale, None, MASK, None, False, None, 1.3)[0]

    q = torch.stack([INPUTS[0], INPUTS[0].roll(1, 2)])
    got, want = (transform(f, q) for f in (layer, in_plain_operations))
    check_close("result", got, want, terms=10.0)
    assert want.abs().max() > 0.01


def test_vmap_over_one_input_alone():
    biases = torch.stack([INPUTS[3], 2.0 * INPUTS[3]])
    q, k, v = INPUTS[:3]
    masks = torch.stack([MASK, ~MASK])
    got = vmap(lambda bias, mask: layers.attention(q, k, v, bias, mask=mask))(biases, masks)
    for row in range(2):
        check_close("o", got[row], layers.attention(q, k, v, biases[row], mask=masks[row]), terms=10.0)


def spoilt(name, value):
    """Return two copies of all inputs, in the second of which one entry of an input is replaced."""
    both = {other: torch.stack([x, x]) for other, x in zip(NAMES, INPUTS, strict=True)}
    both[name].reshape(2, -1)[1, -1] = value
    return both


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("options", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("name", NAMES)
def test_what_cannot_be_checked_under_vmap_is_not_passed_in_silence(name, value, options):
    both = spoilt(name, value)
    o = vmap(lambda named: layers.attention(**named, **options))(both)
    assert o[0].isfinite().all()
    assert not o[1].isfinite().all()
    with pytest.raises(RangeError, match=f"{name}: expected .* got {value}"):
        layers.attention(**{other: x[1] for other, x in both.items()}, **options)


@pytest.mark.parametrize("options", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_score_beyond_the_range_of_its_type_is_nan_under_vmap(sign, options):
    q, k = (torch.full((2, *shape), 1e200, dtype=torch.float64) for shape in SHAPES[:2])
    q[0], k[1, :, :, 1:] = sign * 1e-200, 0.0
    o = vmap(lambda q, k: layers.attention(sign * q, k, INPUTS[2], scale=1.0, **options))(q, k)
    assert o[0].isfinite().all()
    assert o[1].isnan().all()


def test_values_are_checked_under_transforms_that_leave_them_readable():
    q, *rest = INPUTS
    bad = q.clone()
    bad[1, 0, 2, 1] = torch.nan
    for transform in (grad, jacrev):
        with pytest.raises(RangeError, match=r"q: .* got nan at index \(1, 0, 2, 1\)"):
            transform(loss(attend))(bad, *rest)


@pytest.mark.usefixtures("raw_errors")
def test_attention_works_on_the_meta_device():
    q, k, v, bias, scale, sink = (x.to("meta") for x in INPUTS)
    o, lse = layers.attention(q, k, v, bias, scale=scale, sink=sink, causal=True, return_lse=True)
    assert o.is_meta
    assert (o.shape, lse.shape) == ((B, H, N, D_V), (B, H, N))
    with pytest.raises(ShapeError, match="v: expected shape"):
        layers.attention(q, k, v[:, :, 1:])
    with pytest.raises(DtypeError, match=r"k: expected torch.float64 as q, got torch.float32"):
        layers.attention(q, k.float(), v)


COMPILED = """
    import torch
    from attngrad import layers

    B, H, H_kv, N, M, D, D_v = 2, 4, 2, 5, 7, 3, 6
    generator = torch.Generator().manual_seed(0)
    shapes = {"q": (B, H, N, D), "k": (B, H_kv, M, D), "v": (B, H_kv, M, D_v)}
    shapes |= {"bias": (H, N, M), "sink": (H,), "scale": ()}
    mask, keep = (torch.rand(B, H, N, M, generator=generator) < 0.7 for _ in range(2))
    mask[:, :, 1] = False
    calls = [
        lambda named: layers.attention(**named, mask=mask, return_lse=True),
        lambda named: layers.attention(**named, causal=True, query_start=1, return_lse=True),
        lambda named: layers.attention(
            **named, keep=keep, dropout=0.3, softcap=1.5, bias_inside_scale=True, return_lse=True
        ),
        lambda named: layers.attention(
            named["q"], named["k"], named["v"], named["bias"].masked_fill(~mask, -torch.inf), scale=0.3,
            softcap=1.5, softcap_on="product", return_lse=True
        ),
    ]
    runs = [("aot_eager", torch.float64), ("aot_eager", torch.bfloat16), ("eager", torch.float64)]
    for f, (backend, dtype) in zip(calls, [*runs, runs[0]], strict=True):
        named = {name: torch.randn(shape, generator=generator).to(dtype) for name, shape in shapes.items()}
        named = {name: x.requires_grad_() for name, x in named.items()}
        torch.compiler.reset()
        want, got = f(named), torch.compile(f, backend=backend, fullgraph=True)(named)
        cotangents = [torch.randn(x.shape, generator=generator).to(x.dtype) for x in want]
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)
        inputs = list(named.values())[: 4 if f is calls[3] else 6]
        grads = [torch.autograd.grad(out, inputs, cotangents) for out in (got, want)]
        torch.testing.assert_close(*grads, rtol=1e-12, atol=1e-12)
        assert all(x.abs().max() > 0.01 for x in grads[1])
    print("compiled")
"""


def test_attention_compiles_into_one_graph():
    """In a process of its own: the run-time checker of these tests cannot be compiled."""
    code = textwrap.dedent(COMPILED)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout == "compiled\n"
