"""Sick subjects: last tiles, memory layout, and state that outlives a call."""

import torch

from attngrad.doctor.spec import Spec, clip

from .dense import Dense, wide
from .record import plant, plant_function
from .tiled import Tiled
from .traced import Traced

CLIPPED = Spec(map=clip(5), options=("cross",))


@plant("attention-tail-queries-skipped", spec=CLIPPED)
class WholeTilesOfQueries(Tiled):
    """A loop over whole tiles of queries in the pass for keys; dq has a pass of its own."""

    def add_tile(self, case, got, read, p, ds, i, j):
        """Let a last tile that is not whole give dq alone."""
        if i + self.ROWS > case.N:
            got = {name: x if name == "dq" else torch.zeros_like(x) for name, x in got.items()}
        super().add_tile(case, got, read, p, ds, i, j)


@plant("attention-tail-keys-joined", spec=Spec(options=("cross",)))
class PaddedKeysJoin(Tiled):
    """Keys of zeros in the last tile, which take part in the softmax."""

    def visible(self, case, i, j):
        """Return True for every column."""
        rows = i + torch.arange(self.ROWS)[:, None]
        return (rows < case.N).expand(self.ROWS, self.COLUMNS)


@plant(
    "attention-dv-tail-in-next-head",
    spec=Spec(options=("cross",)),
    seen="https://github.com/flagos-ai/FlagGems/pull/898",
)
class TailInTheNextHead(Tiled):
    """A last tile of dv that is stored without its mask: it runs on into the next head."""

    def results(self, case, got):
        """Store heads from the last to the first, each with zeros behind it to fill its last tile."""
        B, H, M, D_v = got["dv"].shape
        beyond = -M % self.COLUMNS
        flat = torch.zeros(B * H * M + beyond, D_v, dtype=got["dv"].dtype)
        for n, dv in reversed(list(enumerate(got["dv"].flatten(0, 1)))):
            flat[n * M : (n + 1) * M + beyond] = torch.nn.functional.pad(dv, (0, 0, 0, beyond))
        got["dv"] = flat[: B * H * M].reshape(B, H, M, D_v)
        return super().results(case, got)


@plant(
    "attention-tail-nan",
    spec=Spec(options=("cross",)),
    seen="https://github.com/pytorch/pytorch/issues/153799",
)
class NotANumberBeyond(Tiled):
    """A last tile of keys that was never loaded: NaN times a weight of 0."""

    def add_tile(self, case, got, read, p, ds, i, j):
        """Read NaN beyond the last key."""
        super().add_tile(case, got, read, p, ds, i, j)
        if j + self.COLUMNS > case.M:
            got["dq"][:, :, i : i + self.ROWS] = torch.nan


@plant(
    "attention-delta-contiguous",
    spec=Spec(options=("cross", "strides")),
    seen="https://github.com/pytorch/pytorch/issues/133671",
)
class DeltaOfTheStorage(Dense):
    """delta of a kernel that takes do for contiguous."""

    def delta(self, case, c):
        """Read do one entry after the other as it lies in memory, from the start again at the end."""
        do = case.do
        last = sum((n - 1) * step for n, step in zip(do.shape, do.stride(), strict=True))
        held = wide(torch.as_strided(do, (last + 1,), (1,)))
        read = held[torch.arange(do.numel()) % held.numel()].reshape(do.shape)
        o = self.dropped(case, c.p) @ c.v
        return (read * o).sum(dim=-1, keepdim=True)


@plant(
    "table-bias-stale",
    spec=CLIPPED,
    seen="https://github.com/microsoft/Swin-Transformer/issues/189",
)
class GatheredOnce(Dense):
    """A table that is copied at the first call of each shape."""

    def __init__(self):
        """Hold nothing yet."""
        self.copies = {}

    def bias(self, case):
        """Return the bias of the copy."""
        if case.table is None:
            return None
        table = self.copies.setdefault(tuple(case.table.shape), wide(case.table).clone())
        return table[:, case.row]


