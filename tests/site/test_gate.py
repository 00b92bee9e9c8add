"""What the built pages show is what was proved: each display that states something is in the ledger."""

import re
import shutil
from pathlib import Path

import pytest

from attngrad.proofs.gate import check_site


@pytest.fixture
def chapters(site: Path, tmp_path: Path) -> Path:
    """Return a copy of the built pages, without what they load."""
    return Path(shutil.copytree(site, tmp_path / "html", ignore=shutil.ignore_patterns("_static", "_images")))


def edit(folder: Path, pattern: str, replacement: str) -> None:
    """Change the first place, in any chapter, where a pattern occurs."""
    for page in sorted((folder / "chapters").glob("*.html")):
        text = page.read_text(encoding="utf-8")
        changed, count = re.subn(pattern, replacement, text, count=1)
        if count:
            page.write_text(changed, encoding="utf-8")
            return
    pytest.fail(f"no chapter has {pattern}")


def test_the_site_shows_what_was_proved(site: Path) -> None:
    assert check_site(site) == []


def test_a_formula_changed_on_the_page_is_seen(chapters: Path) -> None:
    edit(chapters, r"\(\\delta_\{ij\} - p_j\)", r"(\\delta_{ij} + p_j)")
    assert any("shows another formula" in fault for fault in check_site(chapters))


def test_a_display_without_a_label_is_seen(chapters: Path) -> None:
    edit(chapters, r' id="equation-eq-[a-z-]+"', "")
    assert any("states something and has no label" in fault for fault in check_site(chapters))


def test_a_wrong_formula_without_its_mark_is_seen(chapters: Path) -> None:
    edit(chapters, r'class="wrong admonition"', 'class="admonition"')
    assert any("wrong and not marked as wrong" in fault for fault in check_site(chapters))


def test_a_macro_that_changes_later_formulas_is_seen(chapters: Path) -> None:
    edit(chapters, r'(<span class="math[^>]*>)', r"\1\\(\\renewcommand{\\odot}{+}\\)")
    assert any("changes what formulas show" in fault for fault in check_site(chapters))
