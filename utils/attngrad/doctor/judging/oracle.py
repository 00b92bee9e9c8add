"""The right answers of a case, and which of its options do not act on it."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from attngrad.doctor.case import Case
from attngrad.doctor.judging import bounds
from attngrad.doctor.judging.exact import answers

__all__ = ["answers", "not_exercised", "without"]

ACTS = {"float64": 100.0, "float32": 100.0, "float16": 4.0, "bfloat16": 4.0}  # times the healthy bound
VACUOUS = 4.0


def not_exercised(case: Case) -> tuple[str, ...]:
    """Return the options of ``case.exercises`` that change no answer, and answers too small to judge.

    An option acts if the answers without it differ by 100 times what rounding explains, 4 times in types of
    16 bits. An answer can be judged if some entry is 4 times its bound: then a zero in its place fails.
    """
    exact = answers(case)
    bound = bounds.healthy(case, exact)
    idle = [option for option in case.exercises if not _acts(case, option, exact, bound)]
    small = [name for name, x in exact.items() if name != "lse" and _vacuous(x, bound[name])]
    return (*idle, *(f"{name}: too small to judge" for name in small))


def _vacuous(exact: np.ndarray, bound: np.ndarray) -> bool:
    """Say whether zero would pass for an answer; one that is exactly zero is meant to be."""
    return bool(np.any(exact != 0.0)) and not np.any(np.abs(exact) > VACUOUS * bound)


def _acts(case: Case, option: str, exact: dict[str, np.ndarray], bound: dict[str, np.ndarray]) -> bool:
    """Say whether every way to do without an option changes some answer."""
    return all(_differs(answers(other), exact, bound, ACTS[case.dtype]) for other in without(case, option))


def _differs(
    other: dict[str, np.ndarray], exact: dict[str, np.ndarray], bound: dict[str, np.ndarray], factor: float
) -> bool:
    """Say whether some answer other than lse differs by a multiple of its bound."""

    def changed(name: str) -> bool:
        alike = name in other and other[name].shape == exact[name].shape
        return alike and bool(np.any(np.abs(other[name] - exact[name]) > factor * bound[name]))

    return any(changed(name) for name in exact if name != "lse")


def without(case: Case, option: str) -> Iterator[Case]:
    """Yield the case as it would be if an option did nothing, in each way in which that can be.

    Raises: KeyError for an option that no case exercises.
    """
    yield from WITHOUT[option](case)


def _fields(**fields: object) -> Callable[[Case], Iterator[Case]]:
    """Return a function that gives a case with other fields."""

    def changed(case: Case) -> Iterator[Case]:
        yield replace(case, **fields)

    return changed


def _no_sink(case: Case) -> Iterator[Case]:
    """Yield the case without a sink."""
    yield replace(case, sink=None, wants=tuple(name for name in case.wants if name != "dsink"))


def _other_start(case: Case) -> Iterator[Case]:
    """Yield the case with either alignment in the place of a position of its own."""
    for start in (0, None):
        yield replace(case, query_start=start)


def _no_table(case: Case) -> Iterator[Case]:
    """Yield the case with a table of zeros."""
    yield replace(case, table=np.zeros_like(case.table))


def _no_bias(case: Case) -> Iterator[Case]:
    """Yield the case with a bias of zero where it hides nothing."""
    yield replace(case, bias=np.where(np.abs(case.bias) < 1e4, 0.0, case.bias))


def _shown(case: Case) -> Iterator[Case]:
    """Yield the case with a bias of zero where it hides a key."""
    yield replace(case, bias=np.where(np.abs(case.bias) < 1e4, case.bias, 0.0))


def _other_groups(case: Case) -> Iterator[Case]:
    """Yield the case in which query head h looks at head h mod H_kv."""
    heads = np.arange(case.sizes["H"]) % case.sizes["H_kv"]
    yield replace(case, k=case.k[:, heads], v=case.v[:, heads])


def _bias_outside(case: Case) -> Iterator[Case]:
    """Yield the case with the bias on the other side of the scale."""
    yield replace(case, bias_inside_scale=not case.bias_inside_scale)


WITHOUT: dict[str, Callable[[Case], Iterator[Case]]] = {
    "mask": _fields(mask=None),
    "padding": _fields(mask=None),
    "empty-rows": _fields(mask=None),
    "hidden": _shown,
    "lowest": _shown,
    "packed": _fields(lengths=()),
    "dropout": _fields(keep=None, dropout=0.0),
    "dlse": _fields(dlse=None),
    "softcap": _fields(softcap=None),
    "softcap-product": _fields(softcap=None),
    "sink": _no_sink,
    "causal": _fields(causal=False),
    "query-start": _other_start,
    "table": _no_table,
    "bias": _no_bias,
    "gqa": _other_groups,
    "bias-inside-scale": _bias_outside,
}
