"""Deliberately wrong variants of the library's functions, each with the check that must reject it.

They exist so that checks can be tested: a check that accepts one of these proves nothing. A variant takes
the arguments of the function that it stands for, named in ``stands_for``.
"""

from attngrad.mistakes.attention import ATTENTION
from attngrad.mistakes.bias import BIAS
from attngrad.mistakes.calculus import CALCULUS
from attngrad.mistakes.positions import POSITIONS
from attngrad.mistakes.record import Mistake
from attngrad.mistakes.softmax import SOFTMAX
from attngrad.mistakes.tables import TABLES
from attngrad.mistakes.training import TRAINING
from attngrad.notation import RangeError

__all__ = ["MISTAKES", "Mistake", "mistake"]

_ALL = (*SOFTMAX, *BIAS, *TABLES, *CALCULUS, *ATTENTION, *POSITIONS, *TRAINING)
MISTAKES = {mistake.id: mistake for mistake in _ALL}


def mistake(id: str) -> Mistake:
    """Return a mistake by its id.

    Raises: RangeError that lists the ids that exist.

    >>> import numpy as np
    >>> mistake("softmax-vjp-elementwise").function(np.array([0.25, 0.75]), np.array([1.0, 0.0]))
    array([0.25, 0.  ])
    """
    if id not in MISTAKES:
        raise RangeError(f"id: expected one of {', '.join(MISTAKES)}, got {id!r}")
    return MISTAKES[id]
