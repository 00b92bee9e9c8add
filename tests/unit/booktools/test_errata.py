"""The errata are complete, point at what exists, and their page is what they say."""

import ast
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from booktools.errata import PAGE, SOURCE, main, page
from booktools.errata_entries import VERDICTS, Book, read_book, read_errata
from booktools.paths import ROOT, BookError

TEXT = """# The chapter

(sec-one)=
## What it says

$$
x = 1
$$ (eq-one)

:::{prf:theorem} One
:label: theorem-one
:::
"""
SOUND = {
    "chapters": {"09": "depth"},
    "posts": {1: {"name": "The post", "about": "A post.", "sections": {"1": "Start", "2.1": "Middle"}}},
    "entries": [
        {
            "id": "factor-lost",
            "post": 1,
            "section": "1",
            "also": "2.1",
            "line": "$x$",
            "english": "the letter",
            "statement": "It is one.",
            "verdict": "wrong",
            "correction": "It is two, by {cite}`somebody`.",
            "counterexample": "$1 = 2$.",
            "test": "tests/test_a.py::test_that_holds",
            "place": ["eq-one", "sec-one", "theorem-one"],
        },
        {
            "id": "later",
            "post": 1,
            "section": "2.1",
            "line": "`y`",
            "statement": "It is deep.",
            "verdict": "unsupported",
            "correction": "Nothing is measured.",
            "chapter": "09",
        },
    ],
}


