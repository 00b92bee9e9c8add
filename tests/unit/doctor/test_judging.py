"""What is wrong with an answer, said in a sentence: how much, where, and what stands there."""

from dataclasses import replace

import numpy as np
import pytest

from attngrad.doctor import Finding, Outcome, Spec
from attngrad.doctor.cases import plan
from attngrad.doctor.judging import oracle
from attngrad.doctor.judging.verdicts import SEVERITY, judge, verdict
from attngrad.doctor.outcome import KINDS

from .specs import SPECS

CASES = {case.name: case for case in plan(SPECS["t5"])}
BASIC = replace(CASES["basic"], sink=None, exercises=())
SPEC = Spec(map=SPECS["t5"].map, options=("cross", "lse", "dscale"))


def findings(answers, case=BASIC, spec=SPEC, **fields):
    """Return what is wrong with the right answers once some are replaced; None leaves one out."""
    right = {**oracle.answers(case), **answers}
    given = {name: x for name, x in right.items() if x is not None}
    return judge(case, Outcome("ok", answers=given, **fields), spec)


def only(answers, **given):
    """Return the one finding that is no law."""
    found = [finding for finding in findings(answers, **given) if finding.kind != "law"]
    assert len(found) == 1
    return found[0]


def changed(name, index, value, case=BASIC):
    """Return an answer with some entries replaced."""
    x = oracle.answers(case)[name].copy()
    x[index] = value
    return {name: x}


def test_right_answers_are_healthy():
    for case in CASES.values():
        assert findings({}, case=case, spec=SPECS["t5"]) == ()
    assert verdict(()) == "healthy"


def test_the_sentence_says_how_much_and_where():
    want = oracle.answers(BASIC)["dq"][0, 1, 64, 3]
    found = only(changed("dq", (0, 1, 64, 3), want + 3.0))
    assert (found.kind, found.what, found.index, found.case) == ("wrong", "dq", (0, 1, 64, 3), "basic")
    assert (found.got, found.want, round(found.error, 9)) == (want + 3.0, want, 3.0)
    assert found.bound < 1e-4
    assert found.text.startswith("dq is off by 3.0e+00 where rounding explains ")
    assert f"worst at (b 0, h 1, i 64, c 3): got {want + 3.0:.6g}, want {want:.6g}; " in found.text
    assert found.text.endswith("b = 0 and h = 1 and i = 64 and c = 3 only")


@pytest.mark.parametrize(
    "index,told",
    [
        (np.s_[:, :, 64:], "i >= 64 only; where it is 0"),
        (np.s_[:, :, :3], "i <= 2 only; where it is 0"),
        (np.s_[:, 4], "h = 4 only; where it is 0"),
        (np.s_[1:], "b >= 1 only; where it is 0"),
        (np.s_[:, :, 16:32], "16 <= i <= 31 only; where it is 0"),
        (np.s_[:, 1::2], "h = 1, 3 only; where it is 0"),
        (np.s_[:, :, ::2], "34 of 67 i only; where it is 0"),
        (np.s_[:], "; all of it is 0"),
    ],
)
def test_the_region_is_told(index, told):
    assert only(changed("dq", index, 0.0)).text.endswith(told)


