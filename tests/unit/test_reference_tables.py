"""Tables, decomposed tables and slopes: sums written out pair by pair, differences, and bad arguments."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attngrad import reference as ref
from attngrad.checks import check_adjoint, check_close, check_vjp
from attngrad.notation import DtypeError, RangeError, ShapeError
from attngrad.offsets import (
    BeitMap,
    ClipMap,
    OffsetMap,
    T5Map,
    WindowMap,
    multiplicity,
    relative_offset,
    rows_count,
    window_axes,
    window_index_2d,
)

B, H, N, M, D, D_V = 2, 3, 5, 7, 4, 6
RNG = np.random.default_rng(0)
MAPS = {
    "offset": OffsetMap(8),
    "clipped": ClipMap(2),
    "T5": T5Map(8, 5),
    "T5, one direction": T5Map(5, 6, False),
}
WINDOWS = {"Swin": WindowMap(2, 3), "video": WindowMap(2, 1, 3), "BEiT": BeitMap(1, 5)}
ROWS = {name: (map(N, M), map.R) for name, map in MAPS.items()} | {
    name: (map(6, 6), map.R) for name, map in WINDOWS.items()
}
some = st.integers(0, 5)


def drawn(*shape, seed=1):
    """Return random floats."""
    return np.random.default_rng(seed).standard_normal(shape)


def pair_by_pair(row, dbias, R):
    """Return the cotangent of the table by its definition, one pair after the other."""
    dtable = np.zeros((dbias.shape[-3], R))
    for place in np.ndindex(dbias.shape):
        *_, h, i, j = place
        dtable[h, row[i, j]] += dbias[place]
    return dtable


@pytest.mark.parametrize("name", ROWS)
def test_a_bias_is_the_entry_in_the_row_of_its_pair(name):
    row, R = ROWS[name]
    table = drawn(H, R)
    bias = ref.table_bias(table, row)
    assert bias.shape == (H, *row.shape)
    for h, i, j in np.ndindex(bias.shape):
        assert bias[h, i, j] == table[h, row[i, j]]
    assert ref.table_bias(table[1], row).tolist() == bias[1].tolist()


@pytest.mark.parametrize("name", ROWS)
def test_the_cotangent_of_a_table_is_the_sum_over_its_pairs(name):
    row, R = ROWS[name]
    dbias = drawn(B, H, *row.shape)
    terms = pair_by_pair(row, np.abs(dbias), R)
    got = ref.table_bias_vjp(row, dbias, R)
    check_close("dtable", got, pair_by_pair(row, dbias, R), terms=terms)
    assert (got[:, rows_count(row, R) == 0] == 0.0).all()
    check_close("of one batch", ref.table_bias_vjp(row, dbias[0], R), pair_by_pair(row, dbias[0], R))
    alone = ref.table_bias_vjp(row, dbias[0, 1], R)
    assert alone.shape == (R,)
    check_close("of one head", alone, pair_by_pair(row, dbias[0, 1:2], R)[0])


@pytest.mark.parametrize("name", ROWS)
def test_gather_and_sum_are_adjoint(name):
    row, R = ROWS[name]
    shape = (H, *row.shape)
    check_adjoint(lambda t: ref.table_bias(t, row), lambda u: ref.table_bias_vjp(row, u, R), (H, R), shape)


@given(some, some, st.integers(1, 6), st.integers(0, 99))
def test_any_rows_at_all(n, m, R, seed):
    rng = np.random.default_rng(seed)
    row, dbias = rng.integers(0, R, (n, m)), rng.integers(-9, 9, (2, 3, n, m)).astype(float)
    assert ref.table_bias_vjp(row, dbias, R).tolist() == pair_by_pair(row, dbias, R).tolist()


@pytest.mark.parametrize("name", ["clipped", "T5", "Swin"])
@pytest.mark.parametrize("shared", [False, True], ids=["table of heads", "one table"])
def test_through_attention_the_table_has_the_gradient_of_differences(name, shared):
    row, R = ROWS[name]
    n, m = row.shape
    q, k, v = drawn(B, H, n, D), drawn(B, H, m, D, seed=2), drawn(B, H, m, D_V, seed=3)

    def saved(table):
        return ref.attention(q, k, v, ref.table_bias(table, row))

    def vjp(table, do):
        return ref.table_bias_vjp(row, ref.attention_vjp(saved(table), do).dbias, R)

    check_vjp(lambda table: saved(table).o, vjp, drawn(*([] if shared else [H]), R, seed=4))


def test_repeated_runs_agree_in_every_bit_and_order_of_pairs_is_that_of_the_bias():
    row, R = ROWS["T5"]
    dbias = drawn(H, N, M) * 10.0 ** drawn(H, N, M, seed=2)
    first = ref.table_bias_vjp(row, dbias, R)
    assert all((ref.table_bias_vjp(row, dbias, R) == first).all() for _ in range(3))
    assert (ref.table_bias_vjp(row, np.asfortranarray(dbias), R) == first).all()
    assert (pair_by_pair(row, dbias, R) == first).all()


@pytest.mark.parametrize("sizes", [(2, 3), (3, 1), (2, 1, 3)], ids=str)
def test_decomposed_tables_are_the_sum_of_tables_of_their_axes(sizes):
    rows, lengths = window_axes(*sizes), [2 * size - 1 for size in sizes]
    tables = [drawn(H, R, seed=R) for R in lengths]
    bias = ref.decomposed_bias(tables, rows)
    for h, i, j in np.ndindex(bias.shape):
        terms = [table[h, row[i, j]] for table, row in zip(tables, rows, strict=True)]
        assert bias[h, i, j] == pytest.approx(sum(terms), abs=1e-14)
    check_vjp(
        lambda *tables: ref.decomposed_bias(tables, rows),
        lambda *args: ref.decomposed_bias_vjp(rows, args[-1], lengths),
        tables,
    )


def test_a_decomposed_table_is_a_full_one_whose_gradient_is_summed_over_the_other_axis():
    (high, wide), sizes = window_axes(3, 4), (5, 7)
    t_high, t_wide = drawn(H, 5), drawn(H, 7, seed=2)
    full = (t_high[:, :, None] + t_wide[:, None, :]).reshape(H, 35)
    row, dbias = window_index_2d(3, 4), drawn(B, H, 12, 12, seed=3)
    bias = ref.decomposed_bias((t_high, t_wide), (high, wide))
    assert bias.tolist() == ref.table_bias(full, row).tolist()
    dfull, terms = (ref.table_bias_vjp(row, x, 35).reshape(H, 5, 7) for x in (dbias, np.abs(dbias)))
    got = ref.decomposed_bias_vjp((high, wide), dbias, sizes)
    check_close("dtable of rows", got[0], dfull.sum(axis=2), terms=terms.sum(axis=2))
    check_close("dtable of columns", got[1], dfull.sum(axis=1), terms=terms.sum(axis=1))


@pytest.mark.parametrize("signed", [False, True])
def test_slopes_multiply_distances(signed):
    offset, slopes, dbias = relative_offset(N, M), drawn(H), drawn(B, H, N, M)
    bias = ref.alibi_bias(slopes, offset, signed)
    for h, i, j in np.ndindex(bias.shape):
        o = j - (i + M - N)
        assert bias[h, i, j] == slopes[h] * (o if signed else -abs(o))
    check_vjp(
        lambda slopes: ref.alibi_bias(slopes, offset, signed),
        lambda slopes, u: ref.alibi_bias_vjp(offset, u, signed),
        slopes,
    )
    want = sum(ref.alibi_bias_vjp(offset, x, signed) for x in dbias)
    check_close(
        "batch", ref.alibi_bias_vjp(offset, dbias, signed), want, terms=np.abs(dbias).sum((0, 2, 3)) * 9
    )


def test_the_forms_of_alibi_send_the_slopes_the_same_gradient_under_a_causal_mask_alone():
    q, k, v = drawn(B, H, N, D), drawn(B, H, M, D, seed=2), drawn(B, H, M, D_V, seed=3)
    offset, slopes, do = relative_offset(N, M), np.abs(drawn(H, seed=4)), drawn(B, H, N, D_V, seed=5)
    position = np.broadcast_to(np.arange(M), (N, M))
    for causal in (True, False):
        found = []
        for factor, signed in ((offset, False), (offset, True), (position, True)):
            saved = ref.attention(q, k, v, ref.alibi_bias(slopes, factor, signed), causal=causal)
            dbias = ref.attention_vjp(saved, do).dbias
            found.append((saved.o, ref.alibi_bias_vjp(factor, dbias, signed)))
        (o, distance), (_, signed_offset), (last, key_position) = found
        terms = np.abs(dbias).sum(axis=(-2, -1)) * M
        check_close("offset or position of the key", key_position, signed_offset, terms=terms)
        assert np.allclose(o, last, rtol=0.0, atol=1e-12) == causal
        assert np.allclose(distance, key_position, rtol=0.0, atol=1e-12) == causal


@given(some, some, st.one_of(st.none(), st.integers(-9, 9)))
def test_offset_sums_are_sums_over_the_pairs_of_an_offset(n, m, query_start):
    dbias = drawn(B, H, n, m)
    offset = relative_offset(n, m, query_start)
    offsets, sums = ref.offset_sums(dbias, query_start)
    assert offsets.tolist() == multiplicity(n, m, query_start)[0].tolist()
    assert sums.shape == (B, H, len(offsets))
    for k, o in enumerate(offsets):
        pairs = dbias[..., offset == o]
        check_close("sum", sums[..., k], pairs.sum(axis=-1), terms=np.abs(pairs).sum(axis=-1))


@pytest.mark.parametrize("query_start", [None, 0, 4, -3])
@pytest.mark.parametrize("name", MAPS)
def test_the_gradient_of_a_map_of_offsets_follows_from_offset_sums(name, query_start):
    map = OffsetMap(20) if name == "offset" else MAPS[name]
    row, dbias = map(N, M, query_start), drawn(H, N, M)
    offsets, sums = ref.offset_sums(dbias, query_start)
    got = np.stack([sums[:, map.of(offsets) == r].sum(axis=-1) for r in range(map.R)], axis=-1)
    terms = ref.table_bias_vjp(row, np.abs(dbias), map.R)
    check_close("dtable", got, ref.table_bias_vjp(row, dbias, map.R), terms=terms)
    slopes = -(np.abs(offsets) * sums).sum(axis=-1)
    offset = relative_offset(N, M, query_start)
    terms = (np.abs(offset) * np.abs(dbias)).sum(axis=(-2, -1))
    check_close("dslopes", slopes, ref.alibi_bias_vjp(offset, dbias), terms=terms)


def test_arguments_are_left_as_they_are():
    row, table, dbias = np.zeros((N, M), dtype=np.int32), drawn(H, 3), drawn(H, N, M)
    kept = [x.copy() for x in (row, table, dbias)]
    bias = ref.table_bias(table, row)
    bias += 1.0
    ref.table_bias_vjp(row, dbias, 3)
    ref.alibi_bias_vjp(row, dbias)
    for x, was in zip((row, table, dbias), kept, strict=True):
        assert (x == was).all()


ROW = np.array([[0, 1, 2], [2, 1, 0]])
BAD = {
    "table: axes": (ref.table_bias, (drawn(2, 2, 3), ROW), ShapeError, r"table: .* \(H, R\) or \(R,\), got"),
    "table: type": (ref.table_bias, (np.ones((2, 3), int), ROW), DtypeError, "table: .* floats, got int64"),
    "table: nan": (ref.table_bias, (np.array([1, np.nan, 2]), ROW), RangeError, r"table: .* index \(1,\)"),
    "row: beyond": (
        ref.table_bias,
        (drawn(2, 2), ROW),
        RangeError,
        r"row: expected rows from 0 to 1, since the table has R = 2, got 2 at index \(0, 2\)",
    ),
    "row: type": (ref.table_bias, (drawn(2, 3), ROW * 1.0), DtypeError, "row: .* integers, got float64"),
    "row: axes": (
        ref.table_bias,
        (drawn(2, 3), ROW[None]),
        ShapeError,
        r"row: .* \(N, M\), got shape \(1, 2",
    ),
    "R: small": (ref.table_bias_vjp, (ROW, drawn(2, 2, 3), 2), RangeError, "row: .* R = 2, got 2"),
    "R: float": (ref.table_bias_vjp, (ROW, drawn(2, 2, 3), 3.0), DtypeError, "R: .* integer, got float 3.0"),
    "dbias: pairs": (
        ref.table_bias_vjp,
        (ROW, drawn(2, 3, 2), 3),
        ShapeError,
        r"N and M of dbias: expected shape \(2, 3\) as for row, got \(3, 2\)",
    ),
    "dbias: axes": (ref.table_bias_vjp, (ROW, drawn(3), 3), ShapeError, "dbias: expected at least 2 axes"),
    "dbias: inf": (
        ref.table_bias_vjp,
        (ROW, np.full((2, 3), np.inf), 3),
        RangeError,
        r"dbias: expected finite",
    ),
    "tables: one": (
        ref.decomposed_bias,
        ((drawn(3),), (ROW, ROW)),
        ShapeError,
        "tables: expected one for each axis of rows, got 1 for 2",
    ),
    "tables: none": (ref.decomposed_bias, ((), ()), ShapeError, "tables: expected one .* got 0 for 0"),
    "tables: heads": (
        ref.decomposed_bias,
        ((drawn(2, 3), drawn(3)), (ROW, ROW)),
        ShapeError,
        r"bias of an axis: expected shape \(2, 2, 3\) as for the first, got \(2, 3\)",
    ),
    "tables: array": (ref.decomposed_bias, (drawn(1, 3), (ROW,)), DtypeError, "tables: .* tuple, .* ndarray"),
    "rows: array": (ref.decomposed_bias_vjp, (ROW, drawn(2, 3), (3,)), DtypeError, "rows: expected a tuple"),
    "sizes: two": (ref.decomposed_bias_vjp, ((ROW,), drawn(2, 3), (3, 3)), ShapeError, "sizes: .* 2 for 1"),
    "slopes: axes": (
        ref.alibi_bias,
        (drawn(2, 1), ROW),
        ShapeError,
        r"slopes: .* \(H,\), got shape \(2, 1\)",
    ),
    "slopes: inf": (ref.alibi_bias, (np.array([np.inf]), ROW), RangeError, r"slopes: .* inf at index \(0,\)"),
    "offset: axes": (
        ref.alibi_bias,
        (drawn(2), ROW[0]),
        ShapeError,
        r"offset: .* \(N, M\), got shape \(3,\)",
    ),
    "offset: type": (ref.alibi_bias, (drawn(2), ROW / 2), DtypeError, "offset: .* integers, got float64"),
    "signed: number": (ref.alibi_bias, (drawn(2), ROW, 1), DtypeError, "signed: .* True or False, got int 1"),
    "dbias: no heads": (ref.alibi_bias_vjp, (ROW, drawn(2, 3)), ShapeError, r"dbias: .* \(..., H, N, M\)"),
    "dbias: offset": (ref.alibi_bias_vjp, (ROW, drawn(1, 2, 2)), ShapeError, r"dbias: .* as for offset, got"),
    "sums: axes": (ref.offset_sums, (drawn(3),), ShapeError, "dbias: expected at least 2 axes"),
    "sums: start": (ref.offset_sums, (drawn(2, 3), 0.0), DtypeError, "query_start: .* got float 0.0"),
}


@pytest.mark.usefixtures("raw_errors")
@pytest.mark.parametrize("case", BAD)
def test_bad_arguments_are_named(case):
    function, arguments, error, message = BAD[case]
    with pytest.raises(error, match=message):
        function(*arguments)
