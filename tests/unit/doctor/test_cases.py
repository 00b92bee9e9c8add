"""The plan of cases: only what is claimed, all that is claimed, and the same numbers each time."""

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from attngrad.doctor import Spec, t5
from attngrad.doctor.cases import not_tried, plan
from attngrad.doctor.exchange import FLOATS, IN_BIAS_DTYPE
from attngrad.doctor.judging import oracle
from attngrad.doctor.judging.plain import allowed_pairs
from attngrad.doctor.judging.rounding import rounded
from attngrad.doctor.spec import DTYPES
from attngrad.notation import DtypeError, RangeError
from attngrad.offsets import T5Map

from .specs import ALL, SPECS

PLANS = [(name, quick) for name in SPECS for quick in (False, True)]
ARRAYS = (*FLOATS, *IN_BIAS_DTYPE, "row", "mask", "keep")


@cache
def planned(name, quick=False):
    """Return the plan of a specification."""
    return plan(SPECS[name], quick=quick)


def arrays(case):
    """Return the arrays of a case by name."""
    return {name: getattr(case, name) for name in ARRAYS if getattr(case, name) is not None}


def same(a, b):
    """Say whether two cases hold equal bits."""
    x, y = arrays(a), arrays(b)
    return x.keys() == y.keys() and all(np.array_equal(x[name], y[name]) for name in x)


@pytest.mark.parametrize("name,quick", PLANS)
def test_names_are_unique_and_the_first_case_runs_twice(name, quick):
    cases = planned(name, quick)
    names = [case.name for case in cases]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch("[a-z0-9-]+", name) and case.why for name, case in zip(names, cases, strict=True))
    assert (names[0], cases[0].repeats) == ("basic", 2)
    assert len(cases) <= (14 if quick else 75)


@pytest.mark.parametrize("name,quick", PLANS)
def test_every_value_is_one_that_its_type_holds(name, quick):
    for case in planned(name, quick):
        for key, x in arrays(case).items():
            dtype = case.bias_dtype if key in IN_BIAS_DTYPE else case.dtype
            if x.dtype == np.float64:
                assert np.array_equal(rounded(x, dtype), x), (case.name, key)


@pytest.mark.parametrize("name", SPECS)
def test_nothing_is_tried_that_is_not_claimed(name):
    spec = SPECS[name]
    for case in (*planned(name), *planned(name, True)):
        s = case.sizes
        claims = {
            "cross": s["N"] != s["M"], "values": s["D"] != s["D_v"], "gqa": s["H"] != s["H_kv"],
            "mask": case.mask is not None and case.mask.any(axis=-1).all(), "dropout": case.keep is not None,
            "dlse": case.dlse is not None, "sink": case.sink is not None, "strides": case.strides != "",
            "softcap": case.softcap is not None and case.softcap_on == "scores", "packed": case.lengths != (),
            "softcap-product": case.softcap is not None and case.softcap_on == "product",
            "dscale": "dscale" in case.wants, "empty-rows": not allowed_pairs(case).any(axis=-1).all(),
            "hidden": case.bias is not None and np.isneginf(case.bias).any(),
            "lowest": case.bias is not None and (case.bias < -6e4).any() and not np.isneginf(case.bias).any(),
        }  # fmt: skip
        assert not [option for option, used in claims.items() if used and not spec.has(option)], case.name
        assert case.dtype in spec.dtypes
        assert spec.head_dims is None or {s["D"], s["D_v"]} <= set(spec.head_dims)
        assert s["N"] % spec.length_multiple == s["M"] % spec.length_multiple == 0
        assert all(n % spec.length_multiple == 0 for n in case.lengths)
        assert {"never": not case.causal, "always": case.causal, "both": True}[spec.causal]
        if not spec.has("query-start"):
            assert case.start == (0 if spec.alignment == "top-left" else s["M"] - s["N"])


@pytest.mark.parametrize("name,quick", PLANS)
def test_every_claim_acts_on_some_case(name, quick):
    spec = SPECS[name]
    cases = planned(name, quick)
    acted = {option for case in cases for option in case.exercises}
    acted |= {"cross"} if any(case.sizes["N"] != case.sizes["M"] for case in cases) else set()
    acted |= {"values"} if any(case.sizes["D"] != case.sizes["D_v"] for case in cases) else set()
    acted |= {"strides"} if any(case.strides for case in cases) else set()
    shared = [case for case in cases if case.table is not None and case.table.shape[0] == 1 < case.sizes["H"]]
    acted |= {"shared-table"} if shared else set()
    acted |= {"dscale"} if any("dscale" in case.wants for case in cases) else set()
    wanted = set(spec.options) - {"lse"} - (set() if spec.bias else {"hidden", "lowest"})
    wanted -= {"cross", "values", "query-start", "packed"} if name == "tight" else set()
    wanted -= set() if spec.causal != "never" else {"query-start"}
    wanted -= set() if spec.map is not None and spec.R is not None else {"shared-table"}
    wanted |= {"causal"} if spec.causal != "never" else set()
    wanted |= {"table"} if spec.map is not None else {"bias"} if spec.bias else set()
    wanted |= {"bias-inside-scale"} if spec.bias_inside_scale else set()
    assert not wanted - acted


