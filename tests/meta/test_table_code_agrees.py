"""The formulas of shared tables, as printed, are what the reference, the maps and the module compute."""

from collections.abc import Callable, Mapping
from itertools import product

import numpy as np
import pytest
import torch

from attngrad import layers, offsets, reference
from attngrad.mistakes import MISTAKES, mistake
from attngrad.proofs.claim import Wrong
from attngrad.proofs.examine import page_formulas
from attngrad.proofs.floats import Evaluator
from attngrad.proofs.ledger.chapter_05_shared_tables import CHAPTER
from attngrad.proofs.read import read

N, M, R, G, H = 4, 5, 6, 3, 2
SIZES = {"N": N, "M": M, "R": R, "G": G, "H": H}
RNG = np.random.default_rng(17)
PHI, PSI = RNG.integers(1, R + 1, size=(N, M)), RNG.integers(1, G + 1, size=(N, M))
X, B, DP, DS = RNG.normal(size=(4, N, M))
ZERO_ROWS = DS - DS.mean(axis=1, keepdims=True)
DB, T, U, W = RNG.normal(size=(H, N, M)), RNG.normal(size=R), RNG.normal(size=G), RNG.normal(size=N + M - 1)
SLOPE, OFFSET = 0.7, offsets.relative_offset(N, M, query_start=0)
ALL = np.arange(1 - N, M)  # the offsets, and the row of each pair in a table of them
DIAGONAL = offsets.offset_row(OFFSET, M - 1) - (M - N)
BUCKETS = offsets.T5Map(R, 4)
P = reference.softmax(X + reference.table_bias(W, DIAGONAL))
CAUSAL = offsets.causal_mask(N, M, query_start=0)


def by_offset(values: np.ndarray) -> np.ndarray:
    """Return an array over offsets as the evaluator of formulas stores it: offset o at index o - 1."""
    return np.roll(values, -N)


VALUES: dict[str, object] = {
    "x": X, "b": B, "dP": DP, "dS": DS, "P": P, "t": T, "u": U, "w": by_offset(W), "m": SLOPE, "dB": DB,
    r"\varphi": PHI, r"\psi": PSI, r"\beta": by_offset(BUCKETS.of(ALL) + 1), r"\mu": CAUSAL,
    "n": by_offset(offsets.multiplicity(N, M, 0)[1]),
}  # fmt: skip


def printed(
    label: str,
    letters: str,
    values: Mapping[str, object] = VALUES,
    sizes: Mapping[str, int] = SIZES,
) -> np.ndarray:
    """Return the last right side of a display as an array, an axis for each letter, over its range."""
    table, quote = CHAPTER.table.at(**sizes), isinstance(CHAPTER[label], Wrong)
    reading = read(page_formulas(CHAPTER)[label].tex, table, quote=quote)
    evaluate = Evaluator(values, {})
    symbols = [table.symbol(letter) for letter in letters]
    spans = [range(int(low), int(high) + 1) for low, high in map(table.range, letters)]
    places = [
        evaluate(reading.statements[-1].rhs, dict(zip(symbols, at, strict=True))) for at in product(*spans)
    ]
    return np.array(places).reshape([len(span) for span in spans])


def two_tables() -> np.ndarray:
    """Return the cotangent of a table for both of two rows, (R, G)."""
    return reference.table_bias_vjp((PHI - 1) * G + PSI - 1, DS, R * G).reshape(R, G)


def causal_weights() -> np.ndarray:
    """Return the weights with ALiBi by distance, under a causal mask."""
    bias = reference.alibi_bias(np.array([SLOPE]), OFFSET)[0]
    return reference.softmax(X + bias, CAUSAL)


def of_rows(row: np.ndarray, dbias: np.ndarray = DS, rows: int = R) -> np.ndarray:
    """Return the cotangent of a table whose rows count from 1."""
    return reference.table_bias_vjp(row - 1, dbias, rows)


