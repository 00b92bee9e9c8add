"""The formulas of the fused table gradient, as printed, are what tiles, views and modules compute."""

from collections.abc import Callable, Mapping
from itertools import product

import numpy as np
import pytest
import torch

from attngrad import layers, offsets, plots, reference
from attngrad.mistakes import MISTAKES, mistake
from attngrad.proofs.claim import Identity, Wrong
from attngrad.proofs.examine import page_formulas
from attngrad.proofs.floats import Evaluator
from attngrad.proofs.ledger.chapter_15_fused_table_gradient import CHAPTER
from attngrad.proofs.read import read
from attngrad.tiled.geometry import SkewMemory, Tile, Tiling, diagonals_of, hankel

N, M, T, X, Y = 4, 5, 2, 2, 3
SIZES = {"N": N, "M": M, "A": 2, "C": 2, "X": X, "Y": Y, "T": T}
RNG = np.random.default_rng(29)
CONTENT, DP, DS = RNG.normal(size=(3, N, M))
W, F = RNG.normal(size=N + M - 1), RNG.normal(size=(N, X, M, Y))
BEYOND = RNG.normal(size=T)  # the table at the offsets of padded keys that no key has
NUMBER = np.arange(M) - np.arange(N)[:, None] + N - 1  # diagonals count from 0 in code
BIAS, PHI, PSI = W[NUMBER], np.array([1, 1, 1, 2]), np.array([1, 2, 2, 1, 2])
P = reference.softmax(CONTENT + BIAS)
LSE = reference.lse(CONTENT + BIAS)
PADDED = np.append(W, BEYOND)[M + np.arange(T) - np.arange(N)[:, None] + N - 1]
TAIL = -np.exp(PADDED - LSE[:, None]) * (P * DP).sum(axis=1, keepdims=True)
MU, LAMBDA = 0.3, 0.7


def by_offset(values: np.ndarray) -> np.ndarray:
    """Return an array over offsets as the evaluator of formulas stores it: offset o at index o - 1."""
    return np.roll(values, -N)


VALUES: dict[str, object] = {
    "x": CONTENT, "b": BIAS, "S": CONTENT + BIAS, "P": P, "dP": DP, "dS": DS, r"\mathrm{lse}": LSE,
    "w": by_offset(W), "y": W, "z": W, "F": F, "E": TAIL, r"\gamma": PADDED,
    r"\varphi": PHI, r"\psi": PSI, r"\lambda": LAMBDA, r"\mu": MU,
}  # fmt: skip


def printed(
    label: str,
    letters: str,
    side: str = "rhs",
    values: Mapping[str, object] = VALUES,
    pitch: int = N + M + 1,
) -> np.ndarray:
    """Return a side of the last line of a display as an array, an axis for each letter, over its range."""
    table, quote = CHAPTER.table.at(**{**SIZES, "W": pitch}), isinstance(CHAPTER[label], Wrong)
    reading = read(page_formulas(CHAPTER)[label].tex, table, quote=quote)
    evaluate, shown = Evaluator(values, {}), getattr(reading.statements[-1], side)
    symbols = [table.symbol(letter) for letter in letters]
    spans = [range(int(low), int(high) + 1) for low, high in map(table.range, letters)]
    places = [evaluate(shown, dict(zip(symbols, at, strict=True))) for at in product(*spans)]
    return np.array(places).reshape([len(span) for span in spans])


def skewed(x: np.ndarray, sides: tuple[int, int] = (1, 1)) -> np.ndarray:
    """Return the sums of diagonals by the memory of tiles, for tiles of these sides taken one by one."""
    rows, columns = (max(sides[0], 1), max(sides[1], 1))
    tiling = Tiling(1, 1, 1, rows, columns, slice(0, rows + columns - 1))
    memory, (n, m) = SkewMemory(tiling, torch.zeros((), dtype=torch.float64)), x.shape
    reversed_rows, sums = torch.tensor(x[::-1].copy()), np.zeros(n + m - 1)
    for i, j in product(range(0, n, rows), range(0, m, columns)):
        tile = Tile(slice(i, min(i + rows, n)), slice(j, min(j + columns, m)))
        memory.tile(1, tile).copy_(reversed_rows[tile.rows, tile.columns])
        sums[diagonals_of(tile)] += memory.sums(1, tile)[0].numpy()
    return sums


