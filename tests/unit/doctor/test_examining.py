"""An examination from end to end: what is tried, what is found, what is said not to have been tried."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from attngrad.doctor import Outcome, Spec, examine, examining
from attngrad.doctor.outcome import KINDS, Finding
from attngrad.doctor.running.runners import CannotRun
from attngrad.notation import DtypeError, RangeError

FILE = Path(__file__).with_name("numpy_subject.py")
SPEC = Spec(framework="numpy", causal="both", options=("cross", "mask", "lse"))


def subject(name):
    """Return an implementation of the file."""
    told = importlib.util.spec_from_file_location("numpy_subject_here", FILE)
    module = importlib.util.module_from_spec(told)
    told.loader.exec_module(module)
    return getattr(module, name)


def test_a_healthy_implementation_is_healthy_on_every_case_of_its_plan():
    said = []
    examined = examining.examination(subject("healthy"), quick=True, seed=3, command="run", say=said.append)
    report = examined.report
    assert (report.verdict, report.findings, report.diagnosis.names) == ("healthy", (), ())
    assert report.tried == tuple(case.name for case, *_ in examined.tried)
    assert [line.split()[1] for line in said] == list(report.tried)
    assert said[-1].startswith(f"{len(said)}/{len(said)} ")
    assert (report.seed, report.command, report.target) == (3, "run", "types:SimpleNamespace")
    assert Spec.from_json(report.spec) == examined.spec == SPEC
    assert report.versions["numpy"] == np.__version__
    assert report.seconds > 0.0
    assert any("dropout" in sentence for sentence in report.not_tried)


def test_a_wrong_gradient_is_found_and_named_and_the_smallest_case_comes_first():
    examined = examining.examination(subject("unscaled"))
    report = examined.report
    assert report.verdict == "wrong"
    assert report.diagnosis.names == (("attention-dk-unscaled",),)
    wrong = [finding for finding in report.findings if finding.kind == "wrong"]
    assert {finding.what for finding in wrong} == {"dk"}
    size = {case.name: case.q.size * case.k.shape[2] for case, *_ in examined.tried}
    sizes = [size[finding.case] for finding in wrong]
    assert len(sizes) > 10
    assert sizes == sorted(sizes)


@pytest.mark.parametrize(
    "name, what, kind",
    [("transposed", "dv", "shape"), ("none", "dq", "missing"), ("not_a_number", "dq", "nan")],
)
def test_each_fault_is_a_finding_of_its_kind(name, what, kind):
    report = examine(subject(name), quick=True)
    assert (what, kind) in {(finding.what, finding.kind) for finding in report.findings}
    assert report.verdict == "wrong"


def test_an_exception_is_a_finding_and_not_a_refusal():
    report = examine(subject("raising"), quick=True)
    assert {finding.kind for finding in report.findings} == {"error"}
    assert "IndexError" in report.findings[0].text


def test_cases_are_chosen_by_name():
    every = examine(subject("healthy"), quick=True).tried
    report = examine(subject("healthy"), quick=True, cases=[every[1], every[0]])
    assert report.tried == every[:2]
    assert report.not_tried[-1] == "all cases but those that were chosen by name"
    with pytest.raises(RangeError, match=rf"expected a name such as .*{every[0]}.*, got '{every[0]}x'"):
        examine(subject("healthy"), quick=True, cases=[f"{every[0]}x"])
    with pytest.raises(DtypeError, match="expected a sequence of names, got 'basic'"):
        examine(subject("healthy"), quick=True, cases="basic")


def test_a_specification_replaces_the_own_one_and_changes_replace_its_fields():
    own = examining.examination(subject("healthy"), quick=True, cases=["basic"])
    other = Spec(framework="numpy")
    given = examining.examination(subject("healthy"), other, quick=True, cases=["basic"])
    changed = examining.examination(
        subject("healthy"), quick=True, cases=["basic"], changes={"head_dims": (48,), "causal": "never"}
    )
    assert own.spec == SPEC
    assert given.spec == other
    assert (changed.spec.head_dims, changed.spec.causal) == ((48,), "never")
    assert changed.spec.options == SPEC.options
    assert {case.sizes["D"] for case, *_ in changed.tried} == {48}
    with pytest.raises(RangeError, match="causal: expected one of"):
        examining.examination(subject("healthy"), changes={"causal": "perhaps"})


def test_what_is_unsupported_is_told_with_its_cases_and_not_judged():
    report = examine(subject("partly"))
    sentences = [one for one in report.not_tried if one.endswith(": one query only")]
    assert len(sentences) == 1
    assert "basic" in sentences[0].split(": ")[0].split(", ")
    assert set(report.tried).isdisjoint(sentences[0].split(": ")[0].split(", "))
    assert report.verdict == "healthy"


def test_sizes_that_a_map_refuses_are_told():
    def rows(N, M, query_start):
        if M > 64:
            raise ValueError("too long; sorry")
        return np.zeros((N, M), dtype=int)

    spec = Spec(framework="numpy", map=rows, map_rows=1)
    report = examine(subject("healthy"), spec, cases=["one"])
    told = [text for text in report.not_tried if "the map refuses" in text]
    assert "basic: the map refuses N = 67, M = 131 (too long; sorry)" in told
    assert len(told) > 5
    assert all(text.endswith("(too long; sorry)") for text in told)
    assert not any("the map refuses" in text for text in examine(subject("healthy"), quick=True).not_tried)


def test_what_supports_nothing_or_lacks_a_module_could_not_run():
    with pytest.raises(CannotRun, match="this machine has none of it"):
        examine(subject("nothing"), quick=True)
    with pytest.raises(CannotRun, match="No module named 'attention_of_another_world'"):
        examine(subject("broken"), quick=True)
    with pytest.raises(CannotRun, match="no such file"):
        examine(str(FILE.with_name("nowhere.py")) + ":healthy")


def test_torch_that_is_missing_is_told_as_such():
    case = examining.examination(subject("healthy"), quick=True, cases=["basic"]).tried[0][0]
    text = "no arrays could be made: ModuleNotFoundError: No module named 'torch'"
    about = examining.About("it", 0, 0.0, {})
    for status in ("unsupported", "error"):
        ran = [(case, Outcome(status, text))] * 2
        with pytest.raises(CannotRun, match="install torch, or claim framework='numpy'") as caught:
            examining.concluded(about, SPEC, ran)
        assert str(caught.value).count("ModuleNotFoundError") == 1


def test_a_target_runs_in_a_child_or_here_and_an_object_only_here():
    target = f"{FILE}:healthy"
    assert examine(target, quick=True).verdict == "healthy"
    assert examine(target, quick=True, isolate=False).target == target
    with pytest.raises(RangeError, match="isolate: expected False for an object"):
        examine(subject("healthy"), isolate=True)


def test_versions_are_those_after_the_cases_were_run(tmp_path):
    late = FILE.read_text().replace('"""Return the output, lse and weights."""', "import late_library")
    (tmp_path / "mine.py").write_text(late)
    triton = "import sys, types\nsys.modules['triton'] = types.SimpleNamespace(__version__='1.2.3')\n"
    (tmp_path / "late_library.py").write_text(triton)
    report = examine(f"{tmp_path / 'mine.py'}:healthy", quick=True, cases=["basic"])
    assert report.versions["triton"] == "1.2.3"


def test_options_that_do_not_act_are_told(monkeypatch):
    monkeypatch.setattr(examining.oracle, "not_exercised", lambda case: ("mask",) * (case.name != "basic"))
    report = examine(subject("healthy"), quick=True)
    others = [name for name in report.tried if name != "basic"]
    assert report.not_exercised == (f"mask ({', '.join(others)})",)


def test_findings_are_ordered_by_answer_and_kind_and_those_that_follow_come_last():
    kinds = [("dk", "law"), ("dv", "wrong"), ("o", "wrong"), ("dk", "nan"), ("", "crash")]
    findings = [Finding("a", what, kind, "") for what, kind in kinds]
    told = [(finding.what, finding.kind) for finding in examining._sorted(findings, ())]
    assert told == [("", "crash"), ("o", "wrong"), ("dk", "nan"), ("dv", "wrong"), ("dk", "law")]
    assert all(kind in KINDS for *_, kind in kinds)


@pytest.mark.parametrize("limit_s, first_s", [(60.0, 300.0), (2.0, 30.0)])
def test_the_first_case_has_more_time_but_not_without_end(limit_s, first_s, monkeypatch):
    monkeypatch.setattr(examining.running, "Child", lambda target, **limits: limits)
    made = examining._runner("mine.py:it", None, None, limit_s)
    assert made == {"limit_s": limit_s, "warm_up_s": first_s}
