"""Checks that must reject the mistakes of training loops and positions, and what lets them through."""

import numpy as np

from attngrad import reference as ref
from attngrad.checks import check_close, check_vjp
from attngrad.mistakes.positions import POSITIONS
from attngrad.mistakes.training import TRAINING
from attngrad.offsets import ClipMap

from .table_mistakes import TABLE_CHECKS

RNG = np.random.default_rng(41)
H, N, M = 2, 4, 6
ROW = ClipMap(2)(N, N)
GRADS = RNG.standard_normal((5, 3))
X, S, BIAS = RNG.standard_normal((N, M)), RNG.standard_normal((2, N, M)), RNG.standard_normal((N, M))
ANGLES = RNG.uniform(0.3, 1.2, size=(N, M))
COS, SIN = np.cos(ANGLES), np.sin(ANGLES)
TERMS = RNG.standard_normal(1000)
ORDERS = np.stack([RNG.permutation(1000) for _ in range(4)])


def clipped_step(candidate):
    """A gradient of norm 0.5 is not clipped to 1, whatever the loss was multiplied by."""
    check_close("step", candidate(np.array([0.3, 0.4]), 65536.0, 1.0), np.array([0.3, 0.4]))
    check_close("step", candidate(np.array([3.0, 4.0]), 65536.0, 1.0), np.array([0.6, 0.8]))


def small_gradients(candidate):
    """2^-26 is below what float16 holds, and 65536 times as much is not."""
    small = np.array([2.0**-26, -(2.0**-28)])
    check_close("grad", candidate(small, 65536.0), small, kind="equal")


def gradients_of_steps(candidate):
    check_close("step 4", candidate(GRADS)[4], GRADS[4], kind="equal")


def mean_over_tokens(candidate):
    """Eight tokens of slope 1 and one of slope 9: 17 / 9."""
    got = candidate(np.array([[8.0], [9.0]]), np.array([8.0, 1.0]))
    check_close("mean", got, np.array([17.0 / 9.0]))


def mean_of_windows(candidate):
    """Five steps in windows of two: the last window is one step, whose gradient is its mean."""
    check_close("last window", candidate(GRADS, 2)[-1], GRADS[4])


def zero_refused(candidate):
    """A gradient of zeros is wrong, however small the right one is."""
    small = 1e-5 * RNG.standard_normal(20)
    check_close("zeros accepted", candidate(np.zeros(20), small), 0.0, kind="equal")
    check_close("itself accepted", candidate(small, small), 1.0, kind="equal")


def sums_of_runs(candidate):
    sums = candidate(TERMS, ORDERS)
    check_close("sum of each run", sums, np.full(4, sums[0]), kind="equal")


def table_of_calls(candidate):
    check_close("table of each call", candidate(BIAS, 3), np.stack([BIAS] * 3), kind="equal")


def shift_pair_by_pair(candidate):
    """An index matrix tells which entry comes to each pair (i, j) with j <= i + M - N."""
    x = np.arange(1.0, 1.0 + N * M).reshape(N, M)
    got = candidate(x)
    for i in range(N):
        for j in range(i + M - N + 1):
            check_close(f"pair {i}, {j}", got[i, j], x[i, j + N - 1 - i], kind="equal")


