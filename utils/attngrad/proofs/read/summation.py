r"""Sums: what binds a letter, over which range, and how far a sum reaches."""

from __future__ import annotations

from lark import Token, Tree
from sympy import Dummy, Expr, Sum, Symbol

from .indices import Bindings, flatten
from .shapes import Value
from .table import Range

_MASK = "a limit depends on another summation letter: sum over the whole range with a 0/1 mask"
Limit = tuple[Expr, Expr, Expr]


class Summation:
    r"""The part of the evaluator that reads ``\sum``."""

    def _big(self, tree: Tree, bindings: Bindings) -> Value:
        limits, body = tree.children[0], tree.children[-1]
        upper = tree.children[1] if len(tree.children) > 2 else None
        self.require_group(body)
        parts = limits.children
        if upper is not None and (len(parts) == 1 or parts[1].type != "EQUALS"):
            raise self.error("an upper limit needs a lower one", upper)
        if len(parts) == 1:
            return self._over_letters(self._letters(parts[0]), body, bindings)
        letter = self._single_letter(parts[0])
        if parts[1].type == "EQUALS":
            return self._between(letter, parts[2], upper, body, bindings)
        return self._all_but(letter, parts[2], body, bindings)

    def _over_letters(self, letters: list[Token], body: Tree, bindings: Bindings) -> Value:
        r"""Read ``\sum_{i,j}``: each letter over its range."""
        inner, limits = dict(bindings), []
        for letter in letters:
            limits.append(self._bind(letter, self._range_of(letter), inner))
        return _summed(self.value(body, inner), limits)

    def _between(
        self, letter: Token, start: Tree, upper: Tree | None, body: Tree, bindings: Bindings
    ) -> Value:
        r"""Read ``\sum_{j=a}^{b}`` inside the range of the letter."""
        if upper is None:
            raise self.error("upper limit missing", letter)
        low, high = self.indices.read(start, bindings), self.indices.read(upper, bindings)
        axis, inner = self._range_of(letter), dict(bindings)
        limit = self._bind(letter, (low, high), inner)
        if (low.free_symbols | high.free_symbols) & {bound for bound, _ in bindings.values()}:
            raise self.error(_MASK, start)
        self.indices.require_within((low, high), axis, letter)
        self.indices.require_forward(low, high, letter)
        return _summed(self.value(body, inner), [limit])

    def _all_but(self, letter: Token, without: Tree, body: Tree, bindings: Bindings) -> Value:
        r"""Read ``\sum_{l \ne j}`` as the whole sum minus the term at j."""
        axis, inner = self._range_of(letter), dict(bindings)
        left_out = self.indices.read(without, bindings)
        self.indices.require_within(self.indices.interval(left_out, bindings), axis, letter)
        limit = self._bind(letter, axis, inner)
        if Symbol(str(letter), integer=True) in left_out.free_symbols:
            raise self.error(f"{letter} is summed over and also left out: choose another letter", letter)
        whole = _summed(self.value(body, inner), [limit])
        term = self.value(body, {**bindings, str(letter): (left_out, axis)})
        return Value(
            whole.rows, whole.columns, lambda i, j: whole.entry(i, j) - term.entry(i, j), whole.square
        )

    def _bind(self, letter: Token, bounds: Range, inner: dict) -> Limit:
        """Bind a letter to a fresh one; the same letter twice in one nest is refused."""
        if str(letter) in inner and not self.indices.quote:
            raise self.error(f"{letter} is already bound by an outer sum: choose another letter", letter)
        fresh = Dummy(str(letter), integer=True)
        inner[str(letter)] = (fresh, bounds)
        self.indices.bound.setdefault(str(letter), letter)
        return (fresh, *bounds)

    def _range_of(self, letter: Token) -> Range:
        if letter.type != "LETTER":
            raise self.error(f"{letter} is not an index letter", letter)
        return self.table.range(str(letter))

    def _letters(self, items: Tree) -> list[Token]:
        """Return the letters under a sum, written ``i,j`` or ``ij``."""
        factors = [factor for item in items.children for _, factor in flatten(item)]
        for factor in factors:
            if factor.data not in ("letter", "name"):
                raise self.error("a letter is expected under the sum", factor)
        return [factor.children[0] for factor in factors]

    def _single_letter(self, tree: Tree) -> Token:
        letters = self._letters(Tree("items", [tree]))
        if len(letters) != 1:
            raise self.error("one letter expected", tree)
        return letters[0]


def _summed(body: Value, limits: list[Limit]) -> Value:
    return Value(body.rows, body.columns, lambda i, j: Sum(body.entry(i, j), *limits), body.square)
