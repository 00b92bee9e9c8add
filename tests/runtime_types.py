"""Checks shapes and types of the core's signatures at run time, in the tests whose conftest imports this."""

import sys

import jaxtyping

CORE = (
    "checks",
    "closed",
    "differentiation",
    "layers",
    "mistakes",
    "monitor",
    "notation",
    "offsets",
    "plots",
    "reference",
    "tasks",
    "tiled",
)

if "attngrad.notation" not in sys.modules:
    jaxtyping.install_import_hook([f"attngrad.{name}" for name in CORE], "beartype.beartype")
