"""The role {claim}`label` links to the ledger, and a label that is not there fails the strict build."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from booktools.paths import ROOT

LEDGER = "# Ledger\n\n(claim-eq-one)=\n## The first claim\n\nText.\n"


def build(folder: Path, sentence: str) -> subprocess.CompletedProcess[str]:
    """Build two pages strictly with the extension: a sentence, and a ledger that knows eq-one."""
    source = folder / "source"
    source.mkdir()
    (source / "conf.py").write_text("extensions = ['myst_parser', 'booktools.sphinx_claims']\n")
    (source / "index.md").write_text(f"# Page\n\n{sentence}\n\n```{{toctree}}\nledger\n```\n")
    (source / "ledger.md").write_text(LEDGER)
    command = [sys.executable, "-m", "sphinx", "-n", "-W", "--keep-going", "-q", "--no-color"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "utils")}
    words = [*command, str(source), str(folder / "html")]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


def test_a_known_label_is_a_link_to_its_proof(tmp_path: Path) -> None:
    built = build(tmp_path, "Proved: {claim}`eq-one`.")
    assert built.returncode == 0, built.stderr
    soup = BeautifulSoup((tmp_path / "html" / "index.html").read_text(), "html.parser")
    link = next(tag for tag in soup.find_all("a") if tag.get_text() == "eq-one")
    assert link["href"].startswith("ledger.html#")
    anchor = link["href"].partition("#")[2]
    ledger = BeautifulSoup((tmp_path / "html" / "ledger.html").read_text(), "html.parser")
    assert ledger.find(id=anchor) is not None


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ("eq-two", "undefined label: 'claim-eq-two'"),
        ("one", "expected the label of a claim"),
        ("eq-One", "expected the label of a claim"),
    ],
)
def test_an_unknown_or_misspelt_label_fails_the_build(tmp_path: Path, label: str, said: str) -> None:
    built = build(tmp_path, f"Proved: {{claim}}`{label}`.")
    assert built.returncode != 0
    assert said in built.stderr
    assert "index.md:3" in built.stderr
