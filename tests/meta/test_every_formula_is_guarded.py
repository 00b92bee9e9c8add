"""A sign, a factor, a number or an index changed in any labelled formula does not go unnoticed.

Each change is refused by the reader, or gives the formula another mark, so that the ledger page, which
`make test` compares, is stale. Changes that read as the same object, such as the order of the indices of a
Kronecker delta, are few, and only letters are among them.
"""

import pytest

from attngrad.proofs.claim import Claim, Wrong
from attngrad.proofs.examine import mark, page_formulas
from attngrad.proofs.ledger import chapters
from attngrad.proofs.mutants import of_string
from attngrad.proofs.read import ReadError, read

BOOKS = [(book, page_formulas(book)) for book in chapters()]
CASES = [(book, formulas, claim) for book, formulas in BOOKS for claim in book.claims]
HARMLESS = {"letter", "swap", "name", "bracket dropped", "number"}


def unnoticed(book, formulas, claim: Claim) -> list[tuple[str, str]]:
    """Return the changes of a formula that read as the same object."""
    tex, table, quote = formulas[claim.label].tex, book.table_of(claim), isinstance(claim, Wrong)
    original, out = mark(tex, read(tex, table, quote=quote)), []
    for kind, changed in of_string(tex, book.table):
        try:
            same = mark(changed, read(changed, table, quote=quote)) == original
        except ReadError:
            continue
        if same:
            out.append((kind, changed))
    return out


@pytest.mark.parametrize(("book", "formulas", "claim"), CASES, ids=[c.label for _, _, c in CASES])
def test_changes_are_noticed(book, formulas, claim: Claim) -> None:
    tex = formulas[claim.label].tex
    found = unnoticed(book, formulas, claim)
    assert {kind for kind, _ in found} <= HARMLESS, found
    assert len(found) <= len(of_string(tex, book.table)) // 4, found


def test_there_are_changes_of_every_kind() -> None:
    texts = [(formulas[claim.label].tex, book.table) for book, formulas, claim in CASES]
    kinds = {kind for tex, table in texts for kind, _ in of_string(tex, table)}
    assert {"sign", "letter", "swap", "drop", "name", "number", "sum dropped", "square dropped"} <= kinds
