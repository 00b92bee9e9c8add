"""The formulas of the bias gradient, as printed, are what the reference of attention computes."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from attngrad import reference
from attngrad.mistakes import MISTAKES
from attngrad.proofs.claim import Wrong
from attngrad.proofs.ledger import chapter

from .printed_formulas import printed

PAGE = "04_bias_gradient"
N, M, D, D_V, R = 3, 5, 9, 2, 4
SIZES = {"N": N, "M": M, "d_k": D, "d_v": D_V, "R": R}
RNG = np.random.default_rng(11)
Q, K, V = (RNG.normal(size=shape) for shape in ((N, D), (M, D), (M, D_V)))
B, DO, DLSE = RNG.normal(size=(N, M)), RNG.normal(size=(N, D_V)), RNG.normal(size=N)
KEEP, CAP, SINK, FACTOR = RNG.random((N, M)) < 0.6, 1.7, 0.4, 0.3
PHI = RNG.integers(1, R + 1, size=(N, M))


def saved(**options: Any) -> reference.Attention:
    """Return attention on a batch of one with one head."""
    return reference.attention(Q[None, None], K[None, None], V[None, None], B, **options)


def values(run: reference.Attention, dp: np.ndarray | None = None) -> dict[str, object]:
    """Return the names of the page for one run: the same numbers under outside and inside names."""
    p, s, dp = run.p[0, 0], run.s[0, 0], DO @ V.T if dp is None else dp
    o = run.o[0, 0]
    ds = reference.softmax_vjp(p, dp)
    return {
        **SIZES, "Q": Q, "K": K, "V": V, "b": B, r"\beta": B, "S": s, "P": p, "dP": dp, "O": o, "dO": DO,
        "dS": ds, "dZ": ds, "A": p, "Z": s, "G": dp, r"\alpha": run.scale, "g": DLSE, r"\sigma": SINK,
        "E": run.keep[0, 0], "T": s, r"\rho": 1.0 - (s / CAP) ** 2, r"\omega": run.p_sink[0, 0],
        r"\mathrm{lse}": run.lse[0, 0], r"\varphi": PHI, r"\lambda": FACTOR,
    }  # fmt: skip


def dtable(dbias: np.ndarray) -> np.ndarray:
    """Return the gradient of a table whose rows are PHI."""
    return np.bincount(PHI.ravel() - 1, dbias.ravel(), minlength=R)


PLAIN, INSIDE = saved(), saved(bias_inside_scale=True)
CAPPED, DROPPED = saved(softcap=CAP), saved(keep=KEEP, dropout=0.25)
SUNK = saved(sink=np.array([SINK]))


def vjp(run: reference.Attention, dlse: bool = False) -> reference.AttentionGradients:
    """Return the cotangents of one run."""
    return reference.attention_vjp(run, DO[None, None], DLSE[None, None] if dlse else None)


# label: (run, letters, what the library computes)
CASES: dict[str, tuple[reference.Attention, str, Callable[[], np.ndarray]]] = {
    "def-bias-scores": (PLAIN, "ij", lambda: PLAIN.s[0, 0]),
    "def-bias-weights": (PLAIN, "ij", lambda: PLAIN.p[0, 0]),
    "def-bias-output": (PLAIN, "if", lambda: PLAIN.o[0, 0]),
    "eq-bias-answer": (PLAIN, "ij", lambda: vjp(PLAIN).dbias),
    "eq-bias": (PLAIN, "ij", lambda: vjp(PLAIN).dbias),
    "eq-bias-chain-rule": (PLAIN, "ij", lambda: vjp(PLAIN).dbias),
    "eq-bias-value-form": (PLAIN, "ij", lambda: vjp(PLAIN).dbias),
    "eq-bias-dq": (PLAIN, "ic", lambda: vjp(PLAIN).dq[0, 0]),
    "eq-bias-dk": (PLAIN, "jc", lambda: vjp(PLAIN).dk[0, 0]),
    "eq-bias-dv": (PLAIN, "jf", lambda: vjp(PLAIN).dv[0, 0]),
    "eq-bias-dscale": (PLAIN, "", lambda: np.array(vjp(PLAIN).dscale)),
    "eq-bias-table": (PLAIN, "r", lambda: dtable(vjp(PLAIN).dbias)),
    "def-bias-inside-scores": (INSIDE, "ij", lambda: INSIDE.s[0, 0]),
    "def-bias-inside-weights": (INSIDE, "ij", lambda: INSIDE.p[0, 0]),
    "eq-bias-inside": (INSIDE, "ij", lambda: vjp(INSIDE).dbias),
    "eq-bias-inside-dq": (INSIDE, "ic", lambda: vjp(INSIDE).dq[0, 0]),
    "eq-bias-inside-dk": (INSIDE, "jc", lambda: vjp(INSIDE).dk[0, 0]),
    "eq-bias-lse": (PLAIN, "ij", lambda: vjp(PLAIN, dlse=True).dbias),
    "eq-bias-dropout": (DROPPED, "ij", lambda: vjp(DROPPED).dbias),
    "eq-bias-cap": (CAPPED, "ij", lambda: vjp(CAPPED).dbias),
    "def-bias-sink-weights": (SUNK, "ij", lambda: SUNK.p[0, 0]),
    "def-bias-sink": (SUNK, "i", lambda: SUNK.p_sink[0, 0]),
    "eq-bias-sink": (SUNK, "ij", lambda: vjp(SUNK).dbias),
    "eq-bias-sink-gradient": (SUNK, "", lambda: vjp(SUNK).dsink[0]),
}
P, DP = PLAIN.p[0, 0], DO @ V.T
EXP2 = np.log(2.0)
# label: (run, letters, id of the mistake, arguments of its function, values that differ)
WRONG: dict[str, tuple[reference.Attention, str, str, tuple, dict[str, object]]] = {
    "bad-bias-diagonal": (PLAIN, "ij", "softmax-vjp-diagonal-only", (P, DP), {}),
    "bad-bias-entrywise": (
        INSIDE, "ij", "bias-inside-vjp-entrywise", (INSIDE.p[0, 0], DP, INSIDE.scale), {},
    ),
    "bad-bias-literal": (
        INSIDE, "ij", "bias-inside-vjp-literal", (INSIDE.p[0, 0], DP, INSIDE.scale), {},
    ),
    "bad-bias-lse": (PLAIN, "ij", "lse-cotangent-dropped", (P, DP, DLSE), {}),
    "bad-bias-dropout": (DROPPED, "ij", "dropout-vjp-mask-dropped", (P, DROPPED.keep[0, 0], DP), {}),
    "bad-bias-cap": (
        CAPPED, "ij", "softcap-vjp-factor-dropped",
        (CAPPED.s[0, 0], CAP, reference.softmax_vjp(CAPPED.p[0, 0], DP)), {},
    ),
    "bad-bias-kernel": (PLAIN, "ij", "bias-exp2-unscaled", (Q @ K.T, B, PLAIN.scale), {r"\lambda": EXP2}),
}  # fmt: skip


@pytest.mark.parametrize("label", CASES)
def test_a_printed_formula_is_what_the_reference_computes(label: str) -> None:
    run, letters, computed = CASES[label]
    shown = printed(PAGE, label, letters, values(run), SIZES)
    assert np.abs(shown).max() > 1e-2
    np.testing.assert_allclose(computed(), shown, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("label", WRONG)
def test_a_printed_mistake_is_the_function_of_that_id(label: str) -> None:
    run, letters, id, arguments, other = WRONG[label]
    assert id == chapter(PAGE)[label].mistake
    shown = printed(PAGE, label, letters, {**values(run), **other}, SIZES)
    np.testing.assert_allclose(MISTAKES[id].function(*arguments), shown, rtol=1e-12, atol=1e-13)
    assert np.abs(MISTAKES[id].right(*arguments) - shown).max() > 1e-2


def test_the_lost_factor_is_the_function_of_its_id() -> None:
    """The printed diagonal is that of the Jacobian which the function applies."""
    p, scale = INSIDE.p[0, 0], INSIDE.scale
    shown = printed(PAGE, "bad-bias-factor", "ij", values(INSIDE), SIZES)
    wrong = MISTAKES[chapter(PAGE)["bad-bias-factor"].mistake].function
    unit = np.array([[np.eye(M)[j] for j in range(M)] for _ in range(N)])
    diagonal = np.stack([wrong(p, unit[:, j], scale)[:, j] for j in range(M)], axis=1)
    np.testing.assert_allclose(diagonal, shown, rtol=1e-12, atol=1e-13)


def test_a_bias_taken_inside_the_scale_is_the_same_printed_mistake() -> None:
    shown = printed(PAGE, "bad-bias-kernel", "ij", {**values(PLAIN), r"\lambda": PLAIN.scale}, SIZES)
    wrong = MISTAKES["bias-inside-scale-instead"].function(Q @ K.T, B, PLAIN.scale)
    np.testing.assert_allclose(wrong, shown, rtol=1e-12)


def test_every_mistake_of_the_page_is_compared() -> None:
    named = {c.label for c in chapter(PAGE).claims if isinstance(c, Wrong) and c.mistake}
    assert named == {*WRONG, "bad-bias-factor"}


@pytest.mark.parametrize("function", [reference.attention, reference.attention_vjp], ids=lambda f: f.__name__)
def test_where_a_docstring_says_a_function_is_derived_is_compared_here(function: Callable) -> None:
    told = (function.__doc__ or "").partition("Derived in:")[2].partition(".")[0]
    derived = re.findall(r"(?:eq|def)-[a-z0-9-]+", told)
    assert derived
    assert set(derived) <= set(CASES)


def test_the_comparison_can_fail() -> None:
    shown = printed(PAGE, "eq-bias", "ij", values(PLAIN), SIZES)
    other = printed(PAGE, "eq-bias-inside", "ij", values(PLAIN), SIZES)
    assert not np.allclose(shown, other, rtol=1e-6)
