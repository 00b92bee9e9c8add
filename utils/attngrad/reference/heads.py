"""Grouped heads: H query heads that share H_kv heads of keys and values."""

from typing import SupportsIndex

import numpy as np

from attngrad.notation import Float, finite_array, group_size, integer


def expand_kv_heads(
    x: Float[np.ndarray, "*B H_kv M D"], H: SupportsIndex
) -> Float[np.ndarray, "*B H M D"]:
    r"""Return keys or values with one copy for every query head.

    Formula: out[h] = x[h // (H / H_kv)]: consecutive query heads share a head.

    Raises: ShapeError unless H_kv divides H, or with fewer than three axes; DtypeError for other types;
    RangeError for a NaN or infinity.

    >>> x = np.array([1.0, 2.0]).reshape(2, 1, 1)
    >>> expand_kv_heads(x, 4).ravel()
    array([1., 1., 2., 2.])
    """
    x = finite_array("x", x, rank=3)
    group = group_size(integer("H", H, least=1), x.shape[-3])
    return np.repeat(x, group, axis=-3)


def reduce_kv_heads(
    dx: Float[np.ndarray, "*B H M D"], H_kv: SupportsIndex
) -> Float[np.ndarray, "*B H_kv M D"]:
    r"""Return the cotangent of shared keys or values: the sum over the query heads that share them.

    Formula: out[g] = sum of dx[h] over the H / H_kv heads h of group g; the adjoint of `expand_kv_heads`.

    Raises: as `expand_kv_heads`.

    >>> dx = np.array([1.0, 2.0, 3.0, 4.0]).reshape(4, 1, 1)
    >>> reduce_kv_heads(dx, 2).ravel()
    array([3., 7.])
    """
    dx, shared = finite_array("dx", dx, rank=3), integer("H_kv", H_kv, least=1)
    *batch, heads, keys, features = dx.shape
    group = group_size(heads, shared)
    return dx.reshape(*batch, shared, group, keys, features).sum(axis=-3)
