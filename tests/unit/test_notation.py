"""Errors name what was expected and what came; annotations use declared axis letters."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import jaxtyping
import numpy as np
import pytest

import attngrad
from attngrad import notation
from attngrad.notation import DtypeError, RangeError, ShapeError

PACKAGE = Path(attngrad.__file__).parent


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ([1.0], DtypeError, "x: expected a NumPy array of floats, got list"),
        (1.0, DtypeError, "x: expected a NumPy array of floats, got float"),
        (np.array([1, 2]), DtypeError, "x: expected an array of floats, got int64"),
        (np.array([True]), DtypeError, "x: expected an array of floats, got bool"),
        (np.array([1j]), DtypeError, "x: expected an array of floats, got complex128"),
        pytest.param(
            np.array([1.0], dtype=np.longdouble),
            DtypeError,
            "x: expected an array of floats, got",
            marks=pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="longdouble is float64"),
        ),
        (np.array(1.0), ShapeError, r"x: expected at least 1 axes, got shape \(\)"),
    ],
)
def test_what_is_no_float_array_is_named(value, error, message):
    with pytest.raises(error, match=message):
        notation.float_array("x", value)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_floats_of_any_width_become_float64(dtype):
    x = notation.float_array("x", np.array([0.1], dtype=dtype))
    assert x.dtype == np.float64
    assert x[0] == float(dtype(0.1))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_position_of_what_is_not_finite_is_named(bad):
    x = np.zeros((2, 3))
    x[1, 2] = bad
    with pytest.raises(RangeError, match=rf"dp: expected finite values, got {bad} at index \(1, 2\)"):
        notation.finite_array("dp", x)


@pytest.mark.parametrize("shape", [(3,), (1, 3), (2, 1), (1,), (), (2, 3)])
def test_masks_broadcast_to_the_logits(shape):
    assert notation.mask_array("mask", np.ones(shape, dtype=bool), (2, 3)).shape == (2, 3)


@pytest.mark.parametrize("shape", [(2,), (3, 3), (4, 2, 3), (1, 2, 3), (0,)])
def test_masks_may_not_enlarge_or_miss_the_logits(shape):
    with pytest.raises(ShapeError, match=r"mask: expected a shape that broadcasts to \(2, 3\), got \("):
        notation.mask_array("mask", np.ones(shape, dtype=bool), (2, 3))


@pytest.mark.parametrize("mask", [np.ones(3), np.ones(3, dtype=int)])
def test_masks_are_boolean(mask):
    with pytest.raises(DtypeError, match=r"mask: expected booleans .* got (float|int)64"):
        notation.mask_array("mask", mask, (3,))


@pytest.mark.parametrize("mask", [[True, False, True], True, np.ma.array([True] * 3)])
def test_masks_are_plain_arrays(mask):
    told = f"mask: expected a NumPy array of booleans .* got {type(mask).__name__}"
    with pytest.raises(DtypeError, match=told):
        notation.mask_array("mask", mask, (3,))


def test_a_masked_array_does_not_lose_its_mask():
    with pytest.raises(DtypeError, match="x: expected a NumPy array of floats, got MaskedArray"):
        notation.float_array("x", np.ma.array([1.0, 2.0], mask=[False, True]))


def test_shapes_are_compared_without_broadcasting():
    notation.check_same_shape("dp", (2, 3), "p", (2, 3))
    with pytest.raises(ShapeError, match=r"dp: expected shape \(2, 3\) as for p, got \(1, 3\)"):
        notation.check_same_shape("dp", (1, 3), "p", (2, 3))


@pytest.mark.parametrize("value", [True, np.True_, 2.0, "2", None, np.array([1, 2]), np.array(2.0)])
def test_integers_are_integers(value):
    with pytest.raises(DtypeError, match="N: expected an integer, got"):
        notation.integer("N", value)


def test_integers_have_a_least_value():
    assert notation.integer("N", np.int32(3), least=3) == 3
    with pytest.raises(RangeError, match="N: expected an integer of at least 3, got 2"):
        notation.integer("N", 2, least=3)


@pytest.mark.parametrize("value", [0.0, -1.0, np.inf, np.nan, 10**400, np.array(0.0), np.array(np.nan)])
def test_positive_numbers_are_positive_and_finite(value):
    with pytest.raises(RangeError, match="tau: expected a positive finite number, got"):
        notation.positive_number("tau", value)


@pytest.mark.parametrize("value", [np.array(0.5), np.float32(0.5), np.array(0.5, dtype=np.float16), 0.5])
def test_a_number_may_be_an_array_without_axes(value):
    assert notation.positive_number("tau", value) == 0.5
    assert notation.finite_number("ttau", -value) == -0.5
    assert type(notation.positive_number("tau", value)) is float


@pytest.mark.parametrize("value", [True, "1", None, np.ones(2), np.ones(1), 1j, np.array(True), np.array(1j)])
def test_positive_numbers_are_numbers(value):
    with pytest.raises(DtypeError, match="tau: expected a number, got"):
        notation.positive_number("tau", value)


def undeclared_axes(source: str) -> set[str]:
    """Return the axis letters in shape annotations that the notation does not declare."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) and node.slice.elts:
            name = getattr(node.value, "id", "")
            shape = node.slice.elts[-1]
            if name in ("Float", "Bool", "Int") and isinstance(shape, ast.Constant):
                found |= {axis.lstrip("*") for axis in shape.value.split()} - {"..."}
    return {axis for axis in found if not re.fullmatch(r"\d+", axis)} - set(notation.AXES)


CORE = sorted(path for path in PACKAGE.rglob("*.py") if "proofs" not in path.relative_to(PACKAGE).parts)


def test_an_undeclared_axis_letter_is_found():
    assert undeclared_axes('def f(x: Float[np.ndarray, "*rows q"]): ...') == {"q"}


@pytest.mark.parametrize("path", CORE, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_annotations_use_declared_axis_letters(path):
    assert undeclared_axes(path.read_text()) == set()


def test_every_declared_axis_letter_is_used():
    text = "\n".join(path.read_text() for path in CORE if path.name != "notation.py")
    for axis in notation.AXES:
        assert re.search(rf'(Float|Bool|Int)\[[^\]]*"[^"\]]*\b{axis}\b', text), axis


def test_annotations_are_checked_in_these_tests():
    """Without this, every signature could be wrong and no test would tell."""
    from attngrad import reference

    with pytest.raises(jaxtyping.TypeCheckError):
        reference.softmax_vjp(np.zeros(3), np.zeros(2))


def test_without_a_checker_annotations_are_array_types():
    code = (
        "import numpy as np, sys; from attngrad.notation import Float, Int; "
        "assert 'jaxtyping' not in sys.modules; "
        "assert Float[np.ndarray, 'N M'] is np.ndarray and Int[float, ''] is float"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
