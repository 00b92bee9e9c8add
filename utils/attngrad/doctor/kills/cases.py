"""Small cases of the kill table, drawn once: every size is another number, so that factors show."""

from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from attngrad.doctor.case import Case
from attngrad.offsets import AlibiMap, ClipMap, T5Map, alibi_slopes, relative_offset

SIZES = {"B": 2, "H": 4, "H_kv": 2, "N": 5, "M": 7, "D": 3, "D_v": 6}
B, H, H_KV, N, M = (SIZES[axis] for axis in ("B", "H", "H_kv", "N", "M"))
SCALE = 0.41


def drawn(
    *, sizes: dict[str, int] | None = None, seed: int = 0, bias: str = "", map: Any = None,
    shared: bool = False, extras: tuple[str, ...] = (), **options: Any,
) -> Case:  # fmt: skip
    """Return a case with a dense bias, named by its axes such as "1hnm", or a table for a map, or neither.

    ``sizes`` are other than those above, ``extras`` some of "sink", "dlse" and "dscale".
    """
    n, rng = SIZES | (sizes or {}), np.random.default_rng(seed)
    shapes = {"q": "B H N D", "k": "B H_kv M D", "v": "B H_kv M D_v", "do": "B H N D_v"}
    shapes |= {"sink": "H"} if "sink" in extras else {}
    shapes |= {"dlse": "B H N"} if "dlse" in extras else {}
    arrays = {name: rng.standard_normal([n[axis] for axis in axes.split()]) for name, axes in shapes.items()}
    if bias:
        arrays["bias"] = rng.standard_normal([n.get(axis.upper(), 1) for axis in bias])
    if map is not None:
        arrays |= _positions(map, n, 1 if shared else n["H"], options.get("query_start"), rng)
    if "dropout" in options:
        arrays["keep"] = rng.random([n[axis] for axis in "BHNM"]) >= options["dropout"]
    arrays["q"].flags.writeable = False
    wants = tuple(f"d{name}" for name in ("q", "k", "v", "bias", "table", "sink") if name in arrays)
    wants += ("dscale",) if "dscale" in extras else ()
    told = {"name": "kill", "why": "", "dtype": "float64", "bias_dtype": "float64", "scale": SCALE}
    return Case(**{**told, **arrays, "wants": wants, **options})


def _positions(
    map: Any, n: dict[str, int], heads: int, start: int | None, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Return a table and the row of each pair, or slopes and distances."""
    if isinstance(map, AlibiMap):
        return {"table": alibi_slopes(n["H"]) + 0.1, "row": np.abs(relative_offset(n["N"], n["M"], start))}
    return {"table": rng.standard_normal((heads, map.R)), "row": map(n["N"], n["M"], start)}


@cache
def plain() -> Case:
    """Return a case of grouped heads and a scale, without a bias."""
    return drawn(extras=("dscale",))


def _split(told: dict[str, Any]) -> dict[str, Any]:
    """Return options with the sizes among them apart."""
    sizes = {name: told.pop(name) for name in SIZES if name in told}
    return {"sizes": sizes, **told}


@cache
def biased(axes: str = "1hnm", **told: Any) -> Case:
    """Return a case with a dense bias."""
    return drawn(bias=axes, **_split(told))


@cache
def tabled(shared: bool = False, **told: Any) -> Case:
    """Return a case with a table of clipped offsets."""
    return drawn(map=ClipMap(2), shared=shared, **_split(told))


@cache
def far() -> tuple[Case, ...]:
    """Return cases with keys far away: buckets of T5 in two kinds, and slopes."""
    sizes = {"B": 1, "N": 6, "M": 40}
    maps = T5Map(8, 16), T5Map(8, 16, False), AlibiMap(H)
    return tuple(drawn(map=map, sizes=sizes) for map in maps)


@cache
def mask(empty: bool = False) -> np.ndarray:
    """Return a mask (B, 1, N, M), with a row that has no key where that is asked for."""
    allowed = np.random.default_rng(3).random((B, 1, N, M)) < 0.7
    allowed[..., 0], allowed[..., 2] = True, False
    if empty:
        allowed[:, :, 1] = False
    return allowed


_MOVED: WeakKeyDictionary[Case, dict[str, Any]] = WeakKeyDictionary()


def kept(case: Case, key: str, make: Any) -> Any:
    """Return what belongs to a case, made at most once: cases derived from it."""
    held = _MOVED.setdefault(case, {})
    if key not in held:
        held[key] = make()
    return held[key]
