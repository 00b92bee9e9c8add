"""The working state of a normal form: names, ranges and rules, and the operations that need them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import count

from sympy import Basic, Dummy, Expr, IndexedBase

from . import collapse, functions, naming, powers
from .rules import Rule, compile_rules
from .spans import Limits, Scope, Spans
from .terms import (
    ZERO,
    Atom,
    CannotDecide,
    Key,
    Number,
    Poly,
    Term,
    add,
    inner_polys,
    letters,
    monomial,
    multiplied,
    poly_letters,
    product,
    single,
)

WRITTEN = 5000


class Algebra:
    """One scope and one tuple of rules, and everything that is computed under them."""

    product = staticmethod(product)

    def __init__(self, scope: Scope, rules: tuple[Rule, ...] = ()):
        self.scope = scope
        self.objects: dict[str, Basic] = {}
        self._keys: dict[Basic, str] = {}
        self._limits: dict[Atom, Limits | None] = {}
        self.written: dict[tuple, Expr] = {}
        self._numbers = count()
        self.spans = Spans(self._declared, self._is_size, self._is_whole)
        self.power_rules: dict = {}
        self.sum_rules: list = []
        self.power_rules, self.sum_rules = compile_rules(self, rules)

    def begin(self) -> None:
        """Forget the bound letters of the last expression."""
        self._numbers = count()
        self.spans.clear()
        if len(self.written) > WRITTEN:
            self.written.clear()

    # --- names -------------------------------------------------------------------------------

    def key(self, obj: Basic) -> str:
        """Return the string that stands for a symbol, an array, a function or a constant."""
        if obj not in self._keys:
            name = f"{obj.name}~{obj.dummy_index}" if isinstance(obj, Dummy) else str(obj)
            while name in self.objects:
                name += "'"
            self.objects[name], self._keys[obj] = obj, name
        return self._keys[obj]

    @staticmethod
    def letter(atom: Atom) -> Poly:
        """Return a letter as a polynomial."""
        return monomial(atom)

    def fresh(self, low: Poly, high: Poly) -> Atom:
        """Return a new bound letter with its range."""
        letter = ("f", next(self._numbers))
        self.spans.declare(letter, (low, high))
        return letter

    @cached_property
    def _read(self):
        from .reading import terms_of

        return terms_of

    def poly(self, expression: Expr) -> Poly:
        """Return a SymPy expression as a canonical polynomial."""
        return self.freeze(self._read(self, expression, {}))

    # --- what is known about atoms -----------------------------------------------------------

    def _declared(self, atom: Atom) -> Limits | None:
        if atom[0] not in "sx":
            return None
        marker = atom[:2]
        if marker not in self._limits:
            found = self.scope.ranges.get(self.objects[atom[1]])
            self._limits[marker] = None
            if found is not None:
                self._limits[marker] = (self.poly(found[0]), self.poly(found[1]))
        return self._limits[marker]

    def _is_size(self, atom: Atom) -> bool:
        obj = self.objects[atom[1]] if atom[0] == "s" else None
        return obj is not None and bool(obj.is_integer and obj.is_positive)

    def _is_whole(self, atom: Atom) -> bool:
        if atom[0] not in "sx":
            return False
        obj = self.objects[atom[1]]
        return obj in self.scope.ranges or bool((obj.label if atom[0] == "x" else obj).is_integer)

    def is_index(self, atom: Atom) -> bool:
        """Say whether a letter is an index, as against a size or a scalar."""
        if atom[0] != "s":
            return atom[0] in "fb"
        obj = self.objects[atom[1]]
        return obj in self.scope.ranges or bool(obj.is_integer and not obj.is_positive)

    def positive(self, atom: Atom) -> bool:
        """Say whether an atom is surely positive."""
        tag = atom[0]
        if tag in "en":
            return True
        if tag in "pr":
            return self.positive_poly(atom[1])
        if tag in "sxN" and self._assumed_positive(atom):
            return True
        limits = self.spans.limits(atom) if tag in "sxf" else None
        return limits is not None and self.spans.nonnegative(add(limits[0], ((((), ()), 1),), -1))

    def _assumed_positive(self, atom: Atom) -> bool:
        obj = self.objects[atom[1]]
        return bool((obj.label if isinstance(obj, IndexedBase) else obj).is_positive)

    def positive_poly(self, poly: Poly) -> bool:
        """Say whether a polynomial is a sum of positive terms over ranges that are not empty."""
        return bool(poly) and all(
            value > 0
            and all(self.positive(a) for a, _ in factors)
            and all(self.filled(low, high) for _, low, high in bound)
            for (bound, factors), value in poly
        )

    def filled(self, low: Poly, high: Poly) -> bool:
        """Say whether a range surely holds a number."""
        return self.spans.nonnegative(add(high, low, -1))

    def sums_filled(self, poly: Poly) -> bool:
        """Say whether no sum of a polynomial can be empty."""
        return all(self.filled(low, high) for (bound, _), _ in poly for _, low, high in bound)

    # --- canonical form ----------------------------------------------------------------------

    def freeze(self, terms: Iterable[Term]) -> Poly:
        """Return the canonical polynomial of a list of terms."""
        total: dict[Key, Number] = {}
        for term in collapse.settle(self, terms):
            for key, value in self._named(term):
                total[key] = total.get(key, 0) + value
        return tuple(sorted((k, v) for k, v in total.items() if v)) if total else ZERO

    def _named(self, term: Term) -> list[tuple[Key, Number]]:
        if not any(atom[0] == "d" for atom in term.factors):
            return [naming.name(self, term)]
        forms = []
        for form in naming.solved_forms(self, term):
            named: list[tuple[Key, Number]] = []
            for t in collapse.settle(self, form):
                named += self._named(t) if len(t.bound) < len(term.bound) else [naming.name(self, t)]
            forms.append(sorted(named))
        return min(forms)

    def name(self, term: Term) -> tuple[Key, Number]:
        """Return the canonical key of a settled term and its coefficient."""
        return naming.name(self, term)

    def thaw(self, poly: Poly) -> list[Term]:
        """Return the terms of a canonical polynomial, with fresh bound letters."""
        terms = []
        for (bound, factors), value in poly:
            if not bound:
                terms.append(Term(value, {}, dict(factors)))
                continue
            fresh = {b: self.fresh(low, high) for b, low, high in bound}
            names = {b: self.letter(x) for b, x in fresh.items()}
            limits = {fresh[b]: (low, high) for b, low, high in bound}
            changed = [self.substitute(a, e, names) for a, e in factors]
            terms += product([Term(value, limits, {})], *changed)
        return terms

    # --- substitution ------------------------------------------------------------------------

    def replace(self, poly: Poly, values: Mapping[Atom, Poly]) -> Poly:
        """Return a polynomial with other polynomials in the place of letters."""
        if not poly_letters(poly) & values.keys():
            return poly
        simple = multiplied(poly, values)
        if simple is not None:
            return simple
        terms = []
        for (bound, factors), value in poly:
            limits = {}
            names = dict(values)
            for b, low, high in bound:
                low, high = self.replace(low, values), self.replace(high, values)
                self.refuse_dependent(low, high)
                letter = self.fresh(low, high)
                limits[letter], names[b] = (low, high), self.letter(letter)
            changed = [self.substitute(a, e, names) for a, e in factors]
            terms += product([Term(value, limits, {})], *changed)
        return self.freeze(terms)

    @staticmethod
    def refuse_dependent(low: Poly, high: Poly) -> None:
        """Refuse limits that depend on another bound index."""
        if any(x[0] == "f" for x in poly_letters(low) | poly_letters(high)):
            raise CannotDecide(
                "the limits of a sum depend on another bound index: "
                "sum over the whole range and multiply by a 0/1 mask"
            )

    def substitute(self, atom: Atom, exponent: Number, values: Mapping[Atom, Poly]) -> list[Term]:
        """Return a power of an atom with polynomials in the place of letters."""
        if not letters(atom) & values.keys():
            return single(atom, exponent)
        tag = atom[0]
        if tag in "sfb":
            return self.power(values[atom], exponent)
        if tag == "x":
            return single((tag, atom[1], tuple(self.replace(p, values) for p in atom[2])), exponent)
        if tag == "F":
            args = [self.replace(p, values) for p in atom[2]]
            return self.raised(functions.function(self, atom[1], args), exponent)
        inside = self.replace(inner_polys(atom)[0], values)
        if tag in "pr":
            return self.power(inside, exponent)
        if tag == "e":
            return functions.exponential(self, tuple((k, v * exponent) for k, v in inside))
        build = {"l": functions.logarithm, "a": functions.absolute, "d": functions.delta}[tag]
        return self.raised(build(self, inside), exponent)

    def raised(self, terms: list[Term], exponent: Number) -> list[Term]:
        """Return a power of a list of terms."""
        return terms if exponent == 1 else self.power(self.freeze(terms), exponent)

    def power(self, base: Poly, exponent: Number) -> list[Term]:
        """Return a rational power of a canonical polynomial."""
        return powers.power(self, base, exponent)

    def delta_between(self, letter: Atom, value: Poly) -> list[Term]:
        """Return the delta of a letter and a value."""
        return functions.delta(self, add(self.letter(letter), value, -1))
