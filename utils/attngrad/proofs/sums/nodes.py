"""Two expression nodes that SymPy lacks: an unevaluated partial derivative and an opaque spectral norm."""

from __future__ import annotations

from typing import Any

from sympy import Basic, Expr, Indexed, IndexedBase, Symbol, sympify


class Partial(Expr):
    r"""An unevaluated partial derivative, exactly as printed.

    Formula: `\partial f / \partial x`, with x an array entry or a scalar; second derivatives are nested.

    Raises: TypeError when x is neither an entry nor a symbol.

    >>> from sympy import IndexedBase, Symbol
    >>> Partial(Symbol('L'), IndexedBase('s')[1]).args
    (L, s[1])
    """

    def __new__(cls, function: Any, variable: Any) -> Partial:
        function, variable = sympify(function), sympify(variable)
        if not isinstance(function, Expr):
            raise TypeError(f"Partial differentiates an expression, got {function!r}")
        if not isinstance(variable, (Indexed, Symbol)):
            raise TypeError(f"Partial differentiates by an array entry or a symbol, got {variable!r}")
        return Expr.__new__(cls, function, variable)

    @property
    def function(self) -> Expr:
        """The differentiated expression."""
        return self.args[0]

    @property
    def variable(self) -> Expr:
        """The entry or symbol that it is differentiated by."""
        return self.args[1]


class Norm2(Expr):
    r"""The spectral norm of a named array, opaque to the engine.

    Formula: `\lVert J \rVert_2`; it occurs in inequalities, which are evaluated numerically.

    Raises: TypeError when the argument is not the name of an array.

    >>> from sympy import IndexedBase
    >>> Norm2(IndexedBase('J'))
    Norm2(J)
    """

    is_real = True

    def __new__(cls, base: Any) -> Norm2:
        if not isinstance(base, (IndexedBase, Symbol)):
            raise TypeError(f"Norm2 takes the name of an array (IndexedBase or Symbol), got {base!r}")
        return Expr.__new__(cls, base)

    @property
    def base(self) -> Basic:
        """The array whose norm it is."""
        return self.args[0]
