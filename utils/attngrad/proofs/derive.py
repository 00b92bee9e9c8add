"""Definitions unfolded and derivatives taken, one rule a line.

A name defined as ``f / sum f`` with ``f = c exp(u)`` is a softmax. It unfolds to ``F/Z`` with two
opaque positive symbols; the derivative of ``F`` is ``F du`` and that of ``Z`` the sum of ``F du``.
After the derivative, ``F`` is written ``p Z`` again. So nothing about softmax is assumed here but
the derivative of the exponential, the quotient rule and the definition itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sympy import (
    Abs,
    Add,
    Dummy,
    Expr,
    Function,
    Indexed,
    IndexedBase,
    Integer,
    KroneckerDelta,
    Mul,
    Pow,
    Sum,
    Symbol,
    exp,
    expand,
    fraction,
    log,
)
from sympy.core.function import AppliedUndef

from .sums import CannotDecide, Norm2, Partial, Scope, normal_form


def name_of(entry: Expr) -> str:
    """Return the name of a scalar or of an entry of an array."""
    return str(entry.base) if isinstance(entry, Indexed) else entry.name


def names_in(e: Expr) -> set[str]:
    """Return the names of all entries and scalars of an expression."""
    return {name_of(atom) for atom in e.atoms(Indexed, Symbol)}


def indices_of(entry: Expr) -> tuple:
    """Return the indices of an entry; none for a scalar."""
    return tuple(entry.indices) if isinstance(entry, Indexed) else ()


def entry(name: str, indices: tuple, **assumptions) -> Expr:
    """Return the entry of an array, or the scalar of that name when there are no indices."""
    return IndexedBase(name, **assumptions)[indices] if indices else Symbol(name, **assumptions)


def fresh(expression: Expr) -> Expr:
    """Rename every bound letter, so that two copies of a definition never capture each other."""
    bound = {limit[0] for s in expression.atoms(Sum) for limit in s.limits}
    return expression.xreplace({b: Dummy(b.name, integer=True) for b in bound})


@dataclass(frozen=True)
class Definition:
    """``name[indices] = body``."""

    name: str
    indices: tuple[Symbol, ...]
    body: Expr

    def at(self, indices: tuple) -> Expr:
        """Return the body at the given indices, its bound letters fresh."""
        return fresh(self.body).xreplace(dict(zip(self.indices, indices, strict=True)))


@dataclass(frozen=True)
class Softmax:
    """A definition ``p = F / Z``, ``F = coefficient * exp(exponent)``, ``Z`` the sum over the last index."""

    definition: Definition
    coefficient: Expr
    exponent: Expr
    limits: tuple

    def weight(self, indices: tuple) -> Expr:
        """Return the opaque symbol for ``F`` at these indices; a coefficient may make it zero."""
        return entry("F:" + self.definition.name, indices, positive=True if self.coefficient == 1 else None)

    def total(self, row: tuple) -> Expr:
        """Return the opaque symbol for ``Z`` of this row."""
        return entry("Z:" + self.definition.name, row, positive=True)

    def exponent_at(self, indices: tuple) -> Expr:
        return fresh(self.exponent).xreplace(dict(zip(self.definition.indices, indices, strict=True)))

    def coefficient_at(self, indices: tuple) -> Expr:
        return self.coefficient.xreplace(dict(zip(self.definition.indices, indices, strict=True)))


def softmax_of(definition: Definition, scope: Scope) -> Softmax | None:
    """Return the definition as a softmax, or None when it has another form."""
    numerator, denominator = fraction(definition.body)
    if not definition.indices or not isinstance(denominator, Sum) or len(denominator.limits) != 1:
        return None
    letter, low, high = denominator.limits[0]
    last = definition.indices[-1]
    if last in denominator.free_symbols:
        return None
    here = denominator.function.xreplace({letter: last})
    if expand(here - numerator) != 0 or scope.ranges.get(last) != (low, high):
        return None
    factors = Mul.make_args(numerator)
    powers = [f for f in factors if isinstance(f, exp)]
    if len(powers) != 1:
        return None
    return Softmax(
        definition, Mul(*[f for f in factors if f is not powers[0]]), powers[0].args[0], (low, high)
    )


class Deriver:
    """Unfolds definitions and differentiates under them; with ``folding``, softmaxes stay whole."""

    def __init__(self, definitions: Mapping[str, Definition], scope: Scope, folding: bool = True):
        self.definitions = dict(definitions)
        self.scope, self.folding = scope, folding
        found = {n: softmax_of(d, scope) for n, d in self.definitions.items()} if folding else {}
        self.softmaxes = {n: s for n, s in found.items() if s is not None}
        self._opaque = {}
        for s in self.softmaxes.values():
            self._opaque["F:" + s.definition.name] = s
            self._opaque["Z:" + s.definition.name] = s

    def without(self, name: str) -> Deriver:
        """Return a deriver for which this name is an input, not a defined quantity."""
        return Deriver({n: d for n, d in self.definitions.items() if n != name}, self.scope, self.folding)

    # --- unfolding ---------------------------------------------------------------------------

    def unfold(self, e: Expr) -> Expr:
        """Replace every defined name by its definition and every derivative by its value."""
        if isinstance(e, Partial):
            return self.partial(*e.args)
        if isinstance(e, (Indexed, Symbol)):
            return self._unfold_name(e)
        if isinstance(e, Norm2) and str(e.args[0]) in self.definitions:
            raise CannotDecide(f"the norm of {e.args[0]}, which is defined: state it as an inequality")
        if isinstance(e, (KroneckerDelta, Norm2)) or not e.args:
            return e
        if isinstance(e, Sum):
            return Sum(self.unfold(e.function), *e.limits)
        args = [self.unfold(a) for a in e.args]
        if isinstance(e, exp):
            return self._match_weight(args[0])
        return e.func(*args)

    def _unfold_name(self, e: Expr) -> Expr:
        if isinstance(e, Dummy) or name_of(e) not in self.definitions:
            return e
        name, indices = name_of(e), indices_of(e)
        if name in self.softmaxes:
            s = self.softmaxes[name]
            return s.weight(indices) / s.total(indices[:-1])
        return self.unfold(self.definitions[name].at(indices))

    def _match_weight(self, power: Expr) -> Expr:
        """Write ``exp(u + rest)`` as ``F exp(rest)`` where a softmax has the exponent ``u``."""
        for s in self.softmaxes.values():
            if s.coefficient != 1:
                continue
            for indices in _placements(s, power):
                rest = expand(power - self.unfold(s.exponent_at(indices)))
                if len(Add.make_args(rest)) < len(Add.make_args(expand(power))) or rest == 0:
                    return s.weight(indices) * (self._match_weight(rest) if rest != 0 else 1)
        return exp(power)

    # --- differentiation ---------------------------------------------------------------------

    def partial(self, f: Expr, x: Expr) -> Expr:
        """Return the partial derivative; a defined name in the place of ``x`` is an input.

        Raises
        ------
        CannotDecide
            When ``f`` does not depend on ``x``: the derivative would be zero by accident.
        """
        inner = self.without(name_of(x))
        body = inner.unfold(f)
        if not inner.depends(body, x):
            raise CannotDecide(f"{f} does not depend on {name_of(x)}: is a definition missing?")
        return self.unfold(inner.fold(inner.differentiate(body, x)))

    def depends(self, e: Expr, x: Expr) -> bool:
        """Say whether the name of ``x`` occurs in ``e``, behind the opaque symbols too."""
        for atom in e.atoms(Indexed, Symbol):
            if name_of(atom) == name_of(x):
                return True
            if name_of(atom) in self._opaque:
                s = self._opaque[name_of(atom)]
                if self.depends(self.unfold(s.exponent) + self.unfold(s.coefficient), x):
                    return True
        return False

    def differentiate(self, e: Expr, x: Expr) -> Expr:
        """Return the derivative of an unfolded expression by the entry or scalar ``x``."""
        if isinstance(e, Add):
            return Add(*[self.differentiate(a, x) for a in e.args])
        if isinstance(e, Mul):
            return Add(
                *[Mul(*e.args[:k], self.differentiate(a, x), *e.args[k + 1 :]) for k, a in enumerate(e.args)]
            )
        if isinstance(e, Sum):
            return Sum(self.differentiate(e.function, x), *e.limits)
        if isinstance(e, Pow):
            if e.exp.has(Indexed) or name_of(x) in {s.name for s in e.exp.free_symbols}:
                raise CannotDecide(f"a derivative through the exponent of {e}")
            return e.exp * e.base ** (e.exp - 1) * self.differentiate(e.base, x)
        if isinstance(e, exp):
            return e * self.differentiate(e.args[0], x)
        if isinstance(e, log):
            return self.differentiate(e.args[0], x) / e.args[0]
        if isinstance(e, AppliedUndef):
            return Function(e.func.__name__ + "'")(*e.args) * self.differentiate(e.args[0], x)
        if isinstance(e, (Indexed, Symbol)):
            return self._differentiate_name(e, x)
        if isinstance(e, (Abs, Norm2)) and self.depends(e, x):
            raise CannotDecide(f"{e} has no derivative everywhere")
        return Integer(0)

    def _differentiate_name(self, e: Expr, x: Expr) -> Expr:
        if name_of(e) == name_of(x):
            pairs = zip(indices_of(e), indices_of(x), strict=True)
            return Mul(*[KroneckerDelta(a, b) for a, b in pairs])
        s = self._opaque.get(name_of(e))
        if s is None:
            return Integer(0)
        if name_of(e).startswith("F:"):
            return self._weight_derivative(s, indices_of(e), x)
        letter = Dummy("l", integer=True)
        inside = self._weight_derivative(s, (*indices_of(e), letter), x)
        return Sum(inside, (letter, *s.limits))

    def _weight_derivative(self, s: Softmax, indices: tuple, x: Expr) -> Expr:
        if self.depends(self.unfold(s.coefficient), x):
            raise CannotDecide(f"the coefficient {s.coefficient} of a softmax depends on {name_of(x)}")
        return s.weight(indices) * self.differentiate(self.unfold(s.exponent_at(indices)), x)

    # --- folding -----------------------------------------------------------------------------

    def fold(self, e: Expr) -> Expr:
        """Write every opaque ``F`` as ``p Z`` again."""

        def back(f: Expr) -> Expr:
            s = self._opaque[name_of(f)]
            return entry(s.definition.name, f.indices) * s.total(f.indices[:-1])

        return e.replace(
            lambda f: isinstance(f, Indexed) and name_of(f).startswith("F:") and name_of(f) in self._opaque,
            back,
        )

    def split_logarithms(self, e: Expr, rules: tuple) -> Expr:
        """Write the logarithm of a product of positive factors as a sum; of ``p`` as ``u - log Z``."""
        if isinstance(e, (Indexed, Symbol, KroneckerDelta)) or not e.args:
            return e
        if isinstance(e, Sum):
            return Sum(self.split_logarithms(e.function, rules), *e.limits)
        e = e.func(*[self.split_logarithms(a, rules) for a in e.args])
        if not isinstance(e, log):
            return e
        inside = normal_form(self.fold(e.args[0]), self.scope, rules)
        terms = [self._log_of_factor(f) for f in Mul.make_args(inside)]
        kept = Mul(*[f for f, t in zip(Mul.make_args(inside), terms, strict=True) if t is None])
        return Add(*[t for t in terms if t is not None]) + (log(kept) if kept != 1 else 0)

    def _log_of_factor(self, f: Expr) -> Expr | None:
        base, power = f.as_base_exp() if not isinstance(f, exp) else (f, Integer(1))
        if isinstance(base, exp):
            return power * base.args[0]
        if isinstance(base, (Indexed, Symbol)):
            s = self.softmaxes.get(name_of(base))
            if s is not None and s.coefficient == 1:
                indices = indices_of(base)
                return power * (self.unfold(s.exponent_at(indices)) - log(s.total(indices[:-1])))
            if name_of(base).startswith("Z:"):
                return power * log(base)
        return None


def _placements(s: Softmax, power: Expr) -> list[tuple]:
    """Return the index tuples at which the exponent of ``s`` could stand inside ``power``."""
    wanted = s.definition.indices
    found = []
    for pattern in s.exponent.atoms(Indexed):
        if not set(wanted) <= set(pattern.indices):
            continue
        for atom in power.atoms(Indexed):
            if atom.base == pattern.base and len(atom.indices) == len(pattern.indices):
                at = dict(zip(pattern.indices, atom.indices, strict=True))
                found.append(tuple(at[w] for w in wanted))
    return list(dict.fromkeys(found))
