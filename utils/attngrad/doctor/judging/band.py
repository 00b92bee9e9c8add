"""How far rounding alone moves each answer: the standard deviation of its first-order error.

Every stored array has an independent relative error of the unit roundoff u. A sum of n terms x_k, taken one
after the other in its type, has the variance u^2 sum S_k^2 of its partial sums S_k: about n u^2 sum x_k^2
where signs are mixed, and n u^2 S^2 / 3 where there is one. A score's error r_j moves its weight by
p_j (r_j - m), with m = sum_j p_j r_j and what rounding lse adds to it; that of delta moves a whole row of ds,
by p times it. The last two are common to a row, so they do not average out in what sums over keys: dq, and a
row of a table that a query sees often.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from attngrad.doctor.case import Case
from attngrad.doctor.judging.exact import weights
from attngrad.doctor.judging.rounding import ROUNDOFF, SMALLEST
from attngrad.reference import expand_kv_heads, reduce_kv_heads

ABSORBS = 1e30  # a bias of this size leaves nothing of what is added to it, in every type
LEAST = 1e-150  # a number whose square is one


def _t(x: np.ndarray) -> np.ndarray:
    """Return each matrix of the last two axes transposed."""
    return np.swapaxes(x, -1, -2)


@dataclass(frozen=True)
class Rows:
    """Variances of a row's parts: ``each`` of ds of a pair alone (B, H, N, M), ``delta`` and ``m`` (B, H, N)
    of what is common to a row, with the factors ``by_delta`` and ``ds`` (B, H, N, M) by which they act.
    """

    each: np.ndarray
    delta: np.ndarray
    m: np.ndarray
    by_delta: np.ndarray
    ds: np.ndarray
    dx: np.ndarray
    by_delta_x: np.ndarray
    each_x: np.ndarray
    relative: np.ndarray
    x0: np.ndarray


@dataclass(frozen=True)
class Units:
    """The unit roundoff of stored arrays and of sums, and the size at which numbers vanish."""

    u: float
    sums: float
    tiny: float


def units(dtype: str) -> Units:
    """Return the units of a run in a type, which sums in float32 at least."""
    tiny = max(SMALLEST[dtype], LEAST)
    return Units(ROUNDOFF[dtype], min(ROUNDOFF[dtype], ROUNDOFF["float32"]), tiny)


def through_cap(t: np.ndarray, v: np.ndarray, x: np.ndarray, cap: float, one: Units) -> np.ndarray:
    """Return the variance of cap tanh(x / cap), t its tangent, for that of x."""
    return v * (1.0 - t**2) ** 2 + 2.0 * (one.u * x) ** 2


def _score_variance(case: Case, one: Units) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the variance of the product and of the scores, and the product over the scale."""
    w = weights(case)
    keys = expand_kv_heads(case.k, case.sizes["H"])
    x0 = case.q @ _t(keys)
    if one.u > one.sums:
        spread = (case.q**2) @ _t(keys**2)
    else:
        spread = (np.abs(case.q) @ _t(np.abs(keys))) ** 2
    v_x = one.u**2 * case.scale**2 * (x0**2 + 2.0 * spread)
    if case.softcap is not None and case.softcap_on == "product":
        v_x = through_cap(w.x / case.softcap, v_x, w.x, case.softcap, one)
    b = case.dense_bias()
    b = np.zeros(()) if b is None else np.where(np.abs(b) < ABSORBS, b, 0.0)
    b = case.scale * b if case.bias_inside_scale else b
    s = np.where(np.abs(w.s) < ABSORBS, w.s, 0.0)
    v_s = v_x + one.u**2 * (s**2 + b**2)
    if case.softcap is not None and case.softcap_on == "scores":
        v_s = through_cap(w.s / case.softcap, v_s, w.s, case.softcap, one)
    return v_x, np.where(w.p > 0.0, v_s, 0.0), x0


