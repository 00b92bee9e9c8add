"""The suite reports what its parts did, and a failure in any part fails it."""

import sys
from pathlib import Path

import pytest

from booktools import suite
from booktools.suite import Outcome, Part, counts, parts, run_part, table


@pytest.fixture
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(suite, "REPORTS", tmp_path)
    return tmp_path


def test_counts_are_those_of_the_report(reports: Path) -> None:
    report = reports / "unit.xml"
    report.write_text('<testsuites><testsuite tests="9" failures="2" errors="1" skipped="3"/></testsuites>')
    assert counts(report) == (3, 3, 3)
    assert counts(reports / "none.xml") == (0, 0, 0)


def test_a_part_runs_all_its_commands_and_fails_when_one_does(reports: Path) -> None:
    fails = (sys.executable, "-c", "raise SystemExit(3)")
    leaves_a_mark = (sys.executable, "-c", f"open({str(reports / 'mark')!r}, 'w')")
    outcome = run_part(Part("lint", (fails, leaves_a_mark)))
    assert (outcome.ok, outcome.failed) == (False, 1)
    assert (reports / "mark").exists()
    assert run_part(Part("lint", (leaves_a_mark,))).ok


def test_a_folder_without_tests_fails(reports: Path) -> None:
    (reports / "empty").mkdir()
    command = suite.pytest("unit", "-p", "no:cacheprovider", str(reports / "empty"))
    assert not run_part(Part("unit", (command,))).ok


def test_the_table_ends_with_the_counts_of_all_tests() -> None:
    unit, site = Outcome("unit", True, 1.5, 2.0, 5, 0, 1), Outcome("site", False, 2.0, 3.0, 4, 2, 0)
    lines = list(table([unit, site]))
    assert lines[-1] == "9 passed, 2 failed, 1 skipped"
    assert lines[-2] == "failed: site"
    assert "FAILED" in lines[-3]
    assert lines[-3].split()[-2:] == ["3.5", "5.0"]


def test_slow_tests_are_left_to_the_whole_suite() -> None:
    def commands(everything: bool) -> list[str]:
        return [
            argument
            for part in parts(everything, "--nbval")
            for command in part.commands
            for argument in command
        ]

    assert "not slow" in commands(False)
    assert "not slow" not in commands(True)
