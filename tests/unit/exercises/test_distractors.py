"""No wrong answer is accepted, and none is answered with the right one."""

from dataclasses import replace

import pytest
import sympy

from attngrad.exercises import answers, judge_formula
from attngrad.exercises.distractors import DISTRACTORS
from attngrad.exercises.ground import Ground, ground
from attngrad.exercises.outcome import judgement
from attngrad.exercises.sides import first_equals
from attngrad.exercises.typeset import typeset
from attngrad.proofs import witness
from attngrad.proofs.claim import Wrong
from attngrad.proofs.ledger import PAGES, chapter
from attngrad.proofs.read import ReadError, read

from .answers import identities, one_line, printed, printed_answer, secrets, small_errors, told_secrets

QUICK = ("eq-vjp", "eq-softmax-jacobian", "eq-masked-vjp", "eq-bias-delta", "eq-bias-value-form")


def is_true(asked: Ground, answer: str, monkeypatch) -> bool:
    """Say whether an answer holds on numbers that the grader has not seen."""
    monkeypatch.setattr(witness, "SEEDS", (11, 12, 13))
    try:
        whole = answer if first_equals(answer) else f"{asked.left_tex} = {answer}"
        reading = read(whole, asked.table)
    except ReadError:
        return False
    fresh = replace(asked.context.case, cache={})
    return not witness.search(fresh, reading.statements, reading.scope.ranges).witness


def accepted(label: str, monkeypatch, most: int = 100) -> tuple[int, list[str]]:
    """Return how many small errors of an answer were rejected, and the wrong ones that were not."""
    asked, rejected, wrong = ground(label), 0, []
    errors = list(small_errors(label))
    for error in errors[:: 1 + len(errors) // most]:
        found = judge_formula(label, error)
        assert told_secrets(found.told, asked, error) == [], (error, found)
        if not found.ok:
            rejected += 1
        elif not is_true(asked, error, monkeypatch):
            wrong.append(error)
    return rejected, wrong


@pytest.mark.parametrize("label", QUICK)
def test_no_small_error_of_the_answer_is_accepted_and_no_answer_told(label, monkeypatch):
    rejected, wrong = accepted(label, monkeypatch)
    assert wrong == []
    assert rejected >= 12


@pytest.mark.slow
@pytest.mark.parametrize("label", [x for x in identities() if x not in QUICK])
def test_no_small_error_of_any_answer_of_the_book_is_accepted(label, monkeypatch):
    assert accepted(label, monkeypatch, most=20)[1] == []


def test_a_grader_that_accepts_a_wrong_answer_is_noticed(monkeypatch):
    monkeypatch.setitem(globals(), "judge_formula", lambda label, answer: judgement(True, label, "PROVED"))
    assert accepted("eq-vjp", monkeypatch)[1] != []


def test_a_grader_that_tells_the_answer_is_noticed(monkeypatch):
    asked = ground("eq-vjp")
    for secret in (printed_answer("eq-vjp"), str(asked.right), secrets(asked)[-1]):
        told = judgement(False, "eq-vjp", "REFUTED", f"the right answer is {secret}")
        monkeypatch.setitem(globals(), "judge_formula", lambda label, answer, told=told: told)
        with pytest.raises(AssertionError):
            accepted("eq-vjp", monkeypatch)


@pytest.mark.parametrize("page", PAGES)
def test_every_known_mistake_is_refuted_and_named(page):
    """Identities with one left side share their mistakes, which are judged once."""
    once = {tuple(known.told for known, _ in ground(x).mistakes): x for x in reversed(identities(page))}
    for label in once.values():
        asked = ground(label)
        for known, _ in asked.mistakes:
            found = judge_formula(label, known.tex, derivatives=True)
            assert found.word == "REFUTED", known.told
            assert f"known mistake: {known.told.split('.')[0]}" in one_line(found)
            assert told_secrets(found.told, asked, known.tex) == []


@pytest.mark.parametrize("page", PAGES)
def test_a_wrong_formula_of_a_page_is_rejected_where_the_right_one_is_asked_for(page):
    """It is named, unless it speaks of another left side or uses names that its exercise does not have."""
    named = 0
    shown = [c for c in chapter(page).claims if isinstance(c, Wrong) and c.instead.startswith("eq-")]
    for wrong in shown:
        found = judge_formula(wrong.instead, printed(wrong.label), derivatives=True)
        assert not found.ok
        named += f"shown as {wrong.label}" in one_line(found) or f"mistake: {wrong.label}" in one_line(found)
    assert named >= len(shown) / 2 > 0


@pytest.mark.parametrize("label", DISTRACTORS)
def test_every_distractor_is_about_its_label(label):
    told = " ".join(known.told for known, _ in ground(label).mistakes)
    assert all(name in told for name in DISTRACTORS[label])


@pytest.mark.parametrize("label", ["eq-vjp", "eq-softmax-jacobian", "eq-cross-entropy", "eq-bias-inside"])
def test_known_mistakes_are_named_from_sympy_too(label):
    """Each wrong value, as SymPy holds it and written anew, is what it was."""
    asked = ground(label)
    for known, reading in asked.mistakes:
        value = reading.statements[-1].rhs
        if not value.has(answers.Partial) and not value.atoms(sympy.Dummy):
            assert typeset(value, asked.table)
            found = judge_formula(label, value)
            assert f"known mistake: {known.told.split('.')[0]}" in one_line(found)
