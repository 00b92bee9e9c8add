"""Gradients of attention and of relative position bias: reference, torch layers, checks and proofs.

Importing the package loads none of its modules; each one loads when it is first used.

>>> import attngrad
>>> attngrad.offsets.relative_offset(2, 2)
array([[ 0,  1],
       [-1,  0]])
"""

import importlib
from types import ModuleType

_MODULES = (
    "bench",
    "checks",
    "closed",
    "differentiation",
    "doctor",
    "exercises",
    "kernels",
    "layers",
    "mistakes",
    "monitor",
    "notation",
    "offsets",
    "plots",
    "proofs",
    "reference",
    "tasks",
    "testing",
    "tiled",
)


def __getattr__(name: str) -> ModuleType | str:
    """Load a submodule, or read the installed version, on first use."""
    if name in _MODULES:
        try:
            return importlib.import_module(f"attngrad.{name}")
        except ModuleNotFoundError as missing:
            # So that hasattr answers False; an import statement tries the module itself and shows its error.
            raise AttributeError(f"module 'attngrad' cannot load {name!r}: {missing}") from missing
    if name == "__version__":
        metadata = importlib.import_module("importlib.metadata")
        try:
            return metadata.version("attngrad")
        except metadata.PackageNotFoundError as missing:
            raise AttributeError("attngrad has no version: it is not installed as a package") from missing
    known = ", ".join(_MODULES)
    raise AttributeError(f"module 'attngrad' has no attribute {name!r}; its modules are {known}")


def __dir__() -> list[str]:
    """List the submodules beside what is loaded, so that completion finds them."""
    return sorted({*globals(), *_MODULES, "__version__"})
