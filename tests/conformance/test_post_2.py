"""The second post's formulas and code, judged: each test backs entries of the errata.

Characters were lost in the copy of the post that is judged; what is tested holds for each possible original.
"""

import math
import warnings
from fractions import Fraction as F

import numpy as np
import pytest
import torch
from torch.nn import functional

from attngrad import reference
from attngrad.checks import check_close

B, N, FEATURES, HEADS = 2, 5, 12, 3
D = FEATURES // HEADS
HALF = (F(1, 2), F(1, 2))


def vjp(p, g):
    """Return the cotangent of the scores of one row, in fractions."""
    mean = sum(weight * x for weight, x in zip(p, g, strict=True))
    return [weight * (x - mean) for weight, x in zip(p, g, strict=True)]


def float64(rng, *shape):
    """Return a random tensor that takes a gradient."""
    return torch.tensor(rng.normal(size=shape), requires_grad=True)


# Section 2.


def test_the_formula_is_that_of_pytorch():
    rng = np.random.default_rng(0)
    q, k, v = float64(rng, B, N, D), float64(rng, B, 7, D), float64(rng, B, 7, 3)
    want = functional.scaled_dot_product_attention(q, k, v)
    check_close("o", torch.softmax(q @ k.mT / math.sqrt(D), -1) @ v, want, terms=9.0)
    with pytest.raises(AssertionError):
        check_close("o", torch.softmax(q @ k.mT / math.sqrt(3), -1) @ v, want, terms=9.0)


def test_the_softmax_jacobian():
    """Symmetric, p_i (1 - p_i) on the diagonal, -p_i p_j off it."""
    s = torch.tensor(np.random.default_rng(1).normal(size=5))
    jacobian = torch.autograd.functional.jacobian(lambda s: torch.softmax(s, 0), s).numpy()
    p = torch.softmax(s, 0).numpy()
    stated = -np.outer(p, p)
    np.fill_diagonal(stated, p * (1 - p))
    check_close("J", jacobian, stated, terms=1.0)
    check_close("transpose", jacobian.T, stated, terms=1.0)
    with pytest.raises(AssertionError):
        check_close("J", jacobian, -np.outer(p, p), terms=1.0)


def projections(rng):
    """Return the weights W_q, W_k, W_v, W_o of a layer."""
    return [float64(rng, FEATURES, FEATURES) for _ in range(4)]


def split(x):
    """Return (B, N, H D) as (B, H, N, D)."""
    return x.unflatten(-1, (HEADS, D)).transpose(1, 2)


def layer(x, w_q, w_k, w_v, w_o):
    """Return multi-head attention in the order of the post's section 3.1, without biases."""
    q, k, v = (split(x @ w.T) for w in (w_q, w_k, w_v))
    weights = torch.softmax(q @ k.mT / math.sqrt(D), -1)
    return (weights @ v).transpose(1, 2).flatten(2) @ w_o.T


def test_every_head_sees_every_feature_of_the_input():
    """A head's queries change with the last feature: projections make the subspaces, the input is not cut."""
    rng = np.random.default_rng(2)
    x, w_q = float64(rng, B, N, FEATURES), projections(rng)[0]
    first_head = split(x @ w_q.T)[:, 0]
    (dx,) = torch.autograd.grad(first_head, x, torch.randn(first_head.shape, dtype=torch.float64))
    assert (dx[..., D:].abs() > 1e-6).all()
    sliced = split(x)[:, 0]
    (dx,) = torch.autograd.grad(sliced, x, torch.ones_like(sliced))
    assert (dx[..., D:] == 0).all()


def test_the_gradient_of_v_does_not_pass_through_the_scores():
    """With the scores detached dV is what it was, dQ and dK are gone; with one key dS is 0 and dV is not."""
    rng = np.random.default_rng(3)
    q, k, v = (float64(rng, B, N, D) for _ in range(3))
    do = torch.tensor(rng.normal(size=(B, N, D)))
    scores = q @ k.mT / math.sqrt(D)
    dq, dk, dv = torch.autograd.grad(torch.softmax(scores, -1) @ v, (q, k, v), do)
    cut = torch.softmax(scores.detach(), -1)
    (dv_cut,) = torch.autograd.grad(cut @ v, v, do)
    check_close("dv", dv_cut, dv, terms=9.0)
    check_close("dv", cut.mT @ do, dv, terms=9.0)
    assert min(dq.abs().max(), dk.abs().max()) > 1e-3
    assert vjp((F(1),), (F(5),)) == [0]


