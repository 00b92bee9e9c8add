"""The torch face: the same values as the reference, first and second derivatives, low precision, errors."""

import numpy as np
import pytest
import torch

from attngrad import layers
from attngrad import reference as ref
from attngrad.checks import UNIT_ROUNDOFF, check_close, error_budget
from attngrad.notation import DtypeError, RangeError, ShapeError

SHAPES = [(1,), (2,), (7,), (3, 5), (2, 1, 13), (2, 3, 5, 11), (4, 1), (0, 3)]
NAMES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}


def draw(shape, seed=0):
    """Return random float64 logits, a mask with an empty first row, and a random cotangent."""
    rng = np.random.default_rng(seed)
    s, u = 2.0 * rng.standard_normal(shape), rng.standard_normal(shape)
    mask = rng.random(shape) < 0.6
    if mask.ndim > 1 and mask.size:
        mask.reshape(-1, shape[-1])[0] = False
    return torch.tensor(s), torch.tensor(mask), torch.tensor(u)


def weights_like(s, mask):
    """Return targets that do not sum to one and rest on allowed keys only."""
    y = torch.rand(s.shape, dtype=s.dtype, generator=torch.Generator().manual_seed(1))
    return y if mask is None else y * mask


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_gradients_are_those_of_the_reference(shape, masked):
    s, mask, u = draw(shape)
    mask = mask if masked else None
    allowed = None if mask is None else mask.numpy()
    y, row = weights_like(s, mask), u.sum(dim=-1)
    tau = torch.tensor(1.7, dtype=torch.float64, requires_grad=True)
    s.requires_grad_()
    n, p = s.detach().numpy(), ref.softmax(s.detach().numpy(), allowed)
    tempered = ref.softmax_temperature(n, 1.7, allowed)
    ds, dtau = ref.softmax_temperature_vjp(tempered, n, 1.7, u.numpy())
    cases = {
        "softmax": (layers.softmax(s, mask), u, p, ref.softmax_vjp(p, u.numpy())),
        "log_softmax": (
            layers.log_softmax(s, mask),
            u,
            ref.log_softmax(n, allowed),
            ref.log_softmax_vjp(p, u.numpy(), allowed),
        ),
        "cross_entropy": (
            layers.cross_entropy(s, y, mask),
            row,
            ref.cross_entropy(n, y.numpy(), allowed),
            ref.cross_entropy_vjp(p, y.numpy(), row.numpy()),
        ),
        "softmax_temperature": (layers.softmax_temperature(s, tau, mask), u, tempered, ds),
    }
    for name, (value, cotangent, want, gradient) in cases.items():
        check_close(name, value, want, terms=10.0)
        (got,) = torch.autograd.grad(value, s, cotangent, retain_graph=True)
        check_close(f"{name}, ds", got, gradient, terms=100.0)
    (got,) = torch.autograd.grad(cases["softmax_temperature"][0], tau, u)
    check_close("dtau", got, dtau, terms=100.0)


