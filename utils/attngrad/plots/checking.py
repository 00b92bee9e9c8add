"""Figures of the chapter on checks: runs with wrong gradients, and what optimizers really change."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from attngrad.notation import (
    DtypeError,
    Float,
    RangeError,
    ShapeError,
    check_same_shape,
    finite_array,
    integer,
)
from attngrad.plots.style import BLUE, GREEN, GREY, ORANGE, style

LOOKS = ((BLUE, "-"), (ORANGE, "--"), (GREEN, ":"), (GREY, "-."))


def mistaken_runs(
    runs: Mapping[str, Mapping[str, Float[np.ndarray, " steps"]]],
) -> tuple[Any, dict[str, dict[str, np.ndarray]]]:
    """Draw the losses of training runs, a panel for each optimizer, a curve for each gradient.

    The data holds the losses by optimizer and gradient, each divided by the first loss of its run.

    Raises: DtypeError, ShapeError or RangeError for losses that are no finite, positive rows of floats, for
    no optimizer or more than three, for no run or more than four, and for runs of other lengths.
    """
    import matplotlib.pyplot as plt

    shown = {name: _rows(name, losses, most=4) for name, losses in _some("runs", runs, most=3).items()}
    shown = {name: {run: x / x[0] for run, x in losses.items()} for name, losses in shown.items()}
    with style():
        figure, panels = plt.subplots(
            1, len(shown), figsize=(4.3 * len(shown), 3.2), layout="constrained", sharey=True, squeeze=False
        )
        for axes, (name, losses) in zip(panels[0], shown.items(), strict=True):
            for (color, line), (run, x) in zip(LOOKS, losses.items(), strict=False):
                axes.plot(np.arange(len(x)), x, line, color=color, label=run)
            axes.set(xlabel="step", yscale="log")
            axes.set_title(name, fontsize=10)
        panels[0, 0].set_ylabel("loss / first loss")
        panels[0, 0].legend()
    return figure, shown


def update_ratios(
    measured: Mapping[str, Float[np.ndarray, " steps"]], formula: Mapping[str, Float[np.ndarray, " steps"]]
) -> tuple[Any, dict[str, np.ndarray]]:
    """Draw the measured update ratio of some optimizers beside lr |g| / |w|, a panel for each.

    The data holds measured / formula by optimizer.

    Raises: DtypeError, ShapeError or RangeError for what is no finite, positive row of floats, for other
    optimizers or lengths in one than in the other, and for none or more than four.
    """
    import matplotlib.pyplot as plt

    measured, formula = _rows("measured", measured, most=4), _rows("formula", formula, most=4)
    if list(measured) != list(formula):
        raise RangeError(f"formula: expected the names {list(measured)} as in measured, got {list(formula)}")
    for name, x in formula.items():
        check_same_shape(f"formula, {name}", x.shape, "measured", measured[name].shape)
    with style():
        figure, panels = plt.subplots(
            1,
            len(measured),
            figsize=(2.4 * len(measured), 2.9),
            layout="constrained",
            sharey=True,
            squeeze=False,
        )
        for axes, name in zip(panels[0], measured, strict=True):
            steps = np.arange(1, len(measured[name]) + 1)
            axes.plot(steps, measured[name], "-", color=BLUE, label="measured")
            axes.plot(steps, formula[name], "--", color=ORANGE, label="lr |g| / |w|")
            axes.set(xlabel="step", yscale="log")
            axes.set_title(name, fontsize=10)
        panels[0, 0].set_ylabel("update ratio")
        panels[0, -1].legend()
    return figure, {name: measured[name] / formula[name] for name in measured}


def rejections(real: Mapping[str, int], naive: Mapping[str, int]) -> tuple[Any, dict[str, dict[str, int]]]:
    """Draw how many mistakes each check rejects, a bar for each, the naive checks below the others.

    The data holds the counts in the order of the bars: ``real`` from the largest to the smallest, ``naive``
    the same.

    Raises: DtypeError or RangeError for no checks, or counts that are no integers of at least 0.
    """
    import matplotlib.pyplot as plt

    shown = {}
    for name, counts in (("real", real), ("naive", naive)):
        found = {check: integer(f"{name}, {check}", n, least=0) for check, n in _some(name, counts).items()}
        shown[name] = dict(sorted(found.items(), key=lambda one: -one[1]))
    with style():
        size = sum(map(len, shown.values()))
        figure, axes = plt.subplots(figsize=(6.4, 0.8 + 0.19 * size), layout="constrained")
        for name, color in (("real", BLUE), ("naive", ORANGE)):
            label = {"real": "check", "naive": "naive check"}[name]
            bars = axes.barh(list(shown[name]), list(shown[name].values()), color=color, label=label)
            axes.bar_label(bars, padding=2, fontsize=8)
        axes.invert_yaxis()
        axes.tick_params(axis="y", labelsize=8)
        axes.set(xlabel="mistakes rejected")
        axes.margins(y=0.01)
        axes.legend(loc="lower right")
    return figure, shown


def _some(name: str, x: Any, most: int = 100) -> Mapping[str, Any]:
    """Require a mapping with at least one entry, and at most ``most``."""
    if not isinstance(x, Mapping):
        raise DtypeError(f"{name}: expected a mapping of names to rows, got {type(x).__name__}")
    if not 1 <= len(x) <= most:
        raise RangeError(f"{name}: expected 1 to {most} of them, got {len(x)}")
    return x


def _rows(name: str, x: Any, most: int) -> dict[str, np.ndarray]:
    """Return rows of positive floats of one length, by their names."""
    rows = {run: finite_array(f"{name}, {run}", row) for run, row in _some(name, x, most).items()}
    first = next(iter(rows.values()))
    for run, row in rows.items():
        if row.ndim != 1 or row.shape != first.shape:
            raise ShapeError(
                f"{name}, {run}: expected shape {first.shape[:1]} as for one row, got {row.shape}"
            )
        if row.size == 0 or not (row > 0.0).all():
            raise RangeError(f"{name}, {run}: expected positive numbers, at least one")
    return rows
