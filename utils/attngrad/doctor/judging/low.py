"""How far a right formula may be off if a run is less precise than the type of its inputs.

In types of 16 bits: sums over keys, queries, pairs and rows taken in the type itself, one term after the
other. Each step rounds the partial sum S_k, so the variance is u^2 sum S_k^2; the multiple of its root is 6,
or twice the largest that an emulated run in either order has, since a sum that stalls errs to one side. In
float64 and float32: arrays stored in a shorter type. Of a bias or table in 16 bits beside a longer q: its own
sums taken in its type, the terms being those of q's.
"""

import numpy as np

from attngrad.doctor.case import Case
from attngrad.doctor.judging import plain
from attngrad.doctor.judging.band import ABSORBS, Rows, of_heads, of_keys, outputs, rows, units
from attngrad.doctor.judging.band_sums import of_sums
from attngrad.doctor.judging.exact import weights
from attngrad.doctor.judging.rounding import ROUNDOFF
from attngrad.reference import expand_kv_heads

MULTIPLE = 6.0
SUMS = {
    "dtable": "the table is summed up",
    "dbias": "the bias is summed up",
    "dscale": "the scale is summed up",
    "dsink": "the sink is summed up",
    "dk": "sums over queries are taken",
    "dv": "sums over queries are taken",
    "lse": "the sum of exponentials is taken",
}
OF_BIAS = ("dbias", "dtable")
SUMMED = " sums"  # behind the type of a bias: its own sums alone are taken in it
LEVELS = {
    "float64": ("float32", "tf32", "bfloat16"),
    "float32": ("tf32", "bfloat16"),
    "float16": ("float16",),
    "bfloat16": ("bfloat16",),
}


def levels(case: Case, name: str) -> tuple[str, ...]:
    """Return the types of which the precision of an answer can be, the longest first."""
    return ((case.bias_dtype + SUMMED,) if of_shorter_bias(case, name) else ()) + LEVELS[case.dtype]


def of_shorter_bias(case: Case, name: str) -> bool:
    """Say whether an answer is the gradient of a bias of 16 bits that q has more precision than."""
    short = case.bias_dtype in ("float16", "bfloat16")
    return name in OF_BIAS and short and ROUNDOFF[case.bias_dtype] > ROUNDOFF[case.dtype]


def of_level(case: Case, exact: dict[str, np.ndarray], level: str) -> dict[str, np.ndarray]:
    """Return what a run may be off whose precision is that of a level."""
    if level.endswith(SUMMED):
        return bias_sums(case, exact)
    return short_sums(case, exact) if level == case.dtype else shorter(case, exact, level)


