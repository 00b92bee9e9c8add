"""Figures of recomputation: an output that is merged from keys, and what rounding it costs."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from attngrad.notation import (
    DtypeError,
    Float,
    RangeError,
    ShapeError,
    check_has_entries,
    check_same_shape,
    finite_array,
    first_index,
)
from attngrad.plots.style import BLUE, GREEN, GREY, ORANGE, style
from attngrad.reference import attention_block, merge_states

_COLOURS = (ORANGE, BLUE, GREEN, GREY)


def running_output(
    s: Float[np.ndarray, " M"], v: Float[np.ndarray, "M 2"]
) -> tuple[Any, dict[str, np.ndarray]]:
    """Draw the output of one query while its keys come one by one: a path among the values, with numbers.

    The data holds, after each key, ``lse`` (M,), ``o`` (M, 2), and ``share`` (M,), the part of the way from
    the output before to the value of the key.

    Raises: ShapeError unless s is one row and v has two features and a row for each key; RangeError for a
    score or a value that is not finite.
    """
    import matplotlib.pyplot as plt

    s, v = finite_array("s", s), finite_array("v", v, rank=2)
    check_same_shape("s", s.shape, "one row", s.shape[-1:])
    check_has_entries("s", s.shape)
    check_same_shape("v", v.shape, "keys of s, two features", (s.size, 2))
    states = [attention_block(s[None, :1], v[:1])]
    for j in range(1, s.size):
        states.append(merge_states(states[-1], attention_block(s[None, [j]], v[[j]])))
    log_sums, path = np.concatenate([x.lse for x in states]), np.concatenate([x.o for x in states])
    with style():
        figure, axes = plt.subplots(figsize=(4.6, 4.0), layout="constrained")
        axes.plot(*v.T, "o", color=BLUE, markersize=9, label="values")
        for number, point in enumerate(v, start=1):
            axes.annotate(f"$V_{{{number}}}$", point, xytext=(9, 7), textcoords="offset points")
        for start, end, value in zip(path, path[1:], v[1:], strict=False):
            axes.plot(*np.array([end, value]).T, ":", color=GREY, linewidth=1.0)
            axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": ORANGE, "linewidth": 1.6})
        axes.plot(*path.T, "s", color=ORANGE, markersize=5, label="output so far")
        axes.plot(*path[-1], "s", color=ORANGE, markersize=9, label="output")
        for number, point in enumerate(path, start=1):
            beside = {"xytext": (-16, 6), "textcoords": "offset points", "color": ORANGE}
            axes.annotate(f"${number}$", point, **beside)
        axes.set(xlabel="first feature", ylabel="second feature", aspect="equal")
        axes.margins(0.18)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3, fontsize=8)
    return figure, {"lse": log_sums, "o": path, "share": np.exp(s - log_sums)}


def leaks(
    means: Float[np.ndarray, " points"], errors: Mapping[str, Float[np.ndarray, " points"]]
) -> tuple[Any, dict[str, np.ndarray]]:
    """Draw relative errors against the mean of the values, both on scales of powers, a line for each name.

    The data holds ``slopes``, an entry for each name: by how many powers of ten an error grows where the mean
    grows by one, from its first point to its last.

    Raises: DtypeError for errors that are no mapping; ShapeError for fewer than two means or lines of another
    length; RangeError for means that do not grow, or numbers that are not positive.
    """
    import matplotlib.pyplot as plt

    means = _positive("means", means)
    if not isinstance(errors, Mapping):
        raise DtypeError(f"errors: expected a mapping from names to arrays, got {type(errors).__name__}")
    if not 0 < len(errors) <= len(_COLOURS):
        raise RangeError(f"errors: expected one to {len(_COLOURS)} lines, got {len(errors)}")
    lines = {name: _positive("errors", x) for name, x in errors.items()}
    for x in lines.values():
        check_same_shape("errors", x.shape, "means", means.shape)
    if means.size < 2:
        raise ShapeError(f"means: expected at least two numbers, got shape {means.shape}")
    if not all(a < b for a, b in pairwise(means)):
        raise RangeError(f"means: expected numbers that grow, got {means.tolist()}")
    with style():
        figure, axes = plt.subplots(figsize=(5.6, 3.4), layout="constrained")
        for (name, x), color in zip(lines.items(), _COLOURS, strict=False):
            axes.loglog(means, x, "o-", color=color, label=name)
        axes.set(xlabel="mean of the values, in their standard deviations", ylabel="relative error of $dQ$")
        axes.legend(fontsize=8)
    decades = np.log10(means[-1] / means[0])
    return figure, {"slopes": np.array([np.log10(x[-1] / x[0]) / decades for x in lines.values()])}


def _positive(name: str, x: Any) -> np.ndarray:
    """Return one row of positive numbers."""
    x = finite_array(name, x)
    check_same_shape(name, x.shape, "one row", x.shape[-1:])
    if not (x > 0.0).all():
        at = first_index(x <= 0.0)
        raise RangeError(f"{name}: expected positive numbers, got {x[at]} at index {at}")
    return x
