"""Every page of the built site, opened from disk in a browser, passes every check."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Browser

from booktools.paths import ROOT
from booktools.site_checks import CHECKS, Opened

BESIDE_THE_BOOK = ("genindex.html", "search.html", "prf-prf.html")


def table_of_contents() -> Iterator[str]:
    """Yield the HTML file of each page in _toc.yml."""
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    yield f"{contents['root']}.html"
    for part in contents["parts"]:
        yield from (f"{chapter['file']}.html" for chapter in part["chapters"])


PAGES = (*table_of_contents(), *BESIDE_THE_BOOK)


@pytest.mark.parametrize("name", PAGES)
def test_page_passes_every_check(name: str, site: Path, open_page: Callable[..., Opened]) -> None:
    opened = open_page(site / name)
    told = [f"{check.__name__}: {fault}" for check in CHECKS for fault in check(opened)]
    assert not told, f"{name}:\n" + "\n".join(told)


def test_no_page_is_left_out(site: Path) -> None:
    built = {str(path.relative_to(site)) for path in site.rglob("*.html") if "_static" not in path.parts}
    assert built == {*PAGES, "index.html"}


def test_the_address_that_is_printed_leads_to_the_book(site: Path, browser: Browser) -> None:
    page = browser.new_page()
    page.goto((site / "index.html").as_uri(), wait_until="commit")
    page.wait_for_url(f"**/{PAGES[0]}")
    assert "Where the Gradient Goes" in page.title()
    page.close()


def test_mathematics_is_set(site: Path, open_page: Callable[..., Opened]) -> None:
    chapter = next(name for name in PAGES if name.startswith("chapters/"))
    page = open_page(site / chapter).page
    assert page.locator("div.math mjx-container").count() > 0
    assert page.locator("div.math mjx-container").first.bounding_box()["width"] > 10


@pytest.mark.parametrize("query", ["jacobian", "softmax"])
def test_search_works_from_disk(query: str, site: Path, open_page: Callable[..., Opened]) -> None:
    opened = open_page(site / "search.html", f"?q={query}")
    opened.page.wait_for_selector("#search-results li a")
    assert "softmax" in opened.page.locator("#search-results").inner_text().lower()
    assert not opened.errors


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_a_wrong_formula_is_marked_by_word_and_colour(
    mode: str, site: Path, open_page: Callable[..., Opened], tmp_path: Path
) -> None:
    sheets = "".join(f'<link rel="stylesheet" href="{path.as_uri()}">' for path in style_sheets(site))
    html = tmp_path / "wrong.html"
    html.write_text(
        f'<html data-theme="{mode}"><head>{sheets}</head><body><div class="admonition wrong">'
        '<p class="admonition-title">Wrong: forgets the sum</p><p>text</p></div></body></html>'
    )
    page = open_page(html).page
    border, body = page.evaluate(
        """() => [getComputedStyle(document.querySelector(".wrong")).borderLeftColor,
                  getComputedStyle(document.querySelector(".wrong p:last-child")).color]"""
    )
    red, green, blue = (int(number) for number in border.removeprefix("rgb(").removesuffix(")").split(","))
    assert red > green + 80, border
    assert red > blue + 80, border
    assert border != body


def style_sheets(site: Path) -> list[Path]:
    """Return the style sheets that colour an admonition."""
    styles = site / "_static" / "styles"
    return [
        styles / "pydata-sphinx-theme.css",
        styles / "sphinx-book-theme.css",
        site / "_static" / "book.css",
    ]
