"""The notation table: one symbol, one meaning, one look; immutable."""

from __future__ import annotations

import dataclasses

import pytest
from sympy import IndexedBase, Integer, Symbol

from attngrad.proofs.read import Table
from attngrad.proofs.read.errors import TableError
from attngrad.proofs.read.lookalikes import character, skeleton
from attngrad.proofs.read.reader import ReadError, read

from .reader_notation import ROW, TABLE


def table(*names: str, index: str = "i", **settings: object) -> Table:
    return Table(index={x: "n" for x in index}, names={name: () for name in names}, **settings)


ALIKE = [
    ("l", r"\ell"), ("v", r"\nu"), ("p", r"\rho"), ("w", r"\omega"), ("x", r"\chi"), ("k", r"\kappa"),
    ("A", r"\Alpha"),
    ("B", r"\Beta"), ("P", r"\Rho"), ("T", r"\Tau"), (r"\epsilon", r"\varepsilon"), (r"\phi", r"\varphi"),
    ("O", "o"),
    ("I", "l"), (r"\theta", r"\vartheta"), ("L", r"\mathrm{L}"), ("L", r"\operatorname{L}"),
    ("lse", r"\mathrm{lse}"),
    ("v", r"\mathbf{v}"), (r"\hat{v}", r"\hat{\nu}"), (r"\hat{v}", r"\widehat{v}"),
    (r"\bar{v}", r"\overline{v}"),
    ("x_v", r"x_{\nu}"), ("dv", r"d\nu"), (r"\mathrm{dv}", "dv"),
]  # fmt: skip


@pytest.mark.parametrize("one, other", ALIKE)
def test_names_that_print_alike_are_refused(one: str, other: str) -> None:
    with pytest.raises(TableError, match=r"print alike|two meanings") as caught:
        table(one, other)
    assert one in str(caught.value)
    assert other in str(caught.value)


@pytest.mark.parametrize("one, other", [pair for pair in ALIKE if pair[1] != r"\mathrm{dv}"])
def test_a_listed_pair_is_allowed(one: str, other: str) -> None:
    assert table(one, other, lookalikes_allowed=((one, other),)).symbol(one) != table(other).symbol(other)


def test_a_listed_pair_allows_no_other() -> None:
    with pytest.raises(TableError, match="print alike"):
        table("v", r"\nu", "p", r"\rho", lookalikes_allowed=(("v", r"\nu"),))


@pytest.mark.parametrize(
    "names",
    [
        ("p", "P"),
        ("s", "S"),
        ("L", r"\mathcal{L}"),
        ("v", r"\bar{v}"),
        ("n", "m"),
        (r"\alpha", "a"),
        ("u", "v"),
    ],
)
def test_names_that_look_different_are_not_refused(names: tuple[str, ...]) -> None:
    assert len({skeleton(n) for n in names}) == 2
    table(*names)


def test_index_letters_and_functions_are_linted_too() -> None:
    with pytest.raises(TableError, match="print alike"):
        table(r"\ell", index="l")
    with pytest.raises(TableError, match="print alike"):
        table("v", functions=(r"\nu",))
    table("x", index="l", identity="I")  # the identity never stands in a subscript


def test_the_second_spelling_of_one_object_may_look_like_it() -> None:
    Table(index={"i": "N"}, names={"O": ("N", "N")}, alias={"o": "O"})


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"index": {"k": "n"}, "names": {"k": ("n",)}}, "two meanings: k and k"),
        ({"index": {}, "names": {"d_k": "size", "d_{k}": ()}}, "two meanings"),
        ({"index": {}, "names": {r"\hat x": (), r"\hat{x}": ()}}, "two meanings"),
        ({"index": {}, "names": {r"\delta": ()}, "kronecker": r"\delta"}, "two meanings"),
        ({"index": {"i": "n"}, "names": {"n": ()}}, ""),
        ({"index": {}, "names": {"e": ()}}, "e is reserved"),
        ({"index": {}, "names": {r"\mathrm{tr}": ()}}, "is reserved"),
        ({"index": {}, "names": {"2": ()}}, "is reserved"),
        (
            {"index": {}, "names": {"p": "n"}},
            "the axes of p are a tuple such as ('n',), or '+' or 'size'; got 'n'",
        ),
        ({"index": {}, "names": {"p": (1.5,)}}, "a bound of p is an integer or a sum of sizes"),
        ({"index": {"i": "n*m"}, "names": {}}, "a bound is a sum of sizes and integers"),
        ({"index": {"i": ""}, "names": {}}, "empty text"),
        ({"index": {"i": -3}, "names": {}}, "runs backwards"),
        ({"index": {}, "names": {"t": (), "s": (), "ts": ()}}, "ts also reads as t times s"),
        ({"index": {"1": "n"}, "names": {}}, "is reserved"),
        ({"index": {}, "names": {"m": ("n",), "m_1": ()}}, "m_1 also reads as an entry of m"),
        ({"index": {}, "names": {"m": (), "m^2": ()}}, "m^2 also reads as a power"),
        ({"index": {}, "names": {"\u03c1": ()}}, "U\\+03C1 GREEK SMALL LETTER RHO"),
        ({"index": {}, "names": {}, "alias": {"q": "Q"}}, "alias q of Q: unknown name Q"),
        (
            {"index": {}, "names": {}, "integers": {"b": ("n", "m")}},
            "is \\(tuple of axes, range of values\\)",
        ),
    ],
)
def test_a_malformed_table_says_what_is_wrong(settings: dict, words: str) -> None:
    if not words:
        settings["names"] = {"n": "size"}
        assert Table(**settings).size["n"] == Symbol("n", integer=True, positive=True)
        return
    with pytest.raises(TableError) as caught:
        Table(**settings)
    import re

    assert words in str(caught.value) or re.search(words, str(caught.value))


