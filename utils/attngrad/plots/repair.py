"""Figures of the chapter that repairs a program: matrices of indices, and training runs."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from attngrad.notation import (
    DtypeError,
    Float,
    Int,
    RangeError,
    ShapeError,
    check_same_shape,
    finite_array,
)
from attngrad.plots.style import BLUE, GREEN, GREY, ORANGE, draw_matrix, style

FLOOR = 1e-8  # losses below are drawn there, since a logarithmic axis has no zero
LOOKS = ((BLUE, "-"), (ORANGE, "--"), (GREEN, ":"))


def index_matrices(
    written: Int[np.ndarray, "M N"], right: Int[np.ndarray, "N M"]
) -> tuple[Any, dict[str, np.ndarray]]:
    """Draw a matrix with a row for each key beside the one with a row for each query.

    The data holds ``written`` (M, N) and ``right`` (N, M).

    Raises: DtypeError for what is no integer array; ShapeError unless both are matrices, one in the shape of
    the other transposed.
    """
    import matplotlib.pyplot as plt

    for name, x in (("written", written), ("right", right)):
        _check_integers(name, x)
        if x.ndim != 2:
            raise ShapeError(f"{name}: expected two axes, got shape {x.shape}")
    check_same_shape("right", right.shape, "written, transposed", written.shape[::-1])
    limit = float(max(np.abs(written).max(initial=0), np.abs(right).max(initial=0), 1))
    with style():
        figure, (left, beside) = plt.subplots(1, 2, figsize=(7.6, 3.2), layout="constrained")
        draw_matrix(left, written, "as written", limit)
        left.set(xlabel="query $i$", ylabel="key $j$")
        draw_matrix(beside, right, "as needed: key minus query", limit)
    return figure, {"written": written, "right": right}


def training_run(
    losses: Mapping[str, Float[np.ndarray, "..."]],
    tables: Mapping[str, Float[np.ndarray, " offsets"]],
    offsets: Int[np.ndarray, " offsets"],
    expected: Float[np.ndarray, " offsets"] | None = None,
) -> tuple[Any, dict[str, dict[str, np.ndarray]]]:
    """Draw the losses of several runs and the tables that they end with.

    A number added to a whole table changes no weight, so each table is drawn less its largest entry, and so
    is the expected one. Where an expected table says how low entries should be, lower ones are cut off.

    The data holds ``losses`` and, less their largest entries, ``tables``; with an expected table it stands
    among them under "expected".

    Raises: DtypeError, ShapeError or RangeError for losses or tables that are no finite rows of floats, for
    tables of another length than offsets, and for more than three runs or none.
    """
    import matplotlib.pyplot as plt

    losses, shown = _checked_run(losses, tables, offsets, expected)
    with style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(8.8, 3.3), layout="constrained")
        for (name, loss), (color, line) in zip(losses.items(), LOOKS, strict=False):
            look = {"color": color, "linestyle": line, "label": name}
            left.semilogy(np.maximum(loss, FLOOR), **look)
            right.plot(offsets, shown[name], marker=".", **look)
        if expected is not None:
            right.plot(offsets, shown["expected"], "o", color=GREY, fillstyle="none", label="expected")
            right.set_ylim(1.6 * shown["expected"].min() - 0.5, 0.5)
        left.set(xlabel="step", ylabel="loss")
        right.set(xlabel="offset: key minus query", ylabel="table, less its largest entry")
        left.legend()
        right.legend()
    return figure, {"losses": losses, "tables": shown}


def _checked_run(
    losses: Any, tables: Any, offsets: Any, expected: Any
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return the losses, and the tables less their largest entries, with the expected one among them."""
    for name, x in (("losses", losses), ("tables", tables)):
        if not isinstance(x, Mapping):
            raise DtypeError(f"{name}: expected a mapping from runs to arrays, got {type(x).__name__}")
    if not 1 <= len(losses) <= len(LOOKS):
        raise RangeError(f"losses: expected 1 to {len(LOOKS)} runs, got {len(losses)}")
    if set(losses) != set(tables):
        raise RangeError(f"tables: expected one for each of the runs {list(losses)}, got {list(tables)}")
    _check_integers("offsets", offsets)
    found = {name: _row(f"losses: {name}", x) for name, x in losses.items()}
    given = tables if expected is None else {**tables, "expected": expected}
    shown = {name: _row(f"tables: {name}", x) for name, x in given.items()}
    for name, x in shown.items():
        check_same_shape(f"tables: {name}", x.shape, "offsets", offsets.shape)
    return found, {name: x - x.max() for name, x in shown.items()}


def _check_integers(name: str, x: Any) -> None:
    """Require a NumPy array of integers."""
    plain = isinstance(x, np.ndarray) and not isinstance(x, np.ma.MaskedArray)
    if not plain or x.dtype.kind not in "iu":
        got = x.dtype if plain else type(x).__name__
        raise DtypeError(f"{name}: expected a NumPy array of integers, got {got}")


def _row(name: str, x: Any) -> np.ndarray:
    """Return one row of finite floats with an entry at least."""
    row = finite_array(name, x)
    if row.ndim != 1:
        raise ShapeError(f"{name}: expected one row, got shape {row.shape}")
    if row.size == 0:
        raise RangeError(f"{name}: expected at least one entry, got shape {row.shape}")
    return row
