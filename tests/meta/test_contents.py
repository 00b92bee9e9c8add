"""No page is written and then forgotten: texts, notebooks, frames and the table of contents agree."""

from collections.abc import Iterator
from pathlib import Path

import yaml

from booktools.paths import ROOT


def listed(contents: dict) -> Iterator[str]:
    """Yield the pages of a table of contents."""
    yield contents["root"]
    for part in contents["parts"]:
        yield from (page["file"] for page in part["chapters"])


def faults(root: Path) -> Iterator[str]:
    """Say what is in the table of contents and not on disk, and the other way round."""
    pages = list(listed(yaml.safe_load((root / "_toc.yml").read_text())))
    on_disk = {f"book/{path.stem}" for path in (root / "book").glob("*.md")}
    on_disk |= {f"chapters/{path.stem}" for path in (root / "chapters").glob("*.ipynb")}
    yield from (f"{page} is listed and does not exist" for page in sorted(set(pages) - on_disk))
    yield from (f"{page} exists and is not listed" for page in sorted(on_disk - set(pages)))
    texts = {path.stem for path in (root / "book" / "text").glob("*.md")}
    notebooks = {path.stem for path in (root / "chapters").glob("*.ipynb")}
    yield from (f"{name} has only a text or only a notebook" for name in sorted(texts ^ notebooks))
    chapters = [page for page in pages if page.startswith("chapters/")]
    if chapters != sorted(chapters):
        yield f"chapters are not in the order of their numbers: {chapters}"


def plant(root: Path, files: tuple[str, ...], chapters: tuple[str, ...]) -> Path:
    """Write a small book: empty files and a table of contents."""
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    parts = [{"chapters": [{"file": name} for name in chapters]}]
    (root / "_toc.yml").write_text(yaml.safe_dump({"root": "book/intro", "parts": parts}))
    return root


TEXTS = ("book/text/01_a.md", "book/text/02_b.md")
SOUND = ("book/intro.md", *TEXTS, "chapters/01_a.ipynb", "chapters/02_b.ipynb")


def test_the_book_is_whole() -> None:
    assert list(faults(ROOT)) == []


def test_a_sound_book_passes(tmp_path: Path) -> None:
    assert list(faults(plant(tmp_path, SOUND, ("chapters/01_a", "chapters/02_b")))) == []


def test_every_kind_of_fault_is_seen(tmp_path: Path) -> None:
    files = (*SOUND, "book/stray.md", "book/text/03_c.md")
    told = list(faults(plant(tmp_path, files, ("chapters/02_b", "chapters/01_a", "chapters/04_d"))))
    assert told == [
        "chapters/04_d is listed and does not exist",
        "book/stray exists and is not listed",
        "03_c has only a text or only a notebook",
        "chapters are not in the order of their numbers: ['chapters/02_b', 'chapters/01_a', 'chapters/04_d']",
    ]
