"""Log-softmax and cross-entropy with their derivatives."""

from typing import Any

import numpy as np

from attngrad.notation import (
    NO_LABEL_IGNORED,
    Bool,
    DtypeError,
    Float,
    Int,
    RangeError,
    check_same_shape,
    expected_labels,
    finite_array,
    first_index,
    mask_array,
)
from attngrad.reference.softmax import checked_logits, shifted_logits


def log_softmax(
    s: Float[np.ndarray, "*rows n"], mask: Bool[np.ndarray, "..."] | None = None
) -> Float[np.ndarray, "*rows n"]:
    r"""Return the logarithm of softmax without forming the quotient.

    Formula: log p_i = s_i - lse, and -inf for a key that the mask forbids.

    Derived in: eq-log-softmax.

    Raises: as `softmax`.

    >>> log_softmax(np.array([0.0, -1000.0]))
    array([    0., -1000.])
    """
    logits, _ = checked_logits(s, mask)
    shifted, _ = shifted_logits(logits)
    total = np.exp(shifted).sum(axis=-1, keepdims=True)
    return shifted - np.log(np.where(total > 0.0, total, 1.0))


def _live(p: np.ndarray, mask: Any) -> np.ndarray:
    """Return where a key takes part: allowed, and in a row that has a key."""
    return mask_array("mask", mask, p.shape) & (p > 0.0).any(axis=-1, keepdims=True)


def log_softmax_vjp(
    p: Float[np.ndarray, "*rows n"],
    dlogp: Float[np.ndarray, "*rows n"],
    mask: Bool[np.ndarray, "..."] | None = None,
) -> Float[np.ndarray, "*rows n"]:
    r"""Return the cotangent of the logits for a cotangent of log p.

    Formula: ds_i = dlogp_i - p_i sum_j dlogp_j, over the keys that the mask allows. A masked log p is the
    constant -inf, so its cotangent is not read; p alone cannot tell it from an underflow to 0. For logits
    that hold -inf pass mask = (s > -inf).

    Derived in: eq-log-softmax-vjp.

    Raises: ShapeError naming both shapes where they differ; RangeError for a NaN or infinity.

    >>> log_softmax_vjp(np.array([0.25, 0.75]), np.array([1.0, 0.0]))
    array([ 0.75, -0.75])
    """
    p, dlogp = finite_array("p", p), finite_array("dlogp", dlogp)
    check_same_shape("dlogp", dlogp.shape, "p", p.shape)
    dlogp = np.where(_live(p, mask), dlogp, 0.0)
    return dlogp - p * dlogp.sum(axis=-1, keepdims=True)


def log_softmax_jvp(
    p: Float[np.ndarray, "*rows n"],
    ts: Float[np.ndarray, "*rows n"],
    mask: Bool[np.ndarray, "..."] | None = None,
) -> Float[np.ndarray, "*rows n"]:
    r"""Return the tangent of log p for a tangent of the logits; 0 for a masked key.

    Formula: tlogp_i = ts_i - sum_j p_j ts_j.

    Derived in: eq-log-softmax-jacobian.

    Raises: as `log_softmax_vjp`.

    >>> log_softmax_jvp(np.array([0.25, 0.75]), np.array([1.0, 0.0]))
    array([ 0.75, -0.25])
    """
    p, ts = finite_array("p", p), finite_array("ts", ts)
    check_same_shape("ts", ts.shape, "p", p.shape)
    mean = (p * ts).sum(axis=-1, keepdims=True)
    return np.where(_live(p, mask), ts - mean, 0.0)