def test_the_output_projection_and_the_residual_are_on_the_path():
    """dO of the heads is dY W_o; with a residual the input gets dY even where the layer passes nothing on."""
    rng = np.random.default_rng(4)
    x, weights = float64(rng, B, N, FEATURES), projections(rng)
    dy = torch.tensor(rng.normal(size=(B, N, FEATURES)))
    (dx,) = torch.autograd.grad(layer(x, *weights), x, dy)
    doubled = [*weights[:3], 2 * weights[3]]
    (dx_doubled,) = torch.autograd.grad(layer(x, *doubled), x, dy)
    check_close("dx", dx_doubled, 2 * dx.numpy(), terms=100.0)
    blocked = [*weights[:3], torch.zeros_like(weights[3])]
    (dx_residual,) = torch.autograd.grad(x + layer(x, *blocked), x, dy)
    check_close("dx", dx_residual, dy.numpy(), terms=1.0)


# Section 3.


def test_the_forward_pass_is_that_of_pytorch():
    rng = np.random.default_rng(5)
    x, weights = float64(rng, B, N, FEATURES), projections(rng)
    torch_layer = torch.nn.MultiheadAttention(FEATURES, HEADS, bias=False, batch_first=True).double()
    with torch.no_grad():
        torch_layer.in_proj_weight.copy_(torch.cat(weights[:3]))
        torch_layer.out_proj.weight.copy_(weights[3])
    want = torch_layer(x, x, x, need_weights=False)[0]
    check_close("y", layer(x, *weights), want, terms=500.0)
    with pytest.raises(AssertionError):
        check_close("y", layer(x, *weights[:3], weights[3].T), want, terms=500.0)


