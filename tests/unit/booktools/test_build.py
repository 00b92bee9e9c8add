"""The site is built anew whenever anything that it is made from has changed, and only then."""

import zipfile
from pathlib import Path

import pytest

from booktools import build as tool
from booktools.build import archive, build_if_stale, failure, fingerprint, is_fresh

FILES = ("_config.yml", "_toc.yml", "book/intro.md", "book/_static/book.css", "chapters/01_one.ipynb")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("one")
    return tmp_path


@pytest.mark.parametrize("name", [*FILES, "utils/attngrad/new.py", "book/references.bib"])
def test_every_source_counts(tree: Path, name: str) -> None:
    before = fingerprint(tree)
    (tree / name).parent.mkdir(parents=True, exist_ok=True)
    (tree / name).write_text("two")
    assert fingerprint(tree) != before


def test_what_is_no_source_does_not_count(tree: Path) -> None:
    before = fingerprint(tree)
    (tree / "notes.md").write_text("x")
    assert fingerprint(tree) == before


def test_a_fresh_site_is_left_alone(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = []

    def fake_build(root: Path) -> None:
        built.append(root)
        (root / "_build" / "fingerprint").write_text(fingerprint(root))

    monkeypatch.setattr(tool, "build", fake_build)
    assert not is_fresh(tree)
    assert [build_if_stale(tree), build_if_stale(tree)] == [True, False]
    (tree / "book/intro.md").write_text("two")
    assert build_if_stale(tree)
    assert built == [tree, tree]


def test_a_failed_build_names_its_warnings() -> None:
    warning = "book/a.md:3: WARNING: undefined label: 'x'"
    assert failure(["reading", warning, warning], Path("build.log")).count("undefined label") == 1
    assert "the end" in failure(["start", "the end"], Path("build.log"))


def test_equal_sites_give_equal_archives(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("archives")
    archive(tree, folder / "one.zip")
    (tree / "_config.yml").touch()
    archive(tree, folder / "two.zip")
    assert (folder / "one.zip").read_bytes() == (folder / "two.zip").read_bytes()
    assert "where-the-gradient-goes/book/intro.md" in zipfile.ZipFile(folder / "one.zip").namelist()
