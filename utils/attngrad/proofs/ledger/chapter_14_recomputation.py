"""Claims of chapter 14, recomputation."""

from __future__ import annotations

import numpy as np

from ..claim import Chapter, Definition, Identity, Theorem, Wrong
from ..read import Table

PAIRS, OUTPUTS = ("N", "M"), ("N", "d_v")

TABLE = Table(
    index={
        **dict.fromkeys("ia", "N"),
        **dict.fromkeys("jl", "M"),
        **dict.fromkeys("rt", "T"),
        "c": "d_k",
        "f": "d_v",
    },
    names={
        **dict.fromkeys(("s", "A", "B"), ("M",)),
        "V": ("M", "d_v"),
        **dict.fromkeys(("o", "u", "y", "x", "w", r"\bar{U}", r"d\bar{U}"), ("d_v",)),
        **dict.fromkeys(("m", "h", "z", r"\lambda", r"\mu", r"\nu", r"\gamma"), ()),
        **dict.fromkeys((r"\Lambda", r"d\Lambda", r"\omega"), ("T",)),
        **dict.fromkeys(("U", "dU"), ("T", "d_v")),
        **dict.fromkeys(("L", r"\bar{\Lambda}", r"\eta", r"\sigma"), ()),
        **dict.fromkeys(("Q", "dQ"), ("N", "d_k")),
        **dict.fromkeys(("K", "dK"), ("M", "d_k")),
        **dict.fromkeys(("b", r"\tilde{S}", r"d\tilde{S}", "S", "dS", r"d\hat{S}", "P", "E", r"\xi"), PAIRS),
        **dict.fromkeys(("O", "dO", r"\hat{O}"), OUTPUTS),
        **dict.fromkeys((r"\mathrm{lse}", r"\Delta", r"\hat{\Delta}", "g", r"\tau"), ("N",)),
        **dict.fromkeys((r"\alpha", r"\epsilon"), "+"),
        **dict.fromkeys(("N", "M", "d_k", "d_v", "T"), "size"),
    },
    integers={r"\varphi": (("M",), (1, "T"))},
    functions=(r"\kappa",),
    kronecker=r"\delta",
    lookalikes_allowed=(("o", "O"), ("w", r"\omega")),
)
Values = dict[str, object]


def shifted(random: np.random.Generator, trial: int) -> Values:
    """Return scores and their maximum; at first all equal, then one far above the others."""
    M = 1 if trial == 0 else int(random.integers(2, 9))
    extreme = {0: np.array([3.0]), 1: np.full(M, -2.0), 2: np.append(np.full(M - 1, -900.0), 700.0)}
    s = extreme.get(trial, random.normal(size=M) * random.choice([0.1, 1.0, 30.0]))
    return {"M": len(s), "s": s, "m": s.max()}


def half_precision_output(random: np.random.Generator, trial: int) -> Values:
    """Return outputs, and the same rounded to float16, whose errors float64 sees; at first halfway cases."""
    u, shape = 2.0**-11, (int(random.integers(1, 4)), int(random.integers(1, 7)))
    o = random.normal(size=shape) * 2.0 ** random.integers(-3, 4)
    if trial < 2:
        o = np.full(shape, 1.0 + u)
    do = random.normal(size=shape) if trial > 1 else np.full(shape, (-1.0) ** trial)
    rounded = o.astype(np.float16).astype(np.float64)
    sums = {r"\Delta": do * o, r"\hat{\Delta}": do * rounded, r"\tau": np.abs(do * rounded)}
    return {"N": len(o), r"\epsilon": u, **{name: x.sum(axis=1) for name, x in sums.items()}}


