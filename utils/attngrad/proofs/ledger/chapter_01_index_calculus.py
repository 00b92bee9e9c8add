"""Claims of chapter 01, index calculus and adjoints."""

from __future__ import annotations

import numpy as np

from ..claim import Chapter, Definition, Identity, Number, Theorem, Wrong
from ..read import Table

TABLE = Table(
    index={**dict.fromkeys("ia", "N"), **dict.fromkeys("jlm", "M"), "f": "d_v"},
    names={
        **{x: ("N", "M") for x in ("W", "C", "J", "dW", "tW", "b", "A", "G", r"\psi")},
        "E": ("M", "M"),
        **{x: ("M", "d_v") for x in ("X", "dX", "tX", "Z", "dZ")},
        **{x: ("N", "d_v") for x in ("Y", "dY", "U")},
        "D": ("d_v", "N"),
        **{x: ("M",) for x in ("x", "dx", "tx")},
        **{x: ("N",) for x in ("y", "dy", "v", "z", "dz", "tz", r"\lambda", r"\xi")},
        "g": ("d_v",),
        **{x: () for x in ("L", r"\sigma", r"\theta", r"\mathrm{lse}", "s", "p", r"\varepsilon", r"\gamma")},
        **{x: () for x in (r"\mu", r"\eta", r"\hat{\Delta}", r"\Delta", r"\hat{\sigma}", "T")},
        **{x: "+" for x in ("r", "u", "h", "h_0")},
        **{x: "size" for x in ("N", "M", "d_v")},
    },
    integers={r"\varphi": (("N",), (1, "M"))},
    functions=(r"\kappa",),
    kronecker=r"\delta",
)
Values = dict[str, object]


def difference(random: np.random.Generator, trial: int) -> Values:
    """Return the central difference of a cubic whose two values are off by at most eta."""
    slope, third = random.normal(size=2)
    h, eta = random.uniform(0.2, 1.0), random.uniform(0.0, 0.3)
    off = random.uniform(-eta, eta, size=2)
    if trial < 2:
        third, off = abs(third) * (-1) ** trial, eta * np.array([1, -1]) * (-1) ** trial
    quotient = slope + third * h**2 + (off[0] - off[1]) / (2 * h)
    return {r"\mu": abs(third), r"\eta": eta, "h": h, r"\Delta": slope, r"\hat{\Delta}": quotient}


def steps(random: np.random.Generator, trial: int) -> Values:
    """Return a bound of the error at a step, and the step at which it is least; at first the same."""
    mu, best = random.uniform(0.1, 2.0), random.uniform(0.1, 2.0)
    h = best if trial == 0 else random.uniform(0.05, 3.0)
    return {r"\mu": mu, r"\eta": 2 * mu * best**3, "h": h, "h_0": best}


def half_precision_sum(random: np.random.Generator, trial: int) -> Values:
    """Return a sum computed in float16, whose errors float64 sees exactly: at first those of one rounding."""
    u = 2.0**-11
    terms = random.normal(size=random.integers(3, 40)) * 2.0 ** random.integers(-6, 3)
    if trial < 2:
        terms = np.array([1.0, u]) / 8 * (-1) ** trial
    terms = terms.astype(np.float16)
    total = np.float16(0.0)
    for term in terms:
        total = np.float16(total + term)
    exact = terms.astype(np.float64)
    return {"N": len(exact), r"\xi": exact, r"\hat{\sigma}": float(total), "T": np.abs(exact).sum(), "u": u}


def roundoff(random: np.random.Generator, trial: int) -> Values:
    """Return the unit roundoff of float64 and the step of the library's checks."""
    return {"u": 2.0**-53, "h": 1e-6}


