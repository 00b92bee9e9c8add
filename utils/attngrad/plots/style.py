"""Colours, the context in which every figure is drawn, and what several figures share."""

from contextlib import AbstractContextManager
from typing import Any

import numpy as np

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#555555"

_STYLE = {
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "figure.dpi": 110,
    "axes.facecolor": "white",
    "axes.edgecolor": "#333333",
    "axes.labelcolor": "#222222",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": "#222222",
    "xtick.color": "#333333",
    "ytick.color": "#333333",
    "font.size": 10.0,
    "legend.frameon": False,
}


def style() -> AbstractContextManager[None]:
    """Return the context in which every figure of the book is drawn."""
    import matplotlib

    return matplotlib.rc_context(_STYLE)


def draw_matrix(
    axes: Any,
    x: np.ndarray,
    title: str,
    limit: float | None = None,
    rows: str = "query $i$",
    columns: str = "key $j$",
) -> None:
    """Draw a small matrix as a heat map with its entries written in the cells."""
    limit = max(float(np.abs(x).max(initial=0.0)), 1e-12) if limit is None else limit
    axes.imshow(x, cmap="PuOr", vmin=-limit, vmax=limit)
    for i, j in np.ndindex(x.shape if x.size <= 48 else (0, 0)):
        color = "white" if abs(x[i, j]) > 0.6 * limit else "#222222"
        axes.text(j, i, f"{x[i, j]:.3g}", ha="center", va="center", color=color, fontsize=9)
    axes.set(xlabel=columns, ylabel=rows, xticks=range(x.shape[1]), yticks=range(x.shape[0]))
    axes.set(xticklabels=range(1, x.shape[1] + 1), yticklabels=range(1, x.shape[0] + 1))
    axes.spines[:].set_visible(False)
    axes.set_title(title, fontsize=10)
