"""Shapes and types of the core's signatures are checked at run time in these tests."""

import sys
from collections.abc import Iterator

import jaxtyping
import pytest

CORE = (
    "checks",
    "closed",
    "differentiation",
    "layers",
    "mistakes",
    "notation",
    "offsets",
    "plots",
    "reference",
    "tasks",
)

if "attngrad.notation" not in sys.modules:
    jaxtyping.install_import_hook([f"attngrad.{name}" for name in CORE], "beartype.beartype")


@pytest.fixture
def raw_errors() -> Iterator[None]:
    """Switch the run-time checker off, so that the library's own errors are seen."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
