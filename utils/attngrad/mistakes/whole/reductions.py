"""Wrong attentions: the sums that give the gradient of a bias or a table that pairs share."""

import numpy as np

from attngrad.mistakes.tables import vjp_fancy_index, vjp_mean_over_pairs
from attngrad.mistakes.whole.pipeline import Attention, scattered
from attngrad.mistakes.whole.record import BIAS, NO_SOURCE, wrong
from attngrad.mistakes.whole.stages import stage


class _Bias(Attention):
    """A mistake with the gradient of a bias, dense or from a table."""

    def suits(self) -> bool:
        return self.has_bias

    def shared(self, axis: int) -> bool:
        """Say whether the bias is the same along an axis of (B, H, N, M) that is longer than 1."""
        if self.case.table is not None:
            one = axis == 0 or (axis == 1 and self.has_table and self.case.table.shape[0] == 1)
        else:
            shape = self.case.bias.shape
            one = len(shape) < 4 - axis or shape[axis - 4] == 1
        return one and self.sizes[axis] > 1

    def only_last(self, axis: int) -> np.ndarray:
        """Return the cotangent of pairs with zeros for all but the last index of an axis."""
        last = np.zeros(self.sizes[axis])
        last[-1] = 1.0
        return Attention.dbias_pairs.__get__(self) * np.expand_dims(last, [a for a in range(4) if a != axis])


@wrong("bias-vjp-broadcast-last-head", "A bias that heads share gets the gradient of the last one.", BIAS)
class LastHead(_Bias):
    def suits(self) -> bool:
        return self.has_bias and self.shared(1)

    @stage
    def dbias_pairs(self) -> np.ndarray:
        return self.only_last(1)


@wrong(
    "bias-vjp-broadcast-last-batch", "A bias that the batch shares gets the gradient of its last member.",
    ("dbias",), seen="https://github.com/HKUSTDial/flash-sparse-attention/pull/190",
)  # fmt: skip
class LastBatch(_Bias):
    def suits(self) -> bool:
        return self.case.bias is not None and self.shared(0)

    @stage
    def dbias_pairs(self) -> np.ndarray:
        return self.only_last(0)


@wrong("table-vjp-last-batch", "A table gets the gradient of the last of the batch.", ("dtable",), NO_SOURCE)
class TableLastBatch(_Bias):
    def suits(self) -> bool:
        return self.case.table is not None and self.shared(0)

    @stage
    def dbias_pairs(self) -> np.ndarray:
        return self.only_last(0)


@wrong(
    "bias-vjp-broadcast-mean", "A shared bias gets the mean over what shares it in place of the sum.", BIAS,
    seen=NO_SOURCE, settings=({"axes": (0, 1, 2, 3)}, {"axes": (0,)}, {"axes": (1,)}, {"axes": (2,)}),
)  # fmt: skip
class BroadcastMean(_Bias):
    axes = (0, 1, 2, 3)

    def suits(self) -> bool:
        return self.has_bias and any(self.shared(axis) for axis in self.axes)

    @stage
    def dbias_pairs(self) -> np.ndarray:
        shared = [self.sizes[axis] for axis in self.axes if self.shared(axis)]
        return super().dbias_pairs / np.prod(shared)


@wrong("bias-vjp-zero-for-a-batch", "A bias with a batch of more than one gets zeros.", ("dbias",))
class ZeroForBatch(_Bias):
    def suits(self) -> bool:
        return self.case.bias is not None and self.case.bias.ndim == 4 and self.case.bias.shape[0] > 1

    @stage
    def dbias(self) -> np.ndarray:
        return np.zeros(self.case.bias.shape)


@wrong(
    "bias-vjp-zero", "The bias gets zeros.", BIAS,
    seen="https://github.com/jax-ml/jax/issues/27184, there with a batch of more than one",
)  # fmt: skip
class BiasZero(_Bias):
    def suits(self) -> bool:
        return self.has_bias and not self.slopes

    @stage
    def dbias_pairs(self) -> np.ndarray:
        return np.zeros(self.sizes)


@wrong("bias-vjp-transposed", "Queries and keys change places in dbias.", ("dbias",), seen=NO_SOURCE)
class BiasTransposed(_Bias):
    def suits(self) -> bool:
        return self.case.bias is not None and self.sizes[2] == self.sizes[3]

    @stage
    def dbias_pairs(self) -> np.ndarray:
        return np.swapaxes(super().dbias_pairs, -1, -2)


class _Table(Attention):
    """A mistake with the gradient of a table with rows."""

    def suits(self) -> bool:
        return self.has_table

    @property
    def R(self) -> int:
        """Return the rows of the table."""
        return self.case.table.shape[-1]


@wrong("table-vjp-fancy-index", "Of the pairs that share a row, the last one alone is added.", ("dtable",))
class FancyIndex(_Table):
    @stage
    def dtable(self) -> np.ndarray:
        return self.of_table(vjp_fancy_index(self.row_back, self.dbias_pairs, self.R))


@wrong("table-vjp-mean-over-pairs", "A row gets the mean over its pairs in place of the sum.", ("dtable",))
class MeanOverPairs(_Table):
    @stage
    def dtable(self) -> np.ndarray:
        return self.of_table(vjp_mean_over_pairs(self.row_back, self.dbias_pairs, self.R))


@wrong("table-vjp-transposed", "A pair is added to the row of the pair (j, i).", ("dtable",))
class TableTransposed(_Table):
    def suits(self) -> bool:
        return self.has_table and self.sizes[2] == self.sizes[3]

    @stage
    def row_back(self) -> np.ndarray:
        return self.row.T


@wrong("table-vjp-first-row-lost", "Row 0 gets no gradient, as if it were padding.", ("dtable",), NO_SOURCE)
class FirstRowLost(_Table):
    @stage
    def dtable(self) -> np.ndarray:
        pairs = self.dbias_pairs.sum(axis=0)
        dtable = scattered(self.row_back, pairs, self.R)
        dtable[:, 0] = 0.0
        return self.of_table(dtable)
