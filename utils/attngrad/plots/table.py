"""Figures of shared tables: diagonals and their sums, buckets, windows, and how often an offset occurs."""

from typing import Any, SupportsIndex

import numpy as np

from attngrad.notation import Float, check_same_shape, finite_array, integer
from attngrad.offsets import multiplicity, relative_offset, rows_count, t5_bucket, window_index_2d
from attngrad.plots.style import BLUE, GREY, ORANGE, style
from attngrad.reference import offset_sums, softmax, softmax_vjp

DARK = 0.5  # below this brightness of its cell a number is written in white


def _shades(values: np.ndarray) -> np.ndarray:
    """Return a colour for each integer, from dark to bright, equal ones alike."""
    import matplotlib

    span = max(int(np.ptp(values)), 1)
    return matplotlib.colormaps["cividis"]((values - values.min()) / span)


def _draw_cells(axes: Any, colors: np.ndarray, texts: np.ndarray) -> None:
    """Draw a matrix of coloured cells with a text in each, in the colour that can be read on it."""
    axes.imshow(colors)
    bright = colors[..., :3] @ np.array([0.2126, 0.7152, 0.0722])
    for i, j in np.ndindex(texts.shape if texts.size <= 200 else (0, 0)):
        color = "white" if bright[i, j] < DARK else "#111111"
        axes.text(j, i, str(texts[i, j]), ha="center", va="center", color=color, fontsize=9)
    axes.set(xticks=range(texts.shape[1]), yticks=range(texts.shape[0]))
    axes.spines[:].set_visible(False)


def diagonal_sums(
    ds: Float[np.ndarray, "N M"], query_start: SupportsIndex | None = None
) -> tuple[Any, dict[str, np.ndarray]]:
    """Draw a cotangent of scores, a colour for each offset, and the sum of each colour: a table's gradient.

    The data holds ``offsets``, their ``sums`` and their ``counts``, the number of pairs of each.

    Raises: ShapeError unless ds is a matrix with an entry; else as `attngrad.reference.offset_sums`.
    """
    import matplotlib.pyplot as plt

    ds = finite_array("ds", ds, rank=2)
    check_same_shape("ds", ds.shape, "one matrix with an entry", tuple(max(n, 1) for n in ds.shape[-2:]))
    offset = relative_offset(*ds.shape, query_start)
    offsets, sums = offset_sums(ds, query_start)
    counts = multiplicity(*ds.shape, query_start)[1]
    with style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.0), layout="constrained")
        texts = np.array([[f"{x:.3g}" for x in row] for row in ds])
        _draw_cells(left, _shades(offset), texts)
        left.set(xlabel="key $j$", ylabel="query $i$", title="$dS$, coloured by offset")
        left.set(xticklabels=range(1, ds.shape[1] + 1), yticklabels=range(1, ds.shape[0] + 1))
        right.bar(offsets, sums, color=_shades(offsets), edgecolor="#333333", linewidth=0.6)
        right.axhline(0.0, color="#333333", linewidth=0.8)
        right.set(xlabel="offset: key minus query", ylabel="sum of the colour", xticks=offsets)
        right.set_title("gradient of the table")
    return figure, {"offsets": offsets, "sums": sums, "counts": counts}


