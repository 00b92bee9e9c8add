"""Softmax and log-sum-exp: values, Jacobian, second derivative, and the two products with the Jacobian."""

from typing import Any

import numpy as np

from attngrad.notation import (
    Bool,
    Float,
    RangeError,
    check_same_shape,
    finite_array,
    first_index,
    float_array,
    mask_array,
)


def checked_logits(s: Any, mask: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the logits with -inf at every masked key, and where a key takes part.

    Raises: RangeError naming the first NaN or +inf that is not masked, besides errors of type and shape.
    """
    s = float_array("s", s)
    allowed = mask_array("mask", mask, s.shape)
    wrong = allowed & (np.isnan(s) | np.isposinf(s))
    if wrong.any():
        at = first_index(wrong)
        raise RangeError(f"s: expected finite logits or -inf, got {s[at]} at index {at}")
    logits = np.where(allowed, s, -np.inf)
    return logits, logits > -np.inf


def shifted_logits(logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the logits minus the largest of their row, and that largest one; an empty row stays at -inf.

    The shift makes every exponent at most 0. A difference beyond the range of floats becomes -inf,
    whose exponential is the right limit.
    """
    top = np.max(logits, axis=-1, keepdims=True, initial=-np.inf)
    with np.errstate(over="ignore"):
        return logits - np.where(top > -np.inf, top, 0.0), top


def softmax(
    s: Float[np.ndarray, "*rows n"], mask: Bool[np.ndarray, "..."] | None = None
) -> Float[np.ndarray, "*rows n"]:
    r"""Return the softmax of each row.

    Formula: p_i = exp(s_i) / sum_j exp(s_j), the sum over the keys that the mask allows.

    Derived in: def-softmax, def-masked.

    Raises: DtypeError for what is no float array or no boolean mask; ShapeError for a mask that does not
    broadcast to s; RangeError for a NaN or +inf that is not masked.

    >>> softmax(np.log(np.array([1.0, 1.0, 2.0])))
    array([0.25, 0.25, 0.5 ])
    >>> softmax(np.zeros(3), mask=np.array([True, True, False]))
    array([0.5, 0.5, 0. ])
    """
    logits, _ = checked_logits(s, mask)
    weights = np.exp(shifted_logits(logits)[0])
    total = weights.sum(axis=-1, keepdims=True)
    return weights / np.where(total > 0.0, total, 1.0)


def lse(
    s: Float[np.ndarray, "*rows n"], mask: Bool[np.ndarray, "..."] | None = None
) -> Float[np.ndarray, "*rows"]:
    r"""Return the log-sum-exp of each row; its gradient is softmax.

    Formula: lse = log sum_j exp(s_j), and -inf for a row without a key.

    Derived in: def-lse.

    Raises: as `softmax`.

    >>> print(lse(np.zeros(4)), lse(np.array([1e4, 1e4])) - 1e4)
    1.3862943611198906 0.6931471805601177
    """
    logits, _ = checked_logits(s, mask)
    shifted, top = shifted_logits(logits)
    total = np.exp(shifted).sum(axis=-1)
    top = top[..., 0]
    return np.asarray(np.where(total > 0.0, top + np.log(np.where(total > 0.0, total, 1.0)), -np.inf))


def softmax_jacobian(p: Float[np.ndarray, "*rows n"]) -> Float[np.ndarray, "*rows n n"]:
    r"""Return the Jacobian of softmax, one square matrix for each row.

    Formula: J_ij = dp_i / ds_j = p_i (delta_ij - p_j), so J = diag(p) - p p^T.

    Derived in: eq-softmax-jacobian.

    Raises: DtypeError, ShapeError or RangeError for what is no finite float array with at least one axis.

    >>> softmax_jacobian(np.array([0.25, 0.75]))
    array([[ 0.1875, -0.1875],
           [-0.1875,  0.1875]])
    """
    p = finite_array("p", p)
    return p[..., :, None] * (np.eye(p.shape[-1]) - p[..., None, :])


def softmax_hessian(p: Float[np.ndarray, "*rows n"]) -> Float[np.ndarray, "*rows n n n"]:
    r"""Return the second derivative of softmax, which is the third of lse: symmetric in its three indices.

    Formula: dJ_ij / ds_l = delta_ij J_il - J_il p_j - p_i J_jl, with J the Jacobian of softmax.

    Derived in: eq-second.

    Raises: as `softmax_jacobian`.

    >>> softmax_hessian(np.array([0.25, 0.75]))[0, 0]
    array([ 0.09375, -0.09375])
    """
    p = finite_array("p", p)
    jacobian = softmax_jacobian(p)
    diagonal = np.eye(p.shape[-1])[:, :, None] * jacobian[..., :, None, :]
    first = jacobian[..., :, None, :] * p[..., None, :, None]
    second = p[..., :, None, None] * jacobian[..., None, :, :]
    return diagonal - first - second


def softmax_vjp(
    p: Float[np.ndarray, "*rows n"], dp: Float[np.ndarray, "*rows n"]
) -> Float[np.ndarray, "*rows n"]:
    r"""Return the cotangent of the logits: the weight times the advantage over the row's mean.

    Formula: ds_i = p_i (dp_i - sum_j p_j dp_j).

    Derived in: eq-vjp.

    Raises: ShapeError naming both shapes where they differ; RangeError for a NaN or infinity.

    >>> softmax_vjp(np.array([0.25, 0.75]), np.array([1.0, 0.0]))
    array([ 0.1875, -0.1875])
    """
    p, dp = finite_array("p", p), finite_array("dp", dp)
    check_same_shape("dp", dp.shape, "p", p.shape)
    mean = (p * dp).sum(axis=-1, keepdims=True)
    return p * (dp - mean)


def softmax_jvp(
    p: Float[np.ndarray, "*rows n"], ts: Float[np.ndarray, "*rows n"]
) -> Float[np.ndarray, "*rows n"]:
    r"""Return the tangent of the weights for a tangent of the logits; J is symmetric, so this equals the VJP.

    Formula: tp_i = p_i (ts_i - sum_j p_j ts_j).

    Derived in: eq-jvp.

    Raises: as `softmax_vjp`.

    >>> softmax_jvp(np.array([0.25, 0.75]), np.array([1.0, 1.0]))
    array([0., 0.])
    """
    p, ts = finite_array("p", p), finite_array("ts", ts)
    check_same_shape("ts", ts.shape, "p", p.shape)
    mean = (p * ts).sum(axis=-1, keepdims=True)
    return p * (ts - mean)
