"""What a formula was read as: its statements, and the ranges of its letters."""

from __future__ import annotations

from dataclasses import dataclass

from sympy import Expr, Symbol

from ..sums import Scope


@dataclass(frozen=True)
class Statement:
    """``lhs relation rhs`` for all values of the free index letters.

    ``relation`` is one of ``=``, ``<=``, ``>=``, ``<``, ``>`` and ``~`` (printed as an approximate
    equality); ``reason`` is the text beside it, ``at`` the place of the relation in the LaTeX.
    """

    lhs: Expr
    rhs: Expr
    relation: str
    reason: str
    free: tuple[Symbol, ...]
    at: int


@dataclass(frozen=True)
class Reading:
    """The statements of one display; ``scope`` has the table's ranges and those of fresh letters."""

    statements: tuple[Statement, ...]
    scope: Scope
    text: str = ""
