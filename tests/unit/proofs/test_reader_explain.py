"""How a formula was read, in words; and one fingerprint for all ways to print one object."""

# ruff: noqa: E501 (a formula stays on one line)
from __future__ import annotations

from dataclasses import replace

import pytest
from sympy import Dummy, Sum

from attngrad.proofs.read.reader import explain, fingerprint, read

from .reader_notation import PAIR, ROW

EXPLAINED = [
    (r"\frac{\partial p_i}{\partial s_j} = p_i (\delta_{ij} - p_j)",
     "for all i in 1..n, j in 1..n:  (derivative of p[i] by s[j]) = (([i = j] - p[j]) * p[i])"),
    (r"p_i = \frac{e^{s_i}}{\sum_l e^{s_l}} \quad \text{(definition)}",
     "for all i in 1..n:  p[i] = (exp(s[i]) / (sum over l in 1..n of exp(s[l])))  [(definition)]"),
    (r"\lVert J \rVert_2 \le \tfrac12", "norm2(J) <= (1/2)"),
    (r"L \approx 0.25", "L is about (1/4)"),
    (r"J^\top v = v", "for all row in 1..n:  (sum over k1 in 1..n of (J[k1, row] * v[k1])) = v[row]"),
    (r"L = -x^2".replace("x", "c"), "L = (-(c^2))"),
    (r"L = c - \frac{c}{2 \tau}", "L = (c - (c / tau / 2))".replace("tau", r"\tau")),
    (r"L = \sum_{i,j} J_{ij}", "L = (sum over j in 1..n, i in 1..n of J[i, j])"),
    (r"L = \sum_j p_j \sum_l v_l", "L = (sum over j in 1..n of (p[j] * (sum over l in 1..n of v[l])))"),
    (r"L = \phi(c)", r"L = \phi(c)"),
    (r"\frac{\partial^2 L}{\partial s_i \partial s_j} = 0",
     "for all i in 1..n, j in 1..n:  (derivative of (derivative of L by s[j]) by s[i]) = 0"),
    (r"0 \le p_i \le 1", "for all i in 1..n:  0 <= p[i]\nfor all i in 1..n:  p[i] <= 1"),
]  # fmt: skip


@pytest.mark.parametrize("text, words", EXPLAINED)
def test_explained(text: str, words: str) -> None:
    assert explain(read(text, ROW)) == words


SAME = [
    ("L = c", r"\[ L \, = \; c. \]"),
    ("L = c + 1", r"L &= c \\ &\quad + 1"),
    (r"L = (c + 1) \tau", r"L = \Bigl( c+1 \Bigr)\,\tau"),
    (r"L = (c + 1) \tau", r"L = \left[ c + 1 \right] \textcolor{red}{\tau}"),
    (r"L = \sum_j p_j v_j", r"L = \sum_{l} p_l v_l"),
    (r"L = \sum_j p_j v_j", r"L = \sum_{a=1}^{n} v_a\, p_a \quad \text{(a reason)}"),
    (r"L = \sum_j p_j v_j", r"L = p^\top v"),
    (r"L = \sum_j p_j v_j", r"L = \langle v, p \rangle"),
    (r"L = \sum_{i,j} J_{ij}", r"L = \sum_i \sum_j J_{ij}"),
    (r"L = \sum_{i,j} J_{ij}", r"L = \sum_{l} \sum_a J_{al}"),
    (r"L = \sum_j p_j \Bigl(\sum_l v_l J_{jl}\Bigr)^2", r"L = \sum_i p_i \Bigl(\sum_a J_{ia} v_a\Bigr)^2"),
    (r"J_{ij} = \delta_{ij} s_j", r"J_{ij} = [j = i]\, s_j"),
    (r"J = \operatorname{diag}(p)", r"\begin{split} J = \operatorname{diag}\bigl(p\bigr) \end{split}"),
    (r"\frac{\partial p_i}{\partial s_j} = J_{ij}", r"\partial_{s_j} p_i = J_{ij}"),
    (r"p_i \le 1", r"p_{i} \leq 1"),
    ("ds_i = s_i", r"\mathrm{d}s_i = s_i"),
]  # fmt: skip
DIFFERENT = [
    ("L = c", "L = -c"), ("L = c", "c = L"), ("L = c", r"L \approx c"), (r"L \le c", "L < c"), ("L = c", "L = 2c"), ("L = c", "L = c^2"),
    (r"L = \sum_j p_j v_j", r"L = \sum_j p_j s_j"), (r"L = \sum_j p_j", r"L = \sum_{j=1}^{n-1} p_j"),
    (r"L = \sum_{i,j} J_{ij} p_i", r"L = \sum_{i,j} J_{ij} p_j"), ("p_i = s_i", "p_j = s_j"), ("J_{ij} = p_i", "J_{ji} = p_i"),
    ("J = J", r"J = J^\top"), ("L = c", r"L = c, \quad c = L"), (r"L = c, \quad c = \tau", r"c = \tau, \quad L = c"),
    (r"\frac{\partial p_i}{\partial s_j} = J_{ij}", r"\frac{\partial p_j}{\partial s_i} = J_{ij}"),
    (r"\frac{\partial^2 L}{\partial s_i \partial s_j} = c", r"\frac{\partial^2 L}{\partial s_j \partial s_i} = c"),
    (r"\lVert J \rVert_2 = c", r"\lVert p \rVert_2 = c"), (r"L = \phi(c)", r"L = \phi(\tau)"), (r"p = s", r"p_i = s_i"),
    (r"L = \sum_j p_j \sum_l v_l J_{jl}", r"L = \sum_j p_j \sum_l v_l J_{lj}"),
]  # fmt: skip


@pytest.mark.parametrize("one, other", SAME)
def test_equal_for_the_same_object(one: str, other: str) -> None:
    assert fingerprint(read(one, ROW)) == fingerprint(read(other, ROW))


@pytest.mark.parametrize("one, other", DIFFERENT)
def test_different_for_different_objects(one: str, other: str) -> None:
    assert fingerprint(read(one, ROW)) != fingerprint(read(other, ROW))


def test_ranges_are_part_of_the_object() -> None:
    assert fingerprint(read("p_i = s_i", ROW)) != fingerprint(read("p_i = s_i", PAIR))
    assert fingerprint(read("p = s", ROW)) != fingerprint(read("p = s", PAIR))


def test_the_order_in_which_bound_letters_were_made_does_not_matter() -> None:
    reading = read(r"L = \sum_{i,j} J_{ij} p_i \Bigl(\sum_l T_{ijl}\Bigr)^2", ROW)
    statement = reading.statements[0]
    bound = {limit[0] for s in statement.rhs.atoms(Sum) for limit in s.limits}
    for order in (sorted(bound, key=str), sorted(bound, key=str, reverse=True)):
        renamed = statement.rhs.xreplace({letter: Dummy(letter.name, integer=True) for letter in order})
        assert fingerprint(replace(reading, statements=(replace(statement, rhs=renamed),))) == fingerprint(
            reading
        )
