"""Recorded rows: written and read back, refused when malformed, shown, marked when stale."""

import getpass
import json
import re
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from attngrad import bench
from attngrad.bench import Row, Run, Spread
from attngrad.bench.measuring import code_of
from attngrad.bench.provenance import KEYS, provenance
from attngrad.bench.results import folder, read, write
from attngrad.bench.table import format_time, run_lines, stale_rows
from attngrad.notation import RangeError

OPERATOR = bench.find("softmax-vjp")
FACTS = {
    "date": "2001-02-03",
    "device": "Planted 1",
    "system": "Linux x86_64",
    "threads": 1,
    "python": "3.11.0",
    "numpy": "2.0.0",
    "torch": "2.4.0",
    "rounds": 5,
    "sample_s": 0.01,
    "flush": False,
}


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty book that stands in the place of the real one."""
    (tmp_path / "book" / "text").mkdir(parents=True)
    monkeypatch.setenv("ATTNGRAD_BOOK", str(tmp_path))
    monkeypatch.delenv("ATTNGRAD_BENCH", raising=False)
    return tmp_path


def planted(name="256", device="cpu") -> Run:
    """Return a run with planted numbers and the current code: 2 ms, then 3 ms with memory, then nothing."""
    case = OPERATOR.case(name, device)
    codes = {one.name: code_of(OPERATOR, one, device) for one in OPERATOR.on(device)}
    rows = (
        Row("autograd", codes["autograd"], Spread(1.9e-3, 2e-3, 2.2e-3), Spread(1.0, 1.0, 1.0)),
        Row(
            "closed form",
            codes["closed form"],
            Spread(3e-3, 3e-3, 3e-3),
            Spread(1.4, 1.5, 1.625),
            5 << 20,
            limit=0.256,
            pages=12,
            error=1.24e-7,
            repeats=False,
            rest=Spread(-0.01, 0.025, 0.3),
        ),
        Row("torch.compile", codes["torch.compile"], note="no compiler"),
    )
    costs = (OPERATOR.flops(case.sizes), 4 * OPERATOR.moved(case.sizes))
    return Run(OPERATOR.name, device, name, case.sizes, case.dtype, *costs, FACTS, rows)


def test_what_is_written_is_read_back(book):
    run = planted()
    path = write(run, folder())
    assert path == book / "book" / "results" / "softmax-vjp.cpu.json"
    assert bench.recorded("softmax-vjp", "cpu") == {"256": run}
    assert bench.recorded("softmax-vjp", "cuda") == {}


def test_a_run_takes_the_place_of_its_case_and_of_no_other(book):
    for run in (planted("1024"), planted("256"), replace(planted("1024"), flops=7)):
        write(run, folder())
    runs = bench.recorded("softmax-vjp", "cpu")
    assert list(runs) == ["256", "1024"]
    assert runs["1024"].flops == 7
    assert runs["256"] == planted("256")


def malformed() -> dict[str, tuple]:
    """Return ways to spoil a file, by name: how, and what the error must say."""

    def at(*keys, value=None, drop=False):
        def spoil(data):
            for key in keys[:-1]:
                data = data[key]
            if drop:
                del data[keys[-1]]
            else:
                data[keys[-1]] = value

        return spoil

    row = ("runs", 0, "rows", 1)
    return {
        "a key lost": (at("runs", 0, "flops", drop=True), "run 0: expected an object with .'bytes'"),
        "a key more": (at(*row, "speed", value=1), "run 0, row 1: expected an object"),
        "no quartiles": (at(*row, "time", value=0.3), "row 1: expected time to be dict | None, got 0.3"),
        "text for a number": (at(*row, "memory", value="5"), "expected memory to be int | None, got '5'"),
        "quartiles in disorder": (at(*row, "time", "low", value=1.0), "expected quartiles 0 < low <= median"),
        "a time of zero": (at(*row, "time", "low", value=0.0), "expected quartiles 0 < low <= median"),
        "a date lost": (at("runs", 0, "provenance", "date", drop=True), "run 0, provenance: expected an"),
        "a share out of order": (
            at(*row, "rest", value={"low": 0.2, "median": 0.1, "high": 0.3}),
            "row 1: expected quartiles low <= median <= high, got",
        ),
        "pages that are no number": (at(*row, "pages", value="7"), "expected pages to be int | None, got"),
        "rows of another": (at("operator", value="x"), "expected rows of softmax-vjp on cpu, got x on cpu"),
        "rows no list": (at("runs", 0, "rows", value={}), "run 0: expected rows to be list, got {}"),
        "runs no objects": (at("runs", value=[3]), "run 0: expected an object with .* got int"),
    }


@pytest.mark.parametrize("fault", malformed())
def test_a_malformed_file_is_refused_by_name(book, fault):
    path = write(planted(), folder())
    spoil, told = malformed()[fault]
    data = json.loads(path.read_text())
    spoil(data)
    path.write_text(json.dumps(data))
    with pytest.raises(bench.ResultsError, match=rf"^softmax-vjp\.cpu\.json.*{told}"):
        bench.show("softmax-vjp")
    before = path.read_text()
    with pytest.raises(bench.ResultsError):
        write(planted(), folder())
    assert path.read_text() == before


def test_a_file_that_is_no_json_is_refused(book):
    path = write(planted(), folder())
    path.write_text("{")
    with pytest.raises(bench.ResultsError, match=r"softmax-vjp\.cpu\.json: expected JSON, got"):
        read(path, "softmax-vjp", "cpu")


def test_recorded_rows_are_printed(book, capsys):
    write(planted(), folder())
    bench.show("softmax-vjp", "cpu")
    assert capsys.readouterr().out == (
        "softmax-vjp on cpu: s, dp -> p, ds\n"
        "\n"
        "B=1 H=8 N=256 M=256, float32\n"
        "                ratio  quartiles    time GFLOP/s  GB/s    MiB\n"
        "autograd         1.00  1.00-1.00 2.00 ms    2.36  4.19      -\n"
        "closed form      1.50  1.40-1.62 3.00 ms    1.57  2.80    5.0\n"
        "attngrad.layers  not measured\n"
        "torch.compile    not measured  no compiler\n"
        "\n"
        "                    limit    pages    error     bits\n"
        "closed form          0.26       12  1.2e-07    other\n"
        "\n"
        "recorded 2001-02-03, Planted 1, 1 thread, 5 rounds\n"
        "Python 3.11.0, NumPy 2.0.0, torch 2.4.0, Linux x86_64\n"
    )


def test_one_case_can_be_chosen(book, capsys):
    for name in ("256", "1024"):
        write(planted(name), folder())
    bench.show("softmax-vjp", case="1024")
    shown = capsys.readouterr().out
    assert "N=1024" in shown
    assert "N=256" not in shown


def test_where_nothing_is_recorded_nothing_is_measured(book, capsys):
    bench.show("softmax-vjp", "cuda")
    assert capsys.readouterr().out == (
        "softmax-vjp on cuda: s, dp -> p, ds\n"
        "\n"
        "autograd         not measured\n"
        "closed form      not measured\n"
        "attngrad.layers  not measured\n"
        "torch.compile    not measured\n"
    )


def test_without_a_book_nothing_is_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ATTNGRAD_BOOK", str(tmp_path))
    assert folder() is None
    bench.show("softmax-vjp", "cpu", live=False)
    assert capsys.readouterr().out.count("not measured") == len(OPERATOR.on("cpu"))


def test_the_book_is_found_from_a_chapter(tmp_path, monkeypatch):
    """As for an installed library, beside which no book lies: the working directory and the one above."""
    monkeypatch.delenv("ATTNGRAD_BOOK", raising=False)
    monkeypatch.setattr("attngrad.bench.results.__file__", str(tmp_path.joinpath(*"abcd", "results.py")))
    (tmp_path / "mine" / "book" / "text").mkdir(parents=True)
    (tmp_path / "mine" / "chapters").mkdir()
    monkeypatch.chdir(tmp_path / "mine" / "chapters")
    assert folder() == tmp_path / "mine" / "book" / "results"
    monkeypatch.chdir(tmp_path)
    assert folder() is None


def changed(run: Run, name: str, **fields) -> Run:
    """Return a run with one row changed."""
    rows = tuple(replace(row, **fields) if row.contender == name else row for row in run.rows)
    return replace(run, rows=rows)


def test_a_row_of_other_code_is_marked(book, capsys):
    write(changed(planted(), "closed form", fingerprint="0" * 12), folder())
    bench.show("softmax-vjp")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines if line.endswith("stale")] == ["closed form"]


def test_stale_rows():
    run = planted()
    assert stale_rows(OPERATOR, run) == set()
    assert stale_rows(OPERATOR, changed(run, "closed form", fingerprint="0" * 12)) == {"closed form"}
    # Every ratio is to the first row; a row without a time cannot be stale.
    assert stale_rows(OPERATOR, changed(run, "autograd", fingerprint="0" * 12)) == {"autograd", "closed form"}
    assert stale_rows(OPERATOR, changed(run, "torch.compile", fingerprint="0" * 12)) == set()
    for other in (
        replace(run, case="17"),
        replace(run, sizes={**run.sizes, "N": 255}),
        replace(run, dtype="bfloat16"),
    ):
        assert stale_rows(OPERATOR, other) == {"autograd", "closed form"}


def test_a_row_of_a_contender_that_is_gone_is_shown_as_stale():
    run = planted()
    gone = replace(run.rows[1], contender="old kernel")
    lines = list(run_lines(OPERATOR, replace(run, rows=(*run.rows, gone)), "recorded"))
    assert next(line for line in lines if line.startswith("old kernel")).endswith("stale")


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.0, "2.00 s"), (0.0999, "99.9 ms"), (1e-4, "100 us"), (3e-7, "0.300 us")]
)
def test_times_have_three_digits(seconds, text):
    assert format_time(seconds) == text


def test_provenance_is_complete_and_names_no_host_no_user_and_no_folder():
    facts = provenance("cpu", rounds=7, sample_s=0.5, flush=False)
    assert tuple(facts) == KEYS
    assert all(value not in ("", None) for value in facts.values())
    assert (facts["rounds"], facts["sample_s"], facts["flush"]) == (7, 0.5, False)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", facts["date"])
    assert private(json.dumps(facts)) == []
    assert private(json.dumps({"device": f"x {socket.gethostname()}", "at": str(Path.cwd())})) != []


def private(text: str) -> list[str]:
    """Return what a text holds that belongs to a person or a machine."""
    names = [socket.gethostname(), str(Path.home()), str(Path.cwd())]
    names += [getpass.getuser()] if len(getpass.getuser()) > 4 else []
    paths = re.findall(r"(?<![\w.])/[a-z]+/[^\s\"]*|[A-Z]:\\\\", text)
    return [name for name in names if len(name) > 1 and name in text] + paths


RECORDED = sorted((Path(__file__).parents[2] / "book" / "results").glob("*.json"))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_the_files_of_the_book_are_sound(path):
    name, device = path.stem.split(".")
    runs = read(path, name, device)
    assert set(runs) <= {case.name for case in bench.find(name).cases_on(device)}
    for run in runs.values():
        case = bench.find(name).case(run.case, device)
        assert len(run.rows) == len(bench.find(name).on(device, case))
        assert run.provenance["rounds"] >= 5
    assert private(path.read_text()) == []


def test_the_book_has_rows_of_every_operator_on_the_processor():
    assert {path.stem for path in RECORDED} >= {f"{name}.cpu" for name in bench.OPERATORS}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ("softmax",),
            "operator: expected one of 'softmax-vjp', .*'table-gradient', 'table-backward', got 'softmax'",
        ),
        (("softmax-vjp", "tpu"), "device: expected one of 'cpu', 'cuda', got 'tpu'"),
    ],
)
def test_unknown_names_are_named(arguments, told):
    with pytest.raises(RangeError, match=told):
        bench.show(*arguments)


def test_unknown_cases_contenders_and_words_are_named(monkeypatch):
    with pytest.raises(RangeError, match=r"case of softmax-vjp on cpu: .* '256', '1024', got '4096'"):
        bench.show("softmax-vjp", case="4096")
    with pytest.raises(RangeError, match=r"contender for bias-gradient on cpu: .* got 'SDPA efficient'"):
        bench.find("bias-gradient").contender("SDPA efficient", "cpu")
    monkeypatch.setenv("ATTNGRAD_BENCH", "live, fast")
    with pytest.raises(RangeError, match="ATTNGRAD_BENCH: expected words among live, compile, got fast"):
        bench.show("softmax-vjp")
