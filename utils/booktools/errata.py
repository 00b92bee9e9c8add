"""Writes book/errata.md from book/errata.yml: what two posts say, line by line, and whether it is true."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from booktools.errata_entries import VERDICTS, Book, Entry, Errata, read_book, read_errata
from booktools.paths import CHAPTERS, ROOT, BookError, shown

SOURCE = ROOT / "book" / "errata.yml"
PAGE = ROOT / "book" / "errata.md"
INTRODUCTION = """# Errata of two posts

Two blog posts ask the questions of this book. Here each of their lines is judged: what it states, whether
that is true, what is true instead, and the smallest case that shows the difference. With a post at hand, find
the section in the table and follow the line to its entry.

A line is quoted as a formula or a phrase of the post, with a translation. The formulas under "Place" stand in
the chapters, each beside the link to its proof. A chapter to come is named by the number of its file. Tests
are named as pytest names them.

"""


def badge(verdict: str) -> str:
    """Return a verdict as a coloured word."""
    return f"{{bdg-{VERDICTS[verdict][0]}}}`{verdict}`"


def page(errata: Errata, book: Book) -> str:
    """Return the text of the page, equal for equal entries and labels."""
    legend = [f"{badge(verdict)}\n: {told}" for verdict, (_, told) in VERDICTS.items()]
    parts = [INTRODUCTION.strip(), "\n\n".join(legend), "## Find a line"]
    for number, post in errata.posts.items():
        parts += [f"### {post.name}, by section", "\n".join(table(errata, number))]
    for number, post in errata.posts.items():
        parts += [f"## {post.name}", post.about]
        for section, title in post.sections.items():
            mine = [e for e in errata.entries if (e.post, e.section) == (number, section)]
            if mine:
                parts.append(f"### {title}" if section == "title" else f"### Section {section}: {title}")
            parts += ["\n".join(block(entry, errata, book)) for entry in mine]
    return "\n\n".join(parts) + "\n"


def table(errata: Errata, number: int) -> Iterator[str]:
    """Yield one row for each line of a post: section, line with a link to its entry, verdict."""
    yield "| Section | The post says | Verdict |"
    yield "| :-- | :-- | :-- |"
    mine = [entry for entry in errata.entries if entry.post == number]
    for section in errata.posts[number].sections:
        for entry in mine:
            if section in (entry.section, *entry.also):
                told = f"{entry.line} {entry.english}".strip()
                yield f"| {section} | [{told}](#errata-{entry.id}) | {badge(entry.verdict)} |"


def block(entry: Entry, errata: Errata, book: Book) -> Iterator[str]:
    """Yield the lines of one entry: its head, and a list of what is said about it."""
    yield f"(errata-{entry.id})="
    yield "::::{container} erratum"
    yield f"{badge(entry.verdict)} {entry.line}" + (f" *{entry.english}*" if entry.english else "")
    for name, text in (
        ("Statement", entry.statement),
        ("Right if", entry.reading),
        ("Note" if entry.verdict == "right" else "Correction", entry.correction),
        ("Counterexample", entry.counterexample),
        ("Place", ", ".join(place(label, book) for label in entry.place)),
        ("Chapter", chapter(entry.chapter, errata, book)),
        ("Test", ", ".join(f"`{node}`" for node in entry.test)),
    ):
        if text:
            yield f"\n{name}\n: {text}"
    yield "::::"


def place(label: str, book: Book) -> str:
    """Return a link to a label: a formula by number and proof, a theorem, or a section by its title."""
    kind, title = book.labels[label]
    if kind == "section":
        return f"{{ref}}`{title} <{label}>`"
    return f"{{eq}}`{label}` {{claim}}`{label}`" if kind == "formula" else f"{{prf:ref}}`{label}`"


def chapter(number: str, errata: Errata, book: Book) -> str:
    """Return the chapter that treats an entry: a link where it is written, else its number and topic."""
    if not number:
        return ""
    written = sorted((book.root / CHAPTERS.name).glob(f"{number}_*.ipynb"))
    if written:
        return f"{{doc}}`../chapters/{written[0].stem}`"
    return f"to come: chapter {number}, {errata.chapters[number]}"


def main(arguments: Sequence[str] | None = None, source: Path = SOURCE, target: Path = PAGE) -> int:
    """Write the page, or with --check say whether it is what would be written."""
    parser = argparse.ArgumentParser(prog="python -m booktools.errata", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing")
    options = parser.parse_args(arguments)
    try:
        book = read_book()
        wanted = page(read_errata(source, book), book)
    except BookError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    fresh = target.exists() and target.read_text(encoding="utf-8") == wanted
    if options.check:
        stale = f"not what {shown(source)} says: run `.venv/bin/python -m booktools.errata`"
        print(f"{shown(target)}: {'fresh' if fresh else stale}")
        return int(not fresh)
    if not fresh:
        target.write_text(wanted, encoding="utf-8")
    print(f"{shown(target)}: {'unchanged' if fresh else 'written'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
