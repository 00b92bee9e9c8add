"""Inequalities and numerical facts, as printed, evaluated on floating-point numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
from sympy import (
    Abs,
    Add,
    Expr,
    Indexed,
    IndexedBase,
    KroneckerDelta,
    Mul,
    Pow,
    Rational,
    Sum,
    Symbol,
    exp,
    log,
)

from .claim import Chapter, Number, Theorem
from .page import Display
from .read import ReadError, Reading, Statement, read
from .sums import Norm2

TRIALS = 60
SMALLEST = 1e-6
SLACK = 1e-13
TIGHT = 1e-7


class Evaluator:
    """Evaluates an expression; names have the values of a model, sizes follow from it."""

    def __init__(self, values: Mapping[str, object], sizes: Mapping[Symbol, int]):
        self.values, self.sizes = values, sizes

    def __call__(self, e: Expr, at: Mapping[Symbol, int]) -> np.float64:
        """Return the value; what has none, such as the logarithm of a negative number, is NaN."""
        with np.errstate(all="ignore"):
            return np.float64(self._value(e, at))

    def _value(self, e: Expr, at: Mapping[Symbol, int]) -> float:
        if e.is_Number:
            return float(e)
        if e in at:
            return float(at[e])
        if e in self.sizes:
            return float(self.sizes[e])
        if isinstance(e, Add):
            return sum(self(a, at) for a in e.args)
        if isinstance(e, Mul):
            return float(np.prod([self(a, at) for a in e.args]))
        if isinstance(e, Pow):
            return self(e.base, at) ** self(e.exp, at)
        if isinstance(e, Sum):
            return self._sum(e, at)
        if isinstance(e, KroneckerDelta):
            return float(self(e.args[0], at) == self(e.args[1], at))
        if isinstance(e, Norm2):
            return float(np.linalg.norm(np.asarray(self._named(str(e.args[0]))), 2))
        if isinstance(e, (exp, log, Abs)):
            return float({exp: np.exp, log: np.log, Abs: abs}[e.func](self(e.args[0], at)))
        if isinstance(e, Indexed):
            where = tuple(round(self(i, at)) - 1 for i in e.indices)
            return float(np.asarray(self._named(str(e.base)))[where])
        return float(self._named(str(e)))

    def _sum(self, e: Sum, at: Mapping[Symbol, int]) -> float:
        letter, low, high = e.limits[-1]
        inner = Sum(e.function, *e.limits[:-1]) if e.limits[:-1] else e.function
        span = range(round(self(low, at)), round(self(high, at)) + 1)
        return sum(self(inner, {**at, letter: k}) for k in span)

    def _named(self, name: str) -> object:
        if name not in self.values:
            raise ReadError(f"the model of this claim has no value for {name}", "", 0)
        return self.values[name]


def gaps(
    statement: Statement, reading: Reading, values: Mapping[str, object], sizes: Mapping[Symbol, int]
) -> list[float]:
    """Return right side minus left side (so that <= means non-negative) at every place."""
    evaluate = Evaluator(values, sizes)
    letters = sorted(
        (statement.lhs.free_symbols | statement.rhs.free_symbols) & set(reading.scope.ranges) - set(sizes),
        key=str,
    )
    letters = [x for x in letters if not isinstance(x, IndexedBase)]
    bounds = [tuple(round(evaluate(b, {})) for b in reading.scope.ranges[x]) for x in letters]
    sign = -1 if statement.relation in (">", ">=") else 1
    out = []
    for at in product(*[range(low, high + 1) for low, high in bounds]):
        env = dict(zip(letters, at, strict=True))
        out.append(sign * (evaluate(statement.rhs, env) - evaluate(statement.lhs, env)))
    return out


def _sizes(chapter: Chapter, values: Mapping[str, object]) -> dict[Symbol, int]:
    """Return the sizes that the values of a model fix."""
    return {s: int(values[name]) for name, s in chapter.table.size.items() if name in values}


def attack(
    chapter: Chapter, formulas: Mapping[str, Display], claim: Theorem, tex: str | None = None
) -> tuple[str, str]:
    """Try to break a printed inequality; return a verdict word and a detail.

    Every instance must satisfy every line, and some instance strictly: a line that is always an
    equality states nothing. A line with < or > must hold strictly everywhere. Where the claim says
    ``tight``, each other line must also be attained (to 1e-7) somewhere, so that a weaker constant
    is noticed.
    """
    text = formulas[claim.label].tex if tex is None else tex
    try:
        reading = read(text, chapter.table)
        if any(s.relation not in ("<=", ">=", "<", ">") for s in reading.statements):
            return "REFUSED", "an inequality is expected"
        constants = {q for s in reading.statements for q in (s.lhs - s.rhs).atoms(Rational)}
        if any(0 < abs(q) < SMALLEST for q in constants):
            return "REFUSED", f"a constant below {SMALLEST:g} cannot be told from rounding"
        spans = [_Span(s.relation in ("<", ">")) for s in reading.statements]
        for trial in range(TRIALS):
            values = claim.model(np.random.default_rng(trial), trial)
            sizes = _sizes(chapter, values)
            for line, (statement, span) in enumerate(zip(reading.statements, spans, strict=True), start=1):
                if fault := span.take(gaps(statement, reading, values, sizes)):
                    return "REFUTED", f"instance {trial}, line {line}: {fault}"
    except (ReadError, IndexError) as error:
        return "REFUSED", str(error)
    for line, span in enumerate(spans, start=1):
        if fault := span.fault(claim.tight):
            return "REFUTED", f"line {line}: {fault}"
    found = ", equality found" if claim.tight and not all(span.strict for span in spans) else ""
    return "ARGUED", f"{TRIALS} instances, the extreme ones included{found}"


@dataclass
class _Span:
    """The least and the greatest gap of one inequality so far."""

    strict: bool
    least: float = np.inf
    most: float = 0.0

    def take(self, found: list[float]) -> str:
        """Take in the gaps of one instance; say what is wrong with them."""
        if not found:
            return ""
        low = np.min(found)
        self.least, self.most = min(self.least, low), max(self.most, np.max(found))
        if not np.isfinite(found).all():
            return "one side has no value"
        if low < -SLACK:
            return f"off by {-low:.3g}"
        return "an equality, where < or > is printed" if self.strict and low <= SLACK else ""

    def fault(self, tight: bool) -> str:
        """Say what is wrong with the inequality over all instances."""
        if self.most < TIGHT:
            return "an equality at every instance"
        if tight and not self.strict and self.least > TIGHT:
            return f"not attained: the nearest instance stays {self.least:.3g} away"
        return ""


_PRINTED = re.compile(
    r"\\approx\s*-?\d+(?:\.(\d+))?(?:\s*\\cdot\s*10\^(?:\{(-?\d+)\}|(\d)))?\s*(?=[,.]?\s*(?:$|\\q?quad|\\\\|\\end|\\text))"
)


def _precision(m: re.Match) -> float:
    """Return the unit of the last printed digit."""
    return 10.0 ** (int(m[2] or m[3] or 0) - len(m[1] or ""))


def measure(
    chapter: Chapter, formulas: Mapping[str, Display], claim: Number, tex: str | None = None
) -> tuple[str, str]:
    """Compare a printed number with the measured one, to the last digit that is printed."""
    text = formulas[claim.label].tex if tex is None else tex
    try:
        reading = read(text, chapter.table)
        values = claim.model(np.random.default_rng(0), 0)
        sizes = _sizes(chapter, values)
        evaluate = Evaluator(values, sizes)
        printed = [_precision(m) for m in _PRINTED.finditer(text)]
        if len(printed) != len(reading.statements) or any(s.relation != "~" for s in reading.statements):
            return "REFUSED", r"a numerical fact reads `expression \approx digits`, or digits \cdot 10^{k}"
        for statement, unit in zip(reading.statements, printed, strict=True):
            got, said = evaluate(statement.lhs, {}), evaluate(statement.rhs, {})
            if not abs(got - said) <= 0.5000001 * unit:
                return "REFUTED", f"measured {got:.9g}, printed {said:.9g}"
    except ReadError as error:
        return "REFUSED", str(error)
    return "MEASURED", "to the last printed digit"
