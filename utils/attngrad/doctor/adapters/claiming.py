"""A specification beside a callable."""

from collections.abc import Callable
from typing import Any

from attngrad.doctor.spec import Spec


def claims(**fields: Any) -> Callable[[Callable], Callable]:
    """Return a decorator that gives a callable the specification of some fields.

    Raises: DtypeError or RangeError as `Spec`.

    >>> @claims(scale="default")
    ... def attention(q, k, v): ...
    >>> attention.spec.scale
    'default'
    """
    spec = Spec(**fields)

    def attached(function: Callable) -> Callable:
        """Attach it."""
        function.spec = spec
        return function

    return attached