ONE, OTHER = ("def-rec-output", "def-rec-lse"), ("def-rec-other-output", "def-rec-other-lse")
MERGED = ("def-rec-merged-output", "def-rec-merged-lse")
PARTS, SHARES = ("def-rec-parts-output", "def-rec-parts-lse"), ("def-rec-share",)
WHOLE = ("def-rec-whole-output", "def-rec-whole-lse", *SHARES)
MERGE_LOSS = ("def-rec-merge-loss", *WHOLE)
SUMS = ("def-rec-sum", "def-rec-weighted")
WEIGHTS = ("def-rec-weights",)
LSE = ("def-rec-row-lse",)
LOSS = ("def-rec-loss", "def-rec-attention", *WEIGHTS, *LSE)
FULL = (*LOSS, "def-rec-capped", "def-rec-scores")
DS, DELTA, DT = ("def-rec-ds",), ("def-rec-delta",), ("def-rec-dt",)
LEAK = ("def-rec-leaking", *DS, *DELTA, *LOSS)
FOUR = ("def-rec-four-scores", "def-rec-four-values", "def-rec-four-first", "def-rec-four-second")
FOUR_SIZES = {"M": 4, "d_v": 2}
SMALL = ({"N": 1, "M": 2, "d_k": 1, "d_v": 1, "T": 2},)
# Right sides of known mistakes.
DP = r"\sum_f dO_{if} V_{jf}"
OF_BLOCK, OF_BOTH = r"\sum_j B_j e^{s_j - h}", r"\sum_j (A_j + B_j) e^{s_j - h}"
OWN_LSE_WHOLE_OUTPUT = (
    r"e^{s_j - \Lambda_{\varphi_j}} \sum_f d\bar{U}_f (V_{jf} - \bar{U}_f)"
    r" = e^{s_j - \bar{\Lambda}} (\sum_f d\bar{U}_f (V_{jf} - \bar{U}_f) + \eta)"
)