@plant("output-accumulated-between-calls", spec=CLIPPED)
class NeverZeroed(Tiled):
    """A sum for the table, kept for each shape, that no call empties."""

    def __init__(self):
        """Hold nothing yet."""
        self.sums = {}

    def buffers(self, case, q, k, v):
        """Return the sum of the calls before."""
        got = super().buffers(case, q, k, v)
        if "dtable" in got:
            key = (tuple(case.table.shape), case.N, case.M)
            got["dtable"] = self.sums.setdefault(key, got["dtable"])
        return got


@plant("accumulator-uninitialised", spec=CLIPPED)
class NeverFilled(Dense):
    """A sum for the table that starts from whatever the buffer holds."""

    def dtable(self, case, db):
        """Add to the buffer."""
        return super().dtable(case, db) + case.out("dtable")


@plant(
    "sum-order-not-fixed",
    spec=Spec(map=clip(5), options=("cross",), deterministic=True),
    seen="https://github.com/pytorch/pytorch/pull/137452",
)
class AtomicOrder(Dense):
    """Pairs that are added in another order at each run."""

    def dtable(self, case, db):
        """Add the pairs in a random order."""
        order = torch.randperm(case.row.numel())
        sums = torch.zeros(case.H, case.table.shape[1], dtype=db.dtype)
        sums.index_add_(1, case.row.flatten()[order], db.sum(dim=0).flatten(1)[:, order])
        return sums if case.table.shape[0] > 1 else sums.sum(dim=0, keepdim=True)


@plant(
    "input-overwritten",
    spec=Spec(options=("cross",)),
    seen="https://github.com/unslothai/unsloth/issues/5001",
)
class ScaledInPlace(Traced):
    """Queries that are scaled in place."""

    def forward(self, case):
        """Multiply q by the scale where it lies, and divide again what is saved."""
        saved = super().forward(case)
        case.q.mul_(case.scale)
        return saved


@plant("attention-tail-keys-skipped", spec=Spec(options=("cross",)))
class WholeTilesOfKeys(Tiled):
    """A loop over whole tiles of keys, where there is one."""

    def visible(self, case, i, j):
        """Hide the keys of a last tile that is not whole."""
        whole = j + self.COLUMNS <= case.M
        return super().visible(case, i, j) & torch.tensor(whole)


def reread_heads(q, k, v, *, scale):
    """Return attention of a kernel for (B, H, N, D) that is handed the memory of (B, N, H, D)."""
    shape = q.shape
    q, k, v = (x.reshape(x.shape[0], x.shape[2], x.shape[1], x.shape[3]) for x in (q, k, v))
    o = torch.softmax(scale * (q @ k.mT), dim=-1) @ v
    return o.reshape(*shape[:3], -1)


plant_function(reread_heads, "attention-heads-as-lengths", spec=Spec(layout="bnhd", options=("cross",)))


def joined_heads(q, k, v, *, scale):
    """Return attention on (B, N, H, D) whose heads are joined without turning the axes back."""
    B, N, H, _ = q.shape
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return (torch.softmax(scale * (q @ k.mT), dim=-1) @ v).reshape(B, N, H, -1)


plant_function(joined_heads, "attention-output-not-transposed", spec=Spec(layout="bnhd", options=("cross",)))


@plant(
    "attention-across-heads", spec=Spec(options=()),
    seen="the second post, section 4.2: memory_efficient_attention",
)  # fmt: skip
class TokensForHeads(Traced):
    """A kernel for (B, N, H, D) that is handed (B, H, N, D): heads attend to heads."""

    def output(self, case, c, p):
        """Attend across the heads of each token."""
        q, k, v = (x.transpose(1, 2) for x in (c.q, c.k, c.v))
        across = torch.softmax(c.scale * (q @ k.mT), dim=-1)
        return (across @ v).transpose(1, 2)
