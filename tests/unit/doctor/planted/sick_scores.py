"""Sick subjects whose scores are wrong: the scale, the bias, the cap and the sink."""

import math

import torch

from attngrad.doctor.spec import Spec, alibi, clip, t5

from .loops import Loops
from .record import plant, plant_function
from .tiled import Tiled
from .traced import Traced

POST = "the first post, sections 3.2 and 5"
PLAIN = Spec()
BIASED = Spec(bias=("1hnm",))


@plant("attention-scale-inverted", spec=PLAIN, seen="https://github.com/esceptico/perceiver-io/issues/9")
class DividedByTheScale(Traced):
    """A scale that is kept as a power -1/2, and divided by."""

    def product(self, case, c):
        """Divide where the scale multiplies."""
        return (c.q @ c.k.mT) / c.scale


@plant(
    "attention-scale-after-softmax",
    spec=Spec(scale="default"),
    seen="https://github.com/FrancescoSaverioZuppichini/ViT/issues/2",
)
class ScaledWeights(Traced):
    """Softmax first, the scale behind it."""

    def product(self, case, c):
        """Leave the scale out."""
        return c.q @ c.k.mT

    def output(self, case, c, p):
        """Scale the weights."""
        return c.scale * p @ c.v


def divided_by_width(q, k, v):
    """Return attention with scores divided by the number of features."""
    return torch.softmax(q @ k.mT / q.shape[-1], dim=-1) @ v


plant_function(
    divided_by_width,
    "attention-scale-by-d",
    spec=Spec(scale="default"),
    seen="https://github.com/duoan/TorchCode/issues/17",
)


@plant("attention-scale-missing", spec=Spec(causal="both"))
class UnscaledTiles(Tiled):
    """Tiles whose product is not scaled; the gradients are, since they were copied."""

    def product(self, case, q, k, i, j):
        """Leave the scale out."""
        return super().product(case, q, k, i, j) / case.scale

    def add_tile(self, case, got, read, p, ds, i, j):
        """Leave the scale out of dq and dk too."""
        q, k, do = read
        super().add_tile(case, got, (q / case.scale, k / case.scale, do), p, ds, i, j)


def own_scale(q, k, v, *, scale):
    """Return attention by the usual scale, whatever ``scale`` says."""
    return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), dim=-1) @ v


plant_function(own_scale, "attention-scale-ignored", spec=PLAIN)


@plant("attention-scale-twice", spec=PLAIN)
class ScaledQueriesAndScores(Traced):
    """Queries that come scaled, before scores that are."""

    def product(self, case, c):
        """Scale the queries, and the product again."""
        return c.scale * ((c.scale * c.q) @ c.k.mT)


@plant(
    "bias-inside-scale-instead",
    spec=BIASED,
    seen="https://github.com/tenstorrent/tt-metal/issues/55337",
)
class ScaleInTheExponent(Traced):
    """The scale folded into the exponent, after the bias was added."""

    def scores(self, case, c):
        """Add, then scale."""
        return c.scale * (c.q @ c.k.mT + c.bias)


@plant(
    "bias-exp2-unscaled", spec=BIASED, seen="https://github.com/meta-pytorch/segment-anything-fast/pull/71"
)
class PowersOfTwo(Traced):
    """Powers of two, with log2(e) on the product alone."""

    def weights(self, case, c, s):
        """Return 2^x over its sum."""
        x = math.log2(math.e) * c.scale * (c.q @ c.k.mT) + c.bias
        powers = torch.exp2(x - x.amax(dim=-1, keepdim=True))
        return powers / powers.sum(dim=-1, keepdim=True)


@plant("bias-ignored", spec=BIASED, seen="https://github.com/huggingface/transformers/issues/14621")
class BiasComputedAndForgotten(Traced):
    """A bias that is made and never added."""

    def bias(self, case, c):
        """Make it, and return nothing of it."""
        return 0.0


@plant("bias-sign-flipped", spec=Spec(map=clip(6)))
class BiasSubtracted(Traced):
    """A bias that is taken for a penalty."""

    def bias(self, case, c):
        """Return it with the other sign."""
        return -super().bias(case, c)


@plant("softcap-ignored", spec=Spec(bias=("1hnm",), options=("cross", "softcap")))
class CapForgotten(Traced):
    """A configuration with a cap, and code without."""

    def cap(self, case, x):
        """Return the scores as they are."""
        return x


