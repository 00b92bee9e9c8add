"""What a check of the kill table is, and how it compares."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from attngrad.doctor.case import Case

Answers = dict[str, np.ndarray]
Subject = Callable[[Case], Answers]
Make = Callable[[], Subject]


@dataclass(frozen=True)
class Check:
    """A test of an attention. ``rejects(make)`` says whether it rejects the subject that ``make()`` returns.

    ``letter`` is its column, ``text`` what it demands; ``naive`` are tests that people use and that cannot
    see much.
    """

    letter: str
    name: str
    text: str
    rejects: Callable[[Make], bool]
    naive: bool = False


CHECKS: dict[str, Check] = {}


def check(letter: str, name: str, text: str, naive: bool = False) -> Callable[[Any], Any]:
    """Return a decorator that records a check."""

    def record(rejects: Callable[[Make], bool]) -> Callable[[Make], bool]:
        CHECKS[name] = Check(letter, name, text, rejects, naive)
        return rejects

    return record


def differ(got: Any, want: Any, rtol: float = 1e-9, size: float = 0.0) -> bool:
    """Say whether two arrays differ, NaN included, by more than a part of the larger one or of ``size``."""
    got, want = np.asarray(got, dtype=np.float64), np.asarray(want, dtype=np.float64)
    if got.shape != want.shape:
        return True
    seen = np.isfinite(want)
    if not np.array_equal(got[~seen], want[~seen]) or not np.isfinite(got[seen]).all():
        return True
    got, want = got[seen], want[seen]
    largest = max(np.abs(want).max(initial=0.0), np.abs(got).max(initial=0.0), size)
    return bool((np.abs(got - want) > rtol * largest).any())


def any_differ(got: Answers, want: Answers, rtol: float = 1e-9) -> bool:
    """Say whether some answer differs, or is missing."""
    return any(name not in got or differ(got[name], x, rtol) for name, x in want.items())
