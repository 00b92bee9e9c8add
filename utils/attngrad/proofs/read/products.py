r"""What may stand side by side: products of factors, quotients with a slash, and what groups nothing.

On paper ``a/b c``, ``\log x y`` and ``L(s)`` mean different things to different readers. These are
refused, with the way to write what is meant.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from lark import Tree
from sympy import Expr, Pow, log

from . import shapes
from .indices import Bindings, flatten
from .shapes import Value

_OPEN = ("plus", "minus", "negative", "quotient", "bare_function", "operator_derivative")
Factor = tuple[str, Value, Tree]


def is_open(tree: Tree) -> bool:
    """Say whether more to the right could be taken as part of this expression."""
    if tree.data == "run":
        return is_open(tree.children[-1])
    return is_open(tree.children[0]) if tree.data == "box" else tree.data in _OPEN


def lost_conditions(parts: Iterable[Expr], whole: Expr) -> bool:
    """Say whether simplification has lost a denominator, a root or a logarithm that may have no value.

    What is printed must hold where it is printed, so such a cancellation is the author's to make.
    """
    before = {c for part in parts for c in _conditions(part)}
    return bool(before) and not before <= _conditions(whole)


def _conditions(e: Expr) -> set[tuple[str, Expr]]:
    """Return what must not be zero, and what must not be negative, for an expression to have a value."""
    found: set[tuple[str, Expr]] = {("log", x.args[0]) for x in e.atoms(log)}
    for power in e.atoms(Pow):
        base, exponent = power.as_base_exp()
        if exponent.is_negative:
            found.add(("nonzero", base))
        if exponent.is_Rational and not exponent.is_Integer:
            found.add(("root", base))
    return {(kind, base) for kind, base in found if not base.is_number and not base.is_positive}


class Products:
    """The part of the evaluator that reads runs of factors."""

    def require_conditions(self, parts: Iterable[Expr], whole: Expr, tree: Tree) -> None:
        """Refuse a simplification that loses a place without value, such as x/x."""
        if lost_conditions(parts, whole):
            raise self.error("something cancels that may have no value: cancel it before it is printed", tree)

    def require_group(self, tree: Tree) -> None:
        """Refuse a colour, a box or a brace where only parentheses group."""
        if tree.data == "box" and is_open(tree.children[0]):
            raise self.error(
                "a box, brace or colour groups nothing on paper: put parentheses inside it", tree
            )

    def _quotient(self, tree: Tree, bindings: Bindings) -> Value:
        above, below = tree.children
        if below.data == "box" or is_open(above):
            raise self.error("ambiguous: put parentheses around what / divides", below)
        return self._divided(self.value(above, bindings), self.scalar(below, bindings, "a divisor"), below)

    def _run(self, tree: Tree, bindings: Bindings) -> Value:
        factors = flatten(tree)
        for place in range(len(factors)):
            self._check_place(factors, place)
        read = [(operator, self.value(factor, bindings), factor) for operator, factor in factors]
        for head, bracket in pairwise(read):
            if not bracket[0] and bracket[2].data == "parenthesis":
                self._check_application(head, bracket)
        arrays = [value for _, value, _ in read if not value.is_scalar]
        entrywise = any(operator == "HADAMARD" for operator, _, _ in read)
        out = read[0][1]
        for factor in read[1:]:
            try:
                out = self._times(out, factor, arrays, entrywise)
            except shapes.ShapeError as problem:
                raise self.error(str(problem), factor[2]) from None
        return out

    def _check_place(self, factors: list[tuple[str, Tree]], place: int) -> None:
        """Refuse a factor whose place in the product has two readings."""
        operator, factor = factors[place]
        self.require_group(factor)
        if factor.data in ("bare_function", "operator_derivative") and place < len(factors) - 1:
            raise self.error(r"ambiguous: where does the argument end? write \log( )", factor)
        if factor.data == "letter" and operator != "DOT":
            letter = factor.children[0]
            raise self.error(
                f"{letter} is an index letter standing as a factor: missing braces in a subscript? "
                r"else write \cdot or parentheses", factor,
            )  # fmt: skip

    def _check_application(self, head: Factor, bracket: Factor) -> None:
        """Refuse ``L(s)`` as a product: a name before a bracket looks like a function."""
        (_, value, name), (_, argument, tree) = head, bracket
        if not (name.data == "name" or (name.data == "entry" and name.children[0].data == "name")):
            return
        inside = tree.children[0]
        product = inside.data in ("plus", "minus", "big") or any(op == "DOT" for op, _ in flatten(inside))
        if product and (value.is_scalar or not argument.is_scalar):
            return
        shown = self.indices.text[name.meta.start_pos : tree.meta.start_pos].strip()
        raise self.error(
            rf"{shown} is not a function here, and this looks like its value at a point: write \cdot",
            tree,
        )

    def _times(self, out: Value, factor: Factor, arrays: list[Value], entrywise: bool) -> Value:
        operator, value, tree = factor
        both = not out.is_scalar and not value.is_scalar
        if operator == "HADAMARD":
            return shapes.hadamard(out, value)
        if operator == "DOT" and both:
            if len(arrays) != 2 or out.columns is not None or value.columns is not None:
                raise self.error(r"\cdot joins two vectors only; put the dot product in parentheses", tree)
            return shapes.dot(out, value)
        if entrywise and both:
            raise self.error(r"ambiguous: \odot next to a matrix product; use parentheses", tree)
        result = shapes.product(out, value)
        if result.is_scalar and not both:
            self.require_conditions((out.expression, value.expression), result.expression, tree)
        return result
