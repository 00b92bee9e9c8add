"""Each public report of a wrong value has a mistake that reproduces it, each public mistake a report."""

import re

from attngrad.doctor.kills import SUBJECTS
from attngrad.mistakes import MISTAKES
from attngrad.mistakes.positions import POSITIONS
from attngrad.mistakes.reports import REPORTS, reports_of
from attngrad.mistakes.training import TRAINING
from attngrad.mistakes.whole import WHOLE

FUNCTIONS = {wrong.id: wrong for wrong in (*MISTAKES.values(), *TRAINING, *POSITIONS)}
WITHOUT_CAUSE = {"ooples/AiDotNet", "NVIDIA/TransformerEngine", "NVIDIA-NeMo/Speech"}


def test_every_id_of_a_report_exists():
    known = {*FUNCTIONS, *WHOLE, *SUBJECTS}
    assert {id for report in REPORTS for id in report.mistakes} <= known


def test_every_mistake_with_a_public_source_is_in_a_report():
    sources = [(wrong.id, wrong.seen) for wrong in (*FUNCTIONS.values(), *WHOLE.values())]
    public = {id for id, seen in sources if "http" in seen or "post, section" in seen}
    assert [id for id in sorted(public) if not reports_of(id)] == []
    assert len(public) > 50


def test_reports_without_a_mistake_are_those_whose_cause_is_unknown():
    unexplained = [report for report in REPORTS if not report.mistakes]
    assert len(unexplained) == len(WITHOUT_CAUSE)
    for report in unexplained:
        assert any(name in report.seen[0] for name in WITHOUT_CAUSE)


def test_the_source_of_a_mistake_is_an_address_of_its_reports():
    """Each address that a mistake names is one that a report of this mistake names too."""
    for wrong in FUNCTIONS.values():
        for address in re.findall(r"https://[^\s;,:]+", wrong.seen):
            told = {seen.rstrip("/") for report in reports_of(wrong.id) for seen in report.seen}
            assert address in told, (wrong.id, address)


def test_texts_are_sentences_and_addresses_are_unique():
    assert len({report.text for report in REPORTS}) == len(REPORTS)
    for report in REPORTS:
        assert report.seen
        assert re.fullmatch(r"[A-Zdf].*\.", report.text), report.text
        assert len(set(report.mistakes)) == len(report.mistakes)
    addresses = [seen for report in REPORTS for seen in report.seen if "github" in seen]
    assert len(set(addresses)) == len(addresses)
