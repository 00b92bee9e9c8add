"""The formulas of index calculus, as printed, are what the library and its derivatives compute."""

import re
from collections.abc import Callable

import numpy as np
import pytest

from attngrad import checks, differentiation, reference
from attngrad.differentiation import central_difference, complex_step, dual_derivative, forward_difference
from attngrad.mistakes import MISTAKES
from attngrad.proofs.claim import Wrong
from attngrad.proofs.examine import page_formulas
from attngrad.proofs.floats import Evaluator
from attngrad.proofs.ledger import chapter
from attngrad.proofs.read import read

from . import printed_formulas

PAGE = "01_index_calculus"
BOOK = chapter(PAGE)
N, M, D_V = 3, 4, 2
SIZES = {"N": N, "M": M, "d_v": D_V}
RNG = np.random.default_rng(13)
W, C, TW = (RNG.normal(size=(N, M)) for _ in range(3))
E, X, TX, DZZ = (RNG.normal(size=(M, size)) for size in (M, D_V, D_V, D_V))
DY, U, G = (RNG.normal(size=shape) for shape in ((N, D_V), (N, D_V), (N, M)))
x, tx, g = RNG.normal(size=M), RNG.normal(size=M), RNG.normal(size=D_V)
dz, dy, b = RNG.normal(size=N), RNG.normal(size=N), RNG.normal(size=(N, M))
PHI = np.array([2, 4, 2])
STEP, SCORES = 0.03, np.log([1.0, 2.0, 4.0])
P = float(reference.softmax(SCORES)[0])
SLOPE, GAMMA = 1.0 - np.tanh(W @ x) ** 2, 0.7
VALUES = {
    **SIZES, "W": W, "C": C, "E": E, "X": X, "Y": W @ X, "dY": DY, "U": U, "G": G, "x": x, "tx": tx, "g": g,
    "y": W @ x, "v": C @ x, "dy": dy, "dz": dz, r"\lambda": SLOPE, "J": SLOPE[:, None] * W, "tW": TW,
    "tX": TX, "dW": DY @ X.T, "dX": W.T @ DY, "dZ": DZZ, r"\psi": 2 * b, "s": 0.4, "h": STEP, "p": P,
    r"\gamma": GAMMA, r"\varphi": PHI, "u": checks.UNIT_ROUNDOFF["float64"],
}  # fmt: skip


def printed(label: str, letters: str, **other: object) -> np.ndarray:
    """Return what a display of the page says, at every value of its free letters."""
    return printed_formulas.printed(PAGE, label, letters, {**VALUES, **other}, SIZES)


def gradient(f: Callable, at: np.ndarray) -> np.ndarray:
    """Return the gradient of a function with one output by dual numbers, one for each entry."""
    out = np.zeros_like(at)
    for k in np.ndindex(at.shape):
        unit = np.zeros_like(at)
        unit[k] = 1.0
        out[k] = dual_derivative(f, at, unit)
    return out


def layer(x: object) -> object:
    """Return the layer of the page with tanh as its function."""
    return np.tanh(W @ x)


def lse(s: object) -> object:
    """Return log-sum-exp in operators alone."""
    return np.log(np.exp(s).sum())


def weight(s: object) -> object:
    """Return the second derivative of lse by the first score, as the page's weight makes it."""
    p = np.exp(s[0]) / np.exp(s).sum()
    return p * (1.0 - p)


def cube(s: object) -> object:
    """Return the cube."""
    return s * s * s


