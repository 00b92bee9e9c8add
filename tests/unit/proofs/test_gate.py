"""The gate on small built pages: what it lets through, and each thing that it must not."""

import pytest

from attngrad.proofs.claim import Chapter, Identity, Wrong
from attngrad.proofs.gate import faults, macro_faults, shown, states_something
from attngrad.proofs.page import Display
from attngrad.proofs.read import Table

TABLE = Table(index={"i": "n"}, names={"x": ("n",), "y": ("n",), "n": "size"})
CHAPTER = Chapter("page", TABLE, ({"n": 2},), (Identity("eq-a"), Wrong("bad-b")))
FORMULAS = {
    "page": {
        "eq-a": Display("eq-a", "x_i = y_i", 1, "page"),
        "bad-b": Display("bad-b", "x_i = 2 y_i", 2, "page"),
    }
}


def block(tex: str, label: str = "") -> str:
    name = f' id="equation-{label}"' if label else ""
    number = '<span class="eqno">(1)<a href="#">#</a></span>'
    return f'<div class="math notranslate nohighlight"{name}>{number}\\[{tex}\\]</div>'


WRONG = f'<div class="wrong admonition">{block("x_i = 2 y_i", "bad-b")}</div>'
GOOD = block(r"\begin{split}x_i \;=\; y_{i}\end{split}", "eq-a") + WRONG


def found(html: str) -> list[str]:
    return faults(shown(html, "page.html"), [CHAPTER], FORMULAS)


def test_a_page_that_shows_what_was_proved_passes() -> None:
    assert (
        found(GOOD + block(r"x_i + \sum_{i=1}^{n} y_i") + f'<div class="cell_output">{block("x = 3")}</div>')
        == []
    )


@pytest.mark.parametrize(
    ("html", "message"),
    [
        (GOOD + block("x_i = 3"), "states something and has no label"),
        (GOOD + block(r"x_i \le y_i"), "states something and has no label"),
        (GOOD + block("x_i = y_i", "eq-c"), "eq-c is not in the ledger"),
        (block("x_i = - y_i", "eq-a") + WRONG, "eq-a shows another formula"),
        (block("x_i = z_i", "eq-a") + WRONG, "eq-a cannot be read"),
        (block("x_i = y_i", "eq-a") + block("x_i = 2 y_i", "bad-b"), "wrong and not marked as wrong"),
        (
            f'<div class="wrong admonition">{block("x_i = y_i", "eq-a")}</div>' + WRONG,
            "marked as wrong, and is not",
        ),
        (block("x_i = y_i", "eq-a"), "bad-b is in the ledger, but the site does not show it"),
    ],
)
def test_each_fault_is_named(html: str, message: str) -> None:
    assert any(message in fault for fault in found(html)), found(html)


@pytest.mark.parametrize(
    "tex",
    [
        "x = y",
        r"x \leq y",
        r"x \approx 3",
        r"x \to 0",
        r"x \in A",
        r"x \propto y",
        r"x &lt; y".replace("&lt;", "<"),
    ],
)
def test_relations_state_something(tex: str) -> None:
    assert states_something(tex)


@pytest.mark.parametrize(
    "tex",
    [
        r"\sum_{i=1}^{n} x_i",
        r"(B, H, N, D)",
        r"\sum_{j \ne i} x_j",
        r"x \left( y \right)",
        r"\begin{pmatrix} 1 & 2 \end{pmatrix}",
    ],
)
def test_expressions_state_nothing(tex: str) -> None:
    assert not states_something(tex)


@pytest.mark.parametrize(
    "tex",
    [
        *(r"J \succeq 0", r"x \leqslant y", r"x \cong y", r"A \mid B", "x : y"),
        *(r"\underbrace{x}_{= 2}", r"x \text{ is } 2"),
    ],
)
def test_what_is_not_known_to_be_harmless_needs_a_label(tex: str) -> None:
    assert states_something(tex)


def test_a_hidden_display_is_not_shown() -> None:
    for how in ('style="display: none"', 'class="d-none"', "hidden"):
        html = f'<div {how}>{block("x_i = y_i", "eq-a")}</div>'
        assert any("does not show it" in fault for fault in found(html + WRONG))


def test_words_beside_a_formula_are_part_of_what_is_shown() -> None:
    told = block(r"x_i = y_i \quad \text{(is false)}", "eq-a") + WRONG
    assert any("shows another formula" in fault for fault in found(told))


@pytest.mark.parametrize(
    "macro", [r"\renewcommand{\tau}{2}", r"\def\tau{2}", r"\let\tau\sigma", r"\newcommand\x{y}"]
)
def test_macros_that_change_formulas_are_named(macro: str) -> None:
    assert macro_faults(f'<span class="math">\\({macro}\\)</span>', "page.html")
    assert macro_faults(r'<span class="math">\(\left( \defect \right)\)</span>', "page.html") == []
