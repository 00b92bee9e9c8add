"""Bounds: healthy runs keep them, wrong ones do not, and low precision is told from a wrong formula."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from attngrad.doctor import Outcome, Spec, t5
from attngrad.doctor.cases import plan
from attngrad.doctor.judging import band, bounds, oracle, plain
from attngrad.doctor.judging.verdicts import judge

from . import healthy_runs
from .specs import ALL, SPECS

DTYPES = ("float64", "float32", "float16", "bfloat16")
NAMES = ("t5", "biases", "alibi", "inside")
LONG = Spec(map=t5(), dtypes=("float32", "bfloat16", "float16"), options=ALL)


def found(case, answers, spec):
    """Return what is wrong with some answers, as (kind, what)."""
    return [(f.kind, f.what) for f in judge(case, Outcome("ok", answers=answers), spec)]


def case_of(spec, name, seed=0):
    """Return a case of a plan by its name."""
    return next(case for case in plan(spec, seed=seed) if case.name == name)


def check_healthy(name, dtype, seed, quick=True):
    """Require that nothing is found in healthy runs of a plan."""
    spec = replace(SPECS[name], dtypes=(dtype,))
    for case in plan(spec, seed=seed, quick=quick):
        for who, answers in healthy_runs.runs(case).items():
            assert found(case, answers, spec) == [], (case.name, who, seed)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_healthy_runs_are_healthy(name, dtype):
    check_healthy(name, dtype, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_healthy_runs_are_healthy_for_many_seeds(name, dtype):
    for seed in range(1, 50):
        check_healthy(name, dtype, seed)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
def test_healthy_runs_are_healthy_on_the_whole_plan(name, dtype):
    check_healthy(name, dtype, seed=0, quick=False)


@pytest.mark.parametrize("dtype", DTYPES)
def test_zero_in_the_place_of_an_answer_fails(dtype):
    spec = replace(SPECS["t5"], dtypes=(dtype,))
    for case in plan(spec, quick=True):
        exact, idle = oracle.answers(case), oracle.not_exercised(case)
        judged = [name for name in exact if f"{name}: too small to judge" not in idle and exact[name].any()]
        assert {"o", "dq", "dv"} <= set(judged)
        for name in judged:
            assert ("wrong", name) in found(case, {**exact, name: np.zeros_like(exact[name])}, spec)


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_row_of_zeros_fails_even_where_it_is_small(dtype):
    case = case_of(Spec(dtypes=(dtype,)), "basic")
    exact = oracle.answers(case)
    for name, rows in (("o", exact["o"]), ("dq", exact["dq"]), ("dk", exact["dk"]), ("dv", exact["dv"])):
        size = np.abs(rows).max(axis=-1)
        at = np.unravel_index(int(np.argsort(size, axis=None)[size.size // 10]), size.shape)
        wrong = rows.copy()
        wrong[at] = 0.0
        assert ("wrong", name) in found(case, {**exact, name: wrong}, Spec(dtypes=(dtype,))), name


def test_bounds_fit_their_answers_and_are_positive():
    for case in plan(SPECS["biases"], quick=True):
        exact = oracle.answers(case)
        bound = bounds.healthy(case, exact)
        assert bound.keys() == exact.keys()
        for name, x in bound.items():
            assert np.broadcast_shapes(x.shape, exact[name].shape) == exact[name].shape
            assert np.isfinite(x).all(), (case.name, name)
            assert (x > 0.0).all(), (case.name, name)


@pytest.mark.parametrize("level", ["float32", "tf32"])
def test_a_shorter_type_inside_is_imprecise_and_named(level):
    dtype = "float64" if level == "float32" else "float32"
    spec = Spec(dtypes=(dtype,), map=t5())
    case = case_of(spec, "basic")
    how = plain.Arithmetic("float32", factors=None if level == "float32" else "tf32")
    findings = judge(case, Outcome("ok", answers=plain.run(case, how)), spec)
    assert {f.kind for f in findings} == {"imprecise"}
    assert {"dq", "dk", "dv", "o", "dtable"} <= {f.what for f in findings}
    told = "float32" if level == "float32" else "TF32 or float16"
    assert all(f"as if computed in {told}" in f.text for f in findings)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_stock_table_added_up_in_its_type_is_imprecise(dtype, seed, monkeypatch):
    monkeypatch.setattr(healthy_runs, "dense", lambda case, x: x["table"][:, torch.tensor(case.row)])
    case = case_of(LONG, f"long-{dtype}", seed)
    findings = judge(case, Outcome("ok", answers=healthy_runs.autograd(case, dtype)), LONG)
    assert [(f.kind, f.what) for f in findings] == [("imprecise", "dtable")]
    assert f"the formula is right, the table is summed up in {dtype}" in findings[0].text


def test_sums_over_queries_and_keys_in_bfloat16_are_imprecise():
    case = case_of(LONG, "long-bfloat16")
    answers = plain.run(case, plain.Arithmetic("bfloat16", sums="kept"))
    assert {f.kind for f in judge(case, Outcome("ok", answers=answers), LONG)} == {"imprecise"}


def test_weights_taken_from_lse_are_wrong_for_a_row_of_lowest_numbers():
    """lse = lowest + log M is lowest again in floats, so every weight comes out as 1, not 1 / M."""
    spec = replace(SPECS["biases"], dtypes=("float32",))
    case = case_of(spec, "lowest-row")
    findings = judge(case, Outcome("ok", answers=healthy_runs.fused(case)), spec)
    wrong = {f.what: f.text for f in findings if f.kind == "wrong"}
    assert {"o", "dq", "dk", "dv", "dbias"} <= set(wrong)
    assert wrong["o"].endswith("i = 10 only")
    assert found(case_of(spec, "lowest"), healthy_runs.fused(case_of(spec, "lowest")), spec) == []


@pytest.mark.parametrize("reverse", [False, True])
def test_sums_in_float32_are_healthy_in_any_order_even_where_terms_have_one_sign(reverse):
    for name in ("long-bfloat16", "basic", "dlse"):
        case = replace(case_of(LONG, name), dtype="float32", bias_dtype="float32")
        answers = plain.run(case, plain.Arithmetic("float32", sums="kept", reverse=reverse))
        assert found(case, answers, LONG) == []


def planted(case, exact):
    """Yield wrong answers: factors, tails, heads, rows of a table."""
    s, dk, dv, dtable = case.sizes, exact["dk"].copy(), exact["dv"].copy(), exact["dtable"]
    dk[:, :, -(s["M"] % 16 or 16) :] = 0.0
    dv[:] = dv[:, -1:]
    last = dtable.copy()
    last[-1] = 0.0
    yield "dq", {"dq": exact["dq"] / np.sqrt(s["D"])}
    yield "dq", {"dq": 1.2 * exact["dq"]}
    yield "dq", {"dq": np.zeros_like(exact["dq"])}
    yield "dk", {"dk": dk}
    yield "dv", {"dv": dv}
    scaled = (0.0 * dtable, dtable / 3.0, np.log(2.0) * dtable)
    for wrong in (*scaled, last, np.roll(dtable, 1, -1), dtable[:, ::-1]):
        yield "dtable", {"dtable": wrong}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_a_wrong_formula_is_never_called_imprecise(dtype):
    spec = replace(LONG, dtypes=(dtype,))
    for case in plan(spec):
        if case.name not in ("basic", "tail-63-65", "long", "saturated", "shared-table"):
            continue
        exact = healthy_runs.fused(case)
        for name, wrong in planted(case, exact):
            assert ("wrong", name) in found(case, {**exact, **wrong}, spec), (case.name, name)


@pytest.mark.parametrize("bias_dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_wrong_table_beside_a_longer_q_is_never_called_imprecise(dtype, bias_dtype):
    spec = replace(LONG, dtypes=(dtype,), bias_dtype=bias_dtype)
    for name in ("basic", "tail-63-65", "shared-table"):
        case = case_of(spec, name)
        exact = oracle.answers(case)
        for _, wrong in (pair for pair in planted(case, exact) if pair[0] == "dtable"):
            assert ("wrong", "dtable") in found(case, {**exact, **wrong}, spec), name


def test_sums_in_the_type_of_a_short_table_are_named_and_reach_no_other_answer():
    spec = replace(LONG, dtypes=("float32",), bias_dtype="bfloat16")
    case = case_of(spec, "basic")
    exact = oracle.answers(case)
    ds = band.rows(case, band.units("float32")).ds
    how = plain.Arithmetic("bfloat16", sums="kept")
    short = plain.bias_gradient(case, how, how.keep(ds), ("dtable",))
    (finding,) = judge(case, Outcome("ok", answers={**exact, **short}), spec)
    assert (finding.kind, finding.what) == ("imprecise", "dtable")
    assert finding.text.endswith("the table is summed up in bfloat16")
    wide = bounds.low_precision(case, exact, "bfloat16 sums")
    healthy = bounds.healthy(case, exact)
    assert all(np.array_equal(wide[name], healthy[name]) for name in exact if name != "dtable")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_padded_key_in_the_softmax_is_no_lack_of_precision(dtype):
    """The weights of a row shrink by one factor, by less than bfloat16 could tell."""
    spec = Spec(dtypes=(dtype,))
    case = case_of(spec, "tail-127-31")
    exact = oracle.answers(case)
    share = np.exp(-np.logaddexp(exact["lse"], 0.0))[..., None]
    assert ("wrong", "o") in found(case, {**exact, "o": exact["o"] * (1.0 - share)}, spec)


SHORT = replace(SPECS["biases"], dtypes=("bfloat16",), bias_dtype="same")


@pytest.mark.parametrize("spec", [SPECS["biases"], SPECS["inside"], SHORT], ids=["full", "half", "brain"])
def test_lowest_numbers_and_empty_rows_give_finite_bounds_without_a_warning(spec):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for case in plan(spec):
            if case.name not in ("lowest", "lowest-row", "hidden", "empty-rows"):
                continue
            low = bounds.low_precision(case, oracle.answers(case))
            assert all(np.isfinite(x).all() for x in low.values())


@pytest.mark.parametrize("name", ["basic", "saturated", "equal", "one-query", "tail-17-16"])
def test_a_softmax_in_float32_of_float64_scores_is_imprecise(name):
    """As several models take it: the weights are rounded, which for equal scores moves all by one factor."""
    spec = Spec(dtypes=("float64",))
    case = case_of(spec, name)
    x = healthy_runs.leaves(case)
    p = torch.softmax(healthy_runs.scores(case, x, torch.float64), -1, dtype=torch.float32).double()
    o = p @ x["v"]
    (o * torch.tensor(case.do)).sum().backward()
    grads = {f"d{leaf}": x[leaf].grad for leaf in ("q", "k", "v", "scale")}
    answers = {**healthy_runs.answers(case, o, torch.zeros(1), grads), "lse": oracle.answers(case)["lse"]}
    findings = judge(case, Outcome("ok", answers=answers), spec)
    assert {f.kind for f in findings} == {"imprecise"}
    assert all("as if computed in float32" in f.text for f in findings)
