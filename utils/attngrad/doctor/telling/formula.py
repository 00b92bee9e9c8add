"""The formula of a case as a short text of NumPy, with the lines alone that its options need."""

from collections.abc import Iterator

import numpy as np

from attngrad.doctor.case import Case
from attngrad.doctor.spec import Spec

DOCSTRING = '"""Return what is expected in float64: o, lse, and gradients of sum(o do) + sum(lse dlse)."""'


def formula(case: Case, spec: Spec) -> str:
    """Return the text of a function ``formula(c)`` from the arrays of a case to its right answers by name.

    ``c`` holds the arrays and options of the case, in the axes of the specification, and so do the answers.
    """
    lines = [DOCSTRING, *_inputs(case, spec), *_scores(case, spec), *_weights(case), *_backward(case)]
    lines += [*_other_gradients(case, spec), *_answers(case, spec)]
    return "\n".join(["def formula(c):", *(f"    {line}" for line in lines)]) + "\n"


def _hides(case: Case) -> bool:
    """Say whether a key is hidden from a query."""
    bias = case.bias if case.table is None else None
    by_bias = bias is not None and bool(np.isneginf(bias).any())
    return by_bias or case.mask is not None or case.causal or bool(case.lengths)


def _added(case: Case) -> str:
    """Return the bias as it is added: 0 in the place of -inf."""
    return "np.where(allowed, bias, 0.0)" if _hides(case) else "bias"


def _dropped(case: Case) -> str:
    """Return the name of the weights behind dropout."""
    return "p" if case.keep is None else "(p * keep)"


def _inputs(case: Case, spec: Spec) -> Iterator[str]:
    """Yield the lines that read the case."""
    yield 'q, k, v, do = (np.asarray(c[name], np.float64) for name in ("q", "k", "v", "do"))'
    if spec.layout == "bnhd":
        yield "q, k, v, do = (x.swapaxes(1, 2) for x in (q, k, v, do))  # to B, H, N, D"
    yield "(B, H, N, D), (H_kv, M) = q.shape, k.shape[1:3]"
    if case.sizes["H"] != case.sizes["H_kv"]:
        yield "k, v = (np.repeat(x, H // H_kv, axis=1) for x in (k, v))  # each kv head serves H / H_kv heads"
    yield f"scale = {case.scale!r}"
    if case.softcap is not None:
        yield f"cap = {case.softcap!r}"
    if _hides(case):
        yield "allowed = np.ones((B, H, N, M), dtype=bool)"
    if case.mask is not None:
        yield 'allowed &= c["mask"]'
    if case.causal:
        yield f"position = np.arange(N)[:, None] + {case.start}  # of each query"
        yield "allowed &= np.arange(M) <= position"
    if case.lengths:
        yield f"sequence = np.repeat(np.arange({len(case.lengths)}), {list(case.lengths)})"
        yield "allowed &= sequence[:, None] == sequence"


def _scores(case: Case, spec: Spec) -> Iterator[str]:
    """Yield the lines from the product to the scores."""
    yield "x = scale * q @ k.swapaxes(-1, -2)"
    if case.softcap is not None and case.softcap_on == "product":
        yield "x = cap * np.tanh(x / cap)"
    if case.table is None and case.bias is None:
        yield "s = x"
    else:
        yield from _bias(case, spec)
        if _hides(case):
            yield "allowed &= bias > -np.inf  # a bias of -inf hides its key"
        yield f"s = x + {'scale * ' * case.bias_inside_scale}{_added(case)}"
    if case.softcap is not None and case.softcap_on == "scores":
        yield "s = cap * np.tanh(s / cap)"
        yield "slope = 1.0 - (s / cap) ** 2"
    if _hides(case):
        yield "s = np.where(allowed, s, -np.inf)"


def _bias(case: Case, spec: Spec) -> Iterator[str]:
    """Yield the lines that give the bias of all pairs."""
    if case.table is None:
        yield 'bias = np.asarray(c["bias"], np.float64)'
        return
    turned = ".T" * (spec.table == "rh" and case.table.ndim == 2)
    yield f'table, row = np.asarray(c["table"], np.float64){turned}, c["row"]'
    if case.table.ndim == 1:
        yield "bias = -table[:, None, None] * row  # H, N, M"
    else:
        yield "bias = table[:, row]  # H, N, M, or 1, N, M of a table that the heads share"


