"""The formulas of the chapter on checks, as printed, are what optimizers, losses and the monitor do."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from attngrad import monitor, reference

from .printed_formulas import printed

PAGE = "10_checking_gradients"
R, T, N, M, F = 5, 7, 3, 4, 2
SIZES = {"R": R, "T": T, "N": N, "M": M, "F": F}
RNG = np.random.default_rng(10)
W, G = RNG.normal(size=R), RNG.normal(size=R)
X = RNG.normal(size=(T, R))
S, V = RNG.normal(size=(N, M)), RNG.normal(size=(M, F))
ETA, LAMBDA, MU = 0.03, 0.7, 0.9
WEIGHTS = reference.softmax(S)
VALUES = {
    **SIZES, "w": W, "g": G, r"\eta": ETA, r"\lambda": LAMBDA, r"\mu": MU, r"\theta": (G > 0).astype(float),
    "S": S, "P": WEIGHTS, "V": V, "O": WEIGHTS @ V,
}  # fmt: skip


def stepped(make: Callable, **options) -> tuple[np.ndarray, float]:
    """Return the parameters after one step of an optimizer, and the measured ratio."""
    w = torch.nn.Parameter(torch.tensor(W))
    w.grad = torch.tensor(G)
    optimizer = make([w], lr=ETA, **options)
    with monitor.update_ratio(optimizer) as found:
        optimizer.step()
    return w.detach().numpy(), found.ratio


def mean_loss_gradient() -> np.ndarray:
    """Return the gradient of the mean of the outputs by the scores, by autograd."""
    s = torch.tensor(S, requires_grad=True)
    (torch.softmax(s, dim=-1) @ torch.tensor(V)).mean().backward()
    return s.grad.numpy()


SGD, Adam = torch.optim.SGD, torch.optim.Adam
# label: (letters, what runs)
CASES: dict[str, tuple[str, Callable[[], np.ndarray | float]]] = {
    "def-check-sgd": ("r", lambda: stepped(SGD)[0]),
    "eq-check-sgd": ("", lambda: stepped(SGD)[1] ** 2),
    "def-check-decay": ("r", lambda: stepped(SGD, weight_decay=LAMBDA)[0]),
    "eq-check-decay": ("", lambda: stepped(SGD, weight_decay=LAMBDA)[1] ** 2),
    "def-check-adam": ("r", lambda: stepped(Adam, eps=1e-30)[0]),
    "eq-check-adam": ("", lambda: stepped(Adam, eps=1e-30)[1] ** 2),
    "def-check-weights": ("ij", lambda: WEIGHTS),
    "eq-check-mean-loss": ("ij", mean_loss_gradient),
}


@pytest.mark.parametrize("label", CASES)
def test_a_printed_formula_is_what_runs(label: str) -> None:
    letters, ran = CASES[label]
    shown = printed(PAGE, label, letters, VALUES, SIZES)
    assert np.abs(shown).max() > 1e-4
    np.testing.assert_allclose(ran(), shown, rtol=1e-12, atol=1e-14)


def test_the_printed_mistake_is_not_what_runs() -> None:
    wrong = printed(PAGE, "bad-check-ratio", "", VALUES, SIZES)
    assert abs(stepped(SGD, weight_decay=LAMBDA)[1] ** 2 / wrong - 1.0) > 0.01


def test_the_steady_buffer_of_momentum_is_the_printed_one() -> None:
    w = torch.nn.Parameter(torch.tensor(W))
    w.grad = torch.tensor(G)
    optimizer = SGD([w], lr=1e-9, momentum=MU)
    for _ in range(600):
        optimizer.step()
    shown = printed(PAGE, "def-check-steady", "r", VALUES, SIZES)
    np.testing.assert_allclose(optimizer.state[w]["momentum_buffer"].numpy(), shown, rtol=1e-12)


@pytest.mark.parametrize("label", ["eq-check-mean-norm", "eq-check-mean"])
def test_a_sum_and_a_mean_are_related_as_printed(label: str) -> None:
    grads = {}
    for reduction in ("sum", "mean"):
        w = torch.tensor(W, requires_grad=True)
        getattr(torch.tensor(X).matmul(w).tanh(), reduction)().backward()
        grads[reduction] = monitor.gradient_norm({"w": w}, reduction=reduction, terms=T)
    power = 2 if label == "eq-check-mean-norm" else 1
    of_mean, of_sum = grads["mean"].norm ** power, grads["sum"].norm ** power
    np.testing.assert_allclose(of_mean, of_sum / T**power, rtol=1e-12)


def test_the_largest_number_of_16_bits_is_the_printed_one() -> None:
    shown = printed(PAGE, "eq-check-half", "", VALUES, SIZES)
    assert float(torch.finfo(torch.float16).max) == shown
    rows = torch.full((1, 64), 32.0, dtype=torch.float16)
    assert (rows @ rows.T).isinf().all()


def test_the_comparison_can_fail() -> None:
    shown = printed(PAGE, "eq-check-sgd", "", VALUES, SIZES)
    assert not np.allclose(stepped(Adam, eps=1e-30)[1] ** 2, shown, rtol=1e-3)