def _targets(y: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return targets as weights of the given shape: floats as they are, integer labels as one-hot rows."""
    if isinstance(y, np.ma.MaskedArray):
        raise DtypeError("y: expected a plain array, got a masked array, whose mask would be lost")
    if isinstance(y, np.ndarray | np.integer) and y.dtype.kind in "iu":
        labels, n = np.asarray(y), shape[-1]
        check_same_shape("y (labels)", labels.shape, "the rows of s", shape[:-1])
        wrong = (labels < 0) | (labels >= n)
        if wrong.any():
            at = first_index(wrong)
            told = f"y: expected {expected_labels(n)}, got {labels[at]} at index {at}"
            raise RangeError(told + NO_LABEL_IGNORED)
        return (labels[..., None] == np.arange(n)).astype(np.float64)
    if not isinstance(y, np.ndarray) or y.dtype.kind != "f":
        got = y.dtype if isinstance(y, np.ndarray) else type(y).__name__
        raise DtypeError(f"y: expected float weights or integer labels, got {got}")
    y = finite_array("y", y)
    check_same_shape("y", y.shape, "s", shape)
    return y


def _refuse(impossible: np.ndarray, y: np.ndarray, where: str) -> None:
    """Raise a RangeError that names the first target weight that rests where it may not."""
    if impossible.any():
        at = first_index(impossible)
        raise RangeError(f"y: expected weight 0 on {where}, got {y[at]} at index {at}, an infinite loss")


def cross_entropy(
    s: Float[np.ndarray, "*rows n"],
    y: Float[np.ndarray, "*rows n"] | Int[np.ndarray, "*rows"],
    mask: Bool[np.ndarray, "..."] | None = None,
) -> Float[np.ndarray, "*rows"]:
    r"""Return the cross-entropy of each row for any weights y, which need not sum to one.

    Formula: loss = lse sum_j y_j - sum_j s_j y_j = -sum_j y_j log p_j. Integer labels stand for one-hot
    rows. A row of zeros has loss 0 and gradient 0, also where the mask leaves no key.

    Derived in: eq-cross-entropy-value.

    Raises: RangeError for a label outside 0..n-1 or weight on a masked key; else as `softmax`.

    >>> s = np.log(np.array([[1.0, 3.0], [1.0, 1.0]]))
    >>> cross_entropy(s, np.array([1, 0])).round(6)
    array([0.287682, 0.693147])
    """
    logits, allowed = checked_logits(s, mask)
    y = _targets(y, logits.shape)
    _refuse((y != 0.0) & ~allowed, y, "masked keys and logits of -inf")
    log_p = log_softmax(logits)
    # A target of 0 may meet a log-weight of -inf: on a masked key, or beyond the range of floats.
    return np.asarray(-(y * np.where(y != 0.0, log_p, 0.0)).sum(axis=-1))


def cross_entropy_vjp(
    p: Float[np.ndarray, "*rows n"],
    y: Float[np.ndarray, "*rows n"] | Int[np.ndarray, "*rows"],
    dloss: Float[np.ndarray, "*rows"],
    mask: Bool[np.ndarray, "..."] | None = None,
) -> Float[np.ndarray, "*rows n"]:
    r"""Return the cotangent of the logits for one cotangent per row.

    Formula: ds_i = dloss (p_i sum_j y_j - y_i), which is p - y only where y sums to one. Give the mask with
    which p was formed: p alone cannot tell a masked key from one whose weight underflows to 0.

    Derived in: eq-cross-entropy.

    Raises: ShapeError naming both shapes where they differ; RangeError for a label outside 0..n-1, or
    weight on a masked key or in a row without a key.

    >>> cross_entropy_vjp(np.array([0.25, 0.75]), np.array([2.0, 0.0]), np.array(1.0))
    array([-1.5,  1.5])
    """
    p = finite_array("p", p)
    y = _targets(y, p.shape)
    dloss = finite_array("dloss", dloss, rank=0)
    check_same_shape("dloss", dloss.shape, "the rows of p", p.shape[:-1])
    _refuse((y != 0.0) & ~_live(p, None), y, "a row without a key")
    _refuse((y != 0.0) & ~_live(p, mask), y, "masked keys")
    return dloss[..., None] * (p * y.sum(axis=-1, keepdims=True) - y)
