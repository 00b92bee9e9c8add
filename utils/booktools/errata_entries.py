"""Reads book/errata.yml, and refuses an entry that is not complete or points at nothing."""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from booktools.paths import ROOT, BookError, shown

VERDICTS = {
    "right": ("success", "True as it stands."),
    "right in one reading": ("info", "True if it is taken in one way; the entry says in which."),
    "harmless": ("secondary", "Odd or incomplete, but nothing false follows."),
    "wrong": ("danger", "False; the entry has a counterexample."),
    "unsupported": ("muted", "The post gives no evidence, and as it is stated it cannot be checked."),
}
NEEDED = ("id", "post", "section", "line", "statement", "verdict")
TEXTS = (*NEEDED[3:5], "english", "reading", "correction", "counterexample")
LISTS = ("also", "test", "place")
KNOWN = frozenset({*NEEDED, *TEXTS, *LISTS, "chapter"})
SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
SECTION = re.compile(r"^\((?P<label>[a-z0-9-]+)\)=\n+#+ +(?P<title>.+)$", re.MULTILINE)
FORMULA = re.compile(r"^\$\$ \((?P<label>[a-z0-9-]+)\)$", re.MULTILINE)
THEOREM = re.compile(r"^:label: (?P<label>theorem-[a-z0-9-]+)$", re.MULTILINE)
CITED = re.compile(r"\{cite(?::[tp])?\}`([^`]+)`")


@dataclass(frozen=True)
class Entry:
    """One line of a post, and what is said about it; an empty text or list where there is nothing to say."""

    id: str
    post: int
    section: str
    line: str
    statement: str
    verdict: str
    english: str = ""
    reading: str = ""
    correction: str = ""
    counterexample: str = ""
    chapter: str = ""
    also: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    place: tuple[str, ...] = ()


@dataclass(frozen=True)
class Post:
    """One of the posts: its name, what it is, and its sections with their titles, in order."""

    name: str
    about: str
    sections: Mapping[str, str]


@dataclass(frozen=True)
class Errata:
    """All entries, in the order of the posts, and what they refer to."""

    chapters: Mapping[str, str]
    posts: Mapping[int, Post]
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Book:
    """What an entry may point at: labels with their kind and text, works of the bibliography, tests."""

    labels: Mapping[str, tuple[str, str]]
    works: frozenset[str]
    root: Path = ROOT


def read_book(root: Path = ROOT) -> Book:
    """Return the labels of the texts, each with ``formula``, ``theorem`` or its chapter and heading."""
    labels: dict[str, tuple[str, str]] = {}
    for path in sorted((root / "book" / "text").glob("*.md")):
        text = path.read_text(encoding="utf-8")
        heading = re.search(r"^# +(.+)$", text, re.MULTILINE)
        labels |= {found["label"]: ("formula", "") for found in FORMULA.finditer(text)}
        labels |= {found["label"]: ("theorem", "") for found in THEOREM.finditer(text)}
        for found in SECTION.finditer(text):
            labels[found["label"]] = ("section", f"{heading[1] if heading else path.stem}, {found['title']}")
    bibliography = (root / "book" / "references.bib").read_text(encoding="utf-8")
    return Book(labels, frozenset(re.findall(r"^@\w+\{([^,]+),", bibliography, re.MULTILINE)), root)