def check_that_options_act(cases):
    """Require that every option of each case acts, and every answer can be judged; saturation hides some."""
    for case in cases:
        told = oracle.not_exercised(case)
        assert not told or case.name in ("saturated", "outlier"), case.name
        assert all("too small" in line for line in told), case.name


@pytest.mark.parametrize("name", SPECS)
def test_every_option_of_a_case_acts_and_every_answer_can_be_judged(name):
    check_that_options_act(planned(name, True))


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECS)
def test_every_option_acts_in_the_whole_plan(name):
    check_that_options_act(planned(name))


def test_numbers_depend_on_the_seed_and_the_name_alone():
    spec = SPECS["t5"]
    first, again, other = (plan(spec, seed=seed) for seed in (1, 1, 2))
    assert all(same(a, b) for a, b in zip(first, again, strict=True))
    assert not any(same(a, b) for a, b in zip(first, other, strict=True))
    fewer = {case.name: case for case in plan(replace(spec, options=("cross",)), seed=1)}
    shared = [case for case in first if case.name in fewer]
    assert len(shared) > 20
    assert all(same(case, fewer[case.name]) for case in shared if "dscale" not in case.name)


def test_the_first_case_comes_again_under_another_name():
    cases = {case.name: case for case in planned("t5")}
    assert same(cases["basic"], cases["again"])
    assert not same(cases["basic"], cases["repeat"])
    assert (cases["again"].repeats, cases["repeat"].repeats) == (1, 3)


def test_every_declared_bias_has_a_case_of_its_shape():
    shapes = {case.name: case.bias.shape for case in planned("biases")}
    assert shapes["bias-1hnm"] == (1, 5, 21, 133)
    assert shapes["bias-b11m"] == (3, 1, 1, 133)
    assert shapes["bias-nm"] == (21, 133)
    assert {f"bias-{shape}" for shape in SPECS["biases"].bias} <= set(shapes)


def test_blocks_are_met_on_both_sides_unless_lengths_are_multiples():
    lengths = {n for case in planned("plain") for n in (case.sizes["N"], case.sizes["M"])}
    assert {1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129} <= lengths
    names = [case.name for case in planned("blocks") if case.name.startswith(("tail", "one"))]
    assert names == ["tail-64-32"]
    told = " ".join(not_tried(SPECS["blocks"]))
    assert "only multiples of 32; no tails of blocks" in told
    assert "only D of 64, 128" in told


def test_claims_that_sizes_forbid_are_told():
    told = " ".join(not_tried(SPECS["tight"]))
    assert "values: D_v != D; one number of features is all that is claimed" in told
    assert "cross, query-start, packed: N = M = 16, the tokens of the window" in told
    short = Spec(map=t5(32, 128), options=(), length_multiple=300)
    assert not [case for case in plan(short, quick=True) if case.name.startswith("far")]
    far = Spec(map=t5(32, 9000), options=())
    assert "offsets beyond the last bucket" in " ".join(not_tried(far))
    assert "offsets beyond" not in " ".join(not_tried(SPECS["t5"]))


def test_offsets_go_beyond_the_last_bucket_on_both_sides():
    far = [case for case in planned("t5") if case.name.startswith("far")]
    rows = {int(r) for case in far for r in np.unique(case.row)}
    assert {15, 31} <= rows
    assert {case.sizes["N"] > case.sizes["M"] for case in far} == {True, False}


def test_further_types_have_a_smaller_plan_with_long_sums():
    spec = Spec(map=t5(), dtypes=("bfloat16", "float32", "float16"))
    cases = plan(spec)
    by_dtype = {dtype: [case for case in cases if case.dtype == dtype] for dtype in spec.dtypes}
    assert len(by_dtype["float32"]) > 3 * len(by_dtype["bfloat16"])
    assert {"long-bfloat16", "long-float16", "saturated-float16"} <= {case.name for case in cases}
    assert next(case for case in cases if case.name == "long-bfloat16").sizes["N"] == 257
    assert "long" in {case.name for case in plan(replace(spec, dtypes=("bfloat16",)))}


def test_probes_show_the_weights():
    cases = {case.name: case for case in planned("t5")}
    weights, values, causal = (cases[f"probe-{name}"] for name in ("weights", "values", "causal"))
    for case in (weights, values, causal, cases["probe-cap"]):
        s = case.sizes
        assert s["M"] == s["D_v"]
        assert np.array_equal(case.v, np.broadcast_to(np.eye(s["M"]), case.v.shape))
    assert weights.sizes["N"] != weights.sizes["M"]
    assert not causal.q.any()
    assert causal.causal
    exact = oracle.answers(values)
    np.testing.assert_allclose(exact["dv"], np.swapaxes(exact["o"], -1, -2), atol=1e-14)


