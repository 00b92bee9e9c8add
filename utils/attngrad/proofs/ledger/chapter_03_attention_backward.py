"""Claims of chapter 03, the backward pass of attention."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from random import Random

from ..claim import Chapter, Definition, Hypothesis, Identity, Wrong
from ..read import Table

QUERIES, KEYS, VALUES, PAIRS = ("N", "d_k"), ("M", "d_k"), ("M", "d_v"), ("N", "M")
OUTPUTS, GROUPS, MEMBERS = ("N", "d_v"), ("G",), ("G", "U")

TABLE = Table(
    index={
        **dict.fromkeys("ia", "N"),
        **dict.fromkeys("jl", "M"),
        **dict.fromkeys("cm", "d_k"),
        "f": "d_v",
        **dict.fromkeys("hr", "G"),
        **dict.fromkeys("uz", "U"),
    },
    names={
        **dict.fromkeys(("Q", "dQ", "tQ", r"\bar{K}"), QUERIES),
        **dict.fromkeys(("K", "dK", "tK", r"\hat{K}", r"d\hat{K}"), KEYS),
        **dict.fromkeys(("V", "dV", "tV"), VALUES),
        **dict.fromkeys(("O", "dO", "tO"), OUTPUTS),
        **dict.fromkeys(("S", "dS", "tS", "P", "dP", "tP", "b", "tb", "E", r"\mu"), PAIRS),
        **dict.fromkeys(("T", "X", r"\tilde{X}", r"d\tilde{X}", r"\tilde{S}", r"\rho", r"\xi"), PAIRS),
        **dict.fromkeys((r"\mathrm{lse}", "g", r"\omega", r"\Delta"), ("N",)),
        r"\mathcal{Q}": (*MEMBERS, *QUERIES),
        **dict.fromkeys((r"\mathcal{K}", r"d\mathcal{K}"), (*GROUPS, *KEYS)),
        **dict.fromkeys((r"\mathcal{V}", r"d\mathcal{V}"), (*GROUPS, *VALUES)),
        **dict.fromkeys((r"\mathcal{S}", r"d\mathcal{S}", r"\mathcal{P}"), (*MEMBERS, *PAIRS)),
        **dict.fromkeys((r"\mathcal{O}", r"d\mathcal{O}"), (*MEMBERS, *OUTPUTS)),
        "R": ("M", "d_k", "d_k"),
        **dict.fromkeys(("L", r"d\alpha", r"t\alpha", r"\sigma", r"\lambda"), ()),
        **dict.fromkeys((r"\alpha", r"\tau", "x"), "+"),
        **dict.fromkeys(("N", "M", "d_k", "d_v", "G", "U"), "size"),
    },
    integers={r"\varphi": (("M",), (1, "M"))},
    functions=(r"\psi", r"\kappa"),
    kronecker=r"\delta",
    lookalikes_allowed=(("a", r"\alpha"),),
)


def square(sizes: Mapping[str, int], random: Random) -> dict[tuple, Fraction]:
    """Return a size whose root is a fraction, and other squares for what a mutant puts in its place."""
    others = {(r"d\alpha",): Fraction(25), (r"t\alpha",): Fraction(49)}
    return {("x",): Fraction(random.choice([4, 9, 16])), **others}


def mask(sizes: Mapping[str, int], random: Random) -> dict[tuple, Fraction]:
    """Return a 0/1 mask that hides one key of each query, where it has more than one."""
    N, M = sizes["N"], sizes["M"]
    hidden = [random.randint(1, M) if M > 1 else 0 for _ in range(N)]
    return {
        (r"\mu", i, j): Fraction(int(j != hidden[i - 1])) for i in range(1, N + 1) for j in range(1, M + 1)
    }


OUTPUT = ("def-att-output", "def-att-weights", "def-att-scores")
LOSS = ("def-att-loss", *OUTPUT)
OF_SCORES = ("def-att-loss", "def-att-output", "def-att-weights")
DP, DS, DQ, DK, DV = ("def-att-dp",), ("def-att-ds",), ("def-att-dq",), ("def-att-dk",), ("def-att-dv",)
MASKED = ("def-att-mask",)
DSCALE, DELTA = ("def-att-dalpha",), ("def-att-delta",)
TANGENTS = ("def-att-to", "def-att-tp", "def-att-ts")
PARTS = ("def-att-full-loss", "def-att-full-lse", "def-att-full-output", "def-att-full-weights")
UNCAPPED = (*PARTS, "def-att-scores", "def-att-sink-weight", *DELTA)
CAPPED = ("def-att-capped-scores", "def-att-sum", "def-att-capped-product", "def-att-product")
FULL = (*PARTS, *CAPPED)
SLOPES = ("def-att-slope-scores", "def-att-slope-product", "def-att-dx")
HEADS = ("def-att-heads-output", "def-att-heads-weights", "def-att-heads-scores")
HEADS_LOSS = ("def-att-heads-loss", *HEADS)
BARE = (*OF_SCORES, *DS)
BY_VALUES = ("def-att-output", "eq-att-value-ds")
TWO = ("def-att-two-scores", "def-att-two-values", "def-att-two-cotangent", "def-att-weights", *BY_VALUES)
TWO_SIZES = {"N": 2, "M": 2, "d_k": 2, "d_v": 2}
THREE_SIZES = {"N": 3, "M": 4, "d_k": 3, "d_v": 2}
# The smallest sizes at which a mistake shows: two keys, and of everything else as few as do.
SMALL = ({"N": 1, "M": 2, "d_k": 1, "d_v": 1, "G": 1, "U": 2},)
ROW = ({"N": 1, "M": 2, "d_k": 2, "d_v": 1, "G": 1, "U": 1},)
GROUPED = (
    {"N": 2, "M": 2, "d_k": 1, "d_v": 1, "G": 2, "U": 2},
    {"N": 1, "M": 2, "d_k": 2, "d_v": 2, "G": 1, "U": 3},
)


def example(prefix: str, at: Mapping[str, int]) -> tuple[Definition | Identity, ...]:
    """Return the claims of one worked example: what is given, its weights and its gradients."""
    queries, keys, scores, values, cotangent = (
        f"def-{prefix}-{name}" for name in ("queries", "keys", "scores", "values", "cotangent")
    )
    weights = (scores, "def-att-weights")
    return (
        *(Definition(label, at=at) for label in (queries, keys, scores, values, cotangent)),
        Identity(f"eq-{prefix}-product", (queries, keys), at=at),
        Identity(f"eq-{prefix}-weights", weights, at=at),
        Identity(f"eq-{prefix}-dv", (f"eq-{prefix}-weights", cotangent), at=at),
        Identity(f"eq-{prefix}-ds", (*weights, values, cotangent, *BY_VALUES), at=at),
        Identity(f"eq-{prefix}-dq", (f"eq-{prefix}-ds", keys), at=at),
        Identity(f"eq-{prefix}-dscale", (f"eq-{prefix}-ds", queries, keys), at=at),
    )


CHAPTER = Chapter(
    page="03_attention_backward",
    table=TABLE,
    sizes=(
        {"N": 1, "M": 2, "d_k": 2, "d_v": 1, "G": 1, "U": 1},
        {"N": 2, "M": 2, "d_k": 1, "d_v": 1, "G": 1, "U": 1},
    ),
    claims=(
        Identity("eq-att-answer", (*DV, *DP, *DS, *DQ, *DK, *DSCALE, *LOSS)),
        Definition("def-att-scores"),
        Definition("def-att-weights"),
        Definition("def-att-output"),
        Definition("def-att-loss"),
        Definition("def-att-dv"),
        Definition("def-att-dp"),
        Definition("def-att-ds"),
        Definition("def-att-dq"),
        Definition("def-att-dk"),
        Definition("def-att-dalpha"),
        Definition("def-att-to"),
        Identity("eq-att-through-values", ("def-att-to",)),
        Identity("eq-att-dp", (*DP, *LOSS)),
        Identity("eq-att-dv", (*DV, *LOSS)),
        Definition("def-att-tp"),
        Identity("eq-att-through-softmax", ("def-att-tp",)),
        Identity("eq-att-ds", (*DS, *DP, *LOSS)),
        Definition("def-att-ts"),
        Identity("eq-att-through-scores", ("def-att-ts",)),
        Identity("eq-att-dq", (*DQ, *DS, *LOSS)),
        Identity("eq-att-dk", (*DK, *DS, *LOSS)),
        Identity("eq-att-dscale", (*DSCALE, *DS, *LOSS)),
        Identity("eq-att-dbias", (*DS, *LOSS)),
        Identity("eq-att-all", (*TANGENTS, *DQ, *DK, *DV, *DS, *DSCALE, *LOSS)),
        Definition("def-att-mean-key"),
        Identity("eq-att-covariance", ("def-att-mean-key", *DQ, *DS, *DP, *LOSS), sizes=ROW),
        Identity("eq-att-value-ds", (*DS, *OF_SCORES)),
        Definition("def-att-product"),
        Definition("def-att-capped-product"),
        Definition("def-att-sum"),
        Definition("def-att-capped-scores"),
        Identity("eq-att-full-scores", CAPPED),
        Hypothesis("def-att-mask", plant=mask),
        Definition("def-att-full-weights", assume=MASKED),
        Definition("def-att-sink-weight", assume=MASKED),
        Definition("def-att-full-output"),
        Definition("def-att-full-lse", assume=MASKED),
        Definition("def-att-full-loss"),
        Definition("def-att-delta"),
        Identity(
            "eq-att-identity",
            (*DS, *DP, *DELTA, *FULL),
            mistakes={
                "cotangent of lse outside": r"dS_{ij} = P_{ij} (dP_{ij} - \Delta_i) + g_i",
                "dropped weights": r"dS_{ij} = E_{ij} P_{ij} (dP_{ij} - \Delta_i + g_i)",
            },
        ),
        Identity("eq-att-full-jacobian", ("def-att-full-weights",)),
        Identity("eq-att-full-dlse", ("def-att-full-lse", "def-att-full-weights")),
        Identity("eq-att-full-dp", (*DP, *FULL)),
        Identity("eq-att-full-delta", (*DELTA, *DP, *FULL)),
        Definition("def-att-slope-scores"),
        Definition("def-att-slope-product"),
        Definition("def-att-dx"),
        Identity("eq-att-full-dbias", (*SLOPES[:1], *DS, *FULL)),
        Identity("eq-att-full-dx", (*SLOPES, *DS, *FULL)),
        Identity("eq-att-full-dq", (*SLOPES[2:], *DQ, *FULL)),
        Identity("eq-att-full-dk", (*SLOPES[2:], *DK, *FULL)),
        Identity("eq-att-full-dscale", (*SLOPES[2:], *DSCALE, *FULL)),
        Identity("eq-att-full-dv", (*DV, *FULL)),
        Identity("eq-att-full-dsink", ("def-att-sink-weight", *DELTA, *FULL)),
        Identity("eq-att-row-sum", ("def-att-sink-weight", *DS, *DELTA, *FULL)),
        Identity("eq-att-balance", (*DQ, *DK, *FULL)),
        Identity("eq-att-scale-law", (*DQ, *DK, *DSCALE, *FULL)),
        Identity("eq-att-scale-values", (*DV, *FULL)),
        Definition("def-att-heads-scores"),
        Definition("def-att-heads-weights"),
        Definition("def-att-heads-output"),
        Definition("def-att-heads-loss"),
        Identity("eq-att-nothing-mixes", HEADS, sizes=GROUPED),
        Definition("def-att-heads-ds"),
        Definition("def-att-heads-dk"),
        Definition("def-att-heads-dv"),
        Identity(
            "eq-att-heads-dk",
            ("def-att-heads-dk", "def-att-heads-ds", *HEADS_LOSS),
            sizes=GROUPED,
            mistakes={
                "mean": r"d\mathcal{K}_{h} = \frac{\alpha}{U} \sum_u d\mathcal{S}_{hu}^\top \mathcal{Q}_{hu}"
            },
        ),
        Identity("eq-att-heads-dv", ("def-att-heads-dv", *HEADS_LOSS), sizes=GROUPED),
        Definition("def-att-inside-scores"),
        Identity(
            "eq-att-inside-dscale",
            (*DSCALE, *DS, *OF_SCORES, "def-att-inside-scores"),
        ),
        Definition("def-att-scores-scale"),
        Definition("def-att-scores-root"),
        Definition("def-att-scores-size", plant=square),
        Definition("def-att-scores-log"),
        Identity("eq-att-reading-scale", ("def-att-scores-scale", *BARE)),
        Identity("eq-att-reading-root", ("def-att-scores-root", *BARE)),
        Identity("eq-att-reading-size", ("def-att-scores-size", *BARE)),
        Identity("eq-att-reading-log", ("def-att-scores-log", *BARE)),
        Identity("eq-att-dproduct", ("def-att-scores-scale", *BARE)),
        Identity("eq-att-key-bias", (*DK, *DS, *LOSS)),
        Identity("eq-att-query-bias", (*DQ, *DS, *LOSS)),
        Identity("eq-att-value-bias", (*DV, *LOSS)),
        Identity("eq-att-key-bias-full", (*SLOPES[2:], *DK, *FULL)),
        Definition("def-att-turned-keys"),
        Definition("def-att-turned-dk"),
        Identity("eq-att-key-bias-turned", ("def-att-turned-keys", "def-att-turned-dk", *DS, *LOSS)),
        Identity("eq-att-value-bias-full", (*DV, *FULL)),
        *example("att-two", TWO_SIZES),
        *example("att-three", THREE_SIZES),
        Identity("eq-att-three-dk", ("eq-att-three-ds", "def-att-three-queries"), at=THREE_SIZES),
        Wrong(
            "bad-att-dq-scale",
            (*DS, *LOSS),
            sizes=SMALL,
            instead="eq-att-dq",
            mistake="attention-dq-unscaled",
        ),
        Wrong(
            "bad-att-dk-scale",
            (*DS, *LOSS),
            sizes=SMALL,
            instead="eq-att-dk",
            mistake="attention-dk-unscaled",
        ),
        Wrong(
            "bad-att-scale-twice",
            (*DS, *LOSS),
            sizes=SMALL,
            instead="eq-att-dq",
            mistake="attention-dq-scaled-twice",
        ),
        Wrong(
            "bad-att-dp",
            TWO,
            at=TWO_SIZES,
            instead="eq-att-two-ds",
            mistake="attention-do-as-dp",
        ),
        Wrong(
            "bad-att-delta-unweighted",
            (*DS, *DP, *LOSS),
            sizes=SMALL,
            instead="eq-att-ds",
            mistake="attention-delta-unweighted",
        ),
        Wrong(
            "bad-att-delta-block",
            (*DS, *DP, *LOSS),
            sizes=SMALL,
            instead="eq-att-ds",
            mistake="attention-delta-of-block",
        ),
        Wrong(
            "bad-att-group-last",
            ("def-att-heads-dk", "def-att-heads-ds", *HEADS_LOSS),
            sizes=SMALL,
            instead="eq-att-heads-dk",
            mistake="attention-group-last-head",
        ),
        Wrong(
            "bad-att-dscale-scores",
            ("def-att-scores-scale", *BARE),
            sizes=SMALL,
            instead="eq-att-reading-scale",
            mistake="attention-dscale-of-scores",
        ),
        Wrong(
            "bad-att-dscale-product",
            ("def-att-scores-scale", *BARE),
            sizes=SMALL,
            instead="eq-att-reading-scale",
            mistake="attention-dscale-of-logarithm",
        ),
        Wrong("bad-att-key-bias", (*DK, *UNCAPPED), sizes=SMALL, instead="eq-att-key-bias-full"),
        Wrong(
            "bad-att-value-bias",
            (*DV, *FULL),
            sizes=SMALL,
            instead="eq-att-value-bias-full",
        ),
    ),
)
