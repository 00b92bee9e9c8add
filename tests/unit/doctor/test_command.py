"""The command: its statuses, options and forms of the report."""

import argparse
import json
from pathlib import Path

import numpy as np
import pytest

from attngrad.doctor import Spec, clip, t5, window
from attngrad.doctor.__main__ import main
from attngrad.doctor.telling import asking
from attngrad.mistakes.whole import STATE, WHOLE
from attngrad.notation import RangeError

FILE = Path(__file__).with_name("numpy_subject.py")


def run(*words):
    """Return the status of the command in this process, that of argparse included."""
    try:
        return main([str(word) for word in words])
    except SystemExit as ended:
        return ended.code


def test_the_status_is_0_for_healthy_1_for_wrong_2_for_what_could_not_run(capsys):
    assert run(f"{FILE}:healthy", "--quick") == 0
    assert ": HEALTHY\n" in capsys.readouterr().out
    assert run(f"{FILE}:unscaled", "--quick") == 1
    told = capsys.readouterr()
    assert ": WRONG\n" in told.out
    assert f"again: attention-doctor {FILE}:unscaled --quick --case " in told.out
    for words, reason in (
        ((f"{FILE}:heathy",), "healthy"),
        ((f"{FILE.with_name('nowhere.py')}:healthy",), "no such file"),
        ((f"{FILE}:nothing", "--quick"), "none of it"),
        ((f"{FILE}:healthy", "--case", "tail-9999"), "expected a name such as"),
        ((f"{FILE}:healthy", "--map", "t6:1"), "--map: expected one of"),
        ((f"{FILE}:healthy", "--head-dims", "many"), "--head-dims: expected a number"),
        ((f"{FILE}:healthy", "--spec", "nowhere.json"), "No such file"),
        ((f"{FILE}:healthy", "--limit-s", 0), "expected a positive number"),
        ((f"{FILE}:healthy", "--unknown"), "unrecognized arguments"),
        ((f"{FILE}:healthy", "--dtypes", "float31"), "dtypes: expected one of"),
        ((), "a target is needed"),
    ):
        assert run(*words) == 2, words
        told = capsys.readouterr()
        assert (told.out, reason in told.err) == ("", True), (words, told)


def test_a_mistake_of_the_doctor_is_not_blamed_on_the_implementation(monkeypatch, capsys):
    from attngrad.doctor.judging import verdicts

    monkeypatch.setattr(verdicts, "judge", lambda *_: 1 // 0)
    assert run(f"{FILE}:healthy", "--quick") == 2
    told = capsys.readouterr().err
    assert "ZeroDivisionError" in told
    assert "a mistake of the doctor" in told


def test_low_precision_is_1_unless_it_is_allowed(monkeypatch, capsys):
    from attngrad.doctor.judging import verdicts

    monkeypatch.setattr(verdicts, "verdict", lambda findings: "imprecise")
    assert run(f"{FILE}:healthy", "--quick") == 1
    assert run(f"{FILE}:healthy", "--quick", "--allow-low-precision") == 0
    monkeypatch.setattr(verdicts, "verdict", lambda findings: "wrong")
    assert run(f"{FILE}:healthy", "--quick", "--allow-low-precision") == 1
    capsys.readouterr()


def test_the_report_is_printed_as_json_and_markdown(capsys):
    assert run(f"{FILE}:unscaled", "--quick", "--json", "--seed", 3) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["verdict"], told["seed"], told["spec"]["framework"]) == ("wrong", 3, "numpy")
    assert run(f"{FILE}:unscaled", "--quick", "--markdown", "--case", "basic") == 1
    assert capsys.readouterr().out.startswith(f"## `{FILE}:unscaled`: wrong\n")
    assert run(f"{FILE}:unscaled", "--json", "--markdown") == 2


def test_the_mistakes_are_listed(capsys):
    assert run("--list-mistakes") == 0
    told = capsys.readouterr().out
    assert all(f"{id}\n    {whole.text}\n" in told for id, whole in {**WHOLE, **STATE}.items())


def changes(*words):
    """Return the fields that a command line tells."""
    parser = argparse.ArgumentParser()
    asking.add_fields(parser)
    return asking.changes(parser.parse_args(words))


def test_options_tell_the_fields_of_a_specification(tmp_path):
    words = """--dtypes float32,bfloat16 --layout bnhd --map t5:32,128 --table rh --causal both --scale 0.5
        --head-dims 64,128 --length-multiple 16 --options cross,lse --device cuda --framework torch
        --bias-dtype float32 --alignment top-left --deterministic"""
    told = changes(*words.split())
    assert Spec(**told) == Spec(
        dtypes=("float32", "bfloat16"), layout="bnhd", map=t5(32, 128), table="rh", causal="both",
        scale=0.5, head_dims=(64, 128), length_multiple=16, options=("cross", "lse"), device="cuda",
        bias_dtype="float32", alignment="top-left", deterministic=True,
    )  # fmt: skip
    assert changes() == {}
    assert changes("--bias", "1hnm,bhnm") == {"bias": ("1hnm", "bhnm")}
    assert changes("--scale", "default") == {"scale": "default"}
    assert changes("--bias", "") == {"bias": ()}
    file = tmp_path / "spec.json"
    file.write_text(json.dumps({"dtypes": ["float64"], "causal": "always"}))
    assert changes("--spec", str(file), "--causal", "both") == {"dtypes": ("float64",), "causal": "both"}
    file.write_text(Spec(map=window(7, 7)).to_json())
    assert Spec(**changes("--spec", str(file))) == Spec(map=window(7, 7))
    fields = ['{"dtypes": ["float31"]}', '{"types": []}', '{"map": {"kind": "callable"}}']
    for text in ("nothing", "[]", *fields):
        file.write_text(text)
        with pytest.raises(RangeError, match="--spec: expected"):
            changes("--spec", str(file))


def test_a_map_is_told_by_a_word_and_its_numbers():
    assert asking.map_of("clip:8") == clip(8)
    assert asking.map_of("t5:32,128,one-directional") == t5(32, 128, False)
    assert asking.map_of("alibi:4,learned").learned is True
    assert asking.map_of("window:3,4").R == window(3, 4).R
    for text in ("clip", "clip:1,2,3", "clip:x", "clip:-1", "t5:1", "none:1"):
        with pytest.raises((RangeError, ValueError)):
            asking.map_of(text)


def test_the_command_that_is_told_again_is_the_same_but_for_cases_and_forms():
    words = ["--case", "a", "my file.py:f", "--case=b", "--json", "--out", "x", "--seed", "4", "--out=y"]
    assert asking.command("attention-doctor", words) == "attention-doctor 'my file.py:f' --seed 4"


def test_the_format_is_printed_and_cases_need_a_place(capsys):
    assert run("cases", "--explain") == 0
    assert "NAME/dtable" in capsys.readouterr().out
    assert run("cases") == 2
    assert run("cases", "--out", "cases.zip") == 2
    assert run("judge", "nowhere.npz", "nowhere.npz") == 2
    assert run("show", "nowhere.npz") == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_wrong_gradient_has_the_same_bits_in_two_runs(capsys):
    told = []
    for _ in range(2):
        run(f"{FILE}:unscaled", "--quick", "--json")
        report = json.loads(capsys.readouterr().out)
        told.append([(one["case"], one["text"]) for one in report["findings"]])
    assert told[0] == told[1]
    assert np.size(told) > 0
