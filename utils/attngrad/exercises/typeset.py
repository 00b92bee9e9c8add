"""A SymPy expression in the LaTeX of a page, so that it is read by the page's own rules."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sympy import (
    Add,
    Expr,
    Idx,
    Indexed,
    KroneckerDelta,
    Mul,
    Pow,
    Rational,
    Sum,
    Symbol,
    exp,
    fraction,
    log,
)
from sympy.core.function import AppliedUndef

from attngrad.proofs.read import Table
from attngrad.proofs.read.errors import near

_ACCENT = re.compile(r"\\(bar|hat|tilde|vec|dot)\{([^{}]*)\}")
_FONT = re.compile(r"\\(?:mathrm|operatorname|mathcal|mathbf|mathbb)\{([^{}]*)\}")


class NotTypeset(ValueError):
    """A part of a SymPy expression that the page has no notation for."""


def plain(spelling: str) -> str:
    r"""Return how a symbol of a page is called in SymPy, accents as SymPy spells them.

    >>> [plain(x) for x in (r"\beta", r"\mathrm{lse}", r"\bar{v}", "d_k", r"\Omega_{64}", "dS")]
    ['beta', 'lse', 'vbar', 'd_k', 'Omega_64', 'dS']
    """
    text = _FONT.sub(r"\1", _ACCENT.sub(r"\2\1", spelling))
    return re.sub(r"[\\{}]", "", text)


def typeset(e: Expr, table: Table) -> str:
    """Return the expression in LaTeX.

    Raises: NotTypeset that names the part without a notation, and the names that were perhaps meant.
    """
    return _Typesetter(table).term(e)


class _Typesetter:
    """Writes one expression; names of SymPy are looked up among the page's spellings."""

    def __init__(self, table: Table):
        self.table = table
        self.names: Mapping[str, str] = {plain(s): s for s in table.spellings}

    def name(self, told: str) -> str:
        if told in self.table.spellings:
            return told
        if told not in self.names:
            close = near(told, self.names)
            hint = f"; near it: {', '.join(close)}" if close else ""
            raise NotTypeset(f"unknown name {told}{hint}")
        return self.names[told]

    def term(self, e: Expr) -> str:
        """Return a sum or a term; a minus may stand in front."""
        if isinstance(e, Add):
            first, *rest = e.as_ordered_terms()
            return self.term(first) + "".join(self._signed(t) for t in rest)
        if e.could_extract_minus_sign() and not isinstance(e, Symbol):
            return f"-{self.product(-e)}"
        return self.product(e)

    def _signed(self, e: Expr) -> str:
        return f" - {self.product(-e)}" if e.could_extract_minus_sign() else f" + {self.product(e)}"

    def product(self, e: Expr) -> str:
        """Return a product, what has a negative power below a fraction bar."""
        if isinstance(e, Rational):
            return str(e.p) if e.q == 1 else rf"\frac{{{e.p}}}{{{e.q}}}"
        if isinstance(e, (Mul, Pow)) and not isinstance(e, exp):
            above, below = fraction(e)
            if below != 1:
                return rf"\frac{{{self.term(above)}}}{{{self.term(below)}}}"
        factors = e.as_ordered_factors() if isinstance(e, Mul) else [e]
        return r"\, ".join(self.factor(f) for f in factors)

    def factor(self, e: Expr) -> str:
        """Return what may stand beside another factor."""
        if isinstance(e, (Idx, Symbol)):
            return self.name(str(e.label if isinstance(e, Idx) else e.name))
        if isinstance(e, Indexed):
            return self.name(str(e.base.label)) + self._indices(e.indices)
        if isinstance(e, KroneckerDelta):
            if not self.table.kronecker:
                raise NotTypeset("KroneckerDelta: this page has no Kronecker symbol")
            return self.table.kronecker + self._indices(e.args[:2])
        if isinstance(e, Sum):
            return rf"\Bigl({self._sums(e)} {self._grouped(e.function)}\Bigr)"
        if isinstance(e, exp):
            return f"e^{{{self.term(e.args[0])}}}"
        if isinstance(e, log) or (isinstance(e, AppliedUndef) and len(e.args) == 1):
            name = r"\log" if isinstance(e, log) else self.name(e.func.__name__)
            return f"{name}({self.term(e.args[0])})"
        if isinstance(e, Pow):
            return self._power(e)
        if isinstance(e, Rational) and e >= 0:
            return self.product(e)
        if isinstance(e, (Add, Mul, Rational)):
            return self._grouped(e)
        if e.is_Float:
            raise NotTypeset(f"the number {e}: write a fraction, such as Rational(1, 2)")
        raise NotTypeset(f"{type(e).__name__} is not read; sums, products, powers, exp and log are")

    def _grouped(self, e: Expr) -> str:
        return rf"\bigl({self.term(e)}\bigr)"

    def _indices(self, indices: tuple) -> str:
        return f"_{{{', '.join(self.term(i) for i in indices)}}}"

    def _sums(self, e: Sum) -> str:
        limits = (limit for limit in reversed(e.limits))
        parts = [
            rf"\sum_{{{self.factor(x)}={self.term(low)}}}^{{{self.term(high)}}}" for x, low, high in limits
        ]
        return " ".join(parts)

    def _power(self, e: Pow) -> str:
        base, power = e.args
        if power == Rational(1, 2):
            return rf"\sqrt{{{self.term(base)}}}"
        if not power.is_Rational:
            raise NotTypeset(f"the exponent {power}: only numbers may be exponents, except of exp")
        script = f"^{{{self.product(power)}}}"
        return (self.factor(base) if isinstance(base, (Indexed, Symbol)) else self._grouped(base)) + script
