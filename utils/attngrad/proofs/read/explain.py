"""A reading in plain text: for an author who asks how it was read, and for comparing two readings."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from itertools import permutations

from sympy import Add, Dummy, Expr, Indexed, Integer, KroneckerDelta, Mul, Pow, Sum, Symbol, exp
from sympy.core.function import AppliedUndef

from ..sums import Norm2, Partial
from .statements import Reading, Statement

_MOST_REORDERED = 4  # limits of one sum that are compared in every order


def explain(reading: Reading) -> str:
    r"""Return one line for each statement: fully bracketed, with the range of every letter.

    Example
    -------
    >>> from attngrad.proofs.read import read
    >>> from attngrad.proofs.read import Table
    >>> t = Table(index={"i": "n", "j": "n"}, names={"p": ("n",), "v": ("n",)})
    >>> print(explain(read(r"v_i = p_i - \sum_j p_j v_j", t)))
    for all i in 1..n:  v[i] = (p[i] - (sum over j in 1..n of (p[j] * v[j])))
    """
    lines = []
    for statement in reading.statements:
        order = sorted(statement.free, key=lambda s: (s.name.startswith("column"), s.name))
        ranges = [f"{_letter(s)} in {_range(reading, s)}" for s in order]
        whole = f"for all {', '.join(ranges)}:  " if ranges else ""
        sign = {"~": "is about"}.get(statement.relation, statement.relation)
        said = f"  [{statement.reason}]" if statement.reason else ""
        lines.append(f"{whole}{plain(statement.lhs)} {sign} {plain(statement.rhs)}{said}")
    return "\n".join(lines)


def fingerprint(reading: Reading) -> str:
    """Return a hash that is equal for two texts that read as the same object.

    Spacing, sizes of brackets, alignment, colour, reasons and the names of bound letters do not
    matter; the order of statements, the names of free letters and every range do.
    """
    text = "\n".join(canonical(s, reading) for s in reading.statements)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def canonical(statement: Statement, reading: Reading) -> str:
    """Return a statement in one fixed spelling, bound letters named by depth."""
    ranges = ", ".join(f"{s.name} in {_range(reading, s)}" for s in statement.free)
    return f"[{ranges}] {_fixed(statement.lhs, {})} {statement.relation} {_fixed(statement.rhs, {})}"


def _range(reading: Reading, letter: Symbol) -> str:
    low, high = reading.scope.ranges[letter]
    return f"{low}..{high}"


def _letter(symbol: Symbol) -> str:
    return symbol.name.split("<")[0]


# --- plain text ------------------------------------------------------------------------------------


def plain(e: Expr, names: Mapping[Symbol, str] | None = None) -> str:
    """Return an expression with every bracket and every range written out."""
    names = dict(names or {})
    if isinstance(e, Sum):
        return _plain_sum(e, names)
    if isinstance(e, Add):
        return _plain_terms(e, names)
    if isinstance(e, Mul):
        return _plain_factors(e, names)
    if isinstance(e, Symbol):
        return names.get(e, _letter(e))
    parts = [plain(a, names) for a in e.args]
    if isinstance(e, Indexed):
        return f"{e.base}[{', '.join(parts[1:])}]"
    if isinstance(e, Partial):
        return f"(derivative of {parts[0]} by {parts[1]})"
    if isinstance(e, Norm2):
        return f"norm2({e.args[0]})"
    if isinstance(e, KroneckerDelta):
        return f"[{parts[0]} = {parts[1]}]"
    if isinstance(e, Pow):
        return f"({parts[0]}^{parts[1]})" if e.exp != -1 else f"(1 / {parts[0]})"
    if not e.args:
        return str(e) if not e.is_Rational or e.is_Integer else f"({e})"
    name = e.func.__name__ if not isinstance(e, exp) else "exp"
    return f"{name}({', '.join(parts)})"


def _plain_sum(e: Sum, names: dict[Symbol, str]) -> str:
    taken = {s.name for s in e.function.free_symbols if not isinstance(s, Dummy)} | set(names.values())
    spans = []
    for letter, low, high in reversed(e.limits):
        name, count = letter.name, 1
        while name in taken:
            count += 1
            name = f"{letter.name}{count}"
        taken.add(name)
        names[letter] = name
        spans.append(f"{name} in {plain(low, names)}..{plain(high, names)}")
    inside = plain(e.function, names)
    return f"(sum over {', '.join(spans)} of {inside})"


def _plain_terms(e: Add, names: dict[Symbol, str]) -> str:
    out = ""
    for term in e.as_ordered_terms():
        minus = term.could_extract_minus_sign()
        text = plain(-term if minus else term, names)
        out += (f" {'-' if minus else '+'} " if out else "-" if minus else "") + text
    return f"({out})"


def _plain_factors(e: Mul, names: dict[Symbol, str]) -> str:
    number, rest = e.as_coeff_Mul()
    if number == -1:
        return f"(-{plain(rest, names)})"
    below = [f for f in e.args if f.is_Pow and f.exp.is_Rational and f.exp < 0]
    above = [f for f in rest.as_ordered_factors() if f not in below]
    below = [1 / f for f in below] + ([Integer(number.q)] if number.q != 1 else [])
    above = ([Integer(number.p)] if number.p != 1 or not above else []) + above
    text = " * ".join(plain(f, names) for f in above)
    return f"({text})" if not below else f"({text} / {' / '.join(plain(f, names) for f in below)})"


# --- the canonical spelling --------------------------------------------------------------------------


def _fixed(e: Expr, levels: Mapping[Symbol, int]) -> str:
    """Return a spelling that does not depend on SymPy's order of arguments or on bound names."""
    if isinstance(e, Sum):
        return _fixed_sum(e, levels)
    if e in levels:
        return f"#{levels[e]}"
    if isinstance(e, Symbol):
        return f"{e.name}{'+' if e.is_positive else ''}{'Z' if e.is_integer else ''}"
    if not e.args:
        return str(e)
    parts = [_fixed(a, levels) for a in e.args]
    if isinstance(e, (Add, Mul, KroneckerDelta)):
        parts.sort()
    name = str(e.func) if isinstance(e, AppliedUndef) else type(e).__name__
    return f"{name}({', '.join(parts)})"


def _fixed_sum(e: Sum, levels: Mapping[Symbol, int]) -> str:
    """Name the letters of a sum by depth; the order of independent limits does not matter."""
    orders = permutations(e.limits) if len(e.limits) <= _MOST_REORDERED else [e.limits]
    found = []
    for limits in orders:
        inner = {**levels, **{limit[0]: len(levels) + k for k, limit in enumerate(limits)}}
        ranges = "; ".join(f"{_fixed(low, levels)}..{_fixed(high, levels)}" for _, low, high in limits)
        found.append(f"Sum({ranges}: {_fixed(e.function, inner)})")
    return min(found)
