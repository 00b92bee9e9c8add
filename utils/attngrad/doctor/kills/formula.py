"""Checks against central differences, and against the formula on shapes and options that are awkward."""

from dataclasses import replace
from typing import Any

import numpy as np

from attngrad.checks import STEP
from attngrad.doctor.case import Case
from attngrad.doctor.judging import oracle
from attngrad.doctor.kills import cases
from attngrad.doctor.kills.record import Make, any_differ, check
from attngrad.offsets import ClipMap

RTOL = 1e-6


def _off(make: Make, case: Case, *names: str) -> bool:
    """Say whether some gradient differs from central differences in a random direction of its input."""
    subject = make()
    got = subject(case)
    for name in names:
        t, above, below = cases.kept(case, name, lambda name=name: _beside(case, name[1:]))
        high, low = _loss(case, subject(above)), _loss(case, subject(below))
        claimed = float((got[name] * t).sum())
        if not abs((high - low) / (2.0 * STEP) - claimed) <= RTOL * max(abs(high), 1.0):
            return True
    return False


def _loss(case: Case, got: dict[str, np.ndarray]) -> float:
    """Return the pairing of the outputs with the cotangents of a case."""
    through_lse = 0.0 if case.dlse is None else float((got["lse"] * case.dlse).sum())
    return float((got["o"] * case.do).sum()) + through_lse


def _beside(case: Case, name: str) -> tuple[Any, Case, Case]:
    """Return a direction of an input, and the cases a step above and below."""
    x = getattr(case, name)
    t = np.random.default_rng(7).standard_normal(np.shape(x))
    ends = [x + sign * STEP * t for sign in (1.0, -1.0)]
    ends = [float(end) if name == "scale" else end for end in ends]
    return t, *(replace(case, **{name: end}) for end in ends)


@check("n", "differences", "dq, dk and dv agree with central differences")
def differences(make: Make) -> bool:
    """Say whether a gradient of q, k or v is off; one case has as many features of a value as keys."""
    masked = cases.kept(cases.plain(), "masked", lambda: replace(cases.plain(), mask=cases.mask()))
    ran = (cases.plain(), masked, cases.tabled(causal=True), cases.biased(D_v=cases.M))
    # Beside the lowest numbers products vanish, so that differences show dv alone.
    lowest = cases.kept(cases.plain(), "lowest row", _lowest)
    return any(_off(make, case, "dq", "dk", "dv") for case in ran) or _off(make, lowest, "dv")


def _lowest() -> Case:
    """Return a case with a query whose biases are all the lowest number of float32."""
    case = cases.biased("1hnm")
    bias = case.bias.copy()
    bias[..., 2, :] = float(np.finfo(np.float32).min)
    return replace(case, bias=bias)


@check("o", "differences-bias", "so does dbias, shared or not, in and out of the scale")
def differences_bias(make: Make) -> bool:
    """Say whether a gradient of a bias is off."""
    shapes = ("bhnm", "1hnm", "b1nm", "11nm")
    square, inside = cases.biased(N=cases.M), cases.biased("bhnm", bias_inside_scale=True)
    return any(_off(make, case, "dbias") for case in (*map(cases.biased, shapes), square, inside))


@check("p", "differences-table", "so does that of a table, of a shared one, and of slopes")
def differences_table(make: Make) -> bool:
    """Say whether a gradient of a table or of slopes is off."""
    ran = (cases.tabled(), cases.tabled(shared=True), cases.tabled(N=7), cases.far()[2])
    return any(_off(make, case, "dtable") for case in ran)


@check("q", "differences-scale", "so does that of the scale")
def differences_scale(make: Make) -> bool:
    """Say whether the gradient of the scale is off."""
    return _off(make, cases.plain(), "dscale")


def _reported(make: Make, *ran: Case) -> bool:
    """Say whether some answer differs from the formula."""
    subject = make()
    return any(any_differ(subject(case), oracle.answers(case)) for case in ran)