LINEAR = ("def-calc-linear",)
LAYER = ("def-calc-layer", *LINEAR)
LOSS = ("def-calc-loss", *LAYER)
PATHS = ("def-calc-paths", "def-calc-second", *LINEAR)
PRODUCT = ("def-calc-dw", "def-calc-dx", "def-calc-product-loss", "def-calc-product")
SQUARE = ("def-calc-square-loss", "def-calc-square")
ENTRYWISE = ("def-calc-entrywise", "def-calc-entrywise-slope", "def-calc-entrywise-loss")
LINEAR_LOSS = ("def-calc-linear-loss", *LINEAR)
ROW = ("def-calc-weight", "def-calc-lse")
HERE = ("def-calc-here", "def-calc-rest")
AT = {"N": 2, "M": 3, "d_v": 2}
# The smallest sizes at which a mistake shows.
SMALL = ({"N": 2, "M": 2, "d_v": 1},)

CHAPTER = Chapter(
    page="01_index_calculus",
    table=TABLE,
    sizes=({"N": 2, "M": 3, "d_v": 2}, {"N": 3, "M": 2, "d_v": 1}, {"N": 1, "M": 1, "d_v": 1}),
    claims=(
        Identity("eq-calc-answer", PRODUCT),
        Identity("eq-calc-answer-w", PRODUCT),
        Identity("eq-calc-answer-x", PRODUCT),
        Identity("eq-calc-delta"),
        Identity("eq-calc-delta-picks"),
        Identity("eq-calc-delta-joins"),
        Identity("eq-calc-delta-counts"),
        Definition("def-calc-sum"),
        Identity("eq-calc-sum", ("def-calc-sum",)),
        Definition("def-calc-linear"),
        Identity("eq-calc-linear", LINEAR),
        Identity("eq-calc-linear-matrix", LINEAR),
        Definition("def-calc-quadratic"),
        Identity("eq-calc-quadratic", ("def-calc-quadratic",)),
        Definition("def-calc-layer"),
        Identity("eq-calc-layer", LAYER),
        Definition("def-calc-slope", ("def-calc-layer",)),
        Definition("def-calc-loss"),
        Identity(
            "eq-calc-chain",
            ("def-calc-slope", *LOSS),
            mistakes={
                "slope forgotten": r"\frac{\partial L}{\partial x_j} = \sum_i dz_i W_{ij}",
                "slope inside": r"\frac{\partial L}{\partial x_j} = \sum_i dz_i \sum_a \lambda_a W_{aj}",
            },
        ),
        Identity("eq-calc-chain-matrix", ("def-calc-slope", *LOSS)),
        Definition("def-calc-second"),
        Definition("def-calc-paths"),
        Identity("eq-calc-paths", PATHS),
        Identity("eq-calc-pairing"),
        Identity("eq-calc-trace"),
        Identity("eq-calc-move-left"),
        Identity("eq-calc-move-right"),
        Identity("eq-calc-mask"),
        Identity("eq-calc-broadcast"),
        Identity("eq-calc-gather"),
        Definition("def-calc-jacobian", LAYER),
        Definition("def-calc-jvp", ("def-calc-jacobian",)),
        Identity("eq-calc-jvp", ("def-calc-jvp", "def-calc-slope")),
        Definition("def-calc-vjp", ("def-calc-jacobian",)),
        Identity("eq-calc-vjp", ("def-calc-vjp", "def-calc-slope")),
        Identity("eq-calc-frozen", ("def-calc-jacobian", *LOSS)),
        Identity("eq-calc-adjoint", ("def-calc-jvp", "def-calc-vjp")),
        Identity("eq-calc-reversed"),
        Definition("def-calc-product"),
        Definition("def-calc-product-loss"),
        Definition("def-calc-dw", ("def-calc-product-loss", "def-calc-product")),
        Definition("def-calc-dx", ("def-calc-product-loss", "def-calc-product")),
        Identity("eq-calc-product-w", PRODUCT),
        Identity("eq-calc-product-x", PRODUCT),
        Identity("eq-calc-product-rule"),
        Identity("eq-calc-euler", PRODUCT),
        Identity("eq-calc-forward"),
        Identity("eq-calc-central"),
        Theorem("thm-calc-central", classical=("Taylor's theorem",), model=difference),
        Identity("eq-calc-best"),
        Theorem("thm-calc-best", rests_on=("eq-calc-best",), model=steps),
        Number("num-calc-best", model=roundoff),
        Number("num-calc-best-error", model=roundoff),
        Number("num-calc-best-forward", model=roundoff),
        Definition("def-calc-lse"),
        Definition("def-calc-weight"),
        Identity("eq-calc-lse", ROW),
        Identity("eq-calc-lse-third", ROW),
        Definition("def-calc-here"),
        Definition("def-calc-rest"),
        Identity("eq-calc-lse-here", (*HERE, *ROW)),
        Identity("eq-calc-lse-third-here", (*HERE, *ROW)),
        Theorem("thm-calc-sum", classical=("rounding to nearest",), model=half_precision_sum),
        Number("num-calc-band", model=roundoff),
        Number("num-calc-difference", model=roundoff),
        Definition("def-calc-linear-loss"),
        Identity("eq-calc-sum-loss", LINEAR),
        Identity("eq-calc-averaged"),
        Definition("def-calc-example-w", at=AT),
        Definition("def-calc-example-x", at=AT),
        Definition("def-calc-example-dy", at=AT),
        Identity(
            "eq-calc-example-y", ("def-calc-example-w", "def-calc-example-x", "def-calc-product"), at=AT
        ),
        Identity("eq-calc-example-dw", ("def-calc-example-x", "def-calc-example-dy", *PRODUCT), at=AT),
        Identity("eq-calc-example-dx", ("def-calc-example-w", "def-calc-example-dy", *PRODUCT), at=AT),
        Wrong(
            "bad-calc-sum",
            ("def-calc-sum",),
            instead="eq-calc-sum",
            mistake="sum-vjp-index-clash",
            sizes=SMALL,
        ),
        Definition("def-calc-square"),
        Definition("def-calc-square-loss"),
        Identity("eq-calc-square", SQUARE),
        Wrong(
            "bad-calc-square",
            SQUARE,
            instead="eq-calc-square",
            mistake="product-vjp-transpose-dropped",
            sizes=SMALL,
        ),
        Wrong(
            "bad-calc-quadratic",
            ("def-calc-quadratic",),
            instead="eq-calc-quadratic",
            mistake="quadratic-vjp-symmetric",
            sizes=SMALL,
        ),
        Wrong("bad-calc-paths", PATHS, instead="eq-calc-paths", mistake="paths-vjp-last-only", sizes=SMALL),
        Wrong(
            "bad-calc-broadcast", (), instead="eq-calc-broadcast", mistake="broadcast-vjp-mean", sizes=SMALL
        ),
        Identity("eq-calc-unfrozen", LINEAR),
        Wrong(
            "bad-calc-unfrozen",
            LINEAR,
            instead="eq-calc-unfrozen",
            mistake="pairing-vjp-unfrozen",
            sizes=SMALL,
        ),
        Wrong(
            "bad-calc-averaged",
            LINEAR_LOSS,
            instead="eq-calc-linear-loss",
            mistake="matrix-vjp-averaged",
            sizes=SMALL,
        ),
        Identity("eq-calc-linear-loss", LINEAR_LOSS),
        Definition("def-calc-entrywise"),
        Definition("def-calc-entrywise-slope", ("def-calc-entrywise",)),
        Definition("def-calc-entrywise-loss"),
        Identity("eq-calc-entrywise", ("def-calc-entrywise", "def-calc-entrywise-loss")),
        Identity("eq-calc-renamed", ENTRYWISE),
        Wrong(
            "bad-calc-clash",
            ENTRYWISE,
            instead="eq-calc-renamed",
            mistake="entrywise-vjp-literal-sum",
            sizes=SMALL,
        ),
    ),
)