def _weights(case: Case) -> Iterator[str]:
    """Yield the lines from the scores to the outputs; a row without a key has weights 0."""
    if case.sink is not None:
        yield 'sink = np.asarray(c["sink"], np.float64)[:, None, None]'
        yield "s = np.concatenate([s, np.broadcast_to(sink, (B, H, N, 1))], axis=-1)"
    yield "top = s.max(axis=-1, keepdims=True)"
    if _hides(case):
        yield "top = np.where(top > -np.inf, top, 0.0)  # of a row without a key"
    yield "total = np.exp(s - top).sum(axis=-1, keepdims=True)"
    if _hides(case):
        yield "p = np.exp(s - top) / np.where(total > 0.0, total, 1.0)"
        yield "none = np.full(total.shape, -np.inf)"
        yield "lse = (np.log(total, where=total > 0.0, out=none) + top)[..., 0]"
    else:
        yield "p = np.exp(s - top) / total"
        yield "lse = (np.log(total) + top)[..., 0]"
    if case.sink is not None:
        yield "p, p_sink = p[..., :-1], p[..., -1]"
    if case.keep is not None:
        yield f'keep = c["keep"] / {1.0 - case.dropout!r}'
    yield f"o = {_dropped(case)} @ v"


def _backward(case: Case) -> Iterator[str]:
    """Yield the lines from the cotangents to those of q, k and v."""
    if case.dlse is not None:
        yield 'dlse = np.asarray(c["dlse"], np.float64)[..., None]'
    yield f"dp = do @ v.swapaxes(-1, -2){' * keep' * (case.keep is not None)}"
    yield "delta = (p * dp).sum(axis=-1, keepdims=True)"
    yield f"ds = p * (dp - delta{' + dlse' * (case.dlse is not None)})"
    if case.softcap is not None and case.softcap_on == "scores":
        yield "ds = ds * slope"
    if case.softcap is not None and case.softcap_on == "product":
        yield "dx = ds * (1.0 - (x / cap) ** 2)"
    else:
        yield "dx = ds"
    yield "dq = scale * dx @ k"
    yield "dk = scale * dx.swapaxes(-1, -2) @ q"
    yield f"dv = {_dropped(case)}.swapaxes(-1, -2) @ do"
    if case.sizes["H"] != case.sizes["H_kv"]:
        yield "dk, dv = (y.reshape(B, H_kv, H // H_kv, M, y.shape[-1]).sum(axis=2) for y in (dk, dv))"


def _other_gradients(case: Case, spec: Spec) -> Iterator[str]:
    """Yield the lines of the gradients of bias, table, scale and sink that are asked for."""
    inside = "scale * " * case.bias_inside_scale
    if "dscale" in case.wants:
        more = f" + ds * {_added(case)}" if inside else ""
        yield f"dscale = (dx * (q @ k.swapaxes(-1, -2)){more}).sum()"
    if "dsink" in case.wants:
        dlse = "dlse - " if case.dlse is not None else "-"
        yield f"dsink = (p_sink * ({dlse}delta)[..., 0]).sum(axis=(0, 2))"
    if "dbias" in case.wants:
        yield "shape = (1,) * (4 - bias.ndim) + bias.shape"
        yield "stretched = tuple(axis for axis in range(4) if shape[axis] == 1)"
        yield f"dbias = {inside}ds.sum(axis=stretched, keepdims=True).reshape(bias.shape)"
    if "dtable" in case.wants and case.table is not None:
        if case.table.ndim == 1:
            yield f"dtable = -({inside}ds * row).sum(axis=(0, 2, 3))"
            return
        yield "dtable = np.zeros((H, table.shape[1]))"
        yield f"np.add.at(dtable, (slice(None), row), {inside}ds.sum(axis=0))  # pairs of a row add up"
        if case.table.shape[0] == 1:
            yield "dtable = dtable.sum(axis=0, keepdims=True)"
        if spec.table == "rh":
            yield "dtable = dtable.T"


def _answers(case: Case, spec: Spec) -> Iterator[str]:
    """Yield the lines that return what is asked for, in the axes of the implementation."""
    if spec.layout == "bnhd":
        yield "o, dq, dk, dv = (x.swapaxes(1, 2) for x in (o, dq, dk, dv))  # back to B, N, H, D"
    names = ("o", "lse", *case.wants)
    yield "return {" + ", ".join(f'"{name}": {name}' for name in names) + "}"
