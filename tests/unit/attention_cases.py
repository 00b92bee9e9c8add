"""Attention under every option: inputs, the forward pass entry by entry, and the check of all gradients."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attngrad import reference
from attngrad.checks import check_close, check_vjp

B, H, H_KV, N, M, D, D_V = 3, 4, 2, 5, 7, 6, 9
SHAPE = (B, H, N, M)
RNG = np.random.default_rng(4)
MASK = RNG.random((B, 1, N, M)) < 0.6
MASK[0, 0, 1], MASK[1, 0, 2] = False, np.arange(M) == 3  # a row without a key, and one with a single key
KEEP = RNG.random(SHAPE) < 0.7
HIDDEN = RNG.random((H, N, M)) < 0.3
HIDDEN[1, 2] = True


@dataclass(frozen=True)
class Case:
    """One way to call attention: the shape of the bias, which inputs there are, and the other options."""

    bias: tuple[int, ...] | None = (H, N, M)
    scale: float | None = 0.6
    sink: bool = False
    hidden: bool = False  # some entries of the bias are -inf
    options: dict[str, Any] = field(default_factory=dict)

    def inputs(self, seed: int = 0) -> tuple[np.ndarray, ...]:
        """Return q, k, v, and of bias, scale and sink what there is."""
        rng = np.random.default_rng(seed)
        found = [rng.standard_normal(s) for s in ((B, H, N, D), (B, H_KV, M, D), (B, H_KV, M, D_V))]
        if self.bias is not None:
            bias = np.asarray(rng.standard_normal(self.bias))
            found.append(np.where(HIDDEN, -np.inf, bias) if self.hidden else bias)
        if self.scale is not None:
            found.append(np.array(self.scale))
        return (*found, *([rng.standard_normal(H)] if self.sink else []))

    def keywords(self, inputs: tuple[np.ndarray, ...]) -> dict[str, Any]:
        """Return all arguments of a call by name."""
        rest = list(inputs[3:])
        named = dict(zip("qkv", inputs[:3], strict=True))
        named["bias"] = None if self.bias is None else rest.pop(0)
        named["scale"] = None if self.scale is None else float(rest.pop(0))
        named["sink"] = rest.pop(0) if self.sink else None
        return named | self.options

    def run(self, inputs: tuple[np.ndarray, ...], library: Any = reference) -> Any:
        """Return attention at these inputs."""
        return library.attention(**self.keywords(inputs))


def options(**keywords: Any) -> dict[str, Any]:
    """Return options under the name that `Case` has for them."""
    return {"options": keywords}


DROPPED = {"keep": KEEP, "dropout": 0.3}
CASES = {
    "plain": Case(),
    "no-bias": Case(bias=None),
    "default-scale": Case(scale=None),
    "negative-scale": Case(scale=-0.35),
    "shared-rows": Case(bias=(1, H, 1, M)),
    "inside": Case(**options(bias_inside_scale=True)),
    "inside-hidden": Case(hidden=True, **options(bias_inside_scale=True)),
    "cap": Case(**options(softcap=1.5)),
    "cap-product": Case(**options(softcap=1.5, softcap_on="product")),
    "cap-inside": Case(**options(softcap=1.5, bias_inside_scale=True)),
    "cap-product-inside": Case(**options(softcap=1.5, softcap_on="product", bias_inside_scale=True)),
    "mask": Case(**options(mask=MASK)),
    "causal": Case(**options(causal=True)),
    "causal-top-left": Case(**options(causal=True, query_start=0)),
    "causal-empty-rows": Case(**options(causal=True, query_start=-2)),
    "sink": Case(sink=True),
    "sink-mask": Case(sink=True, **options(mask=MASK)),
    "dropout": Case(**options(**DROPPED)),
    "hidden": Case(hidden=True),
    "hidden-cap": Case(hidden=True, **options(softcap=1.5)),
    "all": Case(
        sink=True,
        hidden=True,
        **options(bias_inside_scale=True, softcap=1.5, mask=MASK, causal=True, **DROPPED),
    ),
    "all-product": Case(
        bias=(B, 1, N, M),
        sink=True,
        **options(softcap=1.5, softcap_on="product", mask=MASK, causal=True, query_start=1, **DROPPED),
    ),
}


def attends(named: dict[str, Any]) -> np.ndarray:
    """Return which key each query may attend to, for all pairs."""
    allowed = np.ones(SHAPE, dtype=bool)
    if named.get("mask") is not None:
        allowed &= named["mask"]
    if named.get("causal"):
        start = named.get("query_start", M - N)
        allowed &= np.array([[j <= i + start for j in range(M)] for i in range(N)])
    bias = named.get("bias")
    return allowed if bias is None else allowed & (np.broadcast_to(bias, SHAPE) > -np.inf)


def literal_row(named: dict[str, Any], at: tuple[int, int, int]) -> tuple[np.ndarray, float, np.ndarray]:
    """Return o, lse and p of one query by their definitions, entry by entry in Python numbers."""
    (b, h, i), cap, on = at, named.get("softcap"), named.get("softcap_on", "scores")
    shared, scale = h // (H // H_KV), named["scale"] or 1 / math.sqrt(D)
    keys = np.flatnonzero(attends(named)[b, h, i])
    bias = np.zeros(SHAPE) if named["bias"] is None else np.broadcast_to(named["bias"], SHAPE)
    keep = np.ones(SHAPE) if named.get("keep") is None else named["keep"] / (1 - named["dropout"])
    logits = {}
    for j in keys:
        x = scale * sum(named["q"][b, h, i, c] * named["k"][b, shared, j, c] for c in range(D))
        x = cap * math.tanh(x / cap) if cap and on == "product" else x
        s = x + bias[b, h, i, j] * (scale if named.get("bias_inside_scale") else 1)
        logits[j] = cap * math.tanh(s / cap) if cap and on == "scores" else s
    total = sum(map(math.exp, logits.values())) + (0 if named["sink"] is None else math.exp(named["sink"][h]))
    p, o = np.zeros(M), np.zeros(D_V)
    for j in keys:
        p[j] = math.exp(logits[j]) / total
        o += p[j] * keep[b, h, i, j] * named["v"][b, shared, j]
    return o, math.log(total) if total else -math.inf, p


def check_forward(name: str, library: Any = reference) -> None:
    """Require o, lse and p to be their definitions."""
    inputs = CASES[name].inputs()
    got, named = CASES[name].run(inputs, library), CASES[name].keywords(inputs)
    rows = {at: literal_row(named, at) for at in np.ndindex(B, H, N)}
    for k, what in enumerate(("o", "lse", "p")):
        want = np.array([row[k] for row in rows.values()]).reshape(B, H, N, *np.shape(rows[0, 0, 0][k]))
        check_close(f"{name}: {what}", getattr(got, what), want, terms=10.0)


def check_gradients(name: str, library: Any = reference, case: Case | None = None) -> None:
    """Require the gradient by every input to agree with central differences, through o and lse."""
    case = CASES[name] if case is None else case

    def forward(*inputs):
        saved = case.run(inputs, library)
        return saved.o, saved.lse

    def backward(*arguments):
        *inputs, do, dlse = arguments
        found = library.attention_vjp(case.run(tuple(inputs), library), do, dlse)
        found = found if case.scale is not None else found._replace(dscale=None)
        return tuple(np.asarray(x) for x in found if x is not None)

    check_vjp(forward, backward, case.inputs(), name=name)
