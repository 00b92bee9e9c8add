"""The reference and the layers against torch's own functions and its automatic derivatives."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attngrad import layers
from attngrad import reference as ref
from attngrad.checks import check_close

shapes = st.lists(st.integers(1, 7), min_size=1, max_size=4).map(tuple)
seeds = st.integers(0, 10**6)


def draw(shape, seed, spread=3.0):
    """Return random logits and a random cotangent in float64."""
    rng = np.random.default_rng(seed)
    return spread * rng.standard_normal(shape), rng.standard_normal(shape)


def autograd(f, s, cotangent):
    """Return torch's value of f at s and its cotangent of s."""
    s = torch.tensor(s, requires_grad=True)
    value = f(s)
    (ds,) = torch.autograd.grad(value, s, torch.as_tensor(cotangent))
    return value.detach().numpy(), ds.numpy()


def torch_masked_softmax(s, mask):
    """Return softmax with masked logits at -inf, and 0 in a row without a key."""
    empty = ~mask.any(dim=-1, keepdim=True)
    return s.masked_fill(~mask & ~empty, -torch.inf).softmax(-1).masked_fill(empty, 0.0)


@given(shapes, seeds)
def test_softmax_and_its_vjp(shape, seed):
    s, u = draw(shape, seed)
    value, ds = autograd(lambda s: torch.softmax(s, -1), s, u)
    check_close("p", ref.softmax(s), value)
    check_close("ds", ref.softmax_vjp(ref.softmax(s), u), ds, terms=2.0 * np.abs(u).max())


@given(shapes, seeds)
def test_masked_softmax_and_its_vjp(shape, seed):
    s, u = draw(shape, seed)
    mask = np.random.default_rng(seed).random(shape) < 0.5
    value, ds = autograd(lambda s: torch_masked_softmax(s, torch.tensor(mask)), s, u)
    p = ref.softmax(s, mask)
    check_close("p", p, value)
    check_close("ds", ref.softmax_vjp(p, u), ds, terms=2.0 * np.abs(u).max())
    logits = torch.tensor(s, requires_grad=True)
    got = layers.softmax(logits, torch.tensor(mask))
    check_close("layer p", got, value)
    (ds_layer,) = torch.autograd.grad(got, logits, torch.tensor(u))
    check_close("layer ds", ds_layer, ds, terms=2.0 * np.abs(u).max())


@given(shapes, seeds)
def test_lse_and_log_softmax(shape, seed):
    s, u = draw(shape, seed)
    row = u.sum(axis=-1)
    value, ds = autograd(lambda s: torch.logsumexp(s, -1), s, row)
    check_close("lse", ref.lse(s), value, terms=np.abs(s).max() + 3.0)
    check_close("ds of lse", row[..., None] * ref.softmax(s), ds, terms=np.abs(row).max())
    value, ds = autograd(lambda s: torch.log_softmax(s, -1), s, u)
    check_close("log p", ref.log_softmax(s), value, terms=2.0 * np.abs(s).max() + 3.0)
    check_close("ds", ref.log_softmax_vjp(ref.softmax(s), u), ds, terms=np.abs(u).sum())


@given(st.integers(1, 6), st.integers(1, 7), seeds)
def test_cross_entropy_with_labels_and_with_soft_targets(rows, n, seed):
    s, u = draw((rows, n), seed)
    rng = np.random.default_rng(seed)
    labels, soft, row = rng.integers(0, n, rows), 3.0 * rng.random((rows, n)), u[:, 0]
    for y in (labels, soft):

        def loss(s, y=y):
            return torch.nn.functional.cross_entropy(s, torch.tensor(y), reduction="none")

        value, ds = autograd(loss, s, row)
        size, most = np.abs(s).max() + 3.0, 3.0 * n
        check_close("loss", ref.cross_entropy(s, y), value, terms=size * most)
        check_close("ds", ref.cross_entropy_vjp(ref.softmax(s), y, row), ds, terms=most * np.abs(row).max())


@given(shapes, seeds)
def test_jacobian_and_second_derivative(shape, seed):
    s = draw(shape[-1:], seed)[0]
    p = ref.softmax(s)
    jacobian = torch.autograd.functional.jacobian(lambda s: torch.softmax(s, -1), torch.tensor(s))
    check_close("J", ref.softmax_jacobian(p), jacobian, terms=1.0)
    hessian = torch.autograd.functional.hessian(lambda s: torch.logsumexp(s, -1), torch.tensor(s))
    check_close("J as the Hessian of lse", ref.softmax_jacobian(p), hessian, terms=1.0)
    second = torch.func.jacfwd(torch.func.jacrev(lambda s: torch.softmax(s, -1)))(torch.tensor(s))
    check_close("second derivative", ref.softmax_hessian(p), second, terms=1.0)


@given(shapes, seeds, st.floats(0.1, 10.0))
def test_temperature(shape, seed, tau):
    s, u = draw(shape, seed)
    logits, t = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (s, tau))
    value = torch.softmax(logits / t, -1)
    ds, dtau = torch.autograd.grad(value, (logits, t), torch.tensor(u))
    p = ref.softmax_temperature(s, tau)
    terms = np.abs(u).max() * np.abs(s).max() * s.size / min(tau, tau**2)
    got = ref.softmax_temperature_vjp(p, s, tau, u)
    check_close("p", p, value, terms=np.abs(s).max() / tau + 1.0)
    check_close("ds", got[0], ds, terms=terms / np.abs(s).max() + terms)
    check_close("dtau", got[1], dtau, terms=terms * (1.0 + np.abs(s).max() / tau))


@pytest.mark.parametrize("n", [1, 2, 127, 128, 129, 1021])
def test_rows_around_a_block_edge(n):
    s, u = draw((3, n), n)
    value, ds = autograd(lambda s: torch.softmax(s, -1), s, u)
    check_close("p", ref.softmax(s), value)
    check_close("ds", ref.softmax_vjp(ref.softmax(s), u), ds, terms=np.abs(u).max())


def test_torch_makes_nan_of_a_row_without_a_key_and_the_layer_does_not():
    s = torch.tensor([[0.3, 0.1]], dtype=torch.float64, requires_grad=True)
    mask = torch.zeros(1, 2, dtype=torch.bool)
    assert torch.softmax(s.masked_fill(~mask, -torch.inf), -1).isnan().all()
    p = layers.softmax(s, mask)
    (ds,) = torch.autograd.grad(p, s, torch.ones_like(p))
    assert p.tolist() == ds.tolist() == [[0.0, 0.0]]