def test_the_number_of_heads_must_divide_the_width():
    """10 // 3 = 3: three heads of three features use 9 of 10, and the view fails or mixes tokens."""
    x = torch.zeros(B, 5, 10)
    with pytest.raises(RuntimeError, match="invalid for input of size"):
        x.view(B, -1, 3, 10 // 3)
    nine_tokens = torch.zeros(B, 9, 10).view(B, -1, 3, 10 // 3)
    assert nine_tokens.shape[1] == 10
    assert torch.zeros(B, 5, 12).view(B, -1, 3, 12 // 3).shape[1] == 5


def backward(rng):
    """Return q, k and scores with autograd's gradients, the cotangent of the weights, the post's d_scores."""
    q, k = float64(rng, N, D), float64(rng, 7, D)
    scores = q @ k.T / math.sqrt(D)
    scores.retain_grad()
    attn = torch.softmax(scores, -1)
    d_out = torch.tensor(rng.normal(size=(N, 7)))
    attn.backward(d_out)
    d_scores = attn * (d_out - (attn * d_out).sum(-1, keepdim=True))
    return q, k, scores, d_out, d_scores.detach()


def test_d_scores_is_right_if_d_out_is_the_cotangent_of_the_weights():
    rng = np.random.default_rng(6)
    _, _, scores, d_out, d_scores = backward(rng)
    check_close("ds", d_scores, scores.grad, terms=4.0)
    attn = scores.detach().softmax(-1).numpy()
    check_close("ds", reference.softmax_vjp(attn, d_out.numpy()), scores.grad, terms=4.0)
    values, do = (F(2), F(0)), F(1)
    assert vjp(HALF, [do * v for v in values]) == [F(1, 2), F(-1, 2)]
    assert vjp(HALF, [do, do]) == [0, 0]


def test_d_q_and_d_k_lack_one_root():
    """The three lines together are sqrt(d_k) times too large; n = 2, d_k = 4, G = (1, 0): 1/4 for 1/8."""
    q, k, _, _, d_scores = backward(np.random.default_rng(7))
    d_q, d_k = d_scores @ k.detach(), d_scores.T @ q.detach()
    check_close("dq", d_q, math.sqrt(D) * q.grad, terms=9.0)
    check_close("dk", d_k, math.sqrt(D) * k.grad, terms=9.0)
    with pytest.raises(AssertionError):
        check_close("dq", d_q, q.grad, terms=9.0)
    first_key = first_query = F(1)
    d_first = vjp(HALF, (F(1), F(0)))[0]
    assert (d_first * first_key, d_first * first_key / 2) == (F(1, 4), F(1, 8))
    assert (d_first * first_query, d_first * first_query / 2) == (F(1, 4), F(1, 8))


PARAMETERS = {
    "alpha": (lambda d: d**-0.5, lambda x: x),
    "root": (lambda d: d**0.5, lambda x: 1 / x),
    "d": (lambda d: d, lambda x: x**-0.5),
    "log alpha": (lambda d: -0.5 * math.log(d), torch.exp),
}
RATIOS = {
    ("scaled", "alpha"): lambda d: 1 / d,
    ("scaled", "root"): lambda d: -1.0,
    ("scaled", "d"): lambda d: -2 * d**0.5,
    ("scaled", "log alpha"): lambda d: d**-0.5,
    ("product", "alpha"): lambda d: d**-0.5,
    ("product", "root"): lambda d: -(d**0.5),
    ("product", "d"): lambda d: -2.0 * d,
    ("product", "log alpha"): lambda d: 1.0,
}


def post_over_true(meaning, parameter, d, of_product=False):
    """Return the post's d_scale over the derivative of the loss by the parameter, which autograd takes."""
    rng = np.random.default_rng(8)
    product = torch.tensor(rng.normal(size=(3, 7)) * d**0.5)
    d_out = torch.tensor(rng.normal(size=(3, 7)))
    start, scale_of = PARAMETERS[parameter]
    x = torch.tensor(float(start(d)), dtype=torch.float64, requires_grad=True)
    scores = scale_of(x) * product
    attn = torch.softmax(scores, -1)
    (true,) = torch.autograd.grad(attn, x, d_out)
    d_scores = torch.tensor(reference.softmax_vjp(attn.detach().numpy(), d_out.numpy()))
    if of_product:
        d_scores = d_scores / math.sqrt(d)
    named_scores = {"scaled": scores.detach(), "product": product}[meaning]
    return ((d_scores * (named_scores / math.sqrt(d))).sum() / true).item()


@pytest.mark.parametrize("d", [3, 9, 16])
def test_d_scale_is_right_in_one_reading_of_eight(d):
    found = {key: post_over_true(*key, d) for key in RATIOS}
    for key, ratio in RATIOS.items():
        assert found[key] == pytest.approx(ratio(d), rel=1e-9), key
    assert [key for key, value in found.items() if abs(value - 1) < 1e-9] == [("product", "log alpha")]
    as_product = {key: post_over_true(*key, d, of_product=True) for key in RATIOS}
    for key, ratio in RATIOS.items():
        assert as_product[key] == pytest.approx(ratio(d) / math.sqrt(d), rel=1e-9), key
    assert all(abs(value - 1) > 0.1 for value in as_product.values())


def test_autograd_gives_no_gradient_of_the_scale():
    """sqrt(d_k) is a number in the post's layer; the scale gets a gradient only if it is made a parameter."""
    rng = np.random.default_rng(9)
    q, k = float64(rng, N, D), float64(rng, 7, D)
    fixed = torch.softmax(q @ k.T / math.sqrt(D), -1)
    names = {str(f[0]) for f in fixed.grad_fn.next_functions[0][0].next_functions}
    assert "None" in names
    assert len(names) == 2
    scale = torch.tensor(D**-0.5, dtype=torch.float64, requires_grad=True)
    (dscale,) = torch.autograd.grad(torch.softmax(scale * (q @ k.T), -1), scale, torch.randn(N, 7).double())
    assert dscale.abs() > 1e-6


# Sections 4 to 6: what is cheap and exact; the rest follows with its chapters.


def norm(p):
    """Return the spectral norm of the softmax Jacobian of a row of two weights: 2 p_1 p_2."""
    return 2 * p[0] * p[1]


def test_both_ends_of_the_scores_pass_little():
    """Two equal scores give the norm 1/2, the largest; 99 : 1 gives 99/5000; n equal scores give 1/n."""
    assert (norm(HALF), norm((F(99, 100), F(1, 100)))) == (F(1, 2), F(99, 5000))
    for s, want in (([0.0, 0.0], 1 / 2), (np.log([99.0, 1.0]), 99 / 5000), (np.zeros(50), 1 / 50)):
        jacobian = reference.softmax_jacobian(reference.softmax(np.array(s)))
        check_close("norm", np.linalg.norm(jacobian, 2), want, terms=1.0)


def test_clipping_never_enlarges_and_can_only_cure_explosion():
    for size, want in ((1e-6, 1e-6), (10.0, 1.0)):
        w = torch.zeros(4, dtype=torch.float64, requires_grad=True)
        w.grad = torch.full((4,), size / 2, dtype=torch.float64)
        torch.nn.utils.clip_grad_norm_([w], max_norm=1.0)
        assert w.grad.norm().item() == pytest.approx(want, rel=1e-5)


def test_a_higher_threshold_clips_less():
    """A gradient of norm 10: threshold 1 leaves 1, threshold 100 leaves 10."""
    left = []
    for threshold in (1.0, 100.0):
        w = torch.zeros(4, dtype=torch.float64, requires_grad=True)
        w.grad = torch.full((4,), 5.0, dtype=torch.float64)
        torch.nn.utils.clip_grad_norm_([w], max_norm=threshold)
        left.append(w.grad.norm().item())
    assert left == pytest.approx([1.0, 10.0], rel=1e-5)


def test_warm_up_changes_steps_and_not_gradients():
    grads, steps = [], []
    for rate in (1e-6, 1e-3):
        w = torch.tensor([1.0, -2.0], dtype=torch.float64, requires_grad=True)
        (w**3).sum().backward()
        torch.optim.SGD([w], lr=rate).step()
        grads.append(w.grad.tolist())
        steps.append(abs(w[0].item() - 1.0))
    assert grads[0] == grads[1]
    assert steps[1] / steps[0] == pytest.approx(1000, rel=1e-6)


def attend_bmhk(q, k, v):
    """Return attention over axis 1 of (B, M, H, K), the layout of memory_efficient_attention."""
    return functional.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v))).transpose(1, 2)