def by_module(impl: str) -> np.ndarray:
    """Return the gradient of a table of offsets from the whole of attention, the content as products q.k."""
    made = layers.RelativeBias(1, offsets.OffsetMap(M), dtype=torch.float64)
    made.table.data[0, M - N :] = torch.tensor(W)
    q, k, v, do = (torch.tensor(z)[None, None] for z in (CONTENT, np.eye(M), np.eye(M), DP))
    o = layers.attention(q, k, v, made, scale=1.0, query_start=0, causal=False, impl=impl)
    (o * do).sum().backward()
    return made.table.grad[0, M - N :].numpy()


def of_windows() -> np.ndarray:
    """Return the sums of F over both offsets, pair by pair."""
    out = np.zeros((N + M - 1, X + Y - 1))
    for i, s, j, u in np.ndindex(F.shape):
        out[j - i + N - 1, u - s + X - 1] += F[i, s, j, u]
    return out


def rate_of_kerple() -> np.ndarray:
    """Return the gradient of the rate of a logarithm, by automatic differentiation over all pairs."""
    rate = torch.tensor(MU, dtype=torch.float64, requires_grad=True)
    distance = torch.tensor(np.abs(NUMBER - N + 1))
    (-LAMBDA * torch.log(1 + rate * distance) * torch.tensor(DS)).sum().backward()
    return rate.grad.numpy()


def seen_from_below() -> np.ndarray:
    """Return what the Hankel view shows of the diagonals."""
    tile = Tile(slice(0, N), slice(0, M))
    return hankel(torch.tensor(W)[None], tile)[0].numpy()


# label: (letters, what is computed)
CASES: dict[str, tuple[str, Callable[[], np.ndarray]]] = {
    "def-fused-weights": ("ij", lambda: reference.softmax(CONTENT + BIAS)),
    "def-fused-lse": ("i", lambda: reference.lse(CONTENT + BIAS)),
    "eq-fused-pair": ("ij", lambda: reference.softmax_vjp(P, DP)),
    "eq-fused-answer": ("o", lambda: by_module("tiled")),
    "def-fused-diagonals": ("ij", lambda: seen_from_below()[::-1]),
    "eq-fused-hankel": ("ij", seen_from_below),
    "eq-fused-tiles": ("g", lambda: skewed(DS, (N, M))),
    "eq-fused-window": ("oh", of_windows),
    "eq-fused-kerple": ("", rate_of_kerple),
    "eq-fused-tail": ("i", lambda: TAIL.sum(axis=1)),
}


@pytest.mark.parametrize("label", CASES)
def test_a_printed_formula_is_what_is_computed(label: str) -> None:
    letters, computed = CASES[label]
    shown = printed(label, letters)
    assert np.abs(shown).max() > 1e-2
    np.testing.assert_allclose(computed(), shown, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("impl", ["closed", "tiled"])
def test_the_table_of_a_module_sums_to_zero_and_has_the_printed_gradient(impl: str) -> None:
    np.testing.assert_allclose(by_module(impl), printed("eq-fused-answer", "o"), rtol=1e-11, atol=1e-13)
    assert abs(by_module(impl).sum()) < 1e-13


@pytest.mark.parametrize("sides", [(1, 1), (2, 2), (3, 4), (4, 3), (4, 5)])
def test_the_memory_of_tiles_gives_the_printed_sums_for_tiles_of_any_sides(sides: tuple[int, int]) -> None:
    np.testing.assert_allclose(skewed(DS, sides), printed("eq-fused-tiles", "g"), rtol=1e-12, atol=1e-13)


def test_what_is_written_as_a_pair_is_read_in_the_column_that_is_printed() -> None:
    tiling = Tiling(1, 1, 1, N, M, slice(0, N + M - 1))
    memory, tile = SkewMemory(tiling, torch.zeros((), dtype=torch.float64)), Tile(slice(0, N), slice(0, M))
    pitch = memory.all.stride(1)
    memory.tile(1, tile).copy_(torch.tensor(DS[::-1].copy()))
    line = memory.all.flatten()
    shown = {side: printed("eq-fused-pitch", "ij", side, pitch=pitch) for side in ("lhs", "rhs")}
    assert (shown["lhs"] == shown["rhs"]).all()
    assert (line[torch.tensor(shown["lhs"]).long() - 1].numpy() == DS).all()
    column = shown["rhs"] - (N - 1 - np.arange(N)[:, None]) * (pitch - 1)
    assert (column == NUMBER + 1).all()


@pytest.mark.parametrize("label", ["eq-fused-before", "eq-fused-behind"])
def test_the_printed_gaps_are_those_between_places(label: str) -> None:
    for pitch in range(M, N + M + 3):
        left, right = (printed(label, "i", side, pitch=pitch) for side in ("lhs", "rhs"))
        assert (left == right).all()
        begins = np.arange(N) * (pitch - 1)  # where rows are read, the last query first
        filled = np.arange(N) * pitch
        if label == "eq-fused-before":
            gap = begins[1:] - (filled[:-1] + M - 1)
            assert (gap == left[::-1][1:]).all()
        else:
            gap = filled[1:] - (begins[:-1] + N + M - 2)
            assert (gap == left[::-1][:-1]).all()
        assert ((gap >= 1).all()) == (pitch >= N + M - 1)


def test_hankel_and_skewed_views_are_transposes_as_printed() -> None:
    values = {**VALUES, "dy": skewed(DS, (N, M))}
    left, right = (printed("eq-fused-adjoint", "", side, values) for side in ("lhs", "rhs"))
    np.testing.assert_allclose(left, right, rtol=1e-12)
    np.testing.assert_allclose((seen_from_below()[::-1] * DS).sum(), right, rtol=1e-12)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (2, 2), (3, 4), (128, 1024), (5, 1), (7, 31)])
