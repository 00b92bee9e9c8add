"""The oracle beside autograd in float64, and options that do not act."""

from dataclasses import replace

import numpy as np
import pytest

from attngrad.doctor import Case
from attngrad.doctor.cases import plan
from attngrad.doctor.judging import bounds, oracle
from attngrad.doctor.judging.oracle import WITHOUT, not_exercised

from . import healthy_runs
from .specs import SPECS


@pytest.mark.parametrize("name", ["t5", "biases", "alibi", "inside", "window", "one-way"])
def test_answers_are_those_of_autograd(name):
    for case in plan(replace(SPECS[name], dtypes=("float64",), bias_dtype="float64"), seed=3):
        exact, other = oracle.answers(case), healthy_runs.autograd(case, "float64")
        bound = bounds.healthy(case, exact)
        for key, want in exact.items():
            seen = np.isfinite(want)
            assert np.array_equal(other[key][~seen], want[~seen])
            off = np.abs(np.where(seen, other[key], 0.0) - np.where(seen, want, 0.0))
            assert np.all(off <= 1e-3 * bound[key]), (case.name, key)


def test_answers_are_what_a_case_wants_and_are_computed_once():
    case = next(case for case in plan(SPECS["t5"]) if case.name == "bias-alone")
    assert set(oracle.answers(case)) == {"o", "lse", "dtable"}
    assert oracle.answers(case) is oracle.answers(case)


def test_a_shared_table_sums_over_heads():
    case = next(case for case in plan(SPECS["t5"]) if case.name == "shared-table")
    apart = replace(case, table=np.repeat(case.table, case.sizes["H"], axis=0))
    one, each = (oracle.answers(x)["dtable"] for x in (case, apart))
    np.testing.assert_allclose(one[0], each.sum(axis=0), atol=1e-12)


def idle() -> dict[str, Case]:
    """Return for each option a case that claims to exercise it and does not."""
    cases = {case.name: case for name in ("t5", "biases") for case in plan(replace(SPECS[name], scale=1.0))}
    basic, s = cases["basic"], cases["basic"].sizes
    pairs = (s["B"], s["H"], s["N"], s["M"])
    table = next(case for case in plan(SPECS["t5"]) if case.name == "basic")
    found = {
        "mask": replace(basic, mask=np.ones(pairs, dtype=bool)),
        "padding": replace(basic, mask=np.ones((s["B"], 1, 1, s["M"]), dtype=bool)),
        "empty-rows": replace(basic, mask=np.ones(pairs, dtype=bool)),
        "hidden": basic,
        "lowest": basic,
        "packed": replace(cases["packed"], lengths=(cases["packed"].sizes["N"],)),
        "dropout": replace(basic, keep=np.ones(pairs, dtype=bool)),
        "dlse": replace(basic, dlse=np.zeros(pairs[:3])),
        "softcap": replace(basic, softcap=1e9),
        "softcap-product": replace(basic, softcap=1e9, softcap_on="product"),
        "sink": replace(basic, sink=np.full(s["H"], -60.0)),
        "causal": replace(cases["one-query"], causal=True),
        "query-start": replace(cases["causal-more-keys"], query_start=None),
        "table": replace(table, table=np.ones_like(table.table)),
        "bias": replace(basic, bias=np.ones((1, 1, 1, 1))),
        "gqa": replace(basic, k=basic.k[:, :1], v=basic.v[:, :1], wants=("dq",)),
        "bias-inside-scale": replace(basic, scale=1.0, wants=("dq", "dk")),
    }
    return {option: replace(case, exercises=(option,)) for option, case in found.items()}


IDLE = idle()


def test_every_option_has_a_case_here():
    assert set(IDLE) == set(WITHOUT)


@pytest.mark.parametrize("option", WITHOUT)
def test_an_option_that_does_not_act_is_told(option):
    assert option in not_exercised(IDLE[option])


def test_an_answer_too_small_to_judge_is_told():
    case = next(case for case in plan(SPECS["one-way"], quick=True))
    assert not_exercised(case) == ()
    # A table whose values all pairs share equally often: each row of dtable is a sum that cancels.
    flat = replace(case, row=np.zeros_like(case.row), exercises=())
    assert not_exercised(flat) == ("dtable: too small to judge",)


def test_an_unknown_option_is_refused():
    with pytest.raises(KeyError):
        not_exercised(replace(IDLE["mask"], exercises=("masc",)))
