"""Sick subjects: dropout, lse, sinks and caps."""

import math

import torch

from attngrad.doctor.spec import Spec

from .dense import Dense, wide
from .record import plant
from .tiled import Tiled
from .traced import Traced


@plant("dropout-ignored", spec=Spec(options=("cross", "dropout")))
class NoDropout(Traced):
    """Dropout that is switched off with evaluation, and stays off."""

    def dropped(self, case, p):
        """Return the weights as they are."""
        return p


@plant("dropout-unscaled", spec=Spec(options=("cross", "dropout")))
class KeptNotScaled(Traced):
    """Dropout without the division by the rate that is kept."""

    def dropped(self, case, p):
        """Return the kept weights."""
        return p if case.keep is None else p * case.keep


@plant("dropout-vjp-mask-dropped", spec=Spec(options=("cross", "dropout")))
class DropoutOnValuesAlone(Dense):
    """The factors of dropout in dv, and not in dp."""

    def through_dropout(self, case, c, dp):
        """Return the cotangent of the dropped weights."""
        return dp


@plant("dropout-dv-undropped", spec=Spec(options=("cross", "dropout")))
class DropoutNotOnValues(Dense):
    """The factors of dropout in dp, and not in dv."""

    def backward(self, case, saved):
        """Put dv of all weights in the place of the right one."""
        grads = super().backward(case, saved)
        dv = saved["state"].p.mT @ wide(case.do)
        return grads | {"dv": self.reduce(case, dv).to(case.v.dtype)}


@plant("lse-base-two", spec=Spec(options=("cross", "lse")))
class LogTwo(Tiled):
    """lse in powers of two, as the kernel keeps it."""

    def finish(self, top, total):
        """Return lse divided by log 2."""
        return super().finish(top, total) / math.log(2.0)

    def weights(self, case, q, k, lse, i, j):
        """Read it as it was written."""
        return super().weights(case, q, k, lse * math.log(2.0), i, j)


@plant("lse-without-sink", spec=Spec(options=("cross", "lse", "sink")))
class SinkAfterwards(Dense):
    """A sink that rescales the output, and an lse from before."""

    def lse(self, case, c, lse):
        """Return lse of the keys alone."""
        return torch.logsumexp(c.s, dim=-1)


@plant("lse-cotangent-dropped", spec=Spec(options=("cross", "lse", "dlse")))
class LseIsNoOutput(Dense):
    """A backward pass of o alone."""

    def dlse(self, case, c):
        """Return nothing."""
        return 0.0


@plant("lse-cotangent-sign", spec=Spec(options=("cross", "lse", "dlse")))
class DeltaPlusDlse(Dense):
    """The cotangent of lse added to delta, from which it should be taken."""

    def dlse(self, case, c):
        """Return it with the other sign."""
        return -super().dlse(case, c)


SINK = Spec(options=("cross", "sink"))


@plant("sink-left-out-of-denominator-in-backward", spec=SINK)
class WeightsWithoutSink(Dense):
    """Weights that are formed again without the sink."""

    def backward(self, case, saved):
        """Replace the weights by those of the keys alone."""
        saved["state"].p = torch.softmax(saved["state"].s, dim=-1)
        return super().backward(case, saved)


@plant("sink-vjp-zero", spec=SINK)
class SinkUntrained(Dense):
    """A sink whose gradient is a buffer of zeros."""

    def dsink(self, case, c):
        """Return zeros."""
        return None if case.sink is None else torch.zeros(case.H)


@plant("sink-vjp-sign", spec=SINK)
class SinkPushed(Dense):
    """The gradient of a sink without its minus."""

    def dsink(self, case, c):
        """Return it with the other sign."""
        return None if case.sink is None else -super().dsink(case, c)


@plant("softcap-vjp-factor-dropped", spec=Spec(bias=("1hnm",), options=("cross", "softcap")))
class CapOneWay(Dense):
    """A cap that was added to the forward pass."""

    def backward(self, case, saved):
        """Take 1 for its derivative."""
        saved["state"].ds_cap = 1.0
        return super().backward(case, saved)


@plant("softcap-after-bias", spec=Spec(bias=("1hnm",), options=("cross", "softcap-product")))
class CapOnTheScores(Traced):
    """A cap on the scores with their bias, where it belongs to the product."""

    def scores(self, case, c):
        """Add, then cap."""
        return self.cap(case, self.product(case, c) + self.bias(case, c))


@plant("attention-packed-ignored", spec=Spec(options=("packed",)))
class OneSequence(Traced):
    """Packed sequences that attend to each other: no step reads their lengths."""
