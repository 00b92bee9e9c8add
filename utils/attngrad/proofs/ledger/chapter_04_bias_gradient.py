"""Claims of chapter 04, the gradient of the bias."""

from __future__ import annotations

from ..claim import Chapter, Definition, Identity, Wrong
from ..read import Table

TABLE = Table(
    index={**dict.fromkeys("ia", "N"), **dict.fromkeys("jl", "M"), "c": "d_k", "f": "d_v", "r": "R"},
    names={
        "Q": ("N", "d_k"),
        "K": ("M", "d_k"),
        "V": ("M", "d_v"),
        **{x: ("N", "d_v") for x in ("O", "dO")},
        **{x: ("N", "M") for x in ("S", "P", "b", "dP", "dS", "E", "T", r"\rho", "y", "Y")},
        **{x: ("N", "M") for x in ("Z", "A", "G", "dZ", r"\beta")},
        **{x: ("N",) for x in (r"\mathrm{lse}", "g", "u", r"\omega")},
        **{x: ("R",) for x in ("t", "dt")},
        **{x: () for x in ("L", "x", r"\theta", r"\sigma", r"\lambda")},
        **{x: "+" for x in (r"\alpha", r"\eta")},
        **{x: "size" for x in ("N", "M", "d_k", "d_v", "R")},
    },
    integers={r"\varphi": (("N", "M"), (1, "R"))},
    functions=(r"\kappa",),
    kronecker=r"\delta",
    lookalikes_allowed=(("y", "Y"), ("S", "s"), ("a", r"\alpha")),
)

WEIGHTS = ("def-bias-weights", "def-bias-scores")
OUTPUT = ("def-bias-output", *WEIGHTS)
LOSS = ("def-bias-loss", *OUTPUT)
GIVEN = ("def-bias-dp",)
SCORES = ("def-bias-ds",)
INSIDE = ("def-bias-inside-weights", "def-bias-inside-scores")
INSIDE_LOSS = ("def-bias-inside-loss", *INSIDE)
LSE = ("def-bias-lse-loss", "def-bias-lse", *OUTPUT, *GIVEN)
DROPOUT = ("def-bias-dropout-loss", *WEIGHTS)
CAP = ("def-bias-loss", "def-bias-output", "def-bias-cap-weights", "def-bias-scores", *GIVEN)
SINK = (
    "def-bias-loss",
    "def-bias-output",
    "def-bias-sink-weights",
    "def-bias-sink",
    "def-bias-scores",
    *GIVEN,
)
TABLE_LOSS = ("def-bias-dt", "def-bias-table", *SCORES, *LOSS, *GIVEN)
TWO = ("def-bias-two-scores", "def-bias-two-values", "def-bias-two-cotangent")
THREE = ("def-bias-three-scores", "def-bias-three-values", "def-bias-three-cotangent")
TWO_SIZES = {"N": 2, "M": 2, "d_v": 2}
THREE_SIZES = {"N": 3, "M": 4, "d_v": 2}
# A root needs sizes d_k that are squares; d_k = 4 alone would confuse sqrt(d_k) with d_k / 2.
SQUARES = tuple({"N": 2, "M": m, "d_k": d, "d_v": 1, "R": 1} for m, d in ((2, 9), (3, 4), (3, 16), (1, 1)))
# The smallest sizes at which a mistake shows: two keys, and a root that is not one where there is a root.
SMALL = ({"N": 1, "M": 2, "d_k": 1, "d_v": 1, "R": 1},)
ROOT = ({"N": 1, "M": 2, "d_k": 4, "d_v": 1, "R": 1},)
ROWS = ({"N": 2, "M": 2, "d_k": 4, "d_v": 1, "R": 1},)


def instances(prefix: str, given: tuple[str, ...], at: dict[str, int]) -> tuple[Identity, ...]:
    """Return the claims of one worked example: weights, output and cotangent of the scores."""
    scores, values, cotangent = given
    weights = (scores, "def-bias-weights")
    return (
        Identity(f"{prefix}-weights", weights, at=at),
        Identity(f"{prefix}-output", (values, "def-bias-output", *weights), at=at),
        Identity(f"{prefix}-gradient", (values, cotangent, *weights, *GIVEN, *SCORES), at=at),
    )


