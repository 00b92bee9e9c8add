"""The torch face under torch.func, torch.compile and the meta device, and at the edges of its types."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from torch.func import grad, jacfwd, jacrev, jvp, vmap

from attngrad import closed, layers
from attngrad import reference as ref
from attngrad.checks import check_close
from attngrad.layers.arguments import widened
from attngrad.notation import DtypeError, RangeError

RNG = np.random.default_rng(0)
S = torch.tensor(RNG.standard_normal((3, 4)))
MASK = torch.tensor([[True, True, False, True], [True] * 4, [False] * 4])
Y = torch.tensor(RNG.uniform(size=(3, 4))) * MASK
TAU = torch.tensor(0.7, dtype=torch.float64)


def plain_log_softmax(s):
    """Return log-softmax in torch's own operations, 0 where the mask forbids."""
    kept = s.masked_fill(~MASK, -1e4)
    empty = ~MASK.any(dim=-1, keepdim=True)
    return torch.log_softmax(kept, dim=-1).masked_fill(~MASK | empty, 0.0)


def plain_softmax(s):
    """Return softmax in torch's own operations, 0 where the mask forbids."""
    return plain_log_softmax(s).exp().masked_fill(~MASK, 0.0)


FUNCTIONS = {
    "softmax": (lambda s: layers.softmax(s, MASK), plain_softmax),
    "log_softmax": (lambda s: layers.log_softmax(s, MASK).masked_fill(~MASK, 0.0), plain_log_softmax),
    "cross_entropy": (
        lambda s: layers.cross_entropy(s, Y, MASK),
        lambda s: -(Y * plain_log_softmax(s)).sum(dim=-1),
    ),
    "softmax_temperature": (
        lambda s: layers.softmax_temperature(s, TAU, MASK),
        lambda s: plain_softmax(s / TAU),
    ),
}
FORWARD_MODE = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")


@FORWARD_MODE
@pytest.mark.parametrize("inner", [jacrev, jacfwd])
@pytest.mark.parametrize("outer", [jacrev, jacfwd])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives_in_every_combination_of_modes(name, outer, inner):
    f, plain = FUNCTIONS[name]
    check_close("second derivative", outer(inner(f))(S), outer(inner(plain))(S), terms=10.0)


@FORWARD_MODE
@pytest.mark.parametrize(
    "modes", [(jacfwd, jacrev, jacfwd), (jacfwd, jacfwd, jacrev), (jacrev, jacfwd, jacfwd)]
)
def test_third_derivatives_with_two_forward_levels(modes):
    first, second, third = modes
    got = first(second(third(layers.softmax)))(S[0])
    check_close("third derivative", got, jacrev(jacrev(jacrev(lambda s: s.softmax(-1))))(S[0]), terms=10.0)


@FORWARD_MODE
@pytest.mark.parametrize("outer", [jacrev, jacfwd])
@pytest.mark.parametrize("inner", [jacrev, jacfwd])
def test_second_derivatives_by_temperature_and_targets(outer, inner):
    def tempered(tau):
        return layers.softmax_temperature(S, tau, MASK)

    def loss(y):
        return layers.cross_entropy(S, y * MASK, MASK).square().sum()

    def plain_loss(y):
        return (y * plain_log_softmax(S)).sum(dim=-1).square().sum()

    want = outer(inner(lambda tau: plain_softmax(S / tau)))(TAU)
    check_close("by tau", outer(inner(tempered))(TAU), want, terms=100.0)
    check_close("by y", outer(inner(loss))(Y), outer(inner(plain_loss))(Y), terms=100.0)


@FORWARD_MODE
def test_plain_operations_serve_nested_forward_levels_alone():
    seen = []

    def spy(s):
        seen.append(closed.forward_levels())
        return layers.softmax(s)

    spy(S)
    jvp(spy, (S,), (S,))
    jvp(lambda s: jvp(spy, (s,), (s,))[1], (S,), (S,))
    jacrev(jacfwd(spy))(S[0])
    assert seen == [0, 1, 2, 1]


@FORWARD_MODE
def test_cross_entropy_reverse_over_forward_by_targets():
    s, tangent = S[:2], torch.tensor(RNG.standard_normal((2, 4)))

    def moved(y):
        return jvp(lambda s: layers.cross_entropy(s, y), (s,), (tangent,))[1].square().sum()

    def plain(y):
        loss = jvp(lambda s: -(y * s.log_softmax(-1)).sum(dim=-1), (s,), (tangent,))[1]
        return loss.square().sum()

    check_close("dy", grad(moved)(Y[:2]), grad(plain)(Y[:2]), terms=10.0)


def test_layers_work_under_vmap():
    check_close("p", vmap(layers.softmax)(S), layers.softmax(S))
    check_close("masked p", vmap(layers.softmax)(S, MASK), layers.softmax(S, MASK))
    labels = torch.tensor([1, 0, 3])
    want = ref.cross_entropy_vjp(ref.softmax(S.numpy()), labels.numpy(), np.ones(3))
    check_close("ds", vmap(grad(layers.cross_entropy))(S, labels), want, terms=1.0)
    taus = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    got = vmap(layers.softmax_temperature)(S, taus)
    check_close("p at each temperature", got, torch.softmax(S / taus[:, None], -1), terms=1.0)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_what_cannot_be_checked_under_vmap_is_not_passed_in_silence():
    bad = S.clone()
    bad[1, 2] = torch.nan
    rows = vmap(layers.softmax)(bad)
    assert rows[1].isnan().all()
    assert not rows[[0, 2]].isnan().any()
    loss = vmap(layers.cross_entropy)(S, torch.tensor([0, 4, -100]))
    assert loss.isnan().tolist() == [False, True, True]
    assert vmap(layers.cross_entropy)(S, torch.ones_like(S), MASK)[0] == torch.inf
    taus = torch.tensor([1.0, 0.0, -1.0], dtype=torch.float64)
    assert vmap(layers.softmax_temperature)(S, taus).isnan().any(dim=-1).tolist() == [False, True, True]


