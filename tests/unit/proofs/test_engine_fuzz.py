"""The normal form against the oracle on random expressions, and on random pairs of equal ones."""

from __future__ import annotations

from statistics import median
from time import process_time

from .engine_fuzz import mismatches, undecided

EXPRESSIONS, PAIRS, SECONDS = 10_000, 600, 30


def test_values_survive_the_normal_form(record_property):
    began = process_time()
    report = mismatches(EXPRESSIONS, seed=20)
    spent = process_time() - began
    record_property("cpu_seconds", round(spent, 1))
    record_property("median_ms", round(1000 * median(report.seconds), 2))
    assert report.failures == []
    assert report.expressions == EXPRESSIONS
    assert report.compared > 1.8 * EXPRESSIONS
    assert report.refused < EXPRESSIONS / 50
    assert spent < 2 * SECONDS


def test_equal_expressions_have_difference_zero():
    report = undecided(PAIRS, seed=21)
    assert report.failures == []
    assert report.compared > 0.95 * PAIRS


def test_a_run_repeats_itself():
    assert mismatches(40, seed=3).compared == mismatches(40, seed=3).compared
    assert [str(f) for f in undecided(40, 3, decide=lambda *_: False, stop=3).failures] == [
        str(f) for f in undecided(40, 3, decide=lambda *_: False, stop=3).failures
    ]


def test_the_fuzz_sees_a_wrong_form():
    assert mismatches(50, seed=1, form=lambda e, scope: 2 * e).failures
    assert undecided(5, seed=1, decide=lambda e, scope: False).failures