FIRST, ONE = np.array([1.0, 0.0, 0.0]), np.array(1.0)
AT = np.array(VALUES["s"])
# label: (letters, what the library computes)
CASES: dict[str, tuple[str, Callable[[], np.ndarray]]] = {
    "eq-calc-product-w": ("ij", lambda: gradient(lambda w: ((w @ X) * DY).sum(), W)),
    "eq-calc-product-x": ("jf", lambda: gradient(lambda x: ((W @ x) * DY).sum(), X)),
    "eq-calc-answer": (
        "",
        lambda: (
            (dual_derivative(lambda w: w @ X, W, TW) + dual_derivative(lambda x: W @ x, X, TX)) * DY
        ).sum(),
    ),
    "eq-calc-sum": ("", lambda: gradient(lambda x: x.sum(), x)[0]),
    "eq-calc-linear": (
        "ij",
        lambda: np.stack([dual_derivative(lambda x: W @ x, x, t) for t in np.eye(M)], 1),
    ),
    "eq-calc-quadratic": ("j", lambda: gradient(lambda x: x @ (E @ x), x)),
    "eq-calc-chain": ("j", lambda: gradient(lambda x: (layer(x) * dz).sum(), x)),
    "eq-calc-chain-matrix": ("ij", lambda: gradient(lambda w: (np.tanh(w @ x) * dz).sum(), W)),
    "eq-calc-paths": ("j", lambda: gradient(lambda x: ((W @ x) * (C @ x)).sum(), x)),
    "eq-calc-jvp": ("i", lambda: dual_derivative(layer, x, tx)),
    "eq-calc-vjp": ("j", lambda: gradient(lambda x: (layer(x) * dz).sum(), x)),
    "eq-calc-frozen": ("j", lambda: gradient(lambda x: (layer(x) * dz).sum(), x)),
    "eq-calc-gather": ("", lambda: (gradient(lambda x: (x[PHI - 1] * dy).sum(), x) * x).sum()),
    "eq-calc-broadcast": ("", lambda: (gradient(lambda g: (np.ones((N, 1)) * g * DY).sum(), g) * g).sum()),
    "eq-calc-forward": ("", lambda: forward_difference(cube, AT, ONE, STEP)),
    "eq-calc-central": ("", lambda: central_difference(cube, AT, ONE, STEP)),
    "eq-calc-lse": ("", lambda: complex_step(lse, SCORES, FIRST)),
    "eq-calc-lse-here": ("", lambda: dual_derivative(lse, SCORES, FIRST)),
    "eq-calc-lse-third": ("", lambda: complex_step(weight, SCORES, FIRST)),
    "eq-calc-lse-third-here": ("", lambda: reference.softmax_hessian(reference.softmax(SCORES))[0, 0, 0]),
    "eq-calc-sum-loss": ("j", lambda: gradient(lambda x: (W @ x).sum(), x)),
    "eq-calc-averaged": ("j", lambda: MISTAKES["matrix-vjp-averaged"].function(W, x, np.full(N, GAMMA))),
    "eq-calc-linear-loss": ("j", lambda: gradient(lambda x: ((W @ x) * dy).sum(), x)),
    "eq-calc-square": ("jf", lambda: gradient(lambda x: ((E @ x) * DZZ).sum(), X)),
    "eq-calc-unfrozen": ("j", lambda: MISTAKES["pairing-vjp-unfrozen"].function(W, x)),
    "eq-calc-renamed": ("ij", lambda: gradient(lambda b: (b * b * G).sum(), b)),
}
# label: (letters, arguments of the mistake's function, what the function gives)
WRONG: dict[str, tuple[str, tuple]] = {
    "bad-calc-square": ("jf", (E, X, DZZ)),
    "bad-calc-quadratic": ("j", (E, x, ONE)),
    "bad-calc-paths": ("j", (W, C, x, ONE)),
    "bad-calc-averaged": ("j", (W, x, dy)),
}