@pytest.fixture
def book(tmp_path: Path) -> Book:
    """Return a small book: one text, one work, one file of tests."""
    files = {
        "book/text/01_chapter.md": TEXT,
        "book/references.bib": "@misc{somebody,\n  year = {2020}\n}\n",
        "tests/test_a.py": "def test_that_holds(): ...\n\n\nclass TestB:\n    def test_in_class(self): ...\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return read_book(tmp_path)


def planted(book: Book, change: Callable[[dict[str, Any]], object] = lambda data: None) -> Path:
    """Write the sound entries with a change, and return the file."""
    data = deepcopy(SOUND)
    change(data)
    path = book.root / "errata.yml"
    path.write_text(yaml.safe_dump(data, allow_unicode=True))
    return path


def first(field: str, value: Any) -> Callable[[dict[str, Any]], object]:
    """Return a change of one field of the first entry."""
    return lambda data: data["entries"][0].__setitem__(field, value)


def without(field: str, at: int = 0) -> Callable[[dict[str, Any]], object]:
    """Return a change that drops one field of an entry."""
    return lambda data: data["entries"][at].pop(field)


def right(data: dict[str, Any]) -> None:
    """Make the first entry one that only a test and a place can back."""
    data["entries"][0] |= {"verdict": "right"}
    for field in ("correction", "counterexample"):
        del data["entries"][0][field]


FAULTS = [
    (without("verdict"), "expected the field 'verdict'"),
    (without("line"), "expected the field 'line'"),
    (first("verdict", "false"), "expected one of right, right in one reading.*got 'false'"),
    (first("verdict", False), "verdict: expected a text, got False"),
    (first("colour", "red"), "expected fields among also, chapter.*got 'colour'"),
    (first("statement", " "), "statement: expected a text, got ' '"),
    (first("post", "1"), "post: expected the number of a post, got '1'"),
    (first("post", 3), "post: expected one of 1; got 3"),
    (first("section", "9"), "section: expected one of 1, 2.1; got '9'"),
    (first("also", ["2.1", "7"]), "section: expected one of 1, 2.1; got '7'"),
    (first("chapter", "11"), "chapter: expected one of 09; got '11'"),
    (first("place", ["eq-none"]), "expected a label of book/text; there is no 'eq-none'"),
    (first("place", []), r"place: expected a text or a list of texts, got \[\]"),
    (first("test", "tests/test_b.py::test_that_holds"), "there is no file 'tests/test_b.py'"),
    (first("test", "tests/test_a.py::test_gone"), "tests/test_a.py; it has no 'test_gone'"),
    (first("test", "tests/test_a.py"), "tests/test_a.py; it has no ''"),
    (first("correction", "By {cite}`nobody`."), "there is no 'nobody'"),
    (first("id", "Factor_Lost"), "expected lower-case letters, digits and hyphens, got 'Factor_Lost'"),
    (first("id", "later"), "later: expected an id of its own, got one that is given twice"),
    (first("line", "a|b"), "expected no '|'"),
    (first("statement", "$$x$$"), "statement: expected inline mathematics, got a display"),
    (first("reading", "it is so"), "expected the field 'reading' with the verdict 'right in one reading'"),
    (first("verdict", "right in one reading"), "expected the field 'reading'"),
    (without("counterexample"), "expected the field 'counterexample' with the verdict 'wrong'"),
    (without("correction"), "expected the field 'correction' with the verdict 'wrong'"),
    (without("test"), "expected the field 'test'; only an unsupported or a deferred entry"),
    (without("place"), "expected the field 'place'; only an unsupported or a deferred entry"),
    (without("correction", 1), "later: expected the field 'correction' with the verdict 'unsupported'"),
    (lambda data: data["entries"].reverse(), "factor-lost: expected the order of the posts; section 1 has"),
    (lambda data: data["entries"].append("text"), "entry 3: expected a mapping of fields, got str"),
    (lambda data: data.pop("chapters"), "expected the keys chapters, posts and entries; got entries, posts"),
]


@pytest.mark.parametrize(("change", "told"), FAULTS, ids=[told[:40] for _, told in FAULTS])
def test_a_planted_fault_is_named(book: Book, change: Callable, told: str) -> None:
    with pytest.raises(BookError, match=told):
        read_errata(planted(book, change), book)


def test_all_faults_are_told_at_once(book: Book) -> None:
    def change(data: dict[str, Any]) -> None:
        first("place", ["eq-none"])(data)
        first("test", "tests/test_a.py::test_gone")(data)

    with pytest.raises(BookError) as caught:
        read_errata(planted(book, change), book)
    assert str(caught.value).count("factor-lost: ") == 2


IN_CLASS = first("test", "tests/test_a.py::TestB::test_in_class")


@pytest.mark.parametrize("change", [lambda data: None, right, IN_CLASS])
def test_sound_entries_pass(book: Book, change: Callable) -> None:
    assert len(read_errata(planted(book, change), book).entries) == 2


def test_every_line_has_a_link_to_its_entry(book: Book) -> None:
    text = page(read_errata(planted(book), book), book)
    assert "| 1 | [$x$ the letter](#errata-factor-lost) | {bdg-danger}`wrong` |" in text
    assert "| 2.1 | [$x$ the letter](#errata-factor-lost) | {bdg-danger}`wrong` |" in text
    assert text.count("(errata-factor-lost)=\n") == 1
    assert "### Section 2.1: Middle\n" in text
    assert text == page(read_errata(planted(book), book), book)


def test_places_link_to_formula_proof_theorem_and_section(book: Book) -> None:
    text = page(read_errata(planted(book), book), book)
    formula, section = "{eq}`eq-one` {claim}`eq-one`", "{ref}`The chapter, What it says <sec-one>`"
    assert f"Place\n: {formula}, {section}, {{prf:ref}}`theorem-one`\n" in text


def test_a_chapter_is_linked_once_it_is_written(book: Book) -> None:
    assert "Chapter\n: to come: chapter 09, depth\n" in page(read_errata(planted(book), book), book)
    (book.root / "chapters").mkdir()
    (book.root / "chapters" / "09_depth.ipynb").write_text("{}")
    assert "Chapter\n: {doc}`../chapters/09_depth`\n" in page(read_errata(planted(book), book), book)


def test_check_tells_a_stale_page_and_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    target = tmp_path / "errata.md"
    assert main(["--check"], SOURCE, target) == 1
    assert not target.exists()
    assert main([], SOURCE, target) == 0
    assert main(["--check"], SOURCE, target) == 0
    target.write_text(target.read_text().replace("wrong", "right", 1))
    assert main(["--check"], SOURCE, target) == 1
    assert "run `.venv/bin/python -m booktools.errata`" in capsys.readouterr().out


def test_a_faulty_file_fails_with_the_fault(book: Book, capsys: pytest.CaptureFixture) -> None:
    target = book.root / "errata.md"
    assert main([], planted(book, first("verdict", "false")), target) == 1
    assert "got 'false'" in capsys.readouterr().err
    assert not target.exists()


# The book's own errata.

ERRATA = read_errata(SOURCE, read_book())


def test_the_page_is_fresh() -> None:
    assert page(ERRATA, read_book()) == PAGE.read_text(encoding="utf-8")


def test_every_test_of_an_entry_is_collected() -> None:
    """Read from the files anew: a function at the top level whose name pytest collects."""
    nodes = {node for entry in ERRATA.entries for node in entry.test}
    collected = {
        f"{path.relative_to(ROOT)}::{node.name}"
        for path in (ROOT / "tests" / "conformance").glob("test_*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }
    assert nodes <= collected
    mine = {node for node in collected if "/test_post_" in node}
    idle = sorted(mine - nodes)
    assert idle == ["tests/conformance/test_post_1.py::test_the_oracle_is_the_derivative"]


def test_only_unsupported_and_deferred_entries_have_no_test() -> None:
    bare = [entry for entry in ERRATA.entries if not entry.test]
    assert bare
    assert all(entry.verdict == "unsupported" or entry.chapter for entry in bare)
    early = [entry for entry in ERRATA.entries if entry.post == 1 and entry.section[0] in "23"]
    assert all(entry.test or entry.verdict == "unsupported" for entry in early)
    assert all(entry.place or entry.verdict == "unsupported" for entry in early)


def test_every_section_of_the_posts_is_answered() -> None:
    answered = {(entry.post, entry.section) for entry in ERRATA.entries}
    assert answered == {(number, name) for number, post in ERRATA.posts.items() for name in post.sections}
    assert {entry.verdict for entry in ERRATA.entries} == set(VERDICTS)
