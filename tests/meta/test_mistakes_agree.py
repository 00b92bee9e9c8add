"""Ledger and library name the same mistakes, and each printed wrong formula is what the function computes.

Those of the bias stand in `test_bias_code_agrees.py`.
"""

import numpy as np
import pytest

from attngrad import reference
from attngrad.mistakes import MISTAKES
from attngrad.proofs.claim import Wrong
from attngrad.proofs.examine import page_formulas
from attngrad.proofs.floats import Evaluator
from attngrad.proofs.ledger import chapter, chapters
from attngrad.proofs.read.reader import read

SHOWN = [(book, c) for book in [chapter("02_softmax_jacobian")] for c in book.claims if isinstance(c, Wrong)]
RNG = np.random.default_rng(0)
S, DP, Y = RNG.normal(size=(3, 5)), RNG.normal(size=(3, 5)), RNG.uniform(0.2, 1.0, size=5)
MASK = np.array([True, True, False, True, True])
TAU = 1.7
P, W, PI = reference.softmax(S), reference.softmax(S, MASK), reference.softmax_temperature(S, TAU)


def values_of_row(row: int) -> dict[str, object]:
    """Return the names of a printed formula of a single row."""
    return {
        "n": 5,
        "s": S[row],
        "p": P[row],
        "dp": DP[row],
        "dz": DP[row],
        "y": Y,
        r"\pi": PI[row],
        r"\tau": TAU,
        "w": W[row],
        r"\mu": MASK.astype(float),
        "N": 3,
        "P": P,
        "S": S,
    }


def pulled_back(jacobian: np.ndarray) -> np.ndarray:
    """Return dp @ J, the VJP that a printed Jacobian of row 0 implies."""
    return DP[0] @ jacobian


def computed(mistake: str) -> np.ndarray:
    """Return what the library's wrong function gives for row 0."""
    f = MISTAKES[mistake].function
    cases = {
        "softmax-vjp-diagonal-only": lambda: f(P, DP),
        "softmax-vjp-elementwise": lambda: f(P, DP),
        "softmax-vjp-sign-flipped": lambda: f(P, DP),
        "softmax-vjp-flattened-batch": lambda: f(P, DP),
        "softmax-temperature-vjp-factor-dropped": lambda: f(PI, S, TAU, DP),
        "log-softmax-vjp-without-sum": lambda: f(P, DP),
        "cross-entropy-vjp-unit-targets": lambda: f(P, np.broadcast_to(Y, P.shape), np.ones(3)),
        "softmax-masked-vjp-unmasked-mean": lambda: f(S, MASK, DP),
    }
    return cases[mistake]()[0]


def printed(book, claim) -> np.ndarray:
    """Return the right side of a printed wrong formula as a VJP of row 0."""
    tex = page_formulas(book)[claim.label].tex
    reading = read(tex, book.table, quote=True)
    right = reading.statements[0].rhs
    sizes = {s: {"n": 5, "N": 3}[k] for k, s in book.table.size.items()}
    evaluate = Evaluator(values_of_row(0), sizes)
    letters = {x.name: x for x in reading.scope.ranges if hasattr(x, "name")}
    i, j, a, b = (letters[x] for x in "ijab")
    if r"\partial P_{ai}" in tex:
        whole = [
            [[evaluate(right, {a: r + 1, i: k + 1, b: 1, j: m + 1}) for m in range(5)] for k in range(5)]
            for r in range(3)
        ]
        return np.einsum("ri,rij->j", DP, np.array(whole))
    if tex.startswith(r"\frac{\partial p_i}") or tex.startswith(r"\frac{\partial \pi_i}"):
        return pulled_back(
            np.array([[evaluate(right, {i: k + 1, j: m + 1}) for m in range(5)] for k in range(5)])
        )
    return np.array([evaluate(right, {j: m + 1}) for m in range(5)])


@pytest.mark.parametrize(("book", "claim"), SHOWN, ids=[c.label for _, c in SHOWN])
def test_the_printed_mistake_is_the_function_of_that_id(book, claim) -> None:
    assert claim.mistake in MISTAKES
    np.testing.assert_allclose(computed(claim.mistake), printed(book, claim), rtol=1e-12, atol=1e-14)


def test_the_comparison_can_fail() -> None:
    book, claim = next((b, c) for b, c in SHOWN if c.label == "bad-vjp-diagonal")
    other = next(c for _, c in SHOWN if c.label == "bad-vjp-elementwise")
    assert not np.allclose(computed(claim.mistake), printed(book, other), rtol=1e-6)


@pytest.mark.parametrize("book", chapters(), ids=lambda b: b.page)
def test_each_wrong_formula_names_the_right_one(book) -> None:
    for claim in book.claims:
        if isinstance(claim, Wrong):
            assert book[claim.instead].label.startswith(("eq-", "def-"))
            assert claim.mistake == "" or claim.mistake in MISTAKES
