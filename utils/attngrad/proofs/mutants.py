"""Small errors planted in a formula: in its string, as a typing error, and in the object that was read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from sympy import Add, Expr, Indexed, Integer, KroneckerDelta, Mul, Pow, Sum

from .read import Reading, Table

_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[A-Za-z]|\d+|\s+|.", re.S)
_PROSE = re.compile(
    r"\\(?:text|textrm|tag|label|begin|end|mathrm|operatorname|mathbf|mathcal|bar|hat)\s*\{[^{}]*\}(?:\{[clr]+\})?"
)
_TEXT = re.compile(r"\\text\s*\{[^{}]*\}")
_SCRIPT = r"(?:_\{[^{}]*\}|_\\?[A-Za-z0-9]+?|\^\{[^{}]*\}|\^\\?[A-Za-z0-9])*"
_SUM = re.compile(r"\\sum\s*_\s*(?:\{[^{}]*\}|\\?\w)\s*(?:\^\s*(?:\{[^{}]*\}|\w))?")
_FRACTION = re.compile(r"\\[td]?frac\s*\{((?:[^{}]|\{[^{}]*\})*)\}\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_BRACKET = re.compile(r"(?:\\(?:left|[bB]igg?l?)\s*)?\(|(?:\\(?:right|[bB]igg?r?)\s*)?\)")
_FLIP = {"+": "-", "-": "+", r"\le": r"\ge", r"\ge": r"\le", r"\leq": r"\geq", r"\geq": r"\leq"}


def of_string(tex: str, table: Table) -> list[tuple[str, str]]:
    """Return (kind, text) of every small error of a formula, without repetition."""
    found: dict[str, str] = {}
    for maker in (_signs, _letters, _swaps, _names, _numbers, _sums, _fractions, _brackets, _marks):
        for kind, mutant in maker(tex, table):
            if mutant != tex and _TEXT.findall(mutant) == _TEXT.findall(tex):
                found.setdefault(mutant, kind)
    return [(kind, mutant) for mutant, kind in found.items()]


def _visible(tex: str) -> list[tuple[int, int, str]]:
    """Return (start, end, token) of the mathematics, prose and environment names left out."""
    hidden = [m.span() for m in _PROSE.finditer(tex)]
    spans = [(m.start(), m.end(), m[0]) for m in _TOKEN.finditer(tex)]
    return [s for s in spans if not any(a <= s[0] < b for a, b in hidden)]


def _put(tex: str, start: int, end: int, new: str) -> str:
    return tex[:start] + new + tex[end:]


def _signs(tex: str, table: Table) -> Iterator[tuple[str, str]]:
    for start, end, token in _visible(tex):
        if token in _FLIP:
            yield "sign", _put(tex, start, end, _FLIP[token])
        if token == "=" and not re.match(r"\s*0(?!\.)", tex[end:]):
            yield "sign", _put(tex, start, end, "= -")


def _letters(tex: str, table: Table) -> Iterator[tuple[str, str]]:
    letters = sorted(x for x in table.index if len(x) == 1)
    for start, end, token in _visible(tex):
        if token in letters and _in_script(tex, start):
            others = [x for x in letters if x != token]
            at = letters.index(token) % max(len(others), 1)
            for other in (others[at:] + others[:at])[:3]:
                yield "letter", _put(tex, start, end, other)


def _in_script(tex: str, at: int) -> bool:
    """Say whether this place is inside a sub- or superscript."""
    before = tex[:at].rstrip()
    if before.endswith(("_", "^")):
        return True
    depth = 0
    for k in range(at - 1, -1, -1):
        depth += (tex[k] == "}") - (tex[k] == "{")
        if depth < 0:
            return tex[:k].rstrip().endswith(("_", "^"))
    return False


def _swaps(tex: str, table: Table) -> Iterator[tuple[str, str]]:
    for m in re.finditer(r"_\{([a-z])\s*(,?)\s*([a-z])\}", tex):
        yield "swap", _put(tex, m.start(), m.end(), f"_{{{m[3]}{m[2]}{m[1]}}}")


def _names(tex: str, table: Table) -> Iterator[tuple[str, str]]:
    """Drop a factor with its scripts; put another name of the same shape in its place."""
    names = sorted((n for n, axes in table.names.items() if axes != "size"), key=len, reverse=True)
    for name in [*names, *([table.kronecker] if table.kronecker else [])]:
        for m in re.finditer(rf"(?<![A-Za-z\\]){re.escape(name)}(?![A-Za-z])", tex):
            scripts = re.match(_SCRIPT, tex[m.end() :])
            yield "drop", _put(tex, m.start(), m.end() + scripts.end(), " ")
            alike = [n for n in names if n != name and name in names and table.axes(n) == table.axes(name)]
            for other in alike[:2]:
                yield "name", _put(tex, m.start(), m.end(), other)


def _numbers(tex: str, table: Table) -> Iterator[tuple[str, str]]:
    for start, end, token in _visible(tex):
        if token.isdigit():
            yield "number", _put(tex, start, end, str(int(token) + 1))
            yield "number", _put(tex, start, end, "7" if token != "7" else "3")


def _sums(tex: str, table: Table) -> Iterator[tuple[str, str]]:
    for m in _SUM.finditer(tex):
        yield "sum dropped", _put(tex, m.start(), m.end(), " ")


def _fractions(tex: str, table: Table) -> Iterator[tuple[str, str]]:
    for m in _FRACTION.finditer(tex):
        yield "fraction dropped", _put(tex, m.start(), m.end(), " ")
        if r"\partial" not in m[0]:
            yield "fraction turned", _put(tex, m.start(), m.end(), rf"\frac{{{m[2]}}}{{{m[1]}}}")
            yield "denominator dropped", _put(tex, m.start(), m.end(), f"({m[1]})")


def _brackets(tex: str, table: Table) -> Iterator[tuple[str, str]]:
    opened: list[re.Match] = []
    for m in _BRACKET.finditer(tex):
        if m[0].endswith("("):
            opened.append(m)
        elif opened:
            a = opened.pop()
            yield "bracket dropped", tex[: a.start()] + " " + tex[a.end() : m.start()] + " " + tex[m.end() :]


def _marks(tex: str, table: Table) -> Iterator[tuple[str, str]]:
    for pattern, new, kind in (
        (r"\^\s*(?:\{\s*\\top\s*\}|\\top)", " ", "transpose dropped"),
        (r"\\odot(?![A-Za-z])", " ", "product"),
        (r"\\sqrt\s*\{([^{}]*)\}", r"\1", "root dropped"),
        (r"\^\s*\{?\s*2\s*\}?", " ", "square dropped"),
    ):
        for m in re.finditer(pattern, tex):
            yield kind, _put(tex, m.start(), m.end(), m.expand(new))


def of_reading(reading: Reading) -> Iterator[tuple[str, Reading]]:
    """Yield (kind, reading) of every small error of the right sides that were read."""
    for k, statement in enumerate(reading.statements):
        seen = {statement.rhs}
        for kind, rhs in _of_expression(statement.rhs):
            if rhs not in seen:
                seen.add(rhs)
                changed = replace(statement, rhs=rhs)
                yield (
                    kind,
                    replace(
                        reading, statements=(*reading.statements[:k], changed, *reading.statements[k + 1 :])
                    ),
                )


def _of_expression(e: Expr) -> Iterator[tuple[str, Expr]]:
    yield "negated", -e
    for part in e.atoms(Add, Mul, Pow, Indexed, KroneckerDelta, Sum):
        for kind, other in _of_part(part):
            yield kind, e.xreplace({part: other})


def _of_part(part: Expr) -> Iterator[tuple[str, Expr]]:
    if isinstance(part, Add):
        for term in part.args:
            yield "term dropped", part - term
            yield "term's sign", part - 2 * term
    elif isinstance(part, Mul):
        for factor in part.args:
            if not factor.is_Indexed:
                yield "factor dropped", Mul(*[f for f in part.args if f is not factor])
    elif isinstance(part, Pow):
        yield "power dropped", Integer(1)
        yield "power", part.base ** (part.exp + 1)
    elif isinstance(part, KroneckerDelta):
        yield "delta dropped", Integer(1)
        yield "delta emptied", Integer(0)
    elif isinstance(part, Sum):
        yield "sum doubled", 2 * part
    elif len(part.indices) == 2 and part.indices[0] != part.indices[1]:
        yield "indices swapped", part.base[part.indices[::-1]]
