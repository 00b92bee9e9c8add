"""Python in a new process, in which some modules cannot be imported."""

import os
import subprocess
import sys
from pathlib import Path

import attngrad

LIBRARY = Path(attngrad.__file__).parent
ABSENT = ("torch", "sympy", "lark", "matplotlib", "jaxtyping", "beartype", "transformers", "scipy")
COMMAND = "from attngrad.doctor.__main__ import main\nsys.exit(main(sys.argv[1:]))"


def python(code, *words, cwd, absent=(), library=False):
    """Run Python code in a new process in which some modules cannot be imported."""
    hidden = "".join(f"sys.modules[{name!r}] = None\n" for name in absent)
    path = {"PYTHONPATH": str(LIBRARY.parent)} if library else {}
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, "-c", f"import sys\n{hidden}{code}", *map(str, words)],
        cwd=cwd, env={**kept, **path}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
