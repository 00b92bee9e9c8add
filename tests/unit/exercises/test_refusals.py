"""What is no answer: formulas that cannot be read, that leave the question as it is, and wrong types."""

import pytest
import sympy
from sympy import Derivative, Eq, IndexedBase, Matrix, Sum, Symbol

from attngrad.exercises import ground, judge_formula
from attngrad.notation import DtypeError, RangeError
from attngrad.proofs.claim import Chapter, Definition, Identity
from attngrad.proofs.read import Table

from .answers import one_line

j, l, n = sympy.symbols("j l n")
p, dp, s = IndexedBase("p"), IndexedBase("dp"), IndexedBase("s")

NO_ANSWER = [
    # what leaves the question as it is
    ("eq-vjp", r"\frac{\partial L}{\partial s_j}", "without derivatives"),
    ("eq-vjp", r"\sum_i dp_i \frac{\partial p_i}{\partial s_j}", "without derivatives"),
    ("eq-vjp", "ds_j", "contains ds, which is what is asked for"),
    ("eq-vjp", "ds_j + p_j - p_j", "contains ds"),
    ("eq-vjp", "ds_j = ds_j", "contains ds"),
    ("eq-vjp", IndexedBase("ds")[j], "contains ds"),
    ("eq-vjp", r"\frac12 ds_j + \frac12 p_j \Bigl( dp_j - \sum_i p_i\, dp_i \Bigr)", "contains ds"),
    ("eq-jvp", r"\sum_i J_{ji}\, ts_i = tp_j", "contains tp"),
    ("eq-jvp", r"\sum_j J_{ij}\, ts_j", "only repeats"),
    ("eq-log-softmax", r"\log p_i", "only repeats"),
    ("eq-variance", r"\sum_{i,j} v_i J_{ij} v_j", "only repeats"),
    ("eq-sum-one", r"\sum_l p_l", "only repeats"),
    ("eq-jacobian-symmetric", r"J^\top", "only repeats"),
    ("eq-half", r"2\, p_i (1 - p_i)", "only repeats"),
    # what is about something else
    ("eq-vjp", "0 = 0", "not about the left side, ds_j"),
    ("eq-vjp", r"\sum_j p_j = 1", "not about the left side"),
    ("eq-vjp", r"dp_j = p_j \Bigl( dp_j - \sum_i p_i\, dp_i \Bigr)", "not about the left side"),
    ("eq-vjp", r"ds_j = \frac{\partial L}{\partial s_j}, \quad 0 = 0", "these are several"),
    ("eq-bias", r"\frac{\partial L}{\partial b_{ij}} \le P_{ij}", "an inequality"),
    ("eq-bias", r"dS_{ij}", "dS is not among the names of this exercise: Q, K, V, O, dO, S, P, b, dP"),
    # what cannot be read
    ("eq-vjp", "", "an empty answer"),
    ("eq-vjp", r"p_j (dp_j", "cannot be read: unexpected end of the formula (line 1, column 10)"),
    ("eq-vjp", r"p_j\, dq_j", "unknown symbol 'd'"),
    ("eq-vjp", r"p_i\, dp_i", "i is free on the right but not on the left (line 1, column 3)"),
    ("eq-bias", r"P_{ji}", "(line 1, column 1)"),
    ("eq-vjp", p[j] * IndexedBase("dq")[j], "unknown name dq names of this exercise: s, p, dp, J, L"),
    ("eq-vjp", 0.5 * p[j], "the number 0.5"),
    ("eq-vjp", Derivative(Symbol("L"), Symbol("s")), "Derivative is not read"),
    ("eq-vjp", p[j] * (dp[j] - Sum(p[l] * dp[l], (l, 0, n - 1))), "index runs over 0..n - 1"),
    ("eq-vjp", sympy.sin(p[j]), "sin is not read"),
    ("eq-vjp", Eq(p[j], dp[j]), "not about the left side"),
    ("eq-vjp", p[j] * IndexedBase("dpp")[j], "unknown name dpp; near it: dp"),
]  # fmt: skip


