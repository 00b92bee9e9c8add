"""Random formulas in random author styles: what is read is what was meant, spacing changes nothing."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product

from sympy import Dummy, Expr, IndexedBase, Sum, Symbol, exp, log

from attngrad.proofs.read import Table
from attngrad.proofs.read.reader import ReadError, read_expression

from .exact_values import value
from .reader_notation import K, N, P, Q, S, a, alpha, b, d_k, delta, i, j, over, x, y

TABLE = Table(
    index={letter: "N" for letter in "ijlmuw"} | {"c": "d_k"},
    names={
        "x": (), "y": (), r"\alpha": "+", "N": "size", "d_k": "size", "a": ("N",), "b": ("N",),
        "P": ("N", "N"), "S": ("N", "N"),
        "Q": ("N", "d_k"), "K": ("N", "d_k"), "r": (("1-N", "N-1"),),
    },
    alias={"q": "Q", "k": "K"}, kronecker=r"\delta",
)  # fmt: skip
r = IndexedBase("r")
SUM, OPEN, PRODUCT, ATOM = range(
    4
)  # how tightly a text holds together; OPEN: a product that ends in a sum or a slash
Made = tuple[str, Expr, int]
Letters = Mapping[str, Expr]
_KINDS = (
    "atom",
    "atom",
    "atom",
    "sum",
    "product",
    "product",
    "fraction",
    "power",
    "big",
    "logarithm",
    "slash",
    "minus",
    "exponential",
    "dot",
)


@dataclass
class Outcome:
    """Counts and findings of a run."""

    right: int = 0
    refused: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    spacing: list[str] = field(default_factory=list)


class Writer:
    """Makes (LaTeX, meaning, level) of random expressions."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)

    def make(self, depth: int, letters: Letters) -> Made:
        kind = self.random.choice(_KINDS) if depth else "atom"
        return getattr(self, f"_{kind}")(depth, letters)

    def part(self, level: int, depth: int, letters: Letters) -> tuple[str, Expr]:
        """Return a part that holds together at least so tightly, bracketed if need be."""
        text, meaning, found = self.make(depth, letters)
        if found >= level:
            return text, meaning
        left, right = self.random.choice(
            [("(", ")"), (r"\left(", r"\right)"), (r"\bigl(", r"\bigr)"), ("[", "]")]
        )
        return f"{left} {text}{right}", meaning

    def _atom(self, depth: int, letters: Letters) -> Made:
        one, two = (self.random.choice(sorted(letters)) for _ in range(2))
        v, w = letters[one], letters[two]
        choices = [
            ("x", x), ("y", y), (r"\alpha", alpha), (f"a_{one}", a[v]), (f"b_{{{one}}}", b[v]),
            (f"P_{{{one}{two}}}", P[v, w]),
            (f"S_{{{one},{two}}}", S[v, w]), (rf"\delta_{{{one}{two}}}", delta(v, w)),
            (f"r_{{{one}-{two}}}", r[v - w]),
            ("d_k", d_k), (f"[{one}={two}]", delta(v, w)),
        ]  # fmt: skip
        return (*self.random.choice(choices), ATOM)

    def _sum(self, depth: int, letters: Letters) -> Made:
        (s, e), (t, f) = self.part(SUM, depth - 1, letters), self.part(OPEN, depth - 1, letters)
        return (f"{s} + {t}", e + f, SUM) if self.random.random() < 0.5 else (f"{s} - {t}", e - f, SUM)

    def _minus(self, depth: int, letters: Letters) -> Made:
        text, meaning = self.part(OPEN, depth - 1, letters)
        return f"-{text}", -meaning, SUM

    def _product(self, depth: int, letters: Letters) -> Made:
        s, e = self.part(PRODUCT, depth - 1, letters)
        t, f, level = self.make(depth - 1, letters)
        if level == SUM:
            t = f"({t})"
        sign = self.random.choice([" ", r"\,", r" \cdot ", " "])
        return s + sign + t, e * f, level if level in (OPEN, PRODUCT) else PRODUCT

    def _fraction(self, depth: int, letters: Letters) -> Made:
        (s, e), (t, f) = self.part(SUM, depth - 1, letters), self.part(ATOM, depth - 1, letters)
        return rf"\frac{{{s}}}{{{t}}}", e / f, ATOM

    def _slash(self, depth: int, letters: Letters) -> Made:
        (s, e), (t, f) = self.part(PRODUCT, depth - 1, letters), self.part(ATOM, depth - 1, letters)
        return f"{s}/{t}", e / f, OPEN

    def _power(self, depth: int, letters: Letters) -> Made:
        text, meaning = (
            self.part(ATOM + 1, depth - 1, letters)
            if self.random.random() < 0.5
            else self._atom(0, letters)[:2]
        )
        power = self.random.choice([2, 3])
        return text + self.random.choice([f"^{power}", f"^{{{power}}}"]), meaning**power, ATOM

    def _exponential(self, depth: int, letters: Letters) -> Made:
        text, meaning = self.part(SUM, depth - 1, letters)
        return f"e^{{{text}}}", exp(meaning), ATOM

    def _logarithm(self, depth: int, letters: Letters) -> Made:
        text, meaning = self.part(SUM, depth - 1, letters)
        return rf"\log\left({text}\right)", log(meaning), ATOM

    def _dot(self, depth: int, letters: Letters) -> Made:
        return r"(q_i \cdot k_j)", over(lambda c: Q[letters["i"], c] * K[letters["j"], c], d_k), ATOM

    def _big(self, depth: int, letters: Letters) -> Made:
        unused = [letter for letter in "lmuw" if letter not in letters]
        if not unused:
            return "x", x, ATOM
        name = self.random.choice(unused)
        bound = Dummy(name, integer=True)
        text, meaning = self.part(OPEN, depth - 1, {**letters, name: bound})
        head = self.random.choice([r"\sum_%s ", r"\sum_{%s} ", r"\sum_{%s=1}^{N} ", r"\sum_{%s=1}^N "]) % name
        return head + text, Sum(meaning, (bound, 1, N)), OPEN


def respaced(chooser: random.Random, text: str) -> str:
    """Return the text with other spaces and other sizes of brackets."""
    text = re.sub(r"\\,", " ", re.sub(r"\\(left|right|bigl|bigr)", "", text))
    return re.sub(r"(?<![A-Za-z]) +| +(?![A-Za-z])", lambda _: chooser.choice(["", "  ", r"\;"]), text)


def run(cases: int, seed: int = 0) -> Outcome:
    """Compare what is read with what was meant, on exact rationals at every value of the letters."""
    writer, out = Writer(seed), Outcome()
    for _ in range(cases):
        text, meaning, _level = writer.make(writer.random.randint(1, 4), {"i": i, "j": j})
        other = respaced(writer.random, text)
        try:
            found = read_expression(text, TABLE).expression
        except ReadError as error:
            out.refused.append(f"{text}: {error.message}")
            continue
        if _differ(found, meaning):
            out.wrong.append(f"{text} read as {found}")
            continue
        out.right += 1
        try:
            if _differ(read_expression(other, TABLE).expression, found):
                out.spacing.append(f"{text} and {other}")
        except ReadError as error:
            out.spacing.append(f"{other}: {error.message}")
    return out


def _differ(left: Expr, right: Expr) -> bool:
    sizes: dict[Symbol, int] = {N: 2, d_k: 2}
    try:
        return any(
            value(left, {**sizes, i: p, j: q}) != value(right, {**sizes, i: p, j: q})
            for p, q in product((1, 2), repeat=2)
        )
    except ZeroDivisionError:
        return False
