"""Tests that people use and that let most mistakes pass."""

from dataclasses import replace

import numpy as np

from attngrad.doctor.case import Case
from attngrad.doctor.judging import oracle
from attngrad.doctor.kills import cases
from attngrad.doctor.kills.record import Make, any_differ, check


@check("A", "sum-loss", "the sum of the weights as loss: all answers agree to 1e-3", naive=True)
def sum_loss(make: Make) -> bool:
    """Say whether an answer is wrong where the loss is constant, so that most gradients are zero."""
    case = cases.kept(cases.plain(), "ones", _ones)
    got, want = make()(case), dict(oracle.answers(case))
    del want["lse"]
    return any(not np.allclose(got[name], x, rtol=1e-3, atol=1e-3) for name, x in want.items())


def _ones() -> Case:
    """Return a case whose values and cotangents are ones: each output is the sum of a row of weights."""
    case = cases.biased("1hnm", H_kv=cases.H)
    return replace(case, v=np.ones(case.v.shape), do=np.ones(case.do.shape))


@check("B", "mean-loss", "a square case, a mean as loss, gradients to an absolute 1e-2", naive=True)
def mean_loss(make: Make) -> bool:
    """Say whether some gradient is off by more than 1e-2, those of a mean being smaller."""
    case = cases.kept(cases.plain(), "mean", _mean)
    got, want = make()(case), oracle.answers(case)
    names = [name for name in want if name not in ("o", "lse")]
    return any(not np.allclose(got[name], want[name], rtol=0.0, atol=1e-2) for name in names)


def _mean() -> Case:
    """Return a square case of 16 tokens and random weights of the loss, divided by their number."""
    case = cases.biased("1hnm", N=16, M=16, H_kv=cases.H)
    return replace(case, do=case.do / case.do.size)


@check("C", "shapes", "every answer has the shape that it should have", naive=True)
def shapes(make: Make) -> bool:
    """Say whether some shape is wrong."""
    ran = (cases.plain(), cases.biased("1hnm"), cases.tabled())
    pairs = [(make()(case), oracle.answers(case)) for case in ran]
    return any(x.shape != want[name].shape for got, want in pairs for name, x in got.items())


@check("D", "one-head", "one batch, one head, the scale 1, as many queries as keys", naive=True)
def one_head(make: Make) -> bool:
    """Say whether an answer of the smallest case is wrong."""
    case = cases.tabled(B=1, H=1, H_kv=1, N=4, M=4, scale=1.0)
    return any_differ(make()(case), oracle.answers(case))


@check("E", "hard-mask", "a bias of 0 and -inf alone, and what it gives to the output", naive=True)
def hard_mask(make: Make) -> bool:
    """Say whether the output beside a hard mask is wrong."""
    case = cases.kept(cases.plain(), "hard", _hard)
    return any_differ({"o": make()(case)["o"]}, {"o": oracle.answers(case)["o"]})


def _hard() -> Case:
    """Return a case whose bias hides keys and does nothing else."""
    case = cases.biased("b1nm", H_kv=cases.H)
    return replace(case, bias=np.where(cases.mask(), 0.0, -np.inf))


@check("F", "forward", "the output alone agrees with the formula", naive=True)
def forward(make: Make) -> bool:
    """Say whether the output is wrong, whatever the gradients are."""
    case = cases.biased("1hnm")
    return any_differ({"o": make()(case)["o"]}, {"o": oracle.answers(case)["o"]})
