"""Sick subjects with mistakes that no list has: they must be found, and not be given a name."""

import torch

from attngrad.doctor.spec import Spec, clip

from .chunked import Chunked
from .dense import Dense, wide
from .loops import Loops
from .record import plant
from .tiled import Tiled
from .traced import Traced

BIASED = Spec(bias=("1hnm",), options=("cross",))


@plant(spec=BIASED, seen="https://github.com/thuml/FlashBias: strides of the copies for what was not copied")
class StridesOfTheCopies(Dense):
    """A bias of one batch that is read with the strides of its copies, from the start again at the end."""

    def bias(self, case):
        """Return the entries that those strides reach."""
        if case.bias is None:
            return None
        flat, count = wide(case.bias).flatten(), case.B * case.H * case.N * case.M
        step = torch.arange(count) * 3
        return flat[step % flat.numel()].reshape(case.B, case.H, case.N, case.M)

    def dbias(self, case, c):
        """Return the gradient as if the read were right."""
        return c.ds


@plant(spec=Spec(options=("cross",)))
class Warmer(Traced):
    """Scores at a temperature that nobody asked for."""

    def product(self, case, c):
        """Divide by 1.1."""
        return super().product(case, c) / 1.1


@plant(spec=Spec(framework="numpy", bias=("1hnm",), options=("cross",)))
class Leaking(Loops):
    """A tenth of each row's mean that stays behind."""

    def through_softmax(self, case, p, dp):
        """Subtract nine tenths of the mean."""
        return p * (dp - 0.9 * (p * dp).sum(axis=-1, keepdims=True))


@plant(spec=Spec(layout="bnhd", options=("cross",)))
class RolledKeys(Chunked):
    """dk that belongs to the next key."""

    def results(self, case, dq, dk, dv, ds):
        """Roll dk by one key."""
        return super().results(case, dq, dk.roll(1, dims=1), dv, ds)


@plant(spec=Spec(map=clip(5), options=("cross",)))
class SmoothTable(Dense):
    """Rows of a table that share a part of their gradient with the next."""

    def dtable(self, case, db):
        """Mix each row with its neighbour."""
        exact = super().dtable(case, db)
        return 0.75 * exact + 0.25 * exact.roll(1, dims=-1)


@plant(spec=BIASED)
class ClippedBias(Dense):
    """A gradient of the bias that is clipped entry by entry."""

    def dbias(self, case, c):
        """Clip to 0.05."""
        return c.ds.clamp(-0.05, 0.05)


@plant(spec=Spec(options=("cross",)))
class SkippedTile(Tiled):
    """Half of what the second tile of queries gives to dv, forgotten."""

    def add_tile(self, case, got, read, p, ds, i, j):
        """Let the second tile give half."""
        super().add_tile(case, got, read, p * 0.5 if i == self.ROWS else p, ds, i, j)


@plant(spec=Spec(map=clip(5), options=("cross",)), seen="https://github.com/huggingface/candle/issues/3568")
class NoneForTheTable(Dense):
    """A backward pass that returns None in the table's place."""

    def dtable(self, case, db):
        """Return nothing."""
        return None


@plant(spec=Spec(options=("cross",)), seen="https://github.com/pytorch/pytorch/issues/148476")
class AsksForWhatWasNotSaved(Dense):
    """A backward pass that reads what the forward pass did not save, where there are more keys than 64."""

    def backward(self, case, saved):
        """Look for a name that is not there."""
        return super().backward(case, {} if case.M > 64 else saved)


@plant(spec=Spec(options=("cross",)))
class BeyondTheBuffer(Tiled):
    """A last row that is stored behind the end of dq."""

    def results(self, case, got):
        """Write one entry too many."""
        done = super().results(case, got)
        dq = done["dq"]
        torch.as_strided(dq, (1,), (1,), dq.storage_offset() + dq.numel()).fill_(1.0)
        return done
