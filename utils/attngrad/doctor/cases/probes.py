"""Recipes of probes: with values that are the identity, the output is the weights."""

from attngrad.doctor.cases.frame import Frame
from attngrad.doctor.cases.recipe import Recipe
from attngrad.doctor.cases.shapes import recipe

WEIGHTS = "values that are the identity: the output is the weights, which show the scale and the bias"
VALUES = "values and cotangents that are the identity: dv is the transpose of the output"
CAUSAL = "equal scores under causal masking: the zeros of the output show the alignment"
CAP = "large scores and values that are the identity: the output shows a soft-cap"


def probes(frame: Frame) -> list[Recipe]:
    """Return the probes that a specification allows."""
    D = frame.side()
    if D is None:
        return []
    fewer = max(D // 2 + 3, 1)
    N = fewer if frame.spec.has("cross") and frame.allows(fewer, D) else D
    common = {"M": D, "D": D, "B": 2, "H": 3}
    found = [
        recipe(frame, "probe-weights", WEIGHTS, N=N, acts=("identity-values",), **common),
        recipe(frame, "probe-values", VALUES, N=D, acts=("identity-values", "identity-cotangent"), **common),
    ]
    if frame.spec.causal != "never" and frame.tokens is None:
        acts = ("identity-values", "equal", "no-bias-values")
        found.append(recipe(frame, "probe-causal", CAUSAL, N=N, acts=acts, causal=True, **common))
    cap = next((word for word in ("softcap", "softcap-product") if frame.spec.has(word)), None)
    acts = ("identity-values",) if cap is None else ("identity-values", cap)
    spread = 4.0 if frame.narrow else 8.0
    found.append(recipe(frame, "probe-cap", CAP, N=N, acts=acts, spread=spread, **common))
    return [made for made in found if made.M == made.D]