def test_values_are_checked_under_transforms_that_leave_them_readable():
    bad = S.clone()
    bad[1, 2] = torch.inf
    for transform in (grad, jacrev):
        with pytest.raises(RangeError, match=r"s: .* got inf at index \(1, 2\)"):
            transform(lambda s: layers.softmax(s).sum())(bad)


@pytest.mark.usefixtures("raw_errors")
def test_layers_work_on_the_meta_device():
    s, labels = torch.zeros(2, 3, device="meta"), torch.zeros(2, dtype=torch.int64, device="meta")
    assert layers.softmax(s, s == 0).shape == layers.log_softmax(s).shape == (2, 3)
    assert layers.cross_entropy(s, labels).shape == layers.cross_entropy(s, s).shape[:1] == (2,)
    for tau in (2.0, torch.tensor(2.0, device="meta")):
        assert layers.softmax_temperature(s, tau).shape == (2, 3)
    with pytest.raises(DtypeError, match="s: expected a tensor of floats"):
        layers.softmax(labels)


COMPILED = """
    import torch
    from attngrad import layers

    s = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    mask, tau = torch.arange(5) < torch.tensor([[5], [3], [0]]), torch.tensor(0.7, dtype=torch.float64)
    labels = torch.tensor([4, 1, 0])
    functions = [
        lambda s: layers.softmax(s, mask),
        lambda s: layers.log_softmax(s, mask[:2].sum(dim=0).bool()),
        lambda s: layers.cross_entropy(s, labels),
        lambda s: layers.softmax_temperature(s, tau, mask),
    ]
    for backend in ("eager", "aot_eager"):
        for f in functions:
            want, got = f(s), torch.compile(f, backend=backend, fullgraph=True)(s)
            u = torch.randn(want.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
            torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-14)
            grads = [torch.autograd.grad(out, s, u)[0] for out in (got, want)]
            torch.testing.assert_close(*grads, rtol=1e-12, atol=1e-14)
            assert grads[1].abs().max() > 0.01
"""


def test_layers_compile_into_one_graph():
    """In a process of its own: the run-time checker of these tests cannot be compiled."""
    code = textwrap.dedent(COMPILED)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]


@pytest.mark.parametrize(
    ("dtype", "tau", "inside"),
    [
        (torch.float32, 1e-50, "float32"),
        (torch.bfloat16, 1e-50, "float32"),
        (torch.float32, 1e300, "float32"),
        (torch.float32, torch.tensor(1e-50, dtype=torch.float64), "float32"),
        (torch.float16, torch.tensor(1e60, dtype=torch.float64), "float32"),
    ],
)
def test_a_temperature_that_the_type_cannot_hold_is_refused(dtype, tau, inside):
    told = rf"tau: expected a positive finite number in torch.{inside}, got 1e[-+]\d+"
    with pytest.raises(RangeError, match=told):
        layers.softmax_temperature(S.to(dtype), tau)


@FORWARD_MODE
@pytest.mark.parametrize("tau", [1e-30, 1e30])
def test_extreme_temperatures_have_finite_derivatives(tau):
    s = torch.tensor([0.0, 1.0, -3.0]) * tau
    t = torch.tensor(tau)
    p = layers.softmax_temperature(s, t)
    check_close("p", p, torch.softmax(torch.tensor([0.0, 1.0, -3.0]), -1), "difference")
    for transform in (jacrev, jacfwd):
        by_s, by_tau = transform(layers.softmax_temperature, argnums=(0, 1))(s, t)
        assert by_s.isfinite().all()
        assert by_tau.isfinite().all()
        assert by_tau.abs().max() > 0.01 / tau


@FORWARD_MODE
def test_large_logits_have_finite_forward_derivatives_by_the_temperature():
    s = torch.tensor([3e38, 3e38, -3e38])
    _, moved = jvp(lambda tau: layers.softmax_temperature(s, tau), (torch.tensor(0.5),), (torch.tensor(1.0),))
    assert moved.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_16_bit_inputs_are_computed_in_float32(dtype):
    s = S.to(dtype)
    got = widened(s)
    assert got.dtype == torch.float32
    assert widened(S).dtype == torch.float64


def test_a_float16_loss_beyond_its_range_is_inf_and_has_a_gradient():
    s = torch.tensor([[65504.0, -65504.0]], dtype=torch.float16, requires_grad=True)
    loss = layers.cross_entropy(s, torch.tensor([1]))
    want = torch.nn.functional.cross_entropy(s, torch.tensor([1]), reduction="none")
    assert loss.dtype == want.dtype == torch.float16
    assert loss.item() == want.item() == torch.inf
    (ds,) = torch.autograd.grad(loss.sum(), s)
    assert ds.tolist() == [[1.0, -1.0]]
    assert layers.cross_entropy(s.float(), torch.tensor([1])).item() == 131008.0


@pytest.mark.usefixtures("raw_errors")
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: layers.softmax(S, True), DtypeError, r"mask: expected a torch tensor of .* got bool"),
        (lambda: layers.softmax(S, MASK.numpy()), DtypeError, r"mask: expected a torch .* got ndarray"),
        (
            lambda: layers.cross_entropy(S, np.array([0, 1, 2])),
            DtypeError,
            "y: expected a torch tensor of float weights or integer labels, got ndarray",
        ),
        (
            lambda: layers.cross_entropy(S[:, :0], torch.tensor([0, 1, 2])),
            RangeError,
            r"y: expected no label, since a row has no key, got 0 at index \(0,\)",
        ),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()
