"""A counterexample in words: where it is, which numbers go in, and what comes out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import product
from typing import Any

from sympy import Integer

from attngrad.exercises.ground import Ground
from attngrad.exercises.smallest import Failure
from attngrad.proofs.derive import entry, names_in
from attngrad.proofs.rationals import NotExact, World, ZeroDenominator
from attngrad.proofs.rationals.nilpotent import is_plain, real
from attngrad.proofs.read import Reading, Statement

Entries = Mapping[tuple, Fraction]


class _Watching(World):
    """A world that remembers which functions were taken where, and whether exponents were other than 0."""

    exponents = False

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.functions: dict[str, Fraction] = {}

    def exp(self, x: Any) -> Any:
        """Return exp in the model of this world."""
        self.exponents = self.exponents or real(x) != 0
        return super().exp(x)

    def function(self, name: str, args: list[Any]) -> Any:
        """Return an opaque function, and remember its value, and its slope where that enters."""
        at = [real(a) for a in args]
        primes = ["", "'"] if not all(map(is_plain, args)) else [""]
        for told in (name + prime for prime in primes):
            self.functions[f"{told}({', '.join(map(str, at))})"] = Fraction(real(super().function(told, at)))
        return super().function(name, args)


def told_of(asked: Ground, reading: Reading, failure: Failure) -> str:
    """Return a counterexample in words; the value that is asked for is a number, never a formula.

    Where a number is the answer, it is not told either.
    """
    statement, world = reading.statements[failure.line - 1], _alone(asked, failure)
    left, right = (world.value(side, failure.at) for side in (statement.lhs, statement.rhs))
    inputs = _equations(_by_name(world.drawn)) + [f"{f} = {v}" for f, v in sorted(world.functions.items())]
    values = _equations(dict(_defined(asked, statement, world)))
    where = [f"{x} = {n}" for x, n in failure.sizes.items()]
    letters = sorted(failure.at, key=lambda x: (x.name.startswith("column"), x.name))  # rows come first
    where += [f"{x.name.split('<')[0]} = {failure.at[x]}" for x in letters]
    told = ", ".join([*where, *inputs])
    told += f"; so {', '.join(values)}" if values else ""
    told += " (exponents in units of log 2)" if inputs and world.exponents else ""
    if asked.asks_for_numbers and failure.line == 1:
        sides = f"your formula gives {right}, and the left side is another number"
    elif len(reading.statements) > 1:
        sides = f"line {failure.line} goes from {left} to {right}"
    else:
        sides = f"the left side is {left}, your formula gives {right}"
    return f"at {told}: {sides}" if told else sides


def _alone(asked: Ground, failure: Failure) -> _Watching:
    """Return a world with the numbers of a failure."""
    world, ranges = failure.world, asked.context.scope.ranges
    return _Watching(world.sizes, world.seed, world.definitions, world.drawn, world.exp_model, ranges)


def _by_name(drawn: Mapping[tuple, Fraction]) -> dict[str, Entries]:
    """Return the entries of each array by their indices."""
    grouped: dict[str, dict[tuple, Fraction]] = {}
    for (name, *at), value in sorted(drawn.items(), key=str):
        grouped.setdefault(name, {})[tuple(at)] = value
    return grouped


def _defined(asked: Ground, statement: Statement, world: World) -> Iterator[tuple[str, Entries]]:
    """Yield the values of the defined names that an answer uses."""
    table = asked.table
    for name in sorted(names_in(statement.rhs) & set(asked.context.definitions)):
        spans = [[int(bound.subs(world.sizes)) for bound in axis] for axis in table.axes(name)]
        places = product(*(range(low, high + 1) for low, high in spans))
        positive = {"positive": True} if table.names.get(name) == "+" else {}
        entries = {at: _value(world, entry(name, tuple(map(Integer, at)), **positive)) for at in places}
        if None not in entries.values():
            yield name, entries


def _value(world: World, what: Any) -> Fraction | None:
    """Return a value, or None where these numbers give none."""
    try:
        return world.value(what)
    except (ZeroDenominator, NotExact):
        return None


def _equations(arrays: Mapping[str, Entries]) -> list[str]:
    """Return each array with its entries, arrays of zeros as zero."""
    return [f"{name} = {_nested(x) if any(x.values()) else 0}" for name, x in arrays.items()]


def _nested(entries: Entries) -> str:
    """Return entries in order of their indices, an entry that does not matter as a star."""
    if () in entries:
        return str(entries[()])
    heads = range(min(1, min(entries)[0]), max(entries)[0] + 1)
    parts = ({at[1:]: v for at, v in entries.items() if at[0] == head} for head in heads)
    return f"({', '.join(_nested(part) if part else '*' for part in parts)})"
