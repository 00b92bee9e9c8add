"""Claims of chapter 02, the softmax Jacobian."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from random import Random

import numpy as np

from ..claim import Chapter, Definition, Hypothesis, Identity, Number, Theorem, Wrong
from ..read import Table

TABLE = Table(
    index={**dict.fromkeys("ijlgh", "n"), "a": "N", "b": "N", "r": (1, "n-1")},
    names={
        **{
            x: ("n",)
            for x in (
                "s",
                "p",
                "dp",
                "ds",
                "ts",
                "tp",
                "v",
                "u",
                "z",
                "dz",
                "y",
                "w",
                r"\mu",
                r"\pi",
                r"\sigma",
                r"\lambda",
            )
        },
        "J": ("n", "n"),
        "T": ("n", "n", "n"),
        **{x: ("N", "n") for x in ("S", "P", "dP", "dS")},
        **{
            x: ()
            for x in (
                "L",
                "C",
                "c",
                r"\mathrm{lse}",
                r"\bar{v}",
                r"\bar{u}",
                r"\bar{d}",
                r"\alpha",
                r"\beta",
                r"\varepsilon",
            )
        },
        r"\tau": "+",
        r"\Omega_{64}": "+",
        r"\Omega_{32}": "+",
        r"\Omega_{16}": "+",
        "n": "size",
        "N": "size",
    },
    kronecker=r"\delta",
    lookalikes_allowed=(
        ("a", r"\alpha"),
        ("u", r"\mu"),
        ("C", "c"),
        ("p", "P"),
        ("s", "S"),
        ("w", r"\omega"),
    ),
)


def distribution(sizes: Mapping[str, int], random: Random) -> dict[tuple, Fraction]:
    """Return targets that sum to one; the last one makes up for the rest."""
    n = sizes["n"]
    y = [Fraction(random.choice([-2, 1, 3, 5]), random.randint(2, 7)) for _ in range(n - 1)]
    return {("y", k + 1): value for k, value in enumerate([*y, 1 - sum(y)])}


def weights(sizes: Mapping[str, int], random: Random) -> dict[tuple, Fraction]:
    """Return positive weights that sum to one."""
    parts = [random.randint(1, 9) for _ in range(sizes["n"])]
    return {("p", k + 1): Fraction(part, sum(parts)) for k, part in enumerate(parts)}


def mask(sizes: Mapping[str, int], random: Random) -> dict[tuple, Fraction]:
    """Return a 0/1 mask that hides one key: with three keys or more, two are left to trade weight."""
    hidden = random.randint(1, sizes["n"])
    return {(r"\mu", k): Fraction(int(k != hidden)) for k in range(1, sizes["n"] + 1)}


def row(random: np.random.Generator, trial: int) -> dict[str, object]:
    """Return one softmax row: the extreme ones first, then random sizes and scales."""
    extreme = [
        np.zeros(1),
        np.zeros(2),
        np.zeros(5),
        np.array([0.0, 0.0, -800.0]),
        np.array([50.0, 0.0, 0.0]),
        np.array([3.0, 3.0, 3.0, -1.0]),
    ]
    s = (
        extreme[trial]
        if trial < len(extreme)
        else random.normal(size=random.integers(2, 9)) * random.choice([0.1, 1.0, 8.0])
    )
    p = np.exp(s - s.max()) / np.exp(s - s.max()).sum()
    jacobian = np.diag(p) - np.outer(p, p)
    v = np.ones(len(s)) if trial < 2 else random.normal(size=len(s))
    return {
        "n": len(s),
        "s": s,
        "p": p,
        "v": v,
        r"\bar{v}": p @ v,
        "J": jacobian,
        r"\sigma": np.sort(p)[::-1],
        r"\lambda": np.sort(np.linalg.eigvalsh(jacobian))[::-1],
    }


def rows_of_two_or_more(random: np.random.Generator, trial: int) -> dict[str, object]:
    """Return a row with at least two keys, so that there are neighbours to compare."""
    return row(random, trial + 1)


def largest_numbers(random: np.random.Generator, trial: int) -> dict[str, object]:
    """Return the largest finite number of each floating-point type."""
    return {rf"\Omega_{{{bits}}}": float(np.finfo(f"float{bits}").max) for bits in (64, 32, 16)}


SOFTMAX = ("def-softmax",)
JACOBIAN = ("def-jacobian",)
WEIGHTS = ("def-covariance",)
MEAN = ("def-mean", *WEIGHTS)
SUM = ("def-weights",)
THREE = {"n": 3}
MASKED = ({"n": 3}, {"n": 4})

CHAPTER = Chapter(
    page="02_softmax_jacobian",
    table=TABLE,
    sizes=({"n": 2, "N": 2}, {"n": 3, "N": 2}, {"n": 1, "N": 1}),
    claims=(
        Identity("eq-answer-jacobian", SOFTMAX),
        Identity("eq-answer-vjp", ("def-ds",)),
        Definition("def-softmax"),
        Identity("eq-sum-one", SOFTMAX),
        Identity("eq-shift", SOFTMAX),
        Definition("def-jacobian", SOFTMAX),
        Identity(
            "eq-softmax-jacobian",
            SOFTMAX,
            mistakes={
                "softmax-jacobian-column-only": r"\frac{\partial p_i}{\partial s_j} = p_i\,(1 - p_j)",
                "softmax-jacobian-diagonal": r"\frac{\partial p_i}{\partial s_j} = \delta_{ij} p_i (1 - p_j)",
            },
        ),
        Identity("eq-diagonal", SOFTMAX),
        Identity("eq-jacobian-matrix", JACOBIAN),
        Definition("def-lse"),
        Identity("eq-lse-gradient", ("def-lse", *SOFTMAX)),
        Identity("eq-lse-hessian", ("def-lse", *JACOBIAN)),
        Identity("eq-jacobian-symmetric", JACOBIAN),
        Definition("def-mean"),
        Identity("eq-jacobian-times-vector", ("def-mean", *JACOBIAN)),
        Identity("eq-variance", ("def-mean", *JACOBIAN)),
        Identity("eq-variance-pairs", JACOBIAN),
        Theorem("thm-psd", rests_on=("eq-variance-pairs",), model=row),
        Hypothesis("def-weights", plant=weights),
        Definition("def-covariance"),
        Identity("eq-weights-variance", MEAN, SUM),
        Identity("eq-null", WEIGHTS, SUM),
        Theorem("thm-null-space", rests_on=("eq-weights-variance",), model=row),
        Theorem(
            "thm-norm",
            rests_on=("eq-weights-variance", "eq-row-sum", "eq-half", "eq-gap"),
            classical=("Gershgorin's circle theorem",),
            model=row,
        ),
        Identity("eq-row-sum", (), SUM),
        Identity("eq-half"),
        Identity("eq-gap", MEAN, SUM),
        Definition("def-family", at=THREE),
        Identity("eq-family-sum", ("def-family",), at=THREE),
        Identity("eq-family", ("def-family", *WEIGHTS), at=THREE),
        Identity("eq-two-keys", WEIGHTS),
        Theorem(
            "thm-interlacing",
            rests_on=("eq-weights-variance",),
            classical=("eigenvalue interlacing under a rank-one change",),
            model=rows_of_two_or_more,
        ),
        Identity("eq-trace", WEIGHTS, SUM),
        Identity("eq-distance-to-flat", (), SUM),
        Theorem("thm-trace", rests_on=("eq-trace", "eq-distance-to-flat"), model=row),
        Definition("def-loss", SOFTMAX),
        Definition("def-ds", ("def-loss",)),
        Identity("eq-vjp", ("def-ds", *JACOBIAN)),
        Identity("eq-vjp-vector", ("def-ds",)),
        Identity("eq-vjp-is-jvp", JACOBIAN),
        Definition("def-jvp", JACOBIAN),
        Identity("eq-jvp", ("def-jvp",)),
        Identity("eq-vjp-sum", ("def-ds",)),
        Identity("eq-vjp-shift", ("def-ds",)),
        Definition("def-rows"),
        Identity("eq-rows-jacobian", ("def-rows",)),
        Definition("def-rows-loss", ("def-rows",)),
        Definition("def-rows-ds", ("def-rows-loss",)),
        Identity("eq-rows-vjp", ("def-rows-ds",)),
        Definition("def-temperature"),
        Identity("eq-temperature", ("def-temperature",)),
        Identity("eq-temperature-derivative", ("def-temperature",)),
        Definition("def-log-softmax", SOFTMAX),
        Identity("eq-log-softmax", ("def-log-softmax", "def-lse")),
        Identity("eq-log-softmax-jacobian", ("def-log-softmax",)),
        Definition("def-log-loss", ("def-log-softmax",)),
        Identity("eq-log-softmax-vjp", ("def-log-loss",)),
        Definition("def-cross-entropy", SOFTMAX),
        Identity("eq-cross-entropy-value", ("def-cross-entropy", "def-lse")),
        Identity("eq-cross-entropy", ("def-cross-entropy",)),
        Hypothesis("def-targets", plant=distribution),
        Identity("eq-cross-entropy-distribution", ("def-cross-entropy",), assume=("def-targets",)),
        Identity("eq-cross-entropy-hessian", ("def-cross-entropy", *JACOBIAN), assume=("def-targets",)),
        Definition("def-second", JACOBIAN),
        Identity("eq-second", ("def-second",)),
        Identity("eq-second-symmetric", ("def-second",)),
        Definition("def-mean-u", SOFTMAX),
        Definition("def-mean-dp", SOFTMAX),
        Identity("eq-covariance", ("def-ds", "def-mean-u", "def-mean-dp")),
        Identity("eq-double-backward", ("def-ds", "def-mean-u", "def-mean-dp")),
        Identity("eq-third-moment", ("def-second", "def-mean")),
        Hypothesis("def-mask", plant=mask),
        Definition("def-masked"),
        Identity("eq-masked-jacobian", ("def-masked",), assume=("def-mask",), sizes=MASKED),
        Identity("eq-masked-vjp", ("def-masked",), assume=("def-mask",), sizes=MASKED),
        Identity("eq-masked-zero", ("def-masked",), assume=("def-mask",), sizes=MASKED),
        Number("num-overflow", model=largest_numbers),
        Definition("def-example-scores", at=THREE),
        Identity("eq-example-weights", ("def-example-scores", *SOFTMAX), at=THREE),
        Identity("eq-example-jacobian", ("def-example-scores", *JACOBIAN), at=THREE),
        Definition("def-example-cotangent", at=THREE),
        Identity("eq-example-mean", ("def-example-scores", "def-example-cotangent", *SOFTMAX), at=THREE),
        Identity("eq-example-vjp", ("def-example-scores", "def-example-cotangent", "def-ds"), at=THREE),
        Wrong("bad-vjp-diagonal", ("def-ds",), instead="eq-vjp", mistake="softmax-vjp-diagonal-only"),
        Wrong("bad-vjp-elementwise", ("def-ds",), instead="eq-vjp", mistake="softmax-vjp-elementwise"),
        Wrong(
            "bad-jacobian-sign", SOFTMAX, instead="eq-softmax-jacobian", mistake="softmax-vjp-sign-flipped"
        ),
        Wrong(
            "bad-rows-flattened",
            ("def-rows",),
            instead="eq-rows-jacobian",
            mistake="softmax-vjp-flattened-batch",
        ),
        Wrong(
            "bad-temperature",
            ("def-temperature",),
            instead="eq-temperature",
            mistake="softmax-temperature-vjp-factor-dropped",
        ),
        Wrong(
            "bad-cross-entropy",
            ("def-cross-entropy",),
            instead="eq-cross-entropy",
            mistake="cross-entropy-vjp-unit-targets",
        ),
        Wrong(
            "bad-log-softmax",
            ("def-log-loss",),
            instead="eq-log-softmax-vjp",
            mistake="log-softmax-vjp-without-sum",
        ),
        Wrong(
            "bad-masked-mean",
            ("def-masked", *SOFTMAX),
            assume=("def-mask",),
            sizes=MASKED,
            instead="eq-masked-vjp",
            mistake="softmax-masked-vjp-unmasked-mean",
        ),
    ),
)
