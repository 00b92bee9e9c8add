"""The formulas of attention's backward pass, as printed, are what the reference and its mistakes compute."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from attngrad import reference
from attngrad.mistakes import MISTAKES
from attngrad.proofs.claim import Wrong
from attngrad.proofs.examine import page_formulas
from attngrad.proofs.floats import Evaluator
from attngrad.proofs.ledger import chapter
from attngrad.proofs.read import read
from attngrad.proofs.sums import Partial

PAGE = "03_attention_backward"
N, M, D, D_V, G, U = 3, 5, 4, 2, 2, 3
SIZES = {"N": N, "M": M, "d_k": D, "d_v": D_V, "G": G, "U": U}
RNG = np.random.default_rng(12)
Q, K, V = (RNG.normal(size=shape) for shape in ((N, D), (M, D), (M, D_V)))
B, DO, DLSE = RNG.normal(size=(N, M)), RNG.normal(size=(N, D_V)), RNG.normal(size=N)
MASK, KEEP, TURN = RNG.random((N, M)) < 0.7, RNG.random((N, M)) < 0.6, RNG.normal(size=(M, D, D))
CAP, SINK, PHI = 1.7, 0.4, np.array([1, 1, 2, 2, 2])


def saved(**options: Any) -> reference.Attention:
    """Return attention on a batch of one with one head."""
    return reference.attention(Q[None, None], K[None, None], V[None, None], **options)


DROPPED = {"keep": KEEP, "dropout": 0.25}
EVERYTHING = {"bias": B, "mask": MASK, "sink": np.array([SINK]), "softcap": CAP} | DROPPED
PLAIN, BARE = saved(bias=B), saved()
INSIDE = saved(bias=B, bias_inside_scale=True)
SCORES, PRODUCT = saved(**EVERYTHING), saved(**EVERYTHING, softcap_on="product")
UNCAPPED = saved(**{**EVERYTHING, "softcap": None})
SHAPES = (1, G * U, N, D), (1, G, M, D), (1, G, M, D_V), (1, G * U, N, D_V)
SHARED = tuple(RNG.normal(size=shape) for shape in SHAPES)
HEADS = reference.attention(*SHARED[:3])


def vjp(run: reference.Attention) -> reference.AttentionGradients:
    """Return the cotangents of one run; those with a sink also read a cotangent of lse."""
    if run is HEADS:
        return reference.attention_vjp(run, SHARED[3])
    return reference.attention_vjp(run, DO[None, None], None if run.sink is None else DLSE[None, None])


def values(run: reference.Attention) -> dict[str, object]:
    """Return the names of the page for one run of a single head."""
    found, p, s = vjp(run), run.p[0, 0], run.s[0, 0]
    keep, o, omega = run.keep[0, 0], run.o[0, 0], run.p_sink[0, 0]
    dp, g = DO @ V.T * keep, np.zeros(N) if run.sink is None else DLSE
    slopes = {"scores": np.ones((N, M)), "product": np.ones((N, M))}
    if run.softcap is not None:
        capped = s if run.softcap_on == "scores" else run.x[0, 0]
        slopes[run.softcap_on] = 1.0 - (capped / CAP) ** 2
    delta = (DO * o).sum(axis=1)
    ds = p * (dp - delta[:, None] + g[:, None])
    return {
        **SIZES, "Q": Q, "K": K, "V": V, "b": B, "S": s, "P": p, "O": o, "dO": DO, "dP": dp, "dS": ds,
        "dQ": found.dq[0, 0], "dK": found.dk[0, 0], "dV": found.dv[0, 0], r"d\alpha": found.dscale,
        r"\alpha": run.scale, r"\mu": MASK.astype(float), r"\sigma": SINK, r"\omega": omega, "E": keep,
        r"\mathrm{lse}": run.lse[0, 0], r"\Delta": delta, "g": g, r"\varphi": PHI, "R": TURN, "T": Q @ K.T,
        r"\xi": slopes["scores"], r"\rho": slopes["product"], r"\bar{K}": p @ K,
        r"d\tilde{X}": slopes["scores"] * slopes["product"] * ds,
    }  # fmt: skip


def grouped(x: np.ndarray) -> np.ndarray:
    """Return (1, H, ...) as (G, U, ...)."""
    return x[0].reshape(G, U, *x.shape[2:])


def values_of_heads() -> dict[str, object]:
    """Return the names of the page for grouped heads."""
    q, k, v, do = SHARED
    dp = do @ np.swapaxes(reference.expand_kv_heads(v, G * U), -1, -2)
    names = {"Q": grouped(q), "K": k[0], "V": v[0], "S": grouped(HEADS.s), "P": grouped(HEADS.p)}
    names = {rf"\mathcal{{{name}}}": x for name, x in names.items()}
    cotangents = {r"d\mathcal{O}": grouped(do), r"d\mathcal{S}": grouped(reference.softmax_vjp(HEADS.p, dp))}
    return {**SIZES, **names, **cotangents, r"\alpha": HEADS.scale}


def side(
    label: str, names: dict[str, object], letters: str = "", line: int = -1, left: bool = False
) -> np.ndarray:
    """Return one side of a line of a display at every value of its letters: given, or those on its left."""
    book = chapter(PAGE)
    claim, tex = book[label], page_formulas(book)[label].tex
    reading = read(tex, book.table_of(claim), quote=isinstance(claim, Wrong))
    statement = reading.statements[line]
    named = {str(x): x for x in reading.scope.ranges}
    symbols = [named[x] for x in letters] or list(getattr(statement.lhs, "indices", ()))
    symbols = symbols or sorted(statement.free, key=str, reverse=True)
    evaluate = Evaluator(names, {x: SIZES[name] for name, x in book.table.size.items()})
    spans = [range(1, int(evaluate(reading.scope.ranges[x][1], {})) + 1) for x in symbols]
    out = np.empty([len(span) for span in spans])
    for at in product(*spans):
        expression = statement.lhs if left else statement.rhs
        out[tuple(k - 1 for k in at)] = evaluate(expression, dict(zip(symbols, at, strict=True)))
    return out


TURNED = np.einsum("jcm,jc->jm", TURN, vjp(saved(bias=B)).dk[0, 0])
# label, or label and line: (names of the page, letters if the left side has none, what the library computes)
CASES: dict[str | tuple[str, int], tuple[dict[str, object], str, Callable[[], np.ndarray]]] = {
    "def-att-scores": (values(PLAIN), "", lambda: PLAIN.s[0, 0]),
    "def-att-weights": (values(PLAIN), "", lambda: PLAIN.p[0, 0]),
    "def-att-output": (values(PLAIN), "", lambda: PLAIN.o[0, 0]),
    ("eq-att-answer", 0): (values(PLAIN), "", lambda: vjp(PLAIN).dv[0, 0]),
    ("eq-att-answer", 2): (values(PLAIN), "", lambda: vjp(PLAIN).dbias),
    ("eq-att-answer", 3): (values(PLAIN), "", lambda: vjp(PLAIN).dq[0, 0]),
    ("eq-att-answer", 4): (values(PLAIN), "", lambda: vjp(PLAIN).dk[0, 0]),
    ("eq-att-answer", 5): (values(PLAIN), "", lambda: np.array(vjp(PLAIN).dscale)),
    "eq-att-dp": (values(PLAIN), "", lambda: DO @ V.T),
    "eq-att-dv": (values(PLAIN), "", lambda: vjp(PLAIN).dv[0, 0]),
    "eq-att-ds": (values(PLAIN), "", lambda: vjp(PLAIN).dbias),
    "eq-att-dq": (values(PLAIN), "", lambda: vjp(PLAIN).dq[0, 0]),
    "eq-att-dk": (values(PLAIN), "", lambda: vjp(PLAIN).dk[0, 0]),
    "eq-att-dscale": (values(PLAIN), "", lambda: np.array(vjp(PLAIN).dscale)),
    ("eq-att-covariance", 0): (values(PLAIN), "ic", lambda: vjp(PLAIN).dq[0, 0]),
    ("eq-att-covariance", 1): (values(PLAIN), "ic", lambda: vjp(PLAIN).dq[0, 0]),
    "eq-att-value-ds": (values(PLAIN), "", lambda: vjp(PLAIN).dbias),
    "def-att-full-weights": (values(SCORES), "", lambda: SCORES.p[0, 0]),
    "def-att-sink-weight": (values(SCORES), "", lambda: SCORES.p_sink[0, 0]),
    "def-att-full-output": (values(SCORES), "", lambda: SCORES.o[0, 0]),
    "def-att-full-lse": (values(SCORES), "", lambda: SCORES.lse[0, 0]),
    "eq-att-identity": (values(PRODUCT), "", lambda: vjp(PRODUCT).dbias),
    "eq-att-full-dbias": (values(SCORES), "ij", lambda: vjp(SCORES).dbias),
    "eq-att-full-dq": (values(PRODUCT), "", lambda: vjp(PRODUCT).dq[0, 0]),
    "eq-att-full-dk": (values(SCORES), "", lambda: vjp(SCORES).dk[0, 0]),
    "eq-att-full-dscale": (values(PRODUCT), "", lambda: np.array(vjp(PRODUCT).dscale)),
    "eq-att-full-dv": (values(SCORES), "", lambda: vjp(SCORES).dv[0, 0]),
    "eq-att-full-dsink": (values(SCORES), "", lambda: vjp(SCORES).dsink[0]),
    "def-att-heads-scores": (values_of_heads(), "", lambda: grouped(HEADS.s)),
    "def-att-heads-weights": (values_of_heads(), "", lambda: grouped(HEADS.p)),
    "def-att-heads-output": (values_of_heads(), "", lambda: grouped(HEADS.o)),
    "eq-att-heads-dk": (values_of_heads(), "", lambda: vjp(HEADS).dk[0]),
    "eq-att-heads-dv": (values_of_heads(), "", lambda: vjp(HEADS).dv[0]),
    "def-att-inside-scores": (values(INSIDE), "", lambda: INSIDE.s[0, 0]),
    "eq-att-inside-dscale": (values(INSIDE), "", lambda: np.array(vjp(INSIDE).dscale)),
    "def-att-scores-scale": (values(BARE), "", lambda: BARE.s[0, 0]),
    "eq-att-key-bias-turned": (values(PLAIN), "m", lambda: TURNED.sum(axis=0)),
}
# Equations between things that the library computes: a label, the names of its page, and the number of lines.
LAWS: dict[str, tuple[dict[str, object], int]] = {
    "eq-att-full-delta": (values(SCORES), 1),
    "eq-att-row-sum": (values(SCORES), 1),
    "eq-att-balance": (values(PRODUCT), 1),
    "eq-att-scale-law": (values(SCORES), 2),
    "eq-att-scale-values": (values(PRODUCT), 1),
    "eq-att-query-bias": (values(PLAIN), 1),
    "eq-att-value-bias": (values(PLAIN), 1),
    "eq-att-key-bias-full": (values(PRODUCT), 1),
    "eq-att-value-bias-full": (values(UNCAPPED), 1),
}


TWO_P, TWO_DO = np.array([[1.0, 2.0], [1.0, 2.0]]) / 3.0, np.array([[1.0, 0.0], [0.0, -1.0]])
TWO_V = np.array([[9.0, 0.0], [18.0, 9.0]])
DS, DP, P = values(PLAIN)["dS"], DO @ V.T, PLAIN.p[0, 0]
PER_HEAD = HEADS.scale * np.swapaxes(values_of_heads()[r"d\mathcal{S}"], -1, -2) @ grouped(SHARED[0])
BARE_DS = values(BARE)["dS"]
# label: (names of the page, letters, arguments of the mistake, with its axes of batch and heads taken away)
WRONG: dict[str, tuple[dict[str, object], str, tuple]] = {
    "bad-att-dq-scale": (values(PLAIN), "ic", (DS, K, PLAIN.scale)),
    "bad-att-dk-scale": (values(PLAIN), "jc", (DS, Q, PLAIN.scale)),
    "bad-att-scale-twice": (values(PLAIN), "ic", (DS, K, PLAIN.scale)),
    "bad-att-dp": ({"P": TWO_P, "dO": TWO_DO}, "ij", (TWO_P, TWO_V, TWO_DO)),
    "bad-att-delta-unweighted": (values(PLAIN), "", (P, DP)),
    "bad-att-delta-block": (values(PLAIN), "", (P, DP, PHI)),
    "bad-att-group-last": (values_of_heads(), "", (PER_HEAD.reshape(G * U, M, D), G)),
    "bad-att-dscale-scores": (values(BARE), "", (BARE_DS, Q @ K.T, BARE.scale)),
    "bad-att-dscale-product": (values(BARE), "", (BARE_DS, Q @ K.T, BARE.scale)),
}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_printed_formula_is_what_the_reference_computes(case: Any) -> None:
    names, letters, computed = CASES[case]
    label, line = case if isinstance(case, tuple) else (case, -1)
    shown = side(label, names, letters, line)
    assert np.abs(shown).max() > 1e-2
    np.testing.assert_allclose(computed(), shown, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("label", LAWS)
def test_a_printed_law_holds_for_what_the_reference_computes(label: str) -> None:
    names, lines = LAWS[label]
    for line in range(lines):
        left, right = (side(label, names, line=line, left=which) for which in (True, False))
        assert np.abs(left).max() > 1e-2
        np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-12)


def test_the_bias_of_the_keys_gets_nothing_from_the_reference() -> None:
    """The printed sums are zero, and of terms that are not."""
    for left in (True, False):
        np.testing.assert_allclose(side("eq-att-key-bias", values(PLAIN), line=0, left=left), 0.0, atol=1e-14)
    assert np.abs(vjp(PLAIN).dk).max() > 0.1


@pytest.mark.parametrize("label", WRONG)
def test_a_printed_mistake_is_the_function_of_that_id(label: str) -> None:
    names, letters, arguments = WRONG[label]
    wrong = MISTAKES[chapter(PAGE)[label].mistake]
    shown = side(label, names, letters)
    np.testing.assert_allclose(wrong.function(*arguments), shown, rtol=1e-12, atol=1e-13)
    assert np.abs(wrong.right(*arguments) - shown).max() > 1e-2


def test_every_mistake_of_the_page_is_compared() -> None:
    claims = chapter(PAGE).claims
    assert {c.label for c in claims if isinstance(c, Wrong) and c.mistake} == set(WRONG)


EXAMPLES = {
    "two": (
        np.array([[1.0, 1], [0, 1]]),
        np.array([[1.0, 0], [-1, 1]]),
        np.array([[0.0, 2], [0, 0]]),
        TWO_V,
        TWO_DO,
    ),
    "three": (
        np.array([[1.0, 0, 0], [1, 1, 0], [0, 1, 1]]),
        np.array([[0.0, -1, 3], [-1, 2, -2], [1, 0, 0], [1, -1, 0]]),
        np.array([[0.0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1]]),
        np.array([[8.0, 0], [0, 8], [8, 8], [0, 0]]),
        np.array([[1.0, 0], [0, 1], [1, -1]]),
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_worked_examples_are_what_the_reference_computes(name: str) -> None:
    scale = np.log(2.0)
    q, k, bias, v, do = EXAMPLES[name]
    run = reference.attention(*(x[None, None] for x in (q, k, v)), scale * bias, scale=scale)
    found = reference.attention_vjp(run, do[None, None])
    computed = {
        "def-att-{}-queries": q, "def-att-{}-keys": k, "def-att-{}-values": v, "def-att-{}-cotangent": do,
        "def-att-{}-scores": run.s[0, 0], "eq-att-{}-product": q @ k.T, "eq-att-{}-weights": run.p[0, 0],
        "eq-att-{}-dv": found.dv[0, 0], "eq-att-{}-ds": found.dbias, "eq-att-{}-dq": found.dq[0, 0] / scale,
        "eq-att-{}-dk": found.dk[0, 0] / scale, "eq-att-{}-dscale": found.dscale,
    }  # fmt: skip
    labels = {c.label for c in chapter(PAGE).claims}
    wanted = {pattern.format(name): want for pattern, want in computed.items()}
    shown = {label: want for label, want in wanted.items() if label in labels}
    assert len(shown) == len(computed) - (name == "two")
    for label, want in shown.items():
        np.testing.assert_allclose(side(label, {}), want, rtol=1e-12, atol=1e-12, err_msg=label)


def test_every_formula_without_a_derivative_is_compared_or_named_here() -> None:
    """A display of the page is compared above, or it is a derivative, a tangent, a cap or a turned key."""
    book, formulas = chapter(PAGE), page_formulas(chapter(PAGE))
    compared = {case if isinstance(case, str) else case[0] for case in CASES} | set(LAWS) | set(WRONG)
    compared |= {"eq-att-key-bias"}
    left = set()
    for claim in book.claims:
        reading = read(formulas[claim.label].tex, book.table_of(claim), quote=isinstance(claim, Wrong))
        sides = [x for s in reading.statements for x in (s.lhs, s.rhs)]
        if claim.label not in compared and not claim.at and not any(x.has(Partial) for x in sides):
            left.add(claim.label.removeprefix("def-att-").removeprefix("eq-att-"))
    assert left == {
        "loss", "to", "through-values", "tp", "through-softmax", "ts", "through-scores", "all", "mean-key",
        "product", "capped-product", "sum", "capped-scores", "full-scores", "mask", "full-loss", "delta",
        "full-dp", "full-dx", "heads-loss", "scores-root", "scores-size", "scores-log", "turned-keys",
        "bad-att-key-bias", "bad-att-value-bias",
    }  # fmt: skip


def test_the_comparison_can_fail() -> None:
    names, _, computed = CASES["eq-att-dq"]
    wrong = side("eq-att-dq", {**names, r"\alpha": 1.0})
    assert not np.allclose(computed(), wrong, rtol=1e-6)
    names = {**LAWS["eq-att-balance"][0], "dQ": LAWS["eq-att-balance"][0]["dQ"] * 2.0}
    assert not np.allclose(side("eq-att-balance", names), side("eq-att-balance", names, left=True), rtol=1e-6)