@pytest.mark.parametrize(("label", "answer", "told"), NO_ANSWER, ids=[f"{x[0]} {x[1]}" for x in NO_ANSWER])
def test_what_is_no_answer_is_refused_with_the_reason(label, answer, told):
    found = judge_formula(label, answer)
    assert (found.ok, found.word) == (False, "REFUSED")
    assert told in one_line(found)


def test_the_place_of_an_error_is_shown_in_the_answer_alone():
    told = judge_formula("eq-vjp", "p_j\n  + q_j").told.splitlines()
    assert "line 2, column 5" in " ".join(told)
    assert told[-2:] == ["    + q_j", "      ^"]


def test_derivatives_and_names_are_the_exercise_s_to_allow():
    chain = r"\sum_i dp_i \frac{\partial p_i}{\partial s_j}"
    assert judge_formula("eq-vjp", chain, derivatives=True).ok
    for label, x in (("eq-bias", "b_{ij}"), ("eq-vjp", "s_j")):
        repeated = judge_formula(label, rf"\frac{{\partial L}}{{\partial {x}}}", derivatives=True)
        assert "only repeats" in repeated.told
    form = r"P_{ij} \sum_f dO_{if} (V_{jf} - O_{if})"
    assert judge_formula("eq-bias", form, names=["P", "dO", "V", "O"]).ok
    assert "dO is not among the names" in judge_formula("eq-bias", form, names=["P", "V", "O"]).told


@pytest.mark.parametrize(
    ("label", "told"),
    [
        ("eq-softmax-jacobain", "near it: eq-softmax-jacobian"),
        ("def-ds", "got def-ds, a definition"),
        ("bad-vjp-diagonal", "a wrong formula"),
        ("thm-psd", "an inequality"),
        ("num-overflow", "a measured number"),
        ("zzz", "they stand on the pages"),
    ],
)
def test_a_label_that_is_no_exercise_is_an_error(label, told):
    with pytest.raises(RangeError, match=told):
        judge_formula(label, "1")


@pytest.mark.parametrize("answer", [None, True, 0.5, ["p"], Matrix([1]), b"p"])
def test_what_is_no_formula_is_an_error(answer):
    with pytest.raises(DtypeError, match="expected a formula in LaTeX"):
        judge_formula("eq-vjp", answer)


@pytest.mark.parametrize(
    ("names", "error", "told"),
    [("p", DtypeError, "a sequence of names"), (["q"], RangeError, "among s, p, dp, J, L; got 'q'")],
)
def test_names_that_an_exercise_does_not_have_are_an_error(names, error, told):
    with pytest.raises(error, match=told):
        judge_formula("eq-vjp", "p_j", names=names)


def test_each_equation_of_a_display_of_several_is_an_exercise(monkeypatch):
    table = Table(
        index={"i": "n", "j": "n"}, names={"x": ("n",), "y": ("n",), "z": (), "w": ("n",), "n": "size"}
    )
    claims = (Definition("def-y"), Definition("def-z"), Identity("eq-both", ("def-y", "def-z")))
    page = Chapter("small", table, ({"n": 1}, {"n": 2}), claims)
    text = (
        "$$\ny_i = x_i + x_i\n$$ (def-y)\n\n$$\nz = \\sum_i y_i\n$$ (def-z)\n\n"
        "$$\n\\begin{aligned}\ny_i &= 2 x_i && \\text{(twice)} \\\\\nz &= 2 \\sum_i x_i && \\text{(summed)}\n"
        "\\end{aligned}\n$$ (eq-both)\n"
    )
    for name, value in (("PAGES", ("small",)), ("chapter", lambda p: page), ("load", lambda p: text)):
        monkeypatch.setattr(ground, name, value)
    assert judge_formula("eq-both", r"y_i = 2 x_i").ok
    assert judge_formula("eq-both", r"z = 2 \sum_j x_j").ok
    assert "the left side is 2, your formula gives 1" in judge_formula("eq-both", r"z = \sum_j x_j").told
    assert "begin with the left side of one, y_i, z" in one_line(judge_formula("eq-both", r"2 x_i"))
    assert "not about the left side, y_i, z" in one_line(judge_formula("eq-both", r"x_i = x_i"))
