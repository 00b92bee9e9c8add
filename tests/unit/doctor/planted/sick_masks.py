"""Sick subjects that hide the wrong keys, or treat hidden ones wrongly."""

import torch

from attngrad.doctor.spec import Spec

from .dense import Dense
from .loops import Loops
from .record import plant
from .tiled import Tiled
from .traced import Traced

CAUSAL = Spec(causal="both", options=("cross",))
MASKED = Spec(options=("cross", "mask"))


@plant("attention-mask-ignored", spec=MASKED)
class MaskForgotten(Traced):
    """A mask that is an argument and nothing else."""

    def mask(self, case, s):
        """Hide nothing."""
        return s


@plant("attention-mask-inverted", spec=MASKED)
class MaskOfPadding(Dense):
    """A mask that is read as that of padding, True where a key is hidden."""

    def allowed(self, case):
        """Turn the mask over."""
        return torch.ones(case.N, case.M, dtype=torch.bool) if case.mask is None else ~case.mask


@plant("attention-causal-top-left", spec=CAUSAL)
class TrilOfZero(Traced):
    """A lower triangle that begins at the first key, whatever stands in the cache."""

    def visible(self, case):
        """Return the lower triangle."""
        return torch.ones(case.N, case.M, dtype=torch.bool).tril()


@plant("attention-causal-bottom-right", spec=Spec(causal="both", alignment="top-left", options=("cross",)))
class TrilOfTheLast(Tiled):
    """A lower triangle that ends at the last key, where the first ones should be aligned."""

    def start(self, case):
        """Return the position that aligns the last query with the last key."""
        return case.M - case.N


@plant("attention-causal-ignored", spec=CAUSAL)
class Acausal(Tiled):
    """A flag that no tile reads."""

    def visible(self, case, i, j):
        """Return True for every pair that exists."""
        rows, columns = i + torch.arange(self.ROWS)[:, None], j + torch.arange(self.COLUMNS)
        return (rows < case.N) & (columns < case.M)


@plant(
    "attention-causal-off-by-one",
    spec=Spec(framework="numpy", causal="both", options=("cross", "empty-rows")),
)
class OwnKeyHidden(Loops):
    """A query that may not attend to its own key."""

    def causal(self, case):
        """Return True for the keys before the query."""
        return self.offsets(case) < 0


class TwoFlags(Tiled):
    """Tiles that form the weights again with a flag of the backward pass."""

    BACKWARD = False

    def weights(self, case, q, k, lse, i, j):
        """Return the weights of a tile by that flag."""
        flag, case.causal = case.causal, self.BACKWARD
        p = super().weights(case, q, k, lse, i, j)
        case.causal = flag
        return p


@plant("attention-backward-not-causal", spec=CAUSAL)
class CausalForwardOnly(TwoFlags):
    """A backward pass that was written for an encoder."""


@plant("attention-backward-causal", spec=CAUSAL, seen="https://github.com/triton-lang/triton/issues/5660")
class CausalBackwardAlways(TwoFlags):
    """A backward pass that was written for a decoder."""

    BACKWARD = True


@plant(
    "softmax-mask-large-negative",
    spec=Spec(options=("cross", "mask", "empty-rows")),
    seen="https://github.com/ohdearquant/lattice/pull/374",
)
class Sentinel(Traced):
    """A large negative number in the place of scores: a row without a key gets the mean of all values."""

    def mask(self, case, s):
        """Put the lowest float in the place of what is hidden."""
        return s if case.mask is None else s.masked_fill(~case.mask, torch.finfo(s.dtype).min)


@plant(
    "attention-empty-row-nan",
    spec=Spec(options=("cross", "mask", "empty-rows")),
    seen="https://github.com/pytorch/pytorch/issues/41508",
)
class ZeroOverZero(Traced):
    """Softmax of a row of -inf alone."""


@plant(
    "bias-read-in-another-dtype",
    spec=Spec(dtypes=("float16",), bias=("1hnm",), bias_dtype="float32", options=("cross",)),
    seen="https://github.com/pytorch/pytorch/pull/191612",
)
class ReadAsHalf(Dense):
    """A mask of float32 whose bytes are read as float16, entry by entry."""

    def bias(self, case):
        """Return the first half of the bytes, taken for float16."""
        flat = case.bias.contiguous().view(torch.float16).flatten()
        return flat[: case.bias.numel()].reshape(case.bias.shape).float()


@plant("softmax-masked-vjp-unmasked-mean", spec=MASKED)
class MeanOverHidden(Dense):
    """Weights of an unmasked softmax in the mean of a row."""

    def delta(self, case, c):
        """Form the weights again, without the mask."""
        s = self.add_bias(case, c, self.product(case, c))
        return (torch.softmax(s, dim=-1) * c.dp).sum(dim=-1, keepdim=True)


@plant(
    "lse-absorbs-lowest",
    spec=Spec(bias=("1hnm",), options=("cross", "lowest", "lse")),
    cases=("basic", "lowest", "lowest-row"),
)
class WeightsFromLse(Dense):
    """Weights that the backward pass forms again from lse, which the lowest numbers leave as they are."""

    def delta(self, case, c):
        """Form them, and return do.o, as a kernel does."""
        delta = (c.do * (c.p @ c.v)).sum(dim=-1, keepdim=True)
        c.p = torch.exp(c.s - torch.logsumexp(c.s, dim=-1, keepdim=True))
        c.dv = c.p.mT @ c.do
        return delta
