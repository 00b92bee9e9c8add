"""Formulas as answers: which are accepted, and what is told of those that are not."""

import pytest
import sympy
from sympy import Eq, IndexedBase, KroneckerDelta, Rational, Sum, exp, log, sqrt

from attngrad.exercises import judge_formula

from .answers import identities, one_line, right_answers

i, j, l, a, c = sympy.symbols("i j l a c")
n, M, N, d_k = sympy.symbols("n M N d_k")
p, dp, s, y, dP, P, A, G = (IndexedBase(x) for x in "p dp s y dP P A G".split())

VJP = r"p_j \Bigl( dp_j - \sum_{i} p_i\, dp_i \Bigr)"
INSIDE = r"\frac{1}{\sqrt{d_k}}\, A_{ij} \Bigl( G_{ij} - \sum_{l} A_{il}\, G_{il} \Bigr)"

RIGHT = [
    ("eq-vjp", VJP),
    ("eq-vjp", rf"${VJP}$"),
    ("eq-vjp", rf"ds_j = {VJP}"),
    ("eq-vjp", rf"{VJP} = ds_j"),
    ("eq-vjp", r"ds_l = p_l \Bigl( dp_l - \sum_{i} p_i\, dp_i \Bigr)"),
    ("eq-vjp", rf"\begin{{aligned}} ds_j &= \frac{{\partial L}}{{\partial s_j}} \\ &= {VJP} \end{{aligned}}"),
    ("eq-vjp", r"\sum_i dp_i\, p_i\, (\delta_{ij} - p_j)"),
    ("eq-vjp", r"\sum_i p_j\, p_i\, (dp_j - dp_i)"),
    ("eq-vjp", p[j] * (dp[j] - Sum(p[l] * dp[l], (l, 1, n)))),
    ("eq-vjp", Eq(IndexedBase("ds")[j], p[j] * dp[j] - p[j] * Sum(p[l] * dp[l], (l, 1, n)))),
    ("eq-vjp-vector", r"p \odot (dp - (p^\top dp)\, \mathbf 1)"),
    ("eq-softmax-jacobian", p[i] * (KroneckerDelta(i, j) - p[j])),
    ("eq-softmax-jacobian", exp(s[i]) / Sum(exp(s[l]), (l, 1, n)) * (KroneckerDelta(i, j) - p[j])),
    ("eq-sum-one", 1),
    ("eq-log-softmax", s[i] - sympy.Symbol("lse")),
    ("eq-log-softmax", s[i] - log(Sum(exp(s[l]), (l, 1, n)))),
    ("eq-cross-entropy", p[j] * Sum(y[i], (i, 1, n)) - y[j]),
    ("eq-distance-to-flat", Sum(p[i] ** 2, (i, 1, n)) - 1 / n),
    ("eq-variance-pairs", Rational(1, 2) * Sum(p[i] * p[j] * IndexedBase("v")[i] ** 2, (i, 1, n), (j, 1, n))
     * 2 - Sum(p[i] * IndexedBase("v")[i], (i, 1, n)) ** 2),
    ("eq-masked-vjp", r"w_j (dp_j - \sum_i w_i\, dp_i)"),
    ("eq-bias-inside", INSIDE),
    ("eq-bias-inside", A[i, j] * (G[i, j] - Sum(A[i, l] * G[i, l], (l, 1, M))) / sqrt(d_k)),
    ("eq-bias", r"P_{ij} \sum_{f} dO_{if}\, (V_{jf} - O_{if})"),
    ("eq-jacobian-symmetric", "J"),
    ("eq-bias-cap", r"\rho_{ij} P_{ij} (dP_{ij} - \sum_l P_{il} dP_{il})"),
]  # fmt: skip


@pytest.mark.parametrize(("label", "answer"), RIGHT, ids=lambda x: str(x)[:40])
def test_a_right_answer_is_proved_in_whatever_form(label, answer):
    found = judge_formula(label, answer)
    assert found.ok
    assert found.word == "PROVED"
    assert str(found) == repr(found) == f"{label}: PROVED for every size"


