"""Attention in torch's plain operations, cases with every option, and their comparison with the layer."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from attngrad import layers
from attngrad import reference as ref
from attngrad.checks import check_close

INPUTS = ("q", "k", "v", "bias", "scale", "sink")


def eager(q, k, v, bias=None, *, scale=None, bias_inside_scale=False, softcap=None, softcap_on="scores",
          mask=None, causal=False, query_start=None, sink=None, keep=None, dropout=0.0):  # fmt: skip
    """Return o and lse, every step rounded to the type of the inputs."""
    (_, H, N, D), M = q.shape, k.shape[2]
    k, v = (x.repeat_interleave(H // x.shape[1], dim=1) for x in (k, v))
    scale = D**-0.5 if scale is None else scale
    s = torch.einsum("bhnd,bhmd->bhnm", q, k) * scale
    if softcap is not None and softcap_on == "product":
        s = softcap * torch.tanh(s / softcap)
    hidden = torch.zeros(s.shape, dtype=torch.bool)
    if bias is not None:
        hidden = hidden | (bias == -torch.inf)
        b = bias.masked_fill(bias == -torch.inf, 0.0)
        s = s + (b * scale if bias_inside_scale else b)
    if softcap is not None and softcap_on == "scores":
        s = softcap * torch.tanh(s / softcap)
    if mask is not None:
        hidden = hidden | ~mask
    if causal:
        start = M - N if query_start is None else query_start
        later = [[j > i + start for j in range(M)] for i in range(N)]
        hidden = hidden | torch.tensor(later, dtype=torch.bool).reshape(N, M)
    s = s.masked_fill(hidden, -torch.inf)
    if sink is not None:
        s = torch.cat([s, sink[None, :, None, None].expand(*s.shape[:3], 1)], dim=-1)
    empty = (s == -torch.inf).all(dim=-1, keepdim=True)
    s = s.masked_fill(empty, 0.0)
    lse = torch.logsumexp(s, dim=-1, keepdim=True)
    p = torch.exp(s - lse).masked_fill(empty, 0.0)[..., :M]
    p = p if keep is None else p * keep / (1.0 - dropout)
    return torch.einsum("bhnm,bhmc->bhnc", p, v), lse.masked_fill(empty, -torch.inf).squeeze(-1)


@dataclass(frozen=True)
class Case:
    """Sizes, the axes along which the bias is not broadcast, and which options act."""

    sizes: tuple[int, ...] = (2, 4, 2, 11, 13, 9, 6)  # B H H_kv N M D D_v
    bias: str | None = "HNM"
    scale: float | None = 0.4
    sink: bool = False
    hidden: bool = False
    mask: bool = False
    keep: bool = False
    options: dict[str, Any] = field(default_factory=dict)

    def drawn(self, seed: int = 0) -> dict[str, np.ndarray]:
        """Return the inputs that have a cotangent."""
        rng, (B, H, H_kv, N, M, D, D_v) = np.random.default_rng(seed), self.sizes
        found = {name: rng.standard_normal(s) for name, s in (
            ("q", (B, H, N, D)), ("k", (B, H_kv, M, D)), ("v", (B, H_kv, M, D_v)))}  # fmt: skip
        if self.bias is not None:
            lengths = {"B": B, "H": H, "N": N, "M": M, "1": 1}
            shape = tuple(lengths[axis] for axis in self.bias)
            bias = np.asarray(2.0 * rng.standard_normal(shape))
            found["bias"] = np.where(rng.random(shape) < 0.3, -np.inf, bias) if self.hidden else bias
        if self.scale is not None:
            found["scale"] = np.array(self.scale)
        return found | ({"sink": rng.standard_normal(H)} if self.sink else {})

    def rest(self, seed: int = 0) -> dict[str, Any]:
        """Return the other arguments; the mask leaves the first query without a key."""
        rng, (B, H, _, N, M, *_) = np.random.default_rng([seed, 1]), self.sizes
        mask = rng.random((B, 1, N, M)) < 0.7
        mask[:, :, :1] = False
        found = {"mask": mask} if self.mask else {}
        if self.keep:
            found |= {"keep": rng.random((B, H, N, M)) < 0.7, "dropout": 0.3}
        return found | self.options

    def cotangents(self, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Return random cotangents of o and lse."""
        rng, (B, H, _, N, *_, D_v) = np.random.default_rng([seed, 2]), self.sizes
        return rng.standard_normal((B, H, N, D_v)), rng.standard_normal((B, H, N))


