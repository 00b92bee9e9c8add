"""Wrong attentions: softmax, its derivative, delta."""

import numpy as np

from attngrad.mistakes.softmax import (
    vjp_diagonal_only,
    vjp_elementwise,
    vjp_flattened_batch,
    vjp_sign_flipped,
)
from attngrad.mistakes.whole.forward import Weights, softmax
from attngrad.mistakes.whole.pipeline import Attention, transposed
from attngrad.mistakes.whole.record import ALL, NO_SOURCE, SCORES, wrong
from attngrad.mistakes.whole.stages import stage

BLOCKS = tuple({"block": block} for block in (64, 16, 32, 128))


@wrong("softmax-vjp-diagonal-only", "The diagonal of the Jacobian of softmax stands for all of it.", SCORES)
class DiagonalOnly(Attention):
    @stage
    def core(self) -> np.ndarray:
        return vjp_diagonal_only(self.weights_back.p, self.dp)


@wrong("softmax-vjp-elementwise", "dp is multiplied by the weights, and its mean is forgotten.", SCORES)
class Elementwise(Attention):
    @stage
    def core(self) -> np.ndarray:
        return vjp_elementwise(self.weights_back.p, self.dp)


@wrong(
    "softmax-vjp-flattened-batch", "One mean is taken over all rows, as if they were one softmax.", SCORES,
    settings=({}, {"by_head": True}),
)  # fmt: skip
class FlattenedBatch(Attention):
    by_head = False

    @stage
    def core(self) -> np.ndarray:
        p, dp = self.weights_back.p, self.dp
        if self.by_head:
            return p * (dp - (p * dp).sum(axis=(-2, -1), keepdims=True))
        return vjp_flattened_batch(p, dp)


@wrong("softmax-vjp-sign-flipped", "The cotangent is subtracted from the mean of the row.", SCORES)
class SignFlipped(Attention):
    @stage
    def core(self) -> np.ndarray:
        return vjp_sign_flipped(self.weights_back.p, self.dp)


class _Unmasked(Attention):
    """The right attention without any mask."""

    @stage
    def mask(self) -> np.ndarray:
        return np.ones(self.sizes, dtype=bool)


@wrong("softmax-masked-vjp-unmasked-mean", "The mean of a row is taken by the weights of all keys.", SCORES)
class UnmaskedMean(Attention):
    def suits(self) -> bool:
        return not self.mask.all()

    @stage
    def delta(self) -> np.ndarray:
        full = _Unmasked(self.case)
        p = softmax(full.s, full.allowed, self.sink).p
        return (p * self.dp).sum(axis=-1, keepdims=True)


@wrong("attention-do-as-dp", "The cotangent of the output is taken for that of the weights.", SCORES)
class DoAsDp(Attention):
    def suits(self) -> bool:
        return self.case.v.shape[-1] == self.case.k.shape[2]

    @stage
    def dp(self) -> np.ndarray:
        return self.do * self.keep_dp


@wrong("attention-delta-unweighted", "The sum of dp is subtracted in place of its mean by weights.", SCORES)
class DeltaUnweighted(Attention):
    @stage
    def delta(self) -> np.ndarray:
        return np.where(self.allowed, self.dp, 0.0).sum(axis=-1, keepdims=True)


@wrong(
    "attention-delta-plain-mean", "The plain mean of dp is subtracted in place of that by weights.", SCORES,
    seen=NO_SOURCE,
)  # fmt: skip
class DeltaPlainMean(Attention):
    @stage
    def delta(self) -> np.ndarray:
        return self.dp.mean(axis=-1, keepdims=True)


@wrong("attention-delta-zero", "delta is never computed: it is zero.", SCORES, seen=NO_SOURCE)
class DeltaZero(Attention):
    @stage
    def delta(self) -> np.ndarray:
        return np.zeros((*self.sizes[:3], 1))


@wrong(
    "attention-delta-of-block", "The mean of dp is taken over each block of keys on its own.", SCORES,
    settings=BLOCKS,
)  # fmt: skip
class DeltaOfBlock(Attention):
    block = 64

    def suits(self) -> bool:
        return self.sizes[3] > self.block

    @stage
    def delta(self) -> np.ndarray:
        place = np.arange(self.sizes[3]) // self.block
        return (self.weights_back.p * self.dp) @ (place[:, None] == place).astype(np.float64)

    @stage
    def mean_for_sink(self) -> np.ndarray:
        return (self.weights_back.p * self.dp).sum(axis=-1)


@wrong(
    "attention-softmax-over-queries", "The weights of a key sum to one, not those of a query.", ALL,
    seen=NO_SOURCE,
)  # fmt: skip
class SoftmaxOverQueries(Attention):
    def suits(self) -> bool:
        return self.sink is None

    @stage
    def weights(self) -> Weights:
        p = softmax(transposed(self.s), transposed(self.allowed), None).p
        return super().weights._replace(p=transposed(p))

    @stage
    def delta(self) -> np.ndarray:
        return (self.weights_back.p * self.dp).sum(axis=-2, keepdims=True)
