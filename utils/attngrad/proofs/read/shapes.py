r"""Values with shapes: a scalar, a column, a row or a matrix with typed ranges, given by its entries.

An axis is a range ``(low, high)``, ``None`` when there is none, or ``UNKNOWN``: the length of a vector
of ones, which its neighbours decide. A matrix of unknown size that must be square, such as the
identity, is marked ``square``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from sympy import Add, Dummy, Expr, Integer, KroneckerDelta, Mul, Sum

Range = tuple[Expr, Expr]


class _Unknown(Enum):
    UNKNOWN = "a length that is not determined"


UNKNOWN = _Unknown.UNKNOWN
Axis = Range | Literal[_Unknown.UNKNOWN] | None
Entry = Callable[[Expr | None, Expr | None], Expr]


class ShapeError(ValueError):
    """Two shapes that do not fit."""


@dataclass(frozen=True)
class Value:
    """What an expression stands for: its axes, and its entry at a row and a column."""

    rows: Axis
    columns: Axis
    entry: Entry
    square: bool = False

    @property
    def is_scalar(self) -> bool:
        return self.rows is None and self.columns is None

    @property
    def is_vector(self) -> bool:
        return (self.rows is None) != (self.columns is None)

    @property
    def expression(self) -> Expr:
        """The expression of a scalar.

        Raises
        ------
        ShapeError
            For an array: ask for an entry.
        """
        if not self.is_scalar:
            raise ShapeError(f"a scalar is expected, and this has the shape {shape(self)}")
        return self.entry(None, None)


def scalar(expression: Expr) -> Value:
    """Return a scalar value."""
    return Value(None, None, lambda row, column: expression)


def shape(value: Value) -> str:
    """Return the shape in words, for messages."""
    if value.is_scalar:
        return "a scalar"
    if value.columns is None:
        return f"a column over {axis_text(value.rows)}"
    if value.rows is None:
        return f"a row over {axis_text(value.columns)}"
    return f"a matrix, rows over {axis_text(value.rows)}, columns over {axis_text(value.columns)}"


def axis_text(axis: Axis) -> str:
    if axis is None:
        return "a single entry"
    return "an undetermined length" if axis is UNKNOWN else f"{axis[0]}..{axis[1]}"


def unify(a: Axis, b: Axis, where: str) -> Axis:
    """Return the axis that two values share.

    Raises
    ------
    ShapeError
        When they differ.
    """
    if a is UNKNOWN and b is not None:
        return b
    if (b is UNKNOWN and a is not None) or a == b:
        return a
    hint = ""
    if all(isinstance(x, tuple) for x in (a, b)) and any(x[1].is_Integer for x in (a, b)):
        hint = "; a literal array needs a table with that size, table.at(...)"
    raise ShapeError(f"shapes differ in {where}: {axis_text(a)} against {axis_text(b)}{hint}")


def _settled(rows: Axis, columns: Axis, square: bool, where: str) -> tuple[Axis, Axis]:
    """Return the axes of a matrix, made equal when it is square."""
    if not square or rows is None or columns is None:
        return rows, columns
    both = unify(rows, columns, f"{where} with a square matrix")
    return both, both


def add(a: Value, b: Value, sign: int = 1) -> Value:
    r"""Return ``a + sign b``, entry by entry."""
    square = a.square or b.square
    rows = unify(a.rows, b.rows, "a sum")
    rows, columns = _settled(rows, unify(a.columns, b.columns, "a sum"), square, "a sum")
    return Value(rows, columns, lambda i, j: a.entry(i, j) + sign * b.entry(i, j), square)


def negate(a: Value) -> Value:
    return Value(a.rows, a.columns, lambda i, j: -a.entry(i, j), a.square)


def divide(a: Value, divisor: Expr) -> Value:
    return Value(a.rows, a.columns, lambda i, j: a.entry(i, j) / divisor, a.square)


def transpose(a: Value) -> Value:
    """Return the transpose.

    Raises
    ------
    ShapeError
        For a scalar: on paper that is the entry of a transposed matrix, or a mistake.
    """
    if a.is_scalar:
        raise ShapeError(
            "transpose of a scalar entry: put the transposed matrix in parentheses before taking an entry"
        )
    return Value(a.columns, a.rows, lambda i, j: a.entry(j, i), a.square)


def hadamard(a: Value, b: Value) -> Value:
    r"""Return the product entry by entry, ``a \odot b``."""
    if a.is_scalar or b.is_scalar:
        raise ShapeError(r"\odot needs two arrays")
    square = a.square or b.square
    rows = unify(a.rows, b.rows, r"\odot")
    rows, columns = _settled(rows, unify(a.columns, b.columns, r"\odot"), square, r"\odot")
    return Value(rows, columns, lambda i, j: a.entry(i, j) * b.entry(i, j), square)


def total(summand: Callable[..., Expr], *axes: Axis) -> Expr:
    """Return the sum over the axes that are there, with fresh letters.

    Raises
    ------
    ShapeError
        When a length is not determined.
    """
    if UNKNOWN in axes:
        raise ShapeError("the length of a vector of ones, or of an identity, is not determined here")
    letters = [None if axis is None else Dummy(f"k{n}", integer=True) for n, axis in enumerate(axes, start=1)]
    limits = [
        (k, *axis) for k, axis in zip(letters, axes, strict=True) if k is not None and isinstance(axis, tuple)
    ]
    inside = summand(*letters)
    return Sum(inside, *limits) if limits else inside


def dot(a: Value, b: Value) -> Value:
    r"""Return the sum of the products of all entries, ``\langle a, b \rangle``."""
    rows = unify(a.rows, b.rows, "a dot product")
    columns = unify(a.columns, b.columns, "a dot product")
    return scalar(total(lambda i, j: a.entry(i, j) * b.entry(i, j), rows, columns))


def product(a: Value, b: Value) -> Value:
    """Return the scalar or the matrix product, by shape.

    Raises
    ------
    ShapeError
        When the inner axes differ, or a length is not determined.
    """
    if a.is_scalar:
        return Value(b.rows, b.columns, lambda i, j: a.expression * b.entry(i, j), b.square)
    if b.is_scalar:
        return Value(a.rows, a.columns, lambda i, j: a.entry(i, j) * b.expression, a.square)
    inner = unify(a.columns, b.rows, "a matrix product")
    if inner is UNKNOWN:
        raise ShapeError("the length of a vector of ones, or of an identity, is not determined here")
    rows = inner if a.square and a.rows is UNKNOWN else a.rows
    columns = inner if b.square and b.columns is UNKNOWN else b.columns
    return Value(rows, columns, lambda i, j: total(lambda k: a.entry(i, k) * b.entry(k, j), inner))


def ones() -> Value:
    r"""Return ``\mathbf 1``: a column whose length its neighbours decide."""
    return Value(UNKNOWN, None, lambda i, j: Integer(1))


def identity() -> Value:
    """Return the identity matrix, whose size its neighbours decide."""
    return Value(UNKNOWN, UNKNOWN, lambda i, j: KroneckerDelta(i, j), square=True)


def diagonal(v: Value) -> Value:
    """Return the matrix with a column on its diagonal."""
    if v.columns is not None or v.rows is None:
        raise ShapeError(f"diag takes a column, and this is {shape(v)}")
    return Value(v.rows, v.rows, lambda i, j: KroneckerDelta(i, j) * v.entry(i, None), square=True)


def trace(a: Value) -> Value:
    """Return the sum of the diagonal of a square matrix."""
    if a.rows is None or a.columns is None:
        raise ShapeError(f"tr takes a matrix, and this is {shape(a)}")
    return scalar(total(lambda k: a.entry(k, k), unify(a.rows, a.columns, "a trace")))


def row_sums(a: Value) -> Value:
    """Return the column of the sums of a matrix's rows."""
    if a.rows is None or a.columns is None:
        raise ShapeError(f"rowsum takes a matrix, and this is {shape(a)}")
    if a.columns is UNKNOWN:
        raise ShapeError("the length of a vector of ones, or of an identity, is not determined here")
    return Value(a.rows, None, lambda i, j: total(lambda k: a.entry(i, k), a.columns))


