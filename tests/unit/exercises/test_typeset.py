"""SymPy expressions in the LaTeX of a page: what is written is read as what it was."""

import pytest
import sympy
from sympy import IndexedBase, Integer, Rational, Symbol, exp, sqrt

from attngrad.exercises.ground import grounds
from attngrad.exercises.typeset import NotTypeset, plain, typeset
from attngrad.proofs.read import Table, read
from attngrad.proofs.sums import Partial, is_zero

from .answers import identities

TABLE = Table(
    index={"i": "n", "j": "n"},
    names={"x": ("n",), r"\bar{v}": (), r"\beta": ("n", "n"), "dP": ("n", "n"), "c": (), "d_k": "size"},
    functions=(r"\kappa",),
    kronecker=r"\delta",
)
i, j, n, c = sympy.symbols("i j n c")
x, beta = IndexedBase("x"), IndexedBase("beta")


@pytest.mark.parametrize(
    ("value", "tex"),
    [
        (x[i] * (c - 1), r"\bigl(c - 1\bigr)\, x_{i}"),
        (-c / 2, r"-\frac{c}{2}"),
        (Rational(-1, 2) + c, r"c - \frac{1}{2}"),
        (c / sqrt(Symbol("d_k")), r"\frac{c}{\sqrt{d_k}}"),
        (beta[i, j] ** 2, r"\beta_{i, j}^{2}"),
        (exp(c * x[i]), r"e^{c\, x_{i}}"),
        (sympy.log(c), r"\log(c)"),
        (sympy.Function("kappa")(c), r"\kappa(c)"),
        (Symbol("vbar") - sympy.KroneckerDelta(i, j), r"\bar{v} - \delta_{i, j}"),
        (sympy.Sum(x[j], (j, 1, n)) ** 2, r"\bigl(\Bigl(\sum_{j=1}^{n} \bigl(x_{j}\bigr)\Bigr)\bigr)^{2}"),
        (Integer(3), "3"),
        ((c + 1) ** Rational(3, 2), r"\bigl(c + 1\bigr)^{\frac{3}{2}}"),
    ],
)
def test_an_expression_is_written_in_the_notation_of_the_page(value, tex):
    assert typeset(value, TABLE) == tex


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (Symbol("bet"), "unknown name bet; near it: beta"),
        (IndexedBase("dQ")[i, j], "unknown name dQ"),
        (sympy.Float(0.5) * c, "the number 0.5"),
        (sympy.sin(c), "sin is not read"),
        (c**i, "the exponent i"),
        (sympy.Abs(c), "Abs is not read"),
        (sympy.I * c, "ImaginaryUnit is not read"),
    ],
)
def test_what_has_no_notation_is_named(value, told):
    with pytest.raises(NotTypeset, match=told):
        typeset(value, TABLE)


def test_a_page_without_a_kronecker_symbol_says_so():
    bare = Table(index={"i": "n", "j": "n"}, names={"x": ("n",)})
    with pytest.raises(NotTypeset, match="no Kronecker symbol"):
        typeset(sympy.KroneckerDelta(i, j), bare)


def test_names_are_those_of_sympy():
    assert [plain(x) for x in (r"\hat{x}_1", r"\mathcal{K}", "dS")] == ["xhat_1", "K", "dS"]


def in_sympy(value: sympy.Expr, letters: set[str]) -> sympy.Expr | None:
    """Return a value as a reader would type it, bound letters by name; None where one has no name."""
    bound = value.atoms(sympy.Dummy)
    names = {x.name for x in bound}
    fresh = any("<" in s.name for s in value.free_symbols)
    if value.has(Partial) or fresh or not names <= letters or len(names) < len(bound):
        return None
    return value.xreplace({x: Symbol(x.name) for x in bound})


def test_every_side_of_the_book_that_sympy_can_hold_is_read_as_what_it_was():
    compared = 0
    for label in identities("02_softmax_jacobian", "04_bias_gradient"):
        for asked in grounds(label):
            for statement in asked.asked.statements:
                value = in_sympy(statement.rhs, set(asked.table.index))
                if value is not None:
                    again = read(f"{asked.left_tex} = {typeset(value, asked.table)}", asked.table)
                    same = again.statements[0].rhs - statement.rhs
                    assert is_zero(same, asked.asked.scope), (label, value)
                    compared += 1
    assert compared > 60
