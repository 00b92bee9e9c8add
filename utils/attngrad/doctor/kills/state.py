"""Subjects with the mistakes of `attngrad.mistakes.whole.STATE`, which show between calls."""

from dataclasses import replace

import numpy as np

from attngrad.doctor.case import Case
from attngrad.doctor.kills.record import Answers, Make, Subject
from attngrad.mistakes.whole import right


def stale_table() -> Subject:
    """Return a subject that holds a table for each shape."""
    held: dict[tuple[int, ...], np.ndarray] = {}

    def answers(case: Case) -> Answers:
        if case.table is None:
            return right(case).answers()
        table = held.setdefault(case.table.shape, case.table.copy())
        return right(replace(case, table=table)).answers()

    return answers


def accumulated_output() -> Subject:
    """Return a subject that holds a dtable for each shape."""
    held: dict[tuple[int, ...], np.ndarray] = {}

    def answers(case: Case) -> Answers:
        got = dict(right(case).answers())
        if "dtable" in got:
            total = held.get(case.table.shape, 0.0) + got["dtable"]
            held[case.table.shape] = got["dtable"] = total
        return got

    return answers


def uninitialised_accumulator() -> Subject:
    """Return a subject whose dv begins from other numbers at each call."""
    calls = iter(range(1, 1 << 30))

    def answers(case: Case) -> Answers:
        got = dict(right(case).answers())
        if "dv" in got:
            got["dv"] = got["dv"] + np.random.default_rng(next(calls)).standard_normal(got["dv"].shape)
        return got

    return answers


def unordered_sum() -> Subject:
    """Return a subject that adds four parts of dv, in an order of its own at each call."""
    calls = iter(range(1, 1 << 30))

    def answers(case: Case) -> Answers:
        got = dict(right(case).answers())
        if "dv" in got:
            order = np.random.default_rng(next(calls)).permutation(4)
            parts = np.stack([got["dv"] * part for part in (0.1, 0.2, 0.3, 0.4)])
            got["dv"] = parts[order].cumsum(axis=0)[-1]
        return got

    return answers


def overwritten_input() -> Subject:
    """Return a subject that scales q in place, if it may be written to."""

    def answers(case: Case) -> Answers:
        got = {name: x.copy() for name, x in right(case).answers().items()}
        if case.q.flags.writeable:
            case.q[...] *= case.scale
        return got

    return answers


MAKERS: dict[str, Make] = {
    "table-bias-stale": stale_table,
    "output-accumulated-between-calls": accumulated_output,
    "accumulator-uninitialised": uninitialised_accumulator,
    "sum-order-not-fixed": unordered_sum,
    "input-overwritten": overwritten_input,
}
