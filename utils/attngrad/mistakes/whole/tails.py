"""Wrong attentions: last blocks that are not full, and arrays that are not contiguous."""

import numpy as np

from attngrad.mistakes.whole.core import BLOCKS
from attngrad.mistakes.whole.forward import Weights, softmax, transposed
from attngrad.mistakes.whole.pipeline import Attention
from attngrad.mistakes.whole.record import ALL, BACKWARD, NO_SOURCE, SCORES, wrong
from attngrad.mistakes.whole.stages import stage

SIZES = tuple(setting["block"] for setting in BLOCKS)


class _Tail(Attention):
    """A mistake with a last block of keys that is not full."""

    block = 64

    def suits(self) -> bool:
        return self.tail(3) != 0

    def tail(self, axis: int) -> int:
        """Return how many queries (axis 2) or keys (axis 3) stand in a last block that is not full."""
        return self.sizes[axis] % self.block


@wrong(
    "attention-tail-queries-skipped", "A last block of queries that is not full adds nothing to sums.",
    ("dk", "dv", "dbias", "dtable"), seen=NO_SOURCE,
    settings=tuple(
        {"block": block, "of": of}
        for of in (("dk", "dv", "bias"), ("bias",), ("dk", "dv"), ("dk",), ("dv",)) for block in SIZES
    ),
)  # fmt: skip
class TailQueriesSkipped(_Tail):
    axis, of = 2, ("dk", "dv", "bias")

    def suits(self) -> bool:
        return self.tail(2) != 0

    def _cut(self, x: np.ndarray, what: str) -> np.ndarray:
        """Return x (..., N, ...) with zeros in the last block of queries, where the mistake hits it."""
        if what not in self.of:
            return x
        return np.where((np.arange(x.shape[2]) < x.shape[2] - self.tail(2))[:, None], x, 0.0)

    @stage
    def dk_of_heads(self) -> np.ndarray:
        return self.scale_back * (transposed(self._cut(self.dx, "dk")) @ self.q)

    @stage
    def dv_of_heads(self) -> np.ndarray:
        return transposed(self.weights_back.p * self.keep_dv) @ self._cut(self.do, "dv")

    @stage
    def dbias_pairs(self) -> np.ndarray:
        return self._cut(super().dbias_pairs, "bias")


@wrong(
    "attention-tail-keys-skipped", "The last block of keys, if not full, is never visited.", ALL,
    seen=NO_SOURCE, settings=BLOCKS,
)  # fmt: skip
class TailKeysSkipped(_Tail):
    @stage
    def mask(self) -> np.ndarray:
        return super().mask & (np.arange(self.sizes[3]) < self.sizes[3] - self.tail(3))


@wrong(
    "attention-tail-keys-joined", "The zeros that fill up the last block of keys take part in the softmax.",
    ALL, seen=NO_SOURCE, settings=BLOCKS,
)  # fmt: skip
class TailKeysJoined(_Tail):
    def suits(self) -> bool:
        return super().suits() and not self.case.causal

    @stage
    def weights(self) -> Weights:
        beside = float(self.block - self.tail(3))
        return softmax(self.s, self.allowed, self.sink, beside)


@wrong(
    "attention-dv-tail-in-next-head", "The last block of dv is written over the first rows of the next head.",
    ("dv",), seen="https://github.com/flagos-ai/FlagGems/pull/898; "
    "https://github.com/66RING/tiny-flash-attention/issues/12",
    settings=tuple({**block, "zeros": zeros} for zeros in (True, False) for block in BLOCKS),
)  # fmt: skip
class TailInNextHead(_Tail):
    zeros = True  # what lies beyond the last key: zeros, or what weights exp(0 - lse) give

    @stage
    def dv(self) -> np.ndarray:
        dv = super().dv.copy()
        B, H_kv, M, D_v = dv.shape
        heads, rows = dv.reshape(B * H_kv, M, D_v), min(self.block - self.tail(3), M)
        heads[1:, :rows] = 0.0 if self.zeros else self._beyond().reshape(B * H_kv, 1, D_v)[:-1]
        return heads.reshape(dv.shape)

    def _beyond(self) -> np.ndarray:
        """Return a row of dv (B, H_kv, 1, D_v) of a key of zeros."""
        lse = np.where(np.isfinite(self.weights.lse), self.weights.lse, np.inf)
        return self.reduced((np.exp(-lse)[..., None] * self.do).sum(axis=2, keepdims=True))


@wrong(
    "attention-tail-nan", "A last block that is not full leaves NaN in the gradients.", BACKWARD,
    seen="https://github.com/pytorch/pytorch/issues/153799",
    settings=tuple(
        {"block": b, "axis": axis, "of": of}
        for of in (("dk", "dv"), ("dq", "dk", "dv"), ("dq",), ("dq", "dk", "dv", "bias"))
        for axis in (3, 2) for b in (128, 64, 32, 16)
    ),
)  # fmt: skip
class TailNan(_Tail):
    axis, of, by_contrast = 3, ("dk", "dv"), True

    def suits(self) -> bool:
        return self.tail(self.axis) != 0

    def _spoilt(self, name: str, x: np.ndarray) -> np.ndarray:
        """Return NaN in place of a gradient that the mistake hits."""
        return np.full_like(x, np.nan) if name in self.of else x

    @stage
    def dq(self) -> np.ndarray:
        return self._spoilt("dq", super().dq)

    @stage
    def dk(self) -> np.ndarray:
        return self._spoilt("dk", super().dk)

    @stage
    def dv(self) -> np.ndarray:
        return self._spoilt("dv", super().dv)

    @stage
    def dbias_pairs(self) -> np.ndarray:
        return self._spoilt("bias", super().dbias_pairs)


@wrong(
    "attention-delta-contiguous", "delta reads a cotangent that is not contiguous as if it were.", SCORES,
    seen="https://github.com/pytorch/pytorch/issues/133671",
    settings=({"by_length": False}, {"by_length": True}),
)  # fmt: skip
class DeltaContiguous(Attention):
    """The doctor's transposed arrays have their last two axes exchanged in memory.

    ``by_length`` says that these axes are (H, D) of (B, N, H, D), not (N, D) of (B, H, N, D). Of other
    strides what is read is no part of the cotangent: delta is NaN, which stands for anything.
    """

    by_length, anything = False, True

    def suits(self) -> bool:
        return self.case.strides != ""

    @stage
    def delta(self) -> np.ndarray:
        B, H, N, D_v = self.do.shape
        if self.case.strides != "transposed":
            return np.full((B, H, N, 1), np.nan)
        if self.by_length:
            memory = np.ascontiguousarray(self.do.transpose(0, 2, 3, 1))
            read = np.swapaxes(memory.reshape(B, N, H, D_v), 1, 2)
        else:
            read = np.ascontiguousarray(self.do.transpose(0, 1, 3, 2)).reshape(B, H, N, D_v)
        return (read * self.o).sum(axis=-1, keepdims=True)
