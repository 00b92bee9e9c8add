"""Whether wrong attentions explain what an implementation answered, case by case, inside the error band."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from attngrad.doctor.case import Case
from attngrad.doctor.judging import bounds
from attngrad.doctor.outcome import Finding, Outcome
from attngrad.doctor.spec import Spec
from attngrad.mistakes.whole import WHOLE, Attention, right
from attngrad.mistakes.whole.state import TableStale

EXPLAINED = ("wrong", "nan")
LEFT_OUT = ("imprecise", "shape", "missing", "unwritten")
FULL = ("float64", "float32")
SLACK = 3.0  # times the band of a right answer, scaled to the candidate's magnitude
SHARE = 0.2  # of the deviation from the right answer: what a candidate may leave of it
UNITS = {"float64": 4e-15, "float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2}  # of what has no band
GROSS = 0.1  # of the largest entries: no band in full precision is that wide
CLEAR = 5.0  # times the bound: a deviation that candidates can be told apart by

Tried = tuple[Case, Outcome, tuple[Finding, ...]]


@dataclass(eq=False)
class Evidence:
    """One case that was answered: what came, what is right, and which answers are to be explained."""

    case: Case
    got: dict[str, np.ndarray]
    wrong: frozenset[str]
    number: int
    deviations: dict[str, float] = field(default_factory=dict)

    @cached_property
    def exact(self) -> dict[str, np.ndarray]:
        """Return the right answers."""
        return right(self.case).answers()

    @cached_property
    def bound(self) -> dict[str, np.ndarray]:
        """Return the band of a right answer."""
        return bounds.healthy(self.case, self.exact)

    @cached_property
    def wide(self) -> dict[str, np.ndarray]:
        """Return the band of a right formula in low precision."""
        return bounds.low_precision(self.case, self.exact)

    @cached_property
    def largest(self) -> float:
        """Return the largest score of the right attention."""
        return largest_score(right(self.case))

    def deviation(self, name: str) -> float:
        """Return the largest error of an answer as a multiple of its bound; infinity for NaN."""
        if name not in self.deviations:
            got, exact = self.got[name], self.exact[name]
            finite = np.isfinite(exact)
            far = not np.array_equal(got[~finite], exact[~finite], equal_nan=True)
            far = far or not np.isfinite(got[finite]).all()
            error = in_bounds(self, name, _difference(got, exact, finite & np.isfinite(got)))
            self.deviations[name] = float("inf") if far else error
        return self.deviations[name]

    def gross(self, name: str, want: np.ndarray) -> float:
        """Return an error that no band of a candidate reaches in full precision."""
        top, other = (np.abs(x[np.isfinite(x)]).max(initial=0.0) for x in (self.exact[name], want))
        bound = self.bound[name][np.isfinite(self.bound[name])]
        return float(GROSS * (top + other) + 10.0 * bound.max(initial=0.0))

    @property
    def full(self) -> bool:
        """Say whether the case is in full precision."""
        return self.case.dtype in FULL

    @cached_property
    def size(self) -> int:
        """Return how much work a case is."""
        return self.case.q.size * self.case.k.shape[2]


def largest_score(pipeline: Attention) -> float:
    """Return the largest absolute score where a key takes part."""
    with np.errstate(all="ignore"):
        scores = np.abs(np.where(pipeline.allowed, pipeline.s, 0.0))
    scores = scores[np.isfinite(scores) & (scores < 1e30)]  # a lowest number stands for a hidden key
    return float(scores.max(initial=0.0))


def evidence(tried: Iterable[Tried], spec: Spec) -> list[Evidence]:
    """Return the answered cases, those with something wrong first, small ones in front."""
    found = []
    for number, (case, outcome, findings) in enumerate(tried):
        if outcome.status != "ok":
            continue
        skip = {f.what for f in findings if f.kind in LEFT_OUT}
        wrong = frozenset(f.what for f in findings if f.kind in EXPLAINED)
        names = [n for n in ("o", "lse", *case.wants) if n in outcome.answers and n not in skip]
        if not spec.has("lse") and "lse" not in wrong:
            names = [n for n in names if n != "lse"]
        got = {n: outcome.answers[n] for n in names}
        found.append(Evidence(case, got, wrong & frozenset(names), number))
    return sorted(found, key=lambda e: (not e.wrong, not e.full, e.size))


@dataclass(frozen=True, eq=False)
class Part:
    """One variant of a wrong attention; ``settings`` says how it is set for a case."""

    id: str
    kind: type[Attention]
    settings: Callable[[Case], dict[str, Any]]
    reaches: frozenset[str]
    level: str

    def suits(self, case: Case) -> bool:
        """Say whether the mistake can be made on a case."""
        with np.errstate(all="ignore"):
            return self.kind(case, **self.settings(case)).suits()


Parts = tuple[Part, ...]


def pipeline(parts: Parts, case: Case, under: Attention | None = None) -> Attention:
    """Return the attention with several mistakes, the right one where a case lacks what they need.

    It takes over what it can from ``under``, a pipeline with some of them.
    """
    under = right(case) if under is None else under
    suited = [part for part in parts if part.suits(case)]
    if not suited:
        return right(case)
    settings = {name: value for part in suited for name, value in part.settings(case).items()}
    made = _joined(tuple(part.kind for part in reversed(suited)))(case, **settings)
    if type(made) is type(under):
        return under
    made.take_over(under)
    return made


@lru_cache(maxsize=4096)
def _joined(kinds: tuple[type[Attention], ...]) -> type[Attention]:
    """Return one pipeline with the steps of several."""
    return kinds[0] if len(kinds) == 1 else type("Joined", kinds, {})


def fit(parts: Parts, part: Part, case: Case) -> bool:
    """Say whether a mistake can stand beside others: no setting of one is that of another."""
    taken = {name: value for other in parts for name, value in other.settings(case).items()}
    return all(taken.get(name, value) == value for name, value in part.settings(case).items())


def all_parts(found: list[Evidence]) -> list[Part]:
    """Return every variant of every wrong attention, and a table kept from the first case."""
    made = [
        Part(whole.id, whole.kind, _always(settings), frozenset(whole.reaches), whole.level)
        for whole in WHOLE.values()
        for settings in whole.settings
        if _can_be_told(found, whole.kind, settings)
    ]
    return [*made, *_stale(found)]


def _can_be_told(found: list[Evidence], kind: type[Attention], settings: dict[str, Any]) -> bool:
    """Say whether a block of a mistake is full in some case, and whether it has the contrast it needs."""
    made = kind(found[0].case, **settings)
    block, size = getattr(made, "block", 0), {2: "N", 3: "M"}[getattr(made, "axis", 3)]
    if not any(block <= e.case.sizes[size] for e in found):
        return False
    return not kind.by_contrast or any(not kind(e.case, **settings).suits() for e in found)


def _always(settings: dict[str, Any]) -> Callable[[Case], dict[str, Any]]:
    """Return settings that are the same for each case."""
    return lambda case: settings


def _stale(found: list[Evidence]) -> Iterator[Part]:
    """Yield a bias that was gathered at the first case with the same shapes."""

    def by_lengths(case: Case) -> tuple[int, ...]:
        return (*case.table.shape, case.sizes["N"], case.sizes["M"])

    def by_table(case: Case) -> tuple[int, ...]:
        return case.table.shape

    for key in (by_lengths, by_table):
        first: dict[tuple[int, ...], np.ndarray] = {}
        for e in sorted(found, key=lambda e: e.number):
            if e.case.table is not None:
                first.setdefault(key(e.case), e.case.table)

        def settings(case: Case, key: Any = key, first: Any = first) -> dict[str, Any]:
            return {"first": None if case.table is None else first[key(case)]}

        if first:
            reaches = frozenset(WHOLE["bias-ignored"].reaches)
            yield Part("table-bias-stale", TableStale, settings, reaches, "forward")


class Judge:
    """Whether pipelines explain answers, as strictly as the evidence allows."""

    def __init__(self, found: list[Evidence]) -> None:
        """Keep whether something is wrong in full precision, where candidates are told apart."""
        self.strict = any(e.full and e.wrong for e in found)

    def explains(self, e: Evidence, made: Attention, name: str) -> bool:
        """Say whether a pipeline explains one answer to a case."""
        got = e.got[name]
        if made is right(e.case):
            return name not in e.wrong
        want = made.answers((name,))[name]
        if made.anything and np.isnan(want).any():
            return True
        finite = np.isfinite(want)
        if want.shape != got.shape or not np.array_equal(want[~finite], got[~finite], equal_nan=True):
            return False
        if not np.isfinite(got[finite]).all():
            return False
        error = _difference(got, want, finite)
        if e.full and error.max(initial=0.0) > e.gross(name, want):
            return False
        if (error > self.band(e, made, name, want)).any():
            return False
        return name not in e.wrong or self.leaves_little(e, name, error)

    def leaves_little(self, e: Evidence, name: str, error: np.ndarray) -> bool:
        """Say whether what a candidate leaves is rounding, or little beside what it is to explain.

        It is asked in full precision if something is wrong there, for in less the band is wide.
        """
        if self.strict and not e.full:
            return True
        left = in_bounds(e, name, error)
        return left <= 1.0 or left <= SHARE * e.deviation(name)

    def band(self, e: Evidence, made: Attention, name: str, want: np.ndarray) -> np.ndarray:
        """Return the band of a right answer, scaled to the magnitude of the candidate's and of its scores.

        Where a row of the candidate is another one, its band is that of the largest row.
        """
        exact, bound = e.exact[name], np.broadcast_to(e.bound[name], want.shape)
        if not e.full:
            bound = np.maximum(bound, np.broadcast_to(e.wide[name], want.shape))
        bound = np.where(np.isfinite(bound), bound, 0.0)
        with np.errstate(invalid="ignore"):
            moved = ~(np.abs(want - exact) <= bound)
        rows = moved.any(axis=-1, keepdims=True) if moved.ndim else moved
        bound = np.where(rows, bound.max(initial=0.0), bound)
        top, other = (np.abs(x[np.isfinite(x)]).max(initial=0.0) for x in (exact, want))
        grown = max(1.0, other / top) if top else 1.0
        sharper = max(1.0, (1.0 + largest_score(made)) / (1.0 + e.largest))
        return np.where(rows, UNITS[e.case.dtype] * other, 0.0) + SLACK * grown * sharper * bound


def in_bounds(e: Evidence, name: str, error: np.ndarray) -> float:
    """Return the largest of some errors as a multiple of the bound of a right answer."""
    bound = np.broadcast_to(e.bound[name], error.shape)
    seen = (error > 0.0) & np.isfinite(bound)
    with np.errstate(divide="ignore"):
        return float((error[seen] / bound[seen]).max(initial=0.0))


def _difference(got: np.ndarray, want: np.ndarray, finite: np.ndarray) -> np.ndarray:
    """Return the absolute difference where the second is finite, else 0."""
    error = np.zeros(got.shape)
    error[finite] = np.abs(got[finite] - want[finite])
    return error
