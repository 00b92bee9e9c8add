"""The two sides of a formula, as text and as objects."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations

from sympy import Expr, Indexed, Integer, Symbol

from attngrad.proofs.derive import Definition, indices_of, name_of
from attngrad.proofs.read import Reading, Statement, fingerprint

_LAYOUT = re.compile(r"\\begin\{(?:aligned|split|gathered)\}")
_MATRIX = re.compile(r"\\(?:begin|end)\{[pb]matrix\}")
_NEXT = re.compile(r"\\\\|\\q?quad(?![A-Za-z])")


def first_equals(tex: str) -> int | None:
    r"""Return the place of the first equals sign outside all brackets, or None.

    >>> first_equals(r"\sum_{i=1}^n p_i = 1"), first_equals(r"[i = j]")
    (17, None)
    """
    depth, at = 0, 0
    while at < len(tex):
        if tex[at] == "\\":
            at += 2
            continue
        depth += (tex[at] in "{[(") - (tex[at] in "}])")
        if tex[at] == "=" and depth == 0:
            return at
        at += 1
    return None


def left_of(tex: str) -> str:
    r"""Return what stands before the first equals sign outside brackets, layout dropped.

    >>> left_of(r"\begin{aligned} \sum_{i=1}^n a_i &= b \\ &= c \end{aligned}")
    '\\sum_{i=1}^n a_i'
    """
    return " ".join(_LAYOUT.sub(" ", tex[: first_equals(tex)]).strip("& \n").split())


def chains(reading: Reading) -> list[Reading]:
    """Return each chain of equations of a display by itself; most displays are one chain."""
    out: list[list[Statement]] = []
    for statement in reading.statements:
        if out and out[-1][-1].rhs == statement.lhs:
            out[-1].append(statement)
        else:
            out.append([statement])
    return [replace(reading, statements=tuple(one)) for one in out]


def left_texts(tex: str, parts: Sequence[Reading]) -> list[str]:
    """Return the left side of each chain of a display, as it is printed."""
    start, found = 0, []
    for part in parts:
        found.append(left_of(_last_line(tex[start : part.statements[0].at])))
        start = part.statements[-1].at + 1
    return found


def _last_line(text: str) -> str:
    """Return what stands behind the last break between equations; those inside a matrix do not count."""
    for gap in reversed(list(_NEXT.finditer(text))):
        rest = text[gap.end() :]
        if len(_MATRIX.findall(rest)) % 2 == 0:
            return rest
    return text


def left_side(reading: Reading) -> Expr:
    """Return the left side of the first statement."""
    return reading.statements[0].lhs


def one_sided(reading: Reading, side: Expr | None = None) -> Reading:
    """Return a reading that states nothing but one side, the left one by default: to compare sides alone."""
    found = left_side(reading) if side is None else side
    letters = tuple(x for x in reading.statements[0].free if x in found.free_symbols)
    alone = Statement(found, Integer(0), "=", "", letters, 0)
    return replace(reading, statements=(alone,))


def aligned(reading: Reading, asked: Reading, definitions: Mapping[str, Definition]) -> Reading | None:
    """Return a reading in the letters of what is asked, or None where it is about another left side.

    The letters of entries may differ, an array may stand for its entries and the other way round, and a
    name for what it is defined as.
    """
    left = left_side(asked)
    same = {fingerprint(one_sided(asked))}
    if isinstance(left, Indexed | Symbol) and name_of(left) in definitions:
        same.add(fingerprint(one_sided(asked, definitions[name_of(left)].at(indices_of(left)))))
    return next((r for r in _renamings(reading, asked) if fingerprint(one_sided(r)) in same), None)


def _renamings(reading: Reading, asked: Reading) -> Iterator[Reading]:
    """Yield a reading with its free letters replaced by those of another left side, each in its own range."""
    yield reading
    theirs = reading.statements[0].free
    ours = [x for x in asked.statements[0].free if x in left_side(asked).free_symbols]
    ranges, wanted = reading.scope.ranges, asked.scope.ranges
    for chosen in permutations(ours) if len(ours) == len(theirs) else ():
        if all(ranges[a] == wanted[b] for a, b in zip(theirs, chosen, strict=True)):
            yield _renamed(reading, dict(zip(theirs, chosen, strict=True)), asked)


def _renamed(reading: Reading, letters: Mapping[Symbol, Symbol], asked: Reading) -> Reading:
    """Return a reading with other free letters, all at once."""
    statements = []
    for s in reading.statements:
        lhs, rhs = s.lhs.xreplace(letters), s.rhs.xreplace(letters)
        free = tuple(sorted((letters.get(x, x) for x in s.free), key=str))
        statements.append(replace(s, lhs=lhs, rhs=rhs, free=free))
    scope = reading.scope.with_ranges({x: asked.scope.ranges[x] for x in letters.values()})
    return replace(reading, statements=tuple(statements), scope=scope)
