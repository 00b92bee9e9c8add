"""Attention in torch, a chunk of queries at a time, the weights formed again in the backward pass: right.

Axes are (B, N, H, D), as flash attention has them.
"""

import torch

from .dense import wide


class Chunked:
    """Chunks of CHUNK queries against all keys, by einsum; no weights are kept between the passes."""

    CHUNK = 24

    def forward(self, case):
        """Return o (B, N, H, D_v) and lse (B, H, N)."""
        q, k, v = self.read(case)
        o, lse = [], []
        for part in self.chunks(case):
            s = self.scores(case, q, k, part)
            lse.append(torch.logsumexp(s, dim=-1))
            o.append(torch.einsum("bhnm,bmhe->bnhe", self.weights(s, lse[-1]), v))
        return {"o": torch.cat(o, dim=1).to(case.q.dtype), "lse": torch.cat(lse, dim=2)}

    def chunks(self, case):
        """Return the queries of each chunk."""
        return [slice(n, min(n + self.CHUNK, case.N)) for n in range(0, case.N, self.CHUNK)]

    def read(self, case):
        """Return q, k and v in the wide type, a head of keys for each head of queries."""
        q, k, v = (wide(x) for x in (case.q, case.k, case.v))
        group = case.H // case.H_kv
        return q, k.repeat_interleave(group, dim=2), v.repeat_interleave(group, dim=2)

    def bias(self, case, part):
        """Return the bias of a chunk."""
        if case.table is not None:
            return wide(case.table)[:, case.row[part]]
        b = torch.broadcast_to(wide(case.bias), (*case.bias.shape[:-2], case.N, case.M))
        return b[..., part, :]

    def hidden(self, case, part):
        """Return True where a key is after its query."""
        start = case.M - case.N if case.query_start is None else case.query_start
        queries = torch.arange(case.N)[part, None] + start
        return (torch.arange(case.M) > queries) & torch.tensor(case.causal)

    def scores(self, case, q, k, part):
        """Return the scores (B, H, n, M) of a chunk."""
        s = case.scale * torch.einsum("bnhd,bmhd->bhnm", q[:, part], k)
        if case.table is not None or case.bias is not None:
            s = s + self.bias(case, part)
        return s.masked_fill(self.hidden(case, part), -torch.inf)

    def weights(self, s, lse):
        """Return the weights of a chunk; a row without a key has none."""
        return torch.exp(s - lse.masked_fill(lse == -torch.inf, 0.0)[..., None])

    def backward(self, case, saved):
        """Return every gradient."""
        q, k, v = self.read(case)
        do = wide(case.do)
        dq, dk, dv, ds_of = [], torch.zeros_like(k), torch.zeros_like(v), []
        for part in self.chunks(case):
            p = self.weights(self.scores(case, q, k, part), saved["lse"][:, :, part])
            dp = torch.einsum("bnhe,bmhe->bhnm", do[:, part], v)
            ds = p * (dp - self.delta(case, saved, p, dp, part)[..., None])
            dq.append(case.scale * torch.einsum("bhnm,bmhd->bnhd", ds, k))
            dk += case.scale * torch.einsum("bhnm,bnhd->bmhd", ds, q[:, part])
            dv += torch.einsum("bhnm,bnhe->bmhe", p, do[:, part])
            ds_of.append(ds)
        return self.results(case, torch.cat(dq, dim=1), dk, dv, torch.cat(ds_of, dim=2))

    def delta(self, case, saved, p, dp, part):
        """Return the mean of dp in each row, less the cotangent of lse."""
        delta = (p * dp).sum(dim=-1)
        return delta if case.dlse is None else delta - wide(case.dlse)[:, :, part]

    def results(self, case, dq, dk, dv, ds):
        """Return the gradients in the types and shapes of their inputs."""
        dk, dv = (x.unflatten(2, (case.H_kv, -1)).sum(dim=3) for x in (dk, dv))
        got = {"dq": dq.to(case.q.dtype), "dk": dk.to(case.q.dtype), "dv": dv.to(case.q.dtype)}
        if case.table is not None:
            got["dtable"] = self.dtable(case, ds).to(case.table.dtype)
        if case.bias is not None:
            got["dbias"] = self.dbias(case, ds).to(case.bias.dtype)
        return got

    def dtable(self, case, ds):
        """Return the cotangent of the table, by one count for each head."""
        sums = torch.zeros(case.H, case.table.shape[-1], dtype=ds.dtype)
        sums.scatter_add_(1, case.row.flatten().expand(case.H, -1), ds.sum(dim=0).flatten(1))
        return sums if case.table.shape[0] > 1 else sums.sum(dim=0, keepdim=True)

    def dbias(self, case, ds):
        """Return the cotangent of the bias, summed to its shape."""
        stretched = tuple(axis for axis in range(-case.bias.ndim, 0) if case.bias.shape[axis] == 1)
        ds = ds.sum(dim=tuple(range(4 - case.bias.ndim))) if case.bias.ndim < 4 else ds
        return ds.sum(dim=stretched, keepdim=True) if stretched else ds
