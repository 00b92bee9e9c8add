"""Wrong attentions: lse, sink, soft-cap, dropout."""

import numpy as np

from attngrad.mistakes.whole.forward import Weights, softmax
from attngrad.mistakes.whole.masks import OtherDelta
from attngrad.mistakes.whole.pipeline import Attention
from attngrad.mistakes.whole.record import ALL, BACKWARD, NO_SOURCE, SCORES, wrong
from attngrad.mistakes.whole.stages import stage

ABSORBS = 1e30  # an lse beyond it is no longer moved by a logarithm


@wrong("lse-base-two", "lse is a logarithm to base two.", ("lse",), seen=NO_SOURCE)
class LseBaseTwo(Attention):
    @stage
    def lse(self) -> np.ndarray:
        return super().lse / np.log(2.0)


class _Lse(Attention):
    """A mistake with the cotangent of lse."""

    def suits(self) -> bool:
        return self.case.dlse is not None


@wrong("lse-cotangent-dropped", "The cotangent of lse is not added.", SCORES)
class LseDropped(_Lse):
    @stage
    def dlse(self) -> np.ndarray:
        return np.zeros(self.sizes[:3])


@wrong("lse-cotangent-sign", "The cotangent of lse is subtracted.", SCORES, seen=NO_SOURCE)
class LseSign(_Lse):
    @stage
    def dlse(self) -> np.ndarray:
        return -self.case.dlse


@wrong(
    "lse-absorbs-lowest",
    "Weights are exp(s - lse), but lse of a row of lowest numbers absorbs log M: each weight is 1, not 1/M.",
    ALL, seen=NO_SOURCE, settings=({}, {"of_output": False}, {"forward": True}),
)  # fmt: skip
class LseAbsorbsLowest(OtherDelta):
    """Such a row is to be taken as empty, or from its maximum. ``forward``: o has those weights too."""

    forward = False

    def suits(self) -> bool:
        with np.errstate(all="ignore"):
            return bool((np.isfinite(self.lse) & (np.abs(self.lse) > ABSORBS)).any())

    @stage
    def weights(self) -> Weights:
        return self._from_lse(super().weights) if self.forward else super().weights

    @stage
    def weights_back(self) -> Weights:
        return self.weights if self.forward else self._from_lse(self.weights)

    def _from_lse(self, right: Weights) -> Weights:
        """Return weights whose absorbing rows are ones where a key takes part with the largest score."""
        absorbing = np.isfinite(right.lse) & (np.abs(right.lse) > ABSORBS)
        ones = np.where(self.allowed, self.s >= right.lse[..., None], 0.0)
        return right._replace(p=np.where(absorbing[..., None], ones, right.p))


class _Sink(Attention):
    """A mistake with the sink."""

    def suits(self) -> bool:
        return self.case.sink is not None


@wrong("lse-without-sink", "lse leaves the sink out.", ("lse",), seen=NO_SOURCE)
class LseWithoutSink(_Sink):
    @stage
    def lse(self) -> np.ndarray:
        return softmax(self.s, self.allowed, None).lse


@wrong("sink-ignored", "The sink takes no weight.", ALL, seen=NO_SOURCE)
class SinkIgnored(_Sink):
    @stage
    def sink(self) -> None:
        return None


@wrong(
    "sink-left-out-of-denominator-in-backward", "The backward pass forms the weights without the sink.",
    BACKWARD, settings=({"of_output": False}, {"of_output": True}),
)  # fmt: skip
class SinkLeftOut(OtherDelta, _Sink):
    @stage
    def weights_back(self) -> Weights:
        return self.weights._replace(p=softmax(self.s, self.allowed, None).p)


@wrong("sink-vjp-zero", "The sink gets no gradient.", ("dsink",), seen=NO_SOURCE)
class SinkVjpZero(_Sink):
    @stage
    def dsink(self) -> np.ndarray:
        return np.zeros(self.sizes[1])


@wrong("sink-vjp-sign", "The gradient of the sink has the other sign.", ("dsink",), seen=NO_SOURCE)
class SinkVjpSign(_Sink):
    @stage
    def dsink(self) -> np.ndarray:
        return -super().dsink


class _Cap(Attention):
    """A mistake with the soft-cap."""

    def suits(self) -> bool:
        return self.case.softcap is not None


@wrong("softcap-ignored", "The scores are not capped.", ALL, seen=NO_SOURCE)
class CapIgnored(_Cap):
    @stage
    def cap_product(self) -> None:
        return None

    @stage
    def cap_scores(self) -> None:
        return None


@wrong("softcap-vjp-factor-dropped", "The cotangent passes the cap as if it had derivative 1.", SCORES)
class CapFactorDropped(_Cap):
    @stage
    def db(self) -> np.ndarray:
        return self.ds

    @stage
    def dx(self) -> np.ndarray:
        return self.db


class _CapElsewhere(_Cap):
    """The cap acts at the other place."""

    asked = ""

    def suits(self) -> bool:
        return super().suits() and self.has_bias and self.case.softcap_on == self.asked

    @stage
    def cap_product(self) -> float | None:
        return self.case.softcap if self.asked == "scores" else None

    @stage
    def cap_scores(self) -> float | None:
        return self.case.softcap if self.asked == "product" else None


@wrong("softcap-before-bias", "The products are capped, and not the scores with their bias.", ALL, NO_SOURCE)
class CapBeforeBias(_CapElsewhere):
    asked = "scores"


@wrong("softcap-after-bias", "The scores with their bias are capped, and not the products.", ALL, NO_SOURCE)
class CapAfterBias(_CapElsewhere):
    asked = "product"


class _Dropout(Attention):
    """A mistake with dropout."""

    def suits(self) -> bool:
        return self.case.keep is not None


@wrong("dropout-ignored", "No weight is dropped.", ALL, seen=NO_SOURCE)
class DropoutIgnored(_Dropout):
    @stage
    def keep(self) -> float:
        return 1.0


@wrong("dropout-unscaled", "The weights that are kept are not divided by 1 - dropout.", ALL, seen=NO_SOURCE)
class DropoutUnscaled(_Dropout):
    @stage
    def keep(self) -> np.ndarray:
        return self.case.keep.astype(np.float64)


@wrong(
    "dropout-vjp-mask-dropped", "The cotangent of the weights lacks the factors of dropout.", SCORES,
    settings=({"of_output": False}, {"of_output": True}),
)  # fmt: skip
class DropoutMaskDropped(OtherDelta, _Dropout):
    @stage
    def keep_dp(self) -> float:
        return 1.0


@wrong("dropout-dv-undropped", "dv is formed with the weights before dropout.", ("dv",), seen=NO_SOURCE)
class DropoutDvUndropped(_Dropout):
    @stage
    def keep_dv(self) -> float:
        return 1.0
