"""What the figures of recomputation show, asserted on the data that they return."""

import matplotlib
import numpy as np
import pytest

from attngrad import plots
from attngrad import reference as ref
from attngrad.checks import check_close
from attngrad.notation import DtypeError, RangeError, ShapeError

matplotlib.use("Agg")
RNG = np.random.default_rng(14)
M = 6


def test_the_path_has_attention_over_the_first_keys_at_each_step():
    s, v = RNG.standard_normal(M), RNG.standard_normal((M, 2))
    figure, path = plots.running_output(s, v)
    for j in range(M):
        check_close("lse", path["lse"][j], ref.lse(s[: j + 1]), terms=2.0)
        check_close("o", path["o"][j], ref.softmax(s[: j + 1]) @ v[: j + 1], terms=2.0)
    check_close("first share", path["share"][0], 1.0)
    steps = path["o"][:-1] + path["share"][1:, None] * (v[1:] - path["o"][:-1])
    check_close("steps", path["o"][1:], steps, terms=4.0)
    (axes,) = figure.axes
    drawn = {line.get_label(): line.get_xydata() for line in axes.lines}
    assert np.array_equal(drawn["values"], v)
    assert np.array_equal(drawn["output so far"], path["o"])
    assert np.array_equal(drawn["output"][0], path["o"][-1])
    figure.canvas.draw()


def test_the_lines_are_those_given_and_their_slopes_are_told():
    means = np.array([1.0, 3.0, 100.0])
    errors = {"grows": means / 50.0, "stays": np.full(3, 0.01)}
    figure, data = plots.leaks(means, errors)
    check_close("slopes", data["slopes"], np.array([1.0, 0.0]), terms=1.0)
    (axes,) = figure.axes
    assert {line.get_label(): line.get_xydata()[:, 1].tolist() for line in axes.lines} == {
        name: x.tolist() for name, x in errors.items()
    }
    assert axes.get_xscale() == axes.get_yscale() == "log"
    figure.canvas.draw()


S, V, UP = np.zeros(2), np.zeros((2, 2)), np.array([1.0, 2.0])


@pytest.mark.usefixtures("raw_errors")
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: plots.running_output(S[None], V), ShapeError, r"s: expected shape \(2,\) as for one row"),
        (lambda: plots.running_output(S[:0], V[:0]), ShapeError, "s: expected at least one entry"),
        (lambda: plots.running_output(S, V[:1]), ShapeError, r"v: expected shape \(2, 2\) as for keys of s"),
        (lambda: plots.running_output(S - np.inf, V), RangeError, "s: expected finite values"),
        (lambda: plots.leaks(UP[::-1], {"a": UP}), RangeError, "means: expected numbers that grow"),
        (lambda: plots.leaks(UP[:1], {"a": UP[:1]}), ShapeError, "means: expected at least two numbers"),
        (lambda: plots.leaks(UP, [UP]), DtypeError, "errors: expected a mapping"),
        (lambda: plots.leaks(UP, {}), RangeError, "errors: expected one to 4 lines, got 0"),
        (lambda: plots.leaks(UP, {"a": UP[:1]}), ShapeError, r"errors: expected shape \(2,\) as for means"),
        (lambda: plots.leaks(UP, {"a": UP - 1.0}), RangeError, "errors: expected positive numbers, got 0.0"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()
