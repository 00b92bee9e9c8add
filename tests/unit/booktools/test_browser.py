"""The browser is found where it is, and its absence is said in one line."""

from pathlib import Path

import pytest

from booktools import browser
from booktools.browser import find_browser
from booktools.paths import BookError


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def no_chrome_of_the_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser, "MAC_CHROME", tmp_path / "no-such-application")


def test_the_order_is_variable_path_own(tmp_path: Path) -> None:
    named = executable(tmp_path / "named")
    on_path = executable(tmp_path / "bin" / "google-chrome")
    own = executable(tmp_path / "own")
    path = {"PATH": str(on_path.parent)}
    assert find_browser({"CHROMIUM": str(named), **path}, own) == named
    assert find_browser(path, own) == on_path
    assert find_browser({"PATH": ""}, own) == own


def test_none_at_all_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(BookError, match="need Chromium: install it") as caught:
        find_browser({"PATH": ""}, tmp_path / "none")
    assert "\n" not in str(caught.value)


def test_a_variable_that_names_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BookError, match=r"executable Chromium in \$CHROMIUM; got '/no/such'"):
        find_browser({"CHROMIUM": "/no/such"}, executable(tmp_path / "own"))
