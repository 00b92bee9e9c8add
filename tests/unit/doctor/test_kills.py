"""The kill table: no mistake without a check that rejects it, no check without a mistake, and equal text."""

import numpy as np
import pytest

from attngrad.doctor.kills import CHECKS, SUBJECTS, table
from attngrad.doctor.kills.state import MAKERS
from attngrad.doctor.kills.table import healthy, rejects
from attngrad.mistakes.whole import STATE, WHOLE
from attngrad.notation import RangeError

REAL = [name for name, check in CHECKS.items() if not check.naive]
NAIVE = [name for name, check in CHECKS.items() if check.naive]


@pytest.fixture(scope="module")
def kills():
    """Return the whole table."""
    return table()


@pytest.mark.parametrize("name", CHECKS)
def test_the_right_attention_passes(name):
    assert not rejects(CHECKS[name], healthy)


@pytest.mark.parametrize("id", SUBJECTS)
def test_every_mistake_is_rejected_by_some_check(id, kills):
    assert any(kills.killed(name, id) for name in REAL)


@pytest.mark.parametrize("name", REAL)
def test_every_check_rejects_some_mistake(name, kills):
    assert kills.by_check(name)


def test_every_wrong_attention_and_every_state_is_in_the_table(kills):
    assert set(kills.ids) == {*WHOLE, *STATE} == set(SUBJECTS)
    assert set(MAKERS) == set(STATE)
    assert set(kills.checks) == set(CHECKS)


def test_checks_are_told_apart_by_their_letters():
    letters = [check.letter for check in CHECKS.values()]
    assert len(set(letters)) == len(letters)
    assert all(check.letter.isupper() == check.naive for check in CHECKS.values())


def test_no_check_sees_all_and_naive_ones_see_little(kills):
    assert max(len(kills.by_check(name)) for name in REAL) < 0.7 * len(kills.ids)
    assert kills.by_check("shapes") == ()
    assert len(kills.by_check("mean-loss")) < 0.1 * len(kills.ids)
    missed = [id for id in kills.ids if not any(kills.killed(name, id) for name in NAIVE)]
    assert len(missed) > 0.3 * len(kills.ids)


def test_what_one_law_lets_pass_another_rejects(kills):
    """A head's gradient in the place of the sum over heads keeps every sum at zero."""
    assert not kills.killed("zero-sum", "bias-vjp-broadcast-last-head")
    assert kills.killed("broadcast", "bias-vjp-broadcast-last-head")
    assert kills.killed("zero-sum", "table-vjp-tail-columns")
    assert not kills.killed("broadcast", "table-vjp-tail-columns")
    for id in ("bias-inside-scale-instead", "bias-exp2-unscaled"):
        assert not any(kills.killed(name, id) for name in REAL if name.startswith("differences"))
        assert kills.killed("probe", id)
        assert not kills.killed("hard-mask", id)


@pytest.mark.parametrize("id", STATE)
def test_what_remembers_is_seen_by_a_second_call(id, kills):
    assert kills.killed("again", id)


def test_a_wrong_number_in_any_answer_is_seen_by_some_check():
    """A factor of 1.001 on each answer alone, which no recorded mistake has."""
    for name in ("o", "lse", "dq", "dk", "dv", "dbias", "dtable", "dscale", "dsink"):

        def make(name=name):
            right = healthy()
            return lambda case: {key: x * (1.001 if key == name else 1.0) for key, x in right(case).items()}

        assert any(rejects(CHECKS[check], make) for check in REAL), name


def test_cases_are_not_changed_by_a_subject_that_overwrites_its_input():
    before = table(ids=("attention-dq-unscaled",)).text()
    table(ids=("input-overwritten",))
    assert not rejects(CHECKS["differences"], healthy)
    assert table(ids=("attention-dq-unscaled",)).text() == before


def test_a_part_of_the_table_agrees_with_the_whole(kills):
    part = table(ids=("bias-ignored", "alibi-vjp-zero"), checks=("probe", "table-alone", "sum-loss"))
    assert part.ids == ("bias-ignored", "alibi-vjp-zero")
    assert part.checks == ("probe", "table-alone", "sum-loss")
    for id in part.ids:
        assert part.by_id(id) == tuple(name for name in kills.by_id(id) if name in part.checks)


def test_the_text_is_narrow_and_the_same_each_time(kills):
    text = kills.text()
    assert text == table().text()
    assert max(map(len, text.splitlines())) <= 100
    assert all(f"  {id} " in text for id in kills.ids)
    row = next(line for line in text.splitlines() if line.startswith("  attention-dq-unscaled "))
    marks = "".join(row.split()[1:])
    assert len(marks) == len(kills.checks)
    for mark, name in zip(marks, kills.checks, strict=True):
        assert (mark == CHECKS[name].letter) == kills.killed(name, "attention-dq-unscaled")


def test_the_markdown_has_a_table_for_each_topic_and_a_legend(kills):
    lines = kills.markdown().splitlines()
    assert sum(line == "|---|---|" for line in lines) == 10
    for id in kills.ids:
        assert sum(line.startswith(f"| `{id}` |") for line in lines) == 1
    for name in kills.checks:
        assert any(line.startswith(f"| `{CHECKS[name].letter}` {name}") for line in lines)
    assert all(line.count("|") in (0, 3, 4) for line in lines)


def test_unknown_names_are_refused(kills):
    with pytest.raises(RangeError, match=r"ids: expected some of .*, got 'nothing'"):
        table(ids=("nothing",))
    with pytest.raises(RangeError, match=r"checks: expected some of .*, got 'nothing'"):
        table(checks=("nothing",))
    with pytest.raises(RangeError, match=r"check: expected one of .*, got 'nothing'"):
        kills.killed("nothing", "bias-ignored")
    with pytest.raises(RangeError, match=r"id: expected one of .*, got 'nothing'"):
        kills.killed("probe", "nothing")


def test_numbers_that_are_not_finite_differ_from_numbers():
    from attngrad.doctor.kills.record import differ

    assert differ(np.array([np.nan]), np.array([1.0]))
    assert differ(np.array([np.inf]), np.array([1.0]))
    assert differ(np.array([-np.inf]), np.array([np.inf]))
    assert differ(np.array([1.0]), np.array([-np.inf]))
    assert not differ(np.array([-np.inf, 1.0]), np.array([-np.inf, 1.0]))
    assert differ(np.ones(2), np.ones((2, 1)))
