"""From the printed formula to a verdict: PROVED, EXACT, REFUTED, REFUSED or UNDECIDED."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from sympy import Expr, Indexed, IndexedBase, Pow, Rational, Sum, Symbol

from .claim import Chapter, Claim, Hypothesis, Identity, LedgerError, circle
from .derive import Definition, Deriver, indices_of, name_of, names_in
from .page import Display
from .read import ReadError, Reading, Statement, Table, read
from .sums import CannotDecide, Partial, PowerRule, RowSumRule, Scope, SumRule, is_zero
from .witness import Case, describe, places, search


@dataclass(frozen=True)
class Verdict:
    """The word, a sentence of detail, and the exact witness of a refutation."""

    word: str
    detail: str = ""
    witness: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.word}: {self.detail}" if self.detail else self.word


def definition_of(label: str, reading: Reading, table: Table) -> Definition:
    """Return the definition that a display states.

    Raises
    ------
    LedgerError
        When it is not one equation with a plain name on the left, with one index letter for each
        axis, every letter over the whole axis.
    """
    if len(reading.statements) != 1 or reading.statements[0].relation != "=":
        raise LedgerError(f"{label}: a definition is one equation; got {len(reading.statements)} statements")
    left, right = reading.statements[0].lhs, reading.statements[0].rhs
    if not isinstance(left, (Indexed, Symbol)) or name_of(left) not in table.names:
        raise LedgerError(f"{label}: the left side of a definition is a name; got {left}")
    if not covers_its_axes(left, reading, table):
        raise LedgerError(f"{label}: each index of {left} must be a letter of its own, over the whole axis")
    positive = right.is_positive or (isinstance(right, Pow) and right.exp == Rational(1, 2))
    if table.names[name_of(left)] == "+" and not positive:
        raise LedgerError(f"{label}: {left} is declared positive, and its definition is not seen to be")
    return Definition(name_of(left), indices_of(left), right)


@lru_cache(maxsize=512)
def _read_definition(label: str, tex: str, table: Table) -> tuple[Reading, Definition]:
    """Return how a display is read and what it defines; the same definition serves many claims."""
    reading = read(tex, table)
    return reading, definition_of(label, reading, table)


def covers_its_axes(entry: Expr, reading: Reading, table: Table, bound: Mapping | None = None) -> bool:
    """Say whether the indices of an entry are distinct letters that run over all of its axes."""
    ranges = {**reading.scope.ranges, **(bound or {})}
    letters, axes = indices_of(entry), table.axes(name_of(entry))
    plain = all(isinstance(x, Symbol) and x in ranges and not x.is_positive for x in letters)
    return (
        plain
        and len(set(letters)) == len(letters) == len(axes)
        and all(ranges[x] == axis for x, axis in zip(letters, axes, strict=True))
    )


class Context:
    """The definitions and hypotheses in force for one claim, read from the page."""

    def __init__(self, chapter: Chapter, formulas: Mapping[str, Display], claim: Claim):
        self.table: Table = chapter.table_of(claim)
        self.at = claim.at
        self.sizes = getattr(claim, "sizes", ()) or chapter.sizes
        uses, assumes = chapter.closure(claim)
        self.definitions: dict[str, Definition] = {}
        self.names: dict[str, str] = {}
        ranges = dict(self.table.scope().ranges)
        for label in uses:
            reading, definition = _read_definition(label, text_of(formulas, label), self.table)
            ranges.update(reading.scope.ranges)
            if definition.name in self.definitions:
                raise LedgerError(
                    f"{claim.label}: {definition.name} is defined twice, the second time by {label}"
                )
            self.definitions[definition.name] = definition
            self.names[label] = definition.name
        self.plants = tuple(p for label in uses if (p := getattr(chapter[label], "plant", None)))
        self.lemmas = [label for label in uses if isinstance(chapter[label], Identity)]
        for label in self.lemmas:
            self._check_lemma(chapter, formulas, label)
        if stuck := circle({name: names_in(d.body) for name, d in self.definitions.items()}):
            raise LedgerError(f"{claim.label}: these definitions go in a circle: {', '.join(stuck)}")
        self.scope = Scope(ranges)
        self.hypotheses: list[tuple[Hypothesis, Statement]] = []
        self._assumed = []
        for label in assumes:
            reading = read(text_of(formulas, label), self.table)
            for statement in reading.statements:
                self.hypotheses.append((chapter[label], statement))
                self._assumed.append(rule_of(label, statement, reading, self.table))

    def _check_lemma(self, chapter: Chapter, formulas: Mapping[str, Display], label: str) -> None:
        """A lemma holds for names as they were when it was proved: no other definition may be in force."""
        for other in set(chapter.closure(chapter[label])[0]) - set(self.names):
            name = _read_definition(other, text_of(formulas, other), self.table)[1].name
            if name in self.definitions and name != self.names[label]:
                raise LedgerError(f"{label} was proved with {name} from {other}; here it is another {name}")

    def rules(self, deriver: Deriver) -> tuple:
        """Return the rewriting rules: rows of a softmax sum to one, and what is assumed."""
        rows = [RowSumRule(IndexedBase(s.definition.name), s.limits) for s in deriver.softmaxes.values()]
        return (*rows, *self._assumed)

    def proves(self, statement: Statement, scope: Scope) -> bool:
        """Say whether the equation holds for every size; False is not a refutation.

        Softmaxes are folded, so that their rows sum to one; if that does not do, everything is
        unfolded down to exponentials. At fixed sizes every entry is proved by itself.
        """
        whole = Scope({**self.scope.ranges, **scope.ranges})
        derivers = [Deriver(self.definitions, whole, folding) for folding in (True, False)]
        entries = [statement]
        if self.at:
            spots = places(statement, whole.ranges, {})
            entries = [
                replace(statement, lhs=statement.lhs.xreplace(x), rhs=statement.rhs.xreplace(x))
                for x in spots
            ]
        return all(self._proves_either_way(entry, derivers) for entry in entries)

    def _proves_either_way(self, statement: Statement, derivers: list[Deriver]) -> bool:
        """Say whether one of the ways proves it; what stopped the last one is told when none does."""
        stopped = None
        for deriver in derivers:
            try:
                if self._proves(statement, deriver):
                    return True
            except CannotDecide as reason:
                stopped = reason
        if stopped is not None:
            raise stopped
        return False

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
        return Case(
            self.table, self.definitions, tuple(self.hypotheses), self.scope.ranges, sizes, self.plants
        )


def rule_of(label: str, statement: Statement, reading: Reading, table: Table) -> PowerRule | SumRule:
    """Return a hypothesis as a rule of the normal form.

    Raises
    ------
    LedgerError
        When it is neither ``sum_i x_i = c`` nor ``x_i^2 = x_i``, for all entries of ``x``.
    """
    left, right = statement.lhs, statement.rhs
    bound = {limit[0]: tuple(limit[1:]) for limit in left.limits} if isinstance(left, Sum) else {}
    entries = left.atoms(Indexed)
    whole = entries and all(covers_its_axes(e, reading, table, bound) for e in entries)
    if statement.relation == "=" and whole:
        if (
            isinstance(left, Sum)
            and len(left.limits) == 1
            and left.limits[0][0] in left.function.free_symbols
        ):
            letters = sorted(left.function.free_symbols & set(reading.scope.ranges), key=str)
            parameters = tuple(x for x in letters if isinstance(x, Symbol) and x not in bound)
            return SumRule(left.function, left.limits[0], parameters, right)
        if isinstance(left, Pow) and isinstance(left.base, Indexed) and left.exp == 2 and right == left.base:
            return PowerRule(left.base.base)
    raise LedgerError(
        f"{label}: a hypothesis reads sum_i x_i = c or x_i^2 = x_i, for all entries of x; "
        f"got {left} {statement.relation} {right}"
    )


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


def judge(context: Context, tex: str, quote: bool = False, cross_check: bool = True) -> Verdict:
    """Judge a formula on the ground of a claim: the printed one, a mutant, a mistake, an answer.

    A formula that is shown as wrong is read as a ``quote``: a letter may be free and bound at once.
    With ``cross_check`` a counterexample does not count where the prover proves the same formula.
    """
    try:
        reading = read(tex, context.table, quote=quote)
    except ReadError as error:
        return Verdict("REFUSED", str(error))
    verdict = judge_reading(context, reading)
    if cross_check and verdict.word == "REFUTED" and _all_proved(context, reading)[0]:
        return Verdict("UNDECIDED", f"the prover proves what the oracle refutes {verdict.detail}")
    return verdict


def _all_proved(context: Context, reading: Reading) -> tuple[bool, str]:
    """Say whether every line is proved, and why not."""
    for line, statement in enumerate(reading.statements, start=1):
        try:
            if not context.proves(statement, reading.scope):
                return False, f"line {line} is neither proved nor refuted"
        except CannotDecide as reason:
            return False, f"line {line}: {reason}"
    return True, ""


def judge_reading(context: Context, reading: Reading) -> Verdict:
    """Look for a counterexample first, since one settles the matter; then prove line by line.

    The oracle must have seen every line at every value of its letters: a place where it could not
    evaluate is a gap, and nothing is called proved over a gap.
    """
    if any(s.relation != "=" for s in reading.statements):
        return Verdict("REFUSED", "an equation is expected")
    if context.lemmas and any(side.has(Partial) for s in reading.statements for side in (s.lhs, s.rhs)):
        return Verdict("REFUSED", f"a derivative on the ground of a lemma, {context.lemmas[0]}")
    found = search(context.case, reading.statements, reading.scope.ranges)
    if found.witness:
        return Verdict("REFUTED", describe(found.witness), found.witness)
    if found.gap:
        return Verdict("UNDECIDED", f"not evaluated everywhere: {found.gap}")
    proved, why = _all_proved(context, reading)
    if not proved:
        return Verdict("UNDECIDED", why)
    if context.at:
        sizes = ", ".join(f"{k} = {v}" for k, v in context.at.items())
        return Verdict("EXACT", f"worked instance, {sizes}")
    return Verdict("PROVED", "for every size")