def functions(mask):
    """Return the layers as functions of the logits alone, for a given mask."""
    return {
        "softmax": lambda s: layers.softmax(s, mask),
        "log_softmax": lambda s: layers.log_softmax(s, mask).masked_fill(~mask, 0.0),
        "cross_entropy": lambda s: layers.cross_entropy(s, weights_like(s, mask), mask),
        "softmax_temperature": lambda s: layers.softmax_temperature(s, 0.7, mask),
    }


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # torch's own forward mode
@pytest.mark.parametrize("name", functions(torch.ones(1, dtype=torch.bool)))
def test_first_second_and_forward_derivatives(name):
    s, mask, _ = draw((3, 4))
    s.requires_grad_()
    f = functions(mask)[name]
    assert torch.autograd.gradcheck(f, (s,), check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(f, (s,))


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_derivatives_by_targets_and_temperature():
    s, mask, _ = draw((3, 4))
    mask[0] = True
    s.requires_grad_()
    y = weights_like(s.detach(), mask).requires_grad_()
    tau = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)

    def loss(s, y):
        return layers.cross_entropy(s, y * mask, mask)

    def tempered(s, tau):
        return layers.softmax_temperature(s, tau, mask)

    for f, inputs in ((loss, (s, y)), (tempered, (s, tau))):
        assert torch.autograd.gradcheck(f, inputs, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(f, inputs)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_function_transforms_give_the_jacobian_and_the_hessian():
    s = draw((5,))[0]
    p = ref.softmax(s.numpy())
    for transform in (torch.func.jacrev, torch.func.jacfwd):
        check_close("J", transform(layers.softmax)(s), ref.softmax_jacobian(p), terms=1.0)
    label = torch.tensor(2)
    hessian = torch.autograd.functional.hessian(lambda s: layers.cross_entropy(s, label), s)
    check_close("Hessian of the loss", hessian, ref.softmax_jacobian(p), terms=1.0)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_a_masked_log_weight_does_not_move():
    s, mask, t = draw((3, 5))
    _, moved = torch.func.jvp(lambda s: layers.log_softmax(s, mask), (s,), (t,))
    p = ref.softmax(s.numpy(), mask.numpy())
    check_close("tangent", moved, ref.log_softmax_jvp(p, t.numpy(), mask.numpy()), terms=10.0)
    assert not moved[~mask].any()


def test_cotangents_of_any_stride():
    s, _, u = draw((5, 7))
    s.requires_grad_()
    plain = torch.randn(5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    views = {
        "transposed": plain.t().contiguous().t(),
        "stride 0": torch.tensor(0.3, dtype=torch.float64).expand(5, 7),
        "stride 0 rows": u[:1].expand(5, 7),
        "every second": torch.stack([plain, u], dim=-1).flatten(1)[:, ::2],
    }
    for f in (layers.softmax, layers.log_softmax):
        for name, view in views.items():
            (got,) = torch.autograd.grad(f(s), s, view)
            (want,) = torch.autograd.grad(f(s), s, view.clone(memory_format=torch.contiguous_format))
            check_close(name, got, want, terms=10.0)
    check_close("view", layers.softmax(s.t()), layers.softmax(s.t().contiguous()))


def plain_softmax(s):
    """Return softmax whose every step is rounded to the type of its input."""
    e = (s - s.amax(dim=-1, keepdim=True)).exp()
    return e / e.sum(dim=-1, keepdim=True)


def plain_log_softmax(s):
    """Return log-softmax whose every step is rounded to the type of its input."""
    shifted = s - s.amax(dim=-1, keepdim=True)
    return shifted - shifted.exp().sum(dim=-1, keepdim=True).log()


@pytest.mark.parametrize("dtype", NAMES)
def test_low_precision_is_within_its_budget(dtype):
    s64, _, u64 = draw((5, 67))
    s, u = s64.to(dtype).requires_grad_(), u64.to(dtype)
    exact_s, exact_u = s.detach().double().requires_grad_(), u.double()
    for name, f, plain in (
        ("softmax", layers.softmax, plain_softmax),
        ("log_softmax", layers.log_softmax, plain_log_softmax),
    ):
        got, rough, exact = f(s), plain(s), torch.log_softmax(exact_s, -1)
        exact = exact.exp() if name == "softmax" else exact
        assert got.dtype == dtype
        error_budget(name, got, rough, exact, dtype=NAMES[dtype], kind="forward")
        grads = [
            torch.autograd.grad(out, x, g)[0]
            for out, x, g in ((got, s, u), (rough, s, u), (exact, exact_s, exact_u))
        ]
        assert grads[0].dtype == dtype
        error_budget(f"{name}, ds", *grads, dtype=NAMES[dtype])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_low_precision_is_rounded_once(dtype):
    s = draw((5, 67))[0].to(dtype)
    for f, exact in ((layers.softmax, torch.softmax), (layers.log_softmax, torch.log_softmax)):
        want = exact(s.double(), -1)
        error = (f(s).double() - want).abs()
        normal = want.abs() >= torch.finfo(dtype).tiny
        assert normal.sum() > 200
        assert (error <= 1.001 * UNIT_ROUNDOFF[NAMES[dtype]] * want.abs())[normal].all()


@pytest.mark.parametrize("dtype", NAMES)
def test_low_precision_loss_and_temperature(dtype):
    s64, mask, _ = draw((4, 7))
    s, mask = s64.to(dtype), mask | (torch.arange(4) == 1)[:, None]
    labels = mask.int().argmax(dim=-1)[1:]
    loss = layers.cross_entropy(s[1:], labels, mask[1:])
    want = ref.cross_entropy(s[1:].double().numpy(), labels.numpy(), mask[1:].numpy())
    assert loss.dtype == dtype
    error_budget("loss", loss, torch.tensor(want).to(dtype), want, dtype=NAMES[dtype], kind="forward")
    assert layers.softmax_temperature(s, 2.0, mask).dtype == dtype
    got, soft = layers.softmax_temperature(s, 2.0, mask), ref.softmax(s.double().numpy() / 2.0, mask.numpy())
    error_budget("p", got, torch.tensor(soft).to(dtype), soft, dtype=NAMES[dtype], kind="forward")


def test_a_python_temperature_keeps_all_its_digits():
    s = draw((3, 5))[0]
    check_close("p", layers.softmax_temperature(s, 0.1), torch.softmax(s / 0.1, -1))


@pytest.mark.parametrize("dtype", [torch.float64, *NAMES])
def test_a_row_without_a_key_is_zero_and_silent(dtype):
    none = torch.zeros(2, 3, dtype=torch.bool)
    cases = ((torch.randn(2, 3), none), (torch.full((2, 3), -torch.inf), None), (torch.zeros(2, 0), None))
    for logits, mask in cases:
        s = logits.to(dtype).requires_grad_()
        tau = torch.tensor(2.0, dtype=dtype, requires_grad=True)
        p = layers.softmax(s, mask)
        q = layers.softmax_temperature(s, tau, mask)
        loss = layers.cross_entropy(s, torch.zeros_like(s), mask)
        logp = layers.log_softmax(s, mask)
        assert not p.any()
        assert not q.any()
        assert not loss.any()
        assert logp.isneginf().all()
        for out in (p, q, logp, loss):
            (ds,) = torch.autograd.grad(out, s, torch.ones_like(out), retain_graph=True)
            assert not ds.any()
        assert torch.autograd.grad(q, tau, torch.ones_like(q))[0] == 0.0


@pytest.mark.parametrize("garbage", [torch.nan, torch.inf, -torch.inf])
def test_what_a_masked_key_holds_is_not_read_in_either_direction(garbage):
    s, mask, u = draw((3, 5))
    y = weights_like(s, mask)
    tau = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    results = []
    for logits in (s, s.masked_fill(~mask, garbage)):
        logits.requires_grad_()
        outs = (
            (layers.softmax(logits, mask), u),
            (layers.log_softmax(logits, mask), u),
            (layers.cross_entropy(logits, y, mask), u.sum(dim=-1)),
            (layers.softmax_temperature(logits, tau, mask), u),
        )
        grads = [torch.autograd.grad(out, logits, g, retain_graph=True)[0] for out, g in outs]
        grads.append(torch.autograd.grad(outs[-1][0], tau, u)[0])
        results.append([out.detach() for out, _ in outs] + grads)
    for clean, filled in zip(*results, strict=True):
        assert torch.equal(clean, filled)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_large_logits_stay_finite(dtype):
    top = torch.finfo(dtype).max
    for size in (1e4, top):
        s = torch.tensor([[size, size, -size]], dtype=dtype, requires_grad=True)
        tau = torch.tensor(0.5, dtype=dtype, requires_grad=True)
        p = layers.softmax(s)
        q = layers.softmax_temperature(s, tau)
        assert p.tolist() == q.tolist() == [[0.5, 0.5, 0.0]]
        u = torch.tensor([[1.0, 0.0, 0.0]], dtype=dtype)
        assert torch.autograd.grad(p, s, u)[0].tolist() == [[0.25, -0.25, 0.0]]
        ds, dtau = torch.autograd.grad(q, (s, tau), u)
        assert ds.tolist() == [[0.5, -0.5, 0.0]]
        assert dtau == 0.0
        loss = layers.cross_entropy(s, torch.tensor([1]))
        assert loss.item() == pytest.approx(np.log(2.0), rel=1e-2)
        assert torch.autograd.grad(loss.sum(), s)[0].tolist() == [[0.5, -0.5, 0.0]]


def test_an_empty_row_does_not_disturb_a_second_derivative():
    s, mask, _ = draw((3, 4))
    s.requires_grad_()
    (ds,) = torch.autograd.grad(layers.softmax(s, mask).square().sum(), s, create_graph=True)
    (dds,) = torch.autograd.grad(ds.square().sum(), s)
    assert dds.isfinite().all()
    assert dds[1:].abs().max() > 0.0
    assert not dds[0].any()


def test_labels_of_any_integer_type():
    s = draw((4, 5))[0]
    want = torch.nn.functional.cross_entropy(s, torch.tensor([0, 4, 2, 2]), reduction="none")
    for dtype in (torch.int64, torch.int32, torch.uint8):
        got = layers.cross_entropy(s, torch.tensor([0, 4, 2, 2], dtype=dtype))
        check_close("loss", got, want, terms=1.0)


T3, T23 = torch.zeros(3), torch.zeros(2, 3)
BAD_CALLS = {
    "array": (lambda: layers.softmax(np.zeros(3)), DtypeError, "s: expected a torch tensor .* got ndarray"),
    "integers": (lambda: layers.softmax(torch.arange(3)), DtypeError, "s: expected .* got torch.int64"),
    "scalar": (lambda: layers.softmax(torch.tensor(1.0)), ShapeError, "s: expected at least 1 axes"),
    "float mask": (lambda: layers.softmax(T3, T3), DtypeError, "mask: expected booleans .* got torch.float"),
    "long mask": (lambda: layers.softmax(T3, T23 == 0), ShapeError, r"mask: .* to \(3,\), got \(2, 3\)"),
    "nan": (
        lambda: layers.softmax(torch.tensor([[0.0], [torch.nan]])),
        RangeError,
        r"s: expected finite logits or -inf, got nan at index \(1, 0\)",
    ),
    "inf": (lambda: layers.log_softmax(torch.tensor([torch.inf])), RangeError, r"got inf at index \(0,\)"),
    "impl": (
        lambda: layers.softmax(T3, impl="triton"),
        RangeError,
        "impl: expected one of 'closed', got 'triton'",
    ),
    "impl loss": (lambda: layers.cross_entropy(T3, T3, impl="tiled"), RangeError, "impl: .* got 'tiled'"),
    "target type": (lambda: layers.cross_entropy(T3, T3.double()), DtypeError, "y: .* got torch.float64"),
    "target shape": (lambda: layers.cross_entropy(T23, T3), ShapeError, r"y: expected shape \(2, 3\) as"),
    "target nan": (
        lambda: layers.cross_entropy(T3, T3 + torch.nan),
        RangeError,
        r"y: expected finite weights, got nan at index \(0,\)",
    ),
    "masked target": (
        lambda: layers.cross_entropy(T3, T3 + 1, torch.tensor([True, True, False])),
        RangeError,
        r"y: expected weight 0 on masked keys .* got 1.0 at index \(2,\)",
    ),
    "label": (
        lambda: layers.cross_entropy(T23, torch.tensor([0, -100])),
        RangeError,
        r"y: expected labels from 0 to 2, got -100 at index \(1,\); no label is ignored",
    ),
    "label shape": (lambda: layers.cross_entropy(T23, torch.tensor(1)), ShapeError, r"y \(labels\): .* \(2"),
    "bool target": (lambda: layers.cross_entropy(T3, T3 == 0), DtypeError, "y: expected .* torch.bool"),
    "tau": (lambda: layers.softmax_temperature(T3, -1.0), RangeError, "tau: expected a positive .* got -1.0"),
    "tau 0": (lambda: layers.softmax_temperature(T3, torch.tensor(0.0)), RangeError, "tau: .* got 0.0"),
    "tau vector": (lambda: layers.softmax_temperature(T3, T3), ShapeError, r"tau: expected shape \(\)"),
}


@pytest.mark.usefixtures("raw_errors")
@pytest.mark.parametrize("case", BAD_CALLS)
def test_bad_input_is_named(case):
    call, error, message = BAD_CALLS[case]
    with pytest.raises(error, match=message):
        call()
