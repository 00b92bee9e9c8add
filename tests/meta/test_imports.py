"""The import star, and what importing the package may load."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import attngrad

PACKAGE = Path(attngrad.__file__).parent

# Which parts of the package each part may import. A part is a module or a subpackage; it may import itself.
STAR = {
    "": set(),
    "notation": set(),
    "offsets": {"notation"},
    "reference": {"notation", "offsets"},
    "proofs": {"notation", "offsets"},
    "closed": {"notation"},
    "tiled": {"notation"},
    "kernels": {"notation", "offsets"},
    "layers": {"notation", "offsets", "closed", "tiled", "kernels"},
    "checks": {"notation"},
    "mistakes": {"notation", "offsets", "reference"},
    "differentiation": {"notation"},
    "plots": {"notation", "offsets", "reference", "differentiation"},
    "tasks": {"notation", "offsets"},
    "bench": {"notation", "reference", "layers", "checks"},
    "exercises": {"notation", "reference", "checks", "mistakes", "proofs"},
    "monitor": {"notation"},
    "doctor": {"notation", "offsets", "reference", "checks", "mistakes", "layers"},
    "testing": {"notation", "doctor"},
}
# What else a part may import when it is loaded. The gate of the proofs reads built pages with bs4; figures
# import matplotlib when they are drawn, benchmarks torch when they run, graders sympy for a formula. The
# doctor imports torch for an implementation that has its tensors, the layers and transformers to examine
# them, and what it writes for others finds a copy of itself under the name doctor_inside.
OUTSIDE = {
    "closed": {"torch"},
    "tiled": {"torch"},
    "kernels": {"torch", "triton"},
    "layers": {"torch"},
    "proofs": {"sympy", "lark", "bs4"},
    "exercises": {"sympy"},
    "monitor": {"torch"},
}
INSIDE_FUNCTIONS = {
    "plots": {"matplotlib"},
    "bench": {"torch", "jax"},
    "doctor": {"torch", "transformers", "doctor_inside"},
    "testing": {"torch"},
}
FREE = sys.stdlib_module_names | {"numpy"}
LIGHT = [
    "", "notation", "offsets", "reference", "checks", "mistakes", "differentiation", "plots", "bench",
    "tasks", "exercises", "doctor", "testing",
]  # fmt: skip
HEAVY = {"torch", "sympy", "lark", "matplotlib", "scipy", "jaxtyping", "beartype", "hypothesis", "pytest"}


def imported(tree: ast.AST, package: str) -> list[str]:
    """Return the absolute names that import statements of a tree load; ``package`` resolves relative ones."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                base = ".".join([*parents[: len(parents) - node.level + 1], *filter(None, [base])])
            inside = base == "attngrad"
            names += [f"{base}.{alias.name}" for alias in node.names] if inside else [base]
    return names


def top_level(tree: ast.Module) -> ast.Module:
    """Return the statements that run on import: those outside functions, and not for type checkers alone."""

    class Strip(ast.NodeTransformer):
        def visit_FunctionDef(self, node):
            return None

        visit_AsyncFunctionDef = visit_FunctionDef

        def visit_If(self, node):
            return None if ast.unparse(node.test) == "TYPE_CHECKING" else self.generic_visit(node)

    return Strip().visit(tree)


def violations(source: str, part: str, package: str) -> list[str]:
    """Return what a source text of a part imports against the rules."""
    found = []
    for name in imported(ast.parse(source), package):
        root, *rest = name.split(".")
        if root == "attngrad":
            other = rest[0] if rest else ""
            if other != part and other not in STAR[part]:
                found.append(f"{part or 'attngrad'} imports attngrad.{other}")
        elif root not in FREE | OUTSIDE.get(part, set()) | INSIDE_FUNCTIONS.get(part, set()):
            found.append(f"{part or 'attngrad'} imports {root}")
    for name in imported(top_level(ast.parse(source)), package):
        root = name.split(".")[0]
        if root not in FREE | {"attngrad"} | OUTSIDE.get(part, set()):
            found.append(f"{part or 'attngrad'} imports {root} when it is loaded")
    return found