@plant("softcap-before-bias", spec=Spec(bias=("1hnm",), options=("cross", "softcap")))
class CapOnTheProduct(Traced):
    """A cap on the product, to which the bias is added later."""

    def scores(self, case, c):
        """Cap, then add."""
        return self.cap(case, self.product(case, c)) + self.bias(case, c)


@plant("sink-ignored", spec=Spec(options=("cross", "sink")))
class SinkForgotten(Traced):
    """Sinks that are loaded and not used."""

    def logits(self, case, c, s):
        """Return the scores alone."""
        return s


@plant("attention-softmax-over-queries", spec=Spec(options=("cross",)))
class WrongAxis(Traced):
    """Softmax over the queries."""

    def weights(self, case, c, s):
        """Normalise the columns."""
        return torch.softmax(s, dim=-2)


@plant("attention-heads-interleaved", spec=Spec(framework="numpy", options=("cross", "gqa")))
class TiledHeads(Loops):
    """Heads of keys that are repeated as a whole, so that neighbours do not share."""

    def group(self, case, h):
        """Return the remainder in the place of the quotient."""
        return h % case.H_kv


@plant(
    "table-rows-sign-flipped", spec=Spec(map=clip(6)), seen="https://github.com/nntrainer/nntrainer/pull/3982"
)
class QueryMinusKey(Traced):
    """Offsets the other way round."""

    def rows(self, case):
        """Clip the position of the query minus that of the key."""
        return (-self.offsets(case)).clamp(-6, 6) + 6


@plant(
    "table-rows-start-ignored",
    spec=Spec(map=clip(6), causal="both"),
    seen="https://github.com/huggingface/transformers/issues/19045",
)
class CacheForgotten(Traced):
    """Queries that count from 0, whatever stands in the cache."""

    def rows(self, case):
        """Return rows by positions from 0."""
        return (torch.arange(case.M) - torch.arange(case.N)[:, None]).clamp(-6, 6) + 6


def bucket(offset, buckets, far, clamp=True, both=True):
    """Return T5's bucket of each offset, half of them for each direction, as its code does."""
    half = buckets // 2 if both else buckets
    first = torch.where(offset > 0, half, 0) if both else 0
    distance = offset.abs() if both else (-offset).clamp(min=0)
    exact = half // 2
    large = torch.log(distance.clamp(min=1) / exact) / math.log(far / exact) * (half - exact)
    large = exact + large.to(torch.int64)
    large = large.clamp(max=half - 1) if clamp else large
    return first + torch.where(distance < exact, distance, large)


@plant(
    "t5-bucket-unclamped",
    spec=Spec(map=t5(16, 16), options=("cross",)),
    seen="https://github.com/huggingface/candle/pull/1312",
)
class Unclamped(Traced):
    """The logarithm without its last bucket."""

    def rows(self, case):
        """Return buckets that run on, and stop at the end of the table."""
        return bucket(self.offsets(case), 16, 16, clamp=False).clamp(max=15)


@plant("t5-one-direction", spec=Spec(map=t5(16, 32), options=("cross",)))
class DecoderBuckets(Traced):
    """The buckets of a decoder in an encoder."""

    def rows(self, case):
        """Return buckets of the past alone."""
        return bucket(self.offsets(case), 16, 32, both=False)


@plant("alibi-signed-offset", spec=Spec(map=alibi(4), options=("cross",)))
class SignedDistance(Traced):
    """A distance with a sign: keys that come later are preferred."""

    def bias(self, case, c):
        """Return the slope times the offset."""
        return c.table[:, None, None] * self.offsets(case)


@plant("bias-outside-scale-instead", spec=Spec(bias=("bhnm",), bias_inside_scale=True), seen=POST)
class ScaledThenAdded(Traced):
    """The post's code, which adds the bias after the scale, under its formula, which adds it before."""

    def scores(self, case, c):
        """Scale, then add."""
        return self.product(case, c) + self.bias(case, c)


@plant(
    "alibi-slopes-exponent",
    spec=Spec(map=alibi(4), options=("cross",)),
    seen="https://github.com/paiml/aprender/pull/2143",
)
class SlopesFromOne(Traced):
    """Slopes of its own, of which the first is 1."""

    def bias(self, case, c):
        """Return 2^(-8 h / H) times the distance for heads counted from 0."""
        slopes = torch.exp2(-8.0 * torch.arange(case.H) / case.H)
        return -slopes[:, None, None] * case.row