def test_the_pitch_of_the_library_keeps_rows_apart_as_printed(rows: int, columns: int) -> None:
    memory = SkewMemory(Tiling(1, 1, 1, rows, columns, slice(0, 1)), torch.zeros(()))
    pitch = memory.all.stride(1)
    table, values = CHAPTER.table, {"N": rows, "M": columns, "W": pitch}
    reading = read(page_formulas(CHAPTER)["thm-fused-apart"].tex, table)
    evaluate = Evaluator(values, {table.symbol(name): size for name, size in values.items()})
    for statement in reading.statements:
        for i in (1, rows):
            at = {table.symbol("i"): i}
            assert evaluate(statement.lhs, at) <= evaluate(statement.rhs, at)


def test_printed_tail_columns_are_the_function_of_that_id() -> None:
    named = CHAPTER["bad-fused-tail"]
    of = MISTAKES[named.mistake].function
    table, row = np.append(W, BEYOND)[None], np.arange(M + T) - np.arange(N)[:, None] + N - 1
    got = of(table, row, CONTENT[None], DP[None])[0]
    shown, right = printed("bad-fused-tail", "o"), printed(named.instead, "o")
    np.testing.assert_allclose(got[: N + M - 1], shown, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(
        mistake(named.mistake).right(table, row, CONTENT[None], DP[None])[0][: N + M - 1],
        right, rtol=1e-12, atol=1e-13,
    )  # fmt: skip
    assert np.abs(shown - right).max() > 1e-2


def test_the_printed_bias_without_reversal_is_another_one() -> None:
    assert np.abs(printed("bad-fused-turned", "ij") - BIAS).max() > 0.1


def test_every_formula_of_the_page_is_compared() -> None:
    others = {"eq-fused-pitch", "eq-fused-before", "eq-fused-behind", "eq-fused-adjoint", "eq-fused-zero-sum"}
    wrong = {"bad-fused-tail", "bad-fused-turned"}
    stated = {c.label for c in CHAPTER.claims if isinstance(c, (Identity, Wrong))}
    assert stated == others | wrong | {label for label in CASES if label.startswith("eq-")}


def test_the_figure_reads_memory_as_the_library_does() -> None:
    np.testing.assert_allclose(plots.skewed_view(DS)[1]["sums"], skewed(DS, (N, M)), rtol=1e-12, atol=1e-13)


class ShortMemory(SkewMemory):
    """Memory whose rows have no padding at all."""

    def __init__(self, tiling: Tiling, like: torch.Tensor) -> None:
        super().__init__(tiling, like)
        self.all = like.new_zeros(tiling.heads, tiling.rows, tiling.columns)


class StaleMemory(SkewMemory):
    """Memory that is never cleared."""

    def tile(self, heads: int, tile: Tile) -> torch.Tensor:
        self.written = 0
        return super().tile(heads, tile)


@pytest.mark.parametrize("planted", [ShortMemory, StaleMemory])
def test_the_comparison_can_fail(planted: type, monkeypatch: pytest.MonkeyPatch) -> None:
    right = printed("eq-fused-tiles", "g")
    monkeypatch.setitem(globals(), "SkewMemory", planted)
    assert np.abs(skewed(DS, (2, 3)) - right).max() > 1e-2
    assert np.abs(np.roll(right, 1) - right).max() > 1e-2
