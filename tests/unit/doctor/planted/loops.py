"""Attention in NumPy, one head after the other with the Jacobian's formula in each row: right."""

import numpy as np


class Loops:
    """A head at a time, in float64 inside whatever the type of the arrays."""

    def forward(self, case):
        """Return o and the weights of all pairs."""
        o = np.zeros((case.B, case.H, case.N, case.D_v))
        p = np.zeros((case.B, case.H, case.N, case.M))
        for b in range(case.B):
            for h in range(case.H):
                q, k, v = self.head(case, b, h)
                p[b, h] = self.softmax(case, self.scores(case, q, k, b, h))
                o[b, h] = self.output(case, p[b, h], v)
        return {"o": o.astype(case.q.dtype), "p": p}

    def group(self, case, h):
        """Return the head of keys that query head h reads."""
        return h // (case.H // case.H_kv)

    def head(self, case, b, h):
        """Return q (N, D), k (M, D) and v (M, D_v) of a head."""
        g = self.group(case, h)
        return case.q[b, h].astype(float), case.k[b, g].astype(float), case.v[b, g].astype(float)

    def scores(self, case, q, k, b, h):
        """Return the scores (N, M), -inf where a query may not attend."""
        s = case.scale * (q @ k.T) + self.bias(case, b, h)
        return np.where(self.allowed(case, b, h), s, -np.inf)

    def bias(self, case, b, h):
        """Return the bias (N, M) of a head."""
        if case.table is not None:
            return self.positional(case, h)
        if case.bias is None:
            return 0.0
        full = np.broadcast_to(case.bias, (case.B, case.H, case.N, case.M))
        return full[b, h].astype(float)

    def offsets(self, case):
        """Return key position minus query position."""
        start = case.M - case.N if case.query_start is None else case.query_start
        return np.arange(case.M)[None, :] - np.arange(case.N)[:, None] - start

    def positional(self, case, h):
        """Return the bias of a row of the table for each pair, or of slopes times distances."""
        if case.table.ndim == 1:
            return -float(case.table[h]) * np.abs(self.offsets(case))
        return case.table[h if len(case.table) > 1 else 0].astype(float)[self.rows(case)]

    def rows(self, case):
        """Return the row of each pair."""
        return case.row

    def allowed(self, case, b, h):
        """Return True where a query may attend."""
        allowed = np.ones((case.N, case.M), dtype=bool)
        if case.causal:
            allowed = self.causal(case)
        if case.mask is not None:
            allowed = allowed & np.broadcast_to(case.mask, (case.B, case.H, case.N, case.M))[b, h]
        return allowed

    def causal(self, case):
        """Return True where the key is not after the query."""
        return self.offsets(case) <= 0

    def softmax(self, case, s):
        """Return the weights of each row, 0 where there is no key."""
        top = s.max(axis=-1, keepdims=True)
        e = np.exp(s - np.where(np.isfinite(top), top, 0.0))
        total = e.sum(axis=-1, keepdims=True)
        return e / np.where(total > 0, total, 1.0)

    def output(self, case, p, v):
        """Return the output of a head."""
        return p @ v

    def backward(self, case, saved):
        """Return every gradient."""
        got = {"dq": np.zeros(case.q.shape), "dk": np.zeros(case.k.shape), "dv": np.zeros(case.v.shape)}
        got["dscale"] = np.zeros(())
        if case.table is not None:
            got["dtable"] = np.zeros(case.table.shape)
        if case.bias is not None:
            got["dbias"] = np.zeros((case.B, case.H, case.N, case.M))
        for b in range(case.B):
            for h in range(case.H):
                self.head_backward(case, saved["p"][b, h], got, b, h)
        types = {"dtable": case.table, "dbias": case.bias}
        return {name: np.asarray(x, dtype=types.get(name, case.q).dtype) for name, x in got.items()}

    def head_backward(self, case, p, got, b, h):
        """Add what a head gives to every gradient."""
        q, k, v = self.head(case, b, h)
        do, g = case.do[b, h].astype(float), self.group(case, h)
        ds = self.through_softmax(case, p, do @ v.T)
        got["dq"][b, h] += case.scale * (ds @ k)
        got["dk"][b, g] += case.scale * (ds.T @ q)
        got["dv"][b, g] += self.dv(case, p, do)
        got["dscale"] += (ds * (q @ k.T)).sum()
        if "dtable" in got:
            self.scatter(case, got["dtable"], ds, b, h)
        if "dbias" in got:
            got["dbias"][b, h] = self.dbias(case, ds)

    def dv(self, case, p, do):
        """Return the cotangent of the values of a head."""
        return p.T @ do

    def through_softmax(self, case, p, dp):
        """Return the cotangent of the scores of a head."""
        return p * (dp - (p * dp).sum(axis=-1, keepdims=True))

    def dbias(self, case, ds):
        """Return the cotangent of the bias of a head."""
        return ds

    def scatter(self, case, dtable, ds, b, h):
        """Add the pairs of a head to the rows that they read, or to its slope."""
        if case.table.ndim == 1:
            dtable[h] -= (np.abs(self.offsets(case)) * ds).sum()
        else:
            np.add.at(dtable[h if len(dtable) > 1 else 0], self.rows(case), ds)
