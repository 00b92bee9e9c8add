"""Checks that must reject the mistakes of the bias gradient, and the naive inputs that let them through."""

from collections.abc import Callable
from typing import Any

import numpy as np

from attngrad import reference as ref
from attngrad.checks import check_close, check_vjp
from attngrad.mistakes import MISTAKES

B, H, N, M, D, D_V = 2, 3, 4, 5, 6, 7
SCALE, CAP = 0.4, 1.5
RNG = np.random.default_rng(11)
Q, K, V = (RNG.standard_normal(shape) for shape in ((B, H, N, D), (B, H, M, D), (B, H, M, D_V)))
BIAS, SINK = RNG.standard_normal((B, H, N, M)), RNG.standard_normal(H)
KEEP = RNG.random((B, H, N, M)) < 0.7
DLSE = RNG.standard_normal((B, H, N))

Backward = Callable[[Any, np.ndarray], np.ndarray]


def attend(bias: np.ndarray, **options: Any) -> Any:
    """Return attention with this bias."""
    return ref.attention(Q, K, V, bias, scale=SCALE, **options)


def through_output(backward: Backward, bias: np.ndarray = BIAS, **options: Any) -> None:
    """Require ``backward(saved, dp)`` with dp = do v^T to be the gradient by the bias."""

    def vjp(bias, do):
        return backward(attend(bias, **options), do @ np.swapaxes(V, -1, -2))

    check_vjp(lambda bias: attend(bias, **options).o, vjp, bias)


def inside_vjp_difference(candidate):
    through_output(lambda saved, dp: candidate(saved.p, dp, SCALE), bias_inside_scale=True)


def outside_vjp_difference(candidate):
    through_output(lambda saved, dp: candidate(saved.p, dp, SCALE))


def weights_with_bias(candidate):
    """A bias of +5 on one key acts like 5, not like 5 scale or 5 log 2."""
    bias = np.where(np.arange(M) == 1, 5.0, 0.0)
    got = candidate(Q @ np.swapaxes(K, -1, -2), np.broadcast_to(bias, BIAS.shape), SCALE)
    check_close("p", got, attend(bias).p, terms=1.0)


def shared_bias_difference(candidate):
    shared = BIAS[:, :1].copy()
    through_output(lambda saved, dp: candidate(ref.softmax_vjp(saved.p, dp))[:, None], shared)


def batched_bias_difference(candidate):
    through_output(lambda saved, dp: candidate(ref.softmax_vjp(saved.p, dp)))


def lse_vjp_difference(candidate):
    def forward(bias):
        saved = attend(bias)
        return saved.o, saved.lse

    def vjp(bias, do, dlse):
        return candidate(attend(bias).p, do @ np.swapaxes(V, -1, -2), dlse)

    check_vjp(forward, vjp, BIAS)


def sink_vjp_difference(candidate):
    through_output(lambda saved, dp: candidate(saved.s, SINK, dp), sink=SINK)


def cap_vjp_difference(candidate):
    def backward(saved, dp):
        return candidate(saved.s, CAP, ref.softmax_vjp(saved.p, dp))

    through_output(backward, softcap=CAP)


def dropout_vjp_difference(candidate):
    through_output(lambda saved, dp: candidate(saved.p, saved.keep, dp), keep=KEEP, dropout=0.3)


BIAS_CHECKS = {
    "inside-vjp-difference": inside_vjp_difference,
    "outside-vjp-difference": outside_vjp_difference,
    "weights-with-bias": weights_with_bias,
    "shared-bias-difference": shared_bias_difference,
    "batched-bias-difference": batched_bias_difference,
    "lse-vjp-difference": lse_vjp_difference,
    "sink-vjp-difference": sink_vjp_difference,
    "cap-vjp-difference": cap_vjp_difference,
    "dropout-vjp-difference": dropout_vjp_difference,
}


