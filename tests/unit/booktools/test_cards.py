"""Cards show what the chapters and the library say, and nothing that neither of them does."""

import ast
import importlib
import re
from pathlib import Path

import pytest
import yaml

from booktools import cards as module
from booktools.cards import ENTRIES, Card, cards, formulas, main, one_line, page
from booktools.paths import ROOT, TEXTS, BookError, chapter_files

ENTRY = {
    "id": "one", "title": "One", "formulas": ["eq-one"], "shapes": "(n,)", "saved": "`p`",
    "laws": "the sum is zero, {eq}`eq-two`", "cost": "n", "code": "attngrad.reference.softmax_vjp",
}  # fmt: skip
CHAPTER = """# The title

$$
a_i =
  b_i
$$ (eq-one)

$$ c = 0 $$ (eq-two)

$$ a_i = 2 $$ (bad-one)
"""


@pytest.fixture
def texts(tmp_path: Path) -> list[Path]:
    (tmp_path / "01_one.md").write_text(CHAPTER)
    (tmp_path / "02_two.md").write_text("# Another\n\n$$ x = y $$ (eq-three)\n")
    return sorted(tmp_path.glob("*.md"))


def made(**changes: object) -> list[Card]:
    """Return the card of the entry above with some fields changed."""
    return cards(yaml.safe_dump([ENTRY | changes]))


def test_a_card_takes_its_formula_from_the_chapter_and_its_code_from_the_library(texts: list[Path]) -> None:
    text = page(made(), texts)
    assert "## The title\n\n(card-one)=\n### One\n" in text
    assert "\n$\\displaystyle a_i = b_i$ {eq}`eq-one`\n" in text
    assert "\nlaws\n: the sum is zero, {eq}`eq-two`\n" in text
    assert "\nproofs\n: {claim}`eq-one`\n" in text
    assert "```python\ndef softmax_vjp(p, dp):\n" in text
    assert "Another" not in text


def test_a_formula_that_changes_changes_its_card(texts: list[Path]) -> None:
    before = page(made(), texts)
    texts[0].write_text(CHAPTER.replace("b_i", "b_i + 1"))
    assert "a_i = b_i + 1$" in page(made(), texts)
    assert page(made(), texts) != before


def test_cards_stand_in_the_order_of_the_chapters(texts: list[Path]) -> None:
    later = ENTRY | {"id": "three", "title": "Three", "formulas": ["eq-three"]}
    text = page(cards(yaml.safe_dump([later, ENTRY])), texts)
    assert re.findall(r"^#+ (.+)$", text, re.MULTILINE) == ["Cards", "The title", "One", "Another", "Three"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"formulas": ["eq-four"]}, "no chapter displays .* 'eq-four'"),
        ({"formulas": ["eq-one", "eq-three"]}, "expected formulas of one chapter; got 01_one, 02_two"),
        ({"formulas": ["bad-one"]}, "expected a label eq-"),
        ({"laws": "see {eq}`eq-five`"}, "no chapter displays .* 'eq-five'"),
        ({"cost": "see {claim}`eq-five`"}, "no chapter displays .* 'eq-five'"),
        ({"code": "attngrad.reference.softmin"}, "there is no attngrad.reference.softmin"),
    ],
)
def test_a_card_of_what_does_not_exist_is_refused(changes: dict, said: str, texts: list[Path]) -> None:
    with pytest.raises(BookError, match=said):
        page(made(**changes), texts)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1", "expected a list of cards"),
        ("[]", "expected a list of cards"),
        ("- one", "expected a card with named fields"),
        (yaml.safe_dump([{"id": "one"}]), "card 'one': missing or unknown fields code, cost"),
        (yaml.safe_dump([ENTRY | {"speed": "fast"}]), "card 'one': missing or unknown fields speed"),
        (yaml.safe_dump([ENTRY | {"cost": 3}]), "expected a text for cost, got 3"),
        (yaml.safe_dump([ENTRY | {"cost": ""}]), "expected a text for cost, got ''"),
        (yaml.safe_dump([ENTRY | {"formulas": []}]), r"expected a list of words for formulas, got \[\]"),
        (yaml.safe_dump([ENTRY | {"formulas": "eq-one"}]), "expected a list of words for formulas"),
        (yaml.safe_dump([ENTRY, ENTRY]), "expected one card for each id; got more for one"),
    ],
)
def test_an_entry_with_a_fault_is_refused(text: str, said: str) -> None:
    with pytest.raises(BookError, match=said):
        cards(text)


