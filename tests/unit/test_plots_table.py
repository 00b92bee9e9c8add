"""What the figures of shared tables show, asserted on the data that they return."""

import matplotlib
import numpy as np
import pytest

from attngrad import plots
from attngrad.checks import check_close
from attngrad.notation import DtypeError, RangeError, ShapeError

matplotlib.use("Agg")
RNG = np.random.default_rng(3)


def test_the_bars_are_the_sums_of_the_colours():
    ds = RNG.normal(size=(3, 5))
    figure, data = plots.diagonal_sums(ds, query_start=1)
    cells, bars = figure.axes
    assert data["offsets"].tolist() == [-3, -2, -1, 0, 1, 2, 3]
    colors = np.asarray(cells.images[0].get_array())
    for o, total, count, bar in zip(
        *(data[k] for k in ("offsets", "sums", "counts")), bars.patches, strict=True
    ):
        alike = (colors == bar.get_facecolor()).all(axis=-1)
        assert alike.sum() == count
        check_close("sum", ds[alike].sum(), total, terms=10.0)
        assert bar.get_height() == total
        assert {j - i - 1 for i, j in np.argwhere(alike)} == {o}
    figure.canvas.draw()


def test_numbers_are_written_where_they_can_be_read():
    figure, _ = plots.diagonal_sums(RNG.normal(size=(2, 6)))
    colors = {text.get_color() for text in figure.axes[0].texts}
    assert colors == {"white", "#111111"}


def test_a_transposed_cotangent_gives_the_mirrored_figure():
    ds = RNG.normal(size=(4, 4))
    straight, mirrored = plots.diagonal_sums(ds)[1], plots.diagonal_sums(ds.T)[1]
    check_close("mirrored", mirrored["sums"], straight["sums"][::-1], terms=10.0)
    assert np.abs(mirrored["sums"] - straight["sums"]).max() > 0.1


@pytest.mark.usefixtures("raw_errors")
@pytest.mark.parametrize("shape", [(3,), (2, 3, 4), (0, 3), (2, 0)])
def test_a_cotangent_is_one_matrix_with_an_entry(shape):
    with pytest.raises(ShapeError, match="ds: expected"):
        plots.diagonal_sums(np.zeros(shape))


def test_the_buckets_are_those_of_t5():
    figure, data = plots.t5_buckets(200)
    at = {o: k for k, o in enumerate(data["offsets"].tolist())}
    both, causal = data["both"], data["causal"]
    assert min(at) == -200
    assert max(at) == 200
    assert set(range(32)) - set(both.tolist()) == {16}
    assert both[at[0]] == 0
    assert both[at[1]] == 17
    assert (both[at[90]], both[at[91]], both[at[200]]) == (30, 31, 31)
    assert (both[at[-90]], both[at[-91]]) == (14, 15)
    assert (causal[at[0] :] == 0).all()
    assert causal[0] == 31
    assert (np.diff(causal[: at[0]]) <= 0).all()
    drawn = figure.axes[0].lines
    assert np.array_equal(drawn[0].get_ydata(), both)
    assert drawn[2].get_ydata()[0] == 16
    figure.canvas.draw()


def test_other_buckets_have_another_empty_one():
    _, data = plots.t5_buckets(30, num_buckets=8, max_distance=16)
    assert set(range(8)) - set(data["both"].tolist()) == {4}


@pytest.mark.usefixtures("raw_errors")
@pytest.mark.parametrize(("reach", "error"), [(0, RangeError), (1.5, DtypeError)])
def test_a_reach_is_a_positive_integer(reach, error):
    with pytest.raises(error, match="reach: expected"):
        plots.t5_buckets(reach)


def test_a_window_has_each_row_as_often_as_the_grid_says():
    figure, data = plots.window_rows(2, 4)
    rows, counts = data["rows"], data["counts"]
    assert rows.shape == (8, 8)
    assert counts.shape == (3, 7)
    assert counts.sum() == 64
    assert [(rows == r).sum() for r in range(21)] == counts.ravel().tolist()
    assert (np.diag(rows) == 3 * 7 // 2).all()
    assert counts.max() == counts[1, 3] == 8
    written = [int(text.get_text()) for text in figure.axes[0].texts]
    assert written == rows.ravel().tolist()
    figure.canvas.draw()


def test_large_windows_are_drawn_without_numbers():
    figure, _ = plots.window_rows(4, 4)
    assert not figure.axes[0].texts


def test_rare_offsets_have_gradients_of_the_root_of_their_number():
    figure, data = plots.rare_offsets(9, 13, draws=1500, seed=4)
    counts = data["counts"]
    assert counts.sum() == 9 * 13
    assert counts.max() == 9
    assert data["offsets"][[0, -1]].tolist() == [-4 - 8, 8]
    ratio = data["size"] / data["entry"] / np.sqrt(counts)
    assert np.abs(ratio - 1.0).max() < 0.15
    # Neither growth with the number itself, nor none, would pass.
    for power in (1.0, 0.0):
        other = data["size"] / data["entry"] / counts**power
        assert np.abs(other - 1.0).max() > 0.5
    figure.canvas.draw()


def test_the_same_seed_gives_the_same_figure():
    first, again, other = (plots.rare_offsets(3, 4, 20, seed)[1]["size"] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("sizes", [(0, 3), (3, 0), (3, 3, 0)])
def test_random_attention_needs_sizes_and_draws(sizes):
    with pytest.raises(RangeError, match="expected an integer of at least 1"):
        plots.rare_offsets(*sizes)
