"""The operators that are benchmarked, by name."""

from attngrad.bench.bias_gradient import BIAS_GRADIENT
from attngrad.bench.softmax_vjp import SOFTMAX_VJP
from attngrad.bench.spec import Operator
from attngrad.bench.table_backward import TABLE_BACKWARD
from attngrad.bench.table_gradient import TABLE_GRADIENT
from attngrad.notation import RangeError

ALL = (SOFTMAX_VJP, BIAS_GRADIENT, TABLE_GRADIENT, TABLE_BACKWARD)
OPERATORS = {operator.name: operator for operator in ALL}


def find(name: str) -> Operator:
    """Return an operator by its name.

    Raises: RangeError that lists the names that exist.

    >>> find("softmax")
    Traceback (most recent call last):
    attngrad.notation.RangeError: operator: expected one of 'softmax-vjp', 'bias-gradient', ..., got 'softmax'
    """
    if name not in OPERATORS:
        raise RangeError(f"operator: expected one of {', '.join(map(repr, OPERATORS))}, got {name!r}")
    return OPERATORS[name]
