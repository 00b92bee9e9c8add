"""Wrong versions of what stands around a gradient: loss scaling, clipping, accumulation, sums and tests.

``grads`` (steps, P) are the gradients of the steps of a loop, or of the parts of a batch, for P parameters.
"""

import numpy as np

from attngrad.mistakes.record import Mistake


def _clipped(grad: np.ndarray, max_norm: float) -> np.ndarray:
    """Return the gradient, shortened to a norm of at most ``max_norm``."""
    norm = float(np.sqrt((grad * grad).sum()))
    return grad * (max_norm / norm) if norm > max_norm else grad


def clipped_before_unscale(grad: np.ndarray, loss_scale: float, max_norm: float) -> np.ndarray:
    """Clip what the scaler still holds: the norm is that of the scaled gradient."""
    return _clipped(loss_scale * grad, max_norm) / loss_scale


def _right_clipped(grad: np.ndarray, loss_scale: float, max_norm: float) -> np.ndarray:
    """Return the clipped gradient of a loss that was multiplied by ``loss_scale``."""
    return _clipped(loss_scale * grad / loss_scale, max_norm)


def half_without_scale(grad: np.ndarray, loss_scale: float) -> np.ndarray:
    """Let the backward pass run in float16 on the loss as it is: what is below 2^-25 becomes zero."""
    return grad.astype(np.float16).astype(np.float64)


def _right_half(grad: np.ndarray, loss_scale: float) -> np.ndarray:
    """Return a gradient that was held in float16 while it was multiplied by ``loss_scale``."""
    return (loss_scale * grad).astype(np.float16).astype(np.float64) / loss_scale


def steps_without_zero_grad(grads: np.ndarray) -> np.ndarray:
    """Add each step's gradient to those of all steps before, since nothing empties the buffer."""
    return np.cumsum(grads, axis=0)


def _right_steps(grads: np.ndarray) -> np.ndarray:
    """Return the gradient that each step uses."""
    return grads


