"""The command line: faults are shown and counted, a changed page is noticed, a formula is explained."""

import shutil
from pathlib import Path

import pytest

from attngrad.proofs.__main__ import main
from attngrad.proofs.ask import ask
from attngrad.proofs.claim import LedgerError
from attngrad.proofs.page import book_root
from attngrad.proofs.read import ReadError

PAGE = "02_softmax_jacobian"


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the chapters' texts and the ledger page, which the proofs then read."""
    root = book_root()
    (tmp_path / "book").mkdir()
    shutil.copytree(root / "book" / "text", tmp_path / "book" / "text")
    shutil.copy(root / "book" / "ledger.md", tmp_path / "book")
    monkeypatch.setenv("ATTNGRAD_BOOK", str(tmp_path))
    return tmp_path


def edit(book: Path, old: str, new: str) -> None:
    text = book / "book" / "text" / f"{PAGE}.md"
    before = text.read_text(encoding="utf-8")
    assert old in before
    text.write_text(before.replace(old, new, 1), encoding="utf-8")


ERRORS = {
    "eq-answer-jacobian": (r"p_i\,(\delta_{ij} - p_j)", r"p_i\,(\delta_{ij} + p_j)"),
    "eq-softmax-jacobian": (r"&= p_i\, \delta_{ij} - p_i\, p_j", r"&= p_i\, \delta_{ij} - p_j\, p_j"),
    "eq-temperature": (r"\frac{1}{\tau}\, \pi_i", r"\pi_i"),
    "thm-norm": (r"\lVert J \rVert_2 \le \tfrac12", r"\lVert J \rVert_2 \le \tfrac34"),
    "num-overflow": (r"\approx 709.78", r"\approx 709.87"),
    "eq-vjp": (r"&& \text{(chain rule)}", ""),
    "bad-vjp-diagonal": (r"p_j\,(1 - p_j)\, dp_j", r"p_j (dp_j - \sum_{i} p_i\, dp_i)"),
}


def test_each_edited_formula_fails(book: Path, capfd: pytest.CaptureFixture) -> None:
    for old, new in ERRORS.values():
        edit(book, old, new)
    assert main(["--no-mutants"]) == 1
    told = capfd.readouterr().err
    assert [label for label in ERRORS if f"FAULT {label}: " not in told] == []


def test_a_page_without_edits_passes(book: Path) -> None:
    assert main(["--no-mutants", "--check"]) == 0


def test_a_harmless_change_of_meaning_makes_the_ledger_page_stale(book: Path, capfd) -> None:
    edit(book, r"J_{ij} = \frac{\partial p_i}{\partial s_j}", r"J_{ji} = \frac{\partial p_i}{\partial s_j}")
    assert main(["--no-mutants"]) == 0
    assert main(["--no-mutants", "--check"]) == 1
    told = capfd.readouterr().err
    assert "not what the proofs give" in told
    assert "+def-jacobian: read as" in told


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("$$ (eq-null)", "$$ (eq-nul)", "without a ledger entry: eq-nul"),
        ("$$ (eq-null)", "$$ (EQ null)", "lower-case letters"),
    ],
)
def test_labels_that_do_not_match_stop_the_run(book: Path, capfd, old: str, new: str, words: str) -> None:
    edit(book, old, new)
    assert main(["--no-mutants"]) == 2
    assert words in capfd.readouterr().err


def test_a_library_without_its_book_says_so(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("ATTNGRAD_BOOK", str(tmp_path))
    assert main(["x = x"]) == 2
    assert "clone the book" in capsys.readouterr().err


def test_a_formula_nested_too_deeply_is_said_in_one_line(capsys: pytest.CaptureFixture) -> None:
    deep = "1 + " + "(1 + " * 400 + "1" + ")" * 400
    assert main([f"{deep} = 3"]) == 2
    assert "error:" in capsys.readouterr().err


class TestAsk:
    """What an author gets to hear about one formula."""

    def test_definitions_are_found(self) -> None:
        told = ask(r"\sum_i J_{ij} = 0", PAGE)
        assert "sum over i in 1..n of J[i, j]" in told
        assert "with def-jacobian, def-softmax:\nPROVED" in told

    def test_a_wrong_one_gets_its_counterexample(self) -> None:
        assert "REFUTED: at n = 2" in ask(r"\sum_i J_{ij} = 1", PAGE)

    def test_a_name_with_several_definitions_is_named(self) -> None:
        several = "L has several definitions: def-loss, def-rows-loss, def-log-loss; the first is taken"
        assert several in ask("L = L", PAGE)

    def test_hypotheses_are_taken(self) -> None:
        tex, uses = r"\frac{\partial C}{\partial s_j} = p_j - y_j", ("def-cross-entropy",)
        assert "REFUTED" in ask(tex, PAGE, uses)
        assert "PROVED" in ask(tex, PAGE, uses, ("def-targets",))

    def test_errors_point_at_the_place(self) -> None:
        with pytest.raises(ReadError, match="q_i"):
            ask("p_i = q_i", PAGE)
        with pytest.raises(LedgerError, match="def-softmax is no hypothesis"):
            ask("p_i = p_i", PAGE, (), ("def-softmax",))
        with pytest.raises(LedgerError, match="no label 'def-nothing'"):
            ask("p_i = p_i", PAGE, ("def-nothing",))
