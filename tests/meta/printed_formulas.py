"""A printed formula as an array: its last right side, evaluated in floats at every value of its letters."""

from collections.abc import Mapping
from itertools import product

import numpy as np

from attngrad.proofs.claim import Wrong
from attngrad.proofs.examine import page_formulas
from attngrad.proofs.floats import Evaluator
from attngrad.proofs.ledger import chapter
from attngrad.proofs.read import read


def printed(
    page: str, label: str, letters: str, values: Mapping[str, object], sizes: Mapping[str, int]
) -> np.ndarray:
    """Return what a display says, an axis for each of the letters; a quoted mistake is read as a quote."""
    book = chapter(page)
    tex, quote = page_formulas(book)[label].tex, isinstance(book[label], Wrong)
    reading = read(tex, book.table, quote=quote)
    evaluate = Evaluator(values, {symbol: sizes[name] for name, symbol in book.table.size.items()})
    named = {str(x): x for x in reading.scope.ranges}
    symbols = [named[letter] for letter in letters]
    spans = [range(1, sizes[axis_of(book.table.index[letter])] + 1) for letter in letters]
    out = np.empty([len(span) for span in spans])
    for at in product(*spans):
        where = tuple(k - 1 for k in at)
        out[where] = evaluate(reading.statements[-1].rhs, dict(zip(symbols, at, strict=True)))
    return out


def axis_of(axis: object) -> str:
    """Return the size that an index letter runs to."""
    if not isinstance(axis, str):
        raise ValueError(f"expected an index letter that runs from 1 to a size, got {axis!r}")
    return axis
