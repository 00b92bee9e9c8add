"""Cases for wrong attentions: random ones over all options, and some at which a mistake of its own shows."""

from typing import Any

import numpy as np

from attngrad import offsets
from attngrad.doctor import Case, Spec, t5
from attngrad.doctor.cases import plan

LOWEST = float(np.finfo(np.float32).min)


def random_case(seed: int, **fixed: Any) -> Case:
    """Return a small case whose sizes and options are drawn."""
    draw = np.random.default_rng(seed)
    B, H_kv, group, N, M, D, D_v = (int(n) for n in draw.integers(1, (4, 4, 4, 9, 9, 7, 7)))
    H, shape = H_kv * group, (B, H_kv * group, N, M)
    found: dict[str, Any] = {
        "q": draw.standard_normal((B, H, N, D)), "k": draw.standard_normal((B, H_kv, M, D)),
        "v": draw.standard_normal((B, H_kv, M, D_v)), "do": draw.standard_normal((B, H, N, D_v)),
        "scale": float(draw.uniform(0.2, 2.0)), "causal": bool(draw.random() < 0.5),
        "bias_inside_scale": bool(draw.random() < 0.4),
    }  # fmt: skip
    if found["causal"] and draw.random() < 0.5:
        found["query_start"] = int(draw.integers(-2, 4))
    found |= _bias(draw, shape, found.get("query_start"))
    found |= _options(draw, shape)
    if N == M and N > 2 and not found["causal"] and draw.random() < 0.6:
        found["lengths"] = (2, N - 2)
    wants = ["dq", "dk", "dv", "dscale"]
    wants += [f"d{name}" for name in ("bias", "table", "sink") if name in found]
    return Case(name=f"random-{seed}", why="", dtype="float64", **{**found, "wants": tuple(wants), **fixed})


def _bias(draw: np.random.Generator, shape: tuple[int, ...], start: int | None) -> dict[str, Any]:
    """Return no bias, a dense one, a table or slopes."""
    N, M = shape[2:]
    kind = int(draw.integers(0, 5))
    if kind == 1:
        bias = draw.standard_normal([size if draw.random() < 0.6 else 1 for size in shape])
        hide = draw.random(bias.shape) < 0.3
        bias = np.where(hide, (-np.inf, LOWEST, 0.5)[int(draw.integers(0, 3))], bias)
        return {"bias": bias[0] if bias.shape[0] == 1 and draw.random() < 0.5 else bias}
    if kind in (2, 3):
        table = draw.standard_normal((shape[1] if draw.random() < 0.6 else 1, 7))
        return {"table": table, "row": offsets.ClipMap(3)(N, M, start)}
    if kind == 4:
        row = np.abs(offsets.relative_offset(N, M, start))
        return {"table": draw.uniform(0.1, 1.0, shape[1]), "row": row}
    return {}


def _options(draw: np.random.Generator, shape: tuple[int, ...]) -> dict[str, Any]:
    """Return a mask, dropout, a sink, a cotangent of lse and a soft-cap, each if drawn."""
    found: dict[str, Any] = {}
    if draw.random() < 0.4:
        found["mask"] = draw.random([size if draw.random() < 0.6 else 1 for size in shape]) < 0.7
    if draw.random() < 0.4:
        found |= {"keep": draw.random(shape) < 0.7, "dropout": 0.3}
    if draw.random() < 0.4:
        found["sink"] = draw.standard_normal(shape[1])
    if draw.random() < 0.4:
        found["dlse"] = draw.standard_normal(shape[:3])
    if draw.random() < 0.4:
        found |= {"softcap": 1.5, "softcap_on": ("scores", "product")[int(draw.integers(0, 2))]}
    return found


def special_cases() -> list[Case]:
    """Return cases of long sequences, T5's buckets, packing, strides, and a bias in another type."""
    options = ("cross", "packed", "strides", "dlse", "sink", "dscale", "lse")
    both = Spec(framework="numpy", map=t5(32, 128), options=options)
    some = {"tail", "basic", "options", "packed"}
    found = [case for case in plan(both, quick=True) if case.name in some]
    dense = {"bias": np.random.default_rng(5).standard_normal((2, 1, 5, 5)), "wants": ("dq", "dbias")}
    draw = np.random.default_rng(6)
    sizes = {"q": (1, 2, 3, 4), "k": (1, 2, 600, 4), "v": (1, 2, 600, 4)}
    long = {name: draw.standard_normal(size) for name, size in sizes.items()}
    table = {"table": draw.standard_normal((2, 32)), "row": offsets.T5Map(32, 128)(3, 600)}
    square = {name: draw.standard_normal((2, 2, 5, 4)) for name in "qkv"}
    half = {"dtype": "float16", "bias_dtype": "float32", "scale": 0.5}
    half["do"] = draw.standard_normal((2, 2, 5, 4))
    return [
        *found,
        Case(name="half", why="", **{**square, **half, **dense}),
        Case(name="square", why="", dtype="float64", scale=0.6, do=half["do"], wants=("dq", "dk", "dv"),
             **square),
        Case(name="far", why="", dtype="float64", do=draw.standard_normal((1, 2, 3, 4)), scale=0.5,
             wants=("dq", "dk", "dv", "dtable"), **long, **table),
        random_case(3, bias=draw.standard_normal((1, 1)), table=None, row=None, wants=("dbias",)),
    ]  # fmt: skip
