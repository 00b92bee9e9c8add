"""Softmax at a temperature, with its derivatives by the logits and by the temperature."""

import numpy as np

from attngrad.notation import (
    Bool,
    Float,
    RangeError,
    check_same_shape,
    finite_array,
    finite_number,
    first_index,
    float_array,
    positive_number,
)
from attngrad.reference.softmax import checked_logits, shifted_logits, softmax, softmax_jvp, softmax_vjp


def softmax_temperature(
    s: Float[np.ndarray, "*rows n"],
    tau: float | Float[np.ndarray, ""],
    mask: Bool[np.ndarray, "..."] | None = None,
) -> Float[np.ndarray, "*rows n"]:
    r"""Return the softmax of s / tau: sharper for a small temperature, flatter for a large one.

    Formula: p_i = exp(s_i / tau) / sum_j exp(s_j / tau). Attention's factor 1/sqrt(d) is tau = sqrt(d).

    Derived in: def-temperature.

    Raises: RangeError unless tau is positive and finite, besides what `softmax` raises.

    >>> softmax_temperature(np.array([0.0, 2.0 * np.log(3.0)]), 2.0).round(12)
    array([0.25, 0.75])
    """
    tau = positive_number("tau", tau)
    logits, _ = checked_logits(s, mask)
    # Shifting before dividing keeps s / tau from overflowing where it would be the largest of its row.
    with np.errstate(over="ignore"):
        return softmax(shifted_logits(logits)[0] / tau)


def _centred(p: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Return the logits minus the largest weighted one of their row, and 0 where the weight is 0.

    Raises: RangeError naming the first logit that is not finite although its key has weight.
    """
    wrong = (p > 0.0) & ~np.isfinite(s)
    if wrong.any():
        at = first_index(wrong)
        raise RangeError(f"s: expected finite logits where p > 0, got {s[at]} at index {at}")
    shifted, _ = shifted_logits(np.where(p > 0.0, s, -np.inf))
    return np.where(p > 0.0, shifted, 0.0)


def softmax_temperature_vjp(
    p: Float[np.ndarray, "*rows n"],
    s: Float[np.ndarray, "*rows n"],
    tau: float | Float[np.ndarray, ""],
    dp: Float[np.ndarray, "*rows n"],
) -> tuple[Float[np.ndarray, "*rows n"], float]:
    r"""Return the cotangents of the logits and of the temperature, which all rows share.

    Formula: with g = J dp, ds = g / tau and dtau = -sum_i g_i s_i / tau^2, summed over all rows.

    Derived in: eq-temperature, eq-temperature-derivative.

    Raises: as `softmax_vjp` and `softmax_temperature`; RangeError for a logit that is not finite where p > 0.

    >>> p, s = np.array([0.25, 0.75]), np.array([0.0, 2.0 * np.log(3.0)])
    >>> ds, dtau = softmax_temperature_vjp(p, s, 2.0, np.array([1.0, 0.0]))
    >>> print(ds, round(dtau, 6))
    [ 0.09375 -0.09375] 0.102995
    """
    tau = positive_number("tau", tau)
    p, s = finite_array("p", p), float_array("s", s)
    check_same_shape("s", s.shape, "p", p.shape)
    through_softmax = softmax_vjp(p, dp)
    # A row of g sums to zero, so s may be shifted within a row. The square of tau could leave the range of
    # floats; a shifted logit over tau is the logarithm of a quotient of weights.
    dtau = -(through_softmax * (_centred(p, s) / tau)).sum() / tau
    return through_softmax / tau, float(dtau)


def softmax_temperature_jvp(
    p: Float[np.ndarray, "*rows n"],
    s: Float[np.ndarray, "*rows n"],
    tau: float | Float[np.ndarray, ""],
    ts: Float[np.ndarray, "*rows n"],
    ttau: float | Float[np.ndarray, ""],
) -> Float[np.ndarray, "*rows n"]:
    r"""Return the tangent of the weights for tangents of the logits and of the temperature.

    Formula: tp = J (ts / tau - s ttau / tau^2).

    Derived in: eq-temperature, eq-temperature-derivative.

    Raises: as `softmax_temperature_vjp`; DtypeError or RangeError unless ttau is one finite number.

    >>> p, s = np.array([0.25, 0.75]), np.array([0.0, 2.0 * np.log(3.0)])
    >>> softmax_temperature_jvp(p, s, 2.0, np.array([1.0, 0.0]), 0.0)
    array([ 0.09375, -0.09375])
    """
    tau, ttau = positive_number("tau", tau), finite_number("ttau", ttau)
    p, s, ts = finite_array("p", p), float_array("s", s), finite_array("ts", ts)
    check_same_shape("s", s.shape, "p", p.shape)
    check_same_shape("ts", ts.shape, "p", p.shape)
    return softmax_jvp(p, ts / tau - (_centred(p, s) / tau) * (ttau / tau))
