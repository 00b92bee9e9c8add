"""Sick subjects that sum the gradient of a bias or a table wrongly."""

import numpy as np
import torch
from torch.nn import functional

from attngrad.doctor.spec import Spec, alibi, clip, t5

from .chunked import Chunked
from .dense import Dense
from .loops import Loops
from .record import plant, plant_function
from .sick_scores import bucket
from .tiled import Tiled

FAT5 = "https://github.com/catie-aq/flashT5, src/model/ops/flash_attention_v2_bias.py"
SHARED = Spec(bias=("b1nm", "11nm"), options=("cross",))
CLIPPED = Spec(map=clip(5), options=("cross", "shared-table"))


@plant("bias-vjp-broadcast-last-head", spec=SHARED, seen=FAT5)
class StoredByEachHead(Dense):
    """A buffer in the bias's shape, into which each head stores."""

    def dbias(self, case, c):
        """Return what stays: the last head's, and the batches added up."""
        return c.ds[:, -1:].sum(dim=0, keepdim=True) if case.bias.shape[0] == 1 else c.ds[:, -1:]


@plant("bias-vjp-broadcast-last-batch", spec=Spec(bias=("1hnm",), options=("cross",)))
class StoredByEachBatch(Tiled):
    """A buffer that each sequence of a batch stores into."""

    def results(self, case, got):
        """Return the last one's."""
        if case.bias is not None and case.bias.shape[0] == 1:
            got["dbias"] = got["dbias"][-1:]
        return super().results(case, got)


@plant("bias-vjp-broadcast-mean", spec=Spec(layout="bnhd", bias=("1hnm", "11nm"), options=("cross",)))
class MeanOfCopies(Chunked):
    """A mean where the bias was broadcast."""

    def dbias(self, case, ds):
        """Return the mean over copies."""
        stretched = tuple(axis for axis in range(-4, 0) if case.bias.shape[axis] == 1)
        return ds.mean(dim=stretched, keepdim=True)


@plant(
    "bias-vjp-zero-for-a-batch",
    spec=Spec(bias=("bhnm", "1hnm"), options=("cross",)),
    seen="https://github.com/jax-ml/jax/issues/27184",
)
class ZeroForBatches(Dense):
    """A kernel without the case of a bias for each batch, whose buffer is zeros."""

    def dbias(self, case, c):
        """Return zeros where the bias has a batch."""
        return torch.zeros_like(c.ds) if case.bias.shape[0] > 1 else c.ds


@plant("bias-vjp-zero", spec=Spec(bias=("1hnm",), options=("cross",)))
class BiasDetached(Dense):
    """A bias that was copied to a buffer, whose gradient is zero."""

    def dbias(self, case, c):
        """Return zeros."""
        return torch.zeros_like(c.ds)


@plant("bias-vjp-transposed", spec=Spec(bias=("1hnm",), options=()))
class KeysByQueries(Dense):
    """dbias of a kernel whose rows are keys, for as many queries as keys."""

    def dbias(self, case, c):
        """Return it as it lies there."""
        return c.ds.mT if case.N == case.M else c.ds


@plant(
    "table-vjp-fancy-index",
    spec=Spec(framework="numpy", map=clip(5), options=("cross",)),
    seen="https://numpy.org/doc/stable/reference/generated/numpy.ufunc.at.html",
)
class FancyIndex(Loops):
    """An index that repeats rows, with +=."""

    def scatter(self, case, dtable, ds, b, h):
        """Add by fancy indexing."""
        if b == 0:
            self.sums = {} if h == 0 else self.sums
            self.sums[h] = np.zeros(ds.shape)
        self.sums[h] += ds
        if b == case.B - 1:
            dtable[h if len(dtable) > 1 else 0][case.row] += self.sums[h]


@plant("table-vjp-mean-over-pairs", spec=CLIPPED)
class ScatterMean(Dense):
    """scatter_reduce with a mean."""

    def dtable(self, case, db):
        """Divide by the pairs of each row."""
        counts = torch.bincount(case.row.flatten(), minlength=case.table.shape[1]).clamp(min=1)
        return super().dtable(case, db) / counts


