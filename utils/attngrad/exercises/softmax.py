"""Exercises on softmax, its derivatives and the losses behind it."""

import math
from collections.abc import Callable

import numpy as np

from attngrad import reference
from attngrad.checks import check_close, check_jvp, check_vjp
from attngrad.exercises.record import Exercise, Sizes, on_record
from attngrad.mistakes import mistake

PLAIN = (
    {"n": 1},
    {"n": 2},
    {"n": 3},
    {"rows": 2, "n": 1},
    {"rows": 2, "n": 3},
    {"rows": 5, "n": 4},
    {"B": 2, "rows": 3, "n": 7},
)
WITH_HIDDEN = (*PLAIN[:-1], *({"rows": 3, "n": 4, "hidden": hidden} for hidden in (1, 4)), PLAIN[-1])
MASKED = (
    {"rows": 1, "n": 1},
    {"rows": 1, "n": 3},
    {"rows": 2, "n": 3, "hidden": 1},
    {"rows": 3, "n": 4, "hidden": 4},
    {"rows": 2, "n": 5, "hidden": 2, "largest": 1000},
    {"B": 2, "rows": 3, "n": 7, "hidden": 3},
)
_NO_AXIS = ("hidden", "largest")
_ROWS = "Each row of the last axis is one softmax; any number of axes may stand before it."


def _shape(sizes: Sizes) -> tuple[int, ...]:
    """Return the shape of the logits; the last axis is a row."""
    return tuple(size for name, size in sizes.items() if name not in _NO_AXIS)


def _mask(rng: np.random.Generator, sizes: Sizes) -> np.ndarray:
    """Return a mask that hides so many keys of every second row, each time others."""
    shape = _shape(sizes)
    hidden = rng.random(shape).argsort(axis=-1) < sizes.get("hidden", 0)
    every_second = np.arange(math.prod(shape[:-1])).reshape(shape[:-1]) % 2 == 0
    return ~(hidden & every_second[..., None])


def _of_weights(count: int) -> Callable[[np.random.Generator, Sizes], tuple]:
    """Return a way to draw weights, those of hidden keys 0, and so many random arrays of their shape."""

    def draw(rng: np.random.Generator, sizes: Sizes) -> tuple:
        p = reference.softmax(rng.normal(size=_shape(sizes)), _mask(rng, sizes))
        return (p, *(rng.normal(size=p.shape) for _ in range(count)))

    return draw


def _logits_and_mask(rng: np.random.Generator, sizes: Sizes) -> tuple[np.ndarray, np.ndarray]:
    """Return logits and a mask; what is hidden has logits larger than all others."""
    mask = _mask(rng, sizes)
    s = sizes.get("largest", 1) * rng.normal(size=mask.shape)
    return np.where(mask, s, np.abs(s).max() + 1e4), mask