# label: (letters, what the library computes, values that differ)
CASES: dict[str, tuple[str, Callable[[], np.ndarray], dict[str, object]]] = {
    "eq-table-answer": ("o", lambda: reference.offset_sums(reference.softmax_vjp(P, DP), 0)[1], {}),
    "def-table-bias": ("ij", lambda: reference.table_bias(T, PHI - 1), {}),
    "eq-table-sum": ("r", lambda: of_rows(PHI), {}),
    "def-table-offsets": ("ij", lambda: reference.table_bias(W, DIAGONAL), {}),
    "eq-table-diagonals": ("o", lambda: reference.offset_sums(DS, 0)[1], {}),
    "def-table-count": ("o", lambda: offsets.multiplicity(N, M, 0)[1], {}),
    "def-table-buckets": ("ij", lambda: reference.table_bias(T, BUCKETS(N, M, 0)), {}),
    "eq-table-regroup": ("r", lambda: of_rows(BUCKETS(N, M, 0) + 1), {}),
    "eq-table-product": ("rg", two_tables, {}),
    "def-table-added": ("ij", lambda: reference.decomposed_bias((T, U), (PHI - 1, PSI - 1)), {}),
    "eq-table-added": ("r", lambda: reference.decomposed_bias_vjp((PHI - 1, PSI - 1), DS, (R, G))[0], {}),
    "eq-table-added-second": (
        "g", lambda: reference.decomposed_bias_vjp((PHI - 1, PSI - 1), DS, (R, G))[1], {},
    ),
    "eq-table-margins": ("r", lambda: two_tables().sum(axis=1), {}),
    "def-table-alibi": ("ij", lambda: reference.alibi_bias(np.array([SLOPE]), OFFSET)[0], {}),
    "eq-table-alibi": ("", lambda: reference.alibi_bias_vjp(OFFSET, DS[None])[0], {}),
    "eq-table-alibi-gauge": ("ij", causal_weights, {}),
    "eq-table-alibi-causal": (
        "", lambda: reference.alibi_bias_vjp(OFFSET, ZERO_ROWS[None], signed=True)[0], {"dS": ZERO_ROWS},
    ),
    "eq-table-heads": ("hr", lambda: of_rows(PHI, DB), {}),
    "eq-table-shared": ("r", lambda: of_rows(PHI, DB).sum(axis=0), {}),
}  # fmt: skip
# label: (letters, what the function of the mistake makes of the same case)
WRONG: dict[str, tuple[str, Callable[[Callable], np.ndarray]]] = {
    "bad-table-sign": (
        "o", lambda f: reference.table_bias_vjp(f(N, M, 0, M), DS, 2 * M + 1)[M + ALL],
    ),
    "bad-table-mean": ("o", lambda f: f(DIAGONAL, DS, N + M - 1)),
    "bad-table-last": ("r", lambda f: of_rows(PHI, f(DB))),
}  # fmt: skip


@pytest.mark.parametrize("label", CASES)
def test_a_printed_formula_is_what_the_library_computes(label: str) -> None:
    letters, computed, other = CASES[label]
    shown = printed(label, letters, {**VALUES, **other})
    assert np.abs(shown).max() > 1e-2
    np.testing.assert_allclose(computed(), shown, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("label", WRONG)
def test_a_printed_mistake_is_the_function_of_that_id(label: str) -> None:
    letters, computed = WRONG[label]
    named = CHAPTER[label]
    shown = printed(label, letters)
    np.testing.assert_allclose(computed(MISTAKES[named.mistake].function), shown, rtol=1e-12, atol=1e-13)
    right = CASES[named.instead][1]()
    assert np.abs(computed(mistake(named.mistake).right) - right).max() < 1e-12
    assert np.abs(right - shown).max() > 1e-2


def test_every_mistake_of_the_page_is_compared() -> None:
    assert {c.label for c in CHAPTER.claims if isinstance(c, Wrong) and c.mistake} == set(WRONG)


MAPS = (
    offsets.OffsetMap(6),
    offsets.ClipMap(2),
    offsets.T5Map(8, 16),
    offsets.T5Map(5, 9, bidirectional=False),
    offsets.WindowMap(2, 3),
    offsets.WindowMap(1, 2, 3),
    offsets.BeitMap(1, 5),
)


@pytest.mark.parametrize("kind", MAPS, ids=str)
def test_the_module_has_the_printed_gradient_with_every_map(kind: Callable) -> None:
    made = layers.RelativeBias(2, kind, dtype=torch.float64)
    db = RNG.normal(size=(2, 6, 6))
    (made(6, 6) * torch.tensor(db)).sum().backward()
    sizes = {**SIZES, "N": 6, "M": 6, "R": kind.R}
    shown = printed("eq-table-heads", "hr", {"dB": db, r"\varphi": kind(6, 6) + 1}, sizes)
    assert np.abs(shown).max() > 1e-2
    np.testing.assert_allclose(made.table.grad.numpy(), shown, rtol=1e-12, atol=1e-13)


def test_the_module_has_the_printed_gradient_of_a_slope() -> None:
    made = layers.RelativeBias(1, offsets.AlibiMap(1, learned=True), dtype=torch.float64)
    (made(N, M, query_start=0)[0] * torch.tensor(DS)).sum().backward()
    np.testing.assert_allclose(made.slopes.grad.item(), printed("eq-table-alibi", ""), rtol=1e-12)


def test_a_start_renames_the_offsets_and_changes_nothing_else() -> None:
    names, sums = reference.offset_sums(DS, query_start=3)
    np.testing.assert_allclose(sums, printed("eq-table-diagonals", "o"), rtol=1e-12)
    assert (names == ALL - 3).all()


def test_the_comparison_can_fail() -> None:
    shown = printed("eq-table-diagonals", "o")
    for other in (printed("bad-table-sign", "o"), printed("bad-table-mean", "o"), np.roll(shown, 1)):
        assert not np.allclose(shown, other, rtol=1e-6)
    assert not np.allclose(causal_weights(), reference.softmax(X, CAUSAL), rtol=1e-6)
