"""From the printed formula to a verdict: PROVED, EXACT, REFUTED, REFUSED or UNDECIDED."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from sympy import Indexed, IndexedBase, Pow, Sum, Symbol

from .claim import Chapter, Claim, Hypothesis, Wrong
from .derive import Definition, Deriver, indices_of, name_of
from .page import Display
from .rationals import NotExact
from .read import ReadError, Reading, Statement, Table, read
from .sums import CannotDecide, PowerRule, RowSumRule, Scope, SumRule, is_zero
from .witness import Case, describe, search


@dataclass(frozen=True)
class Verdict:
    """A word of ``WORDS``, a sentence of detail, and the exact witness of a refutation."""

    word: str
    detail: str = ""
    witness: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.word}: {self.detail}" if self.detail else self.word


class LedgerError(ValueError):
    """A ledger entry that does not fit its page."""


def definition_of(label: str, reading: Reading) -> Definition:
    """Return the definition that a display states.

    Raises
    ------
    LedgerError
        When it is not one equation with a plain name, its indices distinct letters, on the left.
    """
    if len(reading.statements) != 1 or reading.statements[0].relation != "=":
        raise LedgerError(f"{label}: a definition is one equation; got {len(reading.statements)} statements")
    left, right = reading.statements[0].lhs, reading.statements[0].rhs
    letters = indices_of(left) if isinstance(left, (Indexed, Symbol)) else None
    if letters is None or not all(isinstance(x, Symbol) for x in letters) or len(set(letters)) < len(letters):
        raise LedgerError(
            f"{label}: the left side of a definition is a name with distinct index letters; got {left}"
        )
    return Definition(name_of(left), letters, right)


class Context:
    """The definitions and hypotheses in force for one claim, read from the page."""

    def __init__(self, chapter: Chapter, formulas: Mapping[str, Display], claim: Claim):
        self.table: Table = chapter.table_of(claim)
        self.at = claim.at
        self.sizes = getattr(claim, "sizes", ()) or chapter.sizes
        uses, assumes = chapter.closure(claim)
        self.definitions: dict[str, Definition] = {}
        ranges = dict(self.table.scope().ranges)
        for label in uses:
            reading = read(text_of(formulas, label), self.table)
            ranges.update(reading.scope.ranges)
            definition = definition_of(label, reading)
            if definition.name in self.definitions:
                raise LedgerError(
                    f"{claim.label}: {definition.name} is defined twice, the second time by {label}"
                )
            self.definitions[definition.name] = definition
        _refuse_circles(claim.label, self.definitions)
        self.scope = Scope(ranges)
        self.hypotheses: list[tuple[Hypothesis, Statement]] = []
        for label in assumes:
            reading = read(text_of(formulas, label), self.table)
            self.hypotheses += [(chapter[label], s) for s in reading.statements]

    def rules(self, deriver: Deriver) -> tuple:
        """Return the rewriting rules: rows of a softmax sum to one, and what is assumed."""
        rows = [RowSumRule(IndexedBase(s.definition.name), s.limits) for s in deriver.softmaxes.values()]
        return (*rows, *(rule_of(h.label, s) for h, s in self.hypotheses))

    def proves(self, statement: Statement, scope: Scope) -> bool:
        """Say whether the equation holds for every size; False is not a refutation.

        Softmaxes are folded, so that their rows sum to one; if that does not do, everything is
        unfolded down to exponentials.
        """
        whole = Scope({**self.scope.ranges, **scope.ranges})
        return any(
            self._proves(statement, Deriver(self.definitions, whole, folding)) for folding in (True, False)
        )

    def _proves(self, statement: Statement, deriver: Deriver) -> bool:
        rules = self.rules(deriver)
        left, right = (
            deriver.split_logarithms(deriver.fold(deriver.unfold(e)), rules)
            for e in (statement.lhs, statement.rhs)
        )
        return is_zero(left - right, deriver.scope, rules)

    @cached_property
    def case(self) -> Case:
        """Return what the oracle needs; its worlds are shared by all that is judged in this context."""
        sizes = (self.at,) if self.at else self.sizes
        return Case(self.table, self.definitions, tuple(self.hypotheses), self.scope.ranges, sizes)


def _refuse_circles(label: str, definitions: Mapping[str, Definition]) -> None:
    """Raise LedgerError when a definition builds on itself, directly or through others."""
    needs = {
        n: {name_of(a) for a in d.body.atoms(Indexed, Symbol)} & set(definitions)
        for n, d in definitions.items()
    }
    while needs:
        ready = {n for n, others in needs.items() if not others & set(needs)}
        if not ready:
            raise LedgerError(f"{label}: these definitions go in a circle: {', '.join(sorted(needs))}")
        needs = {n: others for n, others in needs.items() if n not in ready}


def rule_of(label: str, statement: Statement):
    """Return a hypothesis as a rule of the normal form.

    Raises
    ------
    LedgerError
        When its form is neither ``sum_i x_i = c`` nor ``x_i^2 = x_i``.
    """
    left, right = statement.lhs, statement.rhs
    if isinstance(left, Sum) and len(left.limits) == 1:
        letter = left.limits[0][0]
        parameters = tuple(
            s
            for s in left.function.free_symbols
            if s in statement.free or (s.is_integer and s != letter and not s.is_positive)
        )
        return SumRule(left.function, left.limits[0], parameters, right)
    if isinstance(left, Pow) and isinstance(left.base, Indexed) and left.exp == 2 and right == left.base:
        return PowerRule(left.base.base)
    raise LedgerError(f"{label}: a hypothesis reads sum_i x_i = c or x_i^2 = x_i; got {left} = {right}")


def text_of(formulas: Mapping[str, Display], label: str) -> str:
    """Return the TeX of a label.

    Raises
    ------
    LedgerError
        When the page has no display of that label.
    """
    if label not in formulas:
        raise LedgerError(f"{label} is in the ledger, but no display of the page has this label")
    return formulas[label].tex


def judge(context: Context, claim: Claim, tex: str) -> Verdict:
    """Judge a formula in the place of a claim: the printed one, a mutant, a mistake, an answer.

    A formula that is shown as wrong is read as a quotation: a letter may be free and bound at once.
    """
    try:
        reading = read(tex, context.table, quote=isinstance(claim, Wrong))
    except ReadError as error:
        return Verdict("REFUSED", str(error))
    return judge_reading(context, reading)


def judge_reading(context: Context, reading: Reading) -> Verdict:
    """Look for a counterexample first, since one settles the matter; then prove line by line."""
    if any(s.relation != "=" for s in reading.statements):
        return Verdict("REFUSED", "an equation is expected")
    try:
        found = search(context.case, reading.statements, reading.scope.ranges)
    except NotExact as reason:
        return Verdict("UNDECIDED", f"the oracle cannot evaluate it: {reason}")
    if found:
        return Verdict("REFUTED", describe(found), found)
    if context.at:
        sizes = ", ".join(f"{k} = {v}" for k, v in context.at.items())
        return Verdict("EXACT", f"worked instance, {sizes}")
    for line, statement in enumerate(reading.statements, start=1):
        try:
            if not context.proves(statement, reading.scope):
                return Verdict("UNDECIDED", f"line {line} is neither proved nor refuted")
        except CannotDecide as reason:
            return Verdict("UNDECIDED", f"line {line}: {reason}")
    return Verdict("PROVED", "for every size")