def test_heads_passed_as_tokens_attend_to_each_other():
    """(B, H, M, K) where (B, M, H, K) is taken: no error, and each position attends over the heads."""
    rng = np.random.default_rng(10)
    q, k, v = (float64(rng, B, HEADS, N, D) for _ in range(3))
    got = attend_bmhk(q, k, v)
    assert got.shape == q.shape
    across_heads = torch.softmax(torch.einsum("bhmd,bgmd->bmhg", q, k) / math.sqrt(D), -1)
    check_close("o", got, torch.einsum("bmhg,bgmd->bhmd", across_heads, v), terms=9.0)
    right = functional.scaled_dot_product_attention(q, k, v)
    assert (got - right).abs().max() > 0.01
    check_close("o", attend_bmhk(*(x.transpose(1, 2) for x in (q, k, v))).transpose(1, 2), right, terms=9.0)


def test_the_norm_of_a_gradient_depends_on_the_reduction():
    """Sum and mean of the same 1000 losses: norms 1000 apart, the same minima."""
    x = torch.tensor(np.random.default_rng(11).normal(size=(1000, 3)))
    norms = []
    for reduce in (torch.sum, torch.mean):
        w = torch.zeros(3, dtype=torch.float64, requires_grad=True)
        reduce((x @ w - 1) ** 2).backward()
        norms.append(w.grad.norm().item())
    assert norms[0] / norms[1] == pytest.approx(1000)


def test_the_update_ratio_is_that_of_plain_sgd():
    """lr |g| / |w| is the relative step of SGD; Adam's first has lr sqrt(n) / |w|, whatever g is."""
    w_0, g, rate = np.array([3.0, 4.0]), np.array([0.6, 0.8]), 0.01
    ratios = {}
    for name, optimiser in (("sgd", torch.optim.SGD), ("adam", torch.optim.Adam)):
        w = torch.tensor(w_0, requires_grad=True)
        w.grad = torch.tensor(g)
        optimiser([w], lr=rate).step()
        ratios[name] = np.linalg.norm(w.detach().numpy() - w_0) / np.linalg.norm(w_0)
    formula = rate * np.linalg.norm(g) / np.linalg.norm(w_0)
    assert ratios["sgd"] == pytest.approx(formula) == pytest.approx(0.002)
    assert ratios["adam"] == pytest.approx(rate * math.sqrt(2) / 5, rel=1e-6)
    assert abs(ratios["adam"] - formula) > 1e-4


