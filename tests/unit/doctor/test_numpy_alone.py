"""Where NumPy alone is installed, and Python 3.10: the doctor loads, writes cases and judges answers."""

import ast
from pathlib import Path

import pytest

from .new_process import ABSENT, LIBRARY, python

FILE = Path(__file__).with_name("numpy_subject.py")
PACKAGES = ("doctor", "offsets", "reference", "checks", "mistakes", "testing")

ANSWERING = """
import json, types
import numpy as np
import numpy_subject as mine
cases, answers = np.load("cases.npz"), {}
for case in json.loads(str(cases["manifest"]))["cases"]:
    name = case["name"]
    given = {key: cases.get(f"{name}/{key}") for key in ("q", "k", "v", "do", "mask")}
    N, M = case["sizes"]["N"], case["sizes"]["M"]
    start = M - N if case["query_start"] is None else case["query_start"]
    one = types.SimpleNamespace(**given, scale=case["scale"], causal=case["causal"], N=N, M=M, start=start)
    saved = mine.forward(one)
    found = {"o": saved["o"], "lse": saved["lse"], **mine.backward(one, saved)}
    answers.update({f"{name}/{key}": x for key, x in found.items()})
np.savez("answers.npz", **answers)
answers = {key: 2 * x if key.endswith("dq") else x for key, x in answers.items()}
np.savez("wrong.npz", **answers)
"""


def test_numpy_alone_writes_answers_and_judges_files(tmp_path):
    (tmp_path / FILE.name).write_text(FILE.read_text())
    asked = ["cases", "--out", "cases.npz", "--quick", "--causal", "both", "--options", "cross,mask,lse"]
    code = (
        "from attngrad.doctor.__main__ import main\n"
        f"assert main({asked!r}) == 0\n"
        f"sys.path.insert(0, '.'){ANSWERING}\n"
        "assert main(['judge', 'cases.npz', 'answers.npz']) == 0\n"
        "assert main(['judge', 'cases.npz', 'wrong.npz', '--out', 'found']) == 1\n"
        "assert main(['show', 'cases.npz']) == 0\n"
        "assert main(['judge', 'cases.npz', 'cases.npz']) == 2\n"
    )
    came = python(code, cwd=tmp_path, absent=ABSENT, library=True)
    assert came.returncode == 0, came.stderr
    assert "answers.npz: HEALTHY" in came.stdout
    assert "wrong.npz: WRONG" in came.stdout
    assert "again: attention-doctor judge cases.npz wrong.npz --case " in came.stdout
    assert "basic" in came.stdout
    assert sorted(path.name for path in (tmp_path / "found").iterdir()) == ["report.json", "report.md"]


def test_the_doctor_is_a_module_and_loads_numpy_alone():
    code = "import attngrad.doctor\nprint(sorted({name.partition('.')[0] for name in sys.modules}))"
    came = python(code, cwd=LIBRARY, library=True)
    loaded = ast.literal_eval(came.stdout)
    assert "numpy" in loaded
    assert not set(ABSENT) & set(loaded)
    module = "import runpy\nsys.argv = ['attention-doctor', '--help']\n"
    module += "runpy.run_module('attngrad.doctor', run_name='__main__', alter_sys=True)"
    told = python(module, cwd=LIBRARY, absent=ABSENT, library=True)
    assert told.returncode == 0, told.stderr
    assert "attention-doctor file.py:name" in told.stdout
    assert "--allow-low-precision" in told.stdout


NEWER = ("Self", "StrEnum", "tomllib", "ExceptionGroup", "TaskGroup", "assert_never")


def test_every_file_reads_as_python_3_10():
    files = [file for part in PACKAGES for file in (LIBRARY / part).rglob("*.py")]
    files.append(LIBRARY / "notation.py")
    assert len(files) > 40
    for path in files:
        tree = ast.parse(path.read_text(), str(path), feature_version=(3, 10))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                assert not {alias.name for alias in node.names} & set(NEWER), path
            assert not isinstance(node, getattr(ast, "TryStar", ())), path
            if isinstance(node, ast.Attribute):
                assert node.attr not in ("add_note", "StrEnum"), path


def test_what_is_newer_than_3_10_would_be_seen():
    with pytest.raises(SyntaxError):
        ast.parse("try:\n    pass\nexcept* ValueError:\n    pass\n", feature_version=(3, 10))
