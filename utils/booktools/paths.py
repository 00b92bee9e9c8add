"""Where the parts of the book lie, and how the tools fail."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ROOT / "book" / "text"
CHAPTERS = ROOT / "chapters"
STATUS = ROOT / "book" / "status.md"
LOCK = ROOT / "requirements.txt"
BUILD = ROOT / "_build"
SITE = BUILD / "html"


class BookError(Exception):
    """A fault in the book's sources or tools; its text is shown to the author as it stands."""


def chapter_files(folder: Path, suffix: str, number: str = "") -> list[Path]:
    """Return the chapters' files in `folder`, those of one number such as "02" when it is given.

    Raises:
        BookError: there is no such file.
    """
    found = sorted(path for path in folder.glob(f"[0-9][0-9]_*{suffix}"))
    chosen = [path for path in found if path.name.startswith(f"{number.zfill(2)}_")] if number else found
    if number and not chosen:
        known = ", ".join(path.name[:2] for path in found) or "none"
        raise BookError(f"expected the number of a chapter in {shown(folder)}, {known}; got {number!r}")
    if not chosen:
        raise BookError(f"expected files NN_topic{suffix} in {shown(folder)}; found none")
    return chosen


def shown(path: Path) -> str:
    """Return `path` as a reader of messages knows it: relative to the repository where it lies inside."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