@plant(
    "table-vjp-tail-columns",
    spec=Spec(map=clip(5), options=("cross",)),
    seen="https://github.com/Knowledgator/TurboT5, src/turbot5/ops/fused_bias_attention.py",
)
class TailInTheTable(Tiled):
    """A last tile of keys whose missing columns are added to the table; dq, dk and dv are stored by mask."""

    def add_tile(self, case, got, read, p, ds, i, j):
        """Form p and ds again without the mask of columns, for the table alone."""
        q, k, do = read
        tables = {name: x for name, x in got.items() if name == "dtable"}
        super().add_tile(case, {n: x for n, x in got.items() if n != "dtable"}, read, p, ds, i, j)
        for table in tables.values():
            self.scatter(case, table, self.unmasked(case, q, k, do, i, j), i, j)

    def backward(self, case, saved):
        """Keep what the tiles read."""
        self.lse, self.mean = saved["lse"], Tiled.delta(self, case, saved)
        return super().backward(case, saved)

    def unmasked(self, case, q, k, do, i, j):
        """Return ds of a whole tile; rows of padding are zeroed, columns are not."""
        group = case.H // case.H_kv
        v = case.v.to(q.dtype).repeat_interleave(group, dim=1)
        s = self.product(case, q, k, i, j) + self.bias_of(case, i, j)
        p = torch.exp(s - self.rows_of(self.lse[..., None], i))
        p = p.masked_fill((i + torch.arange(self.ROWS) >= case.N)[:, None], 0.0)
        part = v[..., j : j + self.COLUMNS, :]
        values = torch.nn.functional.pad(part, (0, 0, 0, self.COLUMNS - part.shape[-2]))
        return p * (self.rows_of(do, i) @ values.mT - self.rows_of(self.mean[..., None], i))

    def rows_of(self, x, i):
        """Return a tile of rows, 0 beyond the last."""
        part = x[..., i : i + self.ROWS, :]
        return torch.nn.functional.pad(part, (0, 0, 0, self.ROWS - part.shape[-2]))


@plant(
    "table-vjp-transposed",
    spec=Spec(map=clip(5), options=()),
    seen="https://github.com/microsoft/DeBERTa/issues/162",
)
class PrintedEquation(Dense):
    """A gather by one order of the pair, a scatter by the other."""

    def dtable(self, case, db):
        """Add a pair to the row that the pair (j, i) read."""
        return super().dtable(case, db.mT) if case.N == case.M else super().dtable(case, db)


@plant("table-vjp-last-batch", spec=CLIPPED)
class TableOfTheLast(Dense):
    """A table into which each sequence of a batch stores its sum."""

    def dtable(self, case, db):
        """Return the last one's."""
        return super().dtable(case, db[-1:])


@plant("bias-vjp-broadcast-last-head", spec=CLIPPED, seen=FAT5)
class TableOfTheLastHead(Dense):
    """A table that heads share, into which each of them stores its sum."""

    def dtable(self, case, db):
        """Return the last head's where there is one row of heads."""
        if case.table.shape[0] > 1:
            return super().dtable(case, db)
        sums = torch.zeros(1, case.table.shape[1], dtype=db.dtype)
        return sums.index_add_(1, case.row.flatten(), db[:, -1:].sum(dim=0).flatten(1))


SLOPES = Spec(map=alibi(4, learned=True), options=("cross",))


@plant("alibi-vjp-zero", spec=SLOPES, seen="https://github.com/Dao-AILab/flash-attention/pull/2876")
class SlopesUntrained(Dense):
    """Slopes without a gradient."""

    def dtable(self, case, db):
        """Return zeros."""
        return torch.zeros_like(super().dtable(case, db))


