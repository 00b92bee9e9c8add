"""Sick subjects whose forward pass is right: softmax's derivative, the products, the scale."""

import torch

from attngrad.doctor.spec import Spec

from .callables import ByHand
from .chunked import Chunked
from .dense import Dense, wide
from .loops import Loops
from .record import plant, plant_function
from .tiled import Tiled

POST = "the second post, section 3.2"
BIASED = Spec(bias=("1hnm",), options=("cross",))
NUMPY = Spec(framework="numpy", bias=("1hnm",), options=("cross",))
BNHD = Spec(layout="bnhd", bias=("hnm",), options=("cross",))


@plant("softmax-vjp-diagonal-only", spec=NUMPY, seen="the first post, section 3.3")
class DiagonalOnly(Loops):
    """The derivative of each weight by its own score."""

    def through_softmax(self, case, p, dp):
        """Return p (1 - p) dp."""
        return p * (1 - p) * dp


@plant("softmax-vjp-elementwise", spec=NUMPY)
class Elementwise(Loops):
    """A product without the mean of the row."""

    def through_softmax(self, case, p, dp):
        """Return p dp."""
        return p * dp


@plant(
    "softmax-vjp-flattened-batch",
    spec=NUMPY,
    seen="https://discuss.pytorch.org/t/trying-to-understand-the-gradient-for-softmax-without-crossentropyloss/200189",
)
class OneSoftmax(Loops):
    """One Jacobian for all rows of a head."""

    def through_softmax(self, case, p, dp):
        """Subtract one mean from all."""
        return p * (dp - (p * dp).sum())


@plant("softmax-vjp-flattened-batch", spec=BIASED)
class OneSoftmaxForAll(Dense):
    """One Jacobian for the whole batch."""

    def delta(self, case, c):
        """Return one mean."""
        return (c.p * c.dp).sum()


@plant("softmax-vjp-sign-flipped", spec=BIASED)
class MeanMinusCotangent(Dense):
    """The difference the other way round."""

    def through_softmax(self, case, c):
        """Return the cotangent of the scores with the other sign."""
        return c.p * (c.delta - c.dp)


@plant("attention-do-as-dp", spec=BIASED, seen=POST)
class OutputForWeights(Dense):
    """The cotangent of the output, taken for that of the weights where the shapes fit."""

    def through_dropout(self, case, c, dp):
        """Return do."""
        return c.do if c.do.shape == dp.shape else dp


@plant("attention-delta-unweighted", spec=BNHD)
class PlainSum(Chunked):
    """A sum of the row for its mean."""

    def delta(self, case, saved, p, dp, part):
        """Return the sum of dp."""
        return dp.sum(dim=-1)


