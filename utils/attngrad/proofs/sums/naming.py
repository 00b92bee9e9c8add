"""Canonical names for bound letters, and a canonical choice of what each delta is solved for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import permutations
from itertools import product as choices
from typing import TYPE_CHECKING

from .terms import (
    UNIT,
    Atom,
    Key,
    Number,
    Poly,
    Term,
    add,
    has_sums,
    inner_polys,
    letters,
    poly_letters,
    product,
    solve,
)

if TYPE_CHECKING:
    from .algebra import Algebra

Colours = dict[Atom, int]
MAX_PERMUTED = 5


def encode_poly(poly: Poly, colours: Colours) -> tuple:
    """Return a polynomial with colours in the place of letters; it does not depend on the letters' names."""
    return tuple(sorted((encode_key(key, colours), value) for key, value in poly))


def encode_key(key: Key, colours: Colours) -> tuple:
    """Return a key with colours in the place of letters; letters bound inside it are all alike."""
    bound, factors = key
    if bound:
        colours = {**colours, **{b: -1 for b, _low, _high in bound}}
    limits = tuple(sorted((encode_poly(low, colours), encode_poly(high, colours)) for _b, low, high in bound))
    return limits, tuple(sorted((encode(atom, colours), e) for atom, e in factors))


def encode(atom: Atom, colours: Colours) -> tuple:
    """Return an atom with colours in the place of letters."""
    tag = atom[0]
    if tag in "fb":
        return ("c", colours[atom]) if atom in colours else atom
    if tag in "xF":
        return tag, atom[1], tuple(encode_poly(p, colours) for p in atom[2])
    if tag in "dprla":
        return tag, encode_poly(atom[1], colours)
    return (tag, encode_key(atom[1], colours)) if tag == "e" else atom


def ranked(signatures: dict[Atom, tuple]) -> Colours:
    """Return the rank of each letter's signature."""
    order = {s: rank for rank, s in enumerate(sorted(set(signatures.values())))}
    return {letter: order[s] for letter, s in signatures.items()}


def refine(term: Term, colours: Colours) -> Colours:
    """Split classes of letters by the factors that hold them until nothing changes."""
    while len(set(colours.values())) < len(colours):
        signatures = {}
        for letter in colours:
            marked = {**colours, letter: -2}
            held = sorted((encode(a, marked), e) for a, e in term.factors.items() if letter in letters(a))
            signatures[letter] = (colours[letter], tuple(held))
        finer = ranked(signatures)
        if len(set(finer.values())) == len(set(colours.values())):
            break
        colours = finer
    return colours


def orders(term: Term, colours: Colours) -> Iterator[list[Atom]]:
    """Yield orders of the letters of which one is least; letters that can be swapped are tried once."""
    colours = refine(term, colours)
    classes: dict[int, list[Atom]] = {}
    for letter, colour in colours.items():
        classes.setdefault(colour, []).append(letter)
    tied = next((classes[c] for c in sorted(classes) if len(classes[c]) > 1), None)
    if tied is None:
        yield sorted(colours, key=colours.__getitem__)
        return
    tried: list[Atom] = []
    for letter in tied:
        if not any(_swappable(term, letter, other) for other in tried):
            tried.append(letter)
            yield from orders(term, {x: 2 * c + (x in tied and x != letter) for x, c in colours.items()})


def _swappable(term: Term, one: Atom, two: Atom) -> bool:
    """Say whether exchanging two letters leaves the factors as they are."""
    base = {x: k for k, x in enumerate(term.bound)}
    other = {**base, one: base[two], two: base[one]}
    held = [(a, e) for a, e in term.factors.items() if {one, two} & letters(a)]
    return sorted((encode(a, base), e) for a, e in held) == sorted((encode(a, other), e) for a, e in held)


def name(algebra: Algebra, term: Term) -> tuple[Key, Number]:
    """Return the canonical key of a settled term, and its coefficient (a renaming can turn a sign)."""
    if not term.bound:
        return ((), tuple(sorted(term.factors.items()))), term.coefficient
    start = 1 + max(
        (x[1] for a in term.factors for x in letters(a) - term.bound.keys() if x[0] == "b"), default=-1
    )
    candidates = list(orders(term, ranked(term.bound))) if len(term.bound) > 1 else [list(term.bound)]
    if len(candidates) > 1:
        coded = [_coded(term, order) for order in candidates]
        least = min(coded)
        candidates = [order for order, code in zip(candidates, coded, strict=True) if code == least]
        if not any(has_sums(p) for a in term.factors for p in inner_polys(a)):
            candidates = candidates[:1]
    return min((_renamed(algebra, term, order, start) for order in candidates), key=lambda pair: pair[0])


def _coded(term: Term, order: Sequence[Atom]) -> tuple:
    colours = {letter: rank for rank, letter in enumerate(order)}
    return tuple(sorted((encode(a, colours), e) for a, e in term.factors.items()))


