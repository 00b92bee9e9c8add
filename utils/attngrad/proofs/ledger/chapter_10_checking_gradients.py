"""Claims of chapter 10, checking gradients."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from random import Random

from ..claim import Chapter, Definition, Hypothesis, Identity, Wrong
from ..read import Table

TABLE = Table(
    index={"r": "R", "m": "T", "i": "N", **dict.fromkeys("jl", "M"), "f": "F"},
    names={
        **{x: ("R",) for x in ("w", "g", "t", "v", "x", "u", "y", "b", "a", "s", "c", r"\theta")},
        "X": ("T", "R"),
        **{x: ("N", "M") for x in ("S", "P")},
        "V": ("M", "F"),
        "O": ("N", "F"),
        **{x: () for x in ("L", "A", "C", "h", r"\tau", r"\pi")},
        **{x: "+" for x in (r"\eta", r"\lambda", r"\gamma", r"\zeta", r"\rho", r"\mu", r"\psi")},
        **{x: "size" for x in ("R", "T", "N", "M", "F")},
    },
    functions=(r"\kappa",),
    lookalikes_allowed=(("x", "X"), ("v", "V"), ("c", "C"), ("s", "S")),
)


def bits(sizes: Mapping[str, int], random: Random) -> dict[tuple, Fraction]:
    """Return ones and zeros, for positive and negative gradients."""
    return {(r"\theta", r): Fraction(random.randint(0, 1)) for r in range(1, sizes["R"] + 1)}


LINE = ("def-check-line", "def-check-sum")
BOTH = ("def-check-sum", "def-check-mean")
MEAN_LOSS = ("def-check-mean-loss", "def-check-output", "def-check-weights")
TWO = ("def-check-two-w", "def-check-two-g", "def-check-two-rate")
AT = {"R": 2}

CHAPTER = Chapter(
    page="10_checking_gradients",
    table=TABLE,
    sizes=(
        {"R": 2, "T": 3, "N": 2, "M": 3, "F": 2},
        {"R": 3, "T": 2, "N": 3, "M": 2, "F": 3},
        {"R": 1, "T": 1, "N": 1, "M": 1, "F": 1},
    ),
    claims=(
        Identity(
            "eq-check-answer",
            LINE,
            mistakes={
                "direction forgotten": r"\frac{\partial L}{\partial \tau}"
                r" = \sum_r \frac{\partial L}{\partial y_r}",
                "sign": r"\frac{\partial L}{\partial \tau} = -\sum_r t_r \frac{\partial L}{\partial y_r}",
            },
        ),
        Definition("def-check-sum"),
        Definition("def-check-line"),
        Definition("def-check-mean"),
        Identity("eq-check-mean", BOTH),
        Identity(
            "eq-check-mean-norm",
            BOTH,
            mistakes={
                "root": r"\sum_r \Bigl( \frac{\partial A}{\partial w_r} \Bigr)^2"
                r" = \frac{1}{T} \sum_r \Bigl( \frac{\partial L}{\partial w_r} \Bigr)^2",
            },
        ),
        Wrong("bad-check-mean", BOTH, instead="eq-check-mean"),
        Definition("def-check-sgd"),
        Identity("eq-check-sgd", ("def-check-sgd",)),
        Definition("def-check-decay"),
        Identity(
            "eq-check-decay",
            ("def-check-decay",),
            mistakes={
                "norms added": r"\frac{\sum_r (x_r - w_r)^2}{\sum_r w_r^2}"
                r" = \eta^2 \Bigl( \frac{\sum_r g_r^2}{\sum_r w_r^2} + \lambda^2 \Bigr)",
            },
        ),
        Wrong("bad-check-ratio", ("def-check-decay",), instead="eq-check-decay"),
        Definition("def-check-steady"),
        Identity("eq-check-steady", ("def-check-steady",)),
        Identity("eq-check-adam-first"),
        Hypothesis("def-check-positive", plant=bits),
        Definition("def-check-adam"),
        Identity(
            "eq-check-adam",
            ("def-check-adam",),
            assume=("def-check-positive",),
            mistakes={
                "size forgotten": r"\frac{\sum_r (u_r - w_r)^2}{\sum_r w_r^2}"
                r" = \eta^2 \frac{1}{\sum_r w_r^2}",
            },
        ),
        Identity("eq-check-adam-factor"),
        Definition("def-check-two-w", at=AT),
        Definition("def-check-two-g", at=AT),
        Definition("def-check-two-rate"),
        Definition("def-check-two-decay"),
        Definition("def-check-two-positive", at=AT),
        Identity("eq-check-two-sgd", ("def-check-sgd", *TWO), at=AT),
        Identity("eq-check-two-sgd-decay", ("def-check-decay", "def-check-two-decay", *TWO), at=AT),
        Identity("eq-check-two-adam", ("def-check-adam", "def-check-two-positive", *TWO), at=AT),
        Definition("def-check-weights"),
        Definition("def-check-output"),
        Definition("def-check-mean-loss"),
        Identity("eq-check-mean-loss", MEAN_LOSS),
        Identity("eq-check-descent"),
        Definition("def-check-where"),
        Identity("eq-check-where", ("def-check-where",)),
        Identity("eq-check-half"),
    ),
)
