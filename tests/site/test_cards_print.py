"""The page of cards prints on two pages of A4, whole and readable."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

from booktools.site_checks import Opened

PAGES = 2
A4 = (595, 842)  # in points
POINT = 96 / 72  # pixels of the browser
INSIDE = 194  # millimetres between the margins
SMALLEST = 6.0  # points

# What hangs over the edge of its card, in the column of a printed page; MathML is there for screen readers.
CUT = """() => [...document.querySelectorAll("#cards > section > section *")]
  .filter((node) => !node.closest("mjx-assistive-mml") && node.getClientRects().length)
  .filter((node) => node.getBoundingClientRect().right >
    node.closest("#cards > section > section").getBoundingClientRect().right)
  .map((node) => node.tagName.toLowerCase() + ": " + node.textContent.trim().slice(0, 60))"""
SIZES = """() => [...document.querySelectorAll("#cards :is(h3, p, dt, dd, pre)")]
  .filter((node) => node.getClientRects().length)
  .map((node) => parseFloat(getComputedStyle(node).fontSize))"""
COLOURS = """() => [...new Set(
  [...document.querySelectorAll("#cards :is(h3, p, dt, pre, pre span, a, mjx-container)")]
  .map((node) => getComputedStyle(node).color))]"""
SEEN = """() => [...document.querySelectorAll("nav, header, footer, button, .bd-sidebar")]
  .filter((node) => node.checkVisibility()).map((node) => node.tagName + "." + node.className)"""


@pytest.fixture
def cards(site: Path, open_page: Callable[..., Opened]) -> Page:
    """Return the opened page of cards."""
    return open_page(site / "book" / "cards.html").page


@pytest.fixture
def on_paper(cards: Page) -> Page:
    """Return the page of cards as it is laid out on paper, all of it on one endless sheet."""
    cards.emulate_media(media="print")
    cards.set_viewport_size({"width": round(INSIDE / 25.4 * 96), "height": 1000})
    return cards


def sheets(page: Page) -> list[tuple[int, int]]:
    """Print a page, and return the size of each sheet in points."""
    pdf = page.pdf(prefer_css_page_size=True)
    boxes = re.findall(rb"/Type\s*/Page\b.*?/MediaBox\s*\[0 0 ([0-9.]+) ([0-9.]+)\]", pdf, re.DOTALL)
    counted = [int(number) for number in re.findall(rb"/Type\s*/Pages\b.*?/Count (\d+)", pdf, re.DOTALL)]
    assert len(boxes) == max(counted), "the sheets of the printed file cannot be counted"
    return [(round(float(width)), round(float(height))) for width, height in boxes]


def test_the_cards_print_on_two_pages_of_a4(cards: Page) -> None:
    found = sheets(cards)
    assert 1 <= len(found) <= PAGES
    assert set(found) == {A4}


def test_more_cards_than_two_pages_hold_are_seen(cards: Page) -> None:
    more = """() => { const all = document.querySelector("#cards");
      for (const card of [...document.querySelectorAll("#cards > section > section")])
        for (let copy = 0; copy < 3; copy++) all.lastElementChild.append(card.cloneNode(true)); }"""
    cards.evaluate(more)
    assert len(sheets(cards)) > PAGES


def test_another_size_of_paper_is_seen(cards: Page) -> None:
    cards.add_style_tag(content="@page cards { size: letter; }")
    assert A4 not in sheets(cards)


def test_nothing_is_cut_off_and_all_can_be_read(on_paper: Page) -> None:
    assert on_paper.evaluate(CUT) == []
    assert min(on_paper.evaluate(SIZES)) >= SMALLEST * POINT


@pytest.mark.parametrize("tag", ["mjx-container", "pre"])
def test_what_is_wider_than_its_column_is_seen(tag: str, on_paper: Page) -> None:
    plant = """(tag) => { const wide = document.createElement("div"); wide.style.width = "120mm";
      wide.style.height = "1px"; document.querySelector("#cards " + tag).append(wide); }"""
    on_paper.evaluate(plant, tag)
    assert on_paper.evaluate(CUT)


def test_small_print_is_seen(on_paper: Page) -> None:
    on_paper.add_style_tag(content="@media print { #cards dd { font-size: 5pt; } }")
    assert min(on_paper.evaluate(SIZES)) < SMALLEST * POINT


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_the_print_is_black_on_white_from_either_mode(mode: str, on_paper: Page) -> None:
    on_paper.evaluate("(mode) => { document.documentElement.dataset.theme = mode; }", mode)
    assert on_paper.evaluate(COLOURS) == ["rgb(0, 0, 0)"]
    on_paper.emulate_media(media="screen")
    assert len(on_paper.evaluate(COLOURS)) > 1


def test_navigation_stays_on_the_screen(on_paper: Page) -> None:
    assert on_paper.evaluate(SEEN) == []
    assert on_paper.locator("#cards > h1").is_visible()
    on_paper.emulate_media(media="screen")
    assert on_paper.evaluate(SEEN)
