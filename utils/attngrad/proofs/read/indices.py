"""Index expressions: which letters are free or bound, and that every index lies in its axis."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from lark import Token, Tree
from sympy import Dummy, Expr, Indexed, IndexedBase, Integer, Symbol, expand, oo

from .errors import ReadError
from .table import Range, Table

Bindings = Mapping[str, tuple[Expr, Range]]  # summation letter -> (what it stands for, its range)
Ranges = Mapping[Expr | IndexedBase, Range]


def interval(expression: Expr, ranges: Ranges) -> Range:
    """Return the least and the greatest value of a linear index expression.

    Letters that the ranges do not know stay as they are; what is not linear has infinite bounds.

    Example
    -------
    >>> i, n = Symbol("i", integer=True), Symbol("n", integer=True, positive=True)
    >>> interval(n - i, {i: (Integer(1), n)})
    (0, n - 1)
    """
    if isinstance(expression, Symbol) and expression in ranges:
        low, high = ranges[expression]
        if not (low.free_symbols | high.free_symbols) & ranges.keys():
            return low, high
    entries = {t: Dummy(integer=True) for t in expression.atoms(Indexed) if t.base in ranges}
    known = {**ranges, **{d: ranges[t.base] for t, d in entries.items()}}
    plain = expand(expression.xreplace(entries))
    return _extreme(plain, known, lowest=True), _extreme(plain, known, lowest=False)


def _extreme(expression: Expr, ranges: Ranges, lowest: bool) -> Expr:
    """Replace each letter by the end of its range that makes a linear expression extreme."""
    for _ in range(20):
        letter = next((s for s in expression.free_symbols if s in ranges), None)
        if letter is None:
            return expression
        factor = expression.coeff(letter)
        rest = expand(expression - factor * letter)
        if not factor.is_number or rest.has(letter):
            break
        low, high = ranges[letter]
        expression = expand(rest + factor * (low if (factor > 0) == lowest else high))
    return -oo if lowest else oo


@lru_cache(maxsize=4096)
def nonnegative(difference: Expr) -> bool:
    """Say whether a difference of sizes is provably not negative."""
    return bool(expand(difference).is_nonnegative)


class IndexReader:
    """Reads index expressions of one formula and keeps account of its letters.

    ``free`` and ``bound`` hold where each letter was first seen in either role.
    """

    def __init__(self, text: str, table: Table, quote: bool):
        self.text, self.table, self.quote = text, table, quote
        self.ranges: Ranges = table.scope().ranges
        self.free: dict[str, Token] = {}
        self.bound: dict[str, Token] = {}

    def error(self, message: str, at: int | Token | Tree) -> ReadError:
        """Return the error for this place of the text."""
        position = at if isinstance(at, int) else at.start_pos if isinstance(at, Token) else at.meta.start_pos
        return ReadError(message, self.text, position)

    # --- index expressions -------------------------------------------------------------------

    def read(self, tree: Tree, bindings: Bindings) -> Expr:
        """Return an integer expression over index letters, sizes and integer tables."""
        kind, parts = tree.data, tree.children
        if kind == "number" and parts[0].isdigit():
            return Integer(int(parts[0]))
        if kind == "letter":
            return self.letter(parts[0], bindings)
        if kind == "negative":
            return -self.read(parts[0], bindings)
        if kind in ("plus", "minus"):
            sign = 1 if kind == "plus" else -1
            return self.read(parts[0], bindings) + sign * self.read(parts[1], bindings)
        if kind == "parenthesis":
            if parts[0].data == "letter":
                raise self.error("(i) as an index is an order statistic to many readers", tree)
            return self.read(parts[0], bindings)
        if kind == "run":
            return self._call(tree, bindings)
        return self._named(tree, bindings)

    def _call(self, tree: Tree, bindings: Bindings) -> Expr:
        r"""Read ``\beta(j-i)``, the value of an integer table; nothing else may stand side by side."""
        first, last = tree.children[0], tree.children[-1]
        if len(tree.children) == 2 and first.data == "name" and last.data == "parenthesis":
            name = str(first.children[0])
            if name in self.table.integers:
                return self.table_entry(name, [self.read(last.children[0], bindings)], tree, bindings)
        raise self.error("ambiguous in an index: put a comma between the indices", tree)

    def _named(self, tree: Tree, bindings: Bindings) -> Expr:
        if tree.data == "name":
            name = str(tree.children[0])
            scalar = name in self.table.integers and not self.table.axes(name)
            if scalar or name in self.table.size_names:
                return self.table.symbol(name)
        if tree.data == "entry" and tree.children[0].data == "name":
            name = str(tree.children[0].children[0])
            if name in self.table.integers:
                return self.table_entry(name, self.subscripts(tree.children[1], bindings), tree, bindings)
        raise self.error("not an index expression", tree)

    def letter(self, token: Token, bindings: Bindings) -> Expr:
        """Return what an index letter stands for here; a letter that no sum binds is free."""
        if str(token) in bindings:
            return bindings[str(token)][0]
        self.free.setdefault(str(token), token)
        return Symbol(str(token), integer=True)

    def subscripts(self, items: Tree, bindings: Bindings) -> list[Expr]:
        """Return the indices of a subscript: ``ij`` or ``i, j+1``."""
        found = list(items.children)
        if len(found) == 1 and found[0].data == "run":
            factors = list(flatten(found[0]))
            call = len(factors) == 2 and factors[0][1].data == "name" and factors[1][1].data == "parenthesis"
            if call:
                return [self.read(found[0], bindings)]
            for _, factor in factors:
                if factor.data != "letter":
                    raise self.error("ambiguous subscript: put commas between the indices", factor)
            found = [factor for _, factor in factors]
        return [self.read(tree, bindings) for tree in found]

    def table_entry(self, name: str, indices: list[Expr], at: Tree, bindings: Bindings) -> Expr:
        """Return an entry of an integer table, its indices checked."""
        axes = self.table.axes(name)
        if len(indices) != len(axes):
            raise self.error(f"{name} takes {len(axes)} indices, {len(indices)} given", at)
        for index, axis in zip(indices, axes, strict=True):
            self.require_within(self.interval(index, bindings), axis, at)
        return self.table.symbol(name)[tuple(indices)]

    # --- ranges ------------------------------------------------------------------------------

    def interval(self, index: Expr, bindings: Bindings) -> Range:
        """Return the least and the greatest value of an index."""
        inner = {letter: bounds for letter, bounds in bindings.values() if isinstance(letter, Dummy)}
        return interval(index, {**self.ranges, **inner})

    def require_within(self, found: Range, axis: Range, at: int | Token | Tree) -> None:
        """Refuse an index that is not provably inside its axis."""
        low, high = interval(found[0], self.ranges)[0], interval(found[1], self.ranges)[1]
        if not (nonnegative(low - axis[0]) and nonnegative(axis[1] - high)):
            raise self.error(f"index runs over {low}..{high}, but this axis over {axis[0]}..{axis[1]}", at)

    def require_forward(self, low: Expr, high: Expr, at: Token | Tree) -> None:
        """Refuse limits that may run backwards: such a sum has no agreed meaning."""
        least = interval(high - low, self.ranges)[0]
        if not nonnegative(least + 1):
            raise self.error(f"the limits {low}..{high} may run backwards", at)


def flatten(tree: Tree) -> list[tuple[str, Tree]]:
    """Return a run of factors as (operator, factor) pairs; the operator is empty for juxtaposition."""
    if tree.data != "run":
        return [("", tree)]
    head, last = tree.children[0], tree.children[-1]
    operator = tree.children[1].type if len(tree.children) == 3 else ""
    return [*flatten(head), (operator, last)]
