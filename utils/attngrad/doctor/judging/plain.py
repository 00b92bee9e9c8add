"""A plain run of a case in a type, emulated: each array is rounded as it is stored, each sum as said."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from attngrad.doctor.case import Case
from attngrad.doctor.judging.rounding import stored
from attngrad.offsets import causal_mask

ALL = ("o", "lse", "dq", "dk", "dv", "dbias", "dtable", "dscale", "dsink")


@dataclass(frozen=True)
class Arithmetic:
    """How a run rounds. ``kept`` is the type of every array, ``factors`` that to which the factors of a
    product are rounded. ``sums`` is "wide" for sums in float32, or "kept" for sums in the type of the arrays,
    one term after the other, from the last one if ``reverse``.
    """

    kept: str
    factors: str | None = None
    sums: str = "wide"
    reverse: bool = False

    def keep(self, x: np.ndarray) -> np.ndarray:
        """Return x as it is stored."""
        return stored(x, self.kept)

    def product(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return a b: (..., n, k) and (..., k, m) give (..., n, m), summed in float32."""
        if self.factors is not None:
            a, b = stored(a, self.factors), stored(b, self.factors)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            return self.keep(a @ b)

    def long_product(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Return a b, with the sum over keys or queries taken as ``sums`` says."""
        if self.sums == "wide":
            return self.product(a, b)
        total = np.zeros((*a.shape[:-1], b.shape[-1]), dtype=a.dtype)
        order = range(a.shape[-1])
        for k in reversed(order) if self.reverse else order:
            total = self.keep(total + a[..., k, None] * b[..., k, None, :])
        return total

    def sum(self, x: np.ndarray, axis: int) -> np.ndarray:
        """Return the sum over one axis, taken as ``sums`` says."""
        if self.sums == "wide":
            return self.keep(x.sum(axis=axis))
        total = np.zeros_like(np.take(x, 0, axis))
        order = range(x.shape[axis])
        for k in reversed(order) if self.reverse else order:
            total = self.keep(total + np.take(x, k, axis))
        return total

    def sum_to(self, x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Return x summed over the axes along which ``shape`` is broadcast to it."""
        full = (1,) * (x.ndim - len(shape)) + tuple(shape)
        for axis, size in enumerate(full):
            if size == 1 and x.shape[axis] > 1:
                x = np.expand_dims(self.sum(x, axis), axis)
        return x.reshape(shape)

    def scatter(self, ds: np.ndarray, row: np.ndarray, R: int) -> np.ndarray:
        """Return ds (B, H, N, M) summed over the batch and over the pairs of each row: (H, R)."""
        ds = self.sum(ds, 0)
        order = np.argsort(row.ravel(), kind="stable")
        counts = np.bincount(row.ravel(), minlength=R)
        terms = ds.reshape(ds.shape[0], -1)[:, order]
        ends = np.cumsum(counts)
        total = np.zeros((ds.shape[0], R), dtype=ds.dtype)
        if self.sums == "wide":
            used = np.flatnonzero(counts)
            total[:, used] = np.add.reduceat(terms, (ends - counts)[used], axis=1)
            return self.keep(total)
        for step in range(int(counts.max(initial=0))):
            live = np.flatnonzero(counts > step)
            at = ends[live] - 1 - step if self.reverse else (ends - counts)[live] + step
            total[:, live] = self.keep(total[:, live] + terms[:, at])
        return total


@dataclass
class _Pass:
    """What the forward pass of a plain run leaves."""

    x: np.ndarray
    s: np.ndarray
    p: np.ndarray
    p_sink: np.ndarray
    keep: np.ndarray
    allowed: np.ndarray
    bias: np.ndarray | None
    o: np.ndarray
    lse: np.ndarray


def allowed_pairs(case: Case) -> np.ndarray:
    """Return where a query may attend, for all pairs (B, H, N, M); a bias of -inf hides too."""
    s, mask = case.sizes, case.allowed()
    shape = (s["B"], s["H"], s["N"], s["M"])
    allowed = np.ones(shape, dtype=bool) if mask is None else np.broadcast_to(mask, shape).copy()
    if case.causal:
        allowed &= causal_mask(s["N"], s["M"], case.start)
    if case.bias is not None:
        allowed &= np.broadcast_to(case.bias, shape) > -np.inf
    return allowed


def run(case: Case, how: Arithmetic, only: Collection[str] = ALL) -> dict[str, np.ndarray]:
    """Return the answers of a case that a plain run gives, of those in ``only`` that the case has."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        passed = _forward(case, how)
        found = {"o": passed.o, "lse": passed.lse}
        if any(name in only for name in case.wants):
            found |= _backward(case, how, passed, [name for name in case.wants if name in only])
    return {name: np.asarray(x, dtype=np.float64) for name, x in found.items() if name in only}


def _heads(case: Case, how: Arithmetic, x: np.ndarray) -> np.ndarray:
    """Return keys or values of each head of queries, as they are stored."""
    return np.repeat(how.keep(x), case.sizes["H"] // case.sizes["H_kv"], axis=1)


def _grouped(case: Case, how: Arithmetic, x: np.ndarray) -> np.ndarray:
    """Return what each head of queries gives, summed to the heads of keys that they share."""
    B, H, M, D = x.shape
    H_kv = case.sizes["H_kv"]
    return how.sum(x.reshape(B, H_kv, H // H_kv, M, D), 2)


def _capped(x: np.ndarray, cap: float | None, how: Arithmetic) -> np.ndarray:
    """Return cap tanh(x / cap), each step stored."""
    return x if cap is None else how.keep(cap * how.keep(np.tanh(how.keep(x / how.keep(cap)))))


def _through(capped: np.ndarray, cap: float | None, cotangent: np.ndarray, how: Arithmetic) -> np.ndarray:
    """Return the cotangent in front of the cap."""
    if cap is None:
        return cotangent
    return how.keep(cotangent * how.keep(1.0 - how.keep(how.keep(capped / how.keep(cap)) ** 2)))


def _forward(case: Case, how: Arithmetic) -> _Pass:
    """Run the forward pass: scores, weights, output."""
    allowed, q = allowed_pairs(case), how.keep(case.q)
    scale = how.keep(np.asarray(case.scale))
    x = how.keep(how.product(q, np.swapaxes(_heads(case, how, case.k), -1, -2)) * scale)
    x = _capped(x, case.softcap if case.softcap_on == "product" else None, how)
    s, bias = x, case.dense_bias()
    if bias is not None:
        bias = stored(np.where(np.isfinite(bias), bias, 0.0), case.bias_dtype).astype(x.dtype)
        s = how.keep(x + (how.keep(scale * bias) if case.bias_inside_scale else bias))
    s = _capped(s, case.softcap if case.softcap_on == "scores" else None, how)
    s = np.where(allowed, s, -np.inf)
    sink = np.full((s.shape[1], 1), -np.inf) if case.sink is None else how.keep(case.sink)[:, None]
    top = np.maximum(s.max(axis=-1, initial=-np.inf), sink)[..., None]
    top = np.where(top > -np.inf, top, 0.0).astype(x.dtype)
    e, e_sink = np.exp(s - top), np.exp(sink[..., None] - top).astype(x.dtype)
    total = (how.sum(e, -1) if how.sums == "kept" else e.sum(axis=-1))[..., None] + e_sink
    safe = np.where(total > 0.0, total, 1.0)
    p, p_sink = how.keep(e / safe), how.keep(e_sink / safe)
    lse = np.where(total > 0.0, top + np.log(safe), -np.inf)[..., 0]
    factor = np.ones((), dtype=x.dtype)
    if case.keep is not None:
        factor = how.keep(np.broadcast_to(case.keep, s.shape) / (1.0 - case.dropout))
    o = how.long_product(how.keep(p * factor), _heads(case, how, case.v))
    return _Pass(x, s, p, p_sink[..., 0], factor, allowed, bias, o, lse)


def _backward(case: Case, how: Arithmetic, fwd: _Pass, names: list[str]) -> dict[str, np.ndarray]:
    """Run the backward pass for some gradients."""
    q, do = how.keep(case.q), how.keep(case.do)
    keys, values = _heads(case, how, case.k), _heads(case, how, case.v)
    dp = np.where(fwd.allowed, how.product(do, np.swapaxes(values, -1, -2)), 0.0)
    dp = how.keep(dp * fwd.keep)
    terms = fwd.p * dp
    delta = how.sum(terms, -1) if how.sums == "kept" else terms.sum(axis=-1)
    dlse = np.zeros_like(delta) if case.dlse is None else how.keep(case.dlse)
    ds = how.keep(fwd.p * (dp - delta[..., None] + dlse[..., None]))
    scores_cap = case.softcap if case.softcap_on == "scores" else None
    product_cap = case.softcap if case.softcap_on == "product" else None
    ds = _through(np.where(fwd.allowed, fwd.s, 0.0), scores_cap, ds, how)
    dx = _through(np.where(fwd.allowed, fwd.x, 0.0), product_cap, ds, how)
    scaled = how.keep(how.keep(np.asarray(case.scale)) * dx)
    wide = Arithmetic(how.kept, how.factors)
    found = {}
    if "dq" in names:
        found["dq"] = how.long_product(scaled, keys)
    if "dk" in names:
        found["dk"] = _grouped(case, how, how.long_product(np.swapaxes(scaled, -1, -2), q))
    if "dv" in names:
        dropped = np.swapaxes(how.keep(fwd.p * fwd.keep), -1, -2)
        found["dv"] = _grouped(case, how, how.long_product(dropped, do))
    if "dscale" in names:
        products = wide.product(q, np.swapaxes(keys, -1, -2))
        found["dscale"] = (dx * products).sum() + (
            (ds * fwd.bias).sum() if case.bias_inside_scale and fwd.bias is not None else 0.0
        )
    if "dsink" in names:
        found["dsink"] = how.sum(how.keep(fwd.p_sink * (dlse - delta)).sum(axis=-1), 0)
    if case.bias_inside_scale:
        ds = how.keep(how.keep(np.asarray(case.scale)) * ds)
    return found | bias_gradient(case, how, ds, names)


def bias_gradient(
    case: Case, how: Arithmetic, ds: np.ndarray, names: Collection[str]
) -> dict[str, np.ndarray]:
    """Return the gradient of a bias, a table or slopes from that of the scores."""
    if "dbias" in names:
        return {"dbias": how.sum_to(ds, case.bias.shape)}
    if "dtable" not in names:
        return {}
    if case.table.ndim == 1:
        return {"dtable": -how.sum((how.sum(ds, 0) * case.row.astype(ds.dtype)).reshape(ds.shape[1], -1), -1)}
    by_head = how.scatter(ds, case.row, case.table.shape[1])
    return {"dtable": how.sum_to(by_head, case.table.shape)}
