"""Claims of chapter 15, the fused table gradient."""

from __future__ import annotations

import numpy as np

from ..claim import Chapter, Definition, Identity, Number, Theorem, Wrong
from ..read import Table

OFFSETS, ACROSS, DIAGONALS = ("1-N", "M-1"), ("1-X", "Y-1"), (1, "N+M-1")
TABLE = Table(
    index={
        "i": "N",
        **dict.fromkeys("jl", "M"),
        "a": "A",
        "c": "C",
        "s": "X",
        "u": "Y",
        "t": "T",
        "o": OFFSETS,
        "h": ACROSS,
        "g": DIAGONALS,
    },
    names={
        **{x: ("N", "M") for x in ("x", "b", "S", "P", "dP", "dS")},
        r"\mathrm{lse}": ("N",),
        **{x: (OFFSETS,) for x in ("w", "dw")},
        **{x: (DIAGONALS,) for x in ("y", "dy", "z")},
        "F": ("N", "X", "M", "Y"),
        **{x: (OFFSETS, ACROSS) for x in ("U", "dU")},
        **{x: ("N", "T") for x in ("E", r"\gamma")},
        **{x: ("M",) for x in (r"\xi", r"\zeta")},
        **{x: () for x in ("L", r"\hat{\xi}", r"\tau")},
        **{x: "+" for x in (r"\alpha", r"\epsilon", r"\lambda", r"\mu")},
        **{x: "size" for x in ("N", "M", "A", "C", "X", "Y", "T", "W")},
    },
    integers={r"\varphi": (("N",), (1, "A")), r"\psi": (("M",), (1, "C"))},
)
UNIT = 2.0**-24  # the unit roundoff of float32
LARGE = 2.0**20  # the size of numbers whose rounding errors are told from equality


def pitches(random: np.random.Generator, trial: int) -> dict[str, object]:
    """Return sizes and a pitch that is large enough; first the smallest one that is."""
    N, M = (1, 1) if trial == 0 else (int(random.integers(1, 7)), int(random.integers(1, 7)))
    return {"N": N, "M": M, "W": N + M - 1 + (0 if trial < 20 else int(random.integers(0, 4)))}


def in_order(x: np.ndarray) -> np.float32:
    """Return the float32 sum of numbers, one after the other."""
    return np.cumsum(x, dtype=np.float32)[-1]


def sums_of_strips(random: np.random.Generator, trial: int) -> dict[str, object]:
    """Return float32 numbers, their sum strip by strip, and the most additions that one of them goes through.

    The first instances lose half a unit at every addition, which attains the bound; every second one has a
    single strip.
    """
    M = trial + 1 if trial < 3 else int(random.integers(2, 60))
    strip = M if trial % 2 == 0 or trial < 3 else int(random.integers(1, M))
    x = (LARGE * random.uniform(-1, 1, size=M)).astype(np.float32)
    if trial < 3:
        x = np.float32(LARGE) * np.array([1.0] + [UNIT] * (M - 1), dtype=np.float32)
    parts = [in_order(x[at : at + strip]) for at in range(0, M, strip)]
    additions = min(strip, M) - 1 + len(parts) - 1
    return {
        "M": M,
        r"\xi": x.astype(np.float64),
        r"\zeta": np.abs(x).astype(np.float64),
        r"\hat{\xi}": float(in_order(np.array(parts))),
        r"\tau": float(additions),
        r"\epsilon": UNIT,
    }


def tile(random: np.random.Generator, trial: int) -> dict[str, object]:
    """Return the sides of a tile."""
    return {"N": 128, "M": 1024}


SOFTMAX = ("def-fused-loss", "def-fused-weights", "def-fused-scores")
LSE = ("def-fused-lse", "def-fused-scores")
OFFSET = ("def-fused-dw", "def-fused-bias", *SOFTMAX)
PAIRING = ("def-fused-pairing",)
VECTOR = ("def-fused-dy", "def-fused-diagonals", *PAIRING)
WINDOW = ("def-fused-du", "def-fused-window")

CHAPTER = Chapter(
    page="15_fused_table_gradient",
    table=TABLE,
    sizes=(
        {"N": 2, "M": 3, "A": 2, "C": 2, "X": 2, "Y": 3, "T": 2, "W": 4},
        {"N": 3, "M": 2, "A": 2, "C": 3, "X": 1, "Y": 2, "T": 1, "W": 5},
        {"N": 1, "M": 1, "A": 1, "C": 1, "X": 1, "Y": 1, "T": 1, "W": 1},
    ),
    claims=(
        Identity(
            "eq-fused-answer",
            ("def-fused-lse", *OFFSET),
            mistakes={
                "lse forgotten": r"dw_o = \sum_{i,j} [j - i = o]\, e^{S_{ij}}"
                r" (dP_{ij} - \sum_l P_{il} dP_{il})",
                "delta forgotten": r"dw_o = \sum_{i,j} [j - i = o]\, e^{S_{ij} - \mathrm{lse}_i}\, dP_{ij}",
                "delta of a tile": r"dw_o = \sum_{i,j} [j - i = o]\, e^{S_{ij} - \mathrm{lse}_i}"
                r" (dP_{ij} - \sum_l [\psi_l = \psi_j] P_{il} dP_{il})",
                "sign of the offset": r"dw_o = \sum_{i,j} [i - j = o]\, e^{S_{ij} - \mathrm{lse}_i}"
                r" (dP_{ij} - \sum_l P_{il} dP_{il})",
            },
        ),
        Definition("def-fused-scores"),
        Definition("def-fused-bias"),
        Definition("def-fused-weights"),
        Definition("def-fused-loss"),
        Definition("def-fused-lse"),
        Definition("def-fused-dw"),
        Identity("eq-fused-pair", ("def-fused-lse", *SOFTMAX)),
        Definition("def-fused-pairing"),
        Definition("def-fused-diagonals"),
        Definition("def-fused-dy"),
        Identity(
            "eq-fused-tiles",
            VECTOR,
            mistakes={
                "one tile of a row": r"dy_g = \sum_{a} \sum_{i,j} [\varphi_i = a]\, [\psi_j = 1]"
                r"\, [j - i + N = g]\, dS_{ij}",
                "one place too far": r"dy_g = \sum_{i,j} [j - i + N - 1 = g]\, dS_{ij}",
            },
        ),
        Number("num-fused-share", model=tile),
        Identity("eq-fused-pitch"),
        Identity("eq-fused-before"),
        Identity("eq-fused-behind"),
        Theorem("thm-fused-apart", rests_on=("eq-fused-before", "eq-fused-behind"), model=pitches),
        Identity("eq-fused-hankel", ("def-fused-diagonals",)),
        Identity("eq-fused-adjoint", VECTOR),
        Theorem("thm-fused-depth", classical=("the standard model of rounding",), model=sums_of_strips),
        Definition("def-fused-kerple"),
        Identity("eq-fused-kerple", ("def-fused-kerple", *PAIRING)),
        Definition("def-fused-window"),
        Definition("def-fused-du"),
        Identity("eq-fused-window", WINDOW),
        Identity("eq-fused-zero-sum", OFFSET),
        Definition("def-fused-tail"),
        Identity("eq-fused-tail", ("def-fused-tail", *LSE)),
        Wrong(
            "bad-fused-tail",
            ("def-fused-tail", *LSE, *OFFSET),
            instead="eq-fused-answer",
            mistake="table-vjp-tail-columns",
        ),
        Wrong("bad-fused-turned", ("def-fused-diagonals",), instead="def-fused-diagonals"),
    ),
)
