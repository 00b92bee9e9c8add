"""Claims of chapter 16, benchmarks."""

from __future__ import annotations

import numpy as np

from ..claim import Chapter, Definition, Identity, Number, Theorem, Wrong
from ..read import Table

TABLE = Table(
    index={**dict.fromkeys("ra", "T")},
    names={
        **dict.fromkeys(("x", "y", "f", r"\mu", r"\nu", r"\zeta"), ("T",)),
        **dict.fromkeys((r"\tau", "X"), ()),
        **dict.fromkeys(("c", "F", "G", r"\rho", r"\beta"), "+"),
        **dict.fromkeys(("N", "M", "d", "T"), "size"),
    },
)
Values = dict[str, object]


def passes(random: np.random.Generator, trial: int) -> Values:
    """Return sizes, passes over the pairs, and numbers moved besides; first none."""
    sizes = {name: int(random.integers(1, 9)) for name in ("N", "M", "d")}
    besides = 0.0 if trial < 10 else float(random.uniform(0.0, 50.0))
    return {**sizes, "c": float(random.integers(1, 30)), "X": besides}


def times(random: np.random.Generator, trial: int) -> Values:
    """Return work, rates, and a time in which both its halves can be done; first the shortest one."""
    F, G, rho, beta = (float(2.0 ** random.integers(-4, 5)) for _ in range(4))
    least = F / rho if trial < 5 else max(F / rho, G / beta)
    if trial < 5:
        G = beta * least  # at the ridge both bounds are attained
    longer = 0.0 if trial < 10 else float(random.uniform(0.0, 3.0))
    return {"F": F, "G": G, r"\rho": rho, r"\beta": beta, r"\tau": least * (1.0 + longer)}


def eager(random: np.random.Generator, trial: int) -> Values:
    """Return the features of a head in the benchmark, and the passes that eager attention makes."""
    return {"d": 64, "c": 22.0}


MEASURED = ("def-bench-mine", "def-bench-other")

CHAPTER = Chapter(
    page="16_benchmarks",
    table=TABLE,
    sizes=({"N": 2, "M": 3, "d": 2, "T": 3}, {"N": 3, "M": 1, "d": 1, "T": 2}),
    claims=(
        Definition("def-bench-mine"),
        Definition("def-bench-other"),
        Identity("eq-bench-drift", MEASURED, mistakes={"differences": r"\mu_r - \nu_r = x_r - y_r"}),
        Definition("def-bench-ratio"),
        Identity(
            "eq-bench-means",
            (*MEASURED, "def-bench-ratio"),
            mistakes={
                "weighted by the other": r"\frac{\sum_r \mu_r}{\sum_r \nu_r}"
                r" = \sum_r \frac{\mu_r}{\sum_a \mu_a} \zeta_r",
                "undisturbed": r"\frac{\sum_r \mu_r}{\sum_r \nu_r} = \frac{\sum_r x_r}{\sum_r y_r}",
            },
        ),
        Identity(
            "eq-bench-work",
            mistakes={"an addition is free": r"2 (N M d) + 4 (N M d) = 12 N M d"},
        ),
        Identity("eq-bench-recomputed", mistakes={"forward again": r"8 (2 N M d) = \frac76 (12 N M d)"}),
        Identity(
            "eq-bench-least",
            mistakes={
                "numbers for bytes": r"\frac{12 N^2 d}{8 N d + 2 (2 N - 1)} = \frac{3 N^2 d}{8 N d + 4 N - 2}"
            },
        ),
        Theorem("thm-bench-passes", classical=("a sum is at least its positive part",), model=passes),
        Number("num-bench-eager", model=eager),
        Theorem("thm-bench-roof", classical=("a time is at least that of each half",), model=times),
        Definition("def-bench-serial"),
        Identity(
            "eq-bench-serial",
            ("def-bench-serial",),
            mistakes={"on the roof": r"\frac{F}{\tau} = \rho"},
        ),
        Wrong("bad-bench-means", (*MEASURED, "def-bench-ratio"), instead="eq-bench-means"),
    ),
)
