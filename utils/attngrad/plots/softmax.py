"""Figures of the softmax Jacobian: its entries, and its norm over all weights and over all scales."""

from itertools import pairwise
from typing import Any

import numpy as np

from attngrad.notation import Float, RangeError, check_has_entries, check_same_shape, finite_array, integer
from attngrad.plots.style import BLUE, GREEN, ORANGE, style
from attngrad.reference import softmax, softmax_jacobian


def spectral_norm(p: Float[np.ndarray, "*rows n"]) -> Float[np.ndarray, "*rows"]:
    """Return the spectral norm of the Jacobian of softmax for each row of weights.

    Formula: the largest eigenvalue of diag(p) - p p^T, which is symmetric and positive semidefinite.

    Raises: as `attngrad.reference.softmax_jacobian`; RangeError for rows without a key.

    >>> spectral_norm(np.array([0.5, 0.5, 0.0])).round(12).item()
    0.5
    """
    jacobian = softmax_jacobian(p)
    if jacobian.shape[-1] == 0:
        raise RangeError("p: expected at least one key in a row, got 0")
    return np.asarray(np.linalg.eigvalsh(jacobian)[..., -1])


def jacobian_heatmap(p: Float[np.ndarray, " n"]) -> tuple[Any, Float[np.ndarray, "n n"]]:
    """Draw the Jacobian of softmax at one row of weights, its entries written in the cells.

    The data is the Jacobian: positive on the diagonal, negative off it, each row summing to zero.

    Raises: ShapeError unless p is one row.
    """
    import matplotlib.pyplot as plt

    p = finite_array("p", p)
    check_same_shape("p", p.shape, "one row", p.shape[-1:])
    check_has_entries("p", p.shape)
    jacobian = softmax_jacobian(p)
    limit = max(float(np.abs(jacobian).max(initial=0.0)), 1e-12)
    with style():
        figure, axes = plt.subplots(figsize=(4.2, 3.6), layout="constrained")
        image = axes.imshow(jacobian, cmap="PuOr", vmin=-limit, vmax=limit)
        for i, j in np.ndindex(jacobian.shape if p.size <= 8 else (0, 0)):
            dark = abs(jacobian[i, j]) > 0.6 * limit
            axes.text(
                j, i, f"{jacobian[i, j]:.3f}", ha="center", va="center", color="white" if dark else "#222222"
            )
        axes.set(xlabel="$j$: score that moves", ylabel="$i$: weight that answers")
        axes.set(xticks=range(p.size), yticks=range(p.size))
        axes.set(xticklabels=range(1, p.size + 1), yticklabels=range(1, p.size + 1))
        axes.spines[:].set_visible(False)
        figure.colorbar(image, ax=axes, label="$J_{ij} = p_i(\\delta_{ij} - p_j)$")
    return figure, jacobian


def norm_over_simplex(steps: int = 60) -> tuple[Any, dict[str, np.ndarray]]:
    """Draw the spectral norm of the Jacobian over all weights of three keys.

    The data holds the grid ``p`` of weights and ``norm``. An even number of steps puts the midpoints of the
    edges, where the norm attains its bound 1/2, on the grid.

    Raises: DtypeError or RangeError unless steps is an integer of at least 2.
    """
    import matplotlib.pyplot as plt

    steps = integer("steps", steps, least=2)
    pairs = [(i, j) for i in range(steps + 1) for j in range(steps + 1 - i)]
    first, second = (np.array(part) for part in zip(*pairs, strict=True))
    p = np.stack([first, second, steps - first - second], axis=-1) / steps
    norm = np.maximum(spectral_norm(p), 0.0)
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
    x, y = (p @ corners).T
    with style():
        figure, axes = plt.subplots(figsize=(5.0, 4.0), layout="constrained")
        image = axes.tricontourf(x, y, norm, levels=np.linspace(0.0, 0.5, 11), cmap="cividis")
        _draw_barycentric_axes(axes, corners)
        middles = (corners + np.roll(corners, -1, axis=0)) / 2.0
        axes.plot(*middles.T, "o", color="white", markeredgecolor="#222222", label="norm 1/2")
        axes.legend(loc="upper left")
        figure.colorbar(image, ax=axes, label="spectral norm of $J$")
    return figure, {"p": p, "norm": norm}


def _draw_barycentric_axes(axes: Any, corners: np.ndarray) -> None:
    """Draw the triangle of weights with its corners named and ticks on its edges."""
    closed = np.vstack([corners, corners[:1]])
    axes.plot(*closed.T, color="#222222", linewidth=1.0)
    names = ["$p = (1, 0, 0)$", "$p = (0, 1, 0)$", "$p = (0, 0, 1)$"]
    for corner, name, at in zip(corners, names, ["top", "top", "bottom"], strict=True):
        shift = -0.04 if at == "top" else 0.03
        axes.text(corner[0], corner[1] + shift, name, ha="center", va=at)
    centre = corners.mean(axis=0)
    for start, end in pairwise(closed):
        outward = (start + end) / 2.0 - centre
        outward = outward / np.linalg.norm(outward)
        for share in (0.25, 0.5, 0.75):
            point = start + share * (end - start)
            axes.plot(*np.stack([point, point + 0.015 * outward]).T, color="#222222", linewidth=1.0)
            axes.text(*(point + 0.06 * outward), f"{share:g}", ha="center", va="center", fontsize=8)
    axes.set(aspect="equal", xlim=(-0.2, 1.2), ylim=(-0.15, 1.0))
    axes.axis("off")


def norm_against_scale(
    s: Float[np.ndarray, " n"] | None = None, scales: Float[np.ndarray, " rows"] | None = None
) -> tuple[Any, dict[str, np.ndarray]]:
    """Draw the spectral norm of the Jacobian as the logits are scaled, from flat to saturated.

    The data holds ``scale``, ``norm`` and ``flat`` = 1/n, the norm of equal weights. For logits with one
    largest entry the norm goes to 0 as the scale grows.

    Raises: ShapeError unless s is one row and scales one list; RangeError for a scale that is not positive;
    else as `attngrad.reference.softmax`.
    """
    import matplotlib.pyplot as plt

    s = np.array([2.0, 1.5, 0.0, -0.5, -1.0, -2.0]) if s is None else finite_array("s", s)
    scales = np.geomspace(1e-2, 1e2, 201) if scales is None else finite_array("scales", scales)
    check_same_shape("s", s.shape, "one row", s.shape[-1:])
    check_same_shape("scales", scales.shape, "one list", scales.shape[-1:])
    check_has_entries("s", s.shape)
    check_has_entries("scales", scales.shape)
    if not (scales > 0.0).all():
        raise RangeError(f"scales: expected positive numbers, got {scales.min()}")
    norm = spectral_norm(softmax(scales[:, None] * s))
    flat = np.array(1.0 / s.size)
    with style():
        figure, axes = plt.subplots(figsize=(5.4, 3.4), layout="constrained")
        axes.semilogx(scales, norm, color=BLUE, label="spectral norm of $J$")
        axes.axhline(0.5, color=ORANGE, linestyle="--", label="bound 1/2")
        axes.axhline(flat, color=GREEN, linestyle=":", label=f"equal weights: 1/{s.size}")
        axes.set(xlabel="scale of the scores", ylabel="norm", ylim=(0.0, 0.55))
        axes.legend(loc="center right", bbox_to_anchor=(1.0, 0.6))
    return figure, {"scale": scales, "norm": norm, "flat": flat}
