"""Random expressions with sums, deltas, tables, blocks and inverse sums, in a notation of their own."""

from __future__ import annotations

from random import Random
from typing import Any

from sympy import Abs, Basic, Expr, IndexedBase, Integer, KroneckerDelta, Mul, Pow, Sum, Symbol, exp

from attngrad.proofs.sums.spans import Scope

N, M = (Symbol(name, integer=True, positive=True) for name in "nm")
ROWS = [Symbol(name, integer=True) for name in ("p", "q")]
COLUMNS = [Symbol(name, integer=True) for name in ("u", "v")]
OFFSET = Symbol("rho", integer=True)
SPLIT = Symbol("r", integer=True)
BUCKET, OWN = IndexedBase("beta", integer=True), IndexedBase("gamma", integer=True)
X, Y, W, A, B, Z = map(IndexedBase, "xywABz")
BOUND = [Symbol(f"k{number}", integer=True) for number in range(8)]
SCALE, TOTAL = Symbol("c"), Symbol("t", positive=True)
AXES: dict[str, tuple[Any, Any]] = {"n": (1, N), "m": (1, M), "o": (1 - N, M - 1)}
RANGES: dict[Basic, tuple[Any, Any]] = {
    **{s: AXES["n"] for s in (*ROWS, SPLIT)},
    **{s: AXES["m"] for s in COLUMNS},
    OFFSET: AXES["o"],
    BUCKET: AXES["n"],
    OWN: AXES["n"],
}
SCOPE = Scope(RANGES)
SIZES = ((1, 2), (2, 1), (3, 2), (2, 3))

Letters = dict[str, list[Symbol]]


class Writer:
    """Writes random expressions; ``letters`` holds the index letters in reach, by axis."""

    def __init__(self, random: Random):
        self.random = random

    def expression(self, depth: int | None = None, letters: Letters | None = None) -> Expr:
        """Return a random expression."""
        depth = self.random.choice((2, 3)) if depth is None else depth
        letters = letters or {"n": list(ROWS), "m": list(COLUMNS), "o": [OFFSET]}
        kind = self.random.choices(
            ("leaf", "product", "sum", "plus", "inverse", "exp", "abs"),
            (2, 5, 5, 2, 1.2, 0.4, 0.3) if depth else (1, 0, 0, 0, 0, 0, 0),
        )[0]
        return getattr(self, "_" + kind)(depth, letters)

    def _bound(self, letters: Letters) -> Symbol:
        """Return a letter that no enclosing sum binds; sums side by side share letters."""
        taken = {s for names in letters.values() for s in names}
        return next(s for s in BOUND if s not in taken)

    def _product(self, depth: int, letters: Letters) -> Expr:
        return Mul(*[self.expression(depth - 1, letters) for _ in range(self.random.choice((2, 2, 3)))])

    def _plus(self, depth: int, letters: Letters) -> Expr:
        return self.expression(depth - 1, letters) + self.random.choice((1, -1, 2)) * self.expression(
            depth - 1, letters
        )

    def _sum(self, depth: int, letters: Letters) -> Expr:
        axis = self.random.choice(("n", "n", "m", "m", "o"))
        letter = self._bound(letters)
        inner = {a: [*names, letter] if a == axis else names for a, names in letters.items()}
        inside = Mul(
            self._leaf(0, {a: names[-2:] for a, names in inner.items()}), self.expression(depth - 1, inner)
        )
        low, high = AXES[axis]
        if axis == "n" and self.random.random() < 0.3:
            low, high = self.random.choice(((1, SPLIT), (SPLIT + 1, N)))
        return Sum(inside, (letter, low, high))

    def _inverse(self, depth: int, letters: Letters) -> Expr:
        letter = self._bound(letters)
        inner = {**letters, "n": [letter, letters["n"][-1]]}
        base = self.random.choice(
            (
                lambda: self.expression(min(depth - 1, 1), letters),
                lambda: TOTAL + self._entry(letters),
                lambda: Sum(X[letter] * B[inner["n"][-1], letter], (letter, 1, N)),
                lambda: self._entry(letters) * (self._entry(letters) + SCALE),
                lambda: Sum(self._entry(inner) * self._entry(inner), (letter, 1, N)),
                lambda: TOTAL * Sum(X[letter] * (self._entry(inner) - self._entry(letters)), (letter, 1, N)),
            )
        )()
        return Pow(base, self.random.choice((-1, -1, -2)), evaluate=False)

    def _exp(self, depth: int, letters: Letters) -> Expr:
        return exp(self._entry(letters) - self.random.choice((0, 1)) * self._entry(letters), evaluate=False)

    def _abs(self, depth: int, letters: Letters) -> Expr:
        return Abs(self._row(letters) - self._row(letters), evaluate=False)

    def _leaf(self, depth: int, letters: Letters) -> Expr:
        pick = self.random.random()
        if pick < 0.6:
            return self._entry(letters)
        if pick < 0.88:
            return self._delta(letters)
        return self.random.choice((SCALE, TOTAL, Integer(2), self._row(letters), N, Y[1]))

    def _row(self, letters: Letters) -> Expr:
        if self.random.random() < 0.12:
            return BUCKET[self._column(letters)]
        return self.random.choice(letters["n"])

    def _column(self, letters: Letters) -> Expr:
        return self.random.choice(letters["m"])

    def _entry(self, letters: Letters) -> Expr:
        row, column = self._row(letters), self._column(letters)
        return self.random.choice(
            (
                lambda: X[row],
                lambda: Y[row],
                lambda: W[column],
                lambda: A[row, column],
                lambda: B[row, self._row(letters)],
                lambda: Z[column - row],
                lambda: Z[self.random.choice(letters["o"])],
            )
        )()

    def _delta(self, letters: Letters) -> Expr:
        row, column = self._row(letters), self._column(letters)
        pair = self.random.choice(
            (
                lambda: (row, self._row(letters)),
                lambda: (column, self._column(letters)),
                lambda: (column - row, self.random.choice(letters["o"])),
                lambda: (row + self.random.choice((-1, 1)), self._row(letters)),
                lambda: (row, column),
                lambda: (BUCKET[column], row),
                lambda: (OWN[row], self.random.choice((row, self._row(letters)))),
            )
        )()
        return KroneckerDelta(*pair, evaluate=False)
