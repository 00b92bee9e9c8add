"""What the figures of the chapter on checks show, asserted on the data that they return."""

import matplotlib
import numpy as np
import pytest

from attngrad.notation import DtypeError, RangeError, ShapeError
from attngrad.plots.checking import mistaken_runs, rejections, update_ratios

matplotlib.use("Agg")
FALLING = np.array([4.0, 2.0, 1.0])


def test_losses_are_drawn_in_units_of_the_first():
    figure, shown = mistaken_runs(
        {"SGD": {"right": FALLING, "wrong": 3 * FALLING}, "Adam": {"right": FALLING}}
    )
    assert shown["SGD"]["wrong"].tolist() == [1.0, 0.5, 0.25]
    left, right = figure.axes
    assert [line.get_label() for line in left.lines] == ["right", "wrong"]
    assert [len(axes.lines) for axes in (left, right)] == [2, 1]
    assert [axes.get_title() for axes in (left, right)] == ["SGD", "Adam"]
    for line, x in zip(left.lines, shown["SGD"].values(), strict=True):
        assert line.get_ydata().tolist() == x.tolist()
    assert left.get_yscale() == "log"
    figure.canvas.draw()


def test_measured_ratios_stand_beside_the_formula():
    figure, data = update_ratios({"a": FALLING, "b": 2 * FALLING}, {"a": FALLING, "b": FALLING})
    assert data["a"].tolist() == [1.0] * 3
    assert data["b"].tolist() == [2.0] * 3
    measured, formula = figure.axes[1].lines
    assert measured.get_ydata().tolist() == [8.0, 4.0, 2.0]
    assert formula.get_ydata().tolist() == [4.0, 2.0, 1.0]
    assert measured.get_xdata().tolist() == [1, 2, 3]
    figure.canvas.draw()


def test_checks_are_drawn_from_the_strongest_to_the_weakest():
    figure, shown = rejections({"a": 2, "b": 9}, {"c": 0, "d": 5})
    assert [list(group.items()) for group in shown.values()] == [[("b", 9), ("a", 2)], [("d", 5), ("c", 0)]]
    (axes,) = figure.axes
    assert [bar.get_width() for bar in axes.patches] == [9, 2, 5, 0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["b", "a", "d", "c"]
    assert len({bar.get_facecolor() for bar in axes.patches}) == 2
    figure.canvas.draw()


@pytest.mark.usefixtures("raw_errors")
@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (lambda: rejections({}, {"a": 1}), RangeError, "real: expected 1 to 100 of them, got 0"),
        (lambda: rejections({"a": 1}, {"b": 0.5}), DtypeError, "naive, b: expected an integer, got float"),
        (lambda: mistaken_runs({}), RangeError, "runs: expected 1 to 3 of them, got 0"),
        (
            lambda: mistaken_runs(FALLING),
            DtypeError,
            "runs: expected a mapping of names to rows, got ndarray",
        ),
        (lambda: mistaken_runs({"a": {}}), RangeError, "a: expected 1 to 4 of them, got 0"),
        (lambda: mistaken_runs({"a": {"b": FALLING - 1}}), RangeError, "a, b: expected positive numbers"),
        (
            lambda: mistaken_runs({"a": {"b": np.ones((2, 2))}}),
            ShapeError,
            r"a, b: expected shape \(2,\) as for",
        ),
        (lambda: mistaken_runs({"a": {"b": FALLING, "c": FALLING[1:]}}), ShapeError, "a, c: expected shape"),
        (lambda: mistaken_runs({"a": {"b": np.ones(0)}}), RangeError, "a, b: .* at least one"),
        (lambda: update_ratios({"a": FALLING}, {"b": FALLING}), RangeError, "formula: expected the names"),
        (lambda: update_ratios({"a": FALLING}, {"a": FALLING[1:]}), ShapeError, "formula, a: expected shape"),
        (lambda: update_ratios({"a": np.array([1.0, np.nan])}, {"a": FALLING}), RangeError, "measured, a:"),
    ],
)
def test_bad_input_is_named(call, error, told):
    with pytest.raises(error, match=told):
        call()