def mean_of_means(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Average the means of the parts of a batch, as if each had as many tokens."""
    return (sums / counts[:, None]).mean(axis=0)


def _right_mean(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return the mean over tokens by the sums (parts, P) and token counts (parts,) of a batch's parts."""
    return sums.sum(axis=0) / counts.sum()


def windows_divided_alike(grads: np.ndarray, window: int) -> np.ndarray:
    """Divide by the length of a window in the last one too, which may be shorter."""
    starts = range(0, len(grads), window)
    return np.stack([grads[n : n + window].sum(axis=0) / window for n in starts])


def _right_windows(grads: np.ndarray, window: int) -> np.ndarray:
    """Return the mean gradient of each window of accumulated steps."""
    return np.stack([grads[n : n + window].mean(axis=0) for n in range(0, len(grads), window)])


def accepted_absolutely(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Accept an absolute error of 1e-3, larger than all gradients of a mean as loss."""
    return np.asarray(float(np.abs(got - want).max() <= 1e-3))


def _right_accepted(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Return 1 if two gradients agree to 1e-6 of the largest entry of either, else 0."""
    largest = max(np.abs(got).max(), np.abs(want).max())
    return np.asarray(float(np.abs(got - want).max() <= 1e-6 * largest))


def sums_in_any_order(x: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """Add in the order in which threads arrive, in float32: each run rounds in its own way."""
    return np.array([np.cumsum(x[order].astype(np.float32))[-1] for order in orders], dtype=np.float64)


def _right_sums(x: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """Return the sum of every run, (runs,), whatever order (runs, n) the terms arrive in."""
    return np.full(len(orders), np.cumsum(x.astype(np.float32))[-1], dtype=np.float64)


def tables_made_in_forward(table: np.ndarray, steps: int) -> np.ndarray:
    """Make the table in the forward pass: each call draws another one, and none is trained."""
    return np.stack([np.random.default_rng(step).standard_normal(table.shape) for step in range(steps)])


def _right_tables(table: np.ndarray, steps: int) -> np.ndarray:
    """Return the table that each of some calls reads while nothing is updated."""
    return np.stack([table] * steps)


TRAINING = (
    Mistake(
        id="training-clip-before-unscale",
        formula=r"g \min\Bigl(1, \frac{c}{\lVert \lambda g \rVert}\Bigr) \text{ for a loss times } \lambda",
        seen="https://github.com/milesial/Pytorch-UNet/issues/468; "
        "https://github.com/pytorch/examples/issues/1196; https://github.com/NVIDIA/apex/pull/1512",
        check="clipped-step",
        function=clipped_before_unscale,
        right=_right_clipped,
        stands_for="clip(unscale(scaled_grad), max_norm)",
        missed_by=("unit-loss-scale",),
    ),
    Mistake(
        id="training-half-underflow",
        formula=r"g \text{ rounded to float16, in which } |g| \le 2^{-25} \text{ is } 0",
        seen="https://github.com/engichang1467/Open-Rig3R/issues/35",
        check="small-gradients",
        function=half_without_scale,
        right=_right_half,
        stands_for="unscale(float16(loss_scale * grad))",
        missed_by=("large-gradients",),
    ),
    Mistake(
        id="training-zero-grad-missing",
        formula=r"g^{(t)} + g^{(t-1)} + \dots + g^{(0)} \text{ at step } t",
        seen="the second post, section 6.1: its loop with mixed precision",
        check="gradients-of-steps",
        function=steps_without_zero_grad,
        right=_right_steps,
        stands_for="the gradient of every step",
        missed_by=("one-step",),
    ),
    Mistake(
        id="training-mean-of-means",
        formula=r"\frac{1}{K} \sum_{k} \frac{1}{n_k} \sum_{t=1}^{n_k} g_{kt}",
        seen="https://github.com/huggingface/transformers/pull/34191; "
        "https://github.com/OpenNMT/OpenNMT-py/pull/526",
        check="mean-over-tokens",
        function=mean_of_means,
        right=_right_mean,
        stands_for="sums.sum(axis=0) / counts.sum()",
        missed_by=("equal-counts",),
    ),
    Mistake(
        id="training-last-window-divided-alike",
        formula=r"\frac{1}{K} \sum_{t} g_t \text{ over a last window of fewer than } K \text{ steps}",
        seen="https://github.com/modelscope/ms-swift/pull/10084",
        check="mean-of-windows",
        function=windows_divided_alike,
        right=_right_windows,
        stands_for="the mean gradient of every window",
        missed_by=("whole-windows",),
    ),
    Mistake(
        id="training-tolerance-absolute",
        formula=r"\max_i |g_i - g^{*}_i| \le 10^{-3} \text{ where } \max_i |g^{*}_i| < 10^{-3}",
        seen="https://github.com/aqlaboratory/openfold-3/pull/258; https://github.com/duoan/TorchCode/issues/17",
        check="zero-refused",
        function=accepted_absolutely,
        right=_right_accepted,
        stands_for="close(got, want)",
        missed_by=("random-cotangent",),
    ),
    Mistake(
        id="sum-order-not-fixed",
        formula=r"(\dots((x_{\pi(1)} + x_{\pi(2)}) + x_{\pi(3)}) + \dots) \text{ for another } \pi"
        r" \text{ at each run}",
        seen="https://github.com/pytorch/pytorch/pull/137452; "
        "https://github.com/MooreThreads/torch_musa/pull/152",
        check="sums-of-runs",
        function=sums_in_any_order,
        right=_right_sums,
        stands_for="the sum of every run",
        missed_by=("short-sums",),
    ),
    Mistake(
        id="table-made-in-forward",
        formula=r"b_{ij} = t^{(u)}_{\varphi_{ij}} \text{ for a new random } t^{(u)} \text{ at each call } u",
        seen="https://blog.csdn.net/pzccool/article/details/147657740, section 5: nn.Embedding in forward; "
        "https://runebook.dev/zh/docs/pytorch/generated/torch.nn.parameter.parameter",
        check="table-of-calls",
        function=tables_made_in_forward,
        right=_right_tables,
        stands_for="the table of every call",
    ),
)
