"""A mistake is named if it explains every answer, with its equals; what nothing explains is not named."""

from dataclasses import replace

import numpy as np
import pytest

from attngrad.doctor import Diagnosis, Finding, Outcome
from attngrad.doctor.judging import verdicts
from attngrad.doctor.naming.diagnosing import diagnose
from attngrad.doctor.naming.explaining import all_parts, evidence, pipeline
from attngrad.doctor.naming.searching import merged
from attngrad.mistakes.whole import WHOLE, right

from .diagnosis_cases import SPECS, cases_of, changed, healthy, planted, tried

PAIRS = [("alibi-vjp-undistanced", "alibi-vjp-zero"), ("attention-delta-zero", "softmax-vjp-elementwise")]
EQUAL = {id: pair for pair in PAIRS for id in pair}  # apart only beside a cotangent of lse, or a sink
IN_FULL_PLAN = {
    "attention-tail-nan": ("basic", "whole-blocks"),
    "attention-tail-queries-skipped": ("basic", "tail-33-15"),
    "attention-tail-keys-skipped": ("basic", "tail-33-15"),
    "table-vjp-tail-columns": ("more-keys", "tail-33-15"),
    "t5-bucket-unclamped": ("far-keys", "more-keys"),
    "lse-absorbs-lowest": ("basic", "lowest-row"),
}  # fmt: skip


def diagnosed(name, make, cases=None, seed=0):
    """Return the diagnosis of answers to cases, the quick ones by default, and whether anything is wrong."""
    found = tried(cases or cases_of(name), SPECS[name], make, seed)
    return diagnose(found, SPECS[name]), any(findings for *_, findings in found)


def shows(id, case):
    """Say whether a mistake changes something that is judged."""
    return case.wants and WHOLE[id].pipeline(case) is not right(case)


@pytest.mark.parametrize("name", SPECS)
def test_right_answers_have_no_diagnosis(name):
    assert diagnosed(name, healthy) == (Diagnosis(), False)


@pytest.mark.parametrize("id", WHOLE)
def test_a_mistake_is_named_with_its_equals_and_nothing_else(id):
    for name in SPECS:
        cases = few_cases(id, name)
        found, sick = diagnosed(name, planted(id), cases) if cases else (None, False)
        if sick:
            assert found.names in (((id,),), (EQUAL.get(id),)), name
            return
    raise AssertionError("no specification shows this mistake")


def few_cases(id, name):
    """Return small cases of a specification, three that show a mistake first; none if none does."""
    if id in IN_FULL_PLAN:
        return [case for case in cases_of(name, quick=False) if case.name in IN_FULL_PLAN[id]]
    cases = sorted(cases_of(name), key=lambda case: case.q.size * case.k.shape[2])
    sick = [case for case in cases if shows(id, case)]
    return [*sick[:2], *[case for case in cases if case not in sick][:1]] if sick else []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["table", "bias"])
@pytest.mark.parametrize("id", WHOLE)
def test_each_variant_is_named_in_a_full_plan(id, name):
    for settings in WHOLE[id].settings:
        found, sick = diagnosed(name, planted(id, **settings), cases_of(name, quick=False))
        if sick:
            assert found.names == ((id,),), settings


def together(name, ids):
    """Return the answers of several mistakes at once, the first variant of each."""
    found = evidence([(case, Outcome("ok"), ()) for case in cases_of(name)], SPECS[name])
    parts = {part.id: part for part in reversed(all_parts(found))}
    levels = ("forward", "backward", "final")
    chosen = tuple(parts[id] for id in sorted(ids, key=lambda id: levels.index(WHOLE[id].level)))
    return lambda case: pipeline(chosen, case).answers()


TOGETHER = [
    ("inside", {"attention-dq-unscaled", "attention-dk-unscaled"}),
    ("bias", {"bias-inside-scale-instead", "attention-dq-unscaled"}),
    ("bias", {"attention-mask-inverted", "softmax-vjp-diagonal-only", "attention-dscale-of-logarithm"}),
    ("table", {"lse-cotangent-dropped", "table-vjp-fancy-index"}),
    ("table", {"attention-causal-top-left", "softcap-vjp-factor-dropped", "sink-vjp-sign"}),
]


@pytest.mark.parametrize(("name", "ids"), TOGETHER)
def test_several_mistakes_at_different_places_are_named(name, ids):
    found, _ = diagnosed(name, together(name, ids))
    assert {group[0] for group in found.names} == ids
    assert all(len(group) == 1 for group in found.names)


