"""Exact counterexamples: the two sides of an equation, evaluated on rational numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from random import Random

from sympy import Expr, Indexed, IndexedBase, Integer, Mul, Symbol, exp, log

from .claim import Hypothesis, LedgerError, Planted
from .derive import Definition, names_in
from .rationals import NotExact, World, ZeroDenominator
from .read import Statement, Table

SEEDS = (1, 2)


@dataclass(frozen=True)
class Case:
    """What an evaluation needs: notation, definitions, hypotheses, ranges and sizes."""

    table: Table
    definitions: Mapping[str, Definition]
    hypotheses: tuple[tuple[Hypothesis, Statement], ...]
    ranges: Mapping[Symbol | IndexedBase, tuple[Expr, Expr]]
    sizes: tuple[Mapping[str, int], ...]
    plants: tuple[Callable[[Mapping[str, int], Random], Planted], ...] = ()
    cache: dict[str, list[tuple[Mapping[Symbol, int], World]]] = field(default_factory=dict)

    def worlds(self, statements: Sequence[Statement]) -> Iterator[tuple[Mapping[Symbol, int], World]]:
        """Yield the sizes and a world for each size and seed; drawn entries are the same for all callers."""
        bodies = [d.body for d in self.definitions.values()]
        for model in exponential_models([*bodies, *(side for s in statements for side in (s.lhs, s.rhs))]):
            if model not in self.cache:
                self.cache[model] = [
                    _world(self, named, seed, model) for named, seed in product(self.sizes, SEEDS)
                ]
            yield from self.cache[model]

    def again(self, world: World) -> World:
        """Return a world with the same numbers in which nothing has been drawn yet but what is planted."""
        named = {
            name: world.sizes[symbol] for name, symbol in self.table.size.items() if symbol in world.sizes
        }
        return _world(self, named, world.seed, world.exp_model)[1]


class BadPlant(LedgerError):
    """Numbers planted for a hypothesis that do not satisfy the hypothesis as printed."""


def exponential_models(expressions: Sequence[Expr]) -> tuple[str, ...]:
    """Return the models in which these expressions may be evaluated, the one with small numbers first.

    With exp as ``2**x`` on integers every relation between exponentials holds, and fractions stay
    small. Independent values for different exponentials reach further, but hold only where no such
    relation can be used: no logarithm, and every exponent an entry of one array, times one factor.
    """
    powers = {x.args[0] for e in expressions for x in e.atoms(exp)}
    kinds = {_entry_times_factor(power) for power in powers}
    free = len(kinds) <= 1 and None not in kinds and not any(e.has(log) for e in expressions)
    return ("powers", "formal") if free else ("powers",)


def _entry_times_factor(power: Expr) -> tuple[str, Expr] | None:
    """Return the array and the factor of an exponent such as ``s_i / tau``, or None for another form."""
    entries = [f for f in Mul.make_args(power) if isinstance(f, Indexed)]
    if len(entries) != 1:
        return None
    return str(entries[0].base), power / entries[0]


def _world(case: Case, named: Mapping[str, int], seed: int, model: str) -> tuple[Mapping[Symbol, int], World]:
    """Return one world, the numbers planted for the hypotheses checked against their printed form."""
    sizes = {symbol: named[name] for name, symbol in case.table.size.items() if name in named}
    given: dict[tuple, Fraction] = {}
    for plant in case.plants:
        given.update(plant(named, Random(seed)))
    if defined := {key[0] for key in given} & set(case.definitions):
        raise BadPlant(f"numbers are planted for {', '.join(sorted(defined))}, which is defined")
    for hypothesis, statement in case.hypotheses:
        planted = hypothesis.plant(named, Random(seed))
        strange = {key[0] for key in planted} - names_in(statement.lhs)
        if strange:
            raise BadPlant(f"{hypothesis.label}: numbers are planted for {', '.join(sorted(strange))} too")
        given.update(planted)
    world = World(
        sizes,
        seed,
        {n: (d.indices, d.body) for n, d in case.definitions.items()},
        given=given,
        exp_model=model,
        ranges=case.ranges,
    )
    for hypothesis, statement in case.hypotheses:
        for at in places(statement, case.ranges, sizes):
            try:
                holds = world.value(statement.lhs, at) == world.value(statement.rhs, at)
            except (ValueError, ZeroDenominator) as reason:
                raise BadPlant(f"{hypothesis.label} cannot be evaluated: {reason}") from None
            if not holds:
                raise BadPlant(f"{hypothesis.label}: the numbers planted for it do not satisfy it as printed")
    return sizes, world


def places(statement: Statement, ranges: Mapping, sizes: Mapping[Symbol, int]) -> Iterator[dict[Symbol, int]]:
    """Yield every value of the free index letters of an equation."""
    letters = (statement.lhs.free_symbols | statement.rhs.free_symbols) & set(ranges)
    order = sorted((x for x in letters if isinstance(x, Symbol)), key=str)
    numbers = {symbol: Integer(size) for symbol, size in sizes.items()}
    bounds = [tuple(b.xreplace(numbers) for b in ranges[x]) for x in order]
    if unknown := {str(s) for pair in bounds for b in pair for s in b.free_symbols}:
        raise LedgerError(f"no size is given for {', '.join(sorted(unknown))}")
    for at in product(*[range(int(low), int(high) + 1) for low, high in bounds]):
        yield dict(zip(order, map(Integer, at), strict=True))


@dataclass(frozen=True)
class Search:
    """The outcome: a counterexample, or the first place that no world could evaluate, or neither."""

    witness: Mapping[str, object] = field(default_factory=dict)
    gap: str = ""


def search(case: Case, statements: Sequence[Statement], extra: Mapping) -> Search:
    """Compare both sides at every size, seed and place; ``extra`` holds ranges of further letters."""
    ranges = {**case.ranges, **extra}
    gaps: dict[tuple, str] = {}
    seen: set[tuple] = set()
    for sizes, world in case.worlds(statements):
        for line, statement in enumerate(statements, start=1):
            for at in places(statement, ranges, sizes):
                place = (line, *sizes.items(), *at.items())
                try:
                    left, right = world.value(statement.lhs, at), world.value(statement.rhs, at)
                except (ZeroDenominator, NotExact) as reason:
                    where = ", ".join(f"{k} = {v}" for k, v in place[1:])
                    gaps.setdefault(place, f"line {line}, {where}: {reason}")
                    continue
                except ValueError as reason:
                    raise LedgerError(f"the oracle cannot start: {reason}") from None
                if left != right:
                    return Search(_witness(case, sizes, world, line, statement, at, left, right))
                seen.add(place)
    open_places = [why for place, why in gaps.items() if place not in seen]
    if not seen and not open_places:
        return Search(gap="no value of the index letters is in range at these sizes")
    return Search(gap=open_places[0] if open_places else "")


def _witness(
    case: Case,
    sizes: Mapping,
    world: World,
    line: int,
    statement: Statement,
    at: Mapping,
    left: Fraction,
    right: Fraction,
) -> dict[str, object]:
    """Return a counterexample by itself: sizes, letters, the numbers that go in, and the two sides."""
    alone = case.again(world)
    for side in (statement.lhs, statement.rhs):
        alone.value(side, at)
    used = {a for d in case.definitions.values() for a in d.body.free_symbols}
    used |= statement.lhs.free_symbols | statement.rhs.free_symbols
    used |= {a for x in at for bound in case.ranges.get(x, ()) for a in bound.free_symbols}
    where = {str(s): v for s, v in sizes.items() if s in used} | {_letter(x): v for x, v in at.items()}
    return {"line": line, "at": where, "inputs": _arrays(alone.drawn), "left": left, "right": right}


def _arrays(drawn: Mapping[tuple, Fraction]) -> dict[str, str]:
    """Return the drawn entries by name: a number, or the entries in order of their indices."""
    grouped: dict[str, dict[tuple, Fraction]] = {}
    for (name, *at), value in drawn.items():
        grouped.setdefault(name, {})[tuple(at)] = value
    return {name: _nested(entries) for name, entries in sorted(grouped.items())}


def _nested(entries: Mapping[tuple, Fraction]) -> str:
    if () in entries:
        return str(entries[()])
    if len(next(iter(entries))) == 1:
        first, last = min(entries)[0], max(entries)[0]
        return "(" + ", ".join(str(entries.get((k,), "*")) for k in range(min(first, 1), last + 1)) + ")"
    heads = sorted({key[0] for key in entries})
    return (
        "("
        + ", ".join(_nested({key[1:]: v for key, v in entries.items() if key[0] == h}) for h in heads)
        + ")"
    )


def describe(witness: Mapping[str, object], mark: str = "") -> str:
    """Return a witness as one line; ``mark`` stands around each formula, such as a dollar sign."""
    told = [f"{k} = {v}" for k, v in (*witness["at"].items(), *witness["inputs"].items())]
    sides = f"left {mark}{witness['left']}{mark}, right {mark}{witness['right']}{mark}"
    line = f" (line {witness['line']})" if witness["line"] > 1 else ""
    return f"at {', '.join(mark + t + mark for t in told)}: {sides}{line}"


def _letter(symbol: Symbol) -> str:
    return symbol.name.split("<")[0]
