"""The one table of tolerances, as data: what is compared, and by which rule."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tolerance:
    """One row of the table: what is compared, by which rule, and how many digits it certifies."""

    compares: str
    rule: str
    rtol: float = 0.0
    atol: float = 0.0
    digits: int = 0
    factor: float = 0.0

    @property
    def bound(self) -> str:
        """Return the bound in two words, to print behind a value."""
        return f"within {self.rtol:g}" if self.rtol else self.rule


TOLERANCES = {
    "equal": Tolerance("buckets, masks, shapes", "equal"),
    "symbolic": Tolerance("two formulas", "normal form zero"),
    "float64": Tolerance(
        "float64 closed form with autograd or a sibling",
        "rtol 1e-12, atol 1e-12 x sum of absolute terms",
        rtol=1e-12,
        atol=1e-12,
        digits=10,
    ),
    "difference": Tolerance(
        "float64 with central differences in a random direction, step 1e-6",
        "1e-6 x max(|derivative|, |loss|)",
        rtol=1e-6,
        digits=5,
    ),
    "forward": Tolerance(
        "float32, float16, bfloat16 outputs with float64",
        "error <= 2 x that of a plain run in the same type + one rounding",
        factor=2.0,
    ),
    "backward": Tolerance(
        "float32, float16, bfloat16 gradients with float64",
        "error <= 3 x that of a plain run in the same type + one rounding",
        factor=3.0,
    ),
    "reduced": Tolerance(
        "low-precision gradient of a table or a reduced bias",
        "per entry 6 x band, band^2 = sum_i (sum_{j->r} P_ij u |do_i.o_i|)^2 + u^2 sum ds^2",
        factor=6.0,
    ),
    "repeat": Tolerance("repeated runs at a fixed number of threads", "bit-equal"),
}

STEP = 1e-6
UNIT_ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