def perturbed(number):
    """Return right answers with one of them spoilt in a way that is no known mistake, and which."""
    rng = np.random.default_rng(number)
    name = ("o", "dq", "dk", "dv", "dtable", "dscale")[int(rng.integers(6))]
    factor = float(rng.choice([1.37, 0.83, 1.02, 3.1, -0.6]))

    def noise(x):
        return x + 0.1 * np.abs(x).max(initial=0.0) * rng.standard_normal(x.shape)

    def a_row(x):
        x = x.copy()
        x[..., min(17, x.shape[-2] - 1) if x.ndim > 2 else 0, :] *= factor
        return x

    def every_seventh(x):
        return np.where(np.arange(x.size).reshape(x.shape) % 7 == 3, factor * x, x)

    ways = [noise, every_seventh, np.flip, lambda x: factor * x, lambda x: x + factor * np.abs(x)]
    ways += [] if name == "dscale" else [a_row]
    return changed(name, ways[int(rng.integers(len(ways)))]), name


def unnamed(numbers):
    """Require that no perturbation is named; return how many were seen at all."""
    seen = 0
    few = ("options", "softcap", "shared-table", "query-start")
    cases = [case for case in cases_of("table") if case.name in few]
    for number in numbers:
        make, name = perturbed(number)
        found, sick = diagnosed("table", make, cases, seed=number)
        assert found.names == (), (number, name)
        assert bool(found.text) == sick
        seen += name in found.text
    return seen


def test_what_is_no_known_mistake_is_not_named():
    assert unnamed(range(16)) > 10


@pytest.mark.slow
def test_two_hundred_perturbations_are_not_named():
    assert unnamed(range(40, 240)) > 160


def test_three_mistakes_that_no_set_holds_are_not_named_wrong():
    ids = ("attention-scale-missing", "softcap-ignored", "attention-mask-ignored")  # all of them forward
    found, _ = diagnosed("bias", together("bias", ids))
    assert found.names == ()
    assert "Unknown" in found.text


def test_a_deviation_too_small_to_tell_candidates_apart_by_is_not_named():
    def weakly(case):
        want, wrong = healthy(case), WHOLE["attention-dq-unscaled"].answers(case)
        return {**want, "dq": want["dq"] + 4e-7 * (wrong["dq"] - want["dq"])}

    found, _ = diagnosed("bias", weakly)
    assert found.names == ()


def test_a_mistake_in_some_cases_alone_is_not_named():
    def sometimes(case):
        return WHOLE["attention-dq-unscaled"].answers(case) if case.causal else healthy(case)

    found, _ = diagnosed("bias", sometimes)
    assert found.names == ()
    assert "Wrong exactly in the cases with causal masking" in found.text
    assert "Right in every case" in found.text


@pytest.mark.parametrize(
    ("name", "change", "told"),
    [
        ("dk", lambda x: 1.37 * x, "dk is 1.37 times the right one, which is no known factor"),
        ("dk", lambda x: 2.0 * x, "which is 2"),
        ("dv", lambda x: 0.0 * x, "dv is zero in every case"),
        ("dq", lambda x: np.where(np.arange(x.shape[2])[:, None] == 7, 3 * x, x), "wrong only at i = 7"),
        ("dv", lambda x: np.where(np.arange(x.shape[1])[:, None, None] > 0, 3.0 * x, x), "h >= 1"),
        ("dq", lambda x: np.where(np.arange(x.shape[3]) == 2, np.nan, x), "dq holds NaN"),
    ],
)  # fmt: skip
def test_what_is_known_of_an_unknown_mistake_is_told(name, change, told):
    cases = [case for case in cases_of("bias") if case.sizes["H"] == case.sizes["H_kv"]]
    found, _ = diagnosed("bias", changed(name, change), cases)
    assert found.names == ()
    assert told in found.text, found.text


def test_a_factor_of_one_is_none():
    found, _ = diagnosed("bias", changed("dk", lambda x: (1.0 + 4e-5) * x))
    assert found.names == ()
    assert "Wrong: dk" in found.text
    assert "times the right one" not in found.text


def test_a_factor_of_the_sizes_is_named_in_every_way_that_it_can_be():
    def by_keys(case):
        answers = healthy(case)
        return {**answers, "dv": answers["dv"] * case.sizes["M"]}

    found, _ = diagnosed("bias", by_keys)
    assert "it changes with the case" in found.text
    assert "which is M" in found.text
    same = [replace(case, scale=0.5) for case in cases_of("bias") if case.sizes["D"] == 24]
    found, _ = diagnosed("bias", changed("dv", lambda x: 0.5 * x), same)
    assert "1/2" in found.text
    assert "scale" in found.text


def test_what_is_wrong_in_one_type_alone_is_said():
    spec = replace(SPECS["bias"], dtypes=("float32", "bfloat16"))
    few = [case for case in cases_of("bias") if case.name in ("options", "softcap")]
    cases = [*few, *(replace(case, name=f"{case.name}-bfloat16", dtype="bfloat16") for case in few)]
    make = changed("dq", lambda x: -1.5 * x, lambda case: case.dtype == "bfloat16")
    found = diagnose(tried(cases, spec, make), spec)
    assert found.names == ()
    assert "Wrong exactly in the cases with bfloat16" in found.text


