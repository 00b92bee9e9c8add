"""The formulas of recomputation, as printed, are what the reference and the attention in tiles compute."""

import re
from collections.abc import Callable, Mapping
from itertools import product

import numpy as np
import pytest
import torch

from attngrad import layers, reference
from attngrad.proofs.claim import Definition, Theorem, Wrong
from attngrad.proofs.examine import page_formulas
from attngrad.proofs.floats import Evaluator
from attngrad.proofs.ledger.chapter_14_recomputation import CHAPTER
from attngrad.proofs.read import read
from attngrad.proofs.sums import Partial
from attngrad.tiled.forward import State, merged

N, M, D, D_V, T = 3, 6, 4, 2, 2
SIZES = {"N": N, "M": M, "d_k": D, "d_v": D_V, "T": T}
RNG = np.random.default_rng(14)
S, V = RNG.normal(size=M), RNG.normal(size=(M, D_V))
# Two sets of keys without a key in common, a third set for the rest, and two blocks that cover all keys.
A, B = np.array([1.0, 0, 0, 1, 0, 0]), np.array([0.0, 1, 0, 0, 1, 0])
PHI = np.array([1, 2, 2, 1, 2, 1])
TOWARDS, DLSE = RNG.normal(size=D_V), 0.7


def state_of(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return lse and o of the query over some keys, with an axis for the query."""
    return reference.attention_block(S[None, keys], V[keys])


ONE, OTHER, THIRD = (state_of(np.flatnonzero(x)) for x in (A, B, 1 - A - B))
BOTH = reference.merge_states(ONE, OTHER)
PARTS = [state_of(np.flatnonzero(r == PHI)) for r in (1, 2)]
WHOLE = reference.merge_states(*PARTS)
COTANGENTS = reference.merge_states_vjp(*PARTS, TOWARDS[None], np.array([DLSE]))
LOW, TOP = S[A > 0].max() - 0.5, S.max()
MERGE = {
    "s": S, "V": V, "A": A, "B": B, "m": LOW, "h": TOP, r"\varphi": PHI,
    r"\lambda": ONE.lse[0], "o": ONE.o[0], r"\mu": OTHER.lse[0], "u": OTHER.o[0],
    r"\nu": BOTH.lse[0], "y": BOTH.o[0], r"\gamma": THIRD.lse[0], "x": THIRD.o[0],
    "z": (A * np.exp(S - LOW)).sum(), "w": (A * np.exp(S - LOW)) @ V,
    r"\Lambda": np.array([x.lse[0] for x in PARTS]), "U": np.stack([x.o[0] for x in PARTS]),
    r"\omega": np.exp([x.lse[0] - WHOLE.lse[0] for x in PARTS]),
    r"\bar{\Lambda}": WHOLE.lse[0], r"\bar{U}": WHOLE.o[0], r"d\bar{U}": TOWARDS, r"\eta": DLSE,
    "dU": np.stack([x.o[0] for x in COTANGENTS]), r"d\Lambda": np.array([x.lse[0] for x in COTANGENTS]),
}  # fmt: skip

Q, K, BIAS = RNG.normal(size=(N, D)), RNG.normal(size=(M, D)), RNG.normal(size=(N, M))
CAP, SINK, DO, G = 1.6, 0.4, RNG.normal(size=(N, D_V)), RNG.normal(size=N)
OPTIONS = {"softcap": CAP, "keep": RNG.random((N, M)) < 0.7, "dropout": 0.25}
RUN = reference.attention(*(x[None, None] for x in (Q, K, V)), BIAS, sink=np.array([SINK]), **OPTIONS)
FOUND = reference.attention_vjp(RUN, DO[None, None], G[None, None])


def tiled() -> list[np.ndarray]:
    """Return o, lse, and the cotangents of q, k, v, bias and sink of the attention in tiles."""
    given = [*(x[None, None] for x in (Q, K, V)), BIAS, np.array([SINK])]
    leaves = [torch.tensor(x, requires_grad=True) for x in given]
    options = {**OPTIONS, "keep": torch.tensor(OPTIONS["keep"]), "return_lse": True, "impl": "tiled"}
    results = layers.attention(*leaves[:4], sink=leaves[4], **options)
    towards = tuple(torch.tensor(x[None, None]) for x in (DO, G))
    found = torch.autograd.grad(results, leaves, towards)
    return [x.detach().numpy() for x in (*results, *found)]


P, LSE, KEEP, O = RUN.p[0, 0], RUN.lse[0, 0], RUN.keep[0, 0], RUN.o[0, 0]
DELTA, SLOPE = (DO * O).sum(axis=1), 1.0 - (RUN.s[0, 0] / CAP) ** 2
DS = FOUND.dbias / SLOPE
ROUNDED = O.astype(np.float16).astype(float)
HAT = (DO * ROUNDED).sum(axis=1)
ROWS = {
    "Q": Q, "K": K, "V": V, "b": BIAS, "S": RUN.s[0, 0], "P": P, "E": KEEP, "O": O, "dO": DO, "g": G,
    r"\mathrm{lse}": LSE, r"\sigma": SINK, r"\alpha": RUN.scale, r"\Delta": DELTA, r"\xi": SLOPE, "dS": DS,
    r"\tilde{S}": RUN.scale * Q @ K.T + BIAS, r"d\tilde{S}": FOUND.dbias, r"\varphi": PHI,
    r"\hat{O}": ROUNDED, r"\hat{\Delta}": HAT,
    r"d\hat{S}": P * (KEEP * (DO @ V.T) - HAT[:, None] + G[:, None]),
}  # fmt: skip


def side(label: str, values: Mapping[str, object], letters: str, line: int = -1, left: bool = False):
    """Return one side of a line of a display as an array, an axis for each letter."""
    table, quote = CHAPTER.table.at(**SIZES), isinstance(CHAPTER[label], Wrong)
    reading = read(page_formulas(CHAPTER)[label].tex, table, quote=quote)
    statement, evaluate = reading.statements[line], Evaluator(values, {})
    expression = statement.lhs if left else statement.rhs
    symbols = [table.symbol(letter) for letter in letters]
    spans = [range(int(low), int(high) + 1) for low, high in map(table.range, letters)]
    places = [evaluate(expression, dict(zip(symbols, at, strict=True))) for at in product(*spans)]
    return np.array(places).reshape([len(span) for span in spans])


def rescaled() -> State:
    """Return the state of both sets by the merge of the attention in tiles, in base e."""
    weights = torch.tensor(B * np.exp(S - TOP))
    one = (torch.tensor([x]) for x in (LOW, MERGE["z"]))
    other = (torch.tensor([TOP]), weights.sum()[None])
    weighted = torch.tensor(MERGE["w"]), weights @ torch.tensor(V)
    return merged(State(*one, weighted[0]), State(*other, weighted[1]), torch.Tensor.exp_)


Case = tuple[Mapping[str, object], str, Callable[[], np.ndarray]]
# label: (names of the page, letters, what the library computes)
CASES: dict[str, Case] = {
    "def-rec-lse": (MERGE, "", lambda: ONE.lse[0]),
    "def-rec-output": (MERGE, "f", lambda: ONE.o[0]),
    "def-rec-other-lse": (MERGE, "", lambda: OTHER.lse[0]),
    "def-rec-other-output": (MERGE, "f", lambda: OTHER.o[0]),
    "def-rec-merged-lse": (MERGE, "", lambda: BOTH.lse[0]),
    "def-rec-merged-output": (MERGE, "f", lambda: BOTH.o[0]),
    "eq-rec-merge-lse": (MERGE, "", lambda: BOTH.lse[0]),
    "eq-rec-merge": (MERGE, "f", lambda: BOTH.o[0]),
    "eq-rec-merge-step": (MERGE, "f", lambda: BOTH.o[0]),
    "eq-rec-three-lse": (MERGE, "", lambda: np.exp(reference.merge_states(BOTH, THIRD).lse[0])),
    "eq-rec-three": (MERGE, "f", lambda: reference.merge_states(BOTH, THIRD).o[0]),
    "def-rec-parts-lse": (MERGE, "r", lambda: MERGE[r"\Lambda"]),
    "def-rec-parts-output": (MERGE, "rf", lambda: MERGE["U"]),
    "def-rec-share": (MERGE, "r", lambda: MERGE[r"\omega"]),
    "def-rec-whole-output": (MERGE, "f", lambda: WHOLE.o[0]),
    "def-rec-whole-lse": (MERGE, "", lambda: WHOLE.lse[0]),
    "eq-rec-parts-lse": (MERGE, "", lambda: WHOLE.lse[0]),
    "eq-rec-share": (MERGE, "r", lambda: MERGE[r"\omega"]),
    "eq-rec-parts-weights": (MERGE, "j", lambda: reference.softmax(S)),
    "eq-rec-parts-sum": (MERGE, "f", lambda: reference.softmax(S) @ V),
    "eq-rec-parts": (MERGE, "f", lambda: WHOLE.o[0]),
    "eq-rec-shift-lse": (MERGE, "", lambda: ONE.lse[0]),
    "eq-rec-shift": (MERGE, "f", lambda: ONE.o[0]),
    "eq-rec-rescale-sum": (MERGE, "", lambda: rescaled().total.numpy()[0]),
    "eq-rec-rescale": (MERGE, "f", lambda: rescaled().weighted.numpy()),
    "eq-rec-merge-do": (MERGE, "rf", lambda: MERGE["dU"]),
    "eq-rec-merge-dlse": (MERGE, "r", lambda: MERGE[r"d\Lambda"]),
    "def-rec-scores": (ROWS, "ij", lambda: CAP * np.arctanh(RUN.s[0, 0] / CAP)),
    "def-rec-weights": (ROWS, "ij", lambda: P),
    "def-rec-attention": (ROWS, "if", lambda: tiled()[0][0, 0]),
    "def-rec-row-lse": (ROWS, "i", lambda: tiled()[1][0, 0]),
    "eq-rec-weights": (ROWS, "ij", lambda: P),
    "def-rec-delta": (ROWS, "i", lambda: DELTA),
    "eq-rec-delta": (ROWS, "i", lambda: DELTA),
    "eq-rec-ds": (ROWS, "ij", lambda: DS),
    "eq-rec-row-sum": (ROWS, "i", lambda: P.sum(axis=1)),
    "eq-rec-cap": (ROWS, "ij", lambda: tiled()[5]),
    "eq-rec-dq": (ROWS, "ic", lambda: tiled()[2][0, 0]),
    "eq-rec-dk": (ROWS, "jc", lambda: tiled()[3][0, 0]),
    "eq-rec-rounded": (ROWS, "i", lambda: DELTA - HAT),
    "eq-rec-leak": (ROWS, "ij", lambda: ROWS[r"d\hat{S}"]),
    "eq-rec-leak-dq": (ROWS, "ic", lambda: ROWS[r"d\hat{S}"] @ K),
}


@pytest.mark.parametrize("label", CASES)
def test_a_printed_formula_is_what_the_library_computes(label: str) -> None:
    values, letters, computed = CASES[label]
    shown = side(label, values, letters)
    assert np.abs(shown).max() > (1e-5 if "round" in label else 1e-2)
    np.testing.assert_allclose(computed(), shown, rtol=1e-11, atol=1e-12)


def test_both_ways_through_a_merge_give_the_cotangent_of_the_scores() -> None:
    p = reference.softmax(S)
    want = p * (V @ TOWARDS - p @ (V @ TOWARDS) + DLSE)
    for left in (True, False):
        np.testing.assert_allclose(
            side("eq-rec-two-ways", MERGE, "j", left=left), want, rtol=1e-11, atol=1e-12
        )


@pytest.mark.parametrize("name", ["attention_block", "attention_in_blocks", "attention_in_blocks_vjp",
                                  "merge_states", "merge_states_vjp"])  # fmt: skip
def test_where_a_docstring_says_a_function_is_derived_is_compared_here(name: str) -> None:
    told = (getattr(reference, name).__doc__ or "").partition("Derived in:")[2].partition(".")[0]
    derived = re.findall(r"(?:eq|def)-[a-z0-9-]+", told)
    assert derived
    assert set(derived) <= set(CASES)


def test_what_is_not_compared_is_named_here() -> None:
    """Derivatives, caps, pairings, and the worked example, which the chapter compares itself, are left."""
    formulas, table, left = page_formulas(CHAPTER), CHAPTER.table, set()
    for claim in CHAPTER.claims:
        if claim.at or claim.label in CASES or isinstance(claim, Wrong | Theorem):
            continue
        reading = read(formulas[claim.label].tex, table)
        sides = [x for s in reading.statements for x in (s.lhs, s.rhs)]
        if not (isinstance(claim, Definition) and any(x.has(Partial) for x in sides)):
            left.add(claim.label)
    assert left == {
        "def-rec-sum", "def-rec-weighted", "def-rec-merge-loss", "eq-rec-two-ways", "def-rec-capped",
        "def-rec-loss", "eq-rec-recomputed", "eq-rec-dlse", "eq-rec-db", "eq-rec-work", "def-rec-rounded",
        "def-rec-leaking",
    }  # fmt: skip


def test_the_comparison_can_fail() -> None:
    values, letters, computed = CASES["eq-rec-dq"]
    assert not np.allclose(computed(), side("eq-rec-dq", {**values, r"\alpha": 1.0}, letters), rtol=1e-6)
    values, letters, computed = CASES["eq-rec-rescale"]
    assert not np.allclose(computed(), side("bad-rec-rescale", values, letters, left=True), rtol=1e-6)
