"""The built site and a browser, shared by the tests of the site."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from booktools.browser import browser as started_browser
from booktools.build import build_if_stale
from booktools.paths import ROOT, SITE
from booktools.site_checks import Opened, open_from_disk


@pytest.fixture(scope="session")
def site() -> Path:
    """Return the folder of the site, built strictly from the sources as they are now."""
    build_if_stale(ROOT)
    return SITE


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Yield one headless Chromium."""
    with started_browser() as started:
        yield started


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Opened]]:
    """Yield a function that opens an HTML file from disk in a fresh page."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield lambda path, query="": open_from_disk(context.new_page(), path, query)
    context.close()