@pytest.mark.parametrize("name,quick", PLANS)
def test_values_are_square_in_a_case_of_their_own(name, quick):
    case = next(case for case in planned(name, quick) if case.name == "values-square")
    assert case.sizes["D_v"] == case.sizes["M"]
    assert not np.array_equal(case.v[0, 0], np.eye(case.sizes["M"]))


def test_no_values_are_square_where_no_number_of_features_is_a_length():
    spec = replace(SPECS["window"], head_dims=(64,))
    assert not [case for case in plan(spec) if case.name.startswith(("probe-", "values-square"))]
    assert any(line.startswith("probes:") for line in not_tried(spec))


def test_the_quick_plan_has_a_tail_beyond_64_where_lengths_allow_it():
    for name in SPECS:
        tail = next(case for case in planned(name, True) if case.name == "tail").sizes
        if name in ("window", "tight", "short"):  # which allow nothing so long
            continue
        assert min(tail["N"], tail["M"]) > 64
        assert name == "blocks" or (tail["N"] % 16 and tail["M"] % 16)


def test_the_quick_plan_has_an_empty_row_without_a_sink():
    for name, spec in SPECS.items():
        if spec.has("empty-rows"):
            empty = [case for case in planned(name, True) if not allowed_pairs(case).any(axis=-1).all()]
            assert any(case.sink is None for case in empty)
            assert any(case.sink is not None for case in empty) == spec.has("sink")
    few = plan(Spec(options=("sink", "empty-rows")), quick=True)
    assert [case.name for case in few if case.sink is None and case.mask is not None] == ["empty-rows"]


@pytest.mark.parametrize("spec", [*SPECS.values(), Spec(map=t5(8, 20)), Spec(map=t5(8, 20), dtypes=DTYPES)])
def test_the_quick_plan_has_another_table_of_the_same_shape_and_lengths(spec):
    cases = [case for case in plan(spec, quick=True) if "dtable" in case.wants]
    pairs = [(a, b) for a in cases for b in cases if (a.sizes, a.table.shape) == (b.sizes, b.table.shape)]
    assert any((a.table != b.table).any() for a, b in pairs) == bool(cases)


def test_rows_of_the_owner_are_asked_for_every_size_and_may_refuse():
    def rows(N, M, query_start):
        if M > 64:  # as a table of a fixed length does
            raise ValueError("too long")
        return T5Map(8, 20)(N, M, query_start)

    spec = Spec(map=rows, map_rows=8)
    cases = plan(spec)
    assert all(case.sizes["M"] <= 64 for case in cases)
    assert "basic: the map refuses N = 67, M = 131 (too long)" in cases[0].notes["left out"]
    assert cases[0].repeats == 2
    with pytest.raises(RangeError, match="map: expected rows for some sizes, got none; basic"):
        plan(Spec(map=lambda N, M, start: {}[N], map_rows=8))
    given = plan(replace(spec, map=lambda N, M, start: 1 / 0), rows=rows)
    assert [case.name for case in given] == [case.name for case in cases]


@pytest.mark.parametrize(
    "rows,told",
    [
        (lambda N, M, start: np.zeros((M, N), int), r"shape \(67, 131\), got int64 of shape \(131, 67\)"),
        (lambda N, M, start: np.zeros((N, M)), "got float64"),
        (lambda N, M, start: np.full((N, M), 3), "expected rows from 0 to 2, got 3 to 3"),
    ],
)  # fmt: skip
def test_rows_that_are_none_are_refused(rows, told):
    with pytest.raises(RangeError, match=told):
        plan(Spec(map=rows, map_rows=3))


def test_seeds_are_integers():
    with pytest.raises(DtypeError):
        plan(Spec(), seed=0.5)
    with pytest.raises(RangeError):
        plan(Spec(), seed=-1)
    with pytest.raises(DtypeError):
        plan(Spec(), quick=1)


@pytest.mark.parametrize("name", SPECS)
def test_what_is_not_claimed_is_told(name):
    spec = SPECS[name]
    told = not_tried(spec)
    assert all(any(line.startswith(f"{option}:") for line in told) for option in ALL if not spec.has(option))
    assert any("types:" in line for line in told)
    assert any("no bias at all" in line for line in told) == bool(spec.bias or spec.map)


def test_large_windows_have_few_heads():
    cases = plan(replace(SPECS["window"], map=type(SPECS["window"].map)(8, 7, 7)), quick=True)
    assert all(case.q.shape[0] * case.q.shape[1] * case.sizes["N"] ** 2 <= 2_000_000 for case in cases)