@cache
def functions(path: Path) -> frozenset[str]:
    """Return the functions and methods of a Python file as pytest names them: ``name`` or ``Class::name``."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    for group in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        names |= {f"{group.name}::{node.name}" for node in group.body if isinstance(node, ast.FunctionDef)}
    return frozenset(names)


def made(raw: Mapping[str, Any]) -> Entry:
    """Return an entry whose fields have been checked; a single string stands for a list of one."""
    fields = {key: value for key, value in raw.items() if key not in LISTS}
    lists = {key: raw[key] for key in LISTS if key in raw}
    return Entry(**fields, **{key: (x,) if isinstance(x, str) else tuple(x) for key, x in lists.items()})


def field_faults(raw: Any) -> Iterator[str]:
    """Say which fields of an entry are missing, unknown or of the wrong type."""
    if not isinstance(raw, Mapping):
        yield f"expected a mapping of fields, got {type(raw).__name__}"
        return
    yield from (f"expected the field {key!r}" for key in NEEDED if key not in raw)
    known = ", ".join(sorted(KNOWN))
    yield from (f"expected fields among {known}; got {key!r}" for key in raw if key not in KNOWN)
    for key in (*TEXTS, "id", "section", "verdict", "chapter"):
        if key in raw and not (isinstance(raw[key], str) and raw[key].strip()):
            yield f"{key}: expected a text, got {raw[key]!r}"
    for key in LISTS:
        value = raw.get(key, "x")
        texts = [value] if isinstance(value, str) else value
        if not (isinstance(texts, list) and texts and all(isinstance(text, str) for text in texts)):
            yield f"{key}: expected a text or a list of texts, got {value!r}"
    if not isinstance(raw.get("post", 1), int):
        yield f"post: expected the number of a post, got {raw['post']!r}"


def rule_faults(entry: Entry) -> Iterator[str]:
    """Say what the verdict of an entry asks for and the entry does not have."""
    if not SLUG.fullmatch(entry.id):
        yield f"id: expected lower-case letters, digits and hyphens, got {entry.id!r}"
    if entry.verdict not in VERDICTS:
        yield f"verdict: expected one of {', '.join(VERDICTS)}; got {entry.verdict!r}"
    if (entry.verdict == "right in one reading") != bool(entry.reading):
        yield "expected the field 'reading' with the verdict 'right in one reading', and with no other"
    if entry.verdict != "right" and not entry.correction:
        yield f"expected the field 'correction' with the verdict {entry.verdict!r}"
    if entry.verdict in ("wrong", "right in one reading") and not entry.counterexample:
        yield f"expected the field 'counterexample' with the verdict {entry.verdict!r}"
    deferred = entry.verdict == "unsupported" or bool(entry.chapter)
    for key in ("test", "place"):
        if not getattr(entry, key) and not deferred:
            yield f"expected the field {key!r}; only an unsupported or a deferred entry may do without"
    if "|" in entry.line + entry.english:
        yield "line and english: expected no '|', which would end a cell of the table"
    displays = [key for key in TEXTS if "$$" in getattr(entry, key)]
    yield from (f"{key}: expected inline mathematics, got a display" for key in displays)


def pointer_faults(entry: Entry, errata: Errata, book: Book) -> Iterator[str]:
    """Say which section, chapter, label, work or test an entry points at in vain."""
    post = errata.posts.get(entry.post)
    if post is None:
        yield f"post: expected one of {', '.join(map(str, errata.posts))}; got {entry.post}"
    sections = tuple(post.sections) if post else ()
    for section in (entry.section, *entry.also) if post else ():
        if section not in sections:
            yield f"section: expected one of {', '.join(sections)}; got {section!r}"
    if entry.chapter and entry.chapter not in errata.chapters:
        yield f"chapter: expected one of {', '.join(errata.chapters)}; got {entry.chapter!r}"
    for label in entry.place:
        if label not in book.labels:
            yield f"place: expected a label of book/text; there is no {label!r}"
    groups = [keys for name in TEXTS for keys in CITED.findall(getattr(entry, name))]
    cited = {key.strip() for keys in groups for key in keys.split(",")} - book.works
    yield from (f"expected a work of references.bib; there is no {key!r}" for key in sorted(cited))
    for node in entry.test:
        name, _, function = node.partition("::")
        path = book.root / name
        if not name.startswith("tests/") or not path.is_file():
            yield f"test: expected tests/...py::name; there is no file {name!r}"
        elif function not in functions(path):
            yield f"test: expected a test of {name}; it has no {function!r}"


def order_faults(errata: Errata) -> Iterator[str]:
    """Say which entries have one id, and which stand before an entry of an earlier section."""
    seen: set[str] = set()
    last = (0, 0)
    for entry in errata.entries:
        if entry.id in seen:
            yield f"{entry.id}: expected an id of its own, got one that is given twice"
        seen.add(entry.id)
        post = errata.posts.get(entry.post)
        if post is None or entry.section not in post.sections:
            continue
        here = (entry.post, list(post.sections).index(entry.section))
        if here < last:
            yield f"{entry.id}: expected the order of the posts; section {entry.section} has come before"
        last = here


def name_of(raw: Any, at: int) -> str:
    """Return the id of an entry, or its number where it has none."""
    return str(raw["id"]) if isinstance(raw, Mapping) and "id" in raw else f"entry {at}"


def read_errata(path: Path, book: Book) -> Errata:
    """Return the entries of a file.

    Raises:
        BookError: there are faults; the text names the entry of each, what was expected and what came.
    """
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(data, Mapping) or set(data) != {"chapters", "posts", "entries"}:
        got = ", ".join(map(str, data)) if isinstance(data, Mapping) else type(data).__name__
        raise BookError(f"{shown(path)}: expected the keys chapters, posts and entries; got {got}")
    raw = data["entries"]
    told = [f"{name_of(one, at)}: {fault}" for at, one in enumerate(raw, 1) for fault in field_faults(one)]
    if not told:
        posts = {number: Post(**post) for number, post in data["posts"].items()}
        errata = Errata(data["chapters"], posts, tuple(made(one) for one in raw))
        for entry in errata.entries:
            told += [f"{entry.id}: {fault}" for fault in rule_faults(entry)]
            told += [f"{entry.id}: {fault}" for fault in pointer_faults(entry, errata, book)]
        told += order_faults(errata)
    if told:
        raise BookError("\n".join([f"{shown(path)}:", *told]))
    return errata
