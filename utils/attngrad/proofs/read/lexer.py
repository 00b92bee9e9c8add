r"""LaTeX to tokens, as TeX sees it.

What prints no mathematics is dropped: spaces, sizes of brackets, alignment, tags, outer wrappers.
The longest declared name is found first, so ``d_k`` and ``\mathrm{d}S`` are one token each. An
argument that TeX takes without braces (``_i``, ``^2``, ``\frac12``) gets them. New lines become
separators of statements, or nothing where a line continues the one above.
"""

from __future__ import annotations

import re

from lark import Token

from .errors import ReadError, unknown
from .lookalikes import character
from .spelling import is_differential, pattern, units
from .symbols import COLOURS, ENDS_FACTOR, LAYOUTS, MATRICES, STARTS_CONTINUATION, TOKENS
from .table import Table

_WORD_END = r"(?![A-Za-z])"
_SILENT = r"(?:\s|&|\\(?:nonumber|notag)(?![A-Za-z])|\\(?:tag|label)\s*\{[^{}]*\}|\\q?quad(?![A-Za-z]))*"
_ENDING = r"\\(?:text|textrm|textit|mbox|intertext|end)(?![A-Za-z])"
_LINE_END = rf"(?:{_SILENT}(?:{_ENDING}|\\\\|$))"
_QUADS = r"(?:\s|\\q?quad(?![A-Za-z]))*"
_BRACKET = r"(?=\s*(?:[()\[\]|]|\\[{}|]|\\[lr]?[vV]ert(?![A-Za-z])|\\[lr]angle(?![A-Za-z])))"
_SKIP = re.compile(
    rf"""\s+|~|\\[,;:> ]
    |\\q?quad{_WORD_END}(?={_QUADS}[.,;]?\s*(?:[+=<>-]|\\(?:leq?|geq?|approx){_WORD_END}|{_LINE_END}))
    |\\(?:left|right|[bB]igg?[lrm]?){_BRACKET}
    |\\(?:displaystyle|textstyle|limits|nonumber|notag){_WORD_END}
    |\\(?:tag\s*\{{\s*[\d.]+\s*\}}|label\s*\{{[^{{}}]*\}})|[.,;](?={_QUADS}{_LINE_END})""",
    re.X | re.A,
)
_SPACE = re.compile(r"\s+", re.A)
_ENVIRONMENT = re.compile(r"\\(begin|end)\s*\{\s*([A-Za-z]+\*?)\s*\}")
_NEW_LINE = re.compile(r"\\\\\*?(?:\s*\[\s*\d*\.?\d+\s*(?:pt|em|ex|mm|cm)\s*\])?", re.A)
_SEPARATOR = re.compile(rf"[,;]\s*(?:\\q?quad{_WORD_END}\s*)+", re.A)
_GAP = re.compile(rf"\\q?quad{_WORD_END}")
_LAST_COLUMN = re.compile(rf"[&\s]*(?:\\q?quad\s*)*(?:{_LINE_END})", re.A)
_ONE = re.compile(r"\\(?:mathbf|mathbb|boldsymbol|mathbbm)\s*(?:\{\s*1\s*\}|1)")
_INDICATOR = re.compile(r"\s*(?:\\(?:left|[bB]igg?l?)\s*)?\[", re.A)
_OPERATOR = re.compile(r"\\(?:operatorname|mathrm|text)\s*\{\s*(diag|tr|rowsum)\s*\}")
_TEXT = re.compile(r"\\(?:text|textrm|textit|mbox|intertext)\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_WORDS = re.compile(r"[A-Za-z,.;:'\s]*", re.A)
_REMARK = re.compile(r"\s*\((?:[A-Za-z,.;:'\s-]|\$[^$]*\$)*\)\s*[.,;]?\s*", re.A)
_APART = re.compile(r"(?:&|\\q?quad|[,;])\s*\Z", re.A)
_COLOUR = re.compile(r"\\textcolor\s*\{([^{}]*)\}")
_NAMED = re.compile(r"\\(?:operatorname|mathrm|mathcal|mathbf|mathbb|hat|bar|tilde|vec)\s*\{[^{}]*\}")
_MACRO = re.compile(r"\\[A-Za-z]+|\\.", re.S)
_NUMBER, _DIGIT = re.compile(r"\d+(?:\.\d+)?", re.A), re.compile(r"\d", re.A)
_EXPONENTIAL = re.compile(r"e(?=\s*\^)", re.A)
_OUTER = [(re.compile(rf"\A\s*{a}", re.A), re.compile(rf"{b}\s*\Z", re.A)) for a, b in
          ((r"\\\[", r"\\\]"), (r"\\\(", r"\\\)"), (r"\$\$", r"\$\$"), (r"\$", r"\$"))]  # fmt: skip


def tokens(text: str, table: Table) -> list[Token]:
    """Return the tokens of a formula.

    Raises
    ------
    ReadError
        At the first thing that is no part of the notation.
    """
    return _Lexer(text, table).run()


def line_start(line: str) -> str:
    """Return what stands before the first alignment mark of a line, layout dropped."""
    return _SKIP.sub("", _ENVIRONMENT.sub("", line.split("&")[0])).strip()


def without_wrappers(text: str) -> str:
    r"""Blank out ``\[ \]``, ``\( \)`` and dollar signs around a formula; positions stay."""
    for opening, closing in _OUTER:
        start, end = opening.search(text), closing.search(text)
        if start and end and start.end() <= end.start():
            inside = text[start.end() : end.start()]
            return " " * start.end() + without_wrappers(inside) + " " * (len(text) - end.start())
    return text


class _Lexer:
    """One pass over one text; the state says what TeX would expect next."""

    def __init__(self, text: str, table: Table):
        self.source, self.text, self.table = text, without_wrappers(text), table
        self.at = 0
        self.out: list[Token] = []
        self.braces: list[str] = []  # the role of each open brace group
        self.expects = ""  # the role of the argument that TeX takes next, or nothing
        self.environments: list[tuple[str, int]] = []
        self.bars = self.norms = False
        self.continues = False  # the line has nothing before its alignment mark
        self.columns = 0

    def error(self, message: str, at: int | None = None) -> ReadError:
        return ReadError(message, self.source, self.at if at is None else at)

    def match(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        return expression.match(self.text, self.at)

    def run(self) -> list[Token]:
        while self.at < len(self.text):
            if not self._layout():
                self._emit(*self._symbol())
        if self.environments:
            name, start = self.environments[-1]
            raise self.error(rf"\begin{{{name}}} has no \end{{{name}}}", start)
        return self.out

    # --- layout ------------------------------------------------------------------------------

    def _layout(self) -> bool:
        """Step over what prints no mathematics; say whether there was any."""
        skipped = self.match(_SPACE if self.expects else _SKIP)
        if skipped:
            self.at = skipped.end()
            return True
        environment = self.match(_ENVIRONMENT)
        if environment:
            self._environment(environment)
            return True
        if self.text[self.at] == "&":
            self._column()
            return True
        new_line = self.match(_NEW_LINE)
        if new_line:
            self._new_line(new_line)
            return True
        separator = self.match(_SEPARATOR)
        if separator:
            self._put("_SEPARATOR", separator[0], self.at)
            self.at = separator.end()
            return True
        if self.match(_GAP):
            raise self.error(r"a gap between two factors: a comma before \quad separates statements")
        return False

    def _in_matrix(self) -> bool:
        return bool(self.environments) and self.environments[-1][0] in MATRICES

    def _environment(self, m: re.Match[str]) -> None:
        word, name = m[1], m[2]
        if name not in LAYOUTS | MATRICES:
            raise self.error(
                f"the environment {name} is not read; read are {', '.join(sorted(LAYOUTS | MATRICES))}"
            )
        if word == "begin":
            self.environments.append((name, self.at))
        elif not self.environments or self.environments.pop()[0] != name:
            raise self.error(rf"\end{{{name}}} closes nothing that is open here")
        if name in MATRICES:
            self._put("_MATRIX_BEGIN" if word == "begin" else "_MATRIX_END", m[0], self.at)
            self.continues = False
        self.at = m.end()

    def _column(self) -> None:
        if self._in_matrix():
            self._put("_CELL", "&", self.at)
        else:
            self.columns += 1
            if self.columns > 1 and not _LAST_COLUMN.match(self.text, self.at + 1):
                raise self.error("a second column on one line: separate statements by a new line")
        self.at += 1

    def _new_line(self, m: re.Match[str]) -> None:
        if self._in_matrix():
            self._put("_ROW", m[0], self.at)
        else:
            self.columns = 0
            head = line_start(self.text[m.end() :].split(r"\\")[0])
            relation = re.match(r"[=<>]|\\(?:leq?|geq?|lt|gt|approx)(?![A-Za-z])", head)
            if head and not relation:
                self._put("_SEPARATOR", m[0], self.at)
            else:
                if self.text[: self.at].rstrip().endswith((",", ";", ".")):
                    raise self.error("a statement that goes on in the next line does not end in punctuation")
                self.continues = True
        self.at = m.end()

    # --- symbols -----------------------------------------------------------------------------

    def _symbol(self) -> tuple[str, str, int]:
        """Return type, value and end of the token that starts here."""
        for kind, expression in (("OPERATOR", _OPERATOR), ("TEXT", _TEXT)):
            m = self.match(expression)
            if m:
                if kind == "TEXT":
                    self._require_remark(m[1])
                return kind, m[1], m.end()
        m = self.match(_ONE)
        if m:
            return "_INDICATOR" if _INDICATOR.match(self.text, m.end()) else "ONE", "1", m.end()
        return self._name() or self._macro() or self._plain()

    def _require_remark(self, words: str) -> None:
        """Refuse text that could be taken for mathematics: it is printed, and it is not read.

        A label of a brace has words only. A reason stands apart (behind ``&&``, a comma or a
        ``\\quad``), in parentheses, and may quote formulas in dollar signs.
        """
        if self.braces:
            if not _WORDS.fullmatch(words):
                raise self.error(r"the \text of a brace holds words only: what it says is not read")
            return
        if not _REMARK.fullmatch(words):
            raise self.error(r"a reason is words in parentheses: what \text says is not read")
        if not _APART.search(self.text[: self.at]):
            raise self.error(r"mathematics before a \text: a reason stands behind && or \quad")

    def _name(self) -> tuple[str, str, int] | None:
        table = self.table
        expression, groups = table.token_patterns if self.expects else table.patterns
        m = self.match(expression)
        if m is None:
            return None
        name = groups[m.lastgroup]
        plain_d = self.text[self.at] == "d" and "d" in table.spellings
        if plain_d and not self.expects and (name == "d" or is_differential(name)):
            self._refuse_glued()
        return table.kind(name), name, m.end()

    def _refuse_glued(self) -> None:
        """Refuse ``dS`` where both dS and d times S are declared: they print alike."""
        at = self.at + 1
        while (m := _SKIP.match(self.text, at)) is not None:
            at = m.end()
        for name in self.table.spellings:
            if is_differential(name) and re.compile(pattern("".join(units(name)[1:]))).match(self.text, at):
                rest = "".join(units(name)[1:])
                raise self.error(
                    f"ambiguous juxtaposition: {name} is one name, and d times {rest} prints the same; "
                    rf"write \mathrm{{d}}{rest} or {rest}\,d"
                )

    def _macro(self) -> tuple[str, str, int] | None:
        m = self.match(_COLOUR)
        if m and m[1].strip() not in COLOURS:
            raise self.error(f"the colour {m[1]} may hide a factor; read are {', '.join(sorted(COLOURS))}")
        if m:
            return "_BOX", m[0], m.end()
        m = self.match(_MACRO)
        if m is None:
            return None
        if m[0] in (r"\|", r"\Vert"):
            self.norms = not self.norms
            return "_NORM_OPEN" if self.norms else "_NORM_CLOSE", m[0], m.end()
        if m[0] not in TOKENS:
            named = self.match(_NAMED)
            word = named[0] if named else m[0]
            raise self.error(unknown(word, self.table.spellings, "name" if named else "macro"))
        return TOKENS[m[0]], m[0], m.end()

    def _plain(self) -> tuple[str, str, int]:
        m = self.match(_DIGIT if self.expects else _NUMBER)
        if m:
            return "NUMBER", m[0], m.end()
        char = self.text[self.at]
        if self.match(_EXPONENTIAL):
            return "EXPONENTIAL", char, self.at + 1
        after_sup = bool(self.out) and (
            self.out[-1].type == "_SUP" or [t.type for t in self.out[-2:]] == ["_SUP", "_LB"]
        )
        if char == "T" and after_sup:
            return "TOP", char, self.at + 1
        if char == "|":
            self.bars = not self.bars
            return "_BAR_OPEN" if self.bars else "_BAR_CLOSE", char, self.at + 1
        if char not in TOKENS:
            raise self.error(self._unknown(char))
        return TOKENS[char], char, self.at + 1

    def _unknown(self, char: str) -> str:
        if not char.isascii():
            return character(char)
        if char == "e" and "e" not in self.table.spellings:
            return "e is read only as the base of e^{...}"
        return unknown(repr(char), self.table.spellings)

    # --- output ------------------------------------------------------------------------------

    def _put(self, kind: str, value: str, at: int) -> None:
        if self.expects and kind in ("_CELL", "_ROW", "_SEPARATOR", "_MATRIX_BEGIN", "_MATRIX_END"):
            raise self.error(f"the {self.expects} is missing")
        self.out.append(Token(kind, value, start_pos=at, end_pos=at + len(value)))

    def _emit(self, kind: str, value: str, end: int) -> None:
        """Append a token, with braces where TeX takes it as an argument without them."""
        at = self.at
        if self.continues and kind not in STARTS_CONTINUATION:
            raise self.error("a continued line must start with a relation, + or -")
        self.continues = False
        if kind == "NUMBER" and self.out and not self.expects and self.out[-1].type in ENDS_FACTOR:
            raise self.error("a number may only come first in a product")
        self.at = end
        role, self.expects = self.expects, ""
        if kind == "_LB":
            self.braces.append(role)
            self._put(kind, value, at)
            return
        if role:
            self._put("_LB", "{", at)
        self._put(kind, value, at)
        if role:
            self._put("_RB", "}", at)
        elif kind == "_RB" and self.braces:
            role = self.braces.pop()
        self.expects = self._next_role(kind, role)

    @staticmethod
    def _next_role(kind: str, closed: str) -> str:
        """Return the role of the argument that TeX takes after this token."""
        starts = {"_SUB": "subscript", "_SUP": "superscript", "_SQRT": "radicand", "_FRAC": "numerator"}
        return "denominator" if closed == "numerator" else starts.get(kind, "")