CHAPTER = Chapter(
    page="04_bias_gradient",
    table=TABLE,
    sizes=(
        {"N": 2, "M": 2, "d_k": 2, "d_v": 2, "R": 2},
        {"N": 2, "M": 3, "d_k": 1, "d_v": 3, "R": 4},
        {"N": 1, "M": 1, "d_k": 1, "d_v": 1, "R": 1},
    ),
    claims=(
        Identity("eq-bias-answer", (*LOSS, *GIVEN)),
        Definition("def-bias-scores"),
        Definition("def-bias-weights"),
        Definition("def-bias-output"),
        Definition("def-bias-loss"),
        Definition("def-bias-dp"),
        Identity("eq-bias-weights-move", WEIGHTS),
        Identity("eq-bias-output-moves", OUTPUT),
        Identity(
            "eq-bias",
            (*LOSS, *GIVEN),
            mistakes={
                "no mean": r"\frac{\partial L}{\partial b_{ij}} = P_{ij}\, dP_{ij}",
                "scaled": r"\frac{\partial L}{\partial b_{ij}}"
                r" = \alpha P_{ij} (dP_{ij} - \sum_l P_{il} dP_{il})",
                "mean over queries": r"\frac{\partial L}{\partial b_{ij}}"
                r" = P_{ij} (dP_{ij} - \sum_a P_{aj} dP_{aj})",
                "mean over all": r"\frac{\partial L}{\partial b_{ij}}"
                r" = P_{ij} (dP_{ij} - \sum_{a,l} P_{al} dP_{al})",
                "mean weighted twice": r"\frac{\partial L}{\partial b_{ij}}"
                r" = P_{ij} dP_{ij} - \sum_l P_{il}^2 dP_{il}",
            },
        ),
        Identity("eq-bias-chain-rule", (*LOSS, *GIVEN)),
        Identity("eq-bias-value-form", LOSS),
        Identity("eq-bias-delta", ("def-bias-output", *GIVEN)),
        Definition("def-bias-ds"),
        Identity("eq-bias-is-ds", (*SCORES, *LOSS, *GIVEN)),
        Identity("eq-bias-matrix", SCORES),
        Identity(
            "eq-bias-dq",
            (*SCORES, *LOSS, *GIVEN),
            mistakes={"scale lost": r"\frac{\partial L}{\partial Q_{ic}} = \sum_j dS_{ij} K_{jc}"},
        ),
        Identity("eq-bias-dk", (*SCORES, *LOSS, *GIVEN)),
        Identity("eq-bias-dscale", (*SCORES, *LOSS, *GIVEN)),
        Identity("eq-bias-dv", LOSS),
        Definition("def-bias-table"),
        Definition("def-bias-dt", ("def-bias-table", *LOSS)),
        Identity("eq-bias-table", TABLE_LOSS),
        Definition("def-bias-inside-scores"),
        Definition("def-bias-inside-weights"),
        Definition("def-bias-inside-loss"),
        Identity("eq-bias-inside", INSIDE_LOSS, sizes=SQUARES),
        Identity("eq-bias-inside-same", sizes=SQUARES),
        Definition("def-bias-dz"),
        Identity("eq-bias-inside-dq", ("def-bias-dz", *INSIDE_LOSS), sizes=SQUARES),
        Identity("eq-bias-inside-dk", ("def-bias-dz", *INSIDE_LOSS), sizes=SQUARES),
        Identity("eq-bias-sgd-step", ("def-bias-dz", *INSIDE_LOSS), sizes=SQUARES),
        Identity("eq-bias-gauge", WEIGHTS),
        Identity("eq-bias-row-sum", (*SCORES, *WEIGHTS)),
        Identity("eq-bias-table-sum", TABLE_LOSS),
        Identity("eq-bias-constant-loss", WEIGHTS),
        Definition("def-bias-lse"),
        Definition("def-bias-lse-loss"),
        Identity("eq-bias-lse", LSE),
        Identity("eq-bias-lse-row-sum", LSE),
        Definition("def-bias-dropout-loss"),
        Identity("eq-bias-dropout", DROPOUT),
        Identity("eq-bias-dropout-row-sum", DROPOUT),
        Definition("def-bias-cap"),
        Definition("def-bias-cap-weights"),
        Definition("def-bias-slope"),
        Identity("eq-bias-cap", ("def-bias-slope", "def-bias-cap", *CAP)),
        Definition("def-bias-tanh"),
        Identity("eq-bias-tanh", ("def-bias-tanh",)),
        Definition("def-bias-tanh-at"),
        Identity("eq-bias-tanh-value", ("def-bias-tanh", "def-bias-tanh-at")),
        Definition("def-bias-sink-weights"),
        Definition("def-bias-sink"),
        Identity("eq-bias-sink", SINK),
        Identity("eq-bias-sink-row-sum", SINK),
        Identity("eq-bias-sink-gradient", SINK),
        Definition("def-bias-reach"),
        Identity("eq-bias-reach", ("def-bias-reach", *WEIGHTS)),
        Identity("eq-bias-ratio", ("def-bias-weights",)),
        Definition("def-bias-two-scores", at=TWO_SIZES),
        Definition("def-bias-two-values", at=TWO_SIZES),
        Definition("def-bias-two-cotangent", at=TWO_SIZES),
        *instances("eq-bias-two", TWO, TWO_SIZES),
        Definition("def-bias-three-scores", at=THREE_SIZES),
        Definition("def-bias-three-values", at=THREE_SIZES),
        Definition("def-bias-three-cotangent", at=THREE_SIZES),
        *instances("eq-bias-three", THREE, THREE_SIZES),
        Wrong(
            "bad-bias-factor",
            INSIDE,
            sizes=ROOT,
            instead="eq-bias-inside-diagonal",
            mistake="bias-inside-vjp-factor-dropped",
        ),
        Wrong(
            "bad-bias-diagonal",
            (*LOSS, *GIVEN),
            sizes=SMALL,
            instead="eq-bias",
            mistake="softmax-vjp-diagonal-only",
        ),
        Wrong(
            "bad-bias-entrywise",
            INSIDE_LOSS,
            sizes=ROOT,
            instead="eq-bias-inside",
            mistake="bias-inside-vjp-entrywise",
        ),
        Wrong(
            "bad-bias-literal",
            INSIDE_LOSS,
            sizes=ROWS,
            instead="eq-bias-inside",
            mistake="bias-inside-vjp-literal",
        ),
        Wrong("bad-bias-lse", LSE, sizes=SMALL, instead="eq-bias-lse", mistake="lse-cotangent-dropped"),
        Wrong(
            "bad-bias-dropout",
            DROPOUT,
            sizes=SMALL,
            instead="eq-bias-dropout",
            mistake="dropout-vjp-mask-dropped",
        ),
        Wrong(
            "bad-bias-cap", CAP, sizes=SMALL, instead="eq-bias-cap", mistake="softcap-vjp-factor-dropped"
        ),
        Wrong("bad-bias-cap-row-sum", CAP, sizes=SMALL, instead="eq-bias-cap"),
        Definition("def-bias-kernel"),
        Identity("eq-bias-kernel", ("def-bias-kernel",)),
        Wrong(
            "bad-bias-kernel",
            WEIGHTS,
            sizes=SMALL,
            instead="def-bias-weights",
            mistake="bias-exp2-unscaled",
        ),
        Identity("eq-bias-inner-sum", INSIDE, sizes=SQUARES),
        Identity("eq-bias-inside-diagonal", INSIDE, sizes=SQUARES),
        Identity("eq-bias-diagonal", WEIGHTS),
        Identity("eq-bias-gap", (*LOSS, *GIVEN)),
        Identity("eq-bias-inside-gap", INSIDE_LOSS, sizes=SQUARES),
    ),
)
