"""Claims of chapter 05, shared tables."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from random import Random

import numpy as np

from ..claim import Chapter, Definition, Hypothesis, Identity, Theorem, Wrong
from ..read import Table

OFFSETS = ("1-N", "M-1")
TABLE = Table(
    index={
        **dict.fromkeys("ia", "N"),
        **dict.fromkeys("jl", "M"),
        "r": "R",
        "g": "G",
        "h": "H",
        "c": "d_k",
        "o": OFFSETS,
    },
    names={
        **{x: ("N", "M") for x in ("x", "b", "S", "P", "dP", "dS", r"\tau", r"\mu")},
        **{x: ("R",) for x in ("t", "dt", "y", "v")},
        **{x: ("G",) for x in ("u", "du")},
        **{x: ("R", "G") for x in ("W", "dW")},
        "Q": ("N", "d_k"),
        **{x: ("R", "d_k") for x in ("X", "dX")},
        **{x: ("H", "N", "M") for x in ("B", "dB")},
        **{x: ("H", "R") for x in ("T", "dT")},
        **{x: (OFFSETS,) for x in ("w", "dw", "n")},
        r"\gamma": ("M",),
        **{x: () for x in ("L", "m", "dm")},
        r"\eta": "+",
        **{x: "size" for x in ("N", "M", "R", "G", "H", "d_k")},
    },
    integers={
        r"\varphi": (("N", "M"), (1, "R")),
        r"\psi": (("N", "M"), (1, "G")),
        r"\beta": ((OFFSETS,), (1, "R")),
    },
    kronecker=r"\delta",
)


def rows_of_zero(sizes: Mapping[str, int], random: Random) -> dict[tuple, Fraction]:
    """Return cotangents of scores whose rows sum to zero: the last entry of each makes up for the others."""
    out = {}
    for i in range(1, sizes["N"] + 1):
        row = [Fraction(random.choice([-4, -1, 2, 3, 7]), random.randint(1, 5)) for _ in range(1, sizes["M"])]
        out |= {("dS", i, j): value for j, value in enumerate([*row, -sum(row)], start=1)}
    return out


def covered(sizes: Mapping[str, int], random: Random) -> dict[tuple, Fraction]:
    """Return one for keys that get a bias and zero for one key that does not."""
    bare = random.randint(1, sizes["M"])
    return {(r"\gamma", j): Fraction(int(j != bare)) for j in range(1, sizes["M"] + 1)}


def diagonals(random: np.random.Generator, trial: int) -> dict[str, object]:
    """Return cotangents of scores and the sums of their diagonals; first with equal entries along each.

    Arrays over offsets are stored so that offset o has the index o - 1, negative ones from the end.
    """
    N, M = (1, 1) if trial == 0 else (int(random.integers(1, 5)), int(random.integers(1, 6)))
    row = np.arange(M) - np.arange(N)[:, None] + N - 1
    ds = random.normal(size=N + M - 1)[row] if trial < 6 else random.normal(size=(N, M))
    sums, counts = np.bincount(row.ravel(), ds.ravel()), np.bincount(row.ravel())
    return {"N": N, "M": M, "dS": ds, "dw": np.roll(sums, -N), "n": np.roll(counts, -N)}


SOFTMAX = ("def-table-softmax-loss", "def-table-weights", "def-table-scores")
PAIRING = ("def-table-pairing",)
ROWS = ("def-table-bias", "def-table-dt", *PAIRING)
OFFSET = ("def-table-dw", "def-table-offsets", *PAIRING)
BUCKET = ("def-table-dt", "def-table-buckets", *PAIRING)
TWO = ("def-table-dtwo", "def-table-product", *PAIRING)
ADDED = ("def-table-added", *PAIRING)
VECTORS = ("def-table-vectors", *PAIRING)
ALIBI = ("def-table-dm", "def-table-alibi", *PAIRING)
COPIES = ("def-table-dt", "def-table-shared", "def-table-heads-pairing")
PARTIAL = ("def-table-dt", "def-table-partial", *PAIRING)
COVERED = ("def-table-rows", "def-table-covered")
EXAMPLE_SUMS = ("def-table-example", *OFFSET)
EXAMPLE = {"N": 3, "M": 4}

CHAPTER = Chapter(
    page="05_shared_tables",
    table=TABLE,
    sizes=(
        {"N": 2, "M": 3, "R": 2, "G": 3, "H": 2, "d_k": 2},
        {"N": 3, "M": 2, "R": 3, "G": 2, "H": 3, "d_k": 3},
        {"N": 1, "M": 1, "R": 1, "G": 1, "H": 1, "d_k": 1},
    ),
    claims=(
        Identity("eq-table-answer", ("def-table-offsets", *SOFTMAX)),
        Definition("def-table-scores"),
        Definition("def-table-weights"),
        Definition("def-table-softmax-loss"),
        Identity("eq-table-content", SOFTMAX),
        Definition("def-table-bias"),
        Identity("eq-table-copy", ("def-table-bias",)),
        Identity("eq-table-reduction", ("def-table-bias", *SOFTMAX)),
        Definition("def-table-pairing"),
        Definition("def-table-dt"),
        Identity("eq-table-sum", ROWS),
        Identity("eq-table-adjoint", ROWS),
        Definition("def-table-offsets"),
        Definition("def-table-dw"),
        Identity("eq-table-diagonals", OFFSET),
        Definition("def-table-count"),
        Identity("eq-table-count-total", ("def-table-count",)),
        Identity("eq-table-spread", ("def-table-count", *OFFSET)),
        Theorem("thm-table-size", rests_on=("eq-table-spread",), model=diagonals),
        Definition("def-table-buckets"),
        Identity("eq-table-regroup", BUCKET),
        Definition("def-table-product"),
        Definition("def-table-dtwo"),
        Identity("eq-table-product", TWO),
        Definition("def-table-added"),
        Definition("def-table-du"),
        Identity(
            "eq-table-added",
            (*ADDED, "def-table-dt"),
            mistakes={"halved": r"dt_r = \frac12 \sum_{i,j} [\varphi_{ij} = r]\, dS_{ij}"},
        ),
        Identity("eq-table-added-second", (*ADDED, "def-table-du")),
        Identity("eq-table-margins", TWO),
        Definition("def-table-vectors"),
        Definition("def-table-dvectors"),
        Identity(
            "eq-table-vectors",
            ("def-table-dvectors", *VECTORS),
            mistakes={"query forgotten": r"dX_{rc} = \sum_{i,j} [\varphi_{ij} = r]\, dS_{ij}"},
        ),
        Identity("eq-table-vectors-query", VECTORS),
        Definition("def-table-alibi"),
        Definition("def-table-dm"),
        Identity(
            "eq-table-alibi",
            ALIBI,
            mistakes={
                "sign": r"dm = \sum_{i,j} |j - i|\, dS_{ij}",
                "distance forgotten": r"dm = -\sum_{i,j} dS_{ij}",
            },
        ),
        Identity("eq-table-alibi-gauge"),
        Hypothesis("def-table-rows", plant=rows_of_zero),
        Identity("eq-table-alibi-causal", assume=("def-table-rows",)),
        Definition("def-table-heads-pairing"),
        Definition("def-table-heads"),
        Definition("def-table-dheads"),
        Identity("eq-table-heads", ("def-table-dheads", "def-table-heads", "def-table-heads-pairing")),
        Definition("def-table-shared"),
        Identity("eq-table-shared", COPIES),
        Identity("eq-table-total", ROWS),
        Identity("eq-table-zero-sum", ROWS, assume=("def-table-rows",)),
        Hypothesis("def-table-covered", plant=covered),
        Definition("def-table-partial"),
        Identity("eq-table-partial-sum", PARTIAL, assume=COVERED),
        Identity("eq-table-additive", ROWS),
        Identity("eq-table-translation"),
        Definition("def-table-step"),
        Identity("eq-table-descent", ("def-table-step", *ROWS)),
        Identity("eq-table-sgd", ("def-table-step", *ROWS), assume=("def-table-rows",)),
        Definition("def-table-example", at=EXAMPLE),
        Identity("eq-table-example-diagonals", EXAMPLE_SUMS, at=EXAMPLE),
        Identity("eq-table-example-clipped", EXAMPLE_SUMS, at=EXAMPLE),
        Identity("eq-table-example-buckets", EXAMPLE_SUMS, at=EXAMPLE),
        Identity("eq-table-example-slope", ("def-table-example", *ALIBI), at=EXAMPLE),
        Wrong("bad-table-sign", OFFSET, instead="eq-table-diagonals", mistake="table-rows-sign-flipped"),
        Wrong(
            "bad-table-mean",
            ("def-table-count", *OFFSET),
            instead="eq-table-diagonals",
            mistake="table-vjp-mean-over-pairs",
        ),
        Wrong("bad-table-last", COPIES, instead="eq-table-shared", mistake="bias-vjp-broadcast-last-head"),
        Wrong("bad-table-partial", PARTIAL, assume=COVERED, instead="eq-table-partial-sum"),
        Wrong("bad-table-alibi", ALIBI, assume=("def-table-rows",), instead="eq-table-alibi"),
    ),
)