def _targets(rng: np.random.Generator, sizes: Sizes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return weights, targets that sum to anything, the first row to zero, and a cotangent for each row."""
    p = reference.softmax(rng.normal(size=_shape(sizes)))
    y = rng.normal(size=p.shape)
    if p.ndim > 1:
        y[(0,) * (p.ndim - 1)] = 0.0
    return p, y, np.asarray(rng.normal(size=p.shape[:-1]))


# --- sums of absolute terms, as bounds for errors ---------------------------------------------


def _spread(p: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the sum of the absolute terms of x minus its mean."""
    return np.abs(x) + (p * np.abs(x)).sum(axis=-1, keepdims=True)


def _vjp_terms(p: np.ndarray, x: np.ndarray) -> np.ndarray:
    return p * _spread(p, x)


def _log_vjp_terms(p: np.ndarray, x: np.ndarray) -> np.ndarray:
    return np.abs(x) + p * np.abs(x).sum(axis=-1, keepdims=True)


def _loss_terms(p: np.ndarray, y: np.ndarray, dloss: np.ndarray) -> np.ndarray:
    return np.abs(dloss[..., None]) * (p * np.abs(y).sum(axis=-1, keepdims=True) + np.abs(y))


def _second_terms(p: np.ndarray, dp: np.ndarray, u: np.ndarray) -> np.ndarray:
    return p * _spread(p, _spread(p, u) * _spread(p, dp))


# --- second opinions: differences of forward functions, and plain Python ------------------------


def _placed(p: np.ndarray) -> tuple[Callable[[np.ndarray], np.ndarray], np.ndarray]:
    """Return a softmax that hides what has weight 0 in p, and logits at which it returns p."""
    live = p > 0.0
    return (lambda s: reference.softmax(s, live)), np.log(np.where(live, p, 1.0))


def _vjp_by_differences(function: Callable, arguments: tuple) -> None:
    f, s = _placed(arguments[0])
    if s.shape[-1] > 1:
        check_vjp(f, lambda s, u: function(f(s), u), s)


def _jvp_by_differences(function: Callable, arguments: tuple) -> None:
    f, s = _placed(arguments[0])
    if s.shape[-1] > 1:
        check_jvp(f, lambda s, t: function(f(s), t), s)


def _log_vjp_by_differences(function: Callable, arguments: tuple) -> None:
    f, s = _placed(arguments[0])
    if s.shape[-1] > 1:
        check_vjp(reference.log_softmax, lambda s, u: function(f(s), u), s)


def _loss_by_differences(function: Callable, arguments: tuple) -> None:
    (f, s), y = _placed(arguments[0]), arguments[1]
    if s.shape[-1] > 1:
        check_vjp(lambda s: reference.cross_entropy(s, y), lambda s, u: function(f(s), y, u), s)


def _second_by_differences(function: Callable, arguments: tuple) -> None:
    (f, s), dp = _placed(arguments[0]), arguments[1]
    if s.shape[-1] > 1:
        check_vjp(lambda s: reference.softmax_vjp(f(s), dp), lambda s, u: function(f(s), dp, u), s)


def _rows_by_hand(function: Callable, arguments: tuple) -> None:
    s, mask = (x.reshape(-1, x.shape[-1]).tolist() for x in arguments)
    for got, logits, allowed in zip(function(*arguments).reshape(len(s), -1), s, mask, strict=True):
        top = max((x for x, on in zip(logits, allowed, strict=True) if on), default=0.0)
        parts = [math.exp(x - top) if on else 0.0 for x, on in zip(logits, allowed, strict=True)]
        check_close("row", got, np.array(parts) / (math.fsum(parts) or 1.0), terms=1.0)


# --- what is asked, and what goes wrong ----------------------------------------------------------


def _double_backward(p: np.ndarray, dp: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return the gradient of <u, ds> by the logits."""
    mean_u, mean_dp = ((p * x).sum(axis=-1, keepdims=True) for x in (u, dp))
    return reference.softmax_vjp(p, (u - mean_u) * (dp - mean_dp))


def _without_outer_mean(p: np.ndarray, dp: np.ndarray, u: np.ndarray) -> np.ndarray:
    mean_u, mean_dp = ((p * x).sum(axis=-1, keepdims=True) for x in (u, dp))
    return p * (u - mean_u) * (dp - mean_dp)


def _inner_mean_fixed(p: np.ndarray, dp: np.ndarray, u: np.ndarray) -> np.ndarray:
    return reference.softmax_vjp(p, u * (dp - (p * dp).sum(axis=-1, keepdims=True)))


VJP = on_record(
    "softmax-vjp-diagonal-only",
    "softmax-vjp-elementwise",
    "softmax-vjp-sign-flipped",
    "softmax-vjp-flattened-batch",
) | {
    "the mean of a row taken without the weights": lambda p, x: p * (x - x.mean(axis=-1, keepdims=True)),
    "the weighted mean divided by the number of keys": lambda p, x: (
        p * (x - (p * x).mean(axis=-1, keepdims=True))
    ),
    "the weight in front forgotten": lambda p, x: x - (p * x).sum(axis=-1, keepdims=True),
}

SOFTMAX = (
    Exercise(
        name="softmax",
        signature="softmax(s, mask) -> p",
        asks="The weights of the keys that the boolean mask allows, 0 elsewhere; a row without a key is 0. "
        "What a hidden key holds does not matter, and large logits do not overflow.",
        instances=MASKED,
        draw=_logits_and_mask,
        right=reference.softmax,
        terms=lambda s, mask: np.ones(s.shape),
        second=_rows_by_hand,
        mistakes=on_record("softmax-mask-large-negative")
        | {
            "softmax-naive-exp": lambda s, mask: mistake("softmax-naive-exp").function(
                np.where(mask, s, -np.inf)
            ),
            "the mask applied to the weights, and no new sum": lambda s, mask: reference.softmax(s) * mask,
        },
    ),
    Exercise(
        name="softmax_vjp",
        signature="softmax_vjp(p, dp) -> ds",
        asks=f"The cotangent of the logits, from the weights and their cotangent. {_ROWS}",
        instances=WITH_HIDDEN,
        draw=_of_weights(1),
        right=reference.softmax_vjp,
        terms=_vjp_terms,
        second=_vjp_by_differences,
        mistakes=VJP,
    ),
    Exercise(
        name="softmax_jvp",
        signature="softmax_jvp(p, ts) -> tp",
        asks=f"The tangent of the weights, from the weights and the tangent of the logits. {_ROWS}",
        instances=WITH_HIDDEN,
        draw=_of_weights(1),
        right=reference.softmax_jvp,
        terms=_vjp_terms,
        second=_jvp_by_differences,
        mistakes=VJP,
    ),
    Exercise(
        name="log_softmax_vjp",
        signature="log_softmax_vjp(p, dz) -> ds",
        asks=f"The cotangent of the logits, from the weights and the cotangent of log p. {_ROWS}",
        instances=PLAIN,
        draw=_of_weights(1),
        right=reference.log_softmax_vjp,
        terms=_log_vjp_terms,
        second=_log_vjp_by_differences,
        mistakes=on_record("log-softmax-vjp-without-sum")
        | {
            "the Jacobian taken for its transpose": lambda p, dz: dz - (p * dz).sum(axis=-1, keepdims=True),
            "the vector-Jacobian product of softmax, not of its logarithm": reference.softmax_vjp,
        },
    ),
    Exercise(
        name="cross_entropy_vjp",
        signature="cross_entropy_vjp(p, y, dloss) -> ds",
        asks="The cotangent of the logits for targets y that may sum to anything, and one cotangent of the "
        f"loss for each row. {_ROWS}",
        instances=PLAIN,
        draw=_targets,
        right=reference.cross_entropy_vjp,
        terms=_loss_terms,
        second=_loss_by_differences,
        mistakes=on_record("cross-entropy-vjp-unit-targets")
        | {"the sign flipped": lambda p, y, dloss: -reference.cross_entropy_vjp(p, y, dloss)},
    ),
    Exercise(
        name="double_backward",
        signature="double_backward(p, dp, u) -> gradient of <u, ds> by s, where ds = softmax_vjp(p, dp)",
        asks=f"The derivative of the backward pass, without building a Jacobian. {_ROWS}",
        instances=WITH_HIDDEN,
        draw=_of_weights(2),
        right=_double_backward,
        terms=_second_terms,
        second=_second_by_differences,
        mistakes={
            "the product of two advantages, and no advantage of it": _without_outer_mean,
            "the mean inside the bracket held fixed": _inner_mean_fixed,
        },
    ),
)
