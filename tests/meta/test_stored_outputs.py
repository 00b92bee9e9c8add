"""A number changed in a stored output, text or LaTeX, fails the run that the suite makes of every chapter."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from booktools.execute import execute
from booktools.notebooks import read_notebook, write_notebook
from booktools.paths import ROOT
from booktools.suite import parts

CELLS = (
    ("print('the sum is', 1 + 2)", []),
    ("21 * 2", []),
    ("from IPython.display import Math\nMath(r'\\frac{1}{4}')", []),
    ("print('took', 17, 'ms')", ["nbval-ignore-output"]),
)


def make_notebook(folder: Path) -> Path:
    """Write and run a small chapter."""
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(source, metadata={"tags": tags}) for source, tags in CELLS]
    path = folder / "01_small.ipynb"
    write_notebook(path, notebook)
    execute(path)
    return path


def run_as_the_suite_does(path: Path) -> subprocess.CompletedProcess[str]:
    """Run the suite's own command for chapters on one notebook."""
    (command,) = next(part for part in parts(False, "--nbval") if part.name == "chapters").commands
    kept = [word for word in command[:-1] if not word.startswith("--junitxml")]
    options = ["-n", "0", "-p", "no:cacheprovider", "--rootdir", str(path.parent)]
    settings = ["-c", str(ROOT / "pyproject.toml")]
    words = [sys.executable, *kept[1:], *options, *settings, str(path)]
    return subprocess.run(words, cwd=path.parent, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_notebook(tmp_path_factory.mktemp("small"))


def test_unchanged_outputs_pass(small: Path) -> None:
    ran = run_as_the_suite_does(small)
    assert ran.returncode == 0, ran.stdout
    assert f"{len(CELLS)} passed" in ran.stdout


@pytest.mark.parametrize(
    ("cell", "stored", "changed"),
    [(0, "the sum is 3", "the sum is 4"), (1, "42", "43"), (2, r"\frac{1}{4}", r"\frac{1}{5}")],
    ids=["stream", "value", "latex"],
)
def test_a_changed_number_fails(small: Path, tmp_path: Path, cell: int, stored: str, changed: str) -> None:
    notebook = read_notebook(small)
    (output,) = notebook.cells[cell].outputs
    if output.output_type == "stream":
        output.text = output.text.replace(stored, changed)
    else:
        kind = "text/latex" if "text/latex" in output.data else "text/plain"
        output.data[kind] = output.data[kind].replace(stored, changed)
    path = tmp_path / small.name
    write_notebook(path, notebook)
    assert path.read_text() != small.read_text()
    ran = run_as_the_suite_does(path)
    assert ran.returncode == 1, ran.stdout
    assert re.search(rf"1 failed, {len(CELLS) - 1} passed", ran.stdout), ran.stdout
