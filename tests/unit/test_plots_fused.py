"""What the figures of the fused table gradient show, asserted on the data that they return."""

import matplotlib
import numpy as np
import pytest

from attngrad import plots, reference
from attngrad.checks import check_close
from attngrad.notation import DtypeError, RangeError, ShapeError

matplotlib.use("Agg")
RNG = np.random.default_rng(15)


@pytest.mark.parametrize(("N", "M"), [(1, 1), (1, 4), (4, 1), (2, 2), (3, 5), (7, 4)])
def test_a_long_pitch_puts_each_diagonal_into_a_column(N, M):
    ds = RNG.normal(size=(N, M))
    for pitch in (None, N + M - 1, N + M + 3):
        _, data = plots.skewed_view(ds, pitch)
        check_close("sums", data["sums"], reference.offset_sums(ds)[1], terms=20.0)
        columns = np.broadcast_to(np.arange(1, N + M), data["places"].shape)
        pairs = data["places"] > 0
        assert pairs.sum() == N * M
        assert (data["places"] == columns)[pairs].all()
        assert (data["read"][~pairs] == 0.0).all()


@pytest.mark.parametrize(("N", "M"), [(2, 2), (3, 5), (7, 4)])
def test_a_short_pitch_repeats_entries(N, M):
    ds = RNG.normal(size=(N, M))
    _, data = plots.skewed_view(ds, N + M - 2)
    gap = data["sums"] - reference.offset_sums(ds)[1]
    check_close("first", gap[0], ds[1, -1], terms=20.0)
    check_close("last", gap[-1], ds[-2, 0], terms=20.0)
    assert (data["places"] > 0).sum() == N * M + 2


def test_colours_are_those_of_the_diagonals_and_padding_has_none():
    ds = RNG.normal(size=(3, 4))
    figure, data = plots.skewed_view(ds)
    written, read = (np.asarray(axes.images[0].get_array()) for axes in figure.axes)
    assert data["written"].shape == (3, 6)
    assert (data["written"][:, :4] == ds[::-1]).all()
    assert len(np.unique(read.reshape(-1, 4), axis=0)) == 6 + 1
    padding = written[0, -1]
    assert (written[:, 4:] == padding).all()
    for g in range(6):
        inside = data["places"][:, g] > 0
        assert len(np.unique(read[inside, g], axis=0)) == 1
        assert (read[~inside, g] == padding).all()
    texts = [text.get_text() for text in figure.axes[1].texts]
    assert texts == [f"{x:.3g}" for x in data["read"].ravel()]
    figure.canvas.draw()


@pytest.mark.usefixtures("raw_errors")
@pytest.mark.parametrize(
    ("ds", "pitch", "error", "told"),
    [
        (np.zeros(3), None, ShapeError, "ds: expected"),
        (np.zeros((2, 0)), None, ShapeError, "ds: expected"),
        (np.zeros((2, 3)), 2, RangeError, "pitch: expected"),
        (np.zeros((2, 3)), 3.5, DtypeError, "pitch: expected"),
        (np.array([[np.nan]]), None, RangeError, "ds: expected"),
    ],
)
def test_what_is_no_memory_of_a_matrix_is_refused(ds, pitch, error, told):
    with pytest.raises(error, match=told):
        plots.skewed_view(ds, pitch)


@pytest.mark.parametrize("sizes", [(24, 32, 6, 8), (7, 5, 3, 4), (5, 9, 5, 9), (4, 3, 1, 1), (3, 2, 10, 10)])
def test_each_tile_meets_as_many_diagonals_as_it_has_sides(sizes):
    N, M, rows, columns = sizes
    figure, data = plots.tile_diagonals(*sizes)
    heights = [min(rows, N - at) for at in range(0, N, rows)]
    widths = [min(columns, M - at) for at in range(0, M, columns)]
    assert data["tiles"].sum() == sum(m + n - 1 for m in heights for n in widths)
    assert data["pairs"].sum() == N * M
    assert (data["tiles"] <= data["pairs"]).all()
    assert (data["tiles"] >= 1).all()
    assert data["offsets"].tolist() == list(range(1 - N, M))
    figure.canvas.draw()


def test_one_tile_is_filled_and_its_diagonals_are_shaded():
    figure, _ = plots.tile_diagonals(6, 8, 2, 4)
    colors = np.asarray(figure.axes[0].images[0].get_array())
    kinds, which = np.unique(colors.reshape(-1, 4), axis=0, return_inverse=True)
    which = which.reshape(6, 8)
    filled, white = which[3, 5], int(np.flatnonzero((kinds == 1.0).all(axis=1))[0])
    assert len(kinds) == 3
    assert np.argwhere(which == filled).tolist() == [[i, j] for i in (2, 3) for j in (4, 5, 6, 7)]
    offset = np.arange(8) - np.arange(6)[:, None]
    assert ((which != white) == ((offset >= 1) & (offset <= 5))).all()


def test_random_orders_give_many_sums_and_strips_a_better_one():
    figure, data = plots.summation_orders(512, 300, strip=32, seed=3)
    assert data["sums"].dtype == data["staged"].dtype == np.float32
    off = np.abs(data["sums"] - data["exact"])
    assert len(np.unique(data["sums"])) > 20
    assert abs(data["staged"] - data["exact"]) < np.median(off)
    # What rounding allows, 511 additions of numbers up to one.
    assert off.max() <= 511 * 2.0**-24 * 512
    lines, marked = figure.axes[0].collections[0].get_segments(), figure.axes[0].lines[0].get_xdata()
    assert len(lines) == len(np.unique(data["sums"]))
    assert sum(segment[1, 1] for segment in lines) == 300
    np.testing.assert_allclose(marked[0], 1e5 * (data["staged"] - data["exact"]))
    figure.canvas.draw()


def test_numbers_that_need_no_rounding_have_one_sum():
    _, data = plots.summation_orders(1, 50)
    assert len(np.unique(data["sums"])) == 1
    assert data["sums"][0] == data["staged"] == data["exact"]


def test_the_orders_are_the_same_at_every_call():
    first, again, other = (plots.summation_orders(64, 20, seed=seed)[1]["sums"] for seed in (1, 1, 2))
    assert (first == again).all()
    assert not np.array_equal(first, other)


@pytest.mark.usefixtures("raw_errors")
@pytest.mark.parametrize("name", ["count", "orders", "strip"])
def test_sizes_are_positive_integers(name):
    with pytest.raises(RangeError, match=f"{name}: expected"):
        plots.summation_orders(**{name: 0})


@pytest.mark.usefixtures("raw_errors")
def test_a_sum_that_float64_would_round_is_refused():
    with pytest.raises(RangeError, match="count: expected at most"):
        plots.summation_orders(2**30 + 1, 1)
