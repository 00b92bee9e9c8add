"""Every known way to misread a formula: read as meant, or refused with the reason."""

from __future__ import annotations

import pytest

from attngrad.proofs.read import Table

from . import reader_traps, reader_traps_shapes
from .reader_checks import Want, wrong
from .reader_notation import PAIR, PLAIN_D, ROW, TABLE

SETS: list[tuple[str, list, Table]] = [
    ("expressions", reader_traps.EXPRESSIONS, TABLE),
    ("differentials", reader_traps.DIFFERENTIALS, PLAIN_D),
    ("statements", reader_traps.STATEMENTS, TABLE),
    ("relations", reader_traps_shapes.RELATIONS, ROW),
    ("matrices", reader_traps_shapes.MATRICES, PAIR),
    ("symbolic size", reader_traps_shapes.SYMBOLIC_SIZE, ROW),
    ("norms", reader_traps_shapes.NORMS, ROW),
    ("identity", reader_traps_shapes.IDENTITY, ROW),
    ("derivatives", reader_traps_shapes.DERIVATIVES, ROW),
    ("names", reader_traps_shapes.NAMES, ROW),
    ("wrappers", reader_traps_shapes.WRAPPERS, ROW),
]
CASES = [
    pytest.param(text, want, table, id=f"{name}: {text}")
    for name, cases, table in SETS
    for text, want in cases
]


@pytest.mark.parametrize("text, want, table", CASES)
def test_trap(text: str, want: Want, table: Table) -> None:
    assert wrong(text, want, table) == ""


def test_there_are_enough_traps_of_both_kinds() -> None:
    refused = sum("Refused" in type(want).__name__ for _, cases, _ in SETS for _, want in cases)
    assert refused >= 200
    assert len(CASES) - refused >= 200


def test_a_wrong_meaning_and_a_wrong_reason_are_noticed() -> None:
    from .reader_notation import Refused, x, y

    assert wrong("x - y", y - x, TABLE)
    assert wrong("x2", Refused("some other reason"), TABLE)
    assert wrong("x2", 2 * x, TABLE)
    assert wrong("2x", Refused("a number may only come first"), TABLE)
