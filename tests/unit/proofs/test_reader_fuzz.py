"""Random formulas are read as meant; random tokens are read or refused, and never crash."""

# ruff: noqa: E501 (a formula stays on one line)
from __future__ import annotations

import random

import pytest
from sympy import Integer

from attngrad.proofs.read import shapes
from attngrad.proofs.read.meaning import Evaluator
from attngrad.proofs.read.reader import ReadError, read, read_expression

from .reader_fuzz import run
from .reader_notation import PAIR, ROW

CASES = 500


def test_random_formulas_in_random_styles() -> None:
    found = run(CASES)
    assert found.wrong == []
    assert found.spacing == []
    assert found.right >= 0.93 * CASES, found.refused[:5]


_TOKENS = (
    r"p s J A T L c \tau \mathrm{lse} \bar{v} I i j l n m _ ^ _i _{ij} ^2 ^\top { } ( ) [ ] \{ \} | \| + - / = , & \\ \le < \approx "
    r"\frac \frac12 \frac{1}{n} \sqrt \sum \sum_j \sum_{j=1}^{n} \partial \frac{\partial L}{\partial s_i} \log \exp e e^{p_i} 0 1 2 3.5 "
    r"\cdot \odot \mathbf 1 \delta \delta_{ij} \langle \rangle \lVert \rVert_2 \lvert \rvert \text{a} \quad , \quad \underbrace{p_i}_{L} "
    r"\boxed \textcolor{red} \begin{pmatrix} \end{pmatrix} \begin{aligned} \end{aligned} \operatorname{tr} \operatorname{diag} \phi "
    r"\, \! \left( \right) d ds v^{\dagger} p^{\downarrow} \ne \foo ' % $ \[ \] \( \tag{1} \label{x} é −"
).split(" ")


def test_random_tokens_are_read_or_refused() -> None:
    chooser, read_well, places = random.Random(7), 0, []
    for _ in range(3000):
        text = chooser.choice(["", " "]).join(chooser.choice(_TOKENS) for _ in range(chooser.randint(1, 9)))
        for reader, table in ((read, ROW), (read_expression, PAIR)):
            try:
                reader(text, table)
                read_well += 1
            except ReadError as error:
                places.append(0 <= error.position <= len(text) and bool(error.message))
    assert read_well > 30
    assert all(places)


def test_cut_formulas_are_read_or_refused() -> None:
    text = (
        r"\begin{aligned} \frac{\partial^2 L}{\partial s_i\,\partial s_j} &= \sum_{l \ne j} p_l \Bigl(\delta_{il} - \lVert J \rVert_2^2\Bigr)"
        r" && \text{(a)} \\ &= \begin{pmatrix} 1 & 2 \\ 3 & \tfrac12 \end{pmatrix} \underbrace{p_i}_{L} \end{aligned}"
    )
    places = []
    for start in range(0, len(text), 3):
        for end in range(start + 1, min(len(text), start + 60), 4):
            try:
                read(text[start:end], PAIR)
            except ReadError as error:
                places.append(0 <= error.position <= end - start)
    assert all(places)
    assert len(places) > 500


def test_deep_nesting_is_refused_not_crashed() -> None:
    deep = "(" * 3000 + "L" + ")" * 3000
    with pytest.raises(ReadError, match="nested too deeply"):
        read(f"L = {deep}", ROW)


@pytest.mark.parametrize(
    "method, planted",
    [
        ("_minus", lambda self, tree, bindings: self._plus(tree, bindings)),
        ("_negative", lambda self, tree, bindings: self.value(tree.children[0], bindings)),
        ("_iverson", lambda self, tree, bindings: shapes.scalar(Integer(1))),
    ],
)
def test_the_fuzz_sees_a_planted_error(method: str, planted: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Evaluator, method, planted)
    assert run(150).wrong
