"""What the page and the ledger know about an exercise on a formula."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from sympy import Expr, Indexed, Symbol

from attngrad.exercises.known import Known, known_mistakes, readings, widened
from attngrad.exercises.sides import chains, left_side, left_texts
from attngrad.notation import RangeError
from attngrad.proofs.claim import Identity
from attngrad.proofs.derive import indices_of, name_of, names_in
from attngrad.proofs.examine import page_formulas
from attngrad.proofs.ledger import PAGES, chapter
from attngrad.proofs.page import load
from attngrad.proofs.prove import Context
from attngrad.proofs.read import Reading, Table, read
from attngrad.proofs.read.errors import near
from attngrad.proofs.sums import CannotDecide, Scope, is_zero

_NOT_ASKED = {
    "def-": "a definition: it is what proofs start from",
    "bad-": "a wrong formula, shown as a warning",
    "thm-": "an inequality, argued in the text",
    "num-": "a measured number",
}


@dataclass(frozen=True)
class Ground:
    """One equation or chain of a page as an exercise: what it asks, and what an answer may use.

    In force are the definitions of its claim, and those that only its known mistakes need.
    """

    label: str
    table: Table
    context: Context
    asked: Reading
    left_tex: str
    known: Sequence[Known]

    @property
    def left(self) -> Expr:
        """The left side, of which another form is asked."""
        return left_side(self.asked)

    @property
    def right(self) -> Expr:
        """The printed answer: answers are compared with it, and it is never shown."""
        return self.asked.statements[-1].rhs

    @property
    def left_name(self) -> str:
        """The name that stands alone on the left, or nothing."""
        return name_of(self.left) if isinstance(self.left, (Indexed, Symbol)) else ""

    @property
    def forbidden(self) -> tuple[str, ...]:
        """The name that is asked for; a law of symmetry, in which it stands on both sides, allows it."""
        return (self.left_name,) if self.left_name and self.left_name not in names_in(self.right) else ()

    @property
    def asks_for_numbers(self) -> bool:
        """Whether the value at one place gives the answer away: a worked instance, or a constant."""
        return bool(self.context.at) or self.right.is_number

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names that an answer may use: those of the definitions in force, and of the left side."""
        found = names_in(self.left)
        for definition in self.context.definitions.values():
            found |= {definition.name} | names_in(definition.body)
        for _, statement in self.context.hypotheses:
            found |= names_in(statement.lhs) | names_in(statement.rhs)
        for statement in self.asked.statements:  # a parameter that may be anything stands on the right alone
            found |= names_in(statement.rhs)
        for _, reading in self.mistakes:  # and so do names with which mistakes are made
            found |= names_in(reading.statements[-1].rhs)
        found -= set(self.forbidden)
        arrays = (x for x in self.table.names if x not in self.table.size_names)
        return tuple(x for x in (*arrays, *self.table.integers) if x in found)

    @cached_property
    def mistakes(self) -> list[tuple[Known, Reading]]:
        """The known mistakes about this left side, as they are read."""
        return list(readings(self.known, self.context, self.asked))

    def repeats(self, value: Expr, scope: Scope) -> bool:
        """Say whether a value only repeats the left side, or the definition of the name on the left.

        Where the printed answer itself needs no more than that, only the left side as it stands repeats it,
        unless SymPy takes both for the same.
        """
        if self._follows_at_once(self.right, self.asked.scope):
            return value == self.left != self.right
        return self._follows_at_once(value, scope)

    def _follows_at_once(self, value: Expr, scope: Scope) -> bool:
        """Say whether a value equals the left side, or what its name is defined as, with nothing unfolded."""
        whole = Scope({**self.context.scope.ranges, **scope.ranges})
        same = [self.left]
        if self.left_name in self.context.definitions:
            same.append(self.context.definitions[self.left_name].at(indices_of(self.left)))
        try:
            return any(is_zero(side - value, whole, ()) for side in same)
        except CannotDecide:
            return value in same


def ground(label: str, part: int = 0) -> Ground:
    """Return the exercise that the label of an identity stands for, or one equation of several."""
    return grounds(label)[part]


def grounds(label: str) -> tuple[Ground, ...]:
    """Return the exercises of a label: one for each equation or chain of its display.

    Raises: RangeError for a label that no ledger has, with the nearest ones, or that is no identity.
    """
    known = []
    for page in PAGES:
        claims = chapter(page).claims
        known += [c.label for c in claims if isinstance(c, Identity)]
        if label in (c.label for c in claims):
            if label not in known:
                what = next(told for prefix, told in _NOT_ASKED.items() if label.startswith(prefix))
                raise RangeError(f"label: expected the label of an identity, eq-..., got {label}, {what}")
            return _grounds(page, label, load(page))
    close = ", ".join(near(str(label), known))
    hint = f"; near it: {close}" if close else f"; they stand on the pages {', '.join(PAGES)}"
    raise RangeError(f"label: expected the label of an identity, got {label!r}{hint}")


@lru_cache(maxsize=64)
def _grounds(page: str, label: str, text: str) -> tuple[Ground, ...]:
    """Return the exercises for one state of the page; their numbers and readings serve all answers."""
    one = chapter(page)
    formulas, claim = page_formulas(one, text), one[label]
    known = known_mistakes(one, formulas, claim)
    context, table = Context(one, formulas, widened(one, formulas, claim, known)), one.table_of(claim)
    parts = chains(read(formulas[label].tex, table))
    lefts = left_texts(formulas[label].tex, parts)
    return tuple(
        Ground(label, table, context, part, left, known) for part, left in zip(parts, lefts, strict=True)
    )
