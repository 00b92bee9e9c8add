"""Healthy implementations in torch, in every type: eager, in float32, and as fused kernels do it."""

import numpy as np
import torch

from attngrad.doctor.case import Case
from attngrad.offsets import causal_mask

DTYPES = {name: getattr(torch, name) for name in ("float64", "float32", "float16", "bfloat16")}


def tensor(x, dtype):
    """Return a leaf in a type."""
    return torch.tensor(x, dtype=DTYPES[dtype], requires_grad=True)


def allowed(case: Case) -> torch.Tensor:
    """Return where a query may attend, (B, H, N, M)."""
    s, mask = case.sizes, case.allowed()
    pairs = np.ones((s["B"], s["H"], s["N"], s["M"]), dtype=bool)
    pairs = pairs if mask is None else pairs & mask
    return torch.tensor(pairs & causal_mask(s["N"], s["M"], case.start) if case.causal else pairs)


def leaves(case: Case) -> dict[str, torch.Tensor]:
    """Return the inputs of a case as leaves, each in its type."""
    found = {name: tensor(getattr(case, name), case.dtype) for name in ("q", "k", "v")}
    found["scale"] = tensor(case.scale, "float64" if case.dtype == "float64" else "float32")
    for name, dtype in (("bias", case.bias_dtype), ("table", case.bias_dtype), ("sink", case.dtype)):
        if getattr(case, name) is not None:
            found[name] = tensor(getattr(case, name), dtype)
    return found


def dense(case: Case, x: dict[str, torch.Tensor]) -> torch.Tensor | None:
    """Return the bias of all pairs, tables gathered in float32 at least."""
    if "table" not in x:
        return x.get("bias")
    table = x["table"] if case.bias_dtype == "float64" else x["table"].float()
    row = torch.tensor(case.row)
    return -table[:, None, None] * row if table.ndim == 1 else table[:, row]


def scores(case: Case, x: dict[str, torch.Tensor], work: torch.dtype) -> torch.Tensor:
    """Return the scores in a type, -inf where a key is hidden."""
    q, k = x["q"].to(work), x["k"].to(work)
    group = q.shape[1] // k.shape[1]
    s = (q @ k.repeat_interleave(group, 1).mT) * x["scale"].to(work)
    if case.softcap is not None and case.softcap_on == "product":
        s = case.softcap * torch.tanh(s / case.softcap)
    bias = dense(case, x)
    visible = allowed(case)
    if bias is not None:
        visible = visible & ~bias.detach().isneginf()
        bias = torch.where(bias.detach().isneginf(), 0.0, bias)
        s = s + (x["scale"] * bias if case.bias_inside_scale else bias).to(work)
    if case.softcap is not None and case.softcap_on == "scores":
        s = case.softcap * torch.tanh(s / case.softcap)
    return torch.where(visible, s, -torch.inf)


