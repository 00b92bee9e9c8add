"""Tables and slopes that pairs share: copied to many pairs forward, summed over these pairs backward."""

from collections.abc import Sequence
from typing import SupportsIndex

import numpy as np

from attngrad.notation import (
    DtypeError,
    Float,
    Int,
    ShapeError,
    boolean,
    check_same_shape,
    finite_array,
    integer,
)
from attngrad.offsets import multiplicity
from attngrad.offsets.arguments import integer_array, row_array


def _cotangent(dbias: np.ndarray, shape: tuple[int, ...], like: str) -> np.ndarray:
    """Return the cotangent of the bias of all pairs, (N, M) or (H, N, M), summed over a batch."""
    dbias = finite_array("dbias", dbias, rank=2)
    check_same_shape("N and M of dbias", dbias.shape[-2:], like, shape)
    return dbias.sum(axis=tuple(range(dbias.ndim - 3)))


def table_bias(
    table: Float[np.ndarray, "... R"], row: Int[np.ndarray, "N M"]
) -> Float[np.ndarray, "... N M"]:
    r"""Return the bias of every pair: the entry of the table in the pair's row.

    Formula: bias[h, i, j] = table[h, row[i, j]]. A table (R,) gives a bias (N, M), which all heads share.

    Derived in: def-table-bias.

    Raises: ShapeError for a table of other than one or two axes, or rows of other than two; DtypeError for
    other types; RangeError that names a row outside the table, or an entry that is not finite.

    >>> table_bias(np.array([0.5, 2.0]), np.array([[0, 1, 1]]))
    array([[0.5, 2. , 2. ]])
    """
    table = finite_array("table", table)
    if table.ndim > 2:
        raise ShapeError(f"table: expected axes (H, R) or (R,), got shape {table.shape}")
    return table[..., row_array("row", row, table.shape[-1])]


def table_bias_vjp(
    row: Int[np.ndarray, "N M"], dbias: Float[np.ndarray, "... N M"], R: SupportsIndex
) -> Float[np.ndarray, "... R"]:
    r"""Return the cotangent of the table: each pair's is added to its row.

    Formula: dtable[h, r] = sum over pairs (i, j) with row[i, j] = r of dbias[h, i, j], and over all axes in
    front of the heads. It is 0 for a row that no pair has. Pairs are added one after the other, row by row
    of the bias, so that repeated runs agree in every bit. For dbias of shape (N, M) it has the shape (R,).

    Derived in: eq-table-sum, eq-table-heads.

    Raises: ShapeError where dbias and row differ in N or M; else as `table_bias`.

    >>> table_bias_vjp(np.array([[0, 1, 1]]), np.array([[0.5, 2.0, 3.0]]), 3)
    array([0.5, 5. , 0. ])
    """
    rows = integer("R", R, least=0)
    row = row_array("row", row, rows)
    summed = _cotangent(dbias, row.shape, "row")
    dtable = np.zeros((*summed.shape[:-2], rows))
    np.add.at(dtable, (..., row), summed)
    return dtable


def _each(name: str, values: Sequence, rows: Sequence[np.ndarray]) -> None:
    """Require one value for each axis.

    Raises: DtypeError for what is no sequence; ShapeError that says how many of each came.
    """
    for told, sequence in (("rows", rows), (name, values)):
        if not isinstance(sequence, list | tuple):
            raise DtypeError(f"{told}: expected a tuple, one for each axis, got {type(sequence).__name__}")
    if len(values) != len(rows) or not rows:
        raise ShapeError(f"{name}: expected one for each axis of rows, got {len(values)} for {len(rows)}")


def decomposed_bias(
    tables: Sequence[Float[np.ndarray, "..."]], rows: Sequence[Int[np.ndarray, "N M"]]
) -> Float[np.ndarray, "... N M"]:
    r"""Return the bias of every pair as a sum over axes, each with a table of its own.

    Formula: bias[h, i, j] = sum over axes a of tables[a][h, rows[a][i, j]]. In this form no entry of a table
    is multiplied by the query.

    Derived in: def-table-added.

    Raises: ShapeError for another number of tables than rows, or other sizes; else as `table_bias`.

    >>> high, wide = np.array([[0, 0], [1, 1]]), np.array([[0, 1], [0, 1]])
    >>> decomposed_bias((np.array([1.0, 2.0]), np.array([0.0, 10.0])), (high, wide))
    array([[ 1., 11.],
           [ 2., 12.]])
    """
    _each("tables", tables, rows)
    parts = [table_bias(table, row) for table, row in zip(tables, rows, strict=True)]
    for part in parts:
        check_same_shape("bias of an axis", part.shape, "the first", parts[0].shape)
    return np.asarray(sum(parts[1:], start=parts[0]))


