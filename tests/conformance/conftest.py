"""Shapes and types of the core's signatures are checked at run time in these tests."""

import os

# For the tests of kernels, which may run in the same process: it is read when torch imports triton.
os.environ.setdefault("TRITON_INTERPRET", "1")

from .. import runtime_types  # noqa: F401
