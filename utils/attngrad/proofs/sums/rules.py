"""Declared identities that the normal form may use: a proof names the rules it is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sympy import Expr, IndexedBase, Symbol, Tuple, sympify

from .terms import Atom, CannotDecide, Number, Poly, poly_letters

if TYPE_CHECKING:
    from .algebra import Algebra


class _Rule:
    """A rule is a value: two rules with the same arguments are equal."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.__dict__.values()))})"


def _pair(limits: Any, owner: str) -> tuple[Expr, Expr]:
    if not isinstance(limits, tuple) or len(limits) != 2:
        raise TypeError(f"{owner} needs the limits (lowest, highest) of the whole range, got {limits!r}")
    return sympify(limits[0]), sympify(limits[1])


class PowerRule(_Rule):
    """Powers of a name reduce.

    Formula: base**exponent = base**becomes; by default m**2 = m, as for a 0/1 mask.

    Raises: TypeError for a base that is no name; ValueError unless exponent > becomes >= 0.

    >>> PowerRule(IndexedBase('m'))
    PowerRule(m, 2, 1)
    """

    def __init__(self, base: IndexedBase | Symbol, exponent: int = 2, becomes: int = 1):
        if not isinstance(base, (IndexedBase, Symbol)):
            raise TypeError(f"PowerRule belongs to an IndexedBase or a Symbol, got {base!r}")
        if not exponent > becomes >= 0:
            raise ValueError(f"PowerRule lowers an exponent, got {exponent} -> {becomes}")
        self.base, self.exponent, self.becomes = base, int(exponent), int(becomes)


class RowSumRule(_Rule):
    """The entries along the last index add up to a constant.

    Formula: sum_k base[.., k] = total, k over the whole range (lowest, highest) that ``limits`` gives.

    Raises: TypeError for a base that is no array, or limits that are no pair.

    >>> RowSumRule(IndexedBase('P'), (1, Symbol('M', integer=True, positive=True)))
    RowSumRule(P, (1, M), 1)
    """

    def __init__(self, base: IndexedBase, limits: tuple[Any, Any], total: Any = 1):
        if not isinstance(base, IndexedBase):
            raise TypeError(f"RowSumRule belongs to an IndexedBase, got {base!r}")
        self.base, self.limits, self.total = base, _pair(limits, "RowSumRule"), sympify(total)


class SumRule(_Rule):
    """A hypothesis about one sum, for all values of its parameters.

    Formula: sum_letter summand = total, with ``bound`` = (letter, lowest, highest). The summand is a
    product; the parameters are index symbols, each of which stands for any index that is free of the letter.

    Raises: TypeError for a bound that is no such triple, ValueError if the summand is free of the letter or
    a parameter occurs in the total alone.

    >>> i, n = Symbol('i', integer=True), Symbol('n', integer=True, positive=True)
    >>> SumRule(IndexedBase('y')[i], (i, 1, n)).total
    1
    """

    def __init__(
        self, summand: Any, bound: tuple[Any, Any, Any], parameters: tuple[Symbol, ...] = (), total: Any = 1
    ):
        bound = tuple(bound) if isinstance(bound, (list, Tuple)) else bound
        if not isinstance(bound, tuple) or len(bound) != 3 or not isinstance(bound[0], Symbol):
            raise TypeError(f"SumRule needs (letter, lowest, highest), got {bound!r}")
        self.summand, self.letter = sympify(summand), bound[0]
        self.limits = _pair(bound[1:], "SumRule")
        self.parameters, self.total = tuple(parameters), sympify(total)
        if self.letter not in self.summand.free_symbols:
            raise ValueError(f"the summand {self.summand} does not depend on {self.letter}")
        unbound = {p for p in self.parameters if p not in self.summand.free_symbols}
        if unbound & self.total.free_symbols:
            raise ValueError(f"{unbound} occurs in the total {self.total} but not in the summand")


Rule = PowerRule | RowSumRule | SumRule