@plant("alibi-vjp-sign", spec=Spec(framework="numpy", map=alibi(4, learned=True), options=("cross",)))
class SlopesUphill(Loops):
    """The sum of distances times ds without its minus."""

    def scatter(self, case, dtable, ds, b, h):
        """Add where it should subtract."""
        dtable[h] += (np.abs(self.offsets(case)) * ds).sum()


@plant("alibi-vjp-undistanced", spec=Spec(map=alibi(4, learned=True), causal="both", options=("cross",)))
class SlopesAsBias(Dense):
    """The gradient of a bias for each head: zero, up to rounding."""

    def dtable(self, case, db):
        """Leave the distances out."""
        return -db.sum(dim=(0, 2, 3))


class NarrowTable(Tiled):
    """A table whose sums have the type of the weights."""

    def scatter(self, case, dtable, ds, i, j):
        """Add one pair after the other, rounding each time."""
        row = self.bucket(case, self.offsets(case, i, j)).flatten()
        for one in ds.to(case.table.dtype):
            for held, pairs in zip(self.held, one, strict=True):
                held.index_add_(0, row, pairs.flatten())

    def backward(self, case, saved):
        """Hold the sums in the type of the table."""
        self.held = torch.zeros(case.H, case.table.shape[-1], dtype=case.table.dtype)
        got = super().backward(case, saved)
        held = self.held if case.table.shape[0] > 1 else self.held.sum(dim=0, keepdim=True)
        return got | {"dtable": held}


@plant(
    spec=Spec(dtypes=("bfloat16",), map=clip(5), options=("cross",)),
    verdict="imprecise",
    cases=("basic", "long"),
    seen="https://github.com/Knowledgator/TurboT5, src/turbot5/ops/fused_bias_attention.py",
)
class BrainTable(NarrowTable):
    """Sums in bfloat16."""


@plant(
    spec=Spec(dtypes=("float16",), map=clip(5), options=("cross",)),
    verdict="imprecise",
    cases=("basic", "long"),
    seen="https://github.com/engichang1467/Open-Rig3R/issues/35",
)
class HalfTable(NarrowTable):
    """Sums in float16."""


def gathered_table(q, k, v, table, row, *, scale):
    """Return torch's own attention with a bias that is indexed from a table, in whatever type they have."""
    return functional.scaled_dot_product_attention(q, k, v, table[None, :, row], scale=scale)


plant_function(
    gathered_table,
    spec=Spec(dtypes=("bfloat16",), map=clip(5), options=("cross",)),
    verdict="imprecise",
    cases=("basic", "long"),
)


def widened_table(q, k, v, table, row, *, scale):
    """Return torch's own attention in float32, with a bias that is indexed from a shorter table."""
    return functional.scaled_dot_product_attention(q, k, v, table[:, row].float()[None], scale=scale)


for _dtype in ("bfloat16", "float16"):
    _spec = Spec(map=clip(5), bias_dtype=_dtype, options=("cross", "shared-table"))
    plant_function(widened_table, spec=_spec, verdict="imprecise", name=f"widened_table_{_dtype}")


@plant("t5-one-direction", spec=Spec(map=t5(8, 16, False), options=("cross",)))
class EncoderBuckets(Dense):
    """The buckets of an encoder in a decoder."""

    def rows(self, case):
        """Return buckets of both directions."""
        start = self.start(case)
        return bucket(torch.arange(case.M) - torch.arange(case.N)[:, None] - start, 8, 16)


@plant("bias-vjp-sign-flipped", spec=Spec(bias=("1hnm",), options=("cross",)))
class PenaltyForBias(Dense):
    """The gradient of a penalty: that of the bias with the other sign."""

    def dbias(self, case, c):
        """Return minus ds."""
        return -c.ds


@plant("table-vjp-first-row-lost", spec=CLIPPED)
class PaddingRow(Dense):
    """An embedding whose row 0 is one of padding."""

    def dtable(self, case, db):
        """Return nothing for row 0."""
        dtable = super().dtable(case, db)
        dtable[:, 0] = 0.0
        return dtable
