r"""Partial derivatives as printed: by one entry or scalar, nested for higher orders."""

from __future__ import annotations

from lark import Tree
from sympy import Expr, Indexed

from ..sums import Partial
from .indices import Bindings
from .shapes import Value, scalar

_POWERS = {"power": 1, "entry_power": 2, "power_entry": 1}  # where the exponent stands among the parts


class Differentials:
    r"""The part of the evaluator that reads ``\frac{\partial f}{\partial x}`` and its kin."""

    def _derivative(self, tree: Tree, bindings: Bindings) -> Value:
        _, function, variables = tree.children
        return self._differentiated(function, variables, 1, tree, bindings)

    def _higher_derivative(self, tree: Tree, bindings: Bindings) -> Value:
        _, script, function, variables = tree.children
        order = _whole_number(script.children[0] if script.children else None)
        if order is None:
            raise self.error("the order of a derivative is a number", tree)
        return self._differentiated(function, variables, order, tree, bindings)

    def _operator_derivative(self, tree: Tree, bindings: Bindings) -> Value:
        _, by, function = tree.children
        variable = self._variables_of(by, 1, bindings)[0]
        return scalar(Partial(self.scalar(function, bindings, "the differentiated quantity"), variable))

    def _differentiated(
        self, function: Tree, variables: Tree, order: int, tree: Tree, bindings: Bindings
    ) -> Value:
        r"""Return nested partial derivatives: in ``\partial x \partial y`` the one by y is taken first."""
        by: list[Expr] = []
        for factor in variables.children[1::2]:
            by += self._variables_of(factor, order, bindings)
        if len(by) != order:
            raise self.error(
                f"the derivative is of order {order}, and the denominator has {len(by)} variables", tree
            )
        out = self.scalar(function, bindings, "the differentiated quantity")
        for variable in reversed(by):
            out = Partial(out, variable)
        return scalar(out)

    def _variables_of(self, factor: Tree, order: int, bindings: Bindings) -> list[Expr]:
        """Return a variable, as often as its power in the denominator says."""
        times, plain = 1, factor
        if order > 1 and factor.data in _POWERS:
            script = factor.children[_POWERS[factor.data]]
            times = _whole_number(script.children[0])
            if times is None:
                raise self.error("the power of a variable of differentiation is a number", factor)
            rest = [part for part in factor.children if part is not script]
            plain = rest[0] if len(rest) == 1 else Tree("entry", rest, factor.meta)
        variable = self.scalar(plain, bindings, "the variable of a derivative")
        named = plain.data == "name" or (plain.data == "entry" and plain.children[0].data == "name")
        if not named or not (isinstance(variable, Indexed) or variable.is_Symbol):
            raise self.error(
                "differentiate with respect to one entry of a named array, or a named scalar", factor
            )
        if variable.is_integer:
            raise self.error("a derivative by an integer", factor)
        return [variable] * times


def _whole_number(tree: object) -> int | None:
    """Return the number that a script holds, or None."""
    if isinstance(tree, Tree) and tree.data == "number" and tree.children[0].isdigit():
        return int(tree.children[0])
    return None