def naive_bias_inputs() -> dict[str, dict[str, tuple]]:
    """Return, for each function that a mistake stands for, inputs such as naive tests use."""
    saved, capped = attend(BIAS), attend(BIAS, softcap=CAP)
    p, dp, ones = saved.p, RNG.standard_normal(BIAS.shape), np.ones(BIAS.shape)
    qk, keep = Q @ np.swapaxes(K, -1, -2), KEEP / 0.7
    column, one = dp[..., :1], np.ones((B, H, N, 1))
    ds = ref.softmax_vjp(p, dp)
    vanished = {"sum-loss": (ref.softmax_vjp(p, ones),), "one-key": (ref.softmax_vjp(one, column),)}
    row = slice(None), slice(None), slice(1)
    scaled = {
        "sum-loss": (p, ones, SCALE),
        "one-key": (one, column, SCALE),
        "one-row": (p[row], dp[row], SCALE),
        "unit-scale": (p, dp, 1.0),
    }
    return {
        "scale * softmax_vjp(p, dp)": scaled,
        "softmax_vjp(p, dp) at any scale": scaled,
        "softmax(scale * qk + bias)": {
            "unit-scale": (qk, BIAS, 1.0),
            "zero-bias": (qk, np.zeros(BIAS.shape), SCALE),
            "equal-bias": (qk, np.broadcast_to(BIAS[..., :1], BIAS.shape), SCALE),
            "hard-mask": (qk, np.where(np.arange(M) < 3, 0.0, -np.inf), SCALE),
            "one-key": (qk[..., :1], BIAS[..., :1], SCALE),
            "one-row": (qk[row], BIAS[row], SCALE),
        },
        "ds.sum(axis=-3)": vanished | {"one-head": (ds[:, :1],), "one-batch": (ds[:1],)},
        "ds": vanished | {"one-head": (ds[:, :1],), "one-batch": (ds[:1],)},
        "softmax_vjp(p, dp) + p * dlse": {
            "sum-loss": (p, ones, DLSE),
            "one-key": (one, column, DLSE),
            "zero-lse-cotangent": (p, dp, np.zeros(DLSE.shape)),
        },
        "softmax_vjp(p, dp), p with the sink": {
            "sum-loss": (saved.s, SINK, ones),
            "one-key": (saved.s[..., :1], SINK, column),
            "no-sink": (saved.s, np.full(H, -np.inf), dp),
        },
        "ds * (1 - (capped / cap)**2)": {
            "sum-loss": (capped.s, CAP, *vanished["sum-loss"]),
            "one-key": (capped.s[..., :1], CAP, *vanished["one-key"]),
            "one-row": (capped.s[row], CAP, ds[row]),
            "uncapped": (attend(BIAS, softcap=1e8).s, 1e8, ds),
        },
        "softmax_vjp(p, dp * keep)": {
            "sum-loss": (p, keep, ones),
            "one-key": (one, keep[..., :1], column),
            "no-dropout": (p, np.ones(BIAS.shape), dp),
        },
    }


def ruled_out_by_row_sums() -> dict[str, bool]:
    """Return whether the sum of a row, with the sink's share and before the scale, rejects each mistake."""
    saved, dp = attend(BIAS), RNG.standard_normal(BIAS.shape)
    ds = ref.softmax_vjp(saved.p, dp)
    sinking, capped = attend(BIAS, sink=SINK), attend(BIAS, softcap=CAP)
    share = -sinking.p_sink * (sinking.p * dp).sum(axis=-1)
    zero, before = np.zeros(DLSE.shape), ref.softmax_vjp(capped.p, dp)
    lost = -(before * (capped.s / CAP) ** 2).sum(axis=-1)
    # For each mistake its arguments, and what its rows must sum to.
    cases = {
        "bias-inside-vjp-entrywise": ((saved.p, dp, SCALE), zero),
        "bias-inside-vjp-literal": ((saved.p, dp, SCALE), zero),
        "bias-inside-vjp-factor-dropped": ((saved.p, dp, SCALE), zero),
        "bias-vjp-scaled-outside": ((saved.p, dp, SCALE), zero),
        "bias-vjp-broadcast-last-head": ((ds,), zero[:, 0]),
        "bias-vjp-zero-for-a-batch": ((ds,), zero),
        "dropout-vjp-mask-dropped": ((saved.p, KEEP / 0.7, dp), zero),
        "lse-cotangent-dropped": ((saved.p, dp, DLSE), DLSE),
        "sink-left-out-of-denominator-in-backward": ((sinking.s, SINK, dp), -share),
        "softcap-vjp-factor-dropped": ((capped.s, CAP, before), lost),
    }
    found = {}
    for id, (arguments, want) in cases.items():
        rows = []
        for function in (MISTAKES[id].right, MISTAKES[id].function):
            x = function(*arguments)
            rows.append(np.allclose(x.sum(axis=-1), want, rtol=0.0, atol=1e-12))
        assert rows[0], f"{id}: the right function does not have these sums"
        found[id] = not rows[1]
    return found
