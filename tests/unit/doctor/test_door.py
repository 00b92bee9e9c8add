"""The file door: cases as files, answers from elsewhere, and files that do not belong together."""

import json
import shutil

import numpy as np
import pytest

from attngrad.doctor import Case, Spec, clip, exchange
from attngrad.doctor.judging import oracle
from attngrad.doctor.running.runners import CannotRun
from attngrad.doctor.telling import door
from attngrad.doctor.telling.door_format import FORMAT
from attngrad.notation import RangeError

SPEC = Spec(framework="numpy", map=clip(3), layout="bnhd", table="rh", options=("cross", "lse"))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Write cases once, and return their path, the cases, and the right answers by name."""
    path = tmp_path_factory.mktemp("door") / "cases.npz"
    planned = door.write_cases(path, SPEC, seed=5, quick=True)
    return path, planned, right_answers(planned, SPEC)


def right_answers(planned, spec):
    """Return the right answers as a program gives them."""
    given = {}
    for case in planned:
        for name, x in oracle.answers(case).items():
            kept = exchange.turned(name, x, spec).astype(np.float64)
            given[f"{case.name}/{name}"] = kept
    return given


def judged(written, answers, tmp_path, names=None):
    """Return the report on answers."""
    np.savez(tmp_path / "answers.npz", **answers)
    return door.judge(written[0], tmp_path / "answers.npz", names=names).report


def test_cases_come_back_as_they_were(written):
    path, planned, _ = written
    read, spec, seed = door.read_cases(path)
    assert (spec, seed) == (SPEC, 5)
    assert [case.name for case in read] == [case.name for case in planned]
    for case, other in zip(read, planned, strict=True):
        for name in ("q", "k", "v", "do", "table", "row"):
            assert np.array_equal(getattr(case, name), getattr(other, name))


def test_right_answers_are_healthy_and_what_a_file_cannot_tell_is_told(written, tmp_path):
    report = judged(written, written[2], tmp_path)
    assert (report.verdict, report.findings) == ("healthy", ())
    assert report.tried == tuple(case.name for case in written[1])
    assert "repeated runs: a file holds one answer to each case" in report.not_tried
    assert report.command.startswith("attention-doctor judge ")


def test_a_wrong_answer_is_a_finding(written, tmp_path):
    answers = dict(written[2])
    name = written[1][0].name
    answers[f"{name}/dtable"] = 2.0 * answers[f"{name}/dtable"]
    report = judged(written, answers, tmp_path)
    assert report.verdict == "wrong"
    wrong = {(finding.case, finding.what) for finding in report.findings if finding.kind == "wrong"}
    assert wrong == {(name, "dtable")}


def test_answers_may_lie_in_a_folder(written, tmp_path):
    for name, x in written[2].items():
        np.save(tmp_path / f"{name.replace('/', '__')}.npy", x)
    first, second = (case.name for case in written[1][:2])
    for name in ("o", "lse", "dq", "dk", "dv", "dtable"):
        (tmp_path / f"{first}__{name}.npy").unlink()
        (tmp_path / f"{second}__{name}.npy").unlink()
    (tmp_path / f"{first}__unsupported.txt").write_text("not on this machine\n")
    (tmp_path / f"{second}__error.txt").write_text("out of memory\n")
    (tmp_path / "answer.cpp").write_text("")
    report = door.judge(written[0], tmp_path).report
    assert f"{first}: not on this machine" in report.not_tried
    assert [(finding.case, finding.kind) for finding in report.findings] == [(second, "error")]
    assert "out of memory" in report.findings[0].text


def test_cases_may_lie_in_a_folder(written, tmp_path):
    folder = tmp_path / "cases"
    door.save(folder, door.load(written[0]))
    name = written[1][0].name
    assert np.load(folder / f"{name}__q.npy").shape == exchange.turned("q", written[1][0].q, SPEC).shape
    assert json.loads((folder / "manifest.json").read_text())["seed"] == 5
    assert [case.name for case in door.read_cases(folder)[0]] == [case.name for case in written[1]]
    np.savez(tmp_path / "answers.npz", **written[2])
    assert door.judge(folder, tmp_path / "answers.npz").report.verdict == "healthy"
    with pytest.raises(RangeError, match="expected an empty folder"):
        door.save(folder, {})


def test_a_case_without_an_answer_is_not_tried(written, tmp_path):
    name = written[1][0].name
    answers = {key: x for key, x in written[2].items() if not key.startswith(f"{name}/")}
    report = judged(written, answers, tmp_path)
    assert f"{name}: not answered" in report.not_tried
    assert name not in report.tried
    assert report.verdict == "healthy"
    with pytest.raises(CannotRun, match=f"none of the cases {name}"):
        judged(written, answers, tmp_path, names=[name])
    with pytest.raises(CannotRun):
        judged(written, {}, tmp_path)


def test_a_wrong_shape_and_an_answer_that_is_missing_are_findings(written, tmp_path):
    first, second = (case.name for case in written[1][:2])
    answers = dict(written[2])
    answers[f"{first}/dq"] = np.swapaxes(answers[f"{first}/dq"], 1, 2)
    del answers[f"{second}/dtable"]
    answers[f"{second}/dsink"] = np.zeros(3)
    answers[f"{second}/dv"] = np.array("nothing")
    kinds = {(one.case, one.what, one.kind) for one in judged(written, answers, tmp_path).findings}
    assert (first, "dq", "shape") in kinds
    assert (second, "dtable", "missing") in kinds
    assert (second, "dv", "shape") in kinds
    assert any(case == second and what == "dsink" and kind == "shape" for case, what, kind in kinds)


def test_a_name_that_nobody_asked_for_is_an_error_with_those_near_it(written, tmp_path):
    name = written[1][0].name
    with pytest.raises(RangeError, match=rf"expected names such as {name}/dtable.*, got {name}/d_table"):
        judged(written, {**written[2], f"{name}/d_table": np.zeros(3)}, tmp_path)
    with pytest.raises(RangeError, match="got tail-9999/dq"):
        judged(written, {**written[2], "tail-9999/dq": np.zeros(3)}, tmp_path)
    with pytest.raises(RangeError, match="other cases"):
        judged(written, {"elsewhere/o": np.zeros(3)}, tmp_path)


def test_answers_with_the_manifest_of_other_cases_are_refused(written, tmp_path):
    manifest = door.load(written[0])["manifest"]
    assert judged(written, {**written[2], "manifest": manifest}, tmp_path).verdict == "healthy"
    other = np.array(str(manifest).replace('"seed": 5', '"seed": 6'))
    for wrong in (other, np.array("no manifest")):
        with pytest.raises(RangeError, match="another manifest"):
            judged(written, {**written[2], "manifest": wrong}, tmp_path)


def test_files_of_another_kind_are_refused(written, tmp_path):
    np.save(tmp_path / "array.npy", np.zeros(3))
    (tmp_path / "text.npz").write_text("nothing")
    np.savez(tmp_path / "objects.npz", x=np.array([None]))
    (tmp_path / "short.npz").write_bytes(written[0].read_bytes()[:1000])
    for name in ("array.npy", "text.npz", "objects.npz", "short.npz"):
        with pytest.raises(RangeError, match="path: expected an"):
            door.load(tmp_path / name)
    np.savez(tmp_path / "answers.npz", **written[2])
    with pytest.raises(RangeError, match="`attention-doctor cases` wrote"):
        door.read_cases(tmp_path / "answers.npz")
    with pytest.raises(FileNotFoundError):
        door.load(tmp_path / "nowhere.npz")
    (tmp_path / "empty").mkdir()
    with pytest.raises(RangeError, match="which has none"):
        door.load(tmp_path / "empty")
    with pytest.raises(RangeError, match="or a folder, got"):
        door.save(tmp_path / "cases.zip", {})


def test_bits_of_a_foreign_bfloat16_are_read(tmp_path):
    q = np.array([1.5, -2.0, 0.375, np.inf])
    bits = (q.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.dtype("V2"))
    np.savez(tmp_path / "answers.npz", x=bits.reshape(2, 2))
    came = np.load(tmp_path / "answers.npz")["x"]
    x = np.zeros((1, 1, 1, 1))
    case = Case("c", "", "bfloat16", x, x, x, x, 1.0)
    assert np.array_equal(door._floats(came, case), q.reshape(2, 2))
    assert door._floats(came, Case("c", "", "float32", x, x, x, x, 1.0)) is came


def test_a_map_of_ones_own_goes_into_a_file_as_its_rows(tmp_path):
    spec = Spec(framework="numpy", map=lambda N, M, start: clip(2)(N, M, start) % 4, map_rows=4)
    planned = door.write_cases(tmp_path / "cases.npz", spec, quick=True)
    read, told, _ = door.read_cases(tmp_path / "cases.npz")
    assert told.R == 4
    assert all(np.array_equal(case.row, other.row) for case, other in zip(read, planned, strict=True))


def test_the_listing_has_every_case(written):
    text = door.listing(written[0])
    assert text.startswith(f"{len(written[1])} cases, seed 5\n")
    for case in written[1]:
        assert f"\n{case.name} " in text
        assert case.why in text
        assert f"N={case.sizes['N']} M={case.sizes['M']}" in text


def test_the_format_names_every_array_option_and_answer():
    for name in (*exchange.FLOATS, *exchange.IN_BIAS_DTYPE, "row", "mask", "keep"):
        assert f"  {name} (" in FORMAT or f"  {name}  " in FORMAT, name
    for name in exchange.TOLD:
        assert name in FORMAT or name in ("exercises", "notes")
    for name in door.ANSWERS:
        assert f"NAME/{name}" in FORMAT
    assert max(map(len, FORMAT.splitlines())) <= 88


def test_the_loop_that_the_format_shows_runs(written, tmp_path, monkeypatch):
    shown = FORMAT.partition("IN PYTHON\n")[2]
    code = "\n".join(line[2:] for line in shown.splitlines()).replace("...", "o, dq = do, q")
    shutil.copyfile(written[0], tmp_path / "cases.npz")
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    report = door.judge("cases.npz", "answers.npz").report
    assert report.verdict == "wrong"
    assert {"o", "dq", "dk"} <= {finding.what for finding in report.findings}
