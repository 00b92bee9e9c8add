"""Wrong attentions: the products that give dq, dk and dscale."""

import numpy as np

from attngrad.mistakes.attention import dk_unscaled, dq_unscaled
from attngrad.mistakes.whole.pipeline import Attention
from attngrad.mistakes.whole.record import NO_SOURCE, wrong
from attngrad.mistakes.whole.stages import stage


@wrong("attention-dq-unscaled", "dq lacks the scale.", ("dq",))
class DqUnscaled(Attention):
    @stage
    def dq(self) -> np.ndarray:
        return dq_unscaled(self.dx, self.keys, self.scale_back)


@wrong("attention-dq-scaled-twice", "dq has the scale twice.", ("dq",))
class DqScaledTwice(Attention):
    @stage
    def dq(self) -> np.ndarray:
        return self.scale_back * super().dq


@wrong("attention-dk-unscaled", "dk lacks the scale.", ("dk",))
class DkUnscaled(Attention):
    @stage
    def dk_of_heads(self) -> np.ndarray:
        return dk_unscaled(self.dx, self.q, self.scale_back)


@wrong("attention-dk-scaled-twice", "dk has the scale twice.", ("dk",), seen=NO_SOURCE)
class DkScaledTwice(Attention):
    @stage
    def dk_of_heads(self) -> np.ndarray:
        return self.scale_back * super().dk_of_heads


@wrong(
    "attention-dscale-of-scores", "dscale is summed with the scaled scores, and scaled again.", ("dscale",),
    settings=({}, {"biased_too": True}),
)  # fmt: skip
class DscaleOfScores(Attention):
    biased_too = False

    @stage
    def dscale(self) -> np.ndarray:
        right = (self.dx * self.biased).sum() / self.scale if self.biased_too else super().dscale
        return np.asarray(self.scale_back**2 * right)


@wrong(
    "attention-dscale-of-logarithm", "dscale is summed with the scaled scores.", ("dscale",),
    settings=({}, {"biased_too": True}),
)  # fmt: skip
class DscaleOfLogarithm(Attention):
    biased_too = False

    @stage
    def dscale(self) -> np.ndarray:
        right = (self.dx * self.biased).sum() / self.scale if self.biased_too else super().dscale
        return np.asarray(self.scale_back * right)