def test_the_share_of_zeros_depends_on_the_layer():
    """An embedding of 1000 rows that sees 10 tokens has at least 99 % zeros, a linear layer none."""
    embedding, linear = torch.nn.Embedding(1000, 4), torch.nn.Linear(4, 3)
    linear(embedding(torch.arange(10))).square().sum().backward()
    shares = [(p.grad == 0).float().mean().item() for p in (embedding.weight, linear.weight)]
    assert shares[0] >= 0.99
    assert shares[1] == 0.0


def test_large_finite_logits_make_no_nan_and_a_clamp_stops_the_gradient():
    logits = torch.tensor([0.0, 1e30], dtype=torch.float64, requires_grad=True)
    assert torch.softmax(logits, -1).tolist() == [0.0, 1.0]
    clamped = torch.clamp(torch.tensor([1.0, 80.0], requires_grad=True), max=50.0)
    assert torch.softmax(clamped, -1).isfinite().all()
    s = torch.tensor([49.0, 80.0], dtype=torch.float64, requires_grad=True)
    (ds,) = torch.autograd.grad(torch.softmax(s.clamp(max=50.0), -1), s, torch.tensor([1.0, 0.0]).double())
    assert ds[1] == 0 < ds[0]
    assert torch.softmax(torch.tensor([math.inf, 0.0]), -1).isnan().any()


def test_an_unscaled_product_can_overflow_in_float16_alone():
    q = torch.full((4,), 200.0)
    assert torch.dot(q, q) == 160000.0
    assert torch.dot(q, q).half().isinf()
    assert (torch.dot(q, q) / math.sqrt(4) / 2).half().isfinite()


def test_layer_norm_of_a_constant_token_needs_epsilon():
    token = torch.full((1, 4), 3.0)
    assert functional.layer_norm(token, (4,), eps=0.0).isnan().all()
    assert functional.layer_norm(token, (4,), eps=1e-5).tolist() == [[0.0] * 4]


def test_scaling_saves_small_gradients_of_float16_and_bfloat16_needs_none():
    small = torch.tensor(1e-8)
    assert small.half() == 0
    assert (small * 65536).half() / 65536 == pytest.approx(1e-8, rel=1e-3)
    assert small.bfloat16() != 0


def test_the_names_of_mixed_precision_are_deprecated():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with pytest.warns(FutureWarning, match="deprecated"):
            torch.cuda.amp.autocast()
        with pytest.warns(FutureWarning, match="deprecated"):
            torch.cuda.amp.GradScaler()


def test_without_zero_grad_gradients_add_up():
    w = torch.zeros(1, requires_grad=True)
    seen = []
    for _ in range(2):
        w.sum().backward()
        seen.append(w.grad.item())
    assert seen == [1.0, 2.0]
    w.grad = None
    w.sum().backward()
    assert w.grad.item() == 1.0


def test_clipping_a_scaled_gradient_is_not_clipping():
    """Gradient 1/2, scale 65536, threshold 1: the step sees 1/65536; unscaled first, it sees 1/2."""
    seen = []
    for unscale_first in (False, True):
        w = torch.zeros(1, dtype=torch.float64, requires_grad=True)
        w.grad = torch.full((1,), 0.5 * 65536, dtype=torch.float64)
        if unscale_first:
            w.grad /= 65536
        torch.nn.utils.clip_grad_norm_([w], max_norm=1.0)
        seen.append(w.grad.item() if unscale_first else w.grad.item() / 65536)
    assert seen == pytest.approx([1 / 65536, 0.5], rel=1e-5)


def test_accumulated_means_need_equal_counts():
    """8 tokens of slope 1 and 1 token of slope 9: the mean is 17/9, the mean of the means 5."""
    batches = [[F(1)] * 8, [F(9)]]
    means = [sum(batch) / len(batch) for batch in batches]
    assert sum(means) / len(means) == 5
    assert sum(map(sum, batches)) / sum(map(len, batches)) == F(17, 9)
    equal = [[F(1)] * 4, [F(9)] * 4]
    assert sum(sum(b) / len(b) for b in equal) / 2 == sum(map(sum, equal)) / 8


def test_a_short_last_window_takes_no_step():
    """Six batches in windows of four: one step; the gradients of two batches stay for the next epoch."""

    def steps(batches, window):
        return [i for i in range(batches) if (i + 1) % window == 0]

    assert steps(6, 4) == [3]
    assert steps(8, 4) == [3, 7]
