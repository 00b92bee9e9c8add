"""What a trap asks of the reader: the meaning, or the refusal with its reason."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sympy import Expr, Integer, Symbol, sympify

from attngrad.proofs.read import Table
from attngrad.proofs.read.reader import ReadError, Value, read, read_expression

from .exact_values import alike
from .reader_notation import Refused

SIZES = {
    Symbol(name, integer=True, positive=True): value
    for name, value in (("N", 2), ("d_k", 2), ("B", 2), ("n", 2), ("m", 3))
}
LETTERS = {Symbol(name, integer=True): 2 for name in ("i", "j", "l", "c", "a", "b")}


@dataclass(frozen=True)
class Cells:
    """An array of these entries; a column has one entry a row."""

    rows: Sequence[Sequence[Expr | int]]


@dataclass(frozen=True)
class States:
    """A display that states exactly this: (left, relation, right) one after the other."""

    statements: Sequence[tuple[Expr | int, str, Expr | int]]


Want = Expr | int | Refused | Cells | States


def same(left: Expr | int, right: Expr | int, letters: Iterable[Symbol] = ()) -> bool:
    """Say whether two expressions agree on exact rationals, at every value of every letter."""
    every = {**LETTERS, **{letter: 2 for letter in letters}}
    used = sympify(left).free_symbols | sympify(right).free_symbols
    return alike(sympify(left), sympify(right), {s: high for s, high in every.items() if s in used}, SIZES)


def wrong(text: str, want: Want, table: Table) -> str:
    """Return what is wrong with the way this text is read; nothing when it is read as meant."""
    try:
        found = (
            read(text, table) if isinstance(want, States) or _states(text) else read_expression(text, table)
        )
    except ReadError as error:
        if isinstance(want, Refused):
            return "" if want.because in error.message else f"refused for another reason: {error.message}"
        return f"refused: {error.message}"
    if isinstance(want, Refused):
        return "read, and should be refused"
    if isinstance(want, States):
        return _wrong_statements(found.statements, want.statements)
    return _wrong_array(found, want.rows) if isinstance(want, Cells) else _wrong_scalar(found, want)


def _states(text: str) -> bool:
    return (
        any(sign in text for sign in ("=", "\\le ", "\\ge ", "\\approx", "<", ">"))
        and "\\sum" not in text
        and "[" not in text
    )


def _wrong_scalar(found: Value, want: Expr | int) -> str:
    if not found.is_scalar:
        return "read as an array"
    return "" if same(found.expression, want) else f"read as {found.expression}"


def _wrong_array(found: Value, rows: Sequence[Sequence[Expr | int]]) -> str:
    if found.rows != (1, len(rows)) or (found.columns is None) != (len(rows[0]) == 1):
        return f"read with the axes {found.rows}, {found.columns}"
    x, y = Symbol("x", integer=True), Symbol("y", integer=True)
    by_letters = found.entry(x, None if found.columns is None else y)
    for r, cells in enumerate(rows, 1):
        for c, cell in enumerate(cells, 1):
            direct = found.entry(Integer(r), None if found.columns is None else Integer(c))
            if not (same(direct, cell) and same(by_letters.xreplace({x: Integer(r), y: Integer(c)}), cell)):
                return f"entry {r}, {c} is {direct}"
    return ""


def _wrong_statements(found: Sequence, want: Sequence[tuple]) -> str:
    if len(found) != len(want):
        return f"{len(found)} statements"
    for statement, (left, relation, right) in zip(found, want, strict=True):
        letters = [s for s in statement.free if "<" in s.name]
        renamed = {s: Symbol("i" if s.name.startswith("row") else "j", integer=True) for s in letters}
        lhs, rhs = statement.lhs.xreplace(renamed), statement.rhs.xreplace(renamed)
        if statement.relation != relation:
            return f"the relation is {statement.relation}"
        if not (same(lhs, left) and same(rhs, right)):
            return f"read as {lhs} {relation} {rhs}"
    return ""


def failures(cases: Iterable[tuple[str, Want]], table: Table) -> list[str]:
    """Return one line for each trap that is not read as meant."""
    found = []
    for text, want in cases:
        problem = wrong(text, want, table)
        if problem:
            found.append(f"{text}  ->  {problem}")
    return found