class RowPattern:
    """A compiled RowSumRule."""

    def __init__(self, algebra: Algebra, rule: RowSumRule):
        self.key = algebra.key(rule.base)
        self.limits = tuple(algebra.poly(x) for x in rule.limits)
        self.total = algebra.poly(rule.total)
        self.filled = algebra.filled(*self.limits)

    def match(self, factors: Mapping[Atom, Number], letter: Atom) -> Poly | None:
        """Return the total if the factors are one entry with the letter as last index and nowhere else.

        A row that may be empty has no total: its sum is 0 then.
        """
        if len(factors) != 1 or not self.filled:
            return None
        ((atom, exponent),) = factors.items()
        if exponent != 1 or atom[0] != "x" or atom[1] != self.key:
            return None
        *others, last = atom[2]
        alone = last == ((((), ((letter, 1),)), 1),)
        return self.total if alone and not any(letter in poly_letters(p) for p in others) else None


class SumPattern:
    """A compiled SumRule: the summand's factors with pattern letters."""

    def __init__(self, algebra: Algebra, rule: SumRule):
        self._algebra = algebra
        self.limits = tuple(algebra.poly(x) for x in rule.limits)
        self.letter = ("s", algebra.key(rule.letter))
        self.parameters = {("s", algebra.key(p)) for p in rule.parameters}
        self.total = algebra.poly(rule.total)
        summand = algebra.poly(rule.summand)
        if len(summand) != 1 or summand[0][0][0]:
            raise CannotDecide(f"the summand of a SumRule is one product of entries, got {rule.summand}")
        ((_, self.factors), self.coefficient) = summand[0]

    def match(self, factors: Mapping[Atom, Number], letter: Atom) -> Poly | None:
        """Return the total over the coefficient if the factors are the summand for some parameters."""
        if len(factors) != len(self.factors):
            return None
        start = {self.letter: ((((), ((letter, 1),)), 1),)}
        for binding in self._bindings(self.factors, dict(factors), start):
            if any(letter in poly_letters(v) for p, v in binding.items() if p != self.letter):
                continue
            total = self._algebra.replace(
                self.total, {p: binding[p] for p in self.parameters if p in binding}
            )
            inverse = self._algebra.power(((((), ()), self.coefficient),), -1)
            return self._algebra.freeze(self._algebra.product(self._algebra.thaw(total), inverse))
        return None

    def _bindings(self, wanted: tuple, factors: dict, binding: dict) -> Iterator[dict]:
        if not wanted:
            yield binding
            return
        (atom, exponent), rest = wanted[0], wanted[1:]
        for candidate, e in factors.items():
            if e == exponent:
                found = self._unify(atom, candidate, binding)
                if found is not None:
                    yield from self._bindings(
                        rest, {a: x for a, x in factors.items() if a != candidate}, found
                    )

    def _unify(self, pattern: Any, target: Any, binding: dict) -> dict | None:
        """Match nested tuples; a pattern letter that stands alone in an index is bound to the whole index."""
        alone = _lone_letter(pattern)
        if alone is not None and (alone in self.parameters or alone == self.letter):
            if alone in binding:
                return binding if binding[alone] == target else None
            return {**binding, alone: target}
        if not isinstance(pattern, tuple) or not isinstance(target, tuple):
            return binding if pattern == target else None
        if len(pattern) != len(target):
            return None
        for p, t in zip(pattern, target, strict=True):
            found = self._unify(p, t, binding)
            if found is None:
                return None
            binding = found
        return binding


def _lone_letter(poly: Any) -> Atom | None:
    """Return the letter that a polynomial consists of, or None."""
    if not isinstance(poly, tuple) or len(poly) != 1 or not isinstance(poly[0], tuple) or len(poly[0]) != 2:
        return None
    key, value = poly[0]
    if value != 1 or not isinstance(key, tuple) or len(key) != 2 or key[0] != () or len(key[1]) != 1:
        return None
    atom, exponent = key[1][0]
    return atom if exponent == 1 and atom[0] == "s" else None


def compile_rules(algebra: Algebra, rules: tuple[Rule, ...]) -> tuple[dict[str, PowerRule], list]:
    """Return the power rules by name and the sum patterns in the order given."""
    powers, patterns = {}, []
    for rule in rules:
        if isinstance(rule, PowerRule):
            powers[algebra.key(rule.base)] = rule
        elif isinstance(rule, RowSumRule):
            patterns.append(RowPattern(algebra, rule))
        elif isinstance(rule, SumRule):
            patterns.append(SumPattern(algebra, rule))
        else:
            raise TypeError(f"a rule is a PowerRule, RowSumRule or SumRule, got {rule!r}")
    return powers, patterns
