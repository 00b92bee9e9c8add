"""Figures of the benchmarks: time and memory against length, and speed against operations per byte."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from attngrad.notation import (
    DtypeError,
    Float,
    RangeError,
    ShapeError,
    check_same_shape,
    finite_array,
    first_index,
    positive_number,
)
from attngrad.plots.style import BLUE, GREEN, GREY, ORANGE, style

MARKS = tuple((color, mark) for mark in "os" for color in (ORANGE, BLUE, GREEN, GREY))
GIGA, MEBI = 1e9, 2.0**20


def growth(
    lengths: Float[np.ndarray, " points"],
    times: Mapping[str, Float[np.ndarray, " points"]],
    memory: Mapping[str, Float[np.ndarray, " points"]],
) -> tuple[Any, dict[str, np.ndarray]]:
    """Draw seconds and bytes against the length of a sequence, on scales of powers, a line for each name.

    The data holds ``times`` and ``memory``, a row for each name: by which power of the length they grow, from
    each length to the next.

    Raises: DtypeError for times or memory that are no mapping; ShapeError for fewer than two lengths or lines
    of another size; RangeError for lengths that do not grow, or numbers that are not positive.
    """
    import matplotlib.pyplot as plt

    lengths = _positive("lengths", lengths)
    if lengths.size < 2:
        raise ShapeError(f"lengths: expected at least two numbers, got shape {lengths.shape}")
    drawn = {"times": _lines("times", times), "memory": _lines("memory", memory)}
    for name, lines in drawn.items():
        for x in lines.values():
            check_same_shape(name, x.shape, "lengths", lengths.shape)
    if not all(a < b for a, b in pairwise(lengths)):
        raise RangeError(f"lengths: expected numbers that grow, got {lengths.tolist()}")
    names = list(dict.fromkeys([*times, *memory]))
    # Later lines are thinner, so that one that lies under them is seen.
    marks = dict(zip(names, zip(2 * MARKS, np.linspace(4.0, 1.2, len(names)), strict=False), strict=True))
    with style():
        figure, both = plt.subplots(1, 2, figsize=(8.6, 3.6), layout="constrained")
        units = (1e-3, "ms"), (MEBI, "MiB")
        for axes, (name, lines), (unit, text) in zip(both, drawn.items(), units, strict=True):
            _draw_lines(axes, lengths, {label: x / unit for label, x in lines.items()}, marks)
            axes.set(xlabel="queries and keys", ylabel=f"{name.removesuffix('s')} in {text}")
    steps = np.diff(np.log(lengths))
    return figure, {
        name: np.array([np.diff(np.log(x)) / steps for x in lines.values()]) for name, lines in drawn.items()
    }


def _draw_lines(axes: Any, lengths: np.ndarray, lines: Mapping[str, np.ndarray], marks: Mapping) -> None:
    """Draw a line for each name in its colour, mark and width, with a tick at each length."""
    for label, x in lines.items():
        (color, mark), width = marks[label]
        look = {"color": color, "marker": mark, "linewidth": width, "markersize": 2.0 + 2.0 * width}
        axes.loglog(lengths, x, label=label, **look)
    axes.set_xticks(lengths, [f"{n:.0f}" for n in lengths])
    axes.minorticks_off()
    axes.legend(fontsize=8)


def roofline(
    points: Mapping[str, Float[np.ndarray, "... 2"]], peak: float, bandwidth: float
) -> tuple[Any, dict[str, np.ndarray]]:
    """Draw speed against operations per byte, under the roof of the machine, a mark for each name.

    Each point is a pair (operations per byte, operations per second). The roof is the least of ``peak``, in
    operations per second, and of ``bandwidth``, in bytes per second, times operations per byte. The data
    holds ``ridge``, where both are equal, and ``share``, what every point has reached of the roof above it,
    name after name.

    Raises: DtypeError for points that are no mapping; ShapeError for points that are no rows of two numbers;
    RangeError for none, or for numbers that are not positive; DtypeError or RangeError for a peak or a
    bandwidth that is no positive number.
    """
    import matplotlib.pyplot as plt

    drawn = _lines("points", points, rank=2)
    for x in drawn.values():
        check_same_shape("points", x.shape, "rows of two numbers", (max(len(x), 1), 2))
    peak, bandwidth = positive_number("peak", peak), positive_number("bandwidth", bandwidth)
    every = np.concatenate(list(drawn.values()))
    ridge = peak / bandwidth
    reach = np.geomspace(min(every[:, 0].min(), ridge) / 4.0, max(every[:, 0].max(), ridge) * 2.0, 200)
    with style():
        figure, axes = plt.subplots(figsize=(6.6, 3.8), layout="constrained")
        axes.loglog(reach, np.minimum(peak, bandwidth * reach) / GIGA, color="#222222", label="roof")
        axes.axvline(ridge, color="#222222", linestyle=":", linewidth=0.8)
        for (name, x), (color, mark) in zip(drawn.items(), MARKS, strict=False):
            axes.loglog(x[:, 0], x[:, 1] / GIGA, mark, color=color, label=name, alpha=0.8)
        axes.set(xlabel="operations per byte", ylabel="$10^9$ operations per second")
        low, high = axes.get_ylim()
        ticks = [digit * 10.0**power for power in range(-3, 7) for digit in (1, 2, 5)]
        axes.minorticks_off()
        axes.set_yticks(shown := [x for x in ticks if low <= x <= high], [f"{x:g}" for x in shown])
        axes.legend(fontsize=8)
    share = every[:, 1] / np.minimum(peak, bandwidth * every[:, 0])
    return figure, {"ridge": np.array(ridge), "share": share}


def _lines(name: str, lines: Any, rank: int = 1) -> dict[str, np.ndarray]:
    """Return the arrays of a mapping, of positive numbers, as many as there are marks at most."""
    if not isinstance(lines, Mapping):
        raise DtypeError(f"{name}: expected a mapping from names to arrays, got {type(lines).__name__}")
    if not 0 < len(lines) <= len(MARKS):
        raise RangeError(f"{name}: expected one to {len(MARKS)} names, got {len(lines)}")
    return {key: _positive(name, x, rank) for key, x in lines.items()}


def _positive(name: str, x: Any, rank: int = 1) -> np.ndarray:
    """Return positive numbers in an array with that many axes."""
    x = finite_array(name, x, rank=rank)
    check_same_shape(name, x.shape, f"{rank} axes", x.shape[-rank:])
    if not (x > 0.0).all():
        at = first_index(x <= 0.0)
        raise RangeError(f"{name}: expected positive numbers, got {x[at]} at index {at}")
    return x
