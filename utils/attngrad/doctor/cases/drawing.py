"""Drawing the numbers of a case: each from a generator of its own, made from the seed and its name."""

import math
import zlib

import numpy as np

from attngrad.doctor.case import Case
from attngrad.doctor.cases.frame import DROPOUT
from attngrad.doctor.cases.recipe import Recipe, Rows
from attngrad.doctor.judging.rounding import LOWEST, rounded
from attngrad.notation import RangeError
from attngrad.offsets import AlibiMap, alibi_slopes, causal_mask, relative_offset

SOFTCAP = 2.3
COHERENT, WAVES = 1.4, 1.5


class Refused(Exception):
    """Raised where a map refuses the sizes of a case; the text says which and why."""


def generator(seed: int, r: Recipe, part: str) -> np.random.Generator:
    """Return the generator of one array of one case: others do not move it."""
    return np.random.default_rng([seed, zlib.crc32(f"{r.numbers_of or r.name}/{part}".encode())])


def drawn(recipe: Recipe, seed: int, rows: Rows | None = None) -> Case:
    """Return the case of a recipe. ``rows`` says the rows of pairs in the place of the map.

    Raises: Refused where the map refuses the sizes; RangeError for rows of another shape, type or range.
    """
    r, spec, dtype = recipe, recipe.frame.spec, recipe.frame.dtype
    H_kv, D_v = r.H if r.H_kv is None else r.H_kv, r.D if r.D_v is None else r.D_v

    def normal(part: str, *shape: int) -> np.ndarray:
        return generator(seed, r, part).standard_normal(shape)

    q, k = _queries_and_keys(r, normal("q", r.B, r.H, r.N, r.D), normal("k", r.B, H_kv, r.M, r.D))
    v, do = normal("v", r.B, H_kv, r.M, D_v), normal("do", r.B, r.H, r.N, D_v)
    if "identity-values" in r.acts:
        v = np.broadcast_to(np.eye(r.M, D_v), v.shape).copy()
    if "identity-cotangent" in r.acts:
        do = np.broadcast_to(np.eye(r.N, D_v), do.shape).copy()
    if "aligned" in r.acts:
        v, do = v + k[..., :D_v], do + q[..., :D_v]
    if "coherent" in r.acts:
        v, do = _coherent(v, do)
    if r.strides == "expanded":
        do = np.broadcast_to(do[..., :1], do.shape).copy()
    arrays = {name: rounded(x, dtype) for name, x in {"q": q, "k": k, "v": v, "do": do}.items()}
    arrays |= _bias(r, seed, rows) | _options(r, seed)
    softcap = {"softcap": "scores", "softcap-product": "product"}
    capped = next((where for word, where in softcap.items() if word in r.acts), None)
    return Case(
        name=r.name, why=r.why, dtype=dtype, bias_dtype=recipe.frame.bias_dtype, scale=r.scale,
        bias_inside_scale=spec.bias_inside_scale, causal=r.causal, query_start=r.start,
        softcap=None if capped is None else SOFTCAP, softcap_on=capped or "scores",
        dropout=DROPOUT if "dropout" in r.acts else 0.0, lengths=lengths(r) if "packed" in r.acts else (),
        strides=r.strides, repeats=r.repeats, wants=r.only or _wants(r), exercises=_exercises(r), **arrays,
    )  # fmt: skip


