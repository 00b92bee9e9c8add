"""Rows of a table from offsets: against definitions pair by pair, exact logarithms, and golden values."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attngrad.mistakes import mistake
from attngrad.notation import DtypeError, RangeError, ShapeError
from attngrad.offsets import (
    alibi_slopes,
    clip_offset,
    offset_row,
    packed_offset,
    relative_offset,
    rows_count,
    t5_bucket,
)

offsets = st.lists(st.integers(-400, 400), min_size=1, max_size=20).map(np.array)

# T5Attention._relative_position_bucket of transformers 5.24.0, with 32 buckets up to 128: distance,
# bucket of an earlier and of a later key in both directions, and of an earlier key in one direction.
T5 = [
    (0, 0, 0, 0), (1, 1, 17, 1), (7, 7, 23, 7), (8, 8, 24, 8), (9, 8, 24, 9), (11, 8, 24, 11),
    (12, 9, 25, 12), (15, 9, 25, 15), (16, 10, 26, 16), (22, 10, 26, 18), (23, 11, 27, 18), (31, 11, 27, 21),
    (32, 12, 28, 21), (45, 12, 28, 23), (46, 13, 29, 24), (63, 13, 29, 26), (64, 14, 30, 26),
    (90, 14, 30, 29), (91, 15, 31, 29), (127, 15, 31, 31), (128, 15, 31, 31), (129, 15, 31, 31),
    (600, 15, 31, 31),
]  # fmt: skip
# The distance at which buckets 16 to 31 begin, without later keys, by the same function.
T5_BEGINS = [16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113]


def test_golden_buckets_of_t5():
    distance, earlier, later, alone = np.array(T5).T
    assert t5_bucket(-distance).tolist() == earlier.tolist()
    assert t5_bucket(distance).tolist() == later.tolist()
    assert t5_bucket(-distance, bidirectional=False).tolist() == alone.tolist()
    assert not t5_bucket(distance, bidirectional=False).any()


def test_golden_distances_at_which_buckets_begin():
    bucket = t5_bucket(-np.arange(200), bidirectional=False)
    assert [int((bucket < r).sum()) for r in range(16, 32)] == T5_BEGINS


def floor_of_logarithm(n, exact, last, L):
    """Return floor(L log(n / exact) / log(last / exact)), by powers of fractions."""
    grown, unit, u = Fraction(n, exact) ** L, Fraction(last, exact), 0
    while unit ** (u + 1) <= grown:
        u += 1
    return u


@given(offsets, st.integers(2, 12), st.integers(1, 60), st.booleans())
def test_a_bucket_is_the_floor_of_the_exact_logarithm(offset, buckets, beyond, bidirectional):
    exact = buckets // 2
    last = exact + beyond
    want = []
    for o in offset.tolist():
        n = abs(o) if bidirectional else max(-o, 0)
        far = exact + floor_of_logarithm(max(n, exact), exact, last, buckets - exact)
        bucket = n if n < exact else min(far, buckets - 1)
        want.append(bucket + (buckets if bidirectional and o > 0 else 0))
    rows = 2 * buckets if bidirectional else buckets
    assert t5_bucket(offset, rows, last, bidirectional).tolist() == want


def test_row_16_of_t5_is_never_used_and_every_other_one_is():
    both = t5_bucket(np.arange(-1000, 1001))
    assert sorted(set(range(32)) - set(both.tolist())) == [16]
    assert set(t5_bucket(np.arange(-1000, 1), bidirectional=False).tolist()) == set(range(32))


def test_far_offsets_stay_in_the_last_bucket_of_their_half():
    far = np.array([-(2**61), -(10**9), -129, 129, 10**9, 2**61])
    assert t5_bucket(far).tolist() == [15, 15, 15, 31, 31, 31]
    wrong = mistake("t5-bucket-unclamped").function
    assert wrong(np.array([600, -600])).tolist() == [36, 20]
    inside = np.arange(-127, 128)
    assert wrong(inside).tolist() == t5_bucket(inside).tolist()
    assert wrong(np.array([128, -128])).tolist() == [32, 16]


@pytest.mark.parametrize("rows", [4, 6, 12, 32, 64])
def test_buckets_do_not_fall_as_the_distance_grows(rows):
    bucket = t5_bucket(-np.arange(300), rows, 100)
    assert (np.diff(bucket) >= 0).all()
    assert bucket[-1] == rows // 2 - 1


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.uint8, np.uint64])
def test_offsets_of_any_width_give_the_same_rows(dtype):
    offset = np.array([0, 5, 100], dtype=dtype)
    for function in (t5_bucket, lambda o: clip_offset(o, 7), lambda o: offset_row(o, 100)):
        got = function(offset)
        assert got.dtype == np.int64
        assert got.tolist() == function(offset.astype(np.int64)).tolist()


@given(offsets, st.integers(0, 500))
def test_clipped_offsets_and_their_rows(offset, distance):
    clipped = clip_offset(offset, distance)
    assert clipped.tolist() == [sorted((-distance, o, distance))[1] for o in offset.tolist()]
    assert offset_row(clipped, distance).tolist() == [o + distance for o in clipped.tolist()]


@given(st.integers(0, 6), st.integers(0, 7), st.integers(1, 9), st.integers(0, 50))
def test_rows_are_counted_pair_by_pair(N, M, R, seed):
    row = np.random.default_rng(seed).integers(0, R, (N, M))
    counts = rows_count(row, R)
    assert counts.shape == (R,)
    assert counts.tolist() == [row.ravel().tolist().count(r) for r in range(R)]


@given(st.lists(st.integers(0, 5), max_size=4))
def test_packed_sequences_have_the_offsets_of_their_own(lengths):
    offset, same = packed_offset(lengths)
    assert offset.shape == same.shape == (sum(lengths), sum(lengths))
    start = 0
    for length in lengths:
        part = slice(start, start + length)
        assert offset[part, part].tolist() == relative_offset(length, length).tolist()
        assert same[part, part].all()
        start += length
    assert same.sum() == sum(length**2 for length in lengths)
    if start:
        assert np.abs(offset).max() == max(lengths) - 1


# get_slopes of github.com/ofirpress/attention_with_linear_biases, fairseq/models/transformer.py.
ALIBI = {
    8: [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625],
    12: [
        0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625,
        0.7071067811865476, 0.35355339059327384, 0.17677669529663692, 0.08838834764831849,
    ],
    1: [0.00390625],
    3: [0.0625, 0.00390625, 0.25],
}  # fmt: skip


@pytest.mark.parametrize("H", ALIBI)
def test_golden_slopes_of_alibi(H):
    np.testing.assert_allclose(alibi_slopes(H), ALIBI[H], rtol=1e-14)


@pytest.mark.parametrize("H", [1, 2, 4, 8, 16, 32])
def test_slopes_of_a_power_of_two_are_geometric(H):
    np.testing.assert_allclose(alibi_slopes(H), 2.0 ** (-8.0 / H * np.arange(1, H + 1)), rtol=1e-14)


@given(st.integers(1, 80))
def test_other_numbers_of_heads_take_every_second_slope_of_twice_as_many(H):
    slopes, power = alibi_slopes(H), 2 ** (H.bit_length() - 1)
    assert slopes.shape == (H,)
    assert len(set(slopes.tolist())) == H
    assert slopes.tolist() == [*alibi_slopes(power), *alibi_slopes(2 * power)[::2][: H - power]]


ZEROS = np.zeros((2, 2), dtype=np.int64)
BAD = {
    "float offset": (clip_offset, (np.array([1.0]), 2), DtypeError, "offset: .* integers, got float64"),
    "list of offsets": (t5_bucket, ([1],), DtypeError, "offset: .* NumPy array of integers, got list"),
    "boolean offset": (t5_bucket, (np.array([True]),), DtypeError, "offset: .* integers, got bool"),
    "masked offset": (t5_bucket, (np.ma.array([1]),), DtypeError, "offset: .* got MaskedArray"),
    "large offset": (
        t5_bucket,
        (np.array([[0, 2**62]]),),
        RangeError,
        r"offset: expected integers of at most 2\^61 in size, got 4611686018427387904 at index \(0, 1\)",
    ),
    "negative distance": (clip_offset, (ZEROS, -1), RangeError, "max_distance: .* at least 0, got -1"),
    "float distance": (clip_offset, (ZEROS, 2.0), DtypeError, "max_distance: .* integer, got float 2.0"),
    "outside the table": (
        offset_row,
        (np.array([[0, 2], [-4, 3]]), 3),
        RangeError,
        r"offset: .* from -3 to 3, for which the table of 7 rows has one, got -4 at index \(1, 0\)",
    ),
    "odd buckets": (
        t5_bucket,
        (ZEROS, 31),
        RangeError,
        "num_buckets: .* even number with bidirectional=True, half for each direction, got 31",
    ),
    "two buckets": (t5_bucket, (ZEROS, 2), RangeError, "num_buckets: .* at least 4, got 2"),
    "one bucket": (t5_bucket, (ZEROS, 1, 128, False), RangeError, "num_buckets: .* at least 2, got 1"),
    "short distance": (
        t5_bucket,
        (ZEROS, 32, 8),
        RangeError,
        "max_distance: expected more than 8, the buckets of one distance each, got 8",
    ),
    "no flag": (t5_bucket, (ZEROS, 32, 128, 1), DtypeError, "bidirectional: .* True or False, got int 1"),
    "row beyond": (
        rows_count,
        (np.array([[0, 1], [5, 1]]), 5),
        RangeError,
        r"row: expected rows from 0 to 4, since the table has R = 5, got 5 at index \(1, 0\)",
    ),
    "negative row": (rows_count, (-1 - ZEROS, 5), RangeError, r"row: .* got -1 at index \(0, 0\)"),
    "no table": (rows_count, (ZEROS, 0), RangeError, "row: expected no row, since the table has none, got 0"),
    "row axes": (rows_count, (ZEROS[0], 3), ShapeError, r"row: expected two axes \(N, M\), got shape \(2,\)"),
    "negative length": (packed_offset, ([3, -1],), RangeError, r"lengths\[1\]: .* at least 0, got -1"),
    "float length": (packed_offset, ([3.0],), DtypeError, r"lengths\[0\]: .* integer, got float 3.0"),
    "one length": (packed_offset, (3,), DtypeError, "lengths: expected a sequence of integers, got int"),
    "no heads": (alibi_slopes, (0,), RangeError, "H: expected an integer of at least 1, got 0"),
    "half a head": (alibi_slopes, (0.5,), DtypeError, "H: expected an integer, got float 0.5"),
}


@pytest.mark.usefixtures("raw_errors")
@pytest.mark.parametrize("case", BAD)
def test_bad_arguments_are_named(case):
    function, arguments, error, message = BAD[case]
    with pytest.raises(error, match=message):
        function(*arguments)