@pytest.mark.parametrize("label", CASES)
def test_a_printed_formula_is_what_the_library_computes(label: str) -> None:
    letters, computed = CASES[label]
    shown = printed(label, letters)
    assert np.abs(shown).max() > 1e-2
    np.testing.assert_allclose(computed(), shown, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("label", WRONG)
def test_a_printed_mistake_is_the_function_of_that_id(label: str) -> None:
    letters, arguments = WRONG[label]
    wrong, shown = MISTAKES[BOOK[label].mistake], printed(label, letters)
    np.testing.assert_allclose(wrong.function(*arguments), shown, rtol=1e-12, atol=1e-13)
    assert np.abs(wrong.right(*arguments) - shown).max() > 1e-2


def test_the_number_of_terms_in_the_place_of_one_is_the_printed_mistake() -> None:
    wrong = MISTAKES[BOOK["bad-calc-sum"].mistake]
    assert wrong.function(x, ONE).tolist() == [printed("bad-calc-sum", "").item()] * M


def test_the_mean_over_copies_is_the_printed_mistake() -> None:
    wrong = MISTAKES[BOOK["bad-calc-broadcast"].mistake]
    shown = printed("bad-calc-broadcast", "")
    np.testing.assert_allclose((wrong.function(g, DY) * g).sum(), shown, rtol=1e-12)
    assert abs((wrong.right(g, DY) * g).sum() - shown) > 1e-2


def test_the_pairing_that_moves_gives_twice_the_vjp_that_is_printed() -> None:
    """The printed right side is the VJP that is wanted; the mistake is to take the left side for it."""
    wrong, shown = MISTAKES[BOOK["bad-calc-unfrozen"].mistake], printed("bad-calc-unfrozen", "j")
    np.testing.assert_allclose(wrong.right(W, x), shown, rtol=1e-12)
    np.testing.assert_allclose(wrong.function(W, x), 2 * shown, rtol=1e-12)
    np.testing.assert_allclose(gradient(lambda x: ((W @ x) ** 2).sum(), x), 2 * shown, rtol=1e-12)


def test_the_double_sum_of_the_post_is_the_function_of_its_id() -> None:
    """Its two derivatives are given by their values, the cotangent and the slope."""
    tex = page_formulas(BOOK)["bad-calc-clash"].tex
    derivatives = r"\frac{\partial L}{\partial A_{ij}}\, \frac{\partial A_{ij}}{\partial b_{ij}}"
    assert tex.count(derivatives) == 1
    reading = read(tex.replace(derivatives, r"G_{ij}\, \psi_{ij}"), BOOK.table, quote=True)
    evaluate = Evaluator(VALUES, {symbol: SIZES[name] for name, symbol in BOOK.table.size.items()})
    wrong = MISTAKES[BOOK["bad-calc-clash"].mistake]
    shown = evaluate(reading.statements[-1].rhs, {})
    np.testing.assert_allclose(wrong.function(2 * b, G), np.full((N, M), shown), rtol=1e-12)
    assert np.abs(wrong.right(2 * b, G) - shown).max() > 1e-2


def test_every_mistake_of_the_page_is_compared() -> None:
    named = {c.label for c in BOOK.claims if isinstance(c, Wrong) and c.mistake}
    alone = {"bad-calc-sum", "bad-calc-broadcast", "bad-calc-unfrozen", "bad-calc-clash"}
    assert named == {*WRONG, *alone}
    assert {c.label for c in BOOK.claims if isinstance(c, Wrong)} == named


def test_the_printed_bound_holds_for_the_differences_of_the_library_and_no_smaller_one_does() -> None:
    """On a cubic, whose third derivative is constant; every step beyond rounding meets the bound."""
    assert "thm-calc-central" in central_difference.__doc__
    for h in np.geomspace(1e-6, 1.0, 25):
        eta = 8 * VALUES["u"] * (0.4 + h) ** 3
        bound = printed("thm-calc-central", "", **{"h": h, r"\mu": 1.0, r"\eta": eta}).item()
        error = abs(float(central_difference(cube, AT, ONE, h)) - 3 * 0.16)
        assert error <= bound
        assert h < 1e-3 or error > 0.99 * bound


def test_the_printed_numbers_are_those_of_the_checks() -> None:
    band = printed("num-calc-band", "").item()
    assert round(checks.TOLERANCES["float64"].rtol / VALUES["u"]) == band
    assert checks.STEP == 1e-6
    assert abs(VALUES["u"] / checks.STEP - printed("num-calc-difference", "").item()) < 0.05e-10


def test_where_a_docstring_says_a_function_is_derived_is_a_label_of_the_page() -> None:
    own = [
        f for f in vars(differentiation).values() if getattr(f, "__module__", "") == differentiation.__name__
    ]
    told = re.findall(r"Derived in: ([a-z-]+)", "".join(f.__doc__ or "" for f in own))
    assert told == ["thm-calc-central"]
    assert BOOK[told[0]]


def test_the_comparison_can_fail() -> None:
    letters, computed = CASES["eq-calc-quadratic"]
    assert not np.allclose(computed(), printed("bad-calc-quadratic", letters), rtol=1e-6)
    chain, shown = CASES["eq-calc-chain"][1](), printed("eq-calc-chain", "j")
    assert not np.allclose(chain, shown * (1 + 1e-9), rtol=1e-12, atol=1e-13)