@pytest.mark.parametrize("name", ["dq", "dtable", "lse", "dk"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_a_constant_factor_is_told_by_all_its_names(name, dtype):
    case = plan(Spec(map=SPECS["t5"].map, dtypes=(dtype,)))[0]
    found = only({name: oracle.answers(case)[name] / 8.0}, case=case)
    assert found.kind == "wrong"
    assert "; all of it is 0.125 = 1/sqrt(D) times what it should be (rest " in found.text


def test_axes_of_tables_and_of_grouped_heads():
    dtable = oracle.answers(BASIC)["dtable"].copy()
    dtable[:, 7] += 1.0
    assert only({"dtable": dtable}).text.endswith("r = 7 only")
    gqa = CASES["gqa"]
    assert only(changed("dk", np.s_[:, 1], 0.0, gqa), case=gqa).text.endswith("h = 1 only; where it is 0")
    dscale = only({"dscale": oracle.answers(BASIC)["dscale"] + 1.0})
    assert (dscale.index, " at " in dscale.text) == ((), False)


def test_nan_and_infinities_are_counted_and_placed():
    found = only(changed("dv", np.s_[1, 2, 128:, 0], np.nan))
    assert (found.kind, found.index) == ("nan", (1, 2, 128, 0))
    told = "dv has 3 of 125760 entries that are NaN or infinite, the first at (b 1, h 2, j 128, c 0): got NaN"
    assert found.text.startswith(told)
    assert found.text.endswith("b = 1 and h = 2 and j >= 128 and c = 0 only")
    assert only(changed("o", np.s_[0, 0, 0, 0], -np.inf)).text.count("got -inf") == 1
    assert only(changed("lse", np.s_[:], np.inf)).kind == "nan"


def test_lse_of_a_query_without_a_key():
    case = CASES["empty-rows"]
    empty = np.isneginf(oracle.answers(case)["lse"])
    assert empty.any()
    found = only(changed("lse", empty, -1e30, case), case=case, spec=SPECS["t5"])
    assert (found.kind, found.want) == ("wrong", -np.inf)
    assert "lse is -1e+30 for a query without a key at (b 0, h 0, i 1): want -inf" in found.text
    assert only(changed("lse", empty, np.nan, case), case=case, spec=SPECS["t5"]).kind in ("wrong", "nan")
    # Output 0 and no gradient are what a query without a key has to have.
    mean = np.broadcast_to(case.v.mean(axis=2)[:, :, None], case.do.shape)
    o = np.where(empty[..., None], mean, oracle.answers(case)["o"])
    assert "want 0" in only({"o": o}, case=case, spec=SPECS["t5"]).text


def test_what_is_missing():
    assert (only({"dtable": None}).kind, only({"dtable": None}).what) == ("missing", "dtable")
    assert only({"o": None}).kind == "missing"
    assert only({"lse": None}).kind == "missing"
    assert findings({"lse": None}, spec=replace(SPEC, options=("cross",))) == ()


def test_faults_are_findings_and_a_wrong_shape_is_not_missing_as_well():
    fault = "shape: dq has shape (3, 5), expected (3, 5, 67, 64)"
    found = only({"dq": None}, faults=(fault,))
    assert (found.kind, found.what, found.text) == ("shape", "dq", fault.removeprefix("shape: "))
    assert only({}, faults=("input-changed: q differs after the call",)).what == "q"
    assert only({}, faults=("guard: 'dk' was written beyond its end",)).what == "dk"
    assert only({}, faults=("something odd",)).kind == "error"
    assert only({"dq": np.zeros(3)}).kind == "shape"


@pytest.mark.parametrize("status", ["error", "crash", "hang"])
def test_a_case_without_answers(status):
    (found,) = judge(BASIC, Outcome(status, "ValueError: no"), SPEC)
    assert (found.kind, found.what) == (status, "case")
    assert "ValueError: no" in found.text
    assert KINDS[status] in judge(BASIC, Outcome(status), SPEC)[0].text


def test_what_is_not_supported_is_no_finding():
    assert judge(BASIC, Outcome("unsupported", "no causal masking"), SPEC) == ()


def test_later_runs_must_agree_in_bits_if_that_is_promised():
    exact = oracle.answers(BASIC)
    near = {**exact, "dq": exact["dq"] * (1.0 + 1e-9)}
    assert findings({}, repeats=(near, near)) == ()
    found = only({}, repeats=(exact, near), spec=replace(SPEC, deterministic=True))
    assert (found.kind, found.what) == ("repeat", "dq")
    assert "differs in run 3 of the same input by " in found.text
    assert "where equal bits are promised" in found.text


def test_later_runs_that_are_wrong_missing_or_misshapen():
    exact = oracle.answers(BASIC)
    double = {**exact, "dtable": 2.0 * exact["dtable"]}
    found = only({}, repeats=(double,))
    assert (found.kind, found.what) == ("repeat", "dtable")
    assert "where rounding explains" in found.text
    gone = {name: x for name, x in exact.items() if name != "dk"}
    told = "dk is missing in run 2 of the same input, and was there in the first"
    assert only({}, repeats=(gone,)).text == told
    assert only({}, repeats=({**exact, "dk": np.zeros(2)},)).kind == "repeat"
    spoiled = changed("o", np.s_[0, 0, 0, 0], np.nan)
    assert only({}, repeats=({**exact, **spoiled},)).kind == "repeat"
    nan = findings(spoiled, repeats=({**exact, **spoiled},), spec=replace(SPEC, deterministic=True))
    assert [finding.kind for finding in nan] == ["nan"]


def test_the_worst_comes_first():
    double = 2.0 * oracle.answers(BASIC)["dk"]
    answers = {**changed("dv", np.s_[0, 0, 0, 0], np.nan), "dk": double, "dtable": None}
    kinds = [finding.kind for finding in findings(answers, faults=("guard: dq was written beyond its end",))]
    assert kinds == ["guard", "nan", "wrong", "missing", "law"]
    assert set(SEVERITY) == set(KINDS)


@pytest.mark.parametrize("value", [1e300, -1e308, 1e-320])
def test_what_stood_in_memory_is_wrong_without_a_warning(value):
    right = oracle.answers(BASIC)
    garbage = {name: np.full_like(x, value) for name, x in right.items()}
    found = findings(garbage, repeats=(right,))
    assert {f.what for f in found if f.kind == "wrong"} == set(right)
    assert all(f.error > f.bound for f in found)


def test_verdicts():
    def of(*kinds):
        return verdict(Finding("basic", "dq", kind, "") for kind in kinds)

    assert (of(), of("imprecise", "imprecise"), of("imprecise", "wrong")) == ("healthy", "imprecise", "wrong")
    assert all(of(kind) == "wrong" for kind in KINDS if kind != "imprecise")


def test_an_imprecise_answer_breaks_no_law():
    case = next(case for case in plan(Spec(map=SPECS["t5"].map, dtypes=("bfloat16",))) if case.name == "long")
    dtable = oracle.answers(case)["dtable"].copy()
    at = np.unravel_index(np.argmax(np.abs(dtable)), dtable.shape)
    dtable[at] *= 0.8
    found = findings({"dtable": dtable}, case=case)
    assert [(finding.kind, finding.what) for finding in found] == [("imprecise", "dtable")]
