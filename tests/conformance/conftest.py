"""Shapes and types of the core's signatures are checked at run time in these tests."""

import sys

import jaxtyping

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
)

if "attngrad.notation" not in sys.modules:
    jaxtyping.install_import_hook([f"attngrad.{name}" for name in CORE], "beartype.beartype")