@check("r", "sink", "beside a sink all answers agree with the formula")
def sink(make: Make) -> bool:
    """Say whether an answer beside a sink is wrong."""
    return _reported(make, cases.biased("1hnm", extras=("sink", "dlse")))


@check("s", "lse", "so do they with a cotangent of lse")
def lse(make: Make) -> bool:
    """Say whether lse, or what comes back through it, is wrong."""
    return _reported(make, cases.biased("1hnm", extras=("dlse",)))


@check("t", "cap", "so do they under a cap on the scores, and on the product")
def cap(make: Make) -> bool:
    """Say whether an answer under a cap is wrong."""
    on_product = cases.biased("1hnm", softcap=1.3, softcap_on="product")
    return _reported(make, cases.biased("1hnm", softcap=1.3), on_product)


@check("u", "dropout", "so do they under dropout by a given mask")
def dropout(make: Make) -> bool:
    """Say whether an answer under dropout is wrong."""
    return _reported(make, cases.biased("1hnm", dropout=0.3))


@check("v", "tails", "so do they for lengths that no block divides")
def tails(make: Make) -> bool:
    """Say whether an answer is wrong where the last blocks are not full."""
    sizes = {"N": 21, "M": 37, "H_kv": cases.H}
    return _reported(make, cases.tabled(**sizes), cases.biased(**sizes))


@check("w", "lengths", "so do they for N = M and N != M, causal, in both alignments, and packed")
def lengths(make: Make) -> bool:
    """Say whether an answer is wrong for as many keys as queries, for more, fewer, or packed sequences."""
    square = cases.kept(cases.plain(), "square", lambda: cases.drawn(sizes={"N": 6, "M": 6, "H_kv": cases.H}))
    packed = cases.kept(cases.plain(), "packed rows", _packed)
    causal = [cases.tabled(causal=True, **told) for told in ({}, {"query_start": 0}, {"N": 9})]
    return _reported(make, square, *causal, packed)


def _packed() -> Case:
    """Return packed sequences whose rows count from the beginning of each."""
    offset = np.concatenate([np.arange(3), np.arange(5)])
    row = ClipMap(6).of(offset[None, :] - offset[:, None])
    case = cases.drawn(sizes={"N": 8, "M": 8}, map=ClipMap(6), lengths=(3, 5))
    return replace(case, row=row)


@check("x", "strides", "so do they for cotangents transposed, sliced or of stride 0")
def strides(make: Make) -> bool:
    """Say whether an answer depends on how do lies in memory."""
    return _reported(make, *cases.kept(cases.plain(), "strides", _strided))


def _strided() -> tuple[Case, ...]:
    """Return cases whose cotangent is transposed, sliced or expanded."""
    case = cases.biased("1hnm")
    expanded = replace(case, do=np.broadcast_to(case.do[..., :1], case.do.shape).copy(), strides="expanded")
    return replace(case, strides="transposed"), replace(case, strides="sliced"), expanded


@check("y", "table-alone", "where the table alone is trained its gradient is not 0")
def table_alone(make: Make) -> bool:
    """Say whether the table gets nothing."""
    tables = cases.kept(cases.plain(), "alone", _alone)
    return any(not np.abs(make()(case).get("dtable", np.zeros(1))).max() > 1e-6 for case in tables)


def _alone() -> tuple[Case, ...]:
    """Return cases of which only the gradient of the table, or of the slopes, is wanted."""
    return tuple(replace(case, wants=("dtable",)) for case in (cases.tabled(), cases.far()[2]))


@check("z", "far-keys", "buckets, offsets and slopes of far keys give the right output")
def far_keys(make: Make) -> bool:
    """Say whether the output of some pair reads the wrong row."""
    ran = (*cases.far(), cases.tabled(N=4, M=12))
    return any(any_differ({"o": make()(case)["o"]}, {"o": oracle.answers(case)["o"]}) for case in ran)
