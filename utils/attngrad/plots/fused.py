"""Figures of the fused table gradient: the skewed view, the diagonals of tiles, and the order of a sum."""

from typing import Any, SupportsIndex

import numpy as np

from attngrad.notation import Float, RangeError, check_same_shape, finite_array, integer
from attngrad.plots.style import BLUE, GREY, ORANGE, style
from attngrad.plots.table import _draw_cells, _shades

PADDING = (0.93, 0.93, 0.93, 1.0)
BITS = 23  # numbers are multiples of 2^-23 between -1 and 1, so that float32 holds each of them


def _read(memory: np.ndarray, pitch: int, columns: int) -> np.ndarray:
    """Return the entries of a memory that rows of another pitch would hold, each from its first column on."""
    rows = len(memory)
    at = np.arange(rows)[:, None] * pitch + np.arange(columns)
    return memory.reshape(-1, *memory.shape[2:])[at]


def skewed_view(
    ds: Float[np.ndarray, "N M"], pitch: SupportsIndex | None = None
) -> tuple[Any, dict[str, np.ndarray]]:
    """Draw a cotangent of scores in memory, as it is written and as rows shorter by one place read it.

    Rows are written from the last query to the first, ``pitch`` places apart, N + M - 1 by default; the
    places behind a row hold 0. Equal colours are equal offsets, and grey is padding. The data holds
    ``written`` (N, pitch), ``read`` (N, N + M - 1), their sums by column ``sums``, and ``places`` (N,
    N + M - 1): the offset of the pair that is read at each place, plus N, or 0 for padding.

    Raises: ShapeError unless ds is a matrix with an entry; RangeError for a pitch below M; else as
    `attngrad.notation.finite_array`.
    """
    import matplotlib.pyplot as plt

    ds = finite_array("ds", ds, rank=2)
    check_same_shape("ds", ds.shape, "one matrix with an entry", tuple(max(n, 1) for n in ds.shape[-2:]))
    N, M = ds.shape
    pitch = N + M - 1 if pitch is None else integer("pitch", pitch, least=M)
    written, numbers = np.zeros((N, pitch)), np.zeros((N, pitch), dtype=np.int64)
    written[:, :M] = ds[::-1]
    numbers[:, :M] = np.arange(N)[:, None] + np.arange(M) + 1
    read, places = (_read(x, pitch - 1, N + M - 1) for x in (written, numbers))
    colors = np.vstack([[PADDING], _shades(np.arange(1, N + M))])
    with style():
        figure, axes = plt.subplots(1, 2, figsize=(9.0, 0.5 * N + 1.7), layout="constrained")
        told = (f"written: {pitch} places a row", f"read: {pitch - 1} places a row")
        for one, values, which, title in zip(axes, (written, read), (numbers, places), told, strict=True):
            texts = np.array([[f"{x:.3g}" for x in row] for row in values])
            _draw_cells(one, colors[which], texts)
            one.set(title=title, yticklabels=range(1, N + 1), xticklabels=range(1, values.shape[1] + 1))
            one.set(ylabel="row, the last query first")
        axes[0].set_xlabel("key, then padding")
        axes[1].set_xlabel("column: number of the diagonal")
    return figure, {"written": written, "read": read, "sums": read.sum(axis=0), "places": places}


