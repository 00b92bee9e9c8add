"""Tasks that position alone can solve: copy the tokens that stand at given offsets.

The tokens are drawn anew for every batch, so that no query and no key says where to look.
"""

from collections.abc import Mapping
from typing import SupportsIndex

import numpy as np

from attngrad.notation import (
    DtypeError,
    Float,
    RangeError,
    check_same_shape,
    finite_array,
    finite_number,
    integer,
)
from attngrad.offsets import relative_offset


def copy_weights(N: SupportsIndex, weights: Mapping[int, float]) -> Float[np.ndarray, "N N"]:
    """Return how much of each key a query is to copy, from the weight that each offset has.

    Formula: W_ij = w_{j-i} / sum_l w_{l-i}, the sum over the keys there are. Offsets are key minus query; one
    that is not named has weight 0, and a query whose keys all have weight 0 has a row of zeros.

    Raises: DtypeError unless weights is a mapping from integers to numbers; RangeError for a negative
    weight, one that is not finite, or an offset that no pair of N positions has.

    >>> copy_weights(3, {-1: 1.0})
    array([[0., 0., 0.],
           [1., 0., 0.],
           [0., 1., 0.]])
    """
    N = integer("N", N, least=1)
    if not isinstance(weights, Mapping):
        got = type(weights).__name__
        raise DtypeError(f"weights: expected a mapping from offsets to weights, got {got}")
    by_offset = np.zeros(2 * N - 1)
    for offset, weight in weights.items():
        at = integer("weights: offset", offset)
        if abs(at) >= N:
            raise RangeError(f"weights: expected offsets from {1 - N} to {N - 1}, got {at}")
        by_offset[at + N - 1] = finite_number(f"weights: offset {at}", weight)
        if by_offset[at + N - 1] < 0.0:
            raise RangeError(f"weights: offset {at}: expected a weight of at least 0, got {weight}")
    pairs = by_offset[relative_offset(N, N) + N - 1]
    largest = pairs.max(axis=-1, keepdims=True)
    pairs = pairs / np.where(largest > 0.0, largest, 1.0)
    total = pairs.sum(axis=-1, keepdims=True)
    return pairs / np.where(total > 0.0, total, 1.0)


def copy_batch(
    random: np.random.Generator,
    weights: Float[np.ndarray, "N N"],
    batch: SupportsIndex,
    tokens: SupportsIndex,
) -> tuple[Float[np.ndarray, "B N V"], Float[np.ndarray, "B N V"]]:
    """Return random tokens as one-hot rows, and the mixture of tokens that each query is to give.

    Formula: y = W x for the weights W of `copy_weights`. Rows of y sum to one, or are zero where the row of
    W is; attention with the weights W and the values x attains y exactly.

    Raises: DtypeError for another generator than NumPy's, for weights that are no float array, and sizes that
    are no integers; ShapeError unless weights is one square matrix; RangeError for a size below 1.

    >>> x, y = copy_batch(np.random.default_rng(0), copy_weights(3, {-1: 1.0}), batch=1, tokens=4)
    >>> x.argmax(axis=-1), y[0, 1:].argmax(axis=-1)
    (array([[3, 2, 2]]), array([3, 2]))
    """
    if not isinstance(random, np.random.Generator):
        got = type(random).__name__
        raise DtypeError(f"random: expected a generator of NumPy, such as default_rng(0), got {got}")
    W = finite_array("weights", weights, rank=2)
    check_same_shape("weights", W.shape, "one square matrix", (W.shape[-1], W.shape[-1]))
    sizes = (integer("batch", batch, least=1), W.shape[-1])
    drawn = random.integers(integer("tokens", tokens, least=1), size=sizes)
    x = np.eye(tokens)[drawn]
    return x, W @ x