@pytest.mark.parametrize("id", ["attention-dq-unscaled", "softmax-vjp-elementwise", "bias-ignored"])
def test_a_mistake_is_named_in_bfloat16(id):
    spec = replace(SPECS["bias"], dtypes=("bfloat16",))
    few = [case for case in cases_of("bias") if case.name in ("basic", "options", "causal-more-keys")]
    cases = [replace(case, dtype="bfloat16", bias_dtype="bfloat16") for case in few]
    found = diagnose(tried(cases, spec, planted(id)), spec)
    assert found.names in (((id,),), (EQUAL.get(id),))


def repeated(case, answers, repeats, **more):
    """Return a case with its outcome and findings."""
    outcome = Outcome("ok", answers=answers, repeats=tuple(repeats), **more)
    return case, outcome, verdicts.judge(case, outcome, SPECS["table"])


def test_a_bias_kept_from_the_first_call_is_named():
    first = next(case for case in cases_of("table") if case.name == "options")
    tables = [first.table + 0.3 * n * np.cos(n * first.table) for n in range(3)]
    cases = [replace(first, name=f"call-{n}", table=table) for n, table in enumerate(tables)]

    def stale(case):
        return right(replace(case, table=tables[0])).answers()

    found, _ = diagnosed("table", stale, cases)
    assert found.names == (("table-bias-stale",),)


def test_calls_that_are_added_up_are_named():
    case = next(case for case in cases_of("table") if case.name == "options")
    answers = healthy(case)
    twice = {**answers, "dtable": 2.0 * answers["dtable"]}
    later = replace(case, name="later")
    thrice = {**answers, "dtable": 3.0 * answers["dtable"]}
    found = [repeated(case, answers, [twice]), repeated(later, thrice, [])]
    assert diagnose(found, SPECS["table"]).names == (("output-accumulated-between-calls",),)
    off = {**answers, "dtable": 3.7 * answers["dtable"]}
    found = diagnose([found[0], repeated(later, off, [])], SPECS["table"])
    assert found.names == ()
    assert "output-accumulated-between-calls" in found.text


def test_what_differs_between_equal_calls_is_named_by_how_it_differs():
    case = next(case for case in cases_of("table") if case.name == "options")
    answers = healthy(case)
    spec = replace(SPECS["table"], deterministic=True)
    for other, id in ((1.0 + 1e-9, "sum-order-not-fixed"), (1.4, "accumulator-uninitialised")):
        outcome = Outcome("ok", answers=answers, repeats=({**answers, "dtable": other * answers["dtable"]},))
        found = [(case, outcome, verdicts.judge(case, outcome, spec))]
        assert diagnose(found, spec).names == ((id,),)


def test_an_input_that_was_written_over_is_named_beside_the_mistake():
    case = next(case for case in cases_of("table") if case.name == "options")
    faults = ("input-changed: q differs after the call",)
    found = [repeated(case, healthy(case), [], faults=faults)]
    assert diagnose(found, SPECS["table"]).names == (("input-overwritten",),)
    wrong = WHOLE["attention-dq-unscaled"].answers(case)
    found = [repeated(case, wrong, [], faults=faults)]
    assert diagnose(found, SPECS["table"]).names == (("attention-dq-unscaled",), ("input-overwritten",))


def test_a_lack_of_precision_needs_no_name():
    case = cases_of("table")[0]
    finding = Finding(case.name, "dtable", "imprecise", "the formula is right")
    found = diagnose([(case, Outcome("ok", answers=healthy(case)), (finding,))], SPECS["table"])
    assert found == Diagnosis(text="No formula is wrong: what differs is the precision.")


def test_an_answer_that_never_came_has_no_name():
    case = cases_of("table")[0]
    finding = Finding(case.name, "dtable", "missing", "dtable is None")
    answers = {name: x for name, x in healthy(case).items() if name != "dtable"}
    found = diagnose([(case, Outcome("ok", answers=answers), (finding,))], SPECS["table"])
    assert found.names == ()
    assert "missing" in found.text
    crashed = (case, Outcome("crash", "signal 11"), (Finding(case.name, "", "crash", "signal 11"),))
    assert "crash" in diagnose([crashed], SPECS["table"]).text


def test_sets_of_equal_size_are_told_as_one():
    assert merged([]) == ()
    assert merged([(("a",), ("b",)), (("c",), ("b",))]) == (("a", "c"), ("b",))
    assert merged([(("a",), ("b",)), (("b",), ("c",))]) == (("a", "c"), ("b",))
    assert merged([(("a",), ("b",)), (("c",), ("a",)), (("b",), ("c",))]) == (("a", "b", "c"),)
