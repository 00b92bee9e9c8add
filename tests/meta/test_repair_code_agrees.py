"""The formulas of the repaired program, as printed, are what the library and PyTorch compute."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from attngrad import layers, reference
from attngrad.mistakes import MISTAKES
from attngrad.offsets import OffsetMap, relative_offset
from attngrad.proofs.claim import Wrong
from attngrad.proofs.examine import page_formulas
from attngrad.proofs.floats import Evaluator
from attngrad.proofs.ledger import chapter
from attngrad.proofs.read import read

from .printed_formulas import printed

PAGE = "06_repairing_a_post"
N, M, D, D_V = 3, 5, 9, 4
SIZES = {"N": N, "M": M, "d_k": D, "d_v": D_V}
RNG = np.random.default_rng(12)
Q, K, DP = (RNG.normal(size=shape) for shape in ((N, D), (M, D), (N, M)))
ROW = relative_offset(N, M, query_start=0) + N - 1
R = int(ROW.max()) + 1
TABLE = RNG.normal(size=R)
TOKENS = RNG.integers(1, D_V + 1, size=M)
TOKENS[:D_V] = np.arange(1, D_V + 1)  # each token is there, so that each has a probability
V = np.eye(D_V)[TOKENS - 1]
Y = RNG.random((N, D_V))
SAVED = reference.attention(
    Q[None, None], K[None, None], np.eye(M)[None, None], reference.table_bias(TABLE, ROW)
)
P, S = SAVED.p[0, 0], SAVED.s[0, 0]
GRADS = reference.attention_vjp(SAVED, DP[None, None])
PUSH = P * (1.0 - P)
VALUES = {
    **SIZES, "Q": Q, "K": K, "S": S, "P": P, "dP": DP, "dS": reference.softmax_vjp(P, DP), "V": V,
    "O": P @ V, "Y": Y, "u": PUSH, r"\alpha": SAVED.scale, r"\tau": TOKENS,
    "t": np.roll(TABLE, -N),  # where an index of offset o is read: at o - 1
    "U": -ROW.T + N - 1,
}  # fmt: skip


def by_offset(label: str) -> np.ndarray:
    """Return what a display with the free letter o says, for every offset in increasing order."""
    book = chapter(PAGE)
    reading = read(page_formulas(book)[label].tex, book.table, quote=isinstance(book[label], Wrong))
    evaluate = Evaluator(VALUES, {symbol: SIZES[name] for name, symbol in book.table.size.items()})
    letter = next(x for x in reading.scope.ranges if str(x) == "o")
    return np.array([evaluate(reading.statements[-1].rhs, {letter: o}) for o in range(1 - N, M)])


def cross_entropy_by_weights() -> np.ndarray:
    """Return the derivative of the cross-entropy of the page by the weights, by autograd."""
    p = torch.tensor(P, requires_grad=True)
    (-torch.tensor(Y) * (p @ torch.tensor(V)).log()).sum().backward()
    return p.grad.numpy()


def table_gradient() -> np.ndarray:
    """Return the gradient of the library's module, whose table is longer and aligns the last positions."""
    bias = layers.RelativeBias(1, OffsetMap(M), dtype=torch.float64)
    with torch.no_grad():
        bias.table[0, M - N : M - N + R] = torch.tensor(TABLE)
    scores = torch.tensor(Q @ K.T / np.sqrt(D)) + bias(N, M, query_start=0)
    layers.softmax(scores).backward(torch.tensor(DP[None]))
    return bias.table.grad[0, M - N : M - N + R].numpy()


def dtable(entries: np.ndarray) -> np.ndarray:
    """Return the sum of entries over the pairs of each offset."""
    return reference.table_bias_vjp(ROW, entries, R)


# label: (letters, what is computed)
CASES: dict[str, tuple[str, Callable[[], np.ndarray]]] = {
    "def-repair-scores": ("ij", lambda: S),
    "def-repair-weights": ("ij", lambda: P),
    "def-repair-ds": ("ij", lambda: GRADS.dbias),
    "eq-repair-dq": ("ic", lambda: GRADS.dq[0, 0]),
    "eq-repair-dk": ("jc", lambda: GRADS.dk[0, 0]),
    "def-repair-one-hot": ("jf", lambda: V),
    "def-repair-output": ("if", lambda: P @ V),
    "eq-repair-dp": ("ij", cross_entropy_by_weights),
    "def-repair-push": ("ij", lambda: np.diagonal(reference.softmax_jacobian(P), axis1=-2, axis2=-1)),
    "eq-repair-drift": ("ij", lambda: reference.softmax_jvp(P, PUSH)),
    "def-repair-written": ("ji", lambda: VALUES["U"]),
    "def-repair-offset": ("ij", lambda: relative_offset(N, M, query_start=0)),
}
BY_OFFSET: dict[str, Callable[[], np.ndarray]] = {
    "eq-repair-answer": table_gradient,
    "eq-repair-table": lambda: dtable(GRADS.dbias),
}


@pytest.mark.parametrize("label", CASES)
def test_a_printed_formula_is_what_the_library_computes(label: str) -> None:
    letters, computed = CASES[label]
    shown = printed(PAGE, label, letters, VALUES, SIZES)
    assert np.abs(shown).max() > 1e-2
    np.testing.assert_allclose(computed(), shown, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("label", BY_OFFSET)
def test_a_printed_gradient_of_the_table_is_what_the_library_computes(label: str) -> None:
    shown = by_offset(label)
    assert np.abs(shown).min() > 1e-3
    np.testing.assert_allclose(BY_OFFSET[label](), shown, rtol=1e-12, atol=1e-13)


def test_the_printed_mistakes_are_the_functions_of_their_ids() -> None:
    book = chapter(PAGE)
    diagonal = MISTAKES[book["bad-repair-diagonal"].mistake].function
    np.testing.assert_allclose(dtable(diagonal(P, DP)), by_offset("bad-repair-diagonal"), rtol=1e-12)
    inside = MISTAKES[book["bad-repair-order"].mistake].function
    shown = printed(PAGE, "bad-repair-order", "ij", VALUES, SIZES)
    np.testing.assert_allclose(inside(Q @ K.T, TABLE[ROW], SAVED.scale), shown, rtol=1e-12)
    named = {c.label for c in book.claims if isinstance(c, Wrong) and c.mistake}
    assert named == {"bad-repair-diagonal", "bad-repair-order"}


def test_the_number_of_offsets_is_the_printed_one() -> None:
    assert printed(PAGE, "eq-repair-size", "", VALUES, SIZES) == R == np.unique(ROW).size
    assert printed(PAGE, "bad-repair-size", "", VALUES, SIZES) != R


def test_the_comparison_can_fail() -> None:
    assert not np.allclose(by_offset("bad-repair-diagonal"), by_offset("eq-repair-table"), rtol=1e-6)
    other = printed(PAGE, "bad-repair-order", "ij", VALUES, SIZES)
    assert not np.allclose(other, P, rtol=1e-6)