def as_tensors(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments with tensors in the place of arrays."""
    return {name: torch.tensor(x) if isinstance(x, np.ndarray) else x for name, x in arguments.items()}


def through_torch(f: Any, inputs: dict[str, np.ndarray], rest: dict, cotangents: Any) -> dict[str, Any]:
    """Return o and lse of a function of tensors, and the gradient by each input."""
    tensors = {name: torch.tensor(x, requires_grad=True) for name, x in inputs.items()}
    o, lse = f(**tensors, **as_tensors(rest))
    found = torch.autograd.grad((o, lse), list(tensors.values()), [torch.tensor(x) for x in cotangents])
    return {"o": o, "lse": lse} | {f"d{name}": x for name, x in zip(tensors, found, strict=True)}


def through_reference(inputs: dict[str, np.ndarray], rest: dict, cotangents: Any) -> tuple[Any, dict]:
    """Return what the reference saves, and its o, lse and gradients."""
    scale = {"scale": float(inputs["scale"])} if "scale" in inputs else {}
    saved = ref.attention(**{**inputs, **scale}, **rest)
    found = ref.attention_vjp(saved, *cotangents)
    return saved, {"o": saved.o, "lse": saved.lse} | {f"d{n}": getattr(found, f"d{n}") for n in inputs}


def absolute_terms(saved: ref.Attention, do: np.ndarray, dlse: np.ndarray) -> dict[str, np.ndarray]:
    """Return the sum of the absolute terms of which each result is made; a cap makes them no larger."""
    q, k, v, do, dlse = (np.abs(x) for x in (saved.q, saved.k, saved.v, do, dlse))
    keys, values = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    weights, scale = saved.p * saved.keep, abs(saved.scale)
    dp = do @ values.swapaxes(-1, -2) * saved.keep
    row = (saved.p * dp).sum(axis=-1) + dlse
    ds = saved.p * (dp + row[..., None])
    outside = scale * ds if saved.bias_inside_scale else ds
    shape = () if saved.bias is None else saved.bias.shape
    bias = 0.0 if saved.bias is None else np.abs(np.where(saved.p > 0.0, saved.bias, 0.0))
    groups = (*k.shape[:2], q.shape[1] // k.shape[1])
    each = {"dk": scale * ds.swapaxes(-1, -2) @ q, "dv": weights.swapaxes(-1, -2) @ do}
    return {
        "o": weights @ values,
        "lse": np.full(dlse.shape, 5.0 + np.abs(saved.s).max(initial=0.0)),
        "dq": scale * ds @ keys,
        **{name: x.reshape(*groups, *x.shape[2:]).sum(axis=2) for name, x in each.items()},
        "dbias": torch.tensor(outside).sum_to_size(shape),
        "dscale": (ds * (q @ keys.swapaxes(-1, -2) + bias)).sum(),
        "dsink": (saved.p_sink * row).sum(axis=(0, 2)),
    }


def layer(**arguments: Any) -> Any:
    """Return o and lse of the layer."""
    return layers.attention(**arguments, return_lse=True)


def check_case(case: Case, seed: int = 0, against: tuple[str, ...] = ("autograd", "the reference")) -> None:
    """Require the layer to agree with autograd through plain operations, and with the reference."""
    inputs, rest, cotangents = case.drawn(seed), case.rest(seed), case.cotangents(seed)
    saved, reference = through_reference(inputs, rest, cotangents)
    wanted = {"autograd": through_torch(eager, inputs, rest, cotangents), "the reference": reference}
    terms = absolute_terms(saved, *cotangents)
    for name, got in through_torch(layer, inputs, rest, cotangents).items():
        for other in against:
            check_close(f"{name}, by {other}", got, wanted[other][name], terms=terms[name])


TOGETHER = {"softcap": "softcap_on", "causal": "query_start"}


def without_each_option(case: Case) -> dict[str, Case]:
    """Return the case without each of its options, and without what has no meaning then."""
    flags = [name for name in ("sink", "hidden", "mask", "keep") if getattr(case, name)]
    found = {name: replace(case, **{name: False}) for name in flags}
    for name in case.options:
        gone = (name, TOGETHER.get(name))
        left = {key: value for key, value in case.options.items() if key not in gone}
        found[name] = replace(case, options=left)
    if case.bias is not None:
        found["bias"] = replace(case, bias=None, hidden=False)
    if case.scale is not None:
        found["scale"] = replace(case, scale=None)
    return found
