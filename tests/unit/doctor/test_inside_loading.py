"""Targets by name: what is found, and what is said where nothing is."""

import sys
from pathlib import Path

import pytest

from attngrad.doctor.running.inside import loading, session
from attngrad.doctor.running.inside.loading import CannotRun

SOURCE = """
class Hand:
    spec = {"framework": "numpy"}

    def forward(self, case):
        return {}

    def backward(self, case, saved):
        return {}


class Outer:
    inner = Hand


def attend(q, k, v):
    return v
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with a subject; what is loaded from it is forgotten afterwards."""
    (tmp_path / "written_by_hand.py").write_text(SOURCE)
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", None)):
            del sys.modules[name]


def test_attributes_of_files_and_modules_are_found(folder):
    path = folder / "written_by_hand.py"
    hand, module = loading.load(f"{path}:Hand")
    assert Path(module.__file__) == path
    assert loading.subject(hand, []).spec == {"framework": "numpy"}
    inner, _ = loading.load(f"{path}:Outer.inner")
    assert inner.__name__ == "Hand"
    assert sys.path[0] == str(folder)
    found, module = loading.load("written_by_hand:attend")
    assert found is module.attend


def test_a_file_may_have_the_name_of_a_loaded_module(folder):
    (folder / "json.py").write_text(SOURCE)
    kept = sys.modules["json"]
    found, _ = loading.load(f"{folder / 'json.py'}:attend")
    assert found(1, 2, 3) == 3
    assert sys.modules["json"] is kept


def test_relative_imports_have_their_package(folder):
    (folder / "packed_up").mkdir()
    (folder / "packed_up" / "near.py").write_text(SOURCE)
    path = folder / "packed_up" / "subject.py"
    path.write_text("from .near import Hand\n")
    with pytest.raises(
        CannotRun, match=r"subject\.py: it has relative imports, but its folder has no __init__\.py"
    ):
        loading.load(f"{path}:Hand")
    (folder / "packed_up" / "__init__.py").write_text("")
    assert loading.load(f"{path}:Hand")[1].__name__ == "packed_up.subject"


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("written_by_han.py", "no such file; there is written_by_hand.py"),
        ("no/such/folder.py:x", "no such file"),
        ("written_by_hand.py:hand", "no 'hand' there; it has Hand, attend, Outer"),
        ("written_by_hand.py:Hand.forwards", "no 'forwards' there; it has forward, "),
        ("no_such_module:x", "no_such_module: no such module"),
        ("json.no_such_module:x", "json.no_such_module: no such module"),
        ("", "target: expected file.py:name or module:name, got ''"),
        (":x", "target: expected file.py:name or module:name, got ':x'"),
        ("wrong_syntax.py", "wrong_syntax.py: SyntaxError"),
        ("leaves.py:x", "leaves.py: SystemExit: 1 (leaves.py line 2)"),
        ("divides.py:x", "divides.py: ZeroDivisionError: division by zero (divides.py line 2)"),
        ("lacks", "lacks: ModuleNotFoundError: No module named 'nothing_of_this_name'"),
    ],
)
def test_what_is_not_found_is_told(folder, target, said, monkeypatch):
    (folder / "wrong_syntax.py").write_text("def f(:\n")
    (folder / "leaves.py").write_text("import sys\nsys.exit(1)\n")
    (folder / "divides.py").write_text("def f():\n    1 / 0\n\n\nf()\n")
    (folder / "lacks.py").write_text("import nothing_of_this_name\n")
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    with pytest.raises(CannotRun) as error:
        loading.load(target)
    assert said in str(error.value)


def test_a_module_without_an_implementation_says_what_it_holds(folder):
    found, module = loading.load(str(folder / "written_by_hand.py"))
    with pytest.raises(
        CannotRun, match=r"expected forward\(case\) .* got the module of .*; it has Hand, Outer, attend"
    ):
        session.Session(found, module)


def test_the_specification_of_the_nearest_owner_counts(folder):
    (folder / "own.py").write_text('spec = {"layout": "bnhd"}\n' + SOURCE)
    told = [session.Session(*loading.load(f"{folder / 'own.py'}:{name}")).spec for name in ("Hand", "attend")]
    assert told == [{"framework": "numpy"}, {"layout": "bnhd"}]


def test_half_an_implementation_and_a_specification_that_is_none_are_told(folder):
    half = folder / "half.py"
    half.write_text("from types import SimpleNamespace\nit = SimpleNamespace(forward=lambda case: {})\n")
    with pytest.raises(CannotRun, match="got SimpleNamespace with forward alone"):
        loading.subject(loading.load(f"{half}:it")[0], [])
    with pytest.raises(CannotRun, match="expected a Spec or a dictionary of its fields, got int 3"):
        loading.declared(None, type("Made", (), {"spec": 3})(), None)
    assert loading.declared(None, type("Made", (), {"spec": len})(), None) is None


def test_a_mistake_of_syntax_has_its_line(folder):
    (folder / "unfinished.py").write_text("x = 1\ndef f(:\n")
    with pytest.raises(CannotRun, match=r"SyntaxError: .* \(unfinished.py line 2\)"):
        loading.load(f"{folder / 'unfinished.py'}:f")
