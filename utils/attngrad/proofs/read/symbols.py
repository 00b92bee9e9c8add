"""The macros, signs and environments that the reader knows, as data."""

from __future__ import annotations

from sympy import S

LAYOUTS = frozenset("aligned align align* split gathered gather gather* equation equation*".split())
COLOURS = frozenset("red blue green orange purple teal gray".split())
MATRICES = frozenset(("pmatrix", "bmatrix"))
TOKENS = {
    r"\frac": "_FRAC", r"\tfrac": "_FRAC", r"\dfrac": "_FRAC", r"\sqrt": "_SQRT", r"\sum": "_SUM",
    r"\partial": "PARTIAL", r"\top": "TOP", r"\intercal": "TOP", r"\cdot": "DOT", r"\odot": "HADAMARD",
    r"\ne": "NOT_EQUAL", r"\neq": "NOT_EQUAL", r"\langle": "_LANGLE", r"\rangle": "_RANGLE",
    r"\exp": "FUNCTION", r"\log": "FUNCTION", r"\ln": "FUNCTION",
    r"\lvert": "_BAR_OPEN", r"\rvert": "_BAR_CLOSE",
    r"\lVert": "_NORM_OPEN", r"\rVert": "_NORM_CLOSE", r"\underbrace": "_BRACE", r"\overbrace": "_BRACE",
    r"\boxed": "_BOX", r"\{": "_LCURLY", r"\}": "_RCURLY", r"\le": "RELATION", r"\leq": "RELATION",
    r"\ge": "RELATION", r"\geq": "RELATION", r"\lt": "RELATION", r"\gt": "RELATION", r"\approx": "RELATION",
    "(": "_LP", ")": "_RP", "[": "_LS", "]": "_RS", "{": "_LB", "}": "_RB", "+": "_PLUS", "-": "_MINUS",
    "/": "_SLASH", "=": "EQUALS", "<": "RELATION", ">": "RELATION", ",": "_COMMA", "_": "_SUB", "^": "_SUP",
}  # fmt: skip
RELATIONS = {
    "=": "=", "<": "<", ">": ">", r"\lt": "<", r"\gt": ">", r"\le": "<=", r"\leq": "<=", r"\ge": ">=",
    r"\geq": ">=", r"\approx": "~",
}  # fmt: skip
ENDS_FACTOR = frozenset(
    [
        *"_RP _RS _RB _RCURLY _RANGLE _BAR_CLOSE _NORM_CLOSE _MATRIX_END".split(),
        *"NAME LETTER NUMBER ONE IDENTITY KRONECKER TOP".split(),
    ]
)
STARTS_CONTINUATION = frozenset("EQUALS RELATION _PLUS _MINUS TEXT _RB _RP _RS".split())
UNEVALUABLE = (S.ComplexInfinity, S.NaN, S.Infinity, S.NegativeInfinity, S.ImaginaryUnit)
