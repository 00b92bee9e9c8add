"""The normal form: sums with Kronecker deltas, integer tables and symbolic limits, decided for every size.

``normal`` has the entry points, ``terms`` and ``algebra`` the arithmetic, ``collapse`` what deltas and
rules do to a sum, ``naming`` the least renaming of bound letters, ``powers`` and ``functions`` quotients
and logarithms, ``spans`` the ranges, ``reading`` the way from SymPy and back. SymPy is used as a tree only.
"""

from .nodes import Norm2, Partial
from .normal import is_zero, normal_form
from .rules import PowerRule, RowSumRule, Rule, SumRule
from .spans import Scope
from .terms import CannotDecide

__all__ = [
    "CannotDecide",
    "Norm2",
    "Partial",
    "PowerRule",
    "RowSumRule",
    "Rule",
    "Scope",
    "SumRule",
    "is_zero",
    "normal_form",
]