def part_of(path: Path) -> tuple[str, str]:
    """Return the part to which a file belongs and the package that holds it."""
    names = path.relative_to(PACKAGE).with_suffix("").parts
    part = "" if names == ("__init__",) else names[0]
    return part, ".".join(["attngrad", *names[:-1]])


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_form_a_star(path):
    part, package = part_of(path)
    assert part in STAR, f"say in STAR what {part} may import"
    assert violations(path.read_text(), part, package) == []


def test_every_part_of_the_star_exists():
    assert {part_of(path)[0] for path in FILES} == set(STAR)


@pytest.mark.parametrize(
    ("part", "source"),
    [
        ("reference", "from attngrad.proofs import sums"),
        ("reference", "from attngrad import layers"),
        ("reference", "import attngrad.checks"),
        ("reference", "from ..checks import report"),
        ("reference", "def f():\n    from attngrad import proofs"),
        ("proofs", "from attngrad.reference import softmax"),
        ("checks", "from attngrad.offsets import causal_mask"),
        ("layers", "from attngrad import reference"),
        ("notation", "import torch"),
        ("reference", "import scipy.special"),
        ("plots", "import matplotlib.pyplot as plt"),
        ("bench", "import torch"),
        ("bench", "from attngrad.proofs import sums"),
        ("plots", "try:\n    import matplotlib\nexcept ImportError:\n    pass"),
        ("mistakes", "class A:\n    import torch"),
        ("", "from attngrad import reference"),
    ],
)
def test_a_planted_import_is_found(part, source):
    assert violations(source, part, f"attngrad.{part}" if part else "attngrad")


@pytest.mark.parametrize(
    ("part", "source"),
    [
        ("reference", "import numpy as np\nfrom attngrad.notation import Float\nfrom .softmax import lse"),
        ("reference", "from attngrad.reference.softmax import lse"),
        ("plots", "def f():\n    import matplotlib.pyplot as plt"),
        ("bench", "def f():\n    import torch\n    from attngrad import layers"),
        ("layers", "import torch\nfrom attngrad import closed"),
        ("bench", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch"),
    ],
)
def test_an_allowed_import_is_not(part, source):
    assert violations(source, part, f"attngrad.{part}") == []


def loaded_by(statement: str) -> set[str]:
    """Return the modules that a fresh process has after a statement."""
    code = f"{statement}\nimport sys\nprint(*sorted(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(run.stdout.split())


def test_importing_the_package_loads_nothing_heavy():
    assert loaded_by("import attngrad") & HEAVY == set()


@pytest.mark.parametrize("part", LIGHT[1:])
def test_light_modules_load_only_numpy(part):
    loaded = loaded_by(f"import attngrad.{part}")
    assert f"attngrad.{part}" in loaded
    assert "numpy" in loaded
    assert loaded & HEAVY == set()


def test_the_torch_face_loads_no_other_part():
    loaded = loaded_by("import attngrad.layers")
    assert "torch" in loaded
    parts = {name.split(".")[1] for name in loaded if name.startswith("attngrad.")}
    assert parts == STAR["layers"] - {"tiled", "kernels"} | {"layers"}


def test_what_a_fresh_process_loads_is_seen():
    assert "torch" in loaded_by("import torch") & HEAVY


@pytest.mark.parametrize(
    ("part", "missing", "extra"),
    [
        ("layers", "torch", "torch"),
        ("monitor", "torch", "torch"),
        ("tiled", "torch", "torch"),
        ("kernels", "torch", "triton"),
        ("proofs", "sympy", "proofs"),
        ("proofs", "lark", "proofs"),
    ],
)
def test_a_part_without_what_it_needs_names_the_extra(part, missing, extra):
    code = f"import sys; sys.modules[{missing!r}] = None\nimport attngrad.{part}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert f"attngrad.{part} needs {missing}, which the extra attngrad[{extra}] brings" in run.stderr


def test_submodules_load_on_first_use():
    code = "import attngrad, sys; assert 'attngrad.checks' not in sys.modules; attngrad.checks.report"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert set(STAR) - {""} <= set(dir(attngrad))
    assert attngrad.__version__.count(".") == 2
    with pytest.raises(AttributeError, match="no attribute 'kernel'; its modules are"):
        _ = attngrad.kernel