@plant(
    "attention-delta-of-block",
    spec=Spec(causal="both"),
    seen="https://github.com/huggingface/picotron/issues/37",
)
class DeltaOfTile(Tiled):
    """The mean over the keys of a tile."""

    def add_tile(self, case, got, read, p, ds, i, j):
        """Form ds again with the mean of this tile."""
        do = read[2]
        v = wide(case.v).repeat_interleave(case.H // case.H_kv, dim=1)
        dp = self.tile(do, i, self.ROWS) @ self.tile(v, j, self.COLUMNS).mT
        super().add_tile(case, got, read, p, p * (dp - (p * dp).sum(dim=-1, keepdim=True)), i, j)

    def tile(self, x, first, size):
        """Return a tile of (.., n, C), 0 beyond the last row."""
        part = x[..., first : first + size, :]
        return torch.nn.functional.pad(part, (0, 0, 0, size - part.shape[-2]))


@plant("attention-delta-zero", spec=Spec(causal="both"))
class DeltaNeverFilled(Tiled):
    """A buffer for delta that no kernel fills."""

    def delta(self, case, saved):
        """Return zeros."""
        return torch.zeros_like(super().delta(case, saved))


@plant("attention-dq-unscaled", spec=BIASED, seen=POST)
class UnscaledDq(Dense):
    """dq without the scale."""

    def dq(self, case, c):
        """Return ds k."""
        return c.dx @ c.k


@plant(
    "attention-dq-scaled-twice",
    spec=Spec(causal="both"),
    seen="https://github.com/HKUSTDial/flash-sparse-attention/pull/203",
)
class TwiceScaledDq(Tiled):
    """Keys that are scaled when they are read, and dq at the end."""

    def results(self, case, got):
        """Scale dq once more."""
        got["dq"] *= case.scale
        return super().results(case, got)


@plant("attention-dk-unscaled", spec=BIASED, seen=POST)
class UnscaledDk(Dense):
    """dk without the scale."""

    def dk(self, case, c):
        """Return ds^T q."""
        return c.dx.mT @ c.q


@plant("attention-dk-scaled-twice", spec=BNHD)
class TwiceScaledDk(Chunked):
    """dk scaled in each chunk and at the end."""

    def results(self, case, dq, dk, dv, ds):
        """Scale dk once more."""
        return super().results(case, dq, case.scale * dk, dv, ds)


class UnscaledBoth(ByHand):
    """dq and dk without the scale, as the second post has them."""

    @staticmethod
    def backward(ctx, do):
        """Divide the scale out of both."""
        dq, dk, *others = ByHand.backward(ctx, do)
        return dq / ctx.scale, dk / ctx.scale, *others


def post_attention(q, k, v, bias, scale):
    """Return attention with the backward pass of the second post."""
    return UnscaledBoth.apply(q, k, v, bias, scale)


plant_function(
    post_attention,
    "attention-dq-unscaled",
    "attention-dk-unscaled",
    spec=Spec(dtypes=("float64",), bias=("bhnm",), options=("cross",)),
    seen=POST,
)


@plant("attention-dscale-of-scores", spec=Spec(options=("cross", "dscale")), seen=POST)
class ScaleOfScores(Dense):
    """The sum of ds times scores, times the scale."""

    def dscale(self, case, c):
        """Read the scores for the product."""
        return super().dscale(case, c) * case.scale**2


@plant("attention-dscale-of-logarithm", spec=Spec(options=("cross", "dscale")), seen=POST)
class ScaleOfLogarithm(Dense):
    """The sum of ds times scores."""

    def dscale(self, case, c):
        """Read the scores for the product, and leave the scale."""
        return super().dscale(case, c) * case.scale


INSIDE = Spec(bias=("bhnm",), bias_inside_scale=True, options=("cross",))


@plant("bias-vjp-scaled-outside", spec=BIASED)
class ScaledDbias(Dense):
    """A bias with the factor of dq and dk."""

    def dbias(self, case, c):
        """Scale it."""
        return case.scale * c.ds


@plant("bias-inside-vjp-factor-dropped", spec=INSIDE, seen="the first post, section 3.3")
class UnscaledDbias(Dense):
    """A bias inside the scale, without its factor."""

    def dbias(self, case, c):
        """Leave the scale out."""
        return c.ds


@plant("bias-inside-vjp-entrywise", spec=INSIDE, seen="the first post, section 3.3")
class EntrywiseDbias(Dense):
    """The post's line, read entry by entry; dq and dk are autograd's."""

    def dbias(self, case, c):
        """Return p (1 - p) dp."""
        return c.p * (1 - c.p) * c.dp


@plant("bias-inside-vjp-literal", spec=INSIDE, seen="the first post, section 3.3")
class LiteralDbias(Dense):
    """The post's line as it stands: one sum for all entries of a matrix."""

    def dbias(self, case, c):
        """Return the sum of p (1 - p) dp."""
        one = (c.p * (1 - c.p) * c.dp).sum(dim=(-2, -1), keepdim=True)
        return one.expand_as(c.p)


@plant(
    "attention-group-last-head",
    spec=Spec(options=("cross", "gqa")),
    seen="https://github.com/marin-community/levanter/pull/449",
)
class LastOfGroup(Dense):
    """The gradient of the last query head of each group."""

    def reduce(self, case, dx):
        """Keep the last."""
        return dx.unflatten(1, (case.H_kv, case.H // case.H_kv))[:, :, -1]


@plant("attention-group-first-head", spec=Spec(options=("cross", "gqa")))
class FirstOfGroup(Dense):
    """The gradient of the first query head of each group."""

    def reduce(self, case, dx):
        """Keep the first."""
        return dx.unflatten(1, (case.H_kv, case.H // case.H_kv))[:, :, 0]


@plant("attention-group-mean", spec=Spec(options=("cross", "gqa")))
class MeanOfGroup(Dense):
    """The mean over the query heads of each group."""

    def reduce(self, case, dx):
        """Divide by their number."""
        return super().reduce(case, dx) / (case.H // case.H_kv)


@plant("attention-delta-plain-mean", spec=BIASED)
class PlainMean(Dense):
    """The mean of dp without the weights."""

    def delta(self, case, c):
        """Return the mean over keys."""
        return c.dp.mean(dim=-1, keepdim=True)
