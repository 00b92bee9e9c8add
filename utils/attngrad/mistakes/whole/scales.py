"""Wrong attentions: the scale, and where the bias stands to it."""

import numpy as np

from attngrad.mistakes.bias import inside_vjp_entrywise, inside_vjp_literal
from attngrad.mistakes.whole.pipeline import Attention
from attngrad.mistakes.whole.record import ALL, BIAS, NO_SOURCE, wrong
from attngrad.mistakes.whole.stages import stage

BY_HAND = ({}, {"by_hand": True})  # the backward pass derived from the wrong forward pass, or written apart


class _OtherScale(Attention):
    """Another factor of the products, whose derivative by the scale is ``chain``."""

    by_hand = False

    def chain(self) -> float:
        """Return the derivative of the wrong factor by the scale."""
        return 0.0

    @stage
    def scale_chain(self) -> float:
        return 1.0 if self.by_hand else self.chain()


@wrong(
    "attention-scale-inverted", "The scores are divided by the scale.", ALL,
    seen="https://github.com/esceptico/perceiver-io/issues/9", settings=BY_HAND,
)  # fmt: skip
class ScaleInverted(_OtherScale):
    @stage
    def scale(self) -> float:
        return 1.0 / super().scale

    def chain(self) -> float:
        return -1.0 / self.case.scale**2


@wrong(
    "attention-scale-by-d", "The products are divided by D in place of its root.", ALL,
    seen="https://github.com/duoan/TorchCode/issues/17", settings=BY_HAND,
)  # fmt: skip
class ScaleByD(_OtherScale):
    @stage
    def scale(self) -> float:
        return 1.0 / self.case.q.shape[-1]


@wrong("attention-scale-missing", "The products are not scaled.", ALL, seen=NO_SOURCE, settings=BY_HAND)
class ScaleMissing(_OtherScale):
    @stage
    def scale(self) -> float:
        return 1.0


@wrong(
    "attention-scale-ignored", "The scale is 1/sqrt(D) whatever the argument says.", ALL,
    seen=NO_SOURCE, settings=BY_HAND,
)  # fmt: skip
class ScaleIgnored(_OtherScale):
    @stage
    def scale(self) -> float:
        return float(1.0 / np.sqrt(self.case.q.shape[-1]))


@wrong(
    "attention-scale-twice", "The queries are scaled, and their products once more.", ALL,
    seen=NO_SOURCE, settings=BY_HAND,
)  # fmt: skip
class ScaleTwice(_OtherScale):
    @stage
    def scale(self) -> float:
        return super().scale ** 2

    def chain(self) -> float:
        return 2.0 * self.case.scale


@wrong(
    "attention-scale-after-softmax", "The scale multiplies the weights in place of the products.", ALL,
    seen="https://github.com/FrancescoSaverioZuppichini/ViT/issues/2",
)  # fmt: skip
class ScaleAfterSoftmax(Attention):
    @stage
    def scale(self) -> float:
        return 1.0

    @stage
    def keep(self) -> np.ndarray | float:
        return super().keep * self.case.scale

    @stage
    def dscale(self) -> np.ndarray:
        return np.asarray((self.do * self.o).sum() / self.case.scale)


class _OtherFactor(Attention):
    """Another factor of the bias; ``by_hand`` keeps the right one in its gradient."""

    by_hand = False

    def suits(self) -> bool:
        return self.has_bias

    @stage
    def bias_factor_back(self) -> float:
        right = self.case.scale if self.case.bias_inside_scale else 1.0
        return right if self.by_hand else self.bias_factor


@wrong(
    "bias-inside-scale-instead", "The bias is added before the scale is multiplied.", ALL, settings=BY_HAND
)
class BiasInside(_OtherFactor):
    def suits(self) -> bool:
        return self.has_bias and not self.case.bias_inside_scale

    @stage
    def inside(self) -> bool:
        return True


@wrong(
    "bias-outside-scale-instead", "A bias that belongs inside the scale is added outside of it.", ALL,
    seen="https://blog.csdn.net/pzccool/article/details/147657740: the code against the formula",
    settings=BY_HAND,
)  # fmt: skip
class BiasOutside(_OtherFactor):
    def suits(self) -> bool:
        return self.has_bias and self.case.bias_inside_scale

    @stage
    def inside(self) -> bool:
        return False


@wrong(
    "bias-exp2-unscaled", "Powers of two, with log2(e) on the products and not on the bias.", ALL,
    settings=BY_HAND,
)  # fmt: skip
class BiasExp2(_OtherFactor):
    @stage
    def bias_factor(self) -> float:
        return float(np.log(2.0) * super().bias_factor)


@wrong("bias-sign-flipped", "The bias is subtracted.", ALL, seen=NO_SOURCE, settings=BY_HAND)
class BiasSignFlipped(_OtherFactor):
    @stage
    def bias_factor(self) -> float:
        return -super().bias_factor


@wrong(
    "bias-ignored", "The bias is never added.", ALL,
    seen="https://github.com/huggingface/transformers/issues/14621", settings=BY_HAND,
)  # fmt: skip
class BiasIgnored(Attention):
    by_hand = False

    def suits(self) -> bool:
        return self.has_bias

    @stage
    def bias(self) -> None:
        return None

    @stage
    def dbias_pairs(self) -> np.ndarray:
        return super().dbias_pairs if self.by_hand else np.zeros(self.sizes)


@wrong("bias-vjp-scaled-outside", "A bias outside the scale gets the factor of dq and dk.", BIAS)
class BiasVjpScaled(Attention):
    def suits(self) -> bool:
        return self.has_bias and not self.case.bias_inside_scale

    @stage
    def bias_factor_back(self) -> float:
        return self.scale_back * self.bias_factor


class _InsideVjp(Attention):
    """A wrong gradient of a bias inside the scale."""

    def suits(self) -> bool:
        return self.has_bias and self.case.bias_inside_scale


@wrong("bias-inside-vjp-factor-dropped", "A bias inside the scale gets its gradient without the scale.", BIAS)
class InsideFactorDropped(_InsideVjp):
    @stage
    def bias_factor_back(self) -> float:
        return 1.0


@wrong("bias-inside-vjp-entrywise", "The bias gets the diagonal of the Jacobian alone, unscaled.", BIAS)
class InsideEntrywise(_InsideVjp):
    @stage
    def dbias_pairs(self) -> np.ndarray:
        return inside_vjp_entrywise(self.weights_back.p, self.dp, self.scale)


@wrong("bias-inside-vjp-literal", "Every entry of the bias gets the sum of all of a head.", BIAS)
class InsideLiteral(_InsideVjp):
    @stage
    def dbias_pairs(self) -> np.ndarray:
        return inside_vjp_literal(self.weights_back.p, self.dp, self.scale)


@wrong("bias-vjp-sign-flipped", "The gradient of the bias has the other sign.", BIAS, seen=NO_SOURCE)
class BiasVjpSign(Attention):
    def suits(self) -> bool:
        return self.has_bias and not self.slopes

    @stage
    def dbias_pairs(self) -> np.ndarray:
        return -super().dbias_pairs
