"""What the figures of the benchmarks show, asserted on the data that they return."""

import matplotlib
import numpy as np
import pytest

from attngrad import plots
from attngrad.checks import check_close
from attngrad.notation import DtypeError, RangeError, ShapeError

matplotlib.use("Agg")
LENGTHS = np.array([256.0, 512.0, 2048.0])


def test_powers_are_told_and_lines_are_those_given():
    times = {"square": 1e-6 * LENGTHS**2, "line": 2e-4 * LENGTHS}
    memory = {"line": 1e3 * LENGTHS, "still": np.full(3, 2.0**20)}
    figure, data = plots.growth(LENGTHS, times, memory)
    check_close("times", data["times"], np.array([[2.0, 2.0], [1.0, 1.0]]), terms=20.0)
    check_close("memory", data["memory"], np.array([[1.0, 1.0], [0.0, 0.0]]), terms=20.0)
    left, right = figure.axes
    for axes, lines, unit in ((left, times, 1e-3), (right, memory, 2.0**20)):
        shown = {line.get_label(): line.get_ydata() for line in axes.lines}
        assert list(shown) == list(lines)
        assert all((shown[name] == x / unit).all() for name, x in lines.items())
        assert axes.get_xscale() == axes.get_yscale() == "log"
        assert axes.lines[0].get_xdata().tolist() == LENGTHS.tolist()
    colors = {line.get_label(): line.get_color() for line in left.lines}
    assert colors["line"] == right.lines[0].get_color()
    assert len(set(colors.values()) | {right.lines[1].get_color()}) == 3
    figure.canvas.draw()


def test_points_are_compared_with_the_roof_above_them():
    points = {"slow": np.array([[1.0, 1e9], [100.0, 5e9]]), "ridge": np.array([[5.0, 10e9]])}
    figure, data = plots.roofline(points, peak=10e9, bandwidth=2e9)
    check_close("ridge", data["ridge"], 5.0)
    check_close("share", data["share"], np.array([0.5, 0.5, 1.0]))
    (axes,) = figure.axes
    roof = next(line for line in axes.lines if line.get_label() == "roof")
    x, y = roof.get_data()
    check_close("roof", y, np.minimum(10.0, 2.0 * x))
    assert x.min() < 1.0
    assert x.max() > 100.0
    for name, want in points.items():
        line = next(line for line in axes.lines if line.get_label() == name)
        check_close(name, line.get_xydata(), want / [1.0, 1e9])
    figure.canvas.draw()


A, PAIRS = {"a": LENGTHS}, {"a": np.ones((2, 2))}


@pytest.mark.usefixtures("raw_errors")
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: plots.growth(LENGTHS[::-1], A, A), RangeError, "lengths: expected numbers that grow"),
        (lambda: plots.growth(LENGTHS[:1], {"a": LENGTHS[:1]}, A), ShapeError, "lengths: expected at least"),
        (lambda: plots.growth(LENGTHS, [LENGTHS], A), DtypeError, "times: expected a mapping"),
        (lambda: plots.growth(LENGTHS, A, {}), RangeError, "memory: expected one to 8 names, got 0"),
        (lambda: plots.growth(LENGTHS, A, {"a": LENGTHS[1:]}), ShapeError, "memory: expected shape"),
        (lambda: plots.growth(LENGTHS, {"a": 0 * LENGTHS}, A), RangeError, "times: expected positive"),
        (lambda: plots.roofline({"a": np.ones((2, 3))}, 1.0, 1.0), ShapeError, "points: expected shape"),
        (lambda: plots.roofline({"a": np.ones((0, 2))}, 1.0, 1.0), ShapeError, "points: expected shape"),
        (lambda: plots.roofline({}, 1.0, 1.0), RangeError, "points: expected one to 8 names, got 0"),
        (lambda: plots.roofline(PAIRS, 0.0, 1.0), RangeError, "peak: expected"),
        (lambda: plots.roofline(PAIRS, 1.0, np.inf), RangeError, "bandwidth: expected"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()
