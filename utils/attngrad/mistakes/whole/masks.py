"""Wrong attentions: masks, causal masking, rows without a key."""

import numpy as np

from attngrad.mistakes.whole.forward import Weights, softmax
from attngrad.mistakes.whole.pipeline import Attention
from attngrad.mistakes.whole.record import ALL, BACKWARD, NO_SOURCE, wrong
from attngrad.mistakes.whole.stages import stage
from attngrad.offsets import causal_mask

TUTORIAL = "https://github.com/triton-lang/triton/issues/5660; https://github.com/triton-lang/triton/issues/7216"


class _WithMask(Attention):
    """A mistake with the mask that is given."""

    def suits(self) -> bool:
        return self.case.mask is not None


@wrong("attention-mask-ignored", "The mask is never applied.", ALL, seen=NO_SOURCE)
class MaskIgnored(_WithMask):
    @stage
    def mask_given(self) -> None:
        return None


@wrong("attention-mask-inverted", "The mask hides what it allows and allows the rest.", ALL, seen=NO_SOURCE)
class MaskInverted(_WithMask):
    @stage
    def mask_given(self) -> np.ndarray:
        return ~self.case.mask


@wrong("attention-packed-ignored", "Packed sequences attend to each other.", ALL, seen=NO_SOURCE)
class PackedIgnored(Attention):
    def suits(self) -> bool:
        return bool(self.case.lengths)

    @stage
    def mask_packed(self) -> None:
        return None


class _Causal(Attention):
    """A mistake with causal masking."""

    def suits(self) -> bool:
        return self.case.causal


@wrong(
    "attention-causal-top-left", "Causal masking counts the queries from the first key.", ALL,
    seen="https://github.com/Dao-AILab/flash-attention, README: the alignment before version 2.1",
)  # fmt: skip
class CausalTopLeft(_Causal):
    @stage
    def mask_causal(self) -> np.ndarray:
        return causal_mask(*self.sizes[2:], 0)


@wrong("attention-causal-bottom-right", "Causal masking puts the last query at the last key.", ALL, NO_SOURCE)
class CausalBottomRight(_Causal):
    @stage
    def mask_causal(self) -> np.ndarray:
        return causal_mask(*self.sizes[2:])


@wrong("attention-causal-ignored", "Queries attend to later keys.", ALL, seen=NO_SOURCE)
class CausalIgnored(_Causal):
    @stage
    def mask_causal(self) -> None:
        return None


@wrong(
    "attention-causal-off-by-one", "Causal masking hides the key of the query itself, or shows the next one.",
    ALL, seen=NO_SOURCE, settings=({"beyond": -1}, {"beyond": 1}),
)  # fmt: skip
class CausalOffByOne(_Causal):
    beyond = -1

    @stage
    def mask_causal(self) -> np.ndarray:
        return causal_mask(*self.sizes[2:], self.start + self.beyond)


class OtherDelta(Attention):
    """A backward pass with other weights; delta is do.o, or their own mean."""

    of_output = True

    @stage
    def delta(self) -> np.ndarray:
        return self.delta_of_output if self.of_output else super().delta


@wrong(
    "attention-backward-not-causal", "The backward pass forms the weights again without causal masking.",
    BACKWARD, seen=TUTORIAL, settings=({}, {"of_output": False, "normalised": True}),
)  # fmt: skip
class BackwardNotCausal(OtherDelta):
    normalised = False

    def suits(self) -> bool:
        return self.case.causal

    @stage
    def weights_back(self) -> Weights:
        full, lse = CausalIgnored(self.case), self.weights.lse
        if self.normalised:
            return softmax(full.s, full.allowed, self.sink)
        p = np.exp(full.s - np.where(np.isfinite(lse), lse, np.inf)[..., None])
        return self.weights._replace(p=np.where(full.allowed, p, 0.0))


@wrong(
    "attention-backward-causal", "The backward pass masks causally what the forward pass did not.",
    BACKWARD, seen=TUTORIAL, settings=({}, {"of_output": False}),
)  # fmt: skip
class BackwardCausal(OtherDelta):
    def suits(self) -> bool:
        return not self.case.causal

    @stage
    def weights_back(self) -> Weights:
        return self.weights._replace(p=self.weights.p * causal_mask(*self.sizes[2:], self.start))


@wrong(
    "softmax-mask-large-negative",
    "A large negative number hides keys, so that a row without a key takes the mean of the values.", ALL,
    settings=(
        {"hidden": -1e9}, {"hidden": -1e9, "added": True}, {"hidden": -1e4}, {"hidden": -1e4, "added": True},
        {"hidden": float(np.finfo(np.float32).min)},
        {"hidden": float(np.finfo(np.float32).min), "added": True},
        {"hidden": float(np.finfo(np.float16).min)}, {"hidden": -5e4}, {"hidden": -1e30}, {"hidden": -1e6},
    ),
)  # fmt: skip
class LargeNegative(Attention):
    hidden, added = -1e9, False

    def suits(self) -> bool:
        return not self.mask.all()

    @stage
    def weights(self) -> Weights:
        shown = self.mask if self.bias is None else ~np.isneginf(self.bias) & np.ones(self.sizes, dtype=bool)
        if not self.added:
            return softmax(np.where(self.mask, self.s, self.hidden), shown | ~self.mask, self.sink)
        dtype = np.float64 if self.case.dtype == "float64" else np.float32
        with np.errstate(over="ignore"):
            moved = self.s.astype(dtype) + dtype(self.hidden)
        shown = np.ones(self.sizes, dtype=bool) if self.bias is None else shown
        return softmax(np.where(self.mask, self.s, np.maximum(moved, -1e300)), shown, self.sink)

    @stage
    def ds(self) -> np.ndarray:
        return super().ds if self.added else np.where(self.mask, super().ds, 0.0)


@wrong(
    "attention-empty-row-nan", "A row without a key is zero over zero.", ALL,
    seen="https://github.com/pytorch/pytorch/issues/41508",
    settings=({}, {"zeroed": True}, {"lse_too": True}, {"zeroed": True, "lse_too": True}),
)  # fmt: skip
class EmptyRowNan(Attention):
    zeroed, lse_too = False, False  # a masked_fill behind it zeroes ds; lse is NaN as well

    def suits(self) -> bool:
        return not self.allowed.any(axis=-1).all() and self.sink is None

    @stage
    def weights(self) -> Weights:
        empty = ~self.allowed.any(axis=-1)
        p, p_sink, lse = super().weights
        lse = np.where(empty, np.nan, lse) if self.lse_too else lse
        return Weights(np.where(empty[..., None], np.nan, p), p_sink, lse)

    @stage
    def ds(self) -> np.ndarray:
        return np.where(self.allowed, super().ds, 0.0) if self.zeroed else super().ds


@wrong(
    "bias-read-in-another-dtype", "The bytes of a bias in float32 are read as numbers of the type of q.", ALL,
    seen="https://github.com/pytorch/pytorch/pull/191612",
)  # fmt: skip
class BiasReadInAnotherDtype(Attention):
    def suits(self) -> bool:
        half = self.case.dtype in ("float16", "bfloat16")
        return self.has_bias and half and self.case.bias_dtype == "float32"

    @stage
    def bias(self) -> np.ndarray:
        dense = super().bias
        with np.errstate(over="ignore", invalid="ignore"):
            words = np.ascontiguousarray(dense, dtype=np.float32).ravel().view(np.uint16)[: dense.size]
            if self.case.dtype == "float16":
                read = words.view(np.float16).astype(np.float64)
            else:
                read = (words.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        return read.reshape(dense.shape)
