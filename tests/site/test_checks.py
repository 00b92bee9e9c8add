"""Each check of a page is shown to fail on a page with the fault that it is there for, and only on that."""

from collections.abc import Callable
from pathlib import Path

import pytest

from booktools import site_checks
from booktools.site_checks import CHECKS, Opened

# One pixel, so that a sound image can stand on a page without a second file.
PIXEL = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"

SOUND = f"""
<h1 id="top">Title</h1> <p>A price of $5 and a_b.</p> <pre>\\frac in code and $x$</pre> <code>\\sum</code>
<a href="#top">up</a> <a href="page.html#top">here</a> <a href="https://example.org/x">outside</a>
<img src="{PIXEL}" alt="a black dot"> <input type="search">
<div style="overflow-x: auto"><div style="width: 2000px">wide, in its own frame</div></div>
"""

PLANTED = {
    "outside_requests": ['<img src="http://127.0.0.1:9/dot.gif" alt="a dot">'],
    "console_errors": [
        "<script>console.error('broken')</script>",
        "<script>throw new Error('broken')</script>",
        '<script src="missing.js"></script>',
    ],
    "raw_tex": [
        r"<p>then \frac{1}{2} remains</p>",
        "<p>then $p_i$ remains</p>",
        r"<p>then \(p\) remains</p>",
        "<p>then p_{i} remains</p>",
        "<p>then $$ remains</p>",
    ],
    "math_faults": [
        r'<div class="math">\[x\]</div>',
        '<span class="math"></span>',
        "<mjx-container><mjx-merror>Missing close brace</mjx-merror></mjx-container>",
        r"<mjx-container><mjx-assistive-mml><math><mtext>\sfotmax</mtext></math></mjx-assistive-mml></mjx-container>",
    ],
    "image_faults": [
        f'<img src="{PIXEL}">',
        f'<img src="{PIXEL}" alt=" ">',
        '<img src="dot.gif" alt="dot.gif">',
        '<img src="dot.gif" alt="../_images/dot.gif">',
    ],
    "broken_links": [
        '<a href="nowhere.html">x</a>',
        '<a href="#nowhere">x</a>',
        '<a href="page.html#nowhere">x</a>',
    ],
    "search_boxes": ['<input type="search">', '<form style="display: none"><input name="q"></form>'],
    "overflow_on_phone": ['<div style="width: 500px; height: 10px; background: red"></div>'],
}


@pytest.fixture
def open_html(open_page: Callable[..., Opened], tmp_path: Path) -> Callable[[str], Opened]:
    """Return a function that opens a page with some HTML in its body."""

    def opened(body: str) -> Opened:
        site_checks.anchors.cache_clear()
        (tmp_path / "dot.gif").write_bytes(b"GIF89a\x01\0\x01\0\0\0\0;")
        path = tmp_path / "page.html"
        head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>T</title>'
        html = f"<!doctype html><html><head>{head}</head><body>{body}</body></html>"
        path.write_text(html, encoding="utf-8")
        return open_page(path)

    return opened


def display(site: Path, tex: str) -> str:
    """Return a displayed formula and the script of the site that sets it."""
    script = (site / "_static" / "mathjax" / "tex-chtml.js").as_uri()
    return rf'<script src="{script}"></script><div class="math">\[{tex}\]</div>'


def test_every_check_has_planted_faults() -> None:
    assert {check.__name__ for check in CHECKS} == set(PLANTED)


def test_a_sound_page_passes(open_html: Callable[[str], Opened]) -> None:
    opened = open_html(SOUND)
    assert [fault for check in CHECKS for fault in check(opened)] == []


@pytest.mark.parametrize(("name", "fault"), [(name, fault) for name in PLANTED for fault in PLANTED[name]])
def test_check_fails_on_its_fault(name: str, fault: str, open_html: Callable[[str], Opened]) -> None:
    opened = open_html(SOUND + fault)
    assert getattr(site_checks, name)(opened), f"{name} did not see {fault}"


@pytest.mark.parametrize(
    ("tex", "said"),
    [(r"\sfotmax(x)", r"unknown command \sfotmax"), (r"\frac{1}", "MathJax error"), (r"{x", "not typeset")],
)
def test_faults_are_seen_in_formulas_that_mathjax_set(
    tex: str, said: str, site: Path, open_html: Callable[[str], Opened]
) -> None:
    told = site_checks.math_faults(open_html(display(site, tex)))
    assert any(said in fault for fault in told), told


def test_a_sound_formula_is_waited_for(site: Path, open_html: Callable[[str], Opened]) -> None:
    opened = open_html(display(site, r"\frac{1}{2} \text{ and } x"))
    assert [fault for check in CHECKS for fault in check(opened)] == []
