"""What every page of the site must keep, seen in a real browser that opened it from disk.

Each check takes an opened page and returns what is wrong with it, in words; an empty list means nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

from bs4 import BeautifulSoup
from playwright.sync_api import Page

LOCAL_SCHEMES = frozenset({"file", "data", "blob"})
PHONE = {"width": 390, "height": 844}
MATHJAX_IS_DONE = "async () => { if (window.MathJax?.startup) await window.MathJax.startup.promise; }"

RAW_TEX = r"""() => {
  const pattern = /\\[a-zA-Z]{2,}|\\[()[\]]|\$\$|\$[^$\s][^$]*\$|[_^]\{/;
  const exempt = "pre, code, kbd, samp, script, style, template, noscript, textarea, mjx-container";
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!node.parentElement.closest(exempt) && pattern.test(node.data)) found.push(node.data.trim());
  }
  if (pattern.test(document.title)) found.push("title: " + document.title);
  return found;
}"""
# A command that MathJax does not know is set as red text, which only the hidden MathML spells out.
MATH_FAULTS = r"""() => [
  ...[...document.querySelectorAll("mjx-merror, merror, [data-mjx-error]")].map(
    (node) => "MathJax error: " + (node.getAttribute("data-mjx-error") ?? node.textContent)),
  ...[...document.querySelectorAll("mjx-container mtext")].filter(
    (node) => node.textContent.startsWith("\\")).map((node) => "unknown command " + node.textContent),
  ...[...document.querySelectorAll("div.math, span.math")].filter(
    (node) => !node.querySelector("mjx-container")).map((node) => "not typeset: " + node.textContent.trim()),
]"""
IMAGES = """() => [...document.querySelectorAll("img")].map(
  (node) => ({source: node.getAttribute("src") ?? "", alternative: node.getAttribute("alt")}))"""
LINKS = """() => [...document.querySelectorAll("a[href], link[href], [src]")].map(
  (node) => node.getAttribute("href") ?? node.getAttribute("src"))"""
TOO_WIDE = """() => {
  const root = document.documentElement;
  const width = root.clientWidth;
  if (Math.max(root.scrollWidth, document.body.scrollWidth) <= width) return [];
  const wide = [...document.body.querySelectorAll("*")].filter((node) => {
    const box = node.getBoundingClientRect();
    return box.width > 0 && box.right > width + 1;
  });
  const names = wide.slice(0, 5).map((node) => node.tagName.toLowerCase() + "." + node.className);
  return [`the page is ${root.scrollWidth} wide on a screen of ${width}: ${names.join(", ")}`];
}"""
# The page of results repeats the query in a field of its own, above the results.
SEARCH_FIELDS = """() => [...document.querySelectorAll("input[type=search], input[name=q]")].filter(
  (node) => !node.closest("form")?.parentElement.querySelector(":scope > #search-results")).length"""


@dataclass
class Opened:
    """A page in the browser, with all that happened while it was opened."""

    page: Page
    path: Path
    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def open_from_disk(page: Page, path: Path, query: str = "") -> Opened:
    """Open an HTML file and wait until its mathematics is typeset."""
    opened = Opened(page, path)
    page.on("request", lambda request: opened.requests.append(request.url))
    page.on("console", lambda said: opened.errors.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: opened.errors.append(str(error)))
    page.on("requestfailed", lambda request: opened.errors.append(f"not loaded: {request.url}"))
    page.goto(path.resolve().as_uri() + query, wait_until="load")
    page.evaluate(MATHJAX_IS_DONE)
    return opened


def outside_requests(opened: Opened) -> list[str]:
    """Name the requests that left the disk."""
    return [f"asked for {url}" for url in opened.requests if urlsplit(url).scheme not in LOCAL_SCHEMES]


def console_errors(opened: Opened) -> list[str]:
    """Repeat the errors on the console, thrown by scripts, and of files that did not load."""
    return list(opened.errors)


def raw_tex(opened: Opened) -> list[str]:
    """Quote text that still shows TeX; code is exempt."""
    return [f"raw TeX: {text!r}" for text in opened.page.evaluate(RAW_TEX)]


def math_faults(opened: Opened) -> list[str]:
    """Name formulas that MathJax could not read or did not set."""
    return list(opened.page.evaluate(MATH_FAULTS))


def image_faults(opened: Opened) -> list[str]:
    """Name images whose alternative text is missing, empty or the name of their file."""
    told = []
    for image in opened.page.evaluate(IMAGES):
        source, alternative = image["source"], (image["alternative"] or "").strip()
        name = Path(urlsplit(source).path).name
        if not alternative:
            told.append(f"image {source} has no alternative text")
        elif alternative == source or (name and name in alternative):
            told.append(f"image {source} has its own path as alternative text")
    return told


@lru_cache(maxsize=512)
def anchors(path: Path) -> frozenset[str]:
    """Return the anchors of an HTML file."""
    soup = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
    return frozenset(
        str(tag.get("id") or tag.get("name")) for tag in soup.find_all(id=True) + soup.find_all("a")
    )


def broken_links(opened: Opened) -> list[str]:
    """Name internal links to files or anchors that are not there."""
    told = []
    for link in dict.fromkeys(opened.page.evaluate(LINKS)):
        address, anchor = urldefrag(link)
        if urlsplit(address).scheme or address.startswith("//"):
            continue
        local = unquote(urlsplit(address).path)
        target = (opened.path.parent / local).resolve() if local else opened.path
        if not target.is_file():
            told.append(f"link to {link}: there is no such file")
        elif anchor and target.suffix == ".html" and unquote(anchor) not in anchors(target):
            told.append(f"link to {link}: there is no such anchor")
    return told


def search_boxes(opened: Opened) -> list[str]:
    """Say so when there is more than one search box, seen or hidden."""
    count = opened.page.evaluate(SEARCH_FIELDS)
    return [f"{count} search boxes, expected at most 1"] if count > 1 else []


def overflow_on_phone(opened: Opened) -> list[str]:
    """Say so when the page, at the width of a phone, scrolls sideways, and name what is too wide."""
    before = opened.page.viewport_size
    opened.page.set_viewport_size(PHONE)
    told = list(opened.page.evaluate(TOO_WIDE))
    if before is not None:
        opened.page.set_viewport_size(before)
    return told


CHECKS: tuple[Callable[[Opened], list[str]], ...] = (
    outside_requests,
    console_errors,
    raw_tex,
    math_faults,
    image_faults,
    broken_links,
    search_boxes,
    overflow_on_phone,
)
