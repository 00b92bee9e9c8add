"""One term, step by step: deltas collapse, unused letters count, blocks split, declared sums are used.

Each step takes a term and returns the terms that replace it, or None when it does not apply.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product as choices
from math import floor, prod
from typing import TYPE_CHECKING

from .powers import grouped, is_whole, power
from .terms import (
    ONE,
    UNIT,
    Atom,
    CannotDecide,
    Poly,
    Term,
    add,
    constant,
    holding,
    inner_polys,
    letters,
    offsets,
    product,
    single,
    solve,
    times,
    value_of,
)

if TYPE_CHECKING:
    from .algebra import Algebra

UNROLL = 12


def settle(algebra: Algebra, terms: Iterable[Term]) -> list[Term]:
    """Return terms to which no step applies any more."""
    todo, done = list(terms), []
    while todo:
        term = todo.pop()
        if not term.coefficient:
            continue
        for step in STEPS:
            replacement = step(algebra, term)
            if replacement is not None:
                todo.extend(replacement)
                break
        else:
            done.append(term)
    return done


def replaced(algebra: Algebra, term: Term, letter: Atom, value: Poly) -> list[Term]:
    """Return a term with a polynomial in the place of a letter, which is bound no longer."""
    bound = {b: limits for b, limits in term.bound.items() if b != letter}
    kept = {a: e for a, e in term.factors.items() if letter not in letters(a)}
    held = [(a, e) for a, e in term.factors.items() if letter in letters(a)]
    changed = [algebra.substitute(a, e, {letter: value}) for a, e in held]
    return product([Term(term.coefficient, bound, kept)], *changed)


def without(term: Term, *atoms: Atom) -> Term:
    """Return a term without some of its atoms."""
    return Term(term.coefficient, term.bound, {a: e for a, e in term.factors.items() if a not in atoms})


def tidy_exponents(algebra: Algebra, term: Term) -> list[Term] | None:
    """Give every atom an exponent of the kind that its tag promises."""
    for atom, exponent in term.factors.items():
        tag = atom[0]
        if tag == "d" and exponent != 1:
            if exponent < 0:
                raise CannotDecide("a Kronecker delta stands in a denominator, where it may be 0")
            return [times(without(term, atom), Term(1, {}, {atom: 1}))]
        if tag == "p" and ("r", atom[1]) in term.factors:
            return product([without(term, atom)], single(("r", atom[1]), exponent))
        if (tag == "p" and exponent > 0) or (tag == "r" and is_whole(exponent)):
            return product([without(term, atom)], power(algebra, atom[1], exponent))
        if tag == "r" and exponent > 1:
            rest = product([without(term, atom)], single(atom, exponent - floor(exponent)))
            return product(rest, power(algebra, atom[1], floor(exponent)))
        if tag == "n" and not 0 < exponent < 1:
            whole = floor(exponent)
            scale = power(algebra, constant(atom[1]), whole)
            left = single(atom, exponent - whole) if exponent != whole else [Term(1, {}, {})]
            return product([without(term, atom)], scale, left)
        if tag == "a" and is_whole(exponent) and (exponent % 2 == 0 or exponent > 1):
            odd = int(exponent) % 2
            even = power(algebra, atom[1], exponent - odd)
            return product([without(term, atom)], even, single(atom) if odd else [Term(1, {}, {})])
    return None


def apply_power_rules(algebra: Algebra, term: Term) -> list[Term] | None:
    """Lower the powers of names that a rule declares to be their own powers, such as 0/1 masks."""
    if not algebra.power_rules:
        return None
    for atom, exponent in term.factors.items():
        rule = algebra.power_rules.get(atom[1]) if atom[0] in "xs" else None
        if rule is not None and is_whole(exponent) and exponent >= rule.exponent:
            lowered = exponent - rule.exponent + rule.becomes
            return [times(without(term, atom), Term(1, {}, {atom: lowered} if lowered else {}))]
    return None


def collapse_delta(algebra: Algebra, term: Term) -> list[Term] | None:
    """Use sum_k delta(k, e) f(k) = f(e) where e is provably in the range of k, 0 where it provably is not."""
    for atom in term.factors:
        if atom[0] != "d":
            continue
        for letter in term.bound:
            value = solve(atom[1], letter) if letter in letters(atom) else None
            if value is None or not algebra.spans.whole(value):
                continue
            if algebra.spans.inside(value, term.bound[letter]):
                return replaced(algebra, without(term, atom), letter, value)
            if algebra.spans.outside(value, term.bound[letter]):
                return []
    return None


def fix_range(algebra: Algebra, term: Term) -> list[Term] | None:
    """Put in the value of a range of one number, write every block a..b as 1..b without 1..a-1.

    A block is split where 1 <= a <= b + 1 is provable, and all blocks of a term at once: otherwise what
    collapses in between would depend on their order.
    """
    blocks = []
    for letter, (low, high) in term.bound.items():
        if low == high:
            return replaced(algebra, term, letter, low)
        before = add(low, ONE, -1)
        if before == high:
            return []
        if before and algebra.spans.nonnegative(before) and algebra.spans.nonnegative(add(high, before, -1)):
            blocks.append((letter, before, high))
    if not blocks:
        return None
    signs = choices(*[((high, 1), (before, -1)) for _, before, high in blocks])
    return [t for pick in signs for t in _prefixes(algebra, term, [letter for letter, *_ in blocks], pick)]


def _prefixes(
    algebra: Algebra, term: Term, blocks: Sequence[Atom], pick: Sequence[tuple[Poly, int]]
) -> list[Term]:
    """Return the term with the given ends and signs in the place of its blocks."""
    fresh = [algebra.fresh(ONE, high) for high, _ in pick]
    names = {old: algebra.letter(new) for old, new in zip(blocks, fresh, strict=True)}
    bound = {b: limits for b, limits in term.bound.items() if b not in names}
    bound.update({new: (ONE, high) for new, (high, _) in zip(fresh, pick, strict=True)})
    sign = prod(sign for _, sign in pick)
    moved = [algebra.substitute(a, e, names) for a, e in term.factors.items()]
    return product([Term(term.coefficient * sign, bound, {})], *moved)


def shift_delta(algebra: Algebra, term: Term) -> list[Term] | None:
    """Use sum_kl delta(k, l + c) f(k, l) = sum_l f(l + c, l), c > 0, l + c in the range of k."""
    for atom in term.factors:
        if atom[0] != "d":
            continue
        for letter in term.bound:
            value = solve(atom[1], letter) if letter in letters(atom) else None
            pair = _shift(value, term.bound) if value is not None else None
            if pair is None:
                continue
            other, step = pair
            low = _greater(algebra, term.bound[other][0], add(term.bound[letter][0], constant(step), -1))
            high = _greater(
                algebra, term.bound[other][1], add(term.bound[letter][1], constant(step), -1), least=True
            )
            if low is None or high is None:
                continue
            fresh = algebra.fresh(low, high)
            moved = replaced(algebra, without(term, atom), letter, value)
            return [
                Term(t.coefficient, {**t.bound, fresh: (low, high)}, t.factors)
                for m in moved
                for t in replaced(algebra, m, other, algebra.letter(fresh))
            ]
    return None


def shift_letter(algebra: Algebra, term: Term) -> list[Term] | None:
    """Count a letter that occurs as k + c, k + d, ... from another start: the least of c, d becomes 0."""
    for letter, (low, high) in term.bound.items():
        found = [offsets(p, letter) for a in term.factors for p in inner_polys(a)]
        step = 0 if letter in term.factors else min(frozenset().union(*found), default=0)
        if step:
            limits = (add(low, constant(step)), add(high, constant(step)))
            fresh = algebra.fresh(*limits)
            moved = replaced(algebra, term, letter, add(algebra.letter(fresh), constant(-step)))
            return [Term(t.coefficient, {**t.bound, fresh: limits}, t.factors) for t in moved]
    return None


def _shift(value: Poly, bound: Iterable[Atom]) -> tuple[Atom, int] | None:
    """Return the bound letter and the positive integer of which a value is the sum, or None."""
    step = dict(value).get(UNIT, 0)
    rest = [key for key, c in value if key != UNIT and c == 1]
    if len(value) != 2 or len(rest) != 1 or step <= 0 or not is_whole(step):
        return None
    other = next((b for b in bound if rest[0] == ((), ((b, 1),))), None)
    return None if other is None else (other, int(step))


def _greater(algebra: Algebra, one: Poly, two: Poly, least: bool = False) -> Poly | None:
    """Return the greater (or the lesser) of two limits if it is provable which it is."""
    if algebra.spans.nonnegative(add(one, two, -1)):
        return two if least else one
    if algebra.spans.nonnegative(add(two, one, -1)):
        return one if least else two
    return None


def count_unused(algebra: Algebra, term: Term) -> list[Term] | None:
    """Replace a sum over a letter that no factor holds by the number of its values, if that is provable."""
    for letter, (low, high) in term.bound.items():
        if not holding(term, letter):
            count = add(add(high, low, -1), ONE)
            if algebra.spans.nonnegative(count):
                bound = {b: limits for b, limits in term.bound.items() if b != letter}
                return product([Term(term.coefficient, bound, term.factors)], algebra.thaw(count))
    return None


def apply_sum_rules(algebra: Algebra, term: Term) -> list[Term] | None:
    """Use a declared sum where its summand is all that depends on a bound letter over the whole range."""
    if not algebra.sum_rules:
        return None
    for letter, limits in term.bound.items():
        held = holding(term, letter)
        for rule in algebra.sum_rules:
            if limits == rule.limits:
                total = rule.match({a: term.factors[a] for a in held}, letter)
                if total is not None:
                    rest = without(term, *held)
                    bound = {b: x for b, x in term.bound.items() if b != letter}
                    return product([Term(rest.coefficient, bound, rest.factors)], algebra.thaw(total))
    return None


def cancel_sums(algebra: Algebra, term: Term) -> list[Term] | None:
    """Cancel a sum that cannot be empty against the same sum in the denominator."""
    negative = [a for a, e in term.factors.items() if a[0] in "pr" and e < 0]
    bases = [a for a in negative if len(a[1]) == 1 and a[1][0][0][0]]
    if not bases or not term.bound:
        return None
    groups = grouped(term)
    next(groups)
    for inner, factors in groups:
        bound = {b: term.bound[b] for b in term.bound if b in inner}
        if not all(algebra.filled(*limits) for limits in bound.values()):
            continue
        key, sign = algebra.name(Term(1, bound, factors))
        for base in bases:
            if base[1][0][0] == key:
                ratio = sign / base[1][0][1] if abs(base[1][0][1]) != 1 else sign * base[1][0][1]
                rest = without(term, *factors)
                outer = {b: limits for b, limits in term.bound.items() if b not in inner}
                kept = Term(rest.coefficient * ratio, outer, rest.factors)
                return [times(kept, Term(1, {}, {base: 1}))]
    return None


def unroll(algebra: Algebra, term: Term) -> list[Term] | None:
    """Write out a sum over a few numbers; a sum over no number is 0."""
    for letter, (low, high) in term.bound.items():
        first, last = value_of(low), value_of(high)
        if first is not None and last is not None and last - first < UNROLL:
            values = range(int(first), int(last) + 1)
            return [t for v in values for t in replaced(algebra, term, letter, constant(v))]
    return None


STEPS = (
    tidy_exponents,
    apply_power_rules,
    collapse_delta,
    shift_letter,
    fix_range,
    shift_delta,
    count_unused,
    apply_sum_rules,
    cancel_sums,
    unroll,
)
