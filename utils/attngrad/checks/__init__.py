"""Checks that can fail: one table of tolerances, derivative checks, error budgets, and printed reports.

Functions arrive as arguments, and arrays as anything that NumPy can read; torch tensors are detached.
A check that a gradient of zero would pass is an error, unless ``nonzero=False`` says that zero is meant.
"""

from attngrad.checks.budget import error_budget
from attngrad.checks.compare import check_close
from attngrad.checks.derivatives import check_adjoint, check_jvp, check_vjp
from attngrad.checks.printing import expect_error, format_value, report
from attngrad.checks.tolerances import STEP, TOLERANCES, UNIT_ROUNDOFF, Tolerance

__all__ = [
    "STEP",
    "TOLERANCES",
    "UNIT_ROUNDOFF",
    "Tolerance",
    "check_adjoint",
    "check_close",
    "check_jvp",
    "check_vjp",
    "error_budget",
    "expect_error",
    "format_value",
    "report",
]