def literal(cells: Sequence[Sequence[Expr]]) -> Value:
    """Return a matrix, column or row of given entries, over ranges that start at 1.

    Its entry at letters x, y is the sum of ``KroneckerDelta(x, r) KroneckerDelta(y, c) cells[r][c]``.

    Raises
    ------
    ShapeError
        When the rows differ in length, or there is one entry only.
    """
    height, widths = len(cells), sorted({len(row) for row in cells})
    if len(widths) > 1:
        raise ShapeError(f"the rows of this matrix have different lengths: {', '.join(map(str, widths))}")
    width = widths[0]
    if height == width == 1:
        raise ShapeError("a matrix with one entry: write the entry itself")

    def entry(row: Expr | None, column: Expr | None) -> Expr:
        def selector(r: int, c: int) -> Expr:
            down = Integer(1) if row is None else KroneckerDelta(row, r)
            return down if column is None else down * KroneckerDelta(column, c)

        terms = [Mul(selector(r, c), x) for r, xs in enumerate(cells, 1) for c, x in enumerate(xs, 1)]
        return Add(*terms)

    tall, wide = (Integer(1), Integer(height)), (Integer(1), Integer(width))
    return Value(tall if height > 1 else None, wide if width > 1 else None, entry)


def slice_of(base: Callable[..., Expr], axes: Sequence[Range]) -> Value:
    """Return what is left of a named array: an entry, a column or a matrix.

    Raises
    ------
    ShapeError
        When more than two axes are left.
    """
    if not axes:
        return scalar(base())
    if len(axes) == 1:
        return Value(axes[0], None, lambda i, j: base(i))
    if len(axes) == 2:
        return Value(axes[0], axes[1], lambda i, j: base(i, j))
    raise ShapeError(f"this array needs at least {len(axes) - 2} more indices here")