def decomposed_bias_vjp(
    rows: Sequence[Int[np.ndarray, "N M"]],
    dbias: Float[np.ndarray, "... N M"],
    sizes: Sequence[SupportsIndex],
) -> tuple[Float[np.ndarray, "..."], ...]:
    r"""Return the cotangent of the table of each axis: a sum does not mix them.

    Formula: dtables[a] = table_bias_vjp(rows[a], dbias, sizes[a]).

    Derived in: eq-table-added, eq-table-added-second.

    Raises: as `decomposed_bias` and `table_bias_vjp`.

    >>> high, wide = np.array([[0, 0], [1, 1]]), np.array([[0, 1], [0, 1]])
    >>> decomposed_bias_vjp((high, wide), np.array([[1.0, 2.0], [3.0, 4.0]]), (2, 2))
    (array([3., 7.]), array([4., 6.]))
    """
    _each("sizes", sizes, rows)
    return tuple(table_bias_vjp(row, dbias, size) for row, size in zip(rows, sizes, strict=True))


def _factor(offset: np.ndarray, signed: bool) -> np.ndarray:
    """Return what the slope of a head is multiplied by, for every pair."""
    offset = integer_array("offset", offset)
    if offset.ndim != 2:
        raise ShapeError(f"offset: expected two axes (N, M), got shape {offset.shape}")
    signed = boolean("signed", signed)
    return np.asarray(offset if signed else -np.abs(offset), dtype=np.float64)


def alibi_bias(
    slopes: Float[np.ndarray, " H"], offset: Int[np.ndarray, "N M"], signed: bool = False
) -> Float[np.ndarray, "H N M"]:
    r"""Return the bias of ALiBi: the slope of the head times minus the distance.

    Formula: bias[h, i, j] = -slopes[h] |offset[i, j]|, or slopes[h] offset[i, j] with signed=True. The two
    agree for keys that are not later. The second differs by a constant in each row from slopes[h] j, which
    BLOOM adds.

    Derived in: def-table-alibi.

    Raises: ShapeError for slopes of other than one axis, or offsets of other than two; DtypeError for other
    types; RangeError for a slope that is not finite.

    >>> alibi_bias(np.array([0.5]), np.array([[-1, 0, 1]]))
    array([[[-0.5,  0. , -0.5]]])
    """
    slopes = finite_array("slopes", slopes)
    if slopes.ndim != 1:
        raise ShapeError(f"slopes: expected one axis (H,), got shape {slopes.shape}")
    return slopes[:, None, None] * _factor(offset, signed)


def alibi_bias_vjp(
    offset: Int[np.ndarray, "N M"], dbias: Float[np.ndarray, "... H N M"], signed: bool = False
) -> Float[np.ndarray, " H"]:
    r"""Return the cotangent of the slopes.

    Formula: dslopes[h] = -sum over pairs of |offset[i, j]| dbias[h, i, j], and over all axes in front of the
    heads; with signed=True the sum of offset[i, j] dbias[h, i, j]. Where each row of dbias sums to zero, a
    constant added to the offsets of a row changes nothing.

    Derived in: eq-table-alibi, eq-table-alibi-causal.

    Raises: ShapeError where dbias has no heads or differs from offset in N or M; else as `alibi_bias`.

    >>> alibi_bias_vjp(np.array([[-1, 0, 1]]), np.array([[[1.0, 2.0, 4.0]]]))
    array([-5.])
    """
    factor = _factor(offset, signed)
    summed = _cotangent(dbias, factor.shape, "offset")
    if summed.ndim != 3:
        raise ShapeError(f"dbias: expected axes (..., H, N, M), got shape {summed.shape}")
    return (factor * summed).sum(axis=(-2, -1))


def offset_sums(
    dbias: Float[np.ndarray, "... N M"], query_start: SupportsIndex | None = None
) -> tuple[Int[np.ndarray, " offsets"], Float[np.ndarray, "... offsets"]]:
    r"""Return every offset that occurs, in increasing order, and the sum of dbias over its pairs.

    Formula: sums[..., o] = sum over i of dbias[..., i, i + query_start + o], a diagonal. The cotangent of any
    table whose rows depend on the offset alone follows: dtable[r] is the sum of those of the offsets in row
    r. So does that of the slopes: -sum of |o| sums[..., o].

    Derived in: eq-table-diagonals, eq-table-regroup.

    Raises: DtypeError, ShapeError or RangeError for what is no finite float array of at least two axes, or
    a query_start that is no integer.

    >>> offsets, sums = offset_sums(np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), query_start=0)
    >>> offsets.tolist(), sums.tolist()
    ([-1, 0, 1, 2], [4.0, 6.0, 8.0, 3.0])
    """
    dbias = finite_array("dbias", dbias, rank=2)
    N, M = dbias.shape[-2:]
    offsets, _ = multiplicity(N, M, query_start)
    diagonals = range(1 - N, M) if len(offsets) else ()
    sums = [np.trace(dbias, offset=k, axis1=-2, axis2=-1) for k in diagonals]
    return offsets, np.stack(sums, axis=-1) if sums else np.zeros((*dbias.shape[:-2], 0))
