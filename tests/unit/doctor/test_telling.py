"""Reports as text, JSON and Markdown."""

import json
from dataclasses import replace

import numpy as np
import pytest

from attngrad.doctor import Diagnosis, Finding, Report, Spec
from attngrad.doctor.telling import reports as telling
from attngrad.mistakes.whole import STATE, WHOLE

NAME, OTHER = list(WHOLE)[:2]
LONG = "dq is off by 3.1e+00 where rounding explains 2.4e-06, worst at (b 0, h 1, i 64, c 3): got 0, want 3.2"


def finding(case="tail-65", what="dq", kind="wrong", text=LONG, **numbers):
    """Return one finding."""
    return Finding(case, what, kind, text, **numbers)


def report(*findings, **fields):
    """Return a report with some findings."""
    told = Report(
        target="mine.py:attention", verdict="wrong" if findings else "healthy", findings=findings,
        diagnosis=Diagnosis(((NAME,), (OTHER, "not-known-here")) if findings else (), ""),
        probe=("scale: 0.37 as declared",), tried=("basic", "tail-65"),
        not_tried=("tail-33: one query only", "sink: a logit; not claimed", "gqa: fewer heads; not claimed"),
        not_exercised=("softcap (basic)",), spec=Spec().to_json(), seed=7,
        versions={"torch": "2.4", "numpy": "2.0"}, seconds=1.25, command="attention-doctor mine.py:attention",
    )  # fmt: skip
    return replace(told, **fields)


def lines(text):
    """Return the lines of a text."""
    return text.rstrip("\n").split("\n")


def test_the_text_begins_with_the_verdict_and_tells_everything():
    text = telling.as_text(report(finding(), finding("basic"), finding("basic", "o", "nan", "o is NaN")))
    assert lines(text)[0] == "mine.py:attention: WRONG"
    assert lines(text)[1] == "Something is wrong; findings in 2 of 2 cases."
    parts = ["Diagnosis", "Findings", "What the forward", "Not tried", "Not exercised", "Seed 7"]
    places = [text.index(f"\n{part}") for part in parts]
    assert places == sorted(places)
    joined = " ".join(text.split())
    assert f"{OTHER} or not-known-here" in joined
    assert " ".join(WHOLE[NAME].text.split()) in joined
    assert f"seen: {' '.join(WHOLE[NAME].seen.split())}" in joined
    assert "also in basic" in text
    assert "not claimed: sink, gqa" in text
    assert "Seed 7, 1.2 s, numpy 2.0, torch 2.4." in text
    assert "    again: attention-doctor mine.py:attention --case tail-65\n" in text


@pytest.mark.parametrize("id", STATE)
def test_a_mistake_between_calls_has_its_sentence_and_source(id):
    told = report(finding(), diagnosis=Diagnosis(((id,),)))
    for text in (telling.as_text(told), telling.as_markdown(told)):
        joined = " ".join(text.split())
        assert " ".join(STATE[id].text.split()) in joined
        assert " ".join(STATE[id].seen.split()) in joined
    assert json.loads(telling.as_json(told))["mistakes"][id]["text"] == STATE[id].text


def test_a_healthy_report_says_so_and_has_no_diagnosis():
    text = telling.as_text(report())
    assert lines(text)[0] == "mine.py:attention: HEALTHY"
    assert lines(text)[1] == "No gradient is wrong on the cases that were tried; 2 cases tried."
    assert "Diagnosis" not in text
    assert "Findings" not in text


def test_an_unknown_mistake_is_called_unknown():
    unknown = report(finding(), diagnosis=Diagnosis((), "unknown; dq is 1.37 times what it should be"))
    assert "unknown; dq is 1.37 times" in telling.as_text(unknown)
    silent = report(finding(), diagnosis=Diagnosis())
    assert "unknown: no known mistake explains every answer" in telling.as_text(silent)
    assert "unknown: no known mistake explains every answer" in telling.as_markdown(silent)
    missing = report(finding(kind="missing", text="dq is None"), diagnosis=Diagnosis())
    assert "Diagnosis" not in telling.as_text(missing)
    assert "unknown" not in telling.as_markdown(missing)


def test_a_kind_is_explained_unless_the_finding_does_it():
    guard, crash = ("guard", "dq reaches 3 bytes behind"), ("crash", "dq: the process died")
    text = telling.as_text(report(*[finding(kind=kind, text=told) for kind, told in (guard, crash)]))
    assert "  dq: guard (written outside a buffer)\n" in text
    assert "  dq: crash\n" in text


def test_lines_have_72_columns_but_for_commands():
    found = report(*[finding(f"tail-{size}-of-a-long-name") for size in range(40)], command=f"run {'x' * 90}")
    text = telling.as_text(found)
    assert "and 31 more" in text
    assert max(len(line) for line in lines(text) if "again:" not in line) <= 72
    assert any(len(line) > 90 for line in lines(text) if "again:" in line)


def test_the_short_form_fits_into_a_message():
    whats = ["o", "lse", "dq", "dk", "dv", "dbias", "dtable"]
    text = telling.as_text(report(*[finding(what=what) for what in whats]), short=True)
    assert "and 2 more" in text
    assert "dbias: wrong" not in text
    assert "Not tried" not in text
    assert lines(text)[0].endswith("WRONG")


def test_json_is_complete_and_has_texts_for_what_is_not_finite():
    told = report(
        finding(error=np.inf, bound=np.float64(2.5), index=(np.int64(1), 2), got=float("nan"), want=-np.inf)
    )  # fmt: skip
    text = telling.as_json(told)
    read = json.loads(text, parse_constant=lambda name: pytest.fail(name))
    assert text.endswith("}\n")
    assert read["findings"][0] == {
        "case": "tail-65", "what": "dq", "kind": "wrong", "text": LONG, "error": "inf", "bound": 2.5,
        "index": [1, 2], "got": "nan", "want": "-inf",
        "again": "attention-doctor mine.py:attention --case tail-65",
    }  # fmt: skip
    assert list(read) == [
        "target", "verdict", "findings", "diagnosis", "probe", "tried", "not_tried", "not_exercised", "spec",
        "seed", "versions", "seconds", "command", "kinds", "mistakes",
    ]  # fmt: skip
    assert read["diagnosis"]["names"] == [[NAME], [OTHER, "not-known-here"]]
    assert read["mistakes"][NAME] == {"text": WHOLE[NAME].text, "seen": WHOLE[NAME].seen}
    assert read["spec"]["dtypes"] == ["float32"]
    assert read["not_tried"] == list(told.not_tried)
    assert text == telling.as_json(told)


def test_markdown_is_a_table_whose_cells_hold():
    text = telling.as_markdown(report(finding(text="a | b\nc"), finding("basic")))
    assert text.startswith("## `mine.py:attention`: wrong\n")
    row = next(line for line in lines(text) if line.startswith("| dq"))
    assert row == "| dq | wrong | tail-65 | a \\| b c | basic |"
    assert "```sh\nattention-doctor mine.py:attention --case tail-65\n```" in text
    assert f"- **{NAME}**\n- **{OTHER}** or **not-known-here**\n  - {NAME}: " in text
    assert "### Not tried" in text
    assert text.endswith("Seed 7, 1.2 s, numpy 2.0, torch 2.4.\n")


def test_without_a_command_there_is_none_to_run_again():
    told = report(finding(), command="")
    assert "again:" not in telling.as_text(told)
    assert "```" not in telling.as_markdown(told)
    assert json.loads(telling.as_json(told))["findings"][0]["again"] == ""
    assert telling.again(report(), finding(case="")) == ""