def test_a_worked_instance_is_exact():
    found = judge_formula("eq-example-vjp", r"\frac17 \begin{pmatrix} 8 \\ -8 \\ 0 \end{pmatrix}")
    assert (found.ok, str(found)) == (True, "eq-example-vjp: EXACT at n = 3, every entry")


@pytest.mark.slow
@pytest.mark.parametrize("label", identities())
def test_every_identity_of_the_book_is_an_exercise(label):
    for answer in right_answers(label):
        found = judge_formula(label, answer)
        assert found.ok, found


# --- counterexamples ----------------------------------------------------------------------------


def test_the_counterexample_is_the_smallest_with_plain_numbers_and_names_the_mistake():
    found = judge_formula("eq-bias-inside", r"A_{ij} (G_{ij} - \sum_l A_{il}\, G_{il})")
    assert not found.ok
    assert str(found).splitlines()[:3] == [
        r"eq-bias-inside: REFUTED at N = 1, M = 2, d_k = 4, i = 1, j = 1, G = ((0,",
        r"  1)), K = 0, Q = 0, \beta = 0; so A = ((1/2, 1/2)): the left side is -1/8,",
        r"  your formula gives -1/4",
    ]
    assert "known mistake: bias-inside-vjp-factor-dropped. Forget the scale" in found.told
    assert "section 3.3" in found.told


SMALLEST = [
    ("eq-vjp", r"p_j\, dp_j", "n = 1", "the left side is 0, your formula gives 1"),
    ("eq-vjp", r"p_j (1 - p_j)\, dp_j", "n = 2", "p = (1/2, 1/2)"),
    ("eq-vjp", r"p_j (dp_j - \frac1n \sum_i dp_i)", "n = 2", "exponents in units of log 2"),
    ("eq-rows-vjp", r"P \odot (dP - \mathbf 1\, \mathbf 1^\top (P \odot dP))", "n = 1, N = 2", "((1), (1))"),
    ("eq-rows-jacobian", r"P_{ai} (\delta_{ab} \delta_{ij} - P_{bj})", "n = 1, N = 2", "flattened-batch"),
    ("eq-bias", r"P_{ij} (dP_{ij} - \sum_a P_{aj}\, dP_{aj})", "N = 1, M = 2", "mistake: mean over queries"),
    ("eq-bias-dq", r"\sum_j dS_{ij} K_{jc}", "N = 1, M = 2, d_k = 1", r"\alpha = 2"),
    ("eq-masked-vjp", r"w_j (dp_j - \sum_i p_i\, dp_i)", "n = 2", r"\mu = (0, 1)"),
    ("eq-cross-entropy-distribution", r"p_j", "n = 1", "y = (1)"),
    ("eq-bias-table", r"\sum_{i,j} dS_{ij}", "R = 2", r"\varphi = ((2, 1))"),
    ("eq-bias-cap", r"P_{ij} (dP_{ij} - \sum_l P_{il} dP_{il})", "M = 2", r"\kappa'(0) = "),
]  # fmt: skip


@pytest.mark.parametrize(
    ("label", "answer", "sizes", "told"), SMALLEST, ids=[f"{x[0]} {x[1]}" for x in SMALLEST]
)
def test_a_counterexample_has_the_smallest_sizes_at_which_the_answer_fails(label, answer, sizes, told):
    found = judge_formula(label, answer)
    assert found.word == "REFUTED"
    assert f"{sizes}, " in one_line(found)
    assert told in one_line(found)


def test_the_first_counterexample_of_a_derivation_names_its_line():
    wrong = r"\begin{aligned} ds_j &= \sum_i dp_i\, p_i (\delta_{ij} - p_j) \\ &= p_j\, dp_j \end{aligned}"
    assert "line 2 goes from 0 to 1" in one_line(judge_formula("eq-vjp", wrong))


