"""Attention in torch whose forward pass is written out and whose gradients come from autograd: right."""

import math
from types import SimpleNamespace

import torch

from .dense import wide

LEAVES = ("q", "k", "v", "bias", "table", "sink")


class Traced:
    """What a mistake of the forward pass does to the gradients follows by itself."""

    def forward(self, case):
        """Return o and lse, and the leaves for the backward pass."""
        inputs = {name: getattr(case, name) for name in LEAVES}
        leaves = {name: x.detach().clone().requires_grad_() for name, x in inputs.items() if x is not None}
        leaves["scale"] = torch.tensor(case.scale, dtype=wide(case.q).dtype, requires_grad=True)
        c = SimpleNamespace(**{name: wide(leaves[name]) if name in leaves else None for name in LEAVES})
        c.scale, c.leaves = leaves["scale"], leaves
        c.k, c.v = self.expand(case, c.k), self.expand(case, c.v)
        s = self.mask(case, self.scores(case, c))
        c.o = self.output(case, c, self.weights(case, c, s)).to(case.q.dtype)
        c.lse = self.lse(case, c, s)
        return {"o": c.o.detach(), "lse": c.lse.detach(), "graph": c}

    def expand(self, case, x):
        """Repeat each head of keys for the query heads of its group."""
        return x.repeat_interleave(case.H // case.H_kv, dim=1)

    def rows(self, case):
        """Return the row of each pair."""
        return case.row

    def offsets(self, case):
        """Return key position minus query position."""
        return torch.arange(case.M) - torch.arange(case.N)[:, None] - self.start(case)

    def start(self, case):
        """Return the position of query 0."""
        return case.M - case.N if case.query_start is None else case.query_start

    def bias(self, case, c):
        """Return the bias, 0 without one."""
        if c.table is None:
            return 0.0 if c.bias is None else c.bias
        return -c.table[:, None, None] * case.row if c.table.ndim == 1 else c.table[:, self.rows(case)]

    def product(self, case, c):
        """Return scale q.k."""
        return c.scale * (c.q @ c.k.mT)

    def cap(self, case, x):
        """Return the capped scores."""
        return x if case.softcap is None else case.softcap * torch.tanh(x / case.softcap)

    def scores(self, case, c):
        """Return the scores."""
        if case.softcap_on == "product":
            return self.cap(case, self.product(case, c)) + self.bias(case, c)
        return self.cap(case, self.product(case, c) + self.bias(case, c))

    def visible(self, case):
        """Return True where the key is not after the query."""
        return self.offsets(case) <= 0

    def mask(self, case, s):
        """Hide what may not be attended to."""
        if case.causal:
            s = s.masked_fill(~self.visible(case), -math.inf)
        return s if case.mask is None else s.masked_fill(~case.mask, -math.inf)

    def logits(self, case, c, s):
        """Return the scores and beside them the sink."""
        if c.sink is None:
            return s
        return torch.cat([s, c.sink[:, None, None].expand(*s.shape[:-1], 1)], dim=-1)

    def weights(self, case, c, s):
        """Return the weights."""
        return torch.softmax(self.logits(case, c, s), dim=-1)[..., : case.M]

    def lse(self, case, c, s):
        """Return lse."""
        return torch.logsumexp(self.logits(case, c, s), dim=-1)

    def dropped(self, case, p):
        """Return the weights after dropout."""
        return p if case.keep is None else p * case.keep / (1.0 - case.dropout)

    def output(self, case, c, p):
        """Return the output."""
        return self.dropped(case, p) @ c.v

    def backward(self, case, saved):
        """Return the gradients of all leaves, 0 for one that the forward pass does not read."""
        c = saved["graph"]
        outputs, cotangents = [c.o], [case.do]
        if case.dlse is not None:
            outputs, cotangents = [c.o, c.lse], [case.do, case.dlse.to(c.lse.dtype)]
        grads = torch.autograd.grad(outputs, list(c.leaves.values()), cotangents, materialize_grads=True)
        return {f"d{name}": x for name, x in zip(c.leaves, grads, strict=True)}
