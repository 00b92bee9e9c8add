r"""LaTeX to SymPy: the printed string is the only source of a formula.

:func:`read` returns the statements of a display, :func:`read_expression` the value of a formula that
states nothing, :func:`explain` says in plain text how a formula was read, and :func:`fingerprint` is
equal for two texts that read as the same object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from lark import Token, Tree
from lark.exceptions import UnexpectedInput
from sympy import Expr, Symbol

from . import shapes
from .errors import ReadError
from .explain import explain, fingerprint
from .grammar import parse
from .indices import IndexReader
from .lexer import tokens
from .meaning import Evaluator
from .shapes import UNKNOWN, ShapeError, Value
from .statements import Reading, Statement
from .symbols import RELATIONS, UNEVALUABLE
from .table import Table

__all__ = ["ReadError", "Reading", "Statement", "Value", "explain", "fingerprint", "read", "read_expression"]

_DIRECTIONS = {"<": 1, "<=": 1, ">": -1, ">=": -1}


def read(text: str, table: Table, quote: bool = False) -> Reading:
    r"""Read a display that states something.

    An array equation is read as the equation of its entries, at fresh index letters. With ``quote`` a
    letter may be free and bound in one formula, the inner meaning winning: for quoted mistakes.

    Raises
    ------
    ReadError
        For anything that is not in the notation, or that two readers may read differently.

    Example
    -------
    >>> table = Table(index={"i": "n", "j": "n"}, names={"p": ("n",), "v": ("n",), "c": ()})
    >>> read(r"c = \sum_j p_j v_j", table).statements[0].rhs
    Sum(p[_j]*v[_j], (_j, 1, n))
    """
    try:
        return _Reader(text, table, quote).reading()
    except RecursionError:
        raise ReadError("this formula is nested too deeply", text, 0) from None


def read_expression(text: str, table: Table, quote: bool = False) -> Value:
    r"""Read a formula that states nothing: a scalar, or an array given by its entries.

    Raises
    ------
    ReadError
        As :func:`read`, and when the text states something.

    Example
    -------
    >>> table = Table(index={"i": "n"}, names={"p": ("n",)})
    >>> read_expression(r"p_i^2", table).expression
    p[i]**2
    """
    try:
        return _Reader(text, table, quote).expression()
    except RecursionError:
        raise ReadError("this formula is nested too deeply", text, 0) from None


@dataclass
class _Side:
    """One side of a chain, the letters that are free in it, and the relation before it."""

    tree: Tree
    value: Value
    free: Mapping[str, Token]
    relation: Token | None = None
    reason: str = ""

    @property
    def is_number(self) -> bool:
        return self.value.is_scalar and self.value.expression.is_number


class _Reader:
    """Reads one text; keeps the fresh letters of its array equations."""

    def __init__(self, text: str, table: Table, quote: bool):
        if not isinstance(text, str):
            raise TypeError(f"a formula is a text in LaTeX; got {type(text).__name__}")
        self.text, self.table = text, table
        self.indices = IndexReader(text, table, quote)
        self.evaluator = Evaluator(self.indices)
        self.fresh: dict[Symbol, tuple[Expr, Expr]] = {}

    def reading(self) -> Reading:
        out: list[Statement] = []
        for chain in self._parse().children:
            sides = self._sides(chain)
            if len(sides) == 1:
                raise self.indices.error("this states nothing: a relation such as = is missing", chain)
            out += self._statements(sides)
        for aside in self.evaluator.asides.values():
            out.append(
                self._statement(
                    aside.left, aside.right, "=", "under the brace", aside.at, aside.at.meta.start_pos
                )
            )
        return Reading(tuple(out), self.table.scope().with_ranges(self.fresh), self.text)

    def expression(self) -> Value:
        chains = self._parse().children
        sides = self._sides(chains[0])
        if len(chains) > 1 or len(sides) > 1:
            raise self.indices.error("this states something: an expression is expected", chains[0])
        if sides[0].value.is_scalar and sides[0].value.expression.has(*UNEVALUABLE):
            raise self.indices.error("this has no real value", chains[0])
        return sides[0].value

    # --- parsing -----------------------------------------------------------------------------

    def _parse(self) -> Tree:
        stream = tokens(self.text, self.table)
        try:
            return parse(stream)
        except UnexpectedInput as problem:
            found = getattr(problem, "token", None)
            if found is None or found.type == "$END" or found.start_pos is None:
                found = None
            raise self._parse_error(found, stream) from None

    def _parse_error(self, found: Token | None, stream: list[Token]) -> ReadError:
        at = len(self.text) if found is None else found.start_pos
        before = [t for t in stream if t.start_pos < at]
        return ReadError(_reason(found, before), self.text, at)

    # --- statements --------------------------------------------------------------------------

    def _sides(self, chain: Tree) -> list[_Side]:
        """Evaluate the sides of a chain, each with its own free letters."""
        sides: list[_Side] = []
        relation: Token | None = None
        everywhere: dict[str, Token] = {}
        self.indices.bound = {}
        for part in chain.children:
            if isinstance(part, Tree):
                self.indices.free = {}
                value = self.evaluator.value(part, {})
                sides.append(_Side(part, value, dict(self.indices.free), relation))
                everywhere.update(self.indices.free)
            elif part.type == "TEXT":
                sides[-1].reason += str(part)
            else:
                relation = part
        for letter in sorted(set(everywhere) & set(self.indices.bound)):
            if not self.indices.quote:
                raise self.indices.error(
                    f"{letter} is free in this formula, so no sum may be over it: rename the bound letter",
                    self.indices.bound[letter],
                )
        return sides

    def _statements(self, sides: list[_Side]) -> list[Statement]:
        self._check_direction(sides)
        out, known = [], None if sides[0].is_number else dict(sides[0].free)
        for left, right in pairwise(sides):
            relation = RELATIONS[str(right.relation)]
            if known is not None and relation not in _DIRECTIONS:
                for letter in sorted(set(right.free) - set(known)):
                    raise self.indices.error(
                        f"{letter} is free on the right but not on the left", right.free[letter]
                    )
            if not right.is_number:
                known = {**(known or {}), **right.free}
            at = right.relation.start_pos
            out.append(self._statement(left.value, right.value, relation, right.reason, right.tree, at))
        return out

    def _check_direction(self, sides: list[_Side]) -> None:
        directions = set()
        for side in sides[1:]:
            directions.add(_DIRECTIONS.get(RELATIONS[str(side.relation)], 0))
            if {1, -1} <= directions:
                raise self.indices.error(
                    "this chain goes up and down: split it into two statements", side.relation
                )

    def _statement(self, a: Value, b: Value, relation: str, reason: str, tree: Tree, at: int) -> Statement:
        """Return the statement about scalars, or about the entries of two arrays."""
        if b.is_scalar and not a.is_scalar and b.expression == 0:
            b = Value(*(None if x is None else UNKNOWN for x in (a.rows, a.columns)), b.entry)
        try:
            difference = shapes.add(a, b)
        except ShapeError as problem:
            raise self.indices.error(str(problem).replace("a sum", "the two sides"), tree) from None
        axes = difference.rows, difference.columns
        if UNKNOWN in axes:
            raise self.indices.error("the size of the two sides is not determined", tree)
        if not difference.is_scalar and relation in _DIRECTIONS:
            raise self.indices.error(
                "an inequality between arrays has two readings: write it for one entry", tree
            )
        letters = [self._fresh_letter(word, axis) for word, axis in zip(("row", "column"), axes, strict=True)]
        lhs, rhs = a.entry(*letters), b.entry(*letters)
        if lhs.has(*UNEVALUABLE) or rhs.has(*UNEVALUABLE):
            raise self.indices.error("this has no real value: a division by zero, or an infinite one", tree)
        return Statement(lhs, rhs, relation, " ".join(reason.split()), self._free(lhs, rhs), at)

    def _fresh_letter(self, word: str, axis: object) -> Symbol | None:
        """Return the index letter of an array equation, one for each kind of axis and range."""
        if axis is None:
            return None
        letter = Symbol(f"{word}<{shapes.axis_text(axis)}>", integer=True)
        self.fresh[letter] = axis
        return letter

    def _free(self, lhs: Expr, rhs: Expr) -> tuple[Symbol, ...]:
        letters = {Symbol(k, integer=True) for k in self.table.index} | set(self.fresh)
        return tuple(sorted((lhs.free_symbols | rhs.free_symbols) & letters, key=str))


def _reason(found: Token | None, before: list[Token]) -> str:
    """Say why the parser stopped, with the usual cause where there is one."""
    kind, last = found.type if found is not None else "", before[-1].type if before else ""
    if kind == "_LB":
        return "braces print nothing: a bare { } group is not allowed here"
    if last == "_NORM_CLOSE":
        return r"which norm? write \lVert J \rVert_2"
    if last == "TEXT":
        return r"mathematics after a \text: a reason ends its line; start a new one"
    for token in reversed(before):
        if token.type in ("_PLUS", "_MINUS", "EQUALS", "RELATION", "_SEPARATOR", "_CELL", "_ROW"):
            break
        if token.type == "_SLASH":
            return r"ambiguous: a/b c; write \frac or parentheses"
    if kind in ("_CELL", "_ROW", "_MATRIX_END") and last in ("_CELL", "_ROW", "_MATRIX_BEGIN"):
        return "an empty cell of a matrix: write 0"
    if kind == "RELATION" and any(t.type == "_SUM" for t in before[-4:]):
        return "a relation under a sum: sum over the whole range with a 0/1 mask"
    if kind in ("_PLUS", "_MINUS") and last in ("_PLUS", "_MINUS", "DOT", "HADAMARD"):
        return f"{found.value} has nothing before it: put parentheses around what it belongs to"
    if kind in ("_SUP", "_SUB"):
        return f"{found.value} on what cannot carry a second one, or none at all: put parentheses"
    return (
        f"unexpected {found.value}" if found is not None and found.value else "unexpected end of the formula"
    )