def test_a_letter_in_two_roles_is_told_and_judged_as_it_stands():
    found = judge_formula("eq-bias-inside", r"\sum_{i,j} G_{ij}\, A_{ij} (1 - A_{ij})")
    assert found.word == "REFUTED"
    assert "i is free in this formula, so no sum may be over it" in found.told
    assert "known mistake: bias-inside-vjp-literal" in found.told
    harmless = judge_formula("eq-vjp", r"p_j (dp_j - \sum_j p_j\, dp_j)")
    assert (harmless.ok, harmless.word) == (False, "REFUSED")
    assert "right, but not as it is written: j is free" in one_line(harmless)


def test_what_is_neither_proved_nor_refuted_is_undecided():
    advantage = r"(dp_j - \sum_i p_i\, dp_i)"
    found = judge_formula("eq-vjp", rf"\frac{{p_j\, {advantage}^2}}{{{advantage}}}")
    assert (found.ok, found.word) == (False, "UNDECIDED")
    assert "a denominator is 0" in one_line(found)


# --- known mistakes -----------------------------------------------------------------------------

NAMED = [
    ("eq-vjp", r"dp_j\, p_j - p_j^2\, dp_j", "softmax-vjp-diagonal-only, shown as bad-vjp-diagonal. Keep"),
    ("eq-answer-vjp", r"p_j\, dp_j", "softmax-vjp-elementwise"),
    ("eq-softmax-jacobian", r"-p_i (\delta_{ij} - p_j)", "softmax-vjp-sign-flipped"),
    ("eq-bias-value-form", r"\alpha P_{ij} \sum_f dO_{if} (V_{jf} - O_{if})", "known mistake: scaled"),
    ("eq-bias-dropout", r"P_{ij} (dP_{ij} - \sum_l P_{il} dP_{il})", "dropout-vjp-mask-dropped"),
]  # fmt: skip


@pytest.mark.parametrize(("label", "answer", "name"), NAMED)
def test_a_known_mistake_is_named_in_whatever_form_it_comes(label, answer, name):
    assert name in one_line(judge_formula(label, answer))


def test_an_unknown_mistake_is_refuted_without_a_name():
    found = judge_formula("eq-vjp", r"3\, p_j\, dp_j")
    assert found.word == "REFUTED"
    assert "known mistake" not in found.told


# --- what is not told ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("label", "answer"),
    [
        ("eq-example-mean", "3"),
        ("eq-bias-tanh-value", r"\frac45"),
        ("eq-vjp-sum", "1"),
        ("eq-example-vjp", r"\begin{pmatrix} 1 \\ 2 \\ 3 \end{pmatrix}"),
        ("eq-example-mean", r"\begin{aligned} \sum_i p_i dp_i &= 3 \\ &= 3 \end{aligned}"),
    ],
)
def test_where_a_number_is_asked_for_the_right_one_is_not_told(label, answer):
    found = judge_formula(label, answer)
    assert found.word == "REFUTED"
    assert "the left side is another number" in one_line(found)
    assert one_line(found).count("the left side is ") == 1
    assert "goes from" not in one_line(found)


def test_the_page_is_the_ground(tmp_path, monkeypatch):
    """With another definition on the page the printed answer is wrong, and is told to be."""
    from attngrad.proofs.page import load

    text = load("02_softmax_jacobian")
    assert text.count(r"L = \sum_{i} dp_i\, p_i") == 1
    page = tmp_path / "book" / "text" / "02_softmax_jacobian.md"
    page.parent.mkdir(parents=True)
    page.write_text(text.replace(r"L = \sum_{i} dp_i\, p_i", r"L = 2 \sum_{i} dp_i\, p_i"))
    assert judge_formula("eq-vjp", VJP).ok
    monkeypatch.setenv("ATTNGRAD_BOOK", str(tmp_path))
    assert judge_formula("eq-vjp", VJP).word == "REFUTED"
    assert judge_formula("eq-vjp", f"2 {VJP}").ok
