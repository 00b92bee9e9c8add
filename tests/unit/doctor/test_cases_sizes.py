"""Sizes keep factors apart, and where they cannot, both names are told."""

from dataclasses import replace

import pytest

from attngrad.doctor import Spec, alibi
from attngrad.doctor.cases import plan
from attngrad.doctor.cases.sizes import confused, factors, names_in_all, names_of, of_scores, products

from .specs import SPECS


def first(spec):
    """Return the first case of a plan."""
    return plan(spec, quick=True)[0]


def case_of(spec, name):
    """Return a case of a plan by its name."""
    return next(case for case in plan(spec) if case.name == name)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_the_first_case_keeps_all_factors_apart(dtype):
    case = plan(Spec(dtypes=(dtype,)))[0]
    assert (case.q.shape, case.k.shape[2]) == ((3, 5, 67, 64), 131)
    assert not confused(case)


@pytest.mark.parametrize("name", ["basic", "more-keys", "dropout", "gqa"])
def test_products_of_two_factors_are_apart_in_full_precision(name):
    pairs = confused(case_of(SPECS["t5"], name), with_products=True)
    # A group of 3 among 6 heads over 2: the two numbers of heads tell no more than their quotient.
    heads = {"H", "1/H", "2", "1/2", "H/H_kv", "H_kv/H", "H_kv", "1/H_kv"}
    assert all(name == "gqa" and a in heads for a, _ in pairs)


def test_both_names_are_told_where_sizes_coincide():
    case = plan(Spec(map=alibi(8), head_dims=(64,), causal="always"))[0]
    assert ("sqrt(D)", "H") in confused(case)
    assert set(names_of(0.125, case)) == {"1/sqrt(D)", "1/H"}
    default = plan(Spec(scale="default"))[0]
    assert ("scale", "1/sqrt(D)") in confused(default)


def test_names_of_factors():
    case = case_of(SPECS["t5"], "dropout")
    assert names_of(1.0, case) == ()
    assert names_of(case.scale, case) == ("scale",)
    assert names_of(-1.0, case) == ("-1",)
    assert names_of(1 / 0.85, case) == ("1/(1 - dropout)",)
    assert names_of(0.6931, case) == ("ln 2",)
    assert names_of(2 * 0.693147, case) == ("2 ln 2",)
    assert names_of(1.37, case) == ()
    assert names_of(0.0, case) == ()


def test_a_product_is_none_of_the_factors_that_it_is_made_of():
    names = products(first(Spec()))
    assert "B H" in names
    assert not {"D 1/sqrt(D)", "scale scale^2", "2 1/2", "-1 1/-1"} & set(names)
    assert "1" not in factors(first(Spec()))


def test_a_scale_of_one_is_no_factor():
    assert "scale" not in factors(first(Spec(scale=1.0)))
    assert "scale" in factors(first(Spec()))
    assert confused(replace(first(Spec()), scale=2.0))


def test_products_are_written_as_one_reads_them():
    names = products(case_of(SPECS["t5"], "gqa")) | products(case_of(SPECS["t5"], "dropout"))
    assert {"2 ln 2", "scale/ln 2", "1/(B H)", "-scale", "sqrt(M)", "4", "1/(B (1 - dropout))"} <= set(names)
    assert {"H_kv", "1/H_kv", "D (H/H_kv)"} <= set(names)
    assert not {"H_kv/H", "H (H/H_kv)", "D/sqrt(D)", "(1 - dropout)/(1 - dropout)"} & set(names)


def test_a_name_holds_in_every_case():
    one, other = case_of(SPECS["t5"], "basic"), case_of(SPECS["t5"], "more-keys")
    sizes = [one.sizes["M"], other.sizes["M"]]
    assert names_in_all([(one, sizes[0], 1e-3), (other, sizes[1], 1e-3)]) == ("M",)
    assert names_in_all([(one, sizes[0], 1e-3), (other, sizes[0], 1e-3)]) == ()
    assert names_in_all([(one, 1.0, 1e-3), (other, 1.0, 1e-3)]) == ()
    assert names_in_all([(one, -one.scale, 1e-3)]) == ("-scale",)


def test_a_coefficient_of_scores_is_made_of_few_quantities():
    names = of_scores(first(Spec()))
    assert {"scale", "1/scale", "scale^2", "1/sqrt(D)", "scale/sqrt(D)", "2 scale", "-1"} <= set(names)
    assert not {"B", "H", "1/N", "M"} & set(names)
