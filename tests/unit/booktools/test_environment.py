"""The script that makes .venv: quick when nothing changed, one clear line when something is missing."""

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from booktools.paths import ROOT

OLD = "#!/bin/sh\n[ \"$1\" = --version ] && echo 'Python 3.9.2'\n[ \"$1\" != -c ]\n"
NO_VENV = "#!/bin/sh\n[ \"$1\" = --version ] && echo 'Python 3.12.1'\n[ \"$2\" != venv ]\n"
# Stands for the interpreter of .venv: notes each call of pip and does what the file `pip-says` tells.
RECORDER = """#!/bin/sh
case "$*" in *"-m pip"*)
  echo "$*" >> pip-calls
  if [ -e pip-says ]; then cat pip-says; exit 1; fi
esac
"""


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    target = tmp_path / "utils" / "booktools" / "environment.sh"
    target.parent.mkdir(parents=True)
    shutil.copy(ROOT / "utils" / "booktools" / "environment.sh", target)
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    (tmp_path / "requirements.txt").write_text("numpy==2.0\n-e .\n")
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "awk", "cat", "cksum", "dirname", "grep", "rm", "tail", "tee", "touch", "uname"):
        (tools / name).symlink_to(shutil.which(name) or name)
    return tmp_path


def run(tree: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(tree / "tools"), "TMPDIR": str(tree)} | variables
    command = [str(tree / "tools" / "sh"), str(tree / "utils/booktools/environment.sh"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def calls(tree: Path) -> list[str]:
    log = tree / "pip-calls"
    return log.read_text().splitlines() if log.exists() else []


def test_a_python_that_is_too_old_is_named(tree: Path) -> None:
    ran = run(tree, "book", PYTHON=str(script(tree / "old-python", OLD)))
    assert ran.returncode == 1
    assert "error: Python 3.11 or newer is needed" in ran.stderr
    assert "Python 3.9.2" in ran.stderr
    assert not (tree / ".venv").exists()


def test_a_newer_python_on_the_path_is_taken_instead(tree: Path) -> None:
    script(tree / "tools" / "python3.13", NO_VENV)
    ran = run(tree, "book", PYTHON=str(script(tree / "old-python", OLD)))
    assert "python3.13 has no working venv module" in ran.stderr


def test_a_missing_venv_module_is_named(tree: Path) -> None:
    ran = run(tree, "book", PYTHON=str(script(tree / "bare-python", NO_VENV)))
    assert ran.returncode == 1
    assert "no working venv module" in ran.stderr
    assert not (tree / ".venv").exists()


def test_a_second_run_does_nothing(tree: Path) -> None:
    script(tree / ".venv/bin/python", RECORDER)
    first, second = run(tree, "book"), run(tree, "book")
    assert (first.returncode, second.returncode) == (0, 0)
    assert len(calls(tree)) == 1
    assert second.stdout == second.stderr == ""
    assert "-c .venv/constraints.txt -e .[book]" in calls(tree)[0]
    assert (tree / ".venv/constraints.txt").read_text() == "numpy==2.0\n"


@pytest.mark.skipif(platform.system() != "Linux", reason="Triton is for Linux alone")
def test_triton_is_installed_for_tests_where_torch_has_not_brought_it(tree: Path) -> None:
    script(tree / ".venv/bin/python", f"{RECORDER}\n[ \"$2\" != 'import triton' ]\n")
    assert run(tree, "book").returncode == 0
    assert not [call for call in calls(tree) if "triton" in call]
    assert run(tree, "test").returncode == 0
    assert [call for call in calls(tree) if "triton==" in call]


def test_triton_that_is_there_is_left_alone(tree: Path) -> None:
    script(tree / ".venv/bin/python", RECORDER)
    assert run(tree, "test").returncode == 0
    assert not [call for call in calls(tree) if "triton" in call]


@pytest.mark.parametrize("name", ["pyproject.toml", "requirements.txt"])
def test_a_changed_lock_or_range_installs_again(tree: Path, name: str) -> None:
    script(tree / ".venv/bin/python", RECORDER)
    run(tree, "book")
    with (tree / name).open("a") as handle:
        handle.write("\n")
    run(tree, "book")
    assert len(calls(tree)) == 2


def test_what_the_tests_need_is_enough_for_the_book(tree: Path) -> None:
    script(tree / ".venv/bin/python", RECORDER)
    run(tree, "test")
    run(tree, "book")
    assert len(calls(tree)) == 1
    run(tree, "lab")
    assert len(calls(tree)) == 2


def test_without_the_lock_nothing_is_constrained(tree: Path) -> None:
    script(tree / ".venv/bin/python", RECORDER)
    run(tree, "test", LOCK="none")
    assert "constraints" not in calls(tree)[0]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("ERROR: NewConnectionError: Temporary failure in name resolution", "is this machine online?"),
        ("ERROR: Failed building wheel for x", "pip could not install the extra 'book'"),
    ],
)
def test_a_failure_of_pip_ends_the_run_and_is_tried_again(tree: Path, said: str, told: str) -> None:
    script(tree / ".venv/bin/python", RECORDER)
    (tree / "pip-says").write_text(said + "\n")
    ran = run(tree, "book")
    assert ran.returncode == 1
    assert told in ran.stderr
    (tree / "pip-says").unlink()
    assert run(tree, "book").returncode == 0
    assert len(calls(tree)) == 2


def test_an_unknown_extra_is_named(tree: Path) -> None:
    ran = run(tree, "boook")
    assert ran.returncode == 1
    assert "expected an extra, one of book, test, lab; got boook" in ran.stderr