def rope_vjp_difference(candidate):
    first, second = slice(0, M // 2), slice(M // 2, M)

    def rope(x):
        turned = np.concatenate([-x[:, second], x[:, first]], axis=-1)
        return x * COS + turned * SIN

    check_vjp(rope, lambda x, u: candidate(u, COS, SIN), X)


def rope_called_twice(candidate):
    once, twice = candidate(X, COS, SIN, 2)
    check_close("second call", twice, once, kind="equal")


def square_table_vjp_difference(candidate):
    check_vjp(
        lambda table: ref.table_bias(table, ROW),
        lambda table, u: candidate(ROW, u, 5),
        RNG.standard_normal((H, 5)),
    )


def last_place_of_a_large_bias(candidate):
    got = candidate((16, 32, 4096, 4096), np.array([[15, 31, 4095, 4095]]))
    check_close("place", got, np.array([16 * 32 * 4096 * 4096 - 1]), kind="equal")


def bias_of_batches(candidate):
    two = RNG.standard_normal((2, H, N, M))
    check_close("bias of batch 1", candidate(two, 2)[1], two[1], kind="equal")
    check_close("shared bias", candidate(two[:1], 2)[1], two[0], kind="equal")


def weights_of_layers(candidate):
    check_close("weights of layer 1", candidate(S, BIAS)[1], ref.softmax(S[1] + BIAS))


def cross_weights(candidate):
    """Equal products: all keys are attended to alike."""
    check_close("weights", candidate(np.zeros((N, M)), BIAS), np.full((N, M), 1.0 / M))


TRAINING_CHECKS = {
    "clipped-step": clipped_step,
    "small-gradients": small_gradients,
    "gradients-of-steps": gradients_of_steps,
    "mean-over-tokens": mean_over_tokens,
    "mean-of-windows": mean_of_windows,
    "zero-refused": zero_refused,
    "sums-of-runs": sums_of_runs,
    "table-of-calls": table_of_calls,
    "shift-pair-by-pair": shift_pair_by_pair,
    "rope-vjp-difference": rope_vjp_difference,
    "rope-called-twice": rope_called_twice,
    "square-table-vjp-difference": square_table_vjp_difference,
    "last-place-of-a-large-bias": last_place_of_a_large_bias,
    "bias-of-batches": bias_of_batches,
    "weights-of-layers": weights_of_layers,
    "cross-weights": cross_weights,
}
CHECKS = TRAINING_CHECKS | {"rows-pair-by-pair": TABLE_CHECKS["rows-pair-by-pair"]}
WRONG = {wrong.id: wrong for wrong in (*TRAINING, *POSITIONS)}


def naive_training_inputs() -> dict[str, dict[str, tuple]]:
    """Return, for each function that a mistake stands for, inputs such as naive tests use."""
    one_row = np.zeros((1, 1), dtype=np.int64)
    halves = np.concatenate([SIN[:, : M // 2]] * 2, axis=-1)
    counts, sums = np.array([3.0, 2.0, 4.0]), GRADS[:3]
    small = np.arange(-500.0, 500.0)
    return {
        "clip(unscale(scaled_grad), max_norm)": {
            "unit-loss-scale": (GRADS[0], 1.0, 0.1),
            "clipped": (10.0 * GRADS[0], 1024.0, 1.0),
            "not-clipped": (GRADS[0], 1024.0, 10.0),
        },
        "unscale(float16(loss_scale * grad))": {
            "large-gradients": (np.array([0.5, -0.25]), 1024.0),
            "small-gradients": (np.array([1e-9]), 65536.0),
        },
        "the gradient of every step": {"one-step": (GRADS[:1],), "two-steps": (GRADS[:2],)},
        "sums.sum(axis=0) / counts.sum()": {
            "equal-counts": (sums, np.full(3, 4.0)),
            "other-counts": (sums, counts),
        },
        "the mean gradient of every window": {
            "whole-windows": (GRADS[:4], 2),
            "one-step": (GRADS[:1], 2),
        },
        "close(got, want)": {
            "random-cotangent": (np.zeros(20), RNG.standard_normal(20)),
            "mean-loss": (np.zeros(20), 1e-5 * RNG.standard_normal(20)),
        },
        "the sum of every run": {"short-sums": (small, ORDERS), "long-sums": (TERMS, ORDERS)},
        "the table of every call": {"one-step": (BIAS, 1)},
        "relative shift of (N, M) to pairs": {"one-token": (X[:1, :1],), "square": (X[:, :N],)},
        "dy * cos - rot(dy * sin)": {
            "equal-halves": (X, COS, halves),
            "sum-loss": (np.ones((N, M)), COS, SIN),
        },
        "rope(x, cos, sin) at every call": {"one-step": (X, COS, SIN, 1), "two-steps": (X, COS, SIN, 2)},
        "table_bias_vjp(row, dbias, R), as many queries as keys": {
            "sum-loss": (ROW, np.zeros((2, H, N, N)), 5),
            "one-token": (one_row, X[None, :1, :1], 1),
            "one-head": (ROW, RNG.standard_normal((2, 1, N, N)), 5),
        },
        "ClipMap(max_distance)(N, M, query_start)": {
            "one-token": (1, 1, None, 2),
            "square": (4, 4, None, 2),
            "cache": (1, 4, None, 2),
        },
        "flat index of a pair": {
            "small-bias": ((2, 4, 64, 64), np.array([[1, 3, 63, 63]])),
            "large-bias": ((16, 32, 4096, 4096), np.array([[0, 16, 0, 0], [15, 0, 0, 0]])),
        },
        "the bias of every batch": {"one-batch": (S[None, :1], 2), "two-batches": (S[:, None], 2)},
        "softmax(s + bias) of every layer": {"one-layer": (S[:1], BIAS), "zero-bias": (S, 0.0 * BIAS)},
        "softmax(s) beside a decoder's bias": {
            "zero-bias": (S[0], 0.0 * BIAS),
            "equal-bias": (S[0], 0.0 * BIAS + BIAS[:, :1]),
        },
    }