def _coherent(v: np.ndarray, do: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return values and cotangents whose products have a part that depends on the offset, a wave.

    The terms of a row of a table then have one sign, and their sums grow as in a training run.
    """
    for x in (v, do):
        angle = 2.0 * np.pi * np.arange(x.shape[-2]) / (WAVES * x.shape[-2])
        x[..., 0] += COHERENT * np.cos(angle)
        x[..., 1 % x.shape[-1]] += COHERENT * np.sin(angle)
    return v, do


def lengths(r: Recipe) -> tuple[int, ...]:
    """Return the lengths of sequences packed into N, multiples of what the specification asks for."""
    step = r.frame.spec.length_multiple
    first, second = (max(int(part * r.N) // step, 1) * step for part in (0.45, 0.31))
    second = min(second, r.N - first)
    return tuple(n for n in (first, second, r.N - first - second) if n > 0)


def _queries_and_keys(r: Recipe, q: np.ndarray, k: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return q and k such that the products, times the scale, have the wanted spread."""
    if "equal" in r.acts:
        return np.zeros_like(q), k
    q = q * (r.spread / (abs(r.scale) * math.sqrt(r.D))) if r.scale else q
    if "outlier" in r.acts:
        # One feature is large in all tokens, and the first key draws weight from all queries.
        shift = math.sqrt((4.0 if r.frame.narrow else 24.0) / abs(r.scale or 1.0))
        q[..., 3 % r.D] += shift
        k[..., 3 % r.D] += math.copysign(shift, r.scale or 1.0)
        k[:, :, 0, 3 % r.D] *= 1.15
    return q, k


def _bias(r: Recipe, seed: int, rows: Rows | None) -> dict[str, np.ndarray]:
    """Return the table and rows, the slopes and distances, or the dense bias."""
    if not r.bias:
        return {}
    draw, dtype = generator(seed, r, "bias"), r.frame.bias_dtype
    if r.bias in ("table", "shared-table"):
        R = r.frame.spec.R
        table = draw.standard_normal((1 if r.bias == "shared-table" else r.H, R))
        if "no-bias-values" in r.acts:
            table[:] = 0.0
        return {"table": rounded(table, dtype), "row": _rows(r, rows, R)}
    if r.bias == "slopes":
        slopes = alibi_slopes(r.H)
        if r.frame.spec.map.learned:
            slopes = slopes * np.exp(0.3 * draw.standard_normal(r.H))
        return {"table": rounded(slopes, dtype), "row": np.abs(relative_offset(r.N, r.M, r.start))}
    size = {"b": r.B, "h": r.H, "n": r.N, "m": r.M, "1": 1}
    bias = rounded(draw.standard_normal(tuple(size[letter] for letter in r.bias)), dtype)
    if "no-bias-values" in r.acts:
        bias[:] = 0.0
    return {"bias": _hiding(r, bias, draw)}


def _hiding(r: Recipe, bias: np.ndarray, draw: np.random.Generator) -> np.ndarray:
    """Return a bias with -inf or the lowest number of its type at some keys, never at all of a query."""
    value = {"hidden": -np.inf, "lowest": max(LOWEST[r.frame.bias_dtype], LOWEST[r.frame.dtype])}
    word = next((word for word in value if word in r.acts), None)
    if word is None:
        return bias
    hide = draw.random(bias.shape) < 0.3
    hide[..., 0] = False  # the first key, which causal masking leaves to all
    bias = np.where(hide, value[word], bias)
    if "lowest-row" in r.acts:
        bias[..., bias.shape[-2] // 2, :] = value[word]
    return bias


def _rows(r: Recipe, rows: Rows | None, R: int) -> np.ndarray:
    """Return the row of each pair, checked."""
    of = r.frame.spec.map if rows is None else rows
    try:
        row = np.asarray(of(r.N, r.M, r.start))
    except Exception as error:
        raise Refused(f"N = {r.N}, M = {r.M} ({error})") from error
    if row.shape != (r.N, r.M) or row.dtype.kind not in "iu":
        told = f"got {row.dtype} of shape {row.shape}"
        raise RangeError(f"map: expected integers of shape ({r.N}, {r.M}), {told}")
    row = row.astype(np.int64)
    if row.size and not 0 <= row.min() <= row.max() < R:
        raise RangeError(f"map: expected rows from 0 to {R - 1}, got {row.min()} to {row.max()}")
    return row


def _options(r: Recipe, seed: int) -> dict[str, np.ndarray]:
    """Return the mask, the kept weights, the sink and the cotangent of lse, where they act."""
    found, pairs = {}, (r.B, r.H, r.N, r.M)
    start = r.M - r.N if r.start is None else r.start

    def draw(part: str) -> np.random.Generator:
        return generator(seed, r, part)

    if "mask" in r.acts:
        mask = draw("mask").random((r.B, 1, r.N, r.M)) < 0.6
        keys = np.clip(np.arange(r.N) + start, 0, r.M - 1) if r.causal else np.arange(r.N) % r.M
        mask[:, :, np.arange(r.N), keys] = True
        found["mask"] = mask
    if "padding" in r.acts:
        seen = min(r.M, r.N + start) if r.causal else r.M
        kept = np.maximum((seen * np.linspace(0.55, 1.0, r.B)).astype(int), 1)
        found["mask"] = np.arange(r.M) < kept[:, None, None, None]
    if "empty-rows" in r.acts:
        mask = draw("mask").random((r.B, 1, r.N, r.M)) < 0.7
        mask[:, :, 1::3] = False
        found["mask"] = mask
    if "dropout" in r.acts:
        found["keep"] = draw("keep").random(pairs) >= DROPOUT
    if "sink" in r.acts:
        height = math.log(r.M) - 1.0
        found["sink"] = rounded(height + 0.7 * draw("sink").standard_normal(r.H), r.frame.dtype)
    if "dlse" in r.acts:
        found["dlse"] = rounded(draw("dlse").standard_normal(pairs[:3]), r.frame.dtype)
    return found


def _wants(r: Recipe) -> tuple[str, ...]:
    """Return the gradients that a case asks for."""
    wants = ["dq", "dk", "dv"]
    frozen = isinstance(r.frame.spec.map, AlibiMap) and not r.frame.spec.map.learned
    if r.bias and not frozen:
        wants.append("dtable" if r.bias in ("table", "shared-table", "slopes") else "dbias")
    # In 16 bits a sum over pairs is lost in rounding unless its terms have one sign; nor is one of the lowest
    # numbers of a type, inside the scale, of any use.
    inside = r.frame.spec.bias_inside_scale
    useful = "aligned" in r.acts if r.frame.narrow else not ("lowest-row" in r.acts and inside)
    if r.frame.spec.has("dscale") and useful:
        wants.append("dscale")
    if "sink" in r.acts:
        wants.append("dsink")
    return tuple(wants)


def _exercises(r: Recipe) -> tuple[str, ...]:
    """Return the options that must be seen to act on a case."""
    words = [word for word in r.acts if word in ACTING]
    seen = _visible(r)
    if r.bias and "no-bias-values" not in r.acts and seen.sum(axis=-1).max(initial=0) > 1:
        words.append("table" if r.bias in ("table", "shared-table", "slopes") else "bias")
        words += ["bias-inside-scale"] if r.frame.spec.bias_inside_scale and r.scale != 1.0 else []
    if not seen.all():
        words.append("causal")
    return tuple(dict.fromkeys([*words, *r.exercises]))


def _visible(r: Recipe) -> np.ndarray:
    """Return the pairs that causal masking leaves: all of them without it, and in a decode step."""
    return causal_mask(r.N, r.M, r.start) if r.causal else np.ones((r.N, r.M), dtype=bool)


ACTING = (
    "mask", "padding", "empty-rows", "hidden", "lowest", "packed", "dropout", "dlse", "softcap",
    "softcap-product", "sink",
)  # fmt: skip
