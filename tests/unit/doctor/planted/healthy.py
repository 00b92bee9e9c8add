"""Right subjects, one for each way of writing attention."""

import numpy as np
import torch

from attngrad import layers
from attngrad.doctor.spec import Spec, alibi, clip, offset, t5

from . import callables
from .chunked import Chunked
from .dense import Dense, wide
from .loops import Loops
from .record import plant, plant_function
from .tiled import Tiled
from .traced import Traced

ALL = ("float64", "float32", "float16", "bfloat16")
MOST = (
    "cross", "values", "gqa", "mask", "empty-rows", "hidden", "lowest", "dropout", "lse", "dlse", "sink",
    "dscale", "strides",
)  # fmt: skip
BASIC = ("cross", "values", "gqa", "lse", "dlse", "strides")


@plant(
    spec=Spec(dtypes=ALL, bias=("1hnm", "b1nm", "11nm", "nm"), causal="both", options=MOST), verdict="healthy"
)
class DenseRight(Dense):
    """All weights at once, in four types."""


@plant(spec=Spec(map=t5(8, 16), causal="both", options=(*MOST, "softcap", "query-start")), verdict="healthy")
class DenseTable(Dense):
    """A table of T5 beside a cap."""


@plant(
    spec=Spec(dtypes=ALL, bias=("1hnm",), causal="both", options=("cross", "gqa", "strides")),
    verdict="healthy",
)
class RoundedWeights(Dense):
    """Weights and their cotangents in the type of the inputs, as kernels multiply them."""

    def rounded(self, case, x):
        """Return x after rounding."""
        return x.to(case.q.dtype).to(x.dtype)

    def dropped(self, case, p):
        """Return rounded weights."""
        return self.rounded(case, super().dropped(case, p))

    def delta(self, case, c):
        """Return do.o for the rounded output."""
        o = self.rounded(case, self.dropped(case, c.p) @ c.v)
        return (c.do * o).sum(dim=-1, keepdim=True)

    def dq(self, case, c):
        """Return rounded ds times the keys."""
        return case.scale * (self.rounded(case, c.dx) @ c.k)

    def dk(self, case, c):
        """Return rounded ds times the queries."""
        return case.scale * (self.rounded(case, c.dx).mT @ c.q)


def by_quarters(N, M, query_start):
    """Return one row for each quarter of the pairs."""
    return (np.arange(N)[:, None] < N // 2) * 2 + (np.arange(M) < M // 2)


@plant(spec=Spec(table="rh", map=by_quarters, map_rows=4), verdict="healthy")
class RowsFirst(Dense):
    """A table (R, H) for a map of the owner's own."""

    def bias(self, case):
        """Return the bias of a table with its axes the other way round."""
        return wide(case.table).T[:, case.row]

    def dtable(self, case, db):
        """Return the cotangent with its axes the other way round."""
        R, heads = case.table.shape
        summed = torch.zeros(case.H, R, dtype=db.dtype)
        summed.index_add_(1, case.row.flatten(), db.sum(dim=0).flatten(1))
        return summed.T if heads > 1 else summed.sum(dim=0)[:, None]


@plant(
    spec=Spec(bias=("bhnm",), bias_inside_scale=True, options=("cross", "softcap", "dscale")),
    verdict="healthy",
)
class DenseInside(Dense):
    """A bias inside the scale."""


@plant(spec=Spec(options=("softcap-product", "packed"), bias=("1hnm",)), verdict="healthy")
class DensePacked(Dense):
    """A cap on the product, and packed sequences."""


@plant(spec=Spec(map=alibi(4), causal="always"), verdict="healthy")
class DenseSlopes(Dense):
    """Slopes in the place of a table."""


@plant(spec=Spec(dtypes=ALL, map=clip(9), causal="both", options=BASIC), verdict="healthy")
class TiledRight(Tiled):
    """Tile by tile, with a table that each tile gathers, in four types."""


@plant(spec=Spec(bias=("1hnm", "bh1m"), options=BASIC), verdict="healthy")
class TiledDense(Tiled):
    """Tile by tile, with a dense bias."""


@plant(
    spec=Spec(dtypes=ALL, layout="bnhd", bias=("b1nm", "hnm"), causal="both", options=BASIC),
    verdict="healthy",
)
class ChunkedRight(Chunked):
    """Chunks of queries, with the heads behind the tokens, in four types."""


@plant(
    spec=Spec(framework="numpy", dtypes=("float64", "float32", "float16"), map=offset(64), causal="both",
              options=("cross", "gqa", "mask", "empty-rows", "dscale")),
    verdict="healthy",
)  # fmt: skip
class LoopsRight(Loops):
    """NumPy, a head at a time."""


@plant(
    spec=Spec(dtypes=ALL, bias=("1hnm",), causal="both",
              options=("cross", "gqa", "mask", "lse", "dlse", "sink", "dropout", "softcap", "dscale")),
    verdict="healthy",
)  # fmt: skip
class TracedRight(Traced):
    """Autograd, in four types."""


plant_function(
    callables.einsum_attention, spec=Spec(dtypes=ALL, bias=("1hnm",), causal="both"), verdict="healthy"
)
plant_function(
    callables.grouped_attention,
    spec=Spec(bias=("b1nm",), options=("cross", "gqa", "strides")),
    verdict="healthy",
)
plant_function(callables.table_attention, spec=Spec(map=clip(7)), verdict="healthy")
plant_function(
    callables.sdpa_attention, spec=Spec(bias=("1hnm", "nm"), options=("cross", "strides")), verdict="healthy"
)
plant_function(
    callables.function_attention,
    spec=Spec(dtypes=("float64", "float32"), bias=("bhnm", "11nm")),
    verdict="healthy",
)
plant_function(
    layers.attention,
    spec=Spec(
        dtypes=ALL,
        bias=("1hnm", "b1nm"),
        causal="both",
        options=("cross", "gqa", "mask", "empty-rows", "hidden", "sink", "softcap", "dropout", "strides"),
    ),
    verdict="healthy",
)