def test_symbols_are_what_the_engine_expects() -> None:
    assert TABLE.symbol("P") == IndexedBase("P")
    assert TABLE.symbol("q") == IndexedBase("Q")
    assert TABLE.symbol("x") == Symbol("x")
    assert TABLE.symbol(r"\alpha") == Symbol(r"\alpha", positive=True)
    assert TABLE.symbol("N") == Symbol("N", integer=True, positive=True)
    assert TABLE.symbol("i") == Symbol("i", integer=True)
    assert TABLE.symbol(r"\beta") == IndexedBase(r"\beta", integer=True)
    assert str(TABLE.axes("r")) == "((1 - N, N - 1),)"
    assert TABLE.axes("x") == ()
    with pytest.raises(TableError, match="unknown name pp"):
        TABLE.symbol("pp")


def test_the_scope_has_letters_and_integer_tables() -> None:
    ranges = TABLE.scope().ranges
    assert str(ranges[Symbol("c", integer=True)]) == "(1, d_k)"
    assert str(ranges[IndexedBase(r"\beta", integer=True)]) == "(1, B)"
    assert IndexedBase("P") not in ranges


def test_an_integer_scalar_is_positive_only_where_its_range_is() -> None:
    mixed = Table(index={}, names={"n": "size"}, integers={"r": ((), (1, "n")), "w": ((), ("1-n", "n-1"))})
    assert mixed.symbol("r").is_positive
    assert mixed.symbol("w").is_positive is None


def test_sizes_can_be_fixed() -> None:
    fixed = ROW.at(n=3)
    assert fixed.axes("J") == ((1, 3), (1, 3))
    assert fixed.symbol("n") == Integer(3)
    assert "n" not in fixed.size
    assert "m" in fixed.size
    assert fixed.at(m=2).axes("A") == ((1, 3), (1, 2))
    assert ROW.axes("J") == ROW.at().axes("J")
    assert str(ROW.axes("J")) == "((1, n), (1, n))"
    assert read(r"L = \frac{n}{2}", fixed).statements[0].rhs * 2 == 3
    assert str(read(r"L = \sum_j p_j", fixed).statements[0].rhs) == "Sum(p[_j], (_j, 1, 3))"


@pytest.mark.parametrize(
    "sizes, words",
    [
        ({"k": 3}, "k is no size of this table"),
        ({"n": 0}, "a positive integer; got 0"),
        ({"n": True}, "got True"),
        ({"n": 2.0}, "got 2.0"),
    ],
)
def test_a_wrong_size_is_refused(sizes: dict, words: str) -> None:
    with pytest.raises(TableError, match=words):
        ROW.at(**sizes)


def test_axes_may_be_numbers() -> None:
    small = Table(index={"i": 3}, names={"p": (3,), "L": ()})
    assert read("L = p_3", small).statements[0].rhs == IndexedBase("p")[3]
    with pytest.raises(ReadError, match=r"index runs over 4\.\.4"):
        read("L = p_4", small)


def test_a_table_is_a_value() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ROW.kronecker = "x"
    with pytest.raises(TypeError):
        ROW.names["x"] = ()
    names = {"p": ("n",)}
    made = Table(index={}, names=names)
    names["q"] = ()
    assert "q" not in made.names


def test_a_character_is_named() -> None:
    assert "U+0430 CYRILLIC SMALL LETTER A" in character("\u0430")
    assert "a Cyrillic letter that may print like another" in character("\u0430")
