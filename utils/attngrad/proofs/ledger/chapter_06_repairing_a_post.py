"""Claims of chapter 06, the program of a post, repaired."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from random import Random

from ..claim import Chapter, Definition, Identity, Wrong
from ..read import Table

OFFSETS = ("1-N", "M-1")
TABLE = Table(
    index={
        **dict.fromkeys("ia", "N"),
        **dict.fromkeys("jl", "M"),
        "c": "d_k",
        "f": "d_v",
        "o": OFFSETS,
    },
    names={
        "Q": ("N", "d_k"),
        "K": ("M", "d_k"),
        "V": ("M", "d_v"),
        **{x: ("N", "d_v") for x in ("O", "Y")},
        **{x: ("N", "M") for x in ("S", "P", "dP", "dS", "u", "z", "W")},
        "U": ("M", "N"),
        "t": (OFFSETS,),
        "L": (),
        r"\alpha": "+",
        **{x: "size" for x in ("N", "M", "d_k", "d_v")},
    },
    integers={r"\tau": (("M",), (1, "d_v"))},
    kronecker=r"\delta",
    lookalikes_allowed=(("o", "O"),),
)


def positive(sizes: Mapping[str, int], random: Random) -> dict[tuple, Fraction]:
    """Return positive weights and values, so that the output has a logarithm."""
    spans = {"P": ("N", "M"), "V": ("M", "d_v")}
    return {
        (name, a, b): Fraction(random.randint(1, 9), random.randint(1, 5))
        for name, (rows, columns) in spans.items()
        for a in range(1, sizes[rows] + 1)
        for b in range(1, sizes[columns] + 1)
    }


SCORES = ("def-repair-scores",)
WEIGHTS = ("def-repair-weights", *SCORES)
LOSS = ("def-repair-loss", *WEIGHTS)
FREE = ("def-repair-weights",)
CROSS = ("def-repair-cross-entropy", "def-repair-output")
TWO = {"N": 2, "M": 3}
FOUR = {"N": 2, "M": 4}
SMALL = ({"N": 1, "M": 2, "d_k": 1, "d_v": 1},)

CHAPTER = Chapter(
    page="06_repairing_a_post",
    table=TABLE,
    sizes=(
        {"N": 2, "M": 3, "d_k": 1, "d_v": 2},
        {"N": 3, "M": 2, "d_k": 2, "d_v": 2},
        {"N": 1, "M": 1, "d_k": 1, "d_v": 1},
    ),
    claims=(
        Identity("eq-repair-answer", LOSS),
        Definition("def-repair-scores"),
        Definition("def-repair-weights"),
        Identity("eq-repair-size"),
        Definition("def-repair-loss"),
        Identity("eq-repair-table", LOSS),
        Identity("eq-repair-dq", ("def-repair-ds", *LOSS)),
        Identity("eq-repair-dk", ("def-repair-ds", *LOSS)),
        Identity("eq-repair-total", FREE, mistakes={"keys counted": r"\sum_{i,j} P_{ij} = M"}),
        Identity("eq-repair-constant", FREE),
        Definition("def-repair-output", plant=positive),
        Definition("def-repair-cross-entropy"),
        Identity("eq-repair-dp", CROSS),
        Definition("def-repair-one-hot"),
        Definition("def-repair-reached"),
        Identity("eq-repair-best", ("def-repair-reached", "def-repair-one-hot")),
        Identity("eq-repair-rest", FREE),
        Definition("def-repair-push"),
        Definition("def-repair-drift", FREE),
        Identity("eq-repair-drift", ("def-repair-drift", *FREE)),
        Definition("def-repair-written"),
        Definition("def-repair-offset"),
        Identity("eq-repair-transposed", ("def-repair-written", "def-repair-offset")),
        Definition("def-repair-two-scores", at=TWO),
        Definition("def-repair-two-cotangent", at=TWO),
        Definition("def-repair-ds"),
        Identity("eq-repair-two-weights", ("def-repair-two-scores", *FREE), at=TWO),
        Identity(
            "eq-repair-two-gradient",
            ("def-repair-two-cotangent", "def-repair-two-scores", "def-repair-ds", *FREE),
            at=TWO,
        ),
        Definition("def-repair-four-scores", at=FOUR),
        Identity("eq-repair-four-push", ("def-repair-push", "def-repair-four-scores", *FREE), at=FOUR),
        Identity(
            "eq-repair-four-drift",
            ("eq-repair-drift", "def-repair-push", "def-repair-four-scores", *FREE),
            at=FOUR,
        ),
        Wrong("bad-repair-size", sizes=SMALL, instead="eq-repair-size"),
        Wrong(
            "bad-repair-transposed",
            ("def-repair-written", "def-repair-offset"),
            sizes=SMALL,
            instead="eq-repair-transposed",
        ),
        Wrong(
            "bad-repair-order",
            WEIGHTS,
            sizes=SMALL,
            instead="def-repair-weights",
            mistake="bias-inside-scale-instead",
        ),
        Wrong(
            "bad-repair-diagonal",
            LOSS,
            sizes=SMALL,
            instead="eq-repair-table",
            mistake="softmax-vjp-diagonal-only",
        ),
    ),
)
