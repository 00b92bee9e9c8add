"""Exact counterexamples: the two sides of an equation, evaluated on rational numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from random import Random

from sympy import Add, Expr, IndexedBase, Symbol, exp, log

from .claim import Hypothesis
from .derive import Definition
from .rationals import NotExact, World, ZeroDenominator
from .read import Statement
from .table import Table

SEEDS = (1, 2)


@dataclass(frozen=True)
class Case:
    """What an evaluation needs: notation, definitions, hypotheses, ranges and sizes."""

    table: Table
    definitions: Mapping[str, Definition]
    hypotheses: tuple[tuple[Hypothesis, Statement], ...]
    ranges: Mapping[Symbol | IndexedBase, tuple[Expr, Expr]]
    sizes: tuple[Mapping[str, int], ...]
    cache: dict[str, list[tuple[Mapping[Symbol, int], World]]] = field(default_factory=dict)

    def worlds(self, statements: Sequence[Statement]) -> list[tuple[Mapping[Symbol, int], World]]:
        """Return the sizes and a world for each size and seed; drawn entries are the same for all callers."""
        bodies = [d.body for d in self.definitions.values()]
        model = exponential_model([*bodies, *(side for s in statements for side in (s.lhs, s.rhs))])
        if model not in self.cache:
            self.cache[model] = [_world(self, named, seed, model) for named, seed in product(self.sizes, SEEDS)]
        return self.cache[model]


class BadPlant(AssertionError):
    """Numbers planted for a hypothesis that do not satisfy the hypothesis as printed."""


def exponential_model(expressions: Sequence[Expr]) -> str:
    """Return the model in which these expressions may be evaluated.

    Independent values for different exponentials are sound only where no relation between two of
    them is used; with a logarithm, or the exponential of a sum, exp is ``2**x`` on integers.
    """
    if any(e.has(log) or any(isinstance(x.args[0], Add) for x in e.atoms(exp)) for e in expressions):
        return "powers"
    return "formal"


def _world(case: Case, named: Mapping[str, int], seed: int, model: str) -> tuple[Mapping[Symbol, int], World]:
    """Return one world, the numbers planted for the hypotheses checked against their printed form."""
    sizes = {symbol: named[name] for name, symbol in case.table.size.items() if name in named}
    given: dict[tuple, Fraction] = {}
    for hypothesis, _ in case.hypotheses:
        given.update(hypothesis.plant(named, Random(seed)))
    world = World(sizes, seed, {n: (d.indices, d.body) for n, d in case.definitions.items()},
                  given=given, exp_model=model, ranges=case.ranges)
    for hypothesis, statement in case.hypotheses:
        for at in places(statement, case.ranges, sizes):
            if world.value(statement.lhs, at) != world.value(statement.rhs, at):
                raise BadPlant(f"{hypothesis.label}: the numbers planted for it do not satisfy it as printed")
    return sizes, world


def places(statement: Statement, ranges: Mapping, sizes: Mapping[Symbol, int]) -> Iterator[dict[Symbol, int]]:
    """Yield every value of the free index letters of an equation."""
    letters = (statement.lhs.free_symbols | statement.rhs.free_symbols) & set(ranges)
    order = sorted((x for x in letters if isinstance(x, Symbol)), key=str)
    bounds = [tuple(int(b.subs(sizes)) for b in ranges[x]) for x in order]
    for at in product(*[range(low, high + 1) for low, high in bounds]):
        yield dict(zip(order, at, strict=True))


def search(case: Case, statements: Sequence[Statement], extra: Mapping) -> dict[str, object]:
    """Return the first exact counterexample, or an empty dict; ``extra`` holds ranges of further letters.

    Raises
    ------
    NotExact
        When no world at all could evaluate the formula.
    """
    evaluated, why = 0, None
    ranges = {**case.ranges, **extra}
    for sizes, world in case.worlds(statements):
        for line, statement in enumerate(statements, start=1):
            for at in places(statement, ranges, sizes):
                try:
                    left, right = world.value(statement.lhs, at), world.value(statement.rhs, at)
                except ZeroDenominator:
                    continue
                except NotExact as reason:
                    why = reason
                    continue
                evaluated += 1
                if left != right:
                    where = {**{str(s): v for s, v in sizes.items()}, **{_letter(x): v for x, v in at.items()}}
                    return {"line": line, "at": where, "left": left, "right": right}
    if not evaluated:
        raise why or NotExact("no value of the index letters is in range at these sizes")
    return {}


def describe(witness: Mapping[str, object]) -> str:
    """Return a witness as one line."""
    at = ", ".join(f"{k} = {v}" for k, v in witness["at"].items())
    line = f" (line {witness['line']})" if witness["line"] > 1 else ""
    return f"at {at}: left {witness['left']}, right {witness['right']}{line}"


def _letter(symbol: Symbol) -> str:
    return symbol.name.split("<")[0]
