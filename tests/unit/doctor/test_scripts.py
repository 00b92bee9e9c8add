"""Files of a report: scripts that show a finding without the library."""

import json
from pathlib import Path

import pytest

from .new_process import ABSENT, COMMAND, python

FILE = Path(__file__).with_name("numpy_subject.py")
RUN_FILE = """
import runpy
sys.path[0] = sys.argv[1].rpartition("/")[0]
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a copy of the implementations, and reports on a wrong one."""
    folder = tmp_path_factory.mktemp("command")
    (folder / "mine.py").write_text(FILE.read_text())
    came = python(COMMAND, "mine.py:unscaled", "--out", "found", cwd=folder, absent=ABSENT, library=True)
    assert came.returncode == 1, came.stderr
    assert "No module" not in came.stderr
    return folder


def test_files_of_a_report_are_written(folder):
    told = json.loads((folder / "found/report.json").read_text())
    assert told["verdict"] == "wrong"
    assert (folder / "found/report.md").read_text().startswith("## `mine.py:unscaled`: wrong")
    scripts = sorted(path.name for path in (folder / "found").glob("repro_*.py"))
    shown = {(one["what"], one["kind"]): one["case"] for one in reversed(told["findings"])}
    assert scripts == sorted({f"repro_{case}.py" for case in shown.values()})
    assert all((folder / "found" / name).with_suffix(".npz").is_file() for name in scripts)
    assert not list((folder / "found").rglob("*.pyc"))


def script(folder):
    """Return the script of the finding about dk."""
    told = json.loads((folder / "found/report.json").read_text())
    case = next(one["case"] for one in told["findings"] if one["kind"] == "wrong")
    return folder / f"found/repro_{case}.py"


def test_a_script_shows_the_finding_without_the_library(folder):
    path = script(folder)
    assert "attngrad" not in path.read_text()
    came = python(RUN_FILE, path, cwd=folder, absent=("attngrad", *ABSENT))
    assert came.returncode == 1, came.stderr
    lines = {line.split()[0]: line for line in came.stdout.splitlines()}
    assert "OFF" in lines["dk"]
    assert all("fine" in lines[name] for name in ("o", "dq", "dv"))
    assert "got " in lines["dk"]
    assert "want " in lines["dk"]
    assert "difference " in lines["dk"]


def test_a_script_passes_once_the_implementation_is_right(folder):
    path = script(folder)
    right = path.with_name("again.py")
    right.write_text(path.read_text().replace("mine.py:unscaled", "mine.py:healthy"))
    right.with_suffix(".npz").write_bytes(path.with_suffix(".npz").read_bytes())
    came = python(RUN_FILE, right, cwd=folder, absent=("attngrad", *ABSENT))
    assert came.returncode == 0, came.stdout + came.stderr
    assert "All is within rounding." in came.stdout
    right.write_text(path.read_text().replace("mine.py:unscaled", "mine.py:nowhere"))
    assert python(RUN_FILE, right, cwd=folder, absent=("attngrad",)).returncode == 2


def test_a_script_shows_what_needs_the_calls_before_it(folder):
    came = python(COMMAND, "mine.py:Remembering", "--out", "kept", cwd=folder, absent=ABSENT, library=True)
    assert came.returncode == 1, came.stderr
    told = json.loads((folder / "kept/report.json").read_text())
    path = folder / f"kept/repro_{told['findings'][0]['case']}.py"
    came = python(RUN_FILE, path, cwd=folder, absent=("attngrad", *ABSENT))
    assert came.returncode == 1, came.stderr
    alone, behind = came.stdout.split(" is right alone; behind ")
    assert "OFF" not in alone
    assert "OFF" in behind