CHAIN = r"\begin{aligned} a &= b && \text{(one)} \\ &= c\,d && \text{(two)} \end{aligned}"


def test_of_a_chain_the_ends_are_shown() -> None:
    assert one_line("eq-a", CHAIN) == r"a = c\,d"
    assert one_line("eq-a", "a\n  = b") == "a = b"


@pytest.mark.parametrize(
    "tex",
    [
        CHAIN.replace("&= c", r"&\le c"),
        CHAIN.replace("&= c", r"&\quad + c"),
        CHAIN.replace("a &= b", r"a &\le b"),
        CHAIN.replace("c", r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}"),
    ],
)
def test_what_is_no_chain_of_equations_is_refused(tex: str) -> None:
    with pytest.raises(BookError, match="eq-a: expected one line, or a chain"):
        one_line("eq-a", tex)


def test_a_display_that_cannot_be_told_apart_is_refused(tmp_path: Path) -> None:
    (tmp_path / "01_one.md").write_text("# A\n\n$$\na = b\n")
    with pytest.raises(BookError, match="no closing"):
        formulas([tmp_path / "01_one.md"])


def test_a_page_that_is_not_what_would_be_written_fails_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    target = tmp_path / "cards.md"
    monkeypatch.setattr(module, "CARDS", target)
    assert main(["--check"]) == 1
    assert main([]) == main(["--check"]) == 0
    assert target.read_text() == page(cards(ENTRIES.read_text()), chapter_files(TEXTS, ".md"))
    target.write_text(target.read_text().replace("p_i", "p_j", 1))
    assert main(["--check"]) == 1
    assert "not what the chapters and the library say" in capsys.readouterr().out


def test_the_code_of_every_card_is_called_by_a_test() -> None:
    tests = "".join(
        path.read_text() for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)
    )
    assert [one.code for one in cards(ENTRIES.read_text()) if not is_tested(one.code, tests)] == []


def is_tested(path: str, tests: str) -> bool:
    """Tell whether a test calls a function, or the caller of a private one; or a cell, one of a cell."""
    first, *_, name = path.split(".")
    if first != "attngrad":
        return len(re.findall(rf"\b{name}\b", (TEXTS / f"{first}.md").read_text())) > 1
    part = path.split(".")[1]
    callers = [name]
    if name.startswith("_"):
        source = Path(importlib.import_module(path.rpartition(".")[0]).__file__).read_text()
        functions = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]
        callers = [one.name for one in functions if f" {name}(" in ast.get_source_segment(source, one)]
    alias = {"reference": "(?:reference|ref)"}.get(part, part)
    public = [caller for caller in callers if caller[0] != "_"]
    imported = rf"from attngrad\.{part} import [\w\s,()]*\b"
    return any(re.search(rf"\b{alias}\.{one}\(|{imported}{one}\b", tests) for one in public)


def test_a_function_without_a_test_is_seen() -> None:
    assert is_tested("attngrad.reference.softmax_vjp", "ref.softmax_vjp(p, dp)")
    assert not is_tested("attngrad.reference.softmax_vjp", "ref.softmax_jvp(p, dp)")
    assert not is_tested("attngrad.reference.softmax_vjp", "layers.softmax_vjp(p, dp)")
    assert is_tested("attngrad.reference.losses._targets", "ref.cross_entropy(s, y)")
    assert not is_tested("attngrad.reference.losses._targets", "ref.log_softmax(s, y)")
    assert is_tested("02_softmax_jacobian.double_backward", "")
    assert not is_tested("02_softmax_jacobian.triple_backward", "")
