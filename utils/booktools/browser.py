"""A headless Chromium for the tests of the site: the system's where there is one."""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from booktools.paths import BookError

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MAC_CHROME = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")


def find_browser(environment: Mapping[str, str], own: Path) -> Path:
    """Return the Chromium to use: $CHROMIUM, one on the path, Chrome on macOS, or `own`, Playwright's.

    Raises:
        BookError: there is none, or $CHROMIUM names none.
    """
    if named := environment.get("CHROMIUM"):
        if shutil.which(named) is None:
            raise BookError(f"expected an executable Chromium in $CHROMIUM; got {named!r}")
        return Path(named)
    for name in NAMES:
        if found := shutil.which(name, path=environment.get("PATH", "")):
            return Path(found)
    for path in (MAC_CHROME, own):
        if os.access(path, os.X_OK):
            return path
    raise BookError(
        "the tests of the site need Chromium: install it (on Debian: apt-get install chromium; elsewhere: "
        ".venv/bin/playwright install chromium) or name one, CHROMIUM=/path/to/chromium make test"
    )


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a headless Chromium and end it.

    Raises:
        BookError: there is no Chromium.
    """
    with sync_playwright() as playwright:
        path = find_browser(os.environ, Path(playwright.chromium.executable_path))
        # Chromium refuses its sandbox to root, as which a container runs.
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        started = playwright.chromium.launch(executable_path=str(path), args=options)
        try:
            yield started
        finally:
            started.close()


def main() -> int:
    """Start the browser once and say which one it is, or say in one line why there is none."""
    try:
        with browser() as started:
            print(f"browser: Chromium {started.version}")
    except BookError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
