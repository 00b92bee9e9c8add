"""Small models with a bias table, right and wrong."""

import torch
from torch import nn

from attngrad.layers import ClipMap, RelativeBias, attention

ROW = torch.tensor(ClipMap(2)(7, 7, None))
X = torch.randn(2, 2, 7, 4, generator=torch.manual_seed(0))
W = torch.randn(7, 4, generator=torch.manual_seed(1))


class Damaged(torch.autograd.Function):
    """The identity, with a wrong backward pass."""

    @staticmethod
    def forward(ctx, x, damage):
        ctx.damage = damage
        return x.clone()

    @staticmethod
    def backward(ctx, cotangent):
        return ctx.damage(cotangent), None


class Layer(nn.Module):
    """One attention with projected queries."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(4, 4)

    def forward(self, x, bias):
        s = self.project(x) @ x.transpose(-1, -2) + bias
        return torch.softmax(s.float(), dim=-1).type_as(x) @ x


class Model(nn.Module):
    """Two layers that share a table (H, R); ``used`` is what they read of it."""

    def __init__(self, used=lambda table: table, dropout=0.0):
        super().__init__()
        torch.manual_seed(0)
        self.layers, self.used = nn.ModuleList([Layer(), Layer()]), used
        self.table = nn.Parameter(torch.randn(2, 5))
        self.norm, self.drop = nn.BatchNorm2d(2), nn.Dropout(dropout)

    def forward(self, x):
        bias = self.used(self.table)[:, ROW]
        for layer in self.layers:
            x = self.drop(self.norm(layer(x, bias)))
        return x


def loss_of(model):
    """Return the loss of a model as a closure."""
    return lambda: (model(X) * W).sum()


def kinds(report):
    """Return the kinds of what was found."""
    return [finding.kind for finding in report.findings]


class Stack(nn.Module):
    """Two layers of `attention` with one bias, made once or for each."""

    def __init__(self, once):
        super().__init__()
        torch.manual_seed(0)
        self.bias, self.once = RelativeBias(2, ClipMap(2)), once
        nn.init.normal_(self.bias.table)
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])

    def forward(self, x):
        bias = self.bias(7, 7)
        for layer in self.layers:
            x = attention(layer(x), x, x, bias if self.once else self.bias(7, 7))
        return x


def times(factor):
    """Return a use of the table whose gradient has a factor."""
    return lambda table: Damaged.apply(table, lambda g: factor * g)


def without_last_row(g):
    """Return a gradient without its last column."""
    return torch.cat([g[:, :-1], torch.zeros_like(g[:, -1:])], dim=1)
