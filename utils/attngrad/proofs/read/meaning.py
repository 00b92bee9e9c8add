"""The parse tree of an expression to its value: one method for each rule of the grammar.

Rules about what may stand next to what are in ``products``, sums in ``summation``, derivatives in
``differentials``, index expressions in ``indices``, shapes in ``shapes``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lark import Token, Tree
from sympy import Abs, Expr, Function, IndexedBase, KroneckerDelta, Rational, exp, log, sqrt

from ..sums import Norm2
from . import shapes
from .differentials import Differentials
from .indices import Bindings, IndexReader
from .products import Products
from .shapes import UNKNOWN, ShapeError, Value, scalar
from .summation import Summation
from .symbols import UNEVALUABLE

FUNCTIONS: dict[str, Callable[[Expr], Expr]] = {r"\exp": exp, r"\log": log, r"\ln": log}
_GROUPLESS = ("function", "bare_function", "operator", "box", "derivative", "higher_derivative", "fraction")
LARGEST_EXPONENT = 64
_NO_VALUE = "this has no real value: a division by zero, or the root or the logarithm of such a number"


@dataclass(frozen=True)
class Aside:
    """A formula under a brace: an assertion of its own about what the brace holds."""

    left: Value
    right: Value
    at: Tree


class Evaluator(Products, Summation, Differentials):
    """Evaluates the expressions of one formula."""

    def __init__(self, indices: IndexReader):
        self.indices = indices
        self.table = indices.table
        self.error = indices.error
        self.asides: dict[int, Aside] = {}

    def value(self, tree: Tree, bindings: Bindings) -> Value:
        """Return the value of an expression; a shape that does not fit is an error at its place."""
        try:
            return getattr(self, f"_{tree.data}")(tree, bindings)
        except ShapeError as problem:
            raise self.error(str(problem), tree) from None

    def scalar(self, tree: Tree, bindings: Bindings, what: str) -> Expr:
        """Return the expression of what must be a scalar."""
        found = self.value(tree, bindings)
        if not found.is_scalar:
            raise self.error(f"{what} must be a scalar, and this is {shapes.shape(found)}", tree)
        return found.expression

    def _checked(self, expression: Expr, tree: Tree) -> Value:
        """Refuse what has no real value, such as a division by the number zero."""
        if expression.has(*UNEVALUABLE):
            raise self.error(_NO_VALUE, tree)
        return scalar(expression)

    # --- sums, differences, brackets -----------------------------------------------------------

    def _negative(self, tree: Tree, bindings: Bindings) -> Value:
        self.require_group(tree.children[0])
        return shapes.negate(self.value(tree.children[0], bindings))

    def _plus(self, tree: Tree, bindings: Bindings, sign: int = 1) -> Value:
        left, right = (self.value(part, bindings) for part in tree.children)
        try:
            total = shapes.add(left, right, sign)
            if total.is_scalar:
                self.require_conditions((left.expression, right.expression), total.expression, tree)
            return total
        except ShapeError as problem:
            raise self.error(str(problem), tree.children[1]) from None

    def _minus(self, tree: Tree, bindings: Bindings) -> Value:
        self.require_group(tree.children[1])
        return self._plus(tree, bindings, sign=-1)

    def _parenthesis(self, tree: Tree, bindings: Bindings) -> Value:
        return self.value(tree.children[0], bindings)

    def _box(self, tree: Tree, bindings: Bindings) -> Value:
        inside = self.value(tree.children[0], bindings)
        if len(tree.children) > 1 and isinstance(tree.children[1], Tree):
            label = tree.children[1]
            if bindings:
                raise self.error("a formula under a brace inside a sum: state it on its own line", label)
            self.asides[label.meta.start_pos] = Aside(inside, self.value(label, bindings), label)
        return inside

    # --- names and entries ---------------------------------------------------------------------

    def _name(self, tree: Tree, bindings: Bindings) -> Value:
        name = str(tree.children[0])
        if len(self.table.axes(name)) > 1 and name in self.table.alias:
            raise self.error(f"{name} without an index: it is a row of {self.table.alias[name]}", tree)
        if name not in self.table.integers:
            return self._slice(name, [], tree, bindings)
        if self.table.axes(name):
            raise self.error(
                f"{name} is an integer table: it needs its indices, and stands in a subscript", tree
            )
        return scalar(self.table.symbol(name))

    def _slice(self, name: str, indices: list[Expr], tree: Tree, bindings: Bindings) -> Value:
        """Return an entry of a named array, or the column or matrix that its last axes are."""
        axes, base = self.table.axes(name), self.table.symbol(name)
        if len(indices) > len(axes):
            raise self.error(f"{name} has {len(axes)} axes, {len(indices)} indices given", tree)
        if len(indices) == 1 < len(axes) and indices[0].is_Integer and indices[0] > 9:
            raise self.error(f"{name} has {len(axes)} axes: put commas between the indices", tree)
        self._require_inside(indices, axes, tree, bindings)
        if not axes:
            return scalar(base)
        return shapes.slice_of(lambda *rest: base[(*indices, *rest)], axes[len(indices) :])

    def _require_inside(
        self, indices: list[Expr], axes: tuple | list, tree: Tree, bindings: Bindings
    ) -> None:
        for index, axis in zip(indices, axes, strict=False):
            self.indices.require_within(self.indices.interval(index, bindings), axis, tree)

    def _entry(self, tree: Tree, bindings: Bindings) -> Value:
        base, items = tree.children[0], tree.children[1]
        indices = self.indices.subscripts(items, bindings)
        if base.data == "name":
            name = str(base.children[0])
            if name in self.table.integers:
                return scalar(self.indices.table_entry(name, indices, tree, bindings))
            return self._slice(name, indices, tree, bindings)
        if base.data in ("kronecker", "identity"):
            return self._kronecker_entry(indices, tree, bindings)
        if base.data == "parenthesis":
            return self._entry_of(self.value(base, bindings), indices, tree, bindings)
        if base.data == "ones":
            raise self.error("write the 1-vector without a length", tree)
        raise self.error("this cannot carry a subscript", tree)

    def _kronecker_entry(self, indices: list[Expr], tree: Tree, bindings: Bindings) -> Value:
        if len(indices) != 2:
            raise self.error("the Kronecker symbol takes two indices", tree)
        if self.indices.interval(indices[0], bindings) != self.indices.interval(indices[1], bindings):
            raise self.error("the two indices of the Kronecker symbol have different ranges", tree)
        return scalar(KroneckerDelta(*indices))

    def _entry_of(self, array: Value, indices: list[Expr], tree: Tree, bindings: Bindings) -> Value:
        axes = [axis for axis in (array.rows, array.columns) if axis is not None]
        if array.rows is None or len(indices) != len(axes) or UNKNOWN in axes:
            raise self.error(f"{len(indices)} indices on a bracket that is {shapes.shape(array)}", tree)
        self._require_inside(indices, axes, tree, bindings)
        return scalar(array.entry(indices[0], indices[1] if len(indices) > 1 else None))

    # --- atoms -----------------------------------------------------------------------------------

    def _letter(self, tree: Tree, bindings: Bindings) -> Value:
        return scalar(self.indices.letter(tree.children[0], bindings))

    def _number(self, tree: Tree, bindings: Bindings) -> Value:
        return scalar(Rational(str(tree.children[0])))

    def _kronecker(self, tree: Tree, bindings: Bindings) -> Value:
        raise self.error("the Kronecker symbol takes two indices", tree)

    def _ones(self, tree: Tree, bindings: Bindings) -> Value:
        return shapes.ones()

    def _identity(self, tree: Tree, bindings: Bindings) -> Value:
        return shapes.identity()

    def _literal(self, tree: Tree, bindings: Bindings) -> Value:
        return shapes.literal(
            [[self.scalar(x, bindings, "an entry of a matrix") for x in r.children] for r in tree.children]
        )

    def _iverson(self, tree: Tree, bindings: Bindings) -> Value:
        left, _, right = tree.children
        return scalar(KroneckerDelta(self.indices.read(left, bindings), self.indices.read(right, bindings)))

    def _absolute(self, tree: Tree, bindings: Bindings) -> Value:
        return scalar(Abs(self.indices.read(tree.children[0], bindings)))

    # --- powers, fractions, functions ----------------------------------------------------------

    def _raised(self, base: Value, script: Tree, tree: Tree, bindings: Bindings) -> Value:
        """Return a power by a number, or a transpose."""
        if script.data == "inverse_transpose":
            raise self.error("no inverse transpose", tree)
        exponent = script.children[0]
        if isinstance(exponent, Token):
            return shapes.transpose(base)
        if tree.children[0].data in _GROUPLESS:
            raise self.error("ambiguous power: put parentheses around what is raised", tree)
        if exponent.data == "parenthesis":
            raise self.error("a superscript in parentheses is a label, not a power", tree)
        if exponent.data == "name" and exponent.children[0] == "T":
            raise self.error(r"T is a name here: the transpose is ^\top", tree)
        power = self.scalar(exponent, bindings, "an exponent")
        if not power.is_Rational:
            raise self.error("only numbers may be exponents, except of e", tree)
        if not base.is_scalar:
            raise self.error("a power of an array is ambiguous: entrywise or product", tree)
        if max(abs(power.p), power.q) > LARGEST_EXPONENT:
            raise self.error(f"an exponent beyond {LARGEST_EXPONENT}", tree)
        if base.expression.is_Rational and base.expression.p.bit_length() * abs(power.p) > 512:
            raise self.error("a number of more than 512 bits", tree)
        if "norm" not in (tree.data.removesuffix("_power"), tree.children[0].data):  # its root always exists
            self.require_conditions((base.expression,), base.expression**power, tree)
        return self._checked(base.expression**power, tree)

    def _power(self, tree: Tree, bindings: Bindings) -> Value:
        return self._raised(self.value(tree.children[0], bindings), tree.children[1], tree, bindings)

    def _entry_power(self, tree: Tree, bindings: Bindings) -> Value:
        return self._raised(self._entry(tree, bindings), tree.children[2], tree, bindings)

    def _power_entry(self, tree: Tree, bindings: Bindings) -> Value:
        base, script, items = tree.children
        matrix = base.data == "name" and len(self.table.axes(str(base.children[0]))) > 1
        if matrix and not isinstance(script.children[0], Token):
            raise self.error("a power of an entry, or an entry of a power? put the subscript first", tree)
        return self._raised(
            self._entry(Tree("entry", [base, items], tree.meta), bindings), script, tree, bindings
        )

    def _exponential(self, tree: Tree, bindings: Bindings) -> Value:
        exponent = self.scalar(tree.children[1], bindings, "an exponent")
        self.require_conditions((exponent,), exp(exponent), tree)
        return scalar(exp(exponent))

    def _fraction(self, tree: Tree, bindings: Bindings) -> Value:
        above, below = tree.children
        return self._divided(
            self.value(above, bindings), self.scalar(below, bindings, "a denominator"), below
        )

    def _divided(self, above: Value, below: Expr, at: Tree) -> Value:
        if below.is_zero:
            raise self.error("a division by zero", at)
        quotient = shapes.divide(above, below)
        if quotient.is_scalar:
            self.require_conditions((above.expression, below, 1 / below), quotient.expression, at)
        return quotient

    def _root(self, tree: Tree, bindings: Bindings) -> Value:
        return self._checked(sqrt(self.scalar(tree.children[0], bindings, "a radicand")), tree)

    def _function(self, tree: Tree, bindings: Bindings) -> Value:
        name = str(tree.children[0])
        argument = self.scalar(tree.children[1], bindings, f"the argument of {name}")
        self.require_conditions((argument,), (FUNCTIONS.get(name) or Function(name))(argument), tree)
        return self._checked((FUNCTIONS.get(name) or Function(name))(argument), tree)

    _bare_function = _function

    def _operator(self, tree: Tree, bindings: Bindings) -> Value:
        name, inside = str(tree.children[0]), self.value(tree.children[1], bindings)
        return {"diag": shapes.diagonal, "tr": shapes.trace, "rowsum": shapes.row_sums}[name](inside)

    def _pairing(self, tree: Tree, bindings: Bindings) -> Value:
        return shapes.dot(*(self.value(part, bindings) for part in tree.children))

    # --- norms -----------------------------------------------------------------------------------

    def _norm(self, tree: Tree, bindings: Bindings) -> Value:
        inside, which = tree.children[0], tree.children[-1]
        if which.data != "number" or which.children[0] != "2":
            raise self.error(r"only the norm \lVert \cdot \rVert_2 is read", which)
        return scalar(self._norm_of(inside, bindings))

    def _norm_power(self, tree: Tree, bindings: Bindings) -> Value:
        return self._raised(self._norm(tree, bindings), tree.children[1], tree, bindings)

    def _norm_of(self, inside: Tree, bindings: Bindings) -> Expr:
        found = self.value(inside, bindings)
        if inside.data == "name" and not found.is_scalar:
            base = self.table.symbol(str(inside.children[0]))
            if isinstance(base, IndexedBase):
                return Norm2(base)
        if found.is_vector:
            return sqrt(shapes.dot(found, found).expression)
        if found.is_scalar:
            raise self.error("the norm of a scalar: a vector or a matrix is expected", inside)
        raise self.error("the norm of a matrix expression: give the matrix a name", inside)