CHAPTER = Chapter(
    page="14_recomputation",
    table=TABLE,
    sizes=(
        {"N": 1, "M": 3, "d_k": 1, "d_v": 2, "T": 2},
        {"N": 2, "M": 2, "d_k": 2, "d_v": 1, "T": 1},
    ),
    claims=(
        Definition("def-rec-lse"),
        Definition("def-rec-output"),
        Definition("def-rec-other-lse"),
        Definition("def-rec-other-output"),
        Definition("def-rec-merged-lse"),
        Definition("def-rec-merged-output"),
        Identity("eq-rec-merge-lse", (*MERGED[1:], *ONE[1:], *OTHER[1:])),
        Identity("eq-rec-merge", (*MERGED[:1], *ONE, *OTHER)),
        Identity(
            "eq-rec-merge-step",
            MERGED,
            mistakes={
                "shares exchanged": r"y_f = e^{\mu - \nu} o_f + e^{\lambda - \nu} u_f",
                "shares of the larger": r"y_f = o_f + e^{\mu - \lambda} u_f",
            },
        ),
        Identity("eq-rec-three-lse", MERGED[1:]),
        Identity("eq-rec-three", MERGED),
        Definition("def-rec-parts-lse"),
        Definition("def-rec-parts-output"),
        Definition("def-rec-share"),
        Definition("def-rec-whole-output"),
        Definition("def-rec-whole-lse"),
        Identity("eq-rec-parts-lse", ("def-rec-whole-lse", *PARTS[1:])),
        Identity("eq-rec-parts-sum", ("def-rec-whole-output", *PARTS[:1])),
        Identity("eq-rec-share", (*SHARES, "def-rec-whole-lse")),
        Identity("eq-rec-parts", ("eq-rec-parts-sum", "eq-rec-share")),
        Identity("eq-rec-parts-weights", (*SHARES, *PARTS[1:])),
        Definition("def-rec-sum"),
        Definition("def-rec-weighted"),
        Identity("eq-rec-shift-lse", (*SUMS[:1], *ONE[1:])),
        Identity("eq-rec-shift", (*SUMS, *ONE)),
        Identity(
            "eq-rec-rescale-sum",
            SUMS[:1],
            mistakes={"sign turned": rf"e^{{h - m}} z + {OF_BLOCK} = {OF_BOTH}"},
        ),
        Identity("eq-rec-rescale", SUMS[1:]),
        Definition("def-rec-merge-loss"),
        Definition("def-rec-du"),
        Definition("def-rec-dlambda"),
        Identity("eq-rec-merge-do", ("def-rec-du", *MERGE_LOSS)),
        Identity("eq-rec-merge-dlse", ("def-rec-dlambda", *MERGE_LOSS)),
        Identity(
            "eq-rec-two-ways",
            ("eq-rec-merge-do", "eq-rec-merge-dlse", "def-rec-share", "def-rec-whole-lse"),
            mistakes={"own lse, output of the whole": OWN_LSE_WHOLE_OUTPUT},
        ),
        Definition("def-rec-scores"),
        Definition("def-rec-capped"),
        Definition("def-rec-weights"),
        Definition("def-rec-attention"),
        Definition("def-rec-row-lse"),
        Definition("def-rec-loss"),
        Identity("eq-rec-weights", (*WEIGHTS, *LSE)),
        Identity("eq-rec-recomputed", (*WEIGHTS, *LSE, "def-rec-capped", "def-rec-scores")),
        Definition("def-rec-delta"),
        Identity("eq-rec-delta", (*DELTA, "def-rec-attention")),
        Definition("def-rec-ds"),
        Identity(
            "eq-rec-ds",
            (*DS, *DELTA, *LOSS),
            mistakes={
                "dropped weights": rf"dS_{{ij}} = E_{{ij}} P_{{ij}} ({DP} - \Delta_i + g_i)",
                "dropout outside": rf"dS_{{ij}} = P_{{ij}} (E_{{ij}} ({DP} - \Delta_i) + g_i)",
                "cotangent of lse outside": rf"dS_{{ij}} = P_{{ij}} (E_{{ij}} {DP} - \Delta_i) + g_i",
                "cotangent of lse subtracted": rf"dS_{{ij}} = P_{{ij}} (E_{{ij}} {DP} - \Delta_i - g_i)",
            },
        ),
        Identity("eq-rec-dlse", LSE),
        Identity(
            "eq-rec-row-sum",
            LSE,
            mistakes={"sink forgotten": r"\sum_j e^{S_{ij} - \mathrm{lse}_i} = 1"},
        ),
        Definition("def-rec-slope"),
        Definition("def-rec-dt"),
        Identity("eq-rec-cap", ("def-rec-slope", *DT, *DS, *LOSS, "def-rec-capped")),
        Definition("def-rec-dq"),
        Definition("def-rec-dk"),
        Identity("eq-rec-dq", ("def-rec-dq", *DT, *FULL)),
        Identity("eq-rec-dk", ("def-rec-dk", *DT, *FULL)),
        Identity("eq-rec-db", (*DT, *FULL)),
        Identity("eq-rec-work"),
        Definition("def-rec-rounded"),
        Identity("eq-rec-rounded", ("def-rec-rounded", *DELTA)),
        Definition("def-rec-leaking"),
        Identity("eq-rec-leak", LEAK),
        Identity(
            "eq-rec-leak-dq",
            LEAK,
            mistakes={"nothing leaks": r"\sum_j d\hat{S}_{ij} K_{jc} = \sum_j dS_{ij} K_{jc}"},
        ),
        Theorem("thm-rec-rounding", classical=("rounding to nearest",), model=half_precision_output),
        Theorem("thm-rec-range", classical=("the exponential is positive and grows",), model=shifted),
        Wrong("bad-rec-rescale", SUMS[1:], sizes=SMALL, instead="eq-rec-rescale"),
        Wrong("bad-rec-average", MERGED[:1], sizes=SMALL, instead="def-rec-merged-output"),
        Wrong("bad-rec-tile", WEIGHTS, sizes=SMALL, instead="eq-rec-weights"),
        Wrong(
            "bad-rec-merge-dlse",
            ("def-rec-dlambda", *MERGE_LOSS),
            sizes=SMALL,
            instead="eq-rec-merge-dlse",
        ),
        Wrong("bad-rec-delta", (*DELTA, "def-rec-attention"), sizes=SMALL, instead="eq-rec-delta"),
        Wrong("bad-rec-sink", WEIGHTS, sizes=SMALL, instead="eq-rec-weights"),
        *(Definition(label, at=FOUR_SIZES) for label in FOUR),
        Identity("eq-rec-four-lse", (*FOUR, *ONE[1:]), at=FOUR_SIZES),
        Identity("eq-rec-four-output", (*FOUR, *ONE), at=FOUR_SIZES),
        Identity("eq-rec-four-other-lse", (*FOUR, *OTHER[1:]), at=FOUR_SIZES),
        Identity("eq-rec-four-other-output", (*FOUR, *OTHER), at=FOUR_SIZES),
        Identity("eq-rec-four-merged-lse", (*FOUR, *ONE[1:], *OTHER[1:], *MERGED[1:]), at=FOUR_SIZES),
        Identity("eq-rec-four-merged", (*FOUR, *ONE, *OTHER, *MERGED), at=FOUR_SIZES),
    ),
)
