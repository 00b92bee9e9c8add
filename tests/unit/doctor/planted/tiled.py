"""Attention in torch, tile by tile as kernels do it: right for every length, whatever the last tiles lack."""

import math

import torch

from .dense import wide


def load(x, first, size):
    """Return rows of a tile from (.., n, C), 0 beyond the last."""
    part = x[..., first : first + size, :]
    return torch.nn.functional.pad(part, (0, 0, 0, size - part.shape[-2]))


def tiles(n, size):
    """Return where each tile begins."""
    return range(0, n, size)


class Tiled:
    """Tiles of ROWS queries and COLUMNS keys; no more than one of them is held at a time."""

    ROWS, COLUMNS = 16, 32

    def forward(self, case):
        """Return o and lse by an online softmax over the tiles of keys."""
        q, k, v = self.read(case)
        o, lse = q.new_zeros(*q.shape[:-1], v.shape[-1]), q.new_zeros(q.shape[:-1])
        for i in tiles(case.N, self.ROWS):
            top = q.new_full((case.B, case.H, self.ROWS, 1), -math.inf)
            total, out = torch.zeros_like(top), q.new_zeros(case.B, case.H, self.ROWS, v.shape[-1])
            for j in tiles(case.M, self.COLUMNS):
                s = self.scores(case, q, k, i, j)
                higher = torch.maximum(top, s.amax(dim=-1, keepdim=True))
                safe = higher.masked_fill(higher == -math.inf, 0.0)
                p, shrink = self.exp(s - safe), self.exp(top - safe)
                total = total * shrink + p.sum(dim=-1, keepdim=True)
                out = out * shrink + p @ load(v, j, self.COLUMNS)
                top = higher
            n = min(self.ROWS, case.N - i)
            empty = total == 0
            o[:, :, i : i + n] = (out / total.masked_fill(empty, 1.0))[:, :, :n]
            lse[:, :, i : i + n] = self.finish(top, total)[:, :, :n, 0]
        return {"o": o.to(case.q.dtype), "lse": lse, "exact_o": o}

    def read(self, case):
        """Return q, k and v in the wide type, with a head of keys for each head of queries."""
        group = case.H // case.H_kv
        return wide(case.q), *(wide(x).repeat_interleave(group, dim=1) for x in (case.k, case.v))

    def exp(self, x):
        """Return the exponential that scores go through."""
        return torch.exp(x)

    def finish(self, top, total):
        """Return lse from the largest score and the sum."""
        return top + torch.log(total)

    def start(self, case):
        """Return the position of query 0."""
        return case.M - case.N if case.query_start is None else case.query_start

    def bias_of(self, case, i, j):
        """Return the bias of a tile, 0 beyond the last key or query."""
        if case.bias is None:
            return self.from_table(case, i, j) if case.table is not None else 0.0
        b = torch.broadcast_to(wide(case.bias), (*case.bias.shape[:-2], case.N, case.M))
        part = b[..., i : i + self.ROWS, j : j + self.COLUMNS]
        return torch.nn.functional.pad(
            part, (0, self.COLUMNS - part.shape[-1], 0, self.ROWS - part.shape[-2])
        )

    def offsets(self, case, i, j):
        """Return key position minus query position in a tile."""
        keys, queries = j + torch.arange(self.COLUMNS), i + torch.arange(self.ROWS)
        return keys - queries[:, None] - self.start(case)

    def bucket(self, case, offset):
        """Return the row of each offset: those of a table of clipped ones."""
        reach = (case.table.shape[-1] - 1) // 2
        return offset.clamp(-reach, reach) + reach

    def from_table(self, case, i, j):
        """Return the bias that a tile gathers."""
        return wide(case.table)[:, self.bucket(case, self.offsets(case, i, j))]

    def visible(self, case, i, j):
        """Return True where a pair of a tile exists and is allowed."""
        rows, columns = i + torch.arange(self.ROWS)[:, None], j + torch.arange(self.COLUMNS)
        there = (rows < case.N) & (columns < case.M)
        return there & (columns <= rows + self.start(case)) if case.causal else there

    def product(self, case, q, k, i, j):
        """Return the scaled product of a tile."""
        return case.scale * (load(q, i, self.ROWS) @ load(k, j, self.COLUMNS).mT)

    def scores(self, case, q, k, i, j):
        """Return the scores of a tile, -inf where a pair does not exist."""
        s = self.product(case, q, k, i, j) + self.bias_of(case, i, j)
        return s.masked_fill(~self.visible(case, i, j), -math.inf)

    def weights(self, case, q, k, lse, i, j):
        """Return the weights of a tile again, from lse."""
        top = load(lse[..., None], i, self.ROWS)
        p = self.exp(self.scores(case, q, k, i, j) - top.masked_fill(top == -math.inf, 0.0))
        return p.masked_fill(~self.visible(case, i, j), 0.0)

    def delta(self, case, saved):
        """Return do.o of each query."""
        return (wide(case.do) * saved["exact_o"]).sum(dim=-1)

    def backward(self, case, saved):
        """Return every gradient, each tile adding to its own."""
        q, k, v = self.read(case)
        do, delta = wide(case.do), self.delta(case, saved)
        if case.dlse is not None:
            delta = delta - wide(case.dlse)
        got = self.buffers(case, q, k, v)
        for i in self.query_tiles(case):
            for j in tiles(case.M, self.COLUMNS):
                p = self.weights(case, q, k, saved["lse"], i, j)
                dp = load(do, i, self.ROWS) @ load(v, j, self.COLUMNS).mT
                ds = p * (dp - load(delta[..., None], i, self.ROWS))
                self.add_tile(case, got, (q, k, do), p, ds, i, j)
        return self.results(case, got)

    def query_tiles(self, case):
        """Return where each tile of queries begins."""
        return tiles(case.N, self.ROWS)

    def buffers(self, case, q, k, v):
        """Return zeros to add to."""
        got = {"dq": torch.zeros_like(q), "dk": torch.zeros_like(k), "dv": torch.zeros_like(v)}
        if case.table is not None:
            got["dtable"] = torch.zeros(case.H, case.table.shape[-1], dtype=q.dtype)
        if case.bias is not None:
            got["dbias"] = torch.zeros(case.B, case.H, case.N, case.M, dtype=q.dtype)
        return got

    def add_tile(self, case, got, read, p, ds, i, j):
        """Add what a tile gives to every gradient."""
        q, k, do = read
        n, m = min(self.ROWS, case.N - i), min(self.COLUMNS, case.M - j)
        got["dq"][:, :, i : i + n] += (case.scale * ds @ load(k, j, self.COLUMNS))[:, :, :n]
        got["dk"][:, :, j : j + m] += (case.scale * ds.mT @ load(q, i, self.ROWS))[:, :, :m]
        got["dv"][:, :, j : j + m] += (p.mT @ load(do, i, self.ROWS))[:, :, :m]
        if "dtable" in got:
            self.scatter(case, got["dtable"], ds, i, j)
        if "dbias" in got:
            got["dbias"][:, :, i : i + n, j : j + m] = ds[:, :, :n, :m]

    def scatter(self, case, dtable, ds, i, j):
        """Add a tile to the rows of the table."""
        row = self.bucket(case, self.offsets(case, i, j))
        dtable.index_add_(1, row.flatten(), ds.sum(dim=0).flatten(1).to(dtable.dtype))

    def results(self, case, got):
        """Return the gradients in the types of their inputs."""
        for name in ("dk", "dv"):
            got[name] = got[name].unflatten(1, (case.H_kv, -1)).sum(dim=2)
        if case.table is not None and case.table.shape[0] == 1:
            got["dtable"] = got["dtable"].sum(dim=0, keepdim=True)
        types = {"dtable": case.table, "dbias": case.bias}
        done = {}
        for name, x in got.items():
            done[name] = case.out(name) if name != "dbias" else torch.empty_like(x, dtype=case.bias.dtype)
            done[name].copy_(x.to(types.get(name, case.q).dtype))
        return done