def tile_diagonals(
    N: SupportsIndex, M: SupportsIndex, rows: SupportsIndex, columns: SupportsIndex
) -> tuple[Any, dict[str, np.ndarray]]:
    """Draw the pairs in tiles, the diagonals of one tile, and how many tiles each diagonal meets.

    The data holds ``offsets``, ``pairs`` and ``tiles``: how many pairs and how many tiles of at most
    rows x columns pairs each offset has.

    Raises: DtypeError or RangeError unless all four are integers of at least 1.
    """
    import matplotlib.pyplot as plt

    given = {"N": N, "M": M, "rows": rows, "columns": columns}
    N, M, rows, columns = (integer(name, x, least=1) for name, x in given.items())
    diagonal = np.arange(M) - np.arange(N)[:, None] + N - 1
    tile = np.arange(N)[:, None] // rows * -(-M // columns) + np.arange(M) // columns
    pairs, tiles = np.bincount(diagonal.ravel()), np.zeros(N + M - 1, dtype=np.int64)
    for one in range(tile.max() + 1):
        tiles[np.unique(diagonal[tile == one])] += 1
    shown = tile == tile[N // 2, M // 2]
    touched = np.isin(diagonal, diagonal[shown])
    colors = np.where(shown[..., None], _rgba(ORANGE), np.where(touched[..., None], _rgba(BLUE, 0.35), 1.0))
    with style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(8.6, 3.2), layout="constrained")
        left.imshow(colors)
        left.set_xticks(np.arange(0, M + 1, columns) - 0.5, np.arange(0, M + 1, columns))
        left.set_yticks(np.arange(0, N + 1, rows) - 0.5, np.arange(0, N + 1, rows))
        left.grid(color="#333333", linewidth=0.8)
        left.set(xlabel="key", ylabel="query", title="one tile and its diagonals")
        offsets = np.arange(1 - N, M)
        right.step(offsets, pairs, where="mid", color=GREY, label="pairs")
        right.step(offsets, tiles, where="mid", color=ORANGE, label="tiles")
        right.set(xlabel="offset: key minus query", ylabel="that an offset has")
        right.legend()
    return figure, {"offsets": offsets, "pairs": pairs, "tiles": tiles}


def _rgba(color: str, alpha: float = 1.0) -> np.ndarray:
    """Return a colour as four numbers, mixed with white."""
    from matplotlib.colors import to_rgb

    return np.append(alpha * np.array(to_rgb(color)) + 1.0 - alpha, 1.0)


def summation_orders(
    count: SupportsIndex = 4096,
    orders: SupportsIndex = 1000,
    strip: SupportsIndex = 64,
    seed: SupportsIndex = 0,
) -> tuple[Any, dict[str, np.ndarray]]:
    """Draw the float32 sums of the same numbers in random orders, one after the other, less the exact sum.

    The numbers lie between -1 and 1 and are multiples of 2^-23. The data holds ``sums``, one for each order,
    ``exact`` in float64, and ``staged``: strips of ``strip`` numbers summed first, then their sums, in order.
    All are the same on every machine that rounds to nearest.

    Raises: DtypeError or RangeError unless count, orders and strip are integers of at least 1, seed of 0;
    RangeError for more than 2^30 numbers, whose exact sum float64 would not hold.
    """
    import matplotlib.pyplot as plt

    given = {"count": count, "orders": orders, "strip": strip}
    count, orders, strip = (integer(name, x, least=1) for name, x in given.items())
    if count > 2**30:
        raise RangeError(f"count: expected at most 2^30, got {count}")
    rng = np.random.default_rng(integer("seed", seed, least=0))
    whole = rng.integers(-(2**BITS), 2**BITS, size=count)
    x = (whole / 2.0**BITS).astype(np.float32)
    sums = np.array([_in_order(x[rng.permutation(count)]) for _ in range(orders)])
    staged = _in_order(np.array([_in_order(x[at : at + strip]) for at in range(0, count, strip)]))
    exact = np.float64(whole.sum() / 2.0**BITS)
    with style():
        figure, axes = plt.subplots(figsize=(7.6, 3.0), layout="constrained")
        values, number = np.unique(sums, return_counts=True)
        axes.vlines(1e5 * (values - exact), 0, number, color=BLUE, label="orders, drawn at random")
        axes.axvline(1e5 * (staged - exact), color=ORANGE, label=f"strips of {strip}, in order")
        axes.set(
            xlabel="computed less exact sum, in $10^{-5}$", ylabel="orders with this sum", ylim=(0, None)
        )
        axes.legend()
    return figure, {"sums": sums, "exact": exact, "staged": staged}


def _in_order(x: np.ndarray) -> np.float32:
    """Return the float32 sum of numbers, one after the other."""
    return np.cumsum(x, dtype=np.float32)[-1]
