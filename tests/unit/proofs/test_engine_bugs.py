"""Bugs planted in the engine and in the oracle: the fuzz or the laws catch each one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import pytest
from sympy import IndexedBase, exp, log, sqrt

from attngrad.proofs.rationals import World, nilpotent, world
from attngrad.proofs.sums import Partial, algebra, collapse, naming, normal, powers, rules, spans, terms

from .engine_fuzz import mismatches, product_rule_failures, undecided
from .engine_laws import broken_laws

CASES = 400


@pytest.fixture(autouse=True)
def fresh_state() -> Iterator[None]:
    """Keep results of a planted bug from being remembered."""
    normal._algebra.cache_clear()
    yield
    normal._algebra.cache_clear()


def inside_always(self, poly, limits):
    return True


def outside_if_three_terms(self, poly, limits):
    return len(poly) == 3


def solve_blindly(poly, letter):
    """Solve for a letter although it occurs a second time, inside a table."""
    wanted = ((), ((letter, 1),))
    coefficient = dict(poly).get(wanted, 0)
    rest = tuple((k, v) for k, v in poly if k != wanted)
    return terms.scaled(rest, -coefficient) if abs(coefficient) == 1 else None


def same_letter_twice(self, low, high):
    letter = ("f", 0)
    self.spans.declare(letter, (low, high))
    return letter


def name_from_zero(engine, term):
    """Name inner letters as if no outer letter stood in the term."""
    if not term.bound:
        return ((), tuple(sorted(term.factors.items()))), term.coefficient
    return naming._renamed(engine, term, list(term.bound), 0)


def count_one_less(engine, term):
    changed = collapse_count(engine, term)
    if changed is None:
        return None
    letter = next(b for b in term.bound if not terms.holding(term, b))
    low, high = term.bound[letter]
    bound = {b: x for b, x in term.bound.items() if b != letter}
    return terms.product(
        [terms.Term(term.coefficient, bound, term.factors)], engine.thaw(terms.add(high, low, -1))
    )


def count_without_proof(engine, term):
    for letter, (low, high) in term.bound.items():
        if not terms.holding(term, letter):
            bound = {b: x for b, x in term.bound.items() if b != letter}
            count = terms.add(terms.add(high, low, -1), terms.ONE)
            return terms.product([terms.Term(term.coefficient, bound, term.factors)], engine.thaw(count))
    return None


def freeze_without_multiplicity(self, given):
    total = {}
    for term in collapse.settle(self, given):
        total.update(self._named(term))
    return tuple(sorted((k, v) for k, v in total.items() if v))


def match_any_row(self, factors, letter):
    if len(factors) != 1:
        return None
    ((atom, exponent),) = factors.items()
    entry = exponent == 1 and atom[0] == "x" and atom[1] == self.key
    return self.total if entry and atom[2][-1] == ((((), ((letter, 1),)), 1),) else None


def match_any_power(self, factors, letter):
    if len(factors) != 1:
        return None
    ((atom, _),) = factors.items()
    return row_match(self, {atom: 1}, letter)


def match_any_parameter(self, factors, letter):
    return next(
        (
            self.total
            for b in self._bindings(self.factors, dict(factors), {self.letter: self._algebra.letter(letter)})
        ),
        None,
    )


def root_of_square(engine, base, exponent):
    value, atoms, parts = powers.split(engine, base)
    if value == 1 and not parts:
        return [terms.Term(1, {}, {a: e * exponent for a, e in atoms.items()})]
    return root_before(engine, base, exponent)


def block_without_start(engine, term):
    changed = collapse_range(engine, term)
    return changed[:1] if changed and len(changed) == 2 else changed


def multiply_without_product_rule(self, other):
    parts = nilpotent.parts_of(other)
    result = {mask: value * parts.get(0, 0) for mask, value in self.parts.items()}
    return nilpotent.Nilpotent(result)


def plain_quotient(number, derivative):
    return derivative(0)


collapse_count, collapse_range = collapse.count_unused, collapse.fix_range
row_match, root_before = rules.RowPattern.match, powers._root


def with_step(old: Callable, new: Callable) -> Callable:
    def plant(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(collapse, "STEPS", tuple(new if s is old else s for s in collapse.STEPS))

    return plant


def without_rule_limits(patch: pytest.MonkeyPatch) -> None:
    class Anything:
        def __eq__(self, other):
            return True

    start = rules.RowPattern.__init__

    def init(self, *args):
        start(self, *args)
        self.limits = Anything()

    patch.setattr(rules.RowPattern, "__init__", init)


def both_solvers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(collapse, "solve", solve_blindly)
    patch.setattr(naming, "solve", solve_blindly)


ENGINE_BUGS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "no range check": lambda patch: patch.setattr(spans.Spans, "inside", inside_always),
    "zero for what may be in range": lambda patch: patch.setattr(
        spans.Spans, "outside", outside_if_three_terms
    ),
    "self-referential delta": both_solvers,
    "reused bound letters": lambda patch: patch.setattr(algebra.Algebra, "fresh", same_letter_twice),
    "capture of an outer letter": lambda patch: patch.setattr(naming, "name", name_from_zero),
    "count off by one": with_step(collapse.count_unused, count_one_less),
    "count that may be negative": with_step(collapse.count_unused, count_without_proof),
    "dropped multiplicity": lambda patch: patch.setattr(
        algebra.Algebra, "freeze", freeze_without_multiplicity
    ),
    "diagonal taken for a row": lambda patch: patch.setattr(rules.RowPattern, "match", match_any_row),
    "squares taken for a row": lambda patch: patch.setattr(rules.RowPattern, "match", match_any_power),
    "row rule on a part of the row": without_rule_limits,
    "parameter that holds the letter": lambda patch: patch.setattr(
        rules.SumPattern, "match", match_any_parameter
    ),
    "root of a square": lambda patch: patch.setattr(powers, "_root", root_of_square),
    "block without its start": with_step(collapse.fix_range, block_without_start),
}
FUZZ_ALONE = (
    "no range check",
    "zero for what may be in range",
    "reused bound letters",
    "capture of an outer letter",
    "count off by one",
    "dropped multiplicity",
    "block without its start",
    "self-referential delta",
)


def found_by_laws() -> list[str]:
    try:
        return broken_laws()
    except (ValueError, TypeError, KeyError, AssertionError, RecursionError) as error:
        return [repr(error)]


def found_by_fuzz(count: int) -> list:
    try:
        return mismatches(count, seed=11).failures
    except (ValueError, TypeError, KeyError, AssertionError, RecursionError) as error:
        return [repr(error)]


def test_without_a_bug_nothing_is_found():
    assert found_by_laws() == []
    assert found_by_fuzz(CASES) == []
    assert undecided(50, seed=11).failures == []


@pytest.mark.parametrize("bug", ENGINE_BUGS)
def test_laws_catch(bug, monkeypatch):
    ENGINE_BUGS[bug](monkeypatch)
    assert found_by_laws()


@pytest.mark.parametrize("bug", FUZZ_ALONE)
def test_fuzz_catches(bug, monkeypatch):
    ENGINE_BUGS[bug](monkeypatch)
    assert found_by_fuzz(CASES)


def oracle_errors() -> list[str]:
    """Return the hand-computed derivatives that the oracle gets wrong."""
    x, at = IndexedBase("x"), {("x", 1): Fraction(9, 4), ("x", 2): Fraction(5)}
    known = {
        Partial(x[1] * x[2], x[1]): 5,
        Partial(Partial(x[1] ** 2 * x[2], x[1]), x[2]): Fraction(9, 2),
        Partial(1 / x[1], x[1]): Fraction(-16, 81),
        Partial(sqrt(x[1]), x[1]): Fraction(1, 3),
        Partial(exp(x[1] * x[2]) / exp(x[1] * x[2]), x[1]): 0,
        Partial(log(x[1]), x[1]): Fraction(4, 9),
    }
    return [str(e) for e, value in known.items() if World({}, 0, given=at).value(e) != value]


def test_the_oracle_is_right_without_a_bug():
    assert oracle_errors() == []
    assert product_rule_failures(60) == []


def test_a_dropped_product_rule_is_caught(monkeypatch):
    monkeypatch.setattr(nilpotent.Nilpotent, "__mul__", multiply_without_product_rule)
    assert oracle_errors()
    assert product_rule_failures(60)


def test_a_dropped_chain_rule_is_caught(monkeypatch):
    for module in (nilpotent, world):
        monkeypatch.setattr(module, "taylor", plain_quotient)
    assert oracle_errors()
