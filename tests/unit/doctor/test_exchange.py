"""Cases and answers as files carry them: nothing is lost, and a wrong shape is told in the owner's axes."""

from dataclasses import fields

import numpy as np
import pytest

from attngrad.doctor import Case, Spec, clip, exchange
from attngrad.notation import RangeError


def numbers(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32).astype(np.float64)


def case(name="one", **more):
    made = {"q": numbers(1, 2, 4, 3, 5), "k": numbers(2, 2, 2, 6, 5), "v": numbers(3, 2, 2, 6, 7),
            "do": numbers(4, 2, 4, 3, 7), "scale": 0.25}  # fmt: skip
    return Case(name, "why", "float32", **{**made, **more})


def full(name="full"):
    return case(
        name, table=numbers(5, 4, 5), row=clip(2)(3, 6), mask=np.arange(6) < 5, keep=numbers(6, 3, 6) > 0,
        dropout=0.5, sink=numbers(7, 4), dlse=numbers(8, 2, 4, 3), causal=True, query_start=2, softcap=3.0,
        softcap_on="product", strides="sliced", repeats=2, wants=("dq", "dtable", "dscale"),
        exercises=("mask",), notes={"block": "32"}, bias_inside_scale=True,
    )  # fmt: skip


LAYOUTS = [Spec(map=clip(2)), Spec(map=clip(2), layout="bnhd", table="rh")]


@pytest.mark.parametrize("spec", LAYOUTS, ids=["bhnd", "bnhd"])
def test_a_file_of_cases_loses_nothing(spec, tmp_path):
    cases = (case(), full(), case("packed", lengths=(1, 2)))
    np.savez(tmp_path / "cases.npz", **exchange.pack(cases, spec, 7))
    with np.load(tmp_path / "cases.npz") as stored:
        read, read_spec, seed = exchange.unpack(stored)
    assert (read_spec, seed) == (spec, 7)
    for one, other in zip(cases, read, strict=True):
        for field in fields(Case):
            x, y = getattr(one, field.name), getattr(other, field.name)
            if isinstance(x, np.ndarray):
                assert x.dtype == y.dtype
                np.testing.assert_array_equal(x, y, err_msg=field.name)
            else:
                assert x == y, field.name


def test_arrays_lie_in_the_axes_of_the_owner():
    arrays = exchange.case_arrays(full(), LAYOUTS[1])
    shapes = {name: x.shape for name, x in arrays.items()}
    assert shapes["q"] == (2, 3, 4, 5)
    assert shapes["v"] == (2, 6, 2, 7)
    assert shapes["do"] == (2, 3, 4, 7)
    assert shapes["table"] == (5, 4)
    assert shapes["dlse"] == (2, 4, 3)
    assert all(x.flags.c_contiguous for x in arrays.values())
    assert arrays["q"].dtype == np.float32
    np.testing.assert_array_equal(arrays["q"][1, 2, 3], full().q[1, 3, 2].astype(np.float32))


@pytest.mark.parametrize("spec", LAYOUTS, ids=["bhnd", "bnhd"])
def test_answers_come_back_to_the_axes_of_the_case(spec):
    one = full()
    raw = {"o": one.do, "dq": one.q, "dtable": one.table, "dscale": np.float32(3.0), "dk": one.k}
    raw = {name: exchange.turned(name, np.asarray(x), spec) for name, x in raw.items()}
    came = exchange.outcome(one, spec, [raw, raw])
    assert (came.status, came.faults, len(came.repeats)) == ("ok", (), 1)
    assert set(came.answers) == {"o", "dq", "dtable", "dscale"}  # dk is not asked for
    np.testing.assert_array_equal(came.answers["o"], one.do)
    np.testing.assert_array_equal(came.answers["dtable"], one.table)
    assert came.answers["dscale"].shape == ()


def test_a_dense_gradient_is_summed_to_the_bias():
    one = case(bias=numbers(5, 1, 4, 1, 6), wants=("dbias",))
    whole = numbers(6, 2, 4, 3, 6)
    came = exchange.outcome(one, Spec(), [{"dbias": whole}]).answers["dbias"]
    np.testing.assert_allclose(came, whole.sum(axis=(0, 2), keepdims=True), rtol=1e-15)
    flat = case(bias=numbers(5, 3, 6), wants=("dbias",))
    came = exchange.outcome(flat, Spec(), [{"dbias": whole}]).answers["dbias"]
    np.testing.assert_allclose(came, whole.sum(axis=(0, 1)), rtol=1e-15)


@pytest.mark.parametrize(
    ("name", "x", "told"),
    [
        ("dq", np.zeros((2, 4, 3, 5)), r"dq has shape (2, 4, 3, 5), expected (2, 3, 4, 5)"),
        ("dtable", np.zeros((4, 5)), "dtable has shape (4, 5), expected (5, 4)"),
        ("dq", np.zeros((2, 3, 4, 5), complex), "dq has type complex128, expected floats"),
        ("dscale", np.zeros(2), "dscale has shape (2,), expected ()"),
        ("o", np.zeros((2, 3, 4)), "o has shape (2, 3, 4), expected (2, 3, 4, 7)"),
    ],
)
def test_a_wrong_shape_is_told_in_the_axes_of_the_owner(name, x, told):
    assert exchange.outcome(full(), LAYOUTS[1], [{name: x}]).faults == (f"shape: {told}",)


def test_a_gradient_of_a_larger_bias_is_not_summed_to_nothing():
    one = case(bias=numbers(5, 2, 4, 3, 6), wants=("dbias",))
    assert exchange.outcome(one, Spec(), [{"dbias": np.zeros((4, 3, 6))}]).answers == {}


@pytest.mark.parametrize(
    "stored", [{}, {"manifest": np.array("{")}, {"manifest": np.array("3")}, {"manifest": np.array("{}")}]
)
def test_another_file_is_refused(stored):
    with pytest.raises(RangeError, match="cases: expected a file that `attention-doctor cases` wrote"):
        exchange.unpack(stored)


def test_another_format_is_refused():
    with pytest.raises(RangeError, match="cases: expected format 1, got 2"):
        exchange.unpack({"manifest": np.array('{"format": 2}')})


def test_an_answer_that_nobody_asked_for_has_no_shape():
    with pytest.raises(RangeError, match="dbias: expected no such answer of case one"):
        exchange.expected_shape(case(), "dbias")
