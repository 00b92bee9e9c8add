"""What is proved is what the code computes: the formulas of softmax, in floats, against the library.

`test_bias_code_agrees.py` does the same for attention. With `test_mistakes_agree.py` these are the only
places that import both proofs and reference.
"""

import inspect
import re
from collections.abc import Callable

import numpy as np
import pytest
import torch

from attngrad import layers, reference

from . import printed_formulas

PAGE = "02_softmax_jacobian"
N = 5
RNG = np.random.default_rng(7)
S, DP, TS = RNG.normal(size=N), RNG.normal(size=N), RNG.normal(size=N)
Y = RNG.uniform(0.2, 1.0, size=N)
MASK = np.array([True, False, True, True, False])
TAU = 1.7
P, PI = reference.softmax(S), reference.softmax_temperature(S, TAU)
LSE = np.log(np.exp(S).sum())
U = RNG.normal(size=N)
VALUES = {"n": N, "u": U, r"\bar{u}": P @ U, r"\bar{d}": P @ DP,
          "s": S, "p": P, "dp": DP, "dz": DP, "ts": TS, "y": Y, r"\mathrm{lse}": LSE,
          r"\mu": MASK.astype(float), r"\pi": PI, r"\tau": TAU}  # fmt: skip


def printed(label: str, letters: str) -> np.ndarray:
    """Return what a display of the page says, at every value of its free letters."""
    return printed_formulas.printed(PAGE, label, letters, VALUES, {"n": N, "N": 1})


one = np.array(1.0)
# label: what the library computes, what the page prints
CASES: dict[str, tuple[Callable[[], np.ndarray], Callable[[], np.ndarray]]] = {
    "def-softmax": (lambda: reference.softmax(S), lambda: printed("def-softmax", "i")),
    "def-masked": (lambda: reference.softmax(S, MASK), lambda: printed("def-masked", "i")),
    "def-lse": (lambda: reference.lse(S), lambda: printed("def-lse", "")),
    "eq-softmax-jacobian": (
        lambda: reference.softmax_jacobian(P),
        lambda: printed("eq-softmax-jacobian", "ij"),
    ),
    "eq-second": (lambda: reference.softmax_hessian(P), lambda: printed("eq-second", "ijl")),
    "eq-vjp": (lambda: reference.softmax_vjp(P, DP), lambda: printed("eq-vjp", "j")),
    "eq-jvp": (lambda: reference.softmax_jvp(P, TS), lambda: printed("eq-jvp", "i")),
    "eq-log-softmax": (lambda: reference.log_softmax(S), lambda: printed("eq-log-softmax", "i")),
    "eq-log-softmax-vjp": (
        lambda: reference.log_softmax_vjp(P, DP),
        lambda: printed("eq-log-softmax-vjp", "j"),
    ),
    "eq-log-softmax-jacobian": (
        lambda: reference.log_softmax_jvp(P, TS),
        lambda: printed("eq-log-softmax-jacobian", "ij") @ TS,
    ),
    "eq-cross-entropy-value": (
        lambda: reference.cross_entropy(S, Y),
        lambda: printed("eq-cross-entropy-value", ""),
    ),
    "eq-cross-entropy": (
        lambda: reference.cross_entropy_vjp(P, Y, one),
        lambda: printed("eq-cross-entropy", "j"),
    ),
    "def-temperature": (
        lambda: reference.softmax_temperature(S, TAU),
        lambda: printed("def-temperature", "i"),
    ),
    "eq-temperature": (
        lambda: reference.softmax_temperature_vjp(PI, S, TAU, DP)[0],
        lambda: DP @ printed("eq-temperature", "ij"),
    ),
    "eq-temperature-derivative": (
        lambda: np.asarray(reference.softmax_temperature_vjp(PI, S, TAU, DP)[1]),
        lambda: DP @ printed("eq-temperature-derivative", "i"),
    ),
}
ELSEWHERE = tuple(f"attngrad.reference.{name}" for name in ("attention", "blocks", "tables"))
PUBLIC = {n: f for n, f in vars(reference).items() if inspect.isfunction(f) and f.__module__ not in ELSEWHERE}
DERIVED = {n: re.findall(r"(?:eq|def)-[a-z0-9-]+", m[1]) for n, f in PUBLIC.items()
           if (m := re.search(r"Derived in: (.*?)\.\n", f.__doc__ or "", re.S))}  # fmt: skip


@pytest.mark.parametrize("label", CASES)
def test_a_printed_formula_is_what_the_function_computes(label: str) -> None:
    computed, shown = (part() for part in CASES[label])
    assert np.abs(shown).max() > 1e-3
    np.testing.assert_allclose(computed, shown, rtol=1e-12, atol=1e-14)


def test_the_jvp_at_a_temperature_is_made_of_both_derivatives() -> None:
    shown = printed("eq-temperature", "ij") @ TS + printed("eq-temperature-derivative", "i") * 0.3
    np.testing.assert_allclose(reference.softmax_temperature_jvp(PI, S, TAU, TS, 0.3), shown, rtol=1e-12)


def test_double_backward_of_the_layer_is_the_printed_one() -> None:
    s = torch.tensor(S, requires_grad=True)
    (ds,) = torch.autograd.grad(layers.softmax(s), s, torch.tensor(DP), create_graph=True)
    (second,) = torch.autograd.grad(ds, s, torch.tensor(U))
    np.testing.assert_allclose(second.numpy(), printed("eq-double-backward", "l"), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", DERIVED)
def test_where_a_docstring_says_a_function_is_derived_is_compared_here(name: str) -> None:
    assert DERIVED[name]
    assert set(DERIVED[name]) <= set(CASES)


def test_every_function_of_softmax_says_where_it_is_derived() -> None:
    assert set(PUBLIC) - set(DERIVED) == {"expand_kv_heads", "reduce_kv_heads"}


def test_the_comparison_can_fail() -> None:
    assert not np.allclose(CASES["eq-vjp"][0](), printed("eq-vjp", "j") * (1 + 1e-9), rtol=1e-12, atol=0)
