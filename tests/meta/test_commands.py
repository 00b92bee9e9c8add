"""What the documents and the workflows tell people to type exists."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from booktools.paths import ROOT

DOCUMENTS = ("README.md", "CONTRIBUTING.md", ".ci/run")
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
WORD = r"(?:[a-z][a-z-]*|[A-Z]+=[^\s`]+)"
COMMAND = re.compile(rf"(?:^|[`\s;&])make ({WORD}(?: {WORD})*)", re.MULTILINE)
ACTION = re.compile(r"[a-z-]+/[a-z-]+@v\d+")


def targets() -> set[str]:
    """Return the targets of the Makefile."""
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def commands(text: str) -> Iterator[str]:
    """Yield the targets that a text, in a code span, a code block or a script, tells to make."""
    fenced = re.findall(r"^```.*?^```", text, re.MULTILINE | re.DOTALL)
    spans = re.findall(r"`[^`\n]+`", text)
    scripts = [text] if "```" not in text and "#!/" in text[:4] else []
    for piece in [*fenced, *spans, *scripts]:
        for words in COMMAND.findall(piece):
            yield from (word for word in words.split() if "=" not in word)


def steps(workflow: dict) -> Iterator[dict]:
    """Yield all steps of a workflow."""
    for job in workflow["jobs"].values():
        yield from job["steps"]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_name_targets_that_exist(name: str) -> None:
    named = set(commands((ROOT / name).read_text()))
    assert {"book", "test"} <= named
    assert named <= targets()


def test_a_target_that_does_not_exist_is_seen() -> None:
    assert set(commands("Type `make bok` or\n```\nmake tset NB=02\n```\n")) == {"bok", "tset"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_run_targets_that_exist(path: Path) -> None:
    scripts = [step.get("run", "") for step in steps(yaml.safe_load(path.read_text()))]
    named = [target for script in scripts for target in re.findall(r"\bmake ([a-z-]+)", script)]
    assert named, "a workflow that makes nothing"
    assert set(named) <= targets()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_pin_actions_by_major_release(path: Path) -> None:
    used = [step["uses"] for step in steps(yaml.safe_load(path.read_text())) if "uses" in step]
    assert used
    assert [name for name in used if ACTION.fullmatch(name) is None] == []


def test_help_lists_every_target() -> None:
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"^ +make ([a-z-]+)", shown, re.MULTILINE)) == targets()
