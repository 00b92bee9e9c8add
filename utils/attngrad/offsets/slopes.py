"""The slopes of ALiBi."""

from typing import SupportsIndex

import numpy as np

from attngrad.notation import Float, integer


def alibi_slopes(H: SupportsIndex) -> Float[np.ndarray, " H"]:
    """Return the slope of each head, as the code of the paper makes them.

    Formula: m[h] = 2^(-8 (h + 1) / H) for h = 0, ..., H - 1, if H is a power of two. Otherwise, with P the
    power below H, first those of P heads, then the first, third, fifth, ... of those of 2 P heads.

    H is the number of heads of the model. A device that holds some of them takes its part of these slopes:
    those of its own number of heads are others.

    Raises: DtypeError for what is no integer; RangeError for less than 1.

    >>> alibi_slopes(8)
    array([0.5       , 0.25      , 0.125     , 0.0625    , 0.03125   ,
           0.015625  , 0.0078125 , 0.00390625])
    >>> alibi_slopes(3)
    array([0.0625    , 0.00390625, 0.25      ])
    """
    heads = integer("H", H, least=1)
    power = 1 << (heads.bit_length() - 1)
    exponents = [-8 * h / power for h in range(1, power + 1)]
    exponents += [-4 * h / power for h in range(1, 2 * (heads - power), 2)]
    return np.exp2(np.array(exponents))