def t5_buckets(
    reach: SupportsIndex = 150, num_buckets: SupportsIndex = 32, max_distance: SupportsIndex = 128
) -> tuple[Any, dict[str, np.ndarray]]:
    """Draw T5's bucket of every offset, for an encoder and for a decoder.

    The data holds ``offsets`` from -reach to reach, ``both`` and ``causal``, the bucket of each with
    bidirectional=True and without.

    Raises: DtypeError or RangeError unless reach is an integer of at least 1; else as
    `attngrad.offsets.t5_bucket`.
    """
    import matplotlib.pyplot as plt

    reach = integer("reach", reach, least=1)
    offsets = np.arange(-reach, reach + 1, dtype=np.int64)
    both = t5_bucket(offsets, num_buckets, max_distance)
    causal = t5_bucket(offsets, num_buckets, max_distance, bidirectional=False)
    half = int(num_buckets) // 2
    with style():
        figure, axes = plt.subplots(figsize=(7.6, 3.4), layout="constrained")
        axes.plot(offsets, both, ".", markersize=3, color=BLUE, label="both directions")
        seen = offsets <= 0
        axes.plot(offsets[seen], causal[seen], ".", markersize=3, color=ORANGE, label="causal")
        axes.axhline(half, color=GREY, linestyle=":", linewidth=1.0)
        told = f"bucket {half}: never used with both directions"
        axes.text(reach, half - 0.4, told, color=GREY, ha="right", va="top")
        axes.set(xlabel="offset: key minus query", ylabel="bucket")
        axes.legend(loc="lower left")
    return figure, {"offsets": offsets, "both": both, "causal": causal}


def window_rows(height: SupportsIndex, width: SupportsIndex) -> tuple[Any, dict[str, np.ndarray]]:
    """Draw the row of Swin's table that each pair of a window has, and how many pairs each row has.

    The data holds ``rows`` (h w, h w) and ``counts`` (2 h - 1, 2 w - 1), a row for each vertical offset of
    the query from the key and a column for each horizontal one.

    Raises: as `attngrad.offsets.window_index_2d`.
    """
    import matplotlib.pyplot as plt

    rows = window_index_2d(height, width)
    high, wide = 2 * int(height) - 1, 2 * int(width) - 1
    counts = rows_count(rows, high * wide).reshape(high, wide)
    with style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(8.8, 3.6), layout="constrained")
        _draw_cells(left, _shades(rows), rows)
        left.set(xlabel="key, token by token", ylabel="query, token by token", title="row of the table")
        _draw_cells(right, _shades(np.arange(high * wide).reshape(high, wide)), counts)
        right.set(xlabel="horizontal offset", ylabel="vertical offset, query minus key")
        right.set(xticklabels=range(1 - int(width), int(width)))
        right.set(yticklabels=range(1 - int(height), int(height)))
        right.set_title("the table as a grid: pairs of each row")
    return figure, {"rows": rows, "counts": counts}


def rare_offsets(
    N: SupportsIndex = 24, M: SupportsIndex = 24, draws: SupportsIndex = 400, seed: int = 0
) -> tuple[Any, dict[str, np.ndarray]]:
    """Draw how many pairs each offset has, and the typical size of its gradient in random attention.

    Scores and cotangents of weights are drawn anew each time, independent and normal. The data holds
    ``offsets``, ``counts``, ``size``, the root of the mean square of the gradient of each offset, and
    ``entry``, that of one entry of dS.

    Raises: DtypeError or RangeError unless the sizes and draws are integers of at least 1.
    """
    import matplotlib.pyplot as plt

    shape = [integer(name, x, least=1) for name, x in (("draws", draws), ("N", N), ("M", M))]
    rng = np.random.default_rng(integer("seed", seed, least=0))
    ds = softmax_vjp(softmax(rng.normal(size=shape)), rng.normal(size=shape))
    offsets, counts = multiplicity(N, M)
    size = np.sqrt(np.square(offset_sums(ds)[1]).mean(axis=0))
    entry = np.sqrt(np.square(ds).mean())
    with style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.0), layout="constrained")
        left.bar(offsets, counts, color=BLUE)
        left.set(xlabel="offset: key minus query", ylabel="number of pairs $n_o$")
        right.plot(offsets, size / entry, ".", color=ORANGE, label="measured")
        right.plot(offsets, np.sqrt(counts), color=GREY, linewidth=1.0, label="$\\sqrt{n_o}$")
        right.set(xlabel="offset: key minus query", ylabel="size of $dw_o$, in entries of $dS$")
        right.set_ylim(bottom=0.0)
        right.legend()
    return figure, {"offsets": offsets, "counts": counts, "size": size, "entry": entry}
