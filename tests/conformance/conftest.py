"""Shapes and types of the core's signatures are checked at run time in these tests."""

from .. import runtime_types  # noqa: F401
