"""An answer in LaTeX or SymPy: how it is read, and what is no answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

from sympy import Basic, Eq, Expr, sympify

from attngrad.exercises.ground import Ground
from attngrad.exercises.sides import aligned, first_equals
from attngrad.exercises.typeset import NotTypeset, typeset
from attngrad.notation import DtypeError, RangeError
from attngrad.proofs.derive import names_in
from attngrad.proofs.read import ReadError, Reading, read
from attngrad.proofs.read.lexer import without_wrappers
from attngrad.proofs.sums import Partial


class NoAnswer(ValueError):
    """What was given answers nothing: it cannot be read, or it leaves the question as it is."""


class OtherSide(NoAnswer):
    """An equation about another left side."""


@dataclass(frozen=True)
class Answer:
    """An answer as it was read; ``clash`` says why its letters are no formula, where a letter has two roles.

    Such a formula is still judged, the inner role winning, so that the reader sees what it would mean.
    """

    reading: Reading
    clash: str = ""


def find_answer(
    parts: Sequence[Ground], given: Any, names: Sequence[str] | None, derivatives: bool
) -> tuple[Ground, Answer]:
    """Return the equation that an answer states about a left side of a display, and which side that is.

    Raises: NoAnswer with the place and the reason; DtypeError for what is no formula; RangeError for names
    that the page does not have.
    """
    tex = _in_latex(parts[0], given)
    lefts = ", ".join(part.left_tex for part in parts)
    if first_equals(tex) is None and len(parts) > 1:
        raise NoAnswer(f"the display has several equations: begin with the left side of one, {lefts}")
    for part in parts:
        try:
            return part, answer_of(part, tex, names, derivatives)
        except OtherSide:
            continue
    raise NoAnswer(f"this is not about the left side, {lefts}: begin with it, or leave it out")


def answer_of(ground: Ground, tex: str, names: Sequence[str] | None, derivatives: bool) -> Answer:
    """Return the equation that an answer in LaTeX states about one left side."""
    allowed = _allowed(ground, names)
    prefix = "" if first_equals(tex) is not None else f"{ground.left_tex} = "
    try:
        answer = Answer(_read(prefix, tex, ground))
    except ReadError as error:
        answer = _quoted(prefix, tex, ground, error)
    answer = replace(answer, reading=_about_the_left(answer.reading, ground))
    _check_value(ground, answer.reading, allowed, derivatives or ground.right.has(Partial))
    return answer


def _allowed(ground: Ground, names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names that an answer may use."""
    if names is None:
        return ground.names
    if isinstance(names, str) or not all(isinstance(x, str) for x in names):
        raise DtypeError(f"names: expected a sequence of names, got {names!r}")
    for name in names:
        if name not in ground.names:
            known = _listed(ground.names)
            raise RangeError(f"names: expected names of {ground.label}, among {known}; got {name!r}")
    return tuple(names)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)


def _in_latex(ground: Ground, given: Any) -> str:
    """Return an answer in LaTeX, dollar signs and the like around it blanked out."""
    if isinstance(given, str):
        return without_wrappers(given)
    if isinstance(given, int | Fraction) and not isinstance(given, bool):
        given = sympify(given)
    try:
        if isinstance(given, Eq):
            return f"{typeset(given.lhs, ground.table)} = {typeset(given.rhs, ground.table)}"
        if isinstance(given, Basic) and isinstance(given, Expr):
            return typeset(given, ground.table)
    except NotTypeset as reason:
        told = f"cannot be read: {reason}\nnames of this exercise: {_listed(ground.names)}"
        raise NoAnswer(told) from None
    got = f"{type(given).__name__} {given!r}"
    raise DtypeError(f"answer: expected a formula in LaTeX (a text) or SymPy (an expression), got {got}")


def _read(prefix: str, tex: str, ground: Ground, quote: bool = False) -> Reading:
    """Read an answer behind the left side; an error points into the answer alone."""
    if not tex.strip():
        raise ReadError("an empty answer", tex, 0)
    try:
        return read(prefix + tex, ground.table, quote=quote)
    except ReadError as error:
        raise ReadError(error.message, tex, error.position - len(prefix)) from None


def _quoted(prefix: str, tex: str, ground: Ground, error: ReadError) -> Answer:
    """Return an answer in which a letter is free and bound, the inner meaning winning."""
    try:
        return Answer(_read(prefix, tex, ground, quote=True), error.message)
    except ReadError:
        raise NoAnswer(f"cannot be read: {error}") from None


# --- what an answer must be about -------------------------------------------------------------


def _about_the_left(reading: Reading, ground: Ground) -> Reading:
    """Return an equation, or a chain of them, that begins with the left side of the exercise.

    An equation may be turned around; how else the left side may be written, `aligned` says.
    """
    if any(s.relation != "=" for s in reading.statements):
        raise NoAnswer("an equation is expected, and this is an inequality or an approximation")
    if any(before.rhs != after.lhs for before, after in pairwise(reading.statements)):
        raise NoAnswer("one equation or one chain of equations is expected, and these are several")
    first = reading.statements[0]
    turned = replace(reading, statements=(replace(first, lhs=first.rhs, rhs=first.lhs),))
    for candidate in (reading, turned) if len(reading.statements) == 1 else (reading,):
        found = aligned(candidate, ground.asked, ground.context.definitions)
        if found is not None:
            return found
    raise OtherSide


def _check_value(ground: Ground, reading: Reading, allowed: Sequence[str], derivatives: bool) -> None:
    """Refuse a value that leaves the question as it is, or that is written with other names."""
    value = reading.statements[-1].rhs
    if value.has(Partial) and not derivatives:
        raise NoAnswer("an answer without derivatives is expected")
    used = names_in(value) & {*ground.table.names, *ground.table.integers} - ground.table.size_names
    if used & set(ground.forbidden):
        raise NoAnswer(f"the answer contains {ground.left_name}, which is what is asked for")
    if other := sorted(used - set(allowed)):
        raise NoAnswer(f"{_listed(other)} is not among the names of this exercise: {_listed(allowed)}")
    if ground.repeats(value, reading.scope):
        raise NoAnswer("this only repeats the left side, or its definition: go on from there")