def autograd(case: Case, work: str, split: bool = False) -> dict[str, np.ndarray]:
    """Return the answers of an eager run whose arrays are stored in ``work``."""
    x, dtype = leaves(case), DTYPES[work]
    s = scores(case, x, dtype)
    visible = ~s.detach().isneginf()
    sink = x["sink"].to(dtype) if "sink" in x else torch.full((s.shape[1],), -torch.inf, dtype=dtype)
    logits = torch.cat([s, sink[None, :, None, None].expand(*s.shape[:3], 1)], -1)
    some = visible.any(-1, keepdim=True) | ("sink" in x)
    logits = torch.where(some, logits, 0.0)
    p = torch.where(some, torch.softmax(logits, -1)[..., :-1], 0.0)
    lse = torch.where(some[..., 0], torch.logsumexp(logits, -1), -torch.inf)
    if case.keep is not None:
        p = p * torch.tensor(case.keep) / (1.0 - case.dropout)
    v = x["v"].to(dtype).repeat_interleave(p.shape[1] // x["v"].shape[1], 1)
    if split and p.shape[-1] > 1:
        half = p.shape[-1] // 2
        o = p[..., :half] @ v[..., :half, :] + p[..., half:] @ v[..., half:, :]
    else:
        o = p @ v
    do = torch.tensor(case.do, dtype=dtype)
    loss = (o * do).sum(dtype=torch.float64)
    if case.dlse is not None:
        dlse = torch.tensor(case.dlse, dtype=dtype)
        loss = loss + (torch.where(some[..., 0], lse, 0.0) * dlse).sum(dtype=torch.float64)
    loss.backward()
    return answers(case, o.to(DTYPES[case.dtype]), lse, {f"d{name}": leaf.grad for name, leaf in x.items()})


def answers(case: Case, o, lse, grads) -> dict[str, np.ndarray]:
    """Return o, lse and the gradients that are wanted as float64."""
    found = {"o": o, "lse": lse, **{name: grads[name] for name in case.wants}}
    return {name: x.detach().double().numpy() for name, x in found.items()}


def fused(case: Case) -> dict[str, np.ndarray]:
    """Return the answers of a fused kernel: scores in float32, the factors of products in 16 bits."""
    low, work = DTYPES[case.dtype], torch.float64 if case.dtype == "float64" else torch.float32
    with torch.no_grad():
        x = leaves(case)
        q, k, v, do = (torch.tensor(getattr(case, name), dtype=work) for name in ("q", "k", "v", "do"))
        group = q.shape[1] // k.shape[1]
        keys, values = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        s = scores(case, x, work)
        sink = x["sink"].to(work) if "sink" in x else torch.full((s.shape[1],), -torch.inf, dtype=work)
        lse = torch.logsumexp(torch.cat([s, sink[None, :, None, None].expand(*s.shape[:3], 1)], -1), -1)
        shift = torch.where(lse.isneginf(), 0.0, lse)
        p, p_sink = torch.exp(s - shift[..., None]), torch.exp(sink[:, None] - shift)
        factor = 1.0 if case.keep is None else torch.tensor(case.keep).to(work) / (1.0 - case.dropout)
        o = ((p * factor).to(low).to(work) @ values).to(low)
        delta = (do * o.to(work)).sum(-1)
        g = -delta if case.dlse is None else torch.tensor(case.dlse, dtype=work) - delta
        ds = p * ((do @ values.mT) * factor + g[..., None])
        ds = torch.where(s.isneginf(), 0.0, ds)
        dx = ds
        if case.softcap is not None:
            capped = torch.where(s.isneginf(), 0.0, s)
            if case.softcap_on == "product":
                bias = dense(case, x)
                b = 0.0 if bias is None else bias
                b = x["scale"] * b if case.bias_inside_scale else b
                capped = torch.where(s.isneginf(), 0.0, s - b)
            dx = ds * (1.0 - (capped / case.softcap) ** 2)
            ds = ds if case.softcap_on == "product" else dx
        rounded = dx.to(low).to(work)
        scale = x["scale"].to(work)

        def shared(y):
            return y.unflatten(1, (-1, group)).sum(2)

        through = rounded @ keys
        grads = {
            "dq": (scale * through).to(low),
            "dk": shared(scale * (rounded.mT @ q)).to(low),
            "dv": shared((p * factor).to(low).to(work).mT @ do).to(low),
            "dscale": (dx * (q @ keys.mT)).sum(),
            "dsink": (p_sink * g).sum((0, 2)).to(low),
        }
        if case.bias_inside_scale and dense(case, x) is not None:
            bias = dense(case, x)
            grads["dscale"] = grads["dscale"] + (ds * torch.where(bias.isneginf(), 0.0, bias)).sum()
            ds = scale * ds
        if case.bias is not None:
            grads["dbias"] = ds.sum_to_size(case.bias.shape).to(DTYPES[case.bias_dtype])
        if case.table is not None:
            grads["dtable"] = to_table(case, ds).to(DTYPES[case.bias_dtype])
        return answers(case, o, lse, grads)


def to_table(case: Case, ds: torch.Tensor) -> torch.Tensor:
    """Return the gradient of a table or of slopes, added up in the type of ds."""
    row = torch.tensor(case.row)
    if case.table.ndim == 1:
        return -(ds * row).sum((0, 2, 3))
    by_head = torch.zeros(ds.shape[1], case.table.shape[1], dtype=ds.dtype)
    by_head.index_add_(1, row.flatten(), ds.sum(0).flatten(1))
    return by_head.sum_to_size(case.table.shape)


def runs(case: Case) -> dict[str, dict[str, np.ndarray]]:
    """Return the answers of all healthy implementations.

    The fused one takes weights from lse, which is not healthy for a row of lowest numbers.
    """
    wide = "float64" if case.dtype == "float64" else "float32"
    found = {
        "eager": autograd(case, case.dtype),
        "upcast": autograd(case, wide),
        "split": autograd(case, case.dtype, split=True),
    }
    return found if case.name.startswith("lowest-row") else {**found, "fused": fused(case)}
