"""The doctor on subjects whose state of health is known: verdicts, names, and no name for what is unknown."""

from functools import cache

import pytest

from attngrad.doctor.examining import examine
from attngrad.doctor.kills import SUBJECTS
from attngrad.doctor.outcome import Report
from attngrad.doctor.spec import DTYPES

from .planted.subjects import PLANTED

BY_NAME = {planted.name: planted for planted in PLANTED}
NAMED = [name for name, planted in BY_NAME.items() if planted.mistakes]
UNKNOWN = [name for name, planted in BY_NAME.items() if planted.verdict == "wrong" and not planted.mistakes]


@cache
def report(name: str) -> Report:
    """Return the report on a planted subject."""
    planted = BY_NAME[name]
    chosen = {"cases": planted.cases} if planted.cases else {"quick": True}
    return examine(planted.make(), planted.spec, isolate=False, **chosen)


def groups(name: str) -> tuple[tuple[str, ...], ...]:
    """Return the names that a subject's report gives."""
    return report(name).diagnosis.names


def named_right(name: str) -> bool:
    """Say whether each mistake of a subject is in a group, and each group has one of its mistakes."""
    mistakes = BY_NAME[name].mistakes
    return all(any(id in group for group in groups(name)) for id in mistakes) and not named_wrong(name)


def named_wrong(name: str) -> bool:
    """Say whether a group has none of the mistakes of a subject."""
    return any(not set(group) & set(BY_NAME[name].mistakes) for group in groups(name))


@pytest.mark.parametrize("name", BY_NAME)
def test_the_verdict_is_right(name):
    found = report(name)
    assert found.verdict == BY_NAME[name].verdict, [str(finding) for finding in found.findings[:3]]


@pytest.mark.parametrize("name", BY_NAME)
def test_nothing_is_named_wrong(name):
    assert not named_wrong(name), groups(name)


def test_nine_of_ten_are_named_right():
    missed = [name for name in NAMED if not named_right(name)]
    assert len(missed) <= 0.1 * len(NAMED), missed


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_unknown_gets_no_name_but_a_text(name):
    assert groups(name) == ()
    assert report(name).diagnosis.text


def test_right_subjects_have_no_finding_and_are_examined_in_all_types():
    right = [planted for planted in PLANTED if planted.verdict == "healthy"]
    assert all(not report(planted.name).findings and not groups(planted.name) for planted in right)
    for dtype in DTYPES:
        assert sum(dtype in planted.spec.dtypes for planted in right) >= 3
    assert {planted.spec.framework for planted in right} == {"torch", "numpy"}
    assert {planted.spec.layout for planted in right} == {"bhnd", "bnhd"}


def test_the_list_is_long_and_its_ids_exist():
    assert len(BY_NAME) == len(PLANTED)
    assert len(NAMED) >= 60
    assert len(UNKNOWN) >= 6
    planted = {id for name in NAMED for id in BY_NAME[name].mistakes}
    assert planted <= set(SUBJECTS)
    assert len(planted) >= 60


def test_every_finding_of_a_sick_subject_is_in_a_case_that_was_tried():
    for name in (*NAMED, *UNKNOWN):
        found = report(name)
        assert found.findings, name
        assert {finding.case for finding in found.findings} <= {*found.tried, "all"}, name
