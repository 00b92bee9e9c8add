"""Shapes and types of the core's signatures are checked at run time in these tests; kernels run on a CPU."""

import os
import sys
from collections.abc import Iterator

# Read when triton is imported, by torch too: its interpreter runs kernels on the CPU.
os.environ.setdefault("TRITON_INTERPRET", "1")

import jaxtyping
import pytest

from .. import runtime_types  # noqa: F401


@pytest.fixture
def raw_errors() -> Iterator[None]:
    """Switch the run-time checker off, so that the library's own errors are seen."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    """Close what a test has drawn."""
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")
