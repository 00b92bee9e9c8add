"""Implementations in a process of their own: what crashes, hangs, prints or cannot be loaded."""

import os
import sys

import numpy as np
import pytest

from attngrad.doctor import Spec
from attngrad.doctor.running.runners import CannotRun, Child

from .run_subjects import NUMPY, case, close

MISBEHAVING = """
def segfault(case, found):
    import ctypes
    ctypes.string_at(0)


def leave(case, found):
    print("about to leave")
    os._exit(3)


def leave_by_exception(case, found):
    sys.exit(4)


def hang(case, found):
    while True:
        time.sleep(0.01)


def print_much(case, found):
    print("x" * 3_000_000)
    os.write(1, b"y" * 100_000)
    return found


def read_input(case, found):
    if sys.stdin.read() or os.read(0, 1):
        raise RuntimeError("it read a message")
    return found


def modules(case, found):
    loaded = sorted({name.split(".")[0] for name in sys.modules} & {"attngrad", "torch"})
    raise RuntimeError(f"loaded: {loaded}")


def refuse(case, found):
    raise Unsupported("not today")
"""


@pytest.fixture
def path(tmp_path):
    """Return a file with a right implementation of NumPy, and cases in which it misbehaves."""
    path = tmp_path / "subject.py"
    path.write_text(NUMPY + MISBEHAVING)
    return path


def test_a_right_implementation_is_run(path):
    with Child(path) as child:
        told = child.describe()
        assert told.spec == Spec(framework="numpy", options=("cross", "strides", "lse"))
        assert {"python", "numpy", "platform"} <= set(told.versions)
        assert "torch" not in told.versions
        outcome = child.run(case(), told.spec)
        assert (outcome.status, outcome.faults) == ("ok", ())
        assert close(case(), outcome, ("o", "lse", "dq", "dk", "dv"))
        assert outcome.seconds > 0.0


def test_the_child_loads_nothing_of_this_library_or_torch(path):
    with Child(path) as child:
        assert "loaded: []" in child.run(case("modules"), child.describe().spec).text
    path.write_text("import attngrad\n" + path.read_text())
    with Child(path) as child:
        assert "loaded: ['attngrad']" in child.run(case("modules"), child.describe().spec).text


def test_crashes_are_told_and_the_next_case_goes_on(path):
    with Child(path) as child:
        spec = child.describe().spec
        fell = child.run(case("segfault"), spec)
        left = child.run(case("leave"), spec)
        outcome = child.run(case(), spec)
    assert fell.status == left.status == "crash"
    assert "SIGSEGV" in fell.text
    line = path.read_text().splitlines().index("    ctypes.string_at(0)") + 1
    assert f"subject.py line {line} in segfault" in fell.text
    assert left.text == "the process ended with exit status 3; last printed: about to leave"
    assert close(case(), outcome)


def test_a_hang_is_told_and_the_next_case_goes_on(path):
    with Child(path, limit_s=0.5, warm_up_s=30.0) as child:
        spec = child.describe().spec
        assert close(case(), child.run(case(), spec))
        outcome = child.run(case("hang"), spec)
        assert (outcome.status, outcome.text) == ("hang", "no answer within 0.5 s")
        assert close(case(), child.run(case(), spec))


def test_the_first_call_may_take_longer(tmp_path):
    """What is compiled takes its time once in a process; who only hangs is given that time twice."""
    path = tmp_path / "slow.py"
    slow = (
        "def first(case, found):\n    time.sleep(0.0 if state['calls'] else 1.0)\n    state['calls'] += 1\n"
    )
    path.write_text(NUMPY + MISBEHAVING + slow + "    return found\n")
    with Child(path, limit_s=0.5, warm_up_s=20.0) as child:
        spec = child.describe().spec
        assert [child.run(case("first"), spec).status for _ in range(2)] == ["ok", "ok"]
        assert child.run(case("hang"), spec).status == "hang"
        assert child.run(case("first"), spec).status == "ok"
    with Child(path, limit_s=0.2, warm_up_s=1.5) as child:
        texts = [child.run(case("hang"), spec).text for _ in range(3)]
    assert texts == ["no answer within 1.5 s"] * 2 + ["no answer within 0.2 s"]


def test_prints_do_not_disturb_the_messages(path, capfd):
    with Child(path) as child:
        spec = child.describe().spec
        assert close(case(), child.run(case("print-much"), spec))
        assert close(case(), child.run(case("read-input"), spec))
    assert "x" * 1000 in capfd.readouterr().err


