"""Figures of attention's backward pass: its paths, what pulls a query, and the margins of dS."""

from typing import Any

import numpy as np

from attngrad.notation import Float, check_has_entries, check_same_shape, finite_array, finite_number, integer
from attngrad.plots.style import BLUE, GREY, ORANGE, draw_matrix, style
from attngrad.reference import softmax_vjp

# Where the boxes of the graph stand, and the arrows: forward, and backward with what they are multiplied by.
_PLACES = {"Q": (0.0, 3.2), "K": (0.0, 2.0), "b": (0.0, 0.8), "S": (1.6, 2.0), "P": (3.2, 2.0),
           "V": (1.6, 0.0), "O": (4.8, 1.0)}  # fmt: skip
_FORWARD = ("QS", "KS", "bS", "SP", "PO", "VO")
_READS = {
    "dV": ("dO", "P"),
    "dP": ("dO", "V"),
    "dS": ("dP", "P"),
    "dQ": ("dS", "K"),
    "dK": ("dS", "Q"),
    "db": ("dS",),
}


def attention_flow(N: int, M: int, D: int, D_v: int) -> tuple[Any, dict[str, Any]]:
    """Draw attention as a graph: forward arrows, and backward ones with what each is multiplied by.

    The data holds ``shapes`` of all arrays and their cotangents by name, and ``reads``: for each cotangent
    the one that it is formed from, and the array of the forward pass that it needs, if any.

    Raises: DtypeError or RangeError unless all sizes are integers of at least 1.
    """
    import matplotlib.pyplot as plt

    sizes = {"N": N, "M": M, "D": D, "D_v": D_v}
    N, M, D, D_v = (integer(name, size, least=1) for name, size in sizes.items())
    shapes = {"Q": (N, D), "K": (M, D), "V": (M, D_v), "O": (N, D_v)} | dict.fromkeys("bSP", (N, M))
    with style():
        figure, axes = plt.subplots(figsize=(7.6, 4.0), layout="constrained")
        for name, (x, y) in _PLACES.items():
            rows, columns = shapes[name]
            box = {"boxstyle": "round,pad=0.45", "facecolor": "white", "edgecolor": "#333333"}
            axes.text(x, y, f"${name}$\n${rows} \\times {columns}$", ha="center", va="center", bbox=box)
        for start, end in _FORWARD:
            _arrow(axes, start, end, GREY)
        for name, (source, *kept) in _READS.items():
            _arrow(axes, source[1], name[1], ORANGE, f"$\\times {kept[0]}$" if kept else "")
        axes.set(xlim=(-0.7, 5.5), ylim=(-0.6, 3.6))
        axes.axis("off")
    return figure, {"shapes": shapes | {f"d{name}": shape for name, shape in shapes.items()}, "reads": _READS}


def _arrow(axes: Any, start: str, end: str, color: str, told: str = "") -> None:
    """Draw an arrow between two boxes, a little to its left, and a word beside it."""
    a, b = np.array(_PLACES[start]), np.array(_PLACES[end])
    along = (b - a) / np.linalg.norm(b - a)
    left = np.array([-along[1], along[0]])
    shift = 0.09 * left
    arrow = {"arrowstyle": "->", "color": color, "shrinkA": 24, "shrinkB": 24, "linewidth": 1.4}
    axes.annotate("", b + shift, a + shift, arrowprops=arrow)
    if told:
        axes.text(*(0.35 * a + 0.65 * b + 0.3 * left), told, color=color, ha="center", va="center")


def query_pull(
    p: Float[np.ndarray, " M"], dp: Float[np.ndarray, " M"], k: Float[np.ndarray, "M 2"], scale: float
) -> tuple[Any, dict[str, np.ndarray]]:
    """Draw what pulls one query: its keys as points, and its gradient as an arrow from their mean.

    The data holds ``ds`` = p (dp - sum_l p_l dp_l), ``mean`` = sum_l p_l k_l and ``dq`` = scale ds k. Areas
    of points are weights; keys with a positive ds are filled, the others hollow.

    Raises: ShapeError unless p is one row and k has two features and a row for each key; DtypeError or
    RangeError for a scale that is no finite number; else as `attngrad.reference.softmax_vjp`.
    """
    import matplotlib.pyplot as plt

    p, k, scale = finite_array("p", p), finite_array("k", k, rank=2), finite_number("scale", scale)
    check_same_shape("p", p.shape, "one row", p.shape[-1:])
    check_same_shape("k", k.shape, "keys of p, two features", (p.size, 2))
    ds = softmax_vjp(p, dp)
    pull = {"ds": ds, "mean": p @ k, "dq": scale * ds @ k}
    with style():
        figure, axes = plt.subplots(figsize=(4.6, 4.0), layout="constrained")
        wanted = ds > 0.0
        for chosen, face, told in ((wanted, BLUE, "$dS > 0$"), (~wanted, "white", "$dS \\leq 0$")):
            axes.scatter(*k[chosen].T, s=40.0 + 900.0 * p[chosen], color=face, edgecolors=BLUE, label=told)
        for number, point in enumerate(k, start=1):
            axes.annotate(f"$K_{number}$", point, xytext=(10, 8), textcoords="offset points")
        mean, end = pull["mean"], pull["mean"] + pull["dq"]
        axes.plot(*mean, "s", color=ORANGE, label="mean key")
        axes.annotate("", end, mean, arrowprops={"arrowstyle": "->", "color": ORANGE, "linewidth": 1.6})
        axes.plot(*end, alpha=0.0)
        axes.annotate("$dQ$", end, xytext=(4, 4), textcoords="offset points", color=ORANGE)
        axes.set(xlabel="first feature", ylabel="second feature", aspect="equal")
        axes.margins(0.2)
        axes.legend(loc="upper right", markerscale=0.5)
    return figure, pull


def cotangent_margins(ds: Float[np.ndarray, "N M"]) -> tuple[Any, dict[str, np.ndarray]]:
    """Draw the cotangent of the scores with the sums of its rows at the right and of its columns below.

    The data holds ``rows`` (N,) and ``columns`` (M,).

    Raises: ShapeError unless ds is a matrix; RangeError for a NaN or infinity.
    """
    import matplotlib.pyplot as plt

    ds = finite_array("ds", ds, rank=2)
    check_same_shape("ds", ds.shape, "one matrix", ds.shape[-2:])
    check_has_entries("ds", ds.shape)
    margins = {"rows": ds.sum(axis=1), "columns": ds.sum(axis=0)}
    N, M = ds.shape
    with style():
        figure, axes = plt.subplots(figsize=(4.8, 3.4), layout="constrained")
        draw_matrix(axes, ds, "")
        for i, total in enumerate(margins["rows"]):
            axes.text(M - 0.3, i, f"{total:.3g}", ha="left", va="center", color=ORANGE)
        for j, total in enumerate(margins["columns"]):
            axes.text(j, N - 0.3, f"{total:.3g}", ha="center", va="top", color=ORANGE)
        axes.set(xlim=(-0.5, M + 0.3), ylim=(N + 0.1, -0.5))
        axes.xaxis.set_ticks_position("top")
        axes.xaxis.set_label_position("top")
    return figure, margins
