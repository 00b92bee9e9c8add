"""What the figures of index calculus show, asserted on the data that they return."""

import matplotlib
import numpy as np
import pytest

from attngrad import plots
from attngrad.checks import check_close
from attngrad.notation import DtypeError, RangeError, ShapeError

matplotlib.use("Agg")
RNG = np.random.default_rng(6)
W, X = RNG.normal(size=(3, 4)), RNG.normal(size=(4, 2))
S, T = np.log([1.0, 2.0, 4.0]), np.array([1.0, 0.0, 0.0])
ROUNDOFF = 2.0**-53


@pytest.fixture(scope="module")
def errors():
    return plots.step_errors(S, T)


def slope(errors, name: str, low: float, high: float) -> float:
    """Return the power of the step with which an error grows between two steps."""
    step = errors["step"]
    part = (step > low) & (step < high)
    return np.polyfit(np.log(step[part]), np.log(np.maximum(errors[name][part], ROUNDOFF)), 1)[0]


def test_an_entry_of_a_factor_moves_a_row_or_a_column_of_the_product():
    figure, moved = plots.product_influence(W, X, of_w=(2, 1), of_x=(3, 0))
    by_w, by_x = np.zeros((3, 2)), np.zeros((3, 2))
    by_w[2], by_x[:, 0] = X[1], W[:, 3]
    check_close("by W", moved["by_w"], by_w)
    check_close("by X", moved["by_x"], by_x)
    images = [axes.images[0].get_array() for axes in figure.axes]
    assert all(np.array_equal(got, want) for got, want in zip(images, moved.values(), strict=True))
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["derivative of $Y$ by $W_{32}$", "derivative of $Y$ by $X_{41}$"]
    figure.canvas.draw()


def test_the_error_of_a_difference_falls_with_the_power_of_its_order_and_grows_by_rounding(errors):
    _, data = errors
    assert abs(slope(data, "central", 1e-4, 1e-1) - 2.0) < 0.02
    assert abs(slope(data, "forward", 1e-5, 1e-1) - 1.0) < 0.02
    assert abs(slope(data, "forward", 1e-4, 1e-1) - 2.0) > 0.9
    assert abs(slope(data, "central", 1e-13, 1e-7) + 1.0) < 0.2
    assert abs(slope(data, "forward", 1e-13, 1e-9) + 1.0) < 0.2


def test_the_errors_of_differences_are_those_of_taylor_where_the_step_is_large(errors):
    """With p = 1/7 the second derivative is p (1 - p) = 6/49 and the third p (1 - p)(1 - 2 p) = 30/343."""
    _, data = errors
    step = data["step"]
    part = (step > 1e-3) & (step < 1e-2)
    np.testing.assert_allclose(data["central"][part] / step[part] ** 2, 30 / 343 / 6 * 7, rtol=1e-3)
    np.testing.assert_allclose(data["complex"][part] / step[part] ** 2, 30 / 343 / 6 * 7, rtol=1e-3)
    np.testing.assert_allclose(data["forward"][part] / step[part], 6 / 49 / 2 * 7, rtol=1e-2)


def test_the_best_steps_are_near_the_roots_of_the_unit_roundoff(errors):
    """The middle error of each decade of steps: one lucky rounding is no measure."""
    _, data = errors
    decade = np.floor(np.log10(data["step"]) + 1e-9)
    for name, power, least in (("central", 1 / 3, 2 / 3), ("forward", 1 / 2, 1 / 2)):
        middle = {k: np.median(data[name][decade == k]) for k in np.unique(decade)}
        best = min(middle, key=middle.get)
        assert abs(best + 0.5 - np.log10(ROUNDOFF) * power) < 1.5
        assert abs(np.log10(middle[best]) - np.log10(ROUNDOFF) * least) < 1.5


def test_complex_step_and_dual_numbers_are_exact_but_for_rounding(errors):
    figure, data = errors
    assert data["complex"][data["step"] < 1e-8].max() < 8 * ROUNDOFF
    assert data["dual"] < 8 * ROUNDOFF
    lines = figure.axes[0].get_lines()
    assert [line.get_label() for line in lines] == [
        "forward difference", "central difference", "complex step", "dual numbers, no step"
    ]  # fmt: skip
    assert np.array_equal(lines[1].get_ydata(), np.maximum(data["central"], ROUNDOFF))
    assert len(set(lines[3].get_ydata())) == 1
    figure.canvas.draw()


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (
            lambda: plots.product_influence(W, X[:3], (0, 0), (0, 0)),
            ShapeError,
            r"x: expected shape \(4, 2\)",
        ),
        (
            lambda: plots.product_influence(W[None], X, (0, 0), (0, 0)),
            ShapeError,
            r"w: expected shape \(3, 4\)",
        ),
        (lambda: plots.product_influence(W, X, (3, 0), (0, 0)), RangeError, r"of_w: expected an entry of a"),
        (lambda: plots.product_influence(W, X, (0, 0), (0, -1)), RangeError, r"of_x: expected an entry of a"),
        (lambda: plots.product_influence(W, X, (0, 0), (0, 1.0)), DtypeError, "of_x: expected an integer"),
        (lambda: plots.step_errors(S, T[:2]), ShapeError, r"t: expected shape \(3,\) as for s, got \(2,\)"),
        (lambda: plots.step_errors(W, W), ShapeError, r"s: expected shape \(4,\) as for one row"),
        (lambda: plots.step_errors(S, 0 * T), RangeError, "t: expected a direction along which"),
        (
            lambda: plots.step_errors(S, T, np.array([0.0])),
            RangeError,
            "h: expected a positive finite number",
        ),
    ],
)
def test_bad_input_is_named(raw_errors, call, error, told):
    with pytest.raises(error, match=told):
        call()