def test_exceptions_are_told_with_their_place(path):
    with Child(path) as child:
        spec = child.describe().spec
        unsupported = child.run(case("refuse"), spec)
        unknown = child.run(case("unknown"), spec)
        left = child.run(case("leave-by-exception"), spec)
    assert (unsupported.status, unsupported.text) == ("unsupported", "not today")
    call = '    return globals()[case.name.replace("-", "_")](case, found)'
    line = path.read_text().splitlines().index(call) + 1
    assert (unknown.status, unknown.text) == ("error", f"KeyError: 'unknown' (subject.py line {line})")
    assert left.status == "error"
    assert left.text.startswith("SystemExit: 4 (subject.py line")


def test_rows_come_from_a_map_of_the_implementations_own(tmp_path):
    path = tmp_path / "mapped.py"
    path.write_text(
        "import numpy as np\nfrom attngrad.doctor import Spec\n\n\n"
        "def rows(N, M, query_start):\n    return (np.arange(M) + np.arange(N)[:, None]) % 3\n\n\n"
        "spec = Spec(framework='numpy', map=rows, map_rows=3)\n" + NUMPY.replace("spec = {", "other = {")
    )
    with Child(path) as child:
        spec = child.describe().spec
        assert spec.R == 3
        assert child.rows(2, 4, None).tolist() == [[0, 1, 2, 0], [1, 2, 0, 1]]
    path.write_text(path.read_text().replace(") % 3", ") % 3.0"))
    with Child(path) as child, pytest.raises(CannotRun, match="expected integers of shape"):
        child.rows(2, 4, None)


def test_the_environment_is_handed_on(path):
    told = "\n\ndef told(case, found):\n    raise RuntimeError(os.environ['SAID'])\n"
    path.write_text(path.read_text() + told)
    with Child(path, env={"SAID": "so it is"}) as child:
        assert "so it is" in child.run(case("told"), child.describe().spec).text


def test_neighbours_and_the_current_folder_are_found(tmp_path, monkeypatch):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (tmp_path / "one" / "near.py").write_text("x = 1\n")
    (tmp_path / "two" / "here.py").write_text(NUMPY)
    (tmp_path / "one" / "subject.py").write_text("import near\nimport here as chosen\n")
    monkeypatch.chdir(tmp_path / "two")
    for target in (tmp_path / "one" / "subject.py:chosen", "here"):
        with Child(f"{target}") as child:
            assert close(case(), child.run(case(), Spec(framework="numpy")))


def test_what_cannot_be_loaded_leaves_no_process(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text("x = 1\nimport nothing_of_this_name\n")
    with pytest.raises(
        CannotRun, match=r"broken\.py: ModuleNotFoundError: .*'nothing_of_this_name'.* line 2"
    ):
        Child(path)
    path.write_text("import os\nos._exit(5)\n")
    with pytest.raises(CannotRun, match="exit status 5"):
        Child(path)
    path.write_text("import time\ntime.sleep(1000)\n")
    with pytest.raises(CannotRun, match="no answer within"):
        Child(path, warm_up_s=1.5)


def test_closing_ends_the_process(path):
    child = Child(path)
    pid = child._process._process.pid
    os.kill(pid, 0)
    child.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    child.close()


def test_a_torch_callable_is_run(tmp_path):
    path = tmp_path / "callable.py"
    path.write_text(
        "import torch\n\n\ndef attend(q, k, v, scale, window=None):\n"
        "    return torch.softmax(q @ k.mT * scale, dim=-1) @ v\n"
    )
    with Child(f"{path}:attend") as child:
        told = child.describe()
        assert told.notes == ("not passed: window",)
        assert told.spec == Spec()
        assert "torch" in told.versions
        for strides in ("", "transposed", "sliced", "expanded"):
            one = case(strides=strides, repeats=2)
            outcome = child.run(one, told.spec)
            assert (outcome.status, outcome.faults, len(outcome.repeats)) == ("ok", (), 1)
            assert close(one, outcome)
            assert all(np.array_equal(outcome.answers[name], x) for name, x in outcome.repeats[0].items())
    assert sys.modules.get("callable") is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_crash_is_seen_though_a_forked_child_lives_on(path):
    forks = "\n\ndef forks(case, found):\n    os._exit(6) if os.fork() else time.sleep(1000)\n"
    path.write_text(path.read_text() + forks)
    with Child(path) as child:
        spec = child.describe().spec
        outcome = child.run(case("forks"), spec)
        assert (outcome.status, outcome.text) == ("crash", "the process ended with exit status 6")
        assert close(case(), child.run(case(), spec))
