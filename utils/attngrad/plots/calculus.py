"""Figures of index calculus: what one entry of a product moves, and the error of a derivative by its step."""

from typing import Any

import numpy as np

from attngrad.differentiation import central_difference, complex_step, dual_derivative, forward_difference
from attngrad.notation import (
    DtypeError,
    Float,
    RangeError,
    check_has_entries,
    check_same_shape,
    finite_array,
    integer,
)
from attngrad.plots.style import BLUE, GREEN, GREY, ORANGE, draw_matrix, style
from attngrad.reference import softmax


def product_influence(
    w: Float[np.ndarray, "N M"], x: Float[np.ndarray, "M D"], of_w: tuple[int, int], of_x: tuple[int, int]
) -> tuple[Any, dict[str, np.ndarray]]:
    """Draw what one entry of each factor moves in the product Y = W X: a row, and a column.

    The data holds ``by_w`` and ``by_x`` (N, D), the derivative of Y by the entries that ``of_w`` and ``of_x``
    name, counted from 0.

    Raises: ShapeError unless w and x are matrices that can be multiplied; RangeError for an entry that does
    not exist; DtypeError for an index that is no integer.
    """
    import matplotlib.pyplot as plt

    w, x = finite_array("w", w, rank=2), finite_array("x", x, rank=2)
    check_same_shape("w", w.shape, "one matrix", w.shape[-2:])
    check_same_shape("x", x.shape, "columns of w, then its own", (w.shape[1], x.shape[-1]))
    moved = {
        "by_w": dual_derivative(lambda z: z @ x, w, _unit("of_w", w.shape, of_w)),
        "by_x": dual_derivative(lambda z: w @ z, x, _unit("of_x", x.shape, of_x)),
    }
    limit = max(float(np.abs(z).max(initial=0.0)) for z in moved.values())
    names = {"by_w": ("W", *of_w), "by_x": ("X", *of_x)}
    with style():
        figure, panels = plt.subplots(1, 2, figsize=(7.2, 2.9), layout="constrained")
        for axes, (key, z) in zip(panels, moved.items(), strict=True):
            name, row, column = names[key]
            title = f"derivative of $Y$ by ${name}_{{{row + 1}{column + 1}}}$"
            draw_matrix(axes, z, title, limit, rows="row $i$", columns="column $f$")
    return figure, moved


def _unit(name: str, shape: tuple[int, ...], at: tuple[int, int]) -> np.ndarray:
    """Return the matrix that is 1 at one entry and 0 elsewhere.

    Raises: RangeError for an entry that does not exist; DtypeError for what is no pair of integers.
    """
    if not isinstance(at, tuple) or len(at) != 2:
        got = f"got {len(at)}: {at}" if isinstance(at, tuple) else f"got {type(at).__name__} {at!r}"
        raise DtypeError(f"{name}: expected two integers, {got}")
    for k, size in zip(at, shape, strict=True):
        if not 0 <= integer(name, k) < size:
            raise RangeError(f"{name}: expected an entry of a matrix of shape {shape}, got {at}")
    unit = np.zeros(shape)
    unit[at] = 1.0
    return unit


def _lse(s: Any) -> Any:
    """Return log-sum-exp in operators alone, for floats, complex numbers and Duals of moderate size."""
    return np.log(np.exp(s).sum())


def step_errors(
    s: Float[np.ndarray, " n"], t: Float[np.ndarray, " n"], steps: Float[np.ndarray, " steps"] | None = None
) -> tuple[Any, dict[str, np.ndarray]]:
    """Draw the relative error of four derivatives of log-sum-exp along t against the step.

    The exact derivative is the mean of t under the softmax of s. The data holds the ``step`` and, for each,
    the errors ``forward``, ``central`` and ``complex``; ``dual`` is one number, for it has no step.

    Raises: ShapeError unless s and t are rows of the same length; RangeError for a derivative of zero, which
    has no relative error, or steps that are not positive; else as `attngrad.reference.softmax`.
    """
    import matplotlib.pyplot as plt

    s, t = finite_array("s", s), finite_array("t", t)
    check_same_shape("s", s.shape, "one row", s.shape[-1:])
    check_same_shape("t", t.shape, "s", s.shape)
    steps = np.geomspace(1e-14, 1.0, 141) if steps is None else finite_array("steps", steps)
    check_same_shape("steps", steps.shape, "one list", steps.shape[-1:])
    check_has_entries("s", s.shape)
    check_has_entries("steps", steps.shape)
    exact = float(softmax(s) @ t)
    if exact == 0.0:
        raise RangeError("t: expected a direction along which log-sum-exp changes, got a derivative of 0")
    ways = {"forward": forward_difference, "central": central_difference, "complex": complex_step}
    data = {"step": steps, "dual": np.asarray(abs(dual_derivative(_lse, s, t) - exact) / abs(exact))}
    for name, way in ways.items():
        values = np.array([float(way(_lse, s, t, h)) for h in steps])
        data[name] = np.abs(values - exact) / abs(exact)
    with style():
        figure, axes = plt.subplots(figsize=(6.0, 3.8), layout="constrained")
        _draw_errors(axes, data)
    return figure, data


def _draw_errors(axes: Any, data: dict[str, np.ndarray]) -> None:
    """Draw errors against steps on logarithmic axes; what is exact is drawn at the unit roundoff."""
    roundoff = 2.0**-53
    looks = {"forward": (ORANGE, "s", "forward difference"), "central": (BLUE, "o", "central difference")}
    looks["complex"] = (GREEN, "^", "complex step")
    for name, (color, marker, label) in looks.items():
        shown = np.maximum(data[name], roundoff)
        axes.loglog(data["step"], shown, marker, color=color, markersize=3.0, label=label)
    line = max(float(data["dual"]), roundoff)
    axes.axhline(line, color=GREY, linestyle="--", linewidth=1.0, label="dual numbers, no step")
    axes.set(xlabel="step $h$", ylabel="relative error", ylim=(3e-17, 10.0))
    axes.legend(loc="upper center", fontsize=9)
