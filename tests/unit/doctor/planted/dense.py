"""Attention in torch with the weights of all pairs at once, forward and backward by hand: right.

Each step is a method, so that a sick subject is this one with one step done wrong.
"""

from types import SimpleNamespace

import torch


def wide(x):
    """Return x in the type in which sums are taken: float64 for float64, float32 for all others."""
    return x if x.dtype == torch.float64 else x.float()


def capped(x, cap):
    """Return cap tanh(x / cap), and the derivative in each entry."""
    if cap is None:
        return x, torch.ones_like(x)
    t = torch.tanh(x / cap)
    return cap * t, 1 - t * t


class Dense:
    """All options of the doctor's cases, in float64, or in float32 with rounding at the end."""

    def forward(self, case):
        """Return o, lse and what the backward pass reads."""
        c = self.prepare(case)
        x, c.dx_cap = capped(self.product(case, c), case.softcap if case.softcap_on == "product" else None)
        s, c.ds_cap = capped(self.add_bias(case, c, x), case.softcap if case.softcap_on == "scores" else None)
        c.allowed = self.allowed(case)
        if c.b is not None:
            c.allowed = c.allowed & (c.b != -torch.inf)
        c.s = s.masked_fill(~c.allowed, -torch.inf)
        c.p, c.p_sink, lse = self.softmax(case, c)
        o = self.dropped(case, c.p) @ c.v
        return {"o": o.to(case.q.dtype), "lse": self.lse(case, c, lse), "state": c}

    def prepare(self, case):
        """Return q, k, v in the wide type, one head of keys for each head of queries, and the bias."""
        q, k, v = wide(case.q), self.expand(case, wide(case.k)), self.expand(case, wide(case.v))
        return SimpleNamespace(q=q, k=k, v=v, b=self.bias(case))

    def expand(self, case, x):
        """Repeat each head of keys for the query heads of its group."""
        return x.repeat_interleave(case.H // case.H_kv, dim=1)

    def reduce(self, case, dx):
        """Sum over the query heads of each group."""
        return dx.unflatten(1, (case.H_kv, case.H // case.H_kv)).sum(dim=2)

    def rows(self, case):
        """Return the row of each pair."""
        return case.row

    def bias(self, case):
        """Return the bias (., ., N, M), or None."""
        if case.table is None:
            return None if case.bias is None else wide(case.bias)
        table = wide(case.table)
        if table.ndim == 1:
            return -table[:, None, None] * self.rows(case)
        return table[:, self.rows(case)]

    def product(self, case, c):
        """Return scale q.k."""
        return case.scale * (c.q @ c.k.mT)

    def add_bias(self, case, c, x):
        """Return the scores before the cap."""
        if c.b is None:
            return x
        b = c.b.masked_fill(c.b == -torch.inf, 0.0)
        return x + (case.scale * b if case.bias_inside_scale else b)

    def start(self, case):
        """Return the position of query 0."""
        return case.M - case.N if case.query_start is None else case.query_start

    def allowed(self, case):
        """Return True where a query may attend."""
        allowed = torch.ones(case.N, case.M, dtype=torch.bool)
        if case.causal:
            allowed = torch.arange(case.M) <= torch.arange(case.N)[:, None] + self.start(case)
        if len(case.lengths):
            sequence = torch.repeat_interleave(torch.tensor(case.lengths))
            allowed = allowed & (sequence[:, None] == sequence)
        return allowed if case.mask is None else allowed & case.mask

    def sink(self, case, c):
        """Return the logit of the sink beside each row, -inf without one."""
        logit = torch.full((case.H,), -torch.inf) if case.sink is None else case.sink
        return logit.to(c.s.dtype)[:, None, None].expand(*c.s.shape[:-1], 1)

    def softmax(self, case, c):
        """Return the weights, that of the sink, and lse; a row without a key has weights 0 and lse -inf."""
        logits = torch.cat([c.s, self.sink(case, c)], dim=-1)
        lse = torch.logsumexp(logits, dim=-1)
        p = torch.softmax(logits, dim=-1).masked_fill(lse[..., None] == -torch.inf, 0.0)
        return p[..., :-1], p[..., -1], lse

    def lse(self, case, c, lse):
        """Return lse as it is handed out."""
        return lse

    def keep(self, case, p):
        """Return the factors of dropout."""
        return torch.ones_like(p) if case.keep is None else case.keep.to(p.dtype) / (1 - case.dropout)

    def dropped(self, case, p):
        """Return the weights after dropout."""
        return p * self.keep(case, p)

    def backward(self, case, saved):
        """Return every gradient."""
        c = saved["state"]
        c.do = wide(case.do)
        c.dv = self.dropped(case, c.p).mT @ c.do
        c.dp = self.through_dropout(case, c, c.do @ c.v.mT)
        c.delta = self.delta(case, c)
        c.ds = self.through_cap(case, c, self.through_softmax(case, c))
        c.dx = c.ds * c.dx_cap
        dk, dv = self.dk(case, c), c.dv
        grads = {"dq": self.dq(case, c), "dk": self.reduce(case, dk), "dv": self.reduce(case, dv)}
        grads |= {"dscale": self.dscale(case, c), "dsink": self.dsink(case, c)}
        if case.table is not None:
            grads["dtable"] = self.dtable(case, self.dbias(case, c))
        elif case.bias is not None:
            grads["dbias"] = self.dbias(case, c)
        return {name: None if x is None else self.round(case, name, x) for name, x in grads.items()}

    def round(self, case, name, x):
        """Return a gradient in the type of its input."""
        like = {"dbias": case.bias, "dtable": case.table, "dsink": case.sink}.get(name, case.q)
        return x.to(like.dtype)

    def through_dropout(self, case, c, dp):
        """Return the cotangent of the weights before dropout."""
        return dp * self.keep(case, c.p)

    def delta(self, case, c):
        """Return the mean of dp in each row."""
        return (c.p * c.dp).sum(dim=-1, keepdim=True)

    def dlse(self, case, c):
        """Return the cotangent of lse."""
        return 0.0 if case.dlse is None else wide(case.dlse)[..., None]

    def through_softmax(self, case, c):
        """Return the cotangent of the scores."""
        return c.p * (c.dp - c.delta + self.dlse(case, c))

    def through_cap(self, case, c, ds):
        """Return the cotangent before the cap on the scores."""
        return ds * c.ds_cap

    def dq(self, case, c):
        """Return the cotangent of the queries."""
        return case.scale * (c.dx @ c.k)

    def dk(self, case, c):
        """Return the cotangent of the keys, one for each head of queries."""
        return case.scale * (c.dx.mT @ c.q)

    def dbias(self, case, c):
        """Return the cotangent of the bias in the shape (B, H, N, M)."""
        return case.scale * c.ds if case.bias_inside_scale else c.ds

    def dtable(self, case, db):
        """Return the cotangent of a table, or of slopes."""
        if case.table.ndim == 1:
            return -(db * self.rows(case)).sum(dim=(0, 2, 3))
        summed = torch.zeros(case.H, case.table.shape[1], dtype=db.dtype)
        summed.index_add_(1, self.rows(case).flatten(), db.sum(dim=0).flatten(1))
        return summed if case.table.shape[0] > 1 else summed.sum(dim=0, keepdim=True)

    def dscale(self, case, c):
        """Return the cotangent of the scale."""
        dscale = (c.dx * (c.q @ c.k.mT)).sum()
        if case.bias_inside_scale and c.b is not None:
            dscale = dscale + (c.ds * c.b.masked_fill(c.b == -torch.inf, 0.0)).sum()
        return dscale

    def dsink(self, case, c):
        """Return the cotangent of the sink."""
        if case.sink is None:
            return None
        dlse = 0.0 if case.dlse is None else wide(case.dlse)
        return (c.p_sink * (dlse - c.delta[..., 0])).sum(dim=(0, 2))
