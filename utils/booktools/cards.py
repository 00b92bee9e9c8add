"""Writes book/cards.md: one card for each result, to print and to keep beside the keyboard.

`book/cards.yml` says which formulas, code and words a card has. A formula is named by its label and taken
from the chapter that displays it; code is named by its function and taken from the library.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from attngrad.proofs.page import PageError, displays
from booktools.excerpts import excerpt
from booktools.paths import ROOT, TEXTS, BookError, chapter_files, shown

ENTRIES = ROOT / "book" / "cards.yml"
CARDS = ROOT / "book" / "cards.md"
STATED = ("eq-", "def-", "thm-")
ROLE = re.compile(r"\{(?:eq|claim)\}`([^`]*)`")
PAGE = """# Cards

One card for each result: its formulas, the shapes, what the forward pass saves, laws that a test can use,
the cost, and code. The formulas are those of the chapters. The code is that of the library, without checks of
arguments; an ellipsis stands for other lines that are left out. The page prints on two pages of A4.
"""


@dataclass(frozen=True)
class Card:
    """One entry of book/cards.yml; `lines` names the statements of `code` to show, all of them when empty."""

    id: str
    title: str
    formulas: tuple[str, ...]
    shapes: str
    saved: str
    laws: str
    cost: str
    code: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Formula:
    """A labelled display, and the chapter that shows it."""

    tex: str
    chapter: str


def cards(text: str) -> list[Card]:
    """Return the cards of a YAML text.

    Raises:
        BookError: an entry lacks a field, has another, or one of another type; or an id is given twice.
    """
    entries = yaml.safe_load(text)
    if not isinstance(entries, list) or not entries:
        raise BookError(f"expected a list of cards in {shown(ENTRIES)}, got {type(entries).__name__}")
    made = [card(entry) for entry in entries]
    ids = [one.id for one in made]
    if twice := sorted({name for name in ids if ids.count(name) > 1}):
        raise BookError(f"expected one card for each id; got more for {', '.join(twice)}")
    return made


def card(entry: Any) -> Card:
    """Return the card of one entry of the YAML file.

    Raises:
        BookError: as `cards`.
    """
    if not isinstance(entry, dict):
        raise BookError(f"expected a card with named fields, got {entry!r}")
    name, known = entry.get("id", entry), {field.name: field for field in fields(Card)}
    needed = set(known) - {"lines"}
    if not needed <= set(entry) <= set(known):
        faults = sorted(str(key) for key in (needed - set(entry)) | (set(entry) - set(known)))
        raise BookError(f"card {name!r}: missing or unknown fields {', '.join(faults)}")
    for key, value in entry.items():
        listed = known[key].type == tuple[str, ...]
        words = value if listed and isinstance(value, list) else [value]
        if listed != isinstance(value, list) or not words or not all(isinstance(x, str) and x for x in words):
            expected = "a list of words" if listed else "a text"
            raise BookError(f"card {name!r}: expected {expected} for {key}, got {value!r}")
    return Card(**{key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()})


def formulas(texts: Sequence[Path]) -> dict[str, Formula]:
    """Return the labelled displays of all chapters.

    Raises:
        BookError: a chapter's displays cannot be told apart.
    """
    found = {}
    for path in texts:
        try:
            shown_here = displays(path.read_text(encoding="utf-8"), shown(path))
        except PageError as error:
            raise BookError(str(error)) from error
        found |= {one.label: Formula(one.tex, path.stem) for one in shown_here if one.label}
    return found


def one_line(label: str, tex: str) -> str:
    r"""Return a display as one line; of a chain of equations its first and last side.

    Raises:
        BookError: it has several lines and is no such chain.

    >>> one_line("eq-a", r"\begin{aligned} a &= b && \text{(why)} \\ &= c \end{aligned}")
    'a = c'
    """
    tex = " ".join(tex.split())
    found = re.fullmatch(r"\\begin\{aligned\}(.*)\\end\{aligned\}", tex)
    if found is None:
        return tex
    rows = [re.sub(r"&&.*", "", row).strip() for row in re.split(r"\\\\(?![a-zA-Z])", found[1])]
    first, *others = rows
    if "\\begin" in found[1] or "&=" not in first or any(not row.startswith("&=") for row in others):
        raise BookError(f"{label}: expected one line, or a chain whose lines begin with &=; got {tex}")
    return f"{first.partition('&=')[0].strip()} = {rows[-1].partition('&=')[2].strip()}"


def rendered(one: Card, known: Mapping[str, Formula]) -> Iterator[str]:
    """Yield the lines of a card.

    Raises:
        BookError: a label that no chapter displays, or that of a wrong formula or a number.
    """
    yield from (f"(card-{one.id})=", f"### {one.title}", "")
    for label in one.formulas:
        if not label.startswith(STATED):
            raise BookError(f"card {one.id!r}: expected a label {', '.join(STATED)}...; got {label!r}")
    for label in [*one.formulas, *ROLE.findall(" ".join((one.shapes, one.saved, one.laws, one.cost)))]:
        if label not in known:
            raise BookError(f"card {one.id!r}: no chapter displays a formula with the label {label!r}")
    for label in one.formulas:
        yield from (f"$\\displaystyle {one_line(label, known[label].tex)}$ {{eq}}`{label}`", "")
    proofs = ", ".join(f"{{claim}}`{label}`" for label in one.formulas)
    rows = {"shapes": one.shapes, "saved": one.saved, "laws": one.laws, "cost": one.cost, "proofs": proofs}
    for name, told in rows.items():
        yield from (name, f": {' '.join(told.split())}", "")
    yield from ("```python", excerpt(one.code, one.lines), "```", "")


def page(made: Sequence[Card], texts: Sequence[Path]) -> str:
    """Return the text of book/cards.md, equal for equal entries, chapters and library.

    Raises:
        BookError: as `rendered`; or a card's formulas stand in several chapters.
    """
    known, lines = formulas(texts), [PAGE]
    of_chapter: dict[str, list[Card]] = {path.stem: [] for path in texts}
    for one in made:
        inside = {known[label].chapter for label in one.formulas if label in known}
        if len(inside) > 1:
            raise BookError(
                f"card {one.id!r}: expected formulas of one chapter; got {', '.join(sorted(inside))}"
            )
        of_chapter[inside.pop() if inside else texts[0].stem].append(one)
    for path in texts:
        if of_chapter[path.stem]:
            lines += [f"## {title(path)}", ""]
        for one in of_chapter[path.stem]:
            lines += rendered(one, known)
    return "\n".join(lines).rstrip() + "\n"


def title(path: Path) -> str:
    """Return the heading of a chapter.

    Raises:
        BookError: it has none.
    """
    found = re.search(r"^# +(.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise BookError(f"expected a heading of the first level in {shown(path)}; found none")
    return found[1].strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or with --check say whether it is what would be written."""
    parser = argparse.ArgumentParser(prog="python -m booktools.cards", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing")
    options = parser.parse_args(arguments)
    try:
        wanted = page(cards(ENTRIES.read_text(encoding="utf-8")), chapter_files(TEXTS, ".md"))
    except BookError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    fresh = CARDS.exists() and CARDS.read_text(encoding="utf-8") == wanted
    if options.check:
        told = (
            "fresh" if fresh else "not what the chapters and the library say: run python -m booktools.cards"
        )
        print(f"{shown(CARDS)}: {told}")
        return int(not fresh)
    if not fresh:
        CARDS.write_text(wanted, encoding="utf-8")
    print(f"{shown(CARDS)}: {'unchanged' if fresh else 'written'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
