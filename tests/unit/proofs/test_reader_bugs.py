"""Bugs planted in the reader: each must be caught by the traps, else the traps are too few."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from sympy import KroneckerDelta, Sum

from attngrad.proofs.read import (
    differentials,
    indices,
    lexer,
    lookalikes,
    meaning,
    products,
    reader,
    shapes,
    spelling,
    summation,
)
from attngrad.proofs.read.shapes import Value
from attngrad.proofs.sums import Partial

from .reader_checks import failures
from .test_reader_traps import SETS

Plant = Callable[[pytest.MonkeyPatch], None]


def no_range_check(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(indices.IndexReader, "require_within", lambda self, found, axis, at: None)


def backward_limits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(indices.IndexReader, "require_forward", lambda self, low, high, at: None)


def boxes_group(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(products.Products, "require_group", lambda self, tree: None)


def names_are_applied(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(products.Products, "_check_application", lambda self, head, bracket: None)


def transpose_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(shapes, "transpose", lambda a: Value(a.columns, a.rows, a.entry, a.square))


def product_transposed(patch: pytest.MonkeyPatch) -> None:
    def product(a: Value, b: Value) -> Value:
        found = right(a, b)
        both = found.rows is not None and found.columns is not None
        return (
            Value(found.rows, found.columns, lambda i, j: found.entry(j, i), found.square) if both else found
        )

    right = shapes.product
    patch.setattr(shapes, "product", product)


def shapes_always_fit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(shapes, "unify", lambda a, b, where: b if a is shapes.UNKNOWN or a is None else a)


def literal_transposed(patch: pytest.MonkeyPatch) -> None:
    right = shapes.literal
    patch.setattr(
        shapes,
        "literal",
        lambda cells: right(list(zip(*cells, strict=True)) if len(cells) == len(cells[0]) else cells),
    )


def identity_not_square(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(shapes, "identity", lambda: Value(shapes.UNKNOWN, shapes.UNKNOWN, KroneckerDelta))


def derivative_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(differentials, "_whole_number", lambda tree: 1)


def derivative_order_turned(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(differentials, "reversed", list, raising=False)


def derivative_swapped(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        differentials, "Partial", lambda f, x: Partial(x, f) if f.is_Symbol or f.is_Indexed else Partial(f, x)
    )


def shadowing(patch: pytest.MonkeyPatch) -> None:
    right = indices.IndexReader.__init__
    patch.setattr(
        indices.IndexReader, "__init__", lambda self, text, table, quote: right(self, text, table, True)
    )


def not_equal_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        summation.Summation,
        "_all_but",
        lambda self, letter, without, body, bindings: self._over_letters([letter], body, bindings),
    )


def limits_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(summation, "Sum", lambda e, *limits: Sum(e, *[(k, 1, high) for k, _, high in limits]))


def numbers_anywhere(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lexer, "ENDS_FACTOR", frozenset())


def gaps_multiply(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lexer, "_GAP", re.compile(r"(?!)"))
    patch.setattr(lexer, "_SKIP", re.compile(lexer._SKIP.pattern + r"|\\q?quad(?![A-Za-z])", re.X | re.A))


def lines_join(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lexer, "line_start", lambda line: "")
    patch.setattr(
        lexer,
        "STARTS_CONTINUATION",
        frozenset(["NAME", "EQUALS", "LETTER", "_PLUS", "_MINUS", "_MATRIX_BEGIN"]),
    )


def unicode_spaces(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lexer, "_SKIP", re.compile(lexer._SKIP.pattern, re.X))


def letters_without_argument(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lexer, "_DIGIT", lexer._NUMBER)


def relation_turned(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(reader.RELATIONS, r"\ge", "<=")


def chain_direction(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reader._Reader, "_check_direction", lambda self, sides: None)


def infinities_pass(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(meaning, "UNEVALUABLE", (Sum,))
    patch.setattr(reader, "UNEVALUABLE", (Sum,))


def kronecker_ranges(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        meaning.Evaluator,
        "_kronecker_entry",
        lambda self, found, tree, bindings: shapes.scalar(KroneckerDelta(*(found + found)[:2])),
    )


def norm_of_anything(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        meaning.Evaluator,
        "_norm",
        lambda self, tree, bindings: shapes.scalar(self._norm_of(tree.children[0], bindings)),
    )


PLANTED = [
    no_range_check, backward_limits, boxes_group, names_are_applied, transpose_forgotten,
    product_transposed, shapes_always_fit,
    literal_transposed, identity_not_square, derivative_once, derivative_order_turned, derivative_swapped,
    shadowing,
    not_equal_ignored, limits_ignored, numbers_anywhere, gaps_multiply, lines_join, unicode_spaces,
    letters_without_argument,
    relation_turned, chain_direction, infinities_pass, kronecker_ranges, norm_of_anything,
]  # fmt: skip


def first_failure() -> str:
    """Return the first trap that is not read as meant; a crash is a failure too."""
    for _, cases, table in SETS:
        for case in cases:
            try:
                found = failures([case], table)
            except Exception as crash:
                return f"{case[0]}: {crash!r}"
            if found:
                return found[0]
    return ""


@pytest.mark.parametrize("plant", PLANTED, ids=[p.__name__ for p in PLANTED])
def test_the_traps_catch(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert first_failure()


def test_without_a_bug_nothing_fails() -> None:
    assert first_failure() == ""


def test_look_alikes_are_seen_by_their_own_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lookalikes.pairs(["v", r"\nu"])
    monkeypatch.setattr(lookalikes, "_TWINS", {})
    assert not lookalikes.pairs(["v", r"\nu"])
    assert spelling.canonical("d_k") == spelling.canonical("d_{k}")