def bias_sums(case: Case, exact: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return what dbias or dtable may be off whose sums are taken in the type of the bias; 0 of others."""
    u, r = ROUNDOFF[case.bias_dtype], rows(case, units(case.dtype))
    found = {name: np.zeros(x.shape) for name, x in exact.items()}
    ds, walks = case.scale * r.ds if case.bias_inside_scale else r.ds, _of_sums(case, r)
    for name in (name for name in OF_BIAS if name in exact):
        squares = plain.bias_gradient(case, plain.Arithmetic("float64"), ds**2, (name,))[name]
        std = u * np.sqrt(walks[name] + np.abs(squares) + exact[name] ** 2)
        worst = 0.0
        for reverse in (False, True):
            how = plain.Arithmetic(case.bias_dtype, sums="kept", reverse=reverse)
            got = plain.bias_gradient(case, how, how.keep(ds), (name,))[name]
            worst = max(worst, float((np.abs(got - exact[name]) / np.maximum(std, 1e-300)).max(initial=0.0)))
        found[name] = max(MULTIPLE, 2.0 * worst) * std
    return found


def shorter(case: Case, exact: dict[str, np.ndarray], level: str) -> dict[str, np.ndarray]:
    """Return what a run may be off whose arrays are stored in a shorter type."""
    one = units(level)
    variances = outputs(case, one) | of_keys(case, one) | of_sums(case, one, exact)
    return {name: MULTIPLE * np.sqrt(variances[name]) for name in exact}


def short_sums(case: Case, exact: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return what a run of 16 bits may be off that takes its sums in that type."""
    one = units(case.dtype)
    r, M = rows(case, one), case.sizes["M"]
    variances = outputs(case, one) | of_keys(case, one) | of_sums(case, one, exact)
    walks = _of_products(case, r) | _of_sums(case, r)
    found = {}
    for name, want in exact.items():
        size = np.abs(np.where(np.isfinite(want) & (np.abs(want) < ABSORBS), want, 0.0))
        # Weights whose sum over M keys is taken in the type as well.
        v = variances[name] + one.u**2 * (walks.get(name, 0.0) + M * size**2)
        found[name] = np.sqrt(v)
    worst = _worst(case, exact, found)
    return {name: max(MULTIPLE, 2.0 * worst[name]) * x for name, x in found.items()}


def _worst(case: Case, exact: dict[str, np.ndarray], std: dict[str, np.ndarray]) -> dict[str, float]:
    """Return the largest error of emulated runs, in units of the standard deviation."""
    found = dict.fromkeys(exact, 0.0)
    for reverse in (False, True):
        run = plain.run(case, plain.Arithmetic(case.dtype, sums="kept", reverse=reverse))
        for name in exact:
            finite = np.isfinite(run[name]) & np.isfinite(exact[name])
            off = np.abs(np.where(finite, run[name], 0.0) - np.where(finite, exact[name], 0.0))
            found[name] = max(found[name], float((off / np.maximum(std[name], 1e-300)).max(initial=0.0)))
    return found


def _walk(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the sum of squares of the partial sums of a b, over its inner axis."""
    total = np.zeros((*a.shape[:-1], b.shape[-1]))
    squares = np.zeros_like(total)
    for k in range(a.shape[-1]):
        total += a[..., k, None] * b[..., k, None, :]
        squares += total**2
    return squares


def _of_products(case: Case, r: Rows) -> dict[str, np.ndarray]:
    """Return the sums of squares of o, dq, dk and dv."""
    w, H = weights(case), case.sizes["H"]
    keys, values = expand_kv_heads(case.k, H), expand_kv_heads(case.v, H)
    dropped, dx = w.p * w.keep, r.dx
    return {
        "o": _walk(dropped, values),
        "dq": case.scale**2 * _walk(dx, keys),
        "dk": case.scale**2 * of_heads(case, _walk(np.swapaxes(dx, -1, -2), case.q)),
        "dv": of_heads(case, _walk(np.swapaxes(dropped, -1, -2), case.do)),
    }


def _squares(x: np.ndarray) -> np.ndarray:
    """Return the sum of squares of the partial sums over the last axis."""
    return (np.cumsum(x, axis=-1) ** 2).sum(axis=-1)


def _of_sums(case: Case, r: Rows) -> dict[str, np.ndarray]:
    """Return the sums of squares of what is summed over pairs or rows."""
    w, found = weights(case), {}
    factor = case.scale**2 if case.bias_inside_scale else 1.0
    if "dbias" in case.wants:
        found["dbias"] = factor * _of_bias(r.ds, case.bias.shape)
    if "dtable" in case.wants:
        found["dtable"] = factor * _of_table(case, r.ds)
    if "dscale" in case.wants:
        found["dscale"] = _squares((r.dx * r.x0).ravel())
    if "dsink" in case.wants:
        delta = (case.do * w.o).sum(axis=-1)
        terms = w.p_sink * ((0.0 if case.dlse is None else case.dlse) - delta)
        found["dsink"] = _squares(np.moveaxis(terms, 1, 0).reshape(terms.shape[1], -1))
    return found


def _of_bias(ds: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return the sum of squares of the partial sums over the axes along which a bias is broadcast."""
    full = (1,) * (ds.ndim - len(shape)) + tuple(shape)
    summed = [axis for axis, size in enumerate(full) if size == 1 and ds.shape[axis] > 1]
    kept = [axis for axis in range(ds.ndim) if axis not in summed]
    if not summed:
        return np.zeros(shape)
    return _squares(ds.transpose(*kept, *summed).reshape(*(ds.shape[k] for k in kept), -1)).reshape(shape)


def _of_table(case: Case, ds: np.ndarray) -> np.ndarray:
    """Return the sum of squares of the partial sums over the pairs of each row of a table, or of a slope."""
    H, N, M = ds.shape[1:]
    if case.table.ndim == 1:
        return _squares((ds * case.row).sum(axis=0).reshape(H, N * M))
    R = case.table.shape[1]
    by_pair = ds.sum(axis=0).reshape(H, N * M)
    heads = by_pair if case.table.shape[0] == H else by_pair.reshape(1, -1)
    row = case.row.ravel() if case.table.shape[0] == H else np.tile(case.row.ravel(), H)
    found = np.zeros((heads.shape[0], R))
    for one in np.unique(row):
        found[:, one] = _squares(heads[:, row == one])
    return found


def told(level: str, what: str, case: Case) -> str:
    """Return in a few words which sum, or which array, a lack of precision belongs to."""
    if level.endswith(SUMMED):
        return f"{SUMS[what]} in {level.removesuffix(SUMMED)}"
    if case.dtype in ("float64", "float32"):
        name = {"tf32": "TF32 or float16"}.get(level, level)
        return f"as if computed in {name}"
    return f"{SUMS.get(what, 'sums over keys are taken')} in {level}"
