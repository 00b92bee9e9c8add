"""Random expressions on which the normal form is compared with the exact oracle.

Three questions are asked: has the normal form the same value as the expression, at every point tried; is the
difference of an expression and the same expression written in another way found to be 0; and is the oracle
right about the derivative of a product, of which a difference quotient of polynomials is an independent
account.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from random import Random
from time import process_time

from sympy import Add, Dummy, Expr, KroneckerDelta, Mul, Pow, Sum, Symbol

from attngrad.proofs.rationals import NotExact, World, ZeroDenominator
from attngrad.proofs.sums import CannotDecide, is_zero, normal_form

from .engine_random_sums import (
    AXES,
    COLUMNS,
    OFFSET,
    RANGES,
    ROWS,
    SCALE,
    SCOPE,
    SIZES,
    SPLIT,
    M,
    N,
    Writer,
    X,
)


@dataclass
class Report:
    """What a run of the fuzz found: failures with their witnesses, and how much was compared."""

    failures: list[tuple] = field(default_factory=list)
    expressions: int = 0
    compared: int = 0
    skipped: int = 0
    refused: int = 0
    seconds: list[float] = field(default_factory=list)


class Points:
    """Worlds at several sizes, shared by all expressions; they are renewed so that their memory stays
    small."""

    def __init__(self, seed: int):
        self._seed = seed
        self._worlds = [
            World({N: n, M: m}, seed + k, exp_model="powers", ranges=RANGES) for k, (n, m) in enumerate(SIZES)
        ]

    def choose(self, random: Random, count: int) -> Iterator[tuple[World, dict[Symbol, int]]]:
        """Yield worlds with values of the free letters in range."""
        for world in random.sample(self._worlds, count):
            n, m = world.sizes[N], world.sizes[M]
            span = {"n": (1, n), "m": (1, m), "o": (1 - n, m - 1)}
            named = {"n": (*ROWS, SPLIT), "m": COLUMNS, "o": (OFFSET,)}
            yield world, {s: random.randint(*span[axis]) for axis, names in named.items() for s in names}


def mismatches(count: int, seed: int = 0, form: Callable[..., Expr] = normal_form, stop: int = 1) -> Report:
    """Compare random expressions with their normal forms; a failure is (expression, form, sizes, letters).

    >>> mismatches(20).failures
    []
    """
    random, report = Random(seed), Report()
    writer, points = Writer(random), Points(seed)
    while report.expressions < count and len(report.failures) < stop:
        expression = writer.expression()
        report.expressions += 1
        began = process_time()
        try:
            result = form(expression, SCOPE)
        except CannotDecide:
            report.refused += 1
            continue
        report.seconds.append(process_time() - began)
        for world, at in points.choose(random, 2):
            try:
                expected, found = world.value(expression, at), world.value(result, at)
            except (NotExact, ZeroDenominator):
                report.skipped += 1
                continue
            report.compared += 1
            if expected != found:
                report.failures.append((expression, result, world.sizes, at))
                break
    return report


def undecided(count: int, seed: int = 0, decide: Callable[..., bool] = is_zero, stop: int = 1) -> Report:
    """Write random expressions in another way; a failure is a pair whose difference is not found to be 0.

    >>> undecided(10).failures
    []
    """
    random, report = Random(seed), Report()
    writer = Writer(random)
    while report.expressions < count and len(report.failures) < stop:
        expression = writer.expression()
        other = scrambled(expression, random)
        report.expressions += 1
        try:
            equal = decide(expression - other, SCOPE)
        except CannotDecide:
            report.refused += 1
            continue
        report.compared += 1
        if not equal:
            report.failures.append((expression, other))
    return report


def scrambled(e: Expr, random: Random) -> Expr:
    """Return the same expression written in another way: renamed, reordered, distributed, split."""
    if isinstance(e, Sum):
        return _scrambled_sum(e, random)
    if isinstance(e, Add):
        return Add(*[scrambled(a, random) for a in e.args])
    if isinstance(e, Pow):
        return Pow(scrambled(e.base, random), e.exp)
    if isinstance(e, KroneckerDelta):
        return KroneckerDelta(e.args[0] - e.args[1] + 1, 1) if random.random() < 0.5 else e
    if not isinstance(e, Mul):
        return e
    factors = [scrambled(a, random) for a in e.args]
    place = next((k for k, a in enumerate(factors) if isinstance(a, (Add, Sum))), None)
    if place is None or random.random() < 0.3:
        return Mul(*factors)
    inner, rest = factors[place], Mul(*factors[:place], *factors[place + 1 :])
    if isinstance(inner, Sum):
        return Sum(rest * inner.function, *inner.limits)
    return Add(*[rest * a for a in inner.args])


def _scrambled_sum(e: Sum, random: Random) -> Expr:
    letter, low, high = e.limits[-1]
    function = Sum(e.function, *e.limits[:-1]) if len(e.limits) > 1 else e.function
    fresh = Dummy("h", integer=True)
    inside = scrambled(function.xreplace({letter: fresh}), random)
    limits = (fresh, low, high)
    pick = random.random()
    if pick < 0.25 and isinstance(inside, Add):
        return Add(*[Sum(a, limits) for a in inside.args])
    if pick < 0.5 and (low, high) == AXES["n"]:
        return Sum(inside, (fresh, 1, SPLIT)) + Sum(inside, (fresh, SPLIT + 1, N))
    if pick < 0.75 and isinstance(inside, Sum):
        return Sum(inside.function, limits, *inside.limits)
    if pick < 0.9:
        other = Dummy("g", integer=True)
        return Sum(
            Sum(KroneckerDelta(other, fresh) * inside.xreplace({fresh: other}), (other, low, high)), limits
        )
    return Sum(inside, limits)


def product_rule_failures(count: int, seed: int = 0) -> list[tuple]:
    """Compare the derivative of random products with the exact slope of a polynomial through five points."""
    from attngrad.proofs.sums import Partial

    random, failures = Random(seed), []
    for number in range(count):
        factors = [
            random.choice((X[1], X[2], SCALE, X[1] + X[2], X[1] ** 2)) for _ in range(random.randint(1, 2))
        ]
        function = Mul(X[1] + random.randint(1, 3), *factors[:2])
        at = {("x", 2): Fraction(random.randint(1, 5)), ("c",): Fraction(random.randint(1, 5), 2)}
        centre = Fraction(random.randint(1, 9), 3)

        def value(step: int, function: Expr = function, at: dict = at, centre: Fraction = centre) -> Fraction:
            return World({}, 0, given={**at, ("x", 1): centre + step}).value(function)

        five = Fraction(value(-2) - 8 * value(-1) + 8 * value(1) - value(2), 12)
        if (
            degree(function) < 5
            and World({}, 0, given={**at, ("x", 1): centre}).value(Partial(function, X[1])) != five
        ):
            failures.append((number, function))
    return failures


def degree(e: Expr) -> int:
    """Return a bound of the degree of a product in x[1]."""
    if isinstance(e, (Mul, Add)):
        return (sum if isinstance(e, Mul) else max)(map(degree, e.args))
    return degree(e.base) * int(e.exp) if isinstance(e, Pow) else int(e == X[1])
