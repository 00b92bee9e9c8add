"""How far rounding alone moves what is summed over pairs: a bias, a table, slopes, the scale, the sink."""

import numpy as np

from attngrad.doctor.case import Case
from attngrad.doctor.judging.band import Rows, Units, rows
from attngrad.doctor.judging.exact import weights


def _summed_to(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return the sum over the axes along which ``shape`` is broadcast to that of x."""
    x = x.sum(axis=tuple(range(x.ndim - len(shape))))
    return x.sum(axis=tuple(k for k, size in enumerate(shape) if size == 1), keepdims=True)


def of_sums(case: Case, one: Units, exact: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the variances of those of dbias, dtable, dscale and dsink that a case wants."""
    r, found = rows(case, one), {}
    factor = case.scale**2 if case.bias_inside_scale else 1.0
    if "dbias" in case.wants:
        found["dbias"] = factor * _of_bias(case, r, one)
    if "dtable" in case.wants:
        of = _of_slopes if case.table.ndim == 1 else _of_table
        found["dtable"] = factor * of(case, r, one)
    if "dscale" in case.wants:
        found["dscale"] = _of_scale(case, r, one)
    if "dsink" in case.wants:
        found["dsink"] = _of_sink(case, r, one)
    terms = {name: _terms(case, name) * one.sums**2 / 3.0 + one.u**2 for name in found}
    return {name: v + terms[name] * exact[name] ** 2 + one.tiny**2 for name, v in found.items()}


def _terms(case: Case, name: str) -> np.ndarray | int:
    """Return how many terms a sum has: of one sign, each step rounds a sum as large as the last."""
    s = case.sizes
    pairs = s["B"] * s["H"] * s["N"] * s["M"]
    if name == "dbias":
        return pairs // max(case.bias.size, 1)
    if name == "dtable" and case.table.ndim == 2:
        heads, R = case.table.shape
        return np.bincount(case.row.ravel(), minlength=R) * s["B"] * s["H"] // heads
    return {"dtable": pairs // s["H"], "dscale": pairs, "dsink": s["B"] * s["N"]}[name]


def _weighted(r: Rows, a: np.ndarray, one: Units) -> np.ndarray:
    """Return for each query the variance of sum_j a_ij ds_ij, (B, H, N)."""
    each = (a**2 * (r.each + 2.0 * one.u**2 * r.ds**2)).sum(axis=-1)
    return each + r.delta * (a * r.by_delta).sum(axis=-1) ** 2 + r.m * (a * r.ds).sum(axis=-1) ** 2


def _of_bias(case: Case, r: Rows, one: Units) -> np.ndarray:
    """Return the variance of dbias, summed over the axes along which the bias is broadcast."""
    terms = r.ds.size // max(case.bias.size, 1)
    pair = r.each + r.delta[..., None] * r.by_delta**2
    return _summed_to(pair + (r.m[..., None] + one.u**2 + terms * one.sums**2) * r.ds**2, case.bias.shape)


def _of_table(case: Case, r: Rows, one: Units) -> np.ndarray:
    """Return the variance of dtable: a query's error of delta acts on all its pairs of one row at once."""
    B, H, N, M = r.ds.shape
    R = case.table.shape[1]
    segment = (np.arange(N)[:, None] * R + case.row).ravel()
    order = np.argsort(segment, kind="stable")
    used, starts = np.unique(segment[order], return_index=True)

    def gathered(x: np.ndarray) -> np.ndarray:
        """Return the sum over the pairs of each query that are in one row, (B H, segments)."""
        return np.add.reduceat(x.reshape(B * H, N * M)[:, order], starts, axis=1)

    query = used // R
    delta, m = (x.reshape(B * H, N)[:, query] for x in (r.delta, r.m))
    longest = float(np.bincount(case.row.ravel(), minlength=R).max()) * B
    v = delta * gathered(r.by_delta) ** 2 + m * gathered(r.ds) ** 2
    v += gathered(r.each + (one.u**2 + longest * one.sums**2) * r.ds**2)
    v = v.reshape(B, H, -1).sum(axis=0)
    found = np.zeros((H, R))
    np.add.at(found, (slice(None), used % R), v)
    return _summed_to(found, case.table.shape)


def _of_slopes(case: Case, r: Rows, one: Units) -> np.ndarray:
    """Return the variance of the gradient of slopes."""
    return _weighted(r, case.row.astype(np.float64), one).sum(axis=(0, 2))


def _of_scale(case: Case, r: Rows, one: Units) -> np.ndarray:
    """Return the variance of dscale: of sums over q.k, and over the bias inside the scale."""
    inner = Rows(r.each_x, r.delta, r.m, r.by_delta_x, r.dx, r.dx, r.by_delta_x, r.each_x, r.relative, r.x0)
    v = _weighted(inner, r.x0, one).sum()
    # Of dq that was rounded: dscale is also the sum of q dq over the scale.
    v += 2.0 * one.u**2 * ((r.dx**2) * r.x0**2).sum()
    bias = case.dense_bias()
    if case.bias_inside_scale and bias is not None:
        v += _weighted(r, np.where(weights(case).p > 0.0, bias, 0.0), one).sum()
    return np.asarray(v)


def _of_sink(case: Case, r: Rows, one: Units) -> np.ndarray:
    """Return the variance of dsink = sum over queries of p_sink (dlse - delta)."""
    w = weights(case)
    delta = (case.do * w.o).sum(axis=-1)
    g = (0.0 if case.dlse is None else case.dlse) - delta
    logit = one.u**2 * (2.0 + case.sink**2)[:, None]
    return (w.p_sink**2 * ((logit + r.m) * g**2 + r.delta)).sum(axis=(0, 2))