@lru_cache(maxsize=4)
def rows(case: Case, one: Units) -> Rows:
    """Return the variances from which those of all gradients are made."""
    w = weights(case)
    v_x, v_s, x0 = _score_variance(case, one)
    relative = v_s + 2.0 * one.u**2
    p2 = w.p**2
    lse = np.where(np.isfinite(w.lse) & (np.abs(w.lse) < ABSORBS), w.lse, 0.0)
    m = (p2 * relative).sum(axis=-1) + (one.sums * lse) ** 2
    values = expand_kv_heads(case.v, case.sizes["H"])
    dp = (case.do @ _t(values)) * w.keep
    spread = (case.do**2) @ _t(values**2) * w.keep**2
    v_dp = one.u**2 * dp**2 + case.sizes["D_v"] * one.sums**2 * spread
    p_dp = w.p * dp
    delta = p_dp.sum(axis=-1)
    v_delta = (p2 * (v_dp + relative * (dp**2 + delta[..., None] ** 2))).sum(axis=-1)
    v_delta += one.u**2 * (((case.do * w.o) ** 2).sum(axis=-1) + delta**2)
    v_delta += (one.sums * np.abs(p_dp).sum(axis=-1)) ** 2
    g = dp - delta[..., None]
    if case.dlse is not None:
        # The weights that dlse multiplies may be taken from an lse that was rounded.
        g = g + case.dlse[..., None]
        v_delta += (one.u * case.dlse * lse) ** 2
    ds = w.p * g
    each = p2 * (relative * g**2 + v_dp) + one.u**2 * ds**2
    each += one.tiny**2 * (1.0 + g**2)  # of a weight so small that it vanishes
    if case.softcap is not None and case.softcap_on == "scores":
        ds, each, by_delta = _behind_cap(w.s / case.softcap, case.softcap, ds, each, v_s, w.p, one)
    else:
        by_delta = w.p
    dx, each_x, by_delta_x = ds, each, by_delta
    if case.softcap is not None and case.softcap_on == "product":
        dx, each_x, by_delta_x = _behind_cap(w.x / case.softcap, case.softcap, ds, each, v_x, w.p, one)
    return Rows(each, v_delta, m, by_delta, ds, dx, by_delta_x, each_x, relative, x0)


def _behind_cap(
    t: np.ndarray, cap: float, ds: np.ndarray, each: np.ndarray, v: np.ndarray, p: np.ndarray, one: Units
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ds in front of a cap, its variance, and the factor of the error of delta; v is of the capped."""
    slope = 1.0 - t**2
    moved = each * slope**2 + ds**2 * (8.0 * one.u**2 * t**2 + 4.0 * t**2 * v / cap**2)
    return ds * slope, moved, p * slope


def of_heads(case: Case, v: np.ndarray) -> np.ndarray:
    """Return variances, or absolute sums, of heads of queries summed to those of keys."""
    return reduce_kv_heads(v, case.sizes["H_kv"])


def outputs(case: Case, one: Units) -> dict[str, np.ndarray]:
    """Return the variances of o and lse."""
    w, r = weights(case), rows(case, one)
    values = expand_kv_heads(case.v, case.sizes["H"])
    dropped = w.p * w.keep
    v_o = 2.0 * (dropped**2 * r.relative + one.tiny**2) @ values**2 + 2.0 * w.o**2 * r.m[..., None]
    v_o += one.u**2 * w.o**2 + case.sizes["M"] * one.sums**2 * (dropped**2 @ values**2 + w.o**2 / 3.0)
    v_o += one.tiny**2
    lse = np.where(np.isfinite(w.lse) & (np.abs(w.lse) < ABSORBS), w.lse, 0.0)
    return {"o": v_o, "lse": r.m + one.u**2 * (lse**2 + 1.0)}


def of_keys(case: Case, one: Units) -> dict[str, np.ndarray]:
    """Return the variances of dq, dk and dv."""
    w, r, s = weights(case), rows(case, one), case.sizes
    keys = expand_kv_heads(case.k, s["H"])
    sq, sk = (case.sizes[axis] * one.sums**2 for axis in ("M", "N"))
    dx2 = r.dx**2
    dq = r.dx @ keys
    v_dq = (r.each_x + (one.u**2 + sq) * dx2) @ keys**2 + r.delta[..., None] * (r.by_delta_x @ keys) ** 2
    v_dq += (r.m[..., None] + one.u**2 + sq / 3.0) * dq**2
    columns = r.each_x + r.delta[..., None] * r.by_delta_x**2 + (r.m[..., None] + one.u**2 + sk) * dx2
    v_dk = _t(columns) @ case.q**2
    dk = _t(r.dx) @ case.q
    dropped = (w.p * w.keep) ** 2
    v_dv = _t(dropped * (r.relative + one.u**2 + r.m[..., None] + sk) + one.tiny**2) @ case.do**2
    dv = _t(w.p * w.keep) @ case.do
    return {
        "dq": case.scale**2 * v_dq + one.tiny**2,
        "dk": case.scale**2 * of_heads(case, v_dk + (one.u**2 + sk / 3.0) * dk**2) + one.tiny**2,
        "dv": of_heads(case, v_dv + (one.u**2 + sk / 3.0) * dv**2) + one.tiny**2,
    }
