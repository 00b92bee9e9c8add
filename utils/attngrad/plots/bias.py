"""Figures of the bias gradient: what one bias moves, and what the diagonal of the Jacobian leaves out."""

from typing import Any

import numpy as np

from attngrad.notation import Float, RangeError, check_has_entries, check_same_shape, finite_array, integer
from attngrad.plots.style import BLUE, GREY, ORANGE, draw_matrix, style
from attngrad.reference import softmax_jacobian, softmax_vjp


def bias_influence(
    p: Float[np.ndarray, "N M"], v: Float[np.ndarray, "M 2"], query: int, key: int
) -> tuple[Any, dict[str, np.ndarray]]:
    """Draw what one bias moves: the weights of its row, and the output of its query towards one value.

    The data holds ``weights`` (N, M), the derivative of all weights by the bias of that query and key, and
    ``output`` (N, 2), the derivative of all outputs. Values have two features, so that they are points.

    Raises: ShapeError unless p is a matrix and v has two features and a row for each key; RangeError for a
    query or key that does not exist; else as `attngrad.reference.softmax_jacobian`.
    """
    import matplotlib.pyplot as plt

    p, v = finite_array("p", p, rank=2), finite_array("v", v, rank=2)
    check_same_shape("p", p.shape, "one matrix", p.shape[-2:])
    check_same_shape("v", v.shape, "keys of p, two features", (p.shape[1], 2))
    check_has_entries("p", p.shape)
    for name, at, size in (("query", query, p.shape[0]), ("key", key, p.shape[1])):
        if not 0 <= integer(name, at) < size:
            raise RangeError(f"{name}: expected 0 to {size - 1}, got {at}")
    weights = np.zeros_like(p)
    weights[query] = softmax_jacobian(p[query])[:, key]
    moved = {"weights": weights, "output": weights @ v}
    with style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.3), layout="constrained")
        draw_matrix(left, weights, f"derivative of the weights by $b_{{{query + 1}{key + 1}}}$")
        o = p[query] @ v
        right.plot(*v.T, "o", color=BLUE)
        for number, point in enumerate(v, start=1):
            right.annotate(f"$V_{number}$", point, xytext=(6, 4), textcoords="offset points")
        right.plot(*o, "s", color=ORANGE)
        right.annotate(f"$O_{query + 1}$", o, xytext=(-18, -12), textcoords="offset points")
        right.plot(*np.stack([o, v[key]]).T, ":", color=GREY)
        right.annotate("", o + moved["output"][query], o, arrowprops={"arrowstyle": "->", "color": ORANGE})
        right.set(xlabel="first feature", ylabel="second feature", aspect="equal")
        right.set_title(f"derivative of output {query + 1}", fontsize=10)
        right.margins(0.15)
    return figure, moved


def bias_gap(p: Float[np.ndarray, "N M"], dp: Float[np.ndarray, "N M"]) -> tuple[Any, dict[str, np.ndarray]]:
    """Draw the gradient of a bias, what the diagonal of the Jacobian alone gives, and their difference.

    The data holds ``truth`` = p (dp - sum_l p_l dp_l), ``diagonal`` = p (1 - p) dp and ``gap``, the diagonal
    minus the truth.

    Raises: as `attngrad.reference.softmax_vjp`; ShapeError unless p is a matrix.
    """
    import matplotlib.pyplot as plt

    p, dp = finite_array("p", p, rank=2), finite_array("dp", dp, rank=2)
    check_same_shape("p", p.shape, "one matrix", p.shape[-2:])
    truth = softmax_vjp(p, dp)
    diagonal = p * (1.0 - p) * dp
    shown = {"truth": truth, "diagonal": diagonal, "gap": diagonal - truth}
    limit = max(float(np.abs(x).max(initial=0.0)) for x in shown.values())
    titles = ("gradient of the bias", "diagonal term alone", "difference")
    with style():
        figure, panels = plt.subplots(1, 3, figsize=(9.0, 2.8), layout="constrained")
        for axes, x, title in zip(panels, shown.values(), titles, strict=True):
            draw_matrix(axes, x, title, limit)
    return figure, shown
