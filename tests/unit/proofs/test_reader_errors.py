"""Errors say what is wrong, where, and what was perhaps meant."""

from __future__ import annotations

import pytest

from attngrad.proofs.read.errors import ReadError, near
from attngrad.proofs.read.reader import read, read_expression

from .reader_notation import ROW, TABLE


def refusal(text: str, table: object = ROW) -> ReadError:
    with pytest.raises(ReadError) as caught:
        read(text, table)
    return caught.value


def test_the_place_is_shown_with_a_caret() -> None:
    error = refusal("L = c\n  + q_i")
    assert (error.line, error.column, error.position) == (2, 5, 10)
    assert error.message.startswith("unknown symbol 'q'")
    assert str(error) == f"{error.message} (line 2, column 5)\n    + q_i\n      ^"


@pytest.mark.parametrize(
    "text, at",
    [
        ("L = x", "x"),
        (r"L = c + \foo{c}", r"\foo"),
        (r"L = J_{ij} p_{ij}", "p_{ij}"),
        (r"L = c (p_i + J)", "J"),
        (r"\sum_j p_j = p_j", "j"),
        (r"L = \sum_j \sum_{j} p_j", "j}"),
        ("c = p_i", "i"),
        ("L = c/c c", "c"),
        (r"\begin{pmatrix} 1 & 2 = L", r"\begin{pmatrix}"),
        (r"\[ L = x \]", "x"),
        ("L = p", "p"),
    ],
)
def test_the_position_is_the_place_that_stopped_the_reader(text: str, at: str) -> None:
    error = refusal(text)
    assert text[error.position :].startswith(at), text[error.position :]


def test_the_end_of_the_formula_is_a_place() -> None:
    error = refusal("L = c +")
    assert error.position == len("L = c +")
    assert error.message == "unexpected end of the formula"


@pytest.mark.parametrize(
    "text, meant",
    [
        (r"\bar{w} = c", r"\bar{v}"), (r"\mathrm{ls} = c", r"\mathrm{lse}"),
        (r"\mathcal{l} = c", r"\mathcal{L}"),
        ("t = c", "T"), (r"\operatorname{var} = c", r"\operatorname{Var}"), (r"\ta = c", r"\tau"),
    ],
)  # fmt: skip
def test_unknown_names_list_near_matches(text: str, meant: str) -> None:
    assert meant in refusal(text).message


def test_near_matches_leave_out_what_is_far() -> None:
    assert near("x", ["y", "z"]) == []
    assert near("P", ["p", "q"]) == ["p"]


def test_what_states_nothing_and_what_states_something() -> None:
    assert "this states nothing" in refusal("p_i").message
    with pytest.raises(ReadError, match="this states something"):
        read_expression("L = c", ROW)
    assert read_expression("p_i^2", ROW).is_scalar


def test_a_formula_is_a_text() -> None:
    with pytest.raises(TypeError, match="a formula is a text in LaTeX; got int"):
        read(3, TABLE)


def test_tables_do_not_share_state() -> None:
    """Two tables in turn: the ranges of one never reach the other."""
    text = "p_i = s_i"
    first = read(text, ROW)
    read("a_i = b_i", TABLE)
    at_three = read(text, ROW.at(n=3))
    assert read(text, ROW) == first
    letter = first.statements[0].free[0]
    assert str(first.scope.ranges[letter]) == "(1, n)"
    assert str(at_three.scope.ranges[letter]) == "(1, 3)"


def test_fresh_letters_of_array_equations_are_in_the_scope() -> None:
    reading = read(r"J = \operatorname{diag}(p), \quad A = A", ROW)
    first, second = reading.statements
    assert {str(reading.scope.ranges[s]) for s in first.free} == {"(1, n)"}
    assert sorted(str(reading.scope.ranges[s]) for s in second.free) == ["(1, m)", "(1, n)"]
    assert not any(s in ROW.scope().ranges for s in first.free)


def test_every_statement_has_its_reason_and_place() -> None:
    text = r"L &= c && \text{(first)} \\ &\le \tau && \text{(second, $x$)}"
    one, two = read(text, ROW).statements
    assert (one.reason, two.reason) == ("(first)", "(second, $x$)")
    assert text[one.at :].startswith("=")
    assert text[two.at :].startswith(r"\le")
