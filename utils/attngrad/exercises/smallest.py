"""The smallest exact counterexample: the smallest sizes at which an answer fails, and the plainest numbers.

Numbers are tried in the oracle's world of powers of two, where an exponential is exact: 2 stands for e.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import isqrt, prod
from random import Random

from sympy import Expr, Pow, Symbol, exp

from attngrad.proofs.claim import LedgerError, Planted
from attngrad.proofs.derive import names_in
from attngrad.proofs.prove import Context
from attngrad.proofs.rationals import NotExact, World, ZeroDenominator
from attngrad.proofs.read import Reading, Statement
from attngrad.proofs.witness import Case, places

COUNTS, SQUARES = (1, 2, 3), (1, 4, 9)
PLAIN = (Fraction(0), Fraction(1), Fraction(2), Fraction(-1))
Plant = Callable[[Mapping[str, int], Random], Planted]
FARTHEST = 5  # how many steps above 1 the sizes go, all of them together


@dataclass(frozen=True)
class Failure:
    """Where two sides differ: the sizes that matter, a world of numbers, index letters, and both values."""

    sizes: Mapping[Symbol, int]
    world: World
    line: int
    at: Mapping[Symbol, Expr]
    left: Fraction
    right: Fraction


def smallest_failure(context: Context, reading: Reading) -> Failure | None:
    """Return the first failure in the order of sizes, its numbers made as plain as they can be.

    None says that no failure was found among small sizes, not that there is none.
    """
    spoken = _spoken(context, reading)
    for case in _cases(context, reading, spoken):
        failure = _first(case, reading)
        if failure is not None:
            plainest = _plainest(case, reading.statements[failure.line - 1], failure)
            order = [x for x in map(context.table.size.get, context.table.names) if x in spoken]
            return replace(plainest, sizes={x: failure.sizes[x] for x in order if x in failure.sizes})
    return None


def _expressions(context: Context, reading: Reading) -> list[Expr]:
    sides = [side for s in reading.statements for side in (s.lhs, s.rhs)]
    return [*sides, *(d.body for d in context.definitions.values())]


def _spoken(context: Context, reading: Reading) -> set[Symbol]:
    """Return the symbols of a formula and of its definitions, and the sizes over which its letters run."""
    ranges = {**context.scope.ranges, **reading.scope.ranges}
    spoken = set().union(*(e.free_symbols for e in _expressions(context, reading)))
    return spoken.union(*(bound.free_symbols for x in spoken & set(ranges) for bound in ranges[x]))


def _cases(context: Context, reading: Reading, spoken: set[Symbol]) -> Iterator[Case]:
    """Yield what the oracle needs at each choice of sizes, the smallest first, those of the claim last.

    A worked instance fixes its sizes.
    """
    expressions, sizes = _expressions(context, reading), context.table.size
    roots = {p.base for e in expressions for p in e.atoms(Pow) if not p.exp.is_Integer}
    of_sizes = (base.free_symbols for base in roots if base.free_symbols <= set(sizes.values()))
    rooted = set().union(*of_sizes)
    plants = (*context.case.plants, *([_multiples(context, expressions, rooted)] if rooted else []))
    choices = {
        name: (SQUARES if sizes[name] in rooted else COUNTS) if sizes[name] in spoken else (1,)
        for name in sorted(sizes, key=[*context.table.names, *sizes].index)
    }
    steps = product(*(range(len(c)) for c in choices.values()))
    for step in sorted(steps, key=lambda s: (sum(s), max(s, default=0), s)):
        if sum(step) <= FARTHEST:
            named = {name: c[k] for (name, c), k in zip(choices.items(), step, strict=True)}
            yield replace(context.case, sizes=({**named, **context.at},), plants=plants, cache={})
    yield context.case


def _multiples(context: Context, expressions: Sequence[Expr], rooted: set[Symbol]) -> Plant:
    """Return a plant for what stands in exponents: multiples of the roots, so that quotients are integers."""
    table, inside = context.table, _in_exponents(context, expressions)
    names = [x for x, axes in table.names.items() if x in inside and axes not in ("size", "+")]

    def plant(sizes: Mapping[str, int], random: Random) -> dict[tuple, Fraction]:
        values = {x: sizes[name] for name, x in table.size.items()}
        root = prod(isqrt(values[x]) for x in rooted)
        given = {}
        for name in names:
            spans = [range(int(a.subs(values)), int(b.subs(values)) + 1) for a, b in table.axes(name)]
            given |= {(name, *at): Fraction(root * random.choice((-2, -1, 1, 2))) for at in product(*spans)}
        return given

    return plant


def _in_exponents(context: Context, expressions: Sequence[Expr]) -> set[str]:
    """Return the names on which exponents depend and that are not defined."""
    todo = [power.args[0] for e in expressions for power in e.atoms(exp)]
    seen: set[str] = set()
    while todo:
        new = names_in(todo.pop()) - seen
        seen |= new
        todo += [context.definitions[name].body for name in new & set(context.definitions)]
    return seen - set(context.definitions)


def _first(case: Case, reading: Reading) -> Failure | None:
    """Return the first place at which a statement fails; what has no value there is passed over."""
    ranges = {**case.ranges, **reading.scope.ranges}
    try:
        for sizes, world in case.worlds(reading.statements):
            if world.exp_model != "powers":
                continue
            for line, statement in enumerate(reading.statements, start=1):
                for at in places(statement, ranges, sizes):
                    pair = _values(world, statement, at)
                    if pair and pair[0] != pair[1]:
                        return Failure(sizes, case.again(world), line, at, *pair)
    except (LedgerError, ValueError):
        pass  # at these sizes there are no numbers that satisfy the hypotheses
    return None


def _values(world: World, statement: Statement, at: Mapping) -> tuple[Fraction, Fraction] | None:
    """Return both sides at one place, or None where one has no value."""
    try:
        return world.value(statement.lhs, at), world.value(statement.rhs, at)
    except (ZeroDenominator, NotExact):
        return None


def _plainest(case: Case, statement: Statement, failure: Failure) -> Failure:
    """Return a failure at the same place with 0, 1, 2 or -1 wherever such a number does."""
    given: dict[tuple, Fraction] = {}
    _values(failure.world, statement, failure.at)
    for key in sorted(failure.world.drawn, key=str):
        for value in PLAIN if key[0] not in case.table.integers else ():
            if value == failure.world.drawn.get(key, value):
                break
            if value <= 0 and case.table.names.get(key[0]) == "+":
                continue
            moved = _moved(case, statement, failure, {**given, key: value})
            if moved is not None and moved.world.drawn[key] == value:
                given[key], failure = value, moved
                break
    return failure


def _moved(case: Case, statement: Statement, failure: Failure, given: Planted) -> Failure | None:
    """Return a failure with some numbers given, or None where they give none."""
    trial = replace(case, plants=(*case.plants, lambda sizes, random: given), cache={})
    try:
        world = trial.again(failure.world)
        pair = _values(world, statement, failure.at)
    except (LedgerError, ValueError):
        return None
    if pair is None or pair[0] == pair[1]:
        return None
    return replace(failure, world=world, left=pair[0], right=pair[1])
