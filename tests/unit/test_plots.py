"""What the figures show, asserted on the data that they return."""

import matplotlib
import numpy as np
import pytest

from attngrad import plots
from attngrad.checks import check_close
from attngrad.notation import DtypeError, RangeError, ShapeError
from attngrad.reference import softmax, softmax_jacobian

matplotlib.use("Agg")


def test_the_heatmap_shows_the_jacobian():
    p = np.array([0.1, 0.2, 0.3, 0.4])
    figure, jacobian = plots.jacobian_heatmap(p)
    check_close("J", jacobian, softmax_jacobian(p))
    (image,) = figure.axes[0].images
    assert np.array_equal(image.get_array(), jacobian)
    assert [text.get_text() for text in figure.axes[0].texts[:2]] == ["0.090", "-0.020"]
    figure.canvas.draw()


def test_the_norm_attains_one_half_exactly_at_the_midpoints_of_the_edges():
    figure, data = plots.norm_over_simplex()
    p, norm = data["p"], data["norm"]
    check_close("simplex", p.sum(axis=-1), np.ones(len(p)))
    assert norm.max() <= 0.5 + 1e-15
    at = {tuple(row) for row in p[norm > 0.5 - 1e-12]}
    assert at == {(0.5, 0.5, 0.0), (0.5, 0.0, 0.5), (0.0, 0.5, 0.5)}
    corner = (p == 1.0).any(axis=-1)
    assert corner.sum() == 3
    assert (norm[corner] == 0.0).all()
    check_close("centre", norm[(p == 1 / 3).all(axis=-1)], np.array([1 / 3]))
    figure.canvas.draw()


def test_the_norm_goes_from_flat_to_nothing_as_the_scale_grows():
    figure, data = plots.norm_against_scale()
    assert data["flat"] == 1 / 6
    assert abs(data["norm"][0] - data["flat"]) < 0.01
    assert data["norm"][-1] < 1e-12
    assert data["flat"] < data["norm"].max() < 0.5
    figure.canvas.draw()


def test_two_equal_largest_logits_keep_the_norm_at_one_half():
    _, data = plots.norm_against_scale(np.array([1.0, 1.0, 0.0]), np.array([1.0, 100.0]))
    check_close("norm", data["norm"][-1], 0.5)


def test_the_norm_is_the_largest_singular_value():
    p = softmax(np.random.default_rng(0).standard_normal((4, 5)))
    check_close("norm", plots.spectral_norm(p), np.linalg.norm(softmax_jacobian(p), 2, axis=(-2, -1)))


def test_the_style_ends_with_the_figure():
    before = dict(matplotlib.rcParams)
    plots.norm_against_scale()
    assert dict(matplotlib.rcParams) == before


@pytest.mark.usefixtures("raw_errors")
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: plots.jacobian_heatmap(np.ones((2, 2))), ShapeError, r"p: expected shape \(2,\) as for one"),
        (lambda: plots.norm_over_simplex(1), RangeError, "steps: expected an integer of at least 2, got 1"),
        (lambda: plots.norm_over_simplex(2.0), DtypeError, "steps: expected an integer, got float"),
        (lambda: plots.norm_against_scale(np.zeros((2, 3))), ShapeError, r"s: expected shape \(3,\) as for"),
        (lambda: plots.norm_against_scale(scales=np.ones((2, 3))), ShapeError, r"scales: expected shape"),
        (lambda: plots.norm_against_scale(scales=np.zeros(1)), RangeError, "scales: expected positive"),
        (lambda: plots.spectral_norm(np.zeros((2, 0))), RangeError, "p: expected at least one key"),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


RNG = np.random.default_rng(5)
SCORES, VALUES = RNG.normal(size=(3, 4)), RNG.normal(size=(4, 2))


def test_one_bias_moves_its_own_row_of_weights_and_its_own_output():
    p, step = softmax(SCORES), 1e-6
    figure, moved = plots.bias_influence(p, VALUES, query=1, key=2)
    bump = np.zeros((3, 4))
    bump[1, 2] = step
    change = (softmax(SCORES + bump) - softmax(SCORES - bump)) / (2 * step)
    check_close("weights", moved["weights"], change, "difference")
    check_close("output", moved["output"], change @ VALUES, "difference")
    check_close("towards the value", moved["output"][1], p[1, 2] * (VALUES[2] - p[1] @ VALUES))
    assert np.abs(moved["output"][1]).min() > 1e-3
    assert not moved["weights"][[0, 2]].any()
    (image,) = figure.axes[0].images
    assert np.array_equal(image.get_array(), moved["weights"])
    figure.canvas.draw()


def test_the_gap_is_what_the_other_keys_would_have_added():
    p, dp = softmax(SCORES), RNG.normal(size=(3, 4))
    figure, shown = plots.bias_gap(p, dp)
    check_close("rows", shown["truth"].sum(axis=1), np.zeros(3), terms=np.abs(p * dp).sum(axis=1))
    others = (p * dp).sum(axis=1, keepdims=True) - p * dp
    check_close("gap", shown["gap"], p * others, terms=np.abs(p * dp).sum())
    assert np.abs(shown["gap"]).max() > 0.05
    images = [axes.images[0].get_array() for axes in figure.axes]
    assert all(np.array_equal(got, want) for got, want in zip(images, shown.values(), strict=True))
    figure.canvas.draw()


@pytest.mark.parametrize(
    ("arguments", "error", "told"),
    [
        ((SCORES[0], VALUES, 0, 0), ShapeError, "p: expected at least 2 axes"),
        ((softmax(SCORES), VALUES[:3], 0, 0), ShapeError, r"v: expected shape \(4, 2\) .* got \(3, 2\)"),
        ((softmax(SCORES), VALUES[:, :1], 0, 0), ShapeError, r"v: expected shape \(4, 2\) .* got \(4, 1\)"),
        ((softmax(SCORES), VALUES, 3, 0), RangeError, "query: expected 0 to 2, got 3"),
        ((softmax(SCORES), VALUES, 0, -1), RangeError, "key: expected 0 to 3, got -1"),
        ((softmax(SCORES), VALUES, 0.0, 0), DtypeError, "query: expected an integer"),
    ],
)
def test_bad_input_of_the_influence_is_named(raw_errors, arguments, error, told):
    with pytest.raises(error, match=told):
        plots.bias_influence(*arguments)


def test_bad_input_of_the_gap_is_named(raw_errors):
    with pytest.raises(ShapeError, match=r"p: expected shape \(3, 4\) as for one matrix, got \(1, 3, 4\)"):
        plots.bias_gap(softmax(SCORES)[None], SCORES[None])
    with pytest.raises(ShapeError, match="dp: expected shape"):
        plots.bias_gap(softmax(SCORES), SCORES[:2])