def _renamed(algebra: Algebra, term: Term, order: Sequence[Atom], start: int) -> tuple[Key, Number]:
    names = {letter: algebra.letter(("b", start + k)) for k, letter in enumerate(order)}
    (moved,) = product(
        [Term(term.coefficient, {}, {})], *[algebra.substitute(a, e, names) for a, e in term.factors.items()]
    )
    bound = tuple((("b", start + k), *term.bound[letter]) for k, letter in enumerate(order))
    return (bound, tuple(sorted(moved.factors.items()))), moved.coefficient


def solved_forms(algebra: Algebra, term: Term) -> list[list[Term]]:
    """Return a term with every delta solved for a letter, which then stands nowhere else.

    The letters are eliminated in the order that makes the deltas alone least; where several orders do, all
    forms are returned. So the choice does not depend on how the term was written.
    """
    deltas = [a for a in term.factors if a[0] == "d"]
    if _contradictory([d[1] for d in deltas]):
        return [[]]
    bound, free = _solvable(algebra, term, deltas)
    best, options = None, []
    for order in _elimination_orders(term, bound):
        pivots = _eliminate(algebra, deltas, [*order, *free])
        code = _system_code(term, order, pivots)
        if best is None or code < best:
            best, options = code, []
        if code == best:
            options.append(pivots)
    unique = {tuple(sorted(o.items())): o for o in options}
    return [_substituted(algebra, term, deltas, pivots) for pivots in unique.values()]


def _solvable(algebra: Algebra, term: Term, deltas: Sequence[Atom]) -> tuple[list[Atom], list[Atom]]:
    held = frozenset().union(*[letters(d) for d in deltas])
    bound = [x for x in term.bound if x in held]
    free = sorted((x for x in held if x not in term.bound and algebra.is_index(x)), reverse=True)
    return bound, free


def _elimination_orders(term: Term, bound: Sequence[Atom]) -> Iterator[list[Atom]]:
    """Yield the orders of the bound letters that respect the order of their limits."""
    classes: dict[tuple, list[Atom]] = {}
    for letter in bound:
        classes.setdefault(term.bound[letter], []).append(letter)
    groups = [classes[c] for c in sorted(classes)]
    if any(len(g) > MAX_PERMUTED for g in groups):
        yield [x for g in groups for x in g]
        return
    for pick in choices(*[permutations(g) for g in groups]):
        yield [x for g in pick for x in g]


def _eliminate(algebra: Algebra, deltas: Sequence[Atom], order: Sequence[Atom]) -> dict[Atom, Poly]:
    """Solve the deltas for letters in the given order: letter -> value, free of all solved letters."""
    rows = [d[1] for d in deltas]
    pivots: dict[Atom, Poly] = {}
    for letter in order:
        able = [r for r in rows if letter in poly_letters(r) and solve(r, letter) is not None]
        if not able:
            continue
        row = min(able, key=lambda r: sum(a[0] == "x" for (_, factors), _ in r for a, _e in factors))
        value = solve(row, letter)
        rows = [algebra.replace(r, {letter: value}) for r in rows if r is not row]
        pivots = {x: algebra.replace(v, {letter: value}) for x, v in pivots.items()}
        pivots[letter] = value
    return _reduce_tables(rows, pivots, {letter: rank for rank, letter in enumerate(order)})


def _contradictory(rows: list[Poly]) -> bool:
    """Say whether some combination of the rows is a number other than 0."""
    while rows:
        row, *rows = rows
        keys = [key for key, _ in row if key != UNIT]
        if row and not keys:
            return True
        if keys:
            value = dict(row)[keys[0]]
            rows = [add(r, row, -Fraction(dict(r).get(keys[0], 0)) / value) for r in rows]
    return False


def _reduce_tables(rows: list[Poly], pivots: dict[Atom, Poly], colours: Colours) -> dict[Atom, Poly]:
    """Use the rows that no letter solves: eliminate their table entries from the solved values."""
    entries = {a for row in rows for (_, factors), _ in row for a, _e in factors if a[0] == "x"}
    for entry in sorted(entries, key=lambda a: encode(a, colours), reverse=True):
        key = ((), ((entry, 1),))
        row = next((r for r in rows if abs(dict(r).get(key, 0)) == 1), None)
        if row is not None:
            pivot = dict(row)[key]
            rows = [add(r, row, -dict(r).get(key, 0) * pivot) for r in rows if r is not row]
            pivots = {x: add(v, row, -dict(v).get(key, 0) * pivot) for x, v in pivots.items()}
    return pivots


def _system_code(term: Term, order: Sequence[Atom], pivots: dict[Atom, Poly]) -> tuple:
    colours = {letter: rank for rank, letter in enumerate(order)}
    return tuple(sorted((encode(x, colours), encode_poly(v, colours)) for x, v in pivots.items()))


def _substituted(
    algebra: Algebra, term: Term, deltas: Sequence[Atom], pivots: dict[Atom, Poly]
) -> list[Term]:
    """Put the solved values in every factor and write the deltas anew."""
    parts = [[Term(term.coefficient, term.bound, {})]]
    for atom, exponent in term.factors.items():
        if atom[0] != "d":
            parts.append(algebra.substitute(atom, exponent, pivots))
    for letter, value in pivots.items():
        parts.append(algebra.delta_between(letter, value))
    for atom in deltas:
        parts.append(algebra.substitute(atom, 1, pivots))
    return product(*parts)
