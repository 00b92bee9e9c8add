"""The figures of the repaired program, asserted on the data that they return and on what they draw."""

import matplotlib
import numpy as np
import pytest

from attngrad import plots
from attngrad.notation import DtypeError, RangeError, ShapeError

matplotlib.use("Agg")
WRITTEN = np.arange(2) - np.arange(4)[:, None]
OFFSETS = np.arange(-2, 3)
TABLES = {"true": np.array([0.0, 3.0, 1.0, 0.0, -1.0]), "wrong": np.array([5.0, -90.0, 0.0, 2.0, 1.0])}
LOSSES = {"true": np.array([1.0, 0.1, 0.0]), "wrong": np.array([1.0, 2.0, 3.0])}


def test_the_matrices_are_drawn_with_their_own_axes():
    figure, shown = plots.index_matrices(WRITTEN, -WRITTEN.T)
    assert np.array_equal(shown["written"], WRITTEN)
    assert np.array_equal(shown["right"], -WRITTEN.T)
    left, right = figure.axes
    assert (left.get_ylabel(), left.get_xlabel()) == ("key $j$", "query $i$")
    assert (right.get_ylabel(), right.get_xlabel()) == ("query $i$", "key $j$")
    for axes, x in ((left, WRITTEN), (right, -WRITTEN.T)):
        assert np.array_equal(axes.images[0].get_array(), x)
        assert [text.get_text() for text in axes.texts] == [str(entry) for entry in x.ravel()]
    assert left.images[0].get_clim() == right.images[0].get_clim() == (-3.0, 3.0)
    figure.canvas.draw()


def test_a_run_is_drawn_with_its_losses_and_its_tables():
    expected = np.array([2.0, 3.0, 2.0, 1.0, 0.0])
    figure, shown = plots.training_run(LOSSES, TABLES, OFFSETS, expected)
    assert shown["losses"].keys() == LOSSES.keys()
    assert all(np.array_equal(shown["losses"][name], LOSSES[name]) for name in LOSSES)
    for name, table in {**TABLES, "expected": expected}.items():
        assert np.array_equal(shown["tables"][name], table - table.max())
    left, right = figure.axes
    drawn = {line.get_label(): line.get_ydata() for line in left.lines}
    assert drawn.keys() == LOSSES.keys()
    assert drawn["true"].tolist() == [1.0, 0.1, 1e-8]
    drawn = {line.get_label(): line for line in right.lines}
    assert drawn.keys() == shown["tables"].keys()
    for name, line in drawn.items():
        assert np.array_equal(line.get_xdata(), OFFSETS)
        assert np.array_equal(line.get_ydata(), shown["tables"][name])
    assert right.get_ylim()[0] == pytest.approx(1.6 * -3.0 - 0.5)
    figure.canvas.draw()


def test_without_an_expected_table_nothing_is_cut_off():
    figure, shown = plots.training_run(LOSSES, TABLES, OFFSETS)
    assert "expected" not in shown["tables"]
    assert figure.axes[1].get_ylim()[0] < -95.0


@pytest.mark.usefixtures("raw_errors")
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: plots.index_matrices(WRITTEN / 2, WRITTEN.T), DtypeError, "written: .* got float64"),
        (lambda: plots.index_matrices(WRITTEN, [1]), DtypeError, "right: .* integers, got list"),
        (lambda: plots.index_matrices(WRITTEN[0], WRITTEN.T), ShapeError, "written: expected two axes"),
        (lambda: plots.index_matrices(WRITTEN, WRITTEN), ShapeError, r"right: expected shape \(2, 4\) as fo"),
        (lambda: plots.training_run({}, {}, OFFSETS), RangeError, "losses: expected 1 to 3 runs, got 0"),
        (lambda: plots.training_run(LOSSES, {}, OFFSETS), RangeError, r"tables: .* \['true', 'wrong'\], got"),
        (lambda: plots.training_run(LOSSES, TABLES, OFFSETS[1:]), ShapeError, r"tables: true: .* \(4,\)"),
        (
            lambda: plots.training_run(LOSSES, TABLES | {"wrong": np.full(5, np.nan)}, OFFSETS),
            RangeError,
            r"tables: wrong: expected finite values, got nan at index \(0,\)",
        ),
        (
            lambda: plots.training_run(LOSSES | {"true": np.ones((2, 2))}, TABLES, OFFSETS),
            ShapeError,
            "losses: true: expected one row",
        ),
        (
            lambda: plots.training_run(LOSSES | {"true": np.ones(0)}, TABLES, OFFSETS),
            RangeError,
            r"losses: true: expected at least one entry, got shape \(0,\)",
        ),
        (
            lambda: plots.training_run(LOSSES, TABLES, OFFSETS, np.zeros(3)),
            ShapeError,
            r"tables: expected: expected shape \(5,\) as for offsets, got \(3,\)",
        ),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()
