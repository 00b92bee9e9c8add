"""Maps: the rows of the functions that they stand for, inside the number of rows that they name."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attngrad.notation import DtypeError, RangeError, ShapeError
from attngrad.offsets import (
    AlibiMap,
    BeitMap,
    ClipMap,
    OffsetMap,
    T5Map,
    WindowMap,
    alibi_slopes,
    beit_index,
    clip_offset,
    relative_offset,
    t5_bucket,
    window_index_2d,
    window_index_3d,
)

lengths = st.integers(0, 7)
starts = st.one_of(st.none(), st.integers(-9, 9))


@given(lengths, lengths, starts, st.integers(0, 4))
def test_maps_of_offsets_look_at_the_position_of_the_query(N, M, query_start, distance):
    offset = relative_offset(N, M, query_start)
    reach = int(np.abs(offset).max(initial=0)) + 1
    wanted = {
        OffsetMap(reach): offset + reach - 1,
        ClipMap(distance): clip_offset(offset, distance) + distance,
        T5Map(8, 5): t5_bucket(offset, 8, 5),
        T5Map(5, 6, False): t5_bucket(offset, 5, 6, False),
    }
    for map, want in wanted.items():
        got = map(N, M, query_start)
        assert got.tolist() == want.tolist() == map.of(offset).tolist(), map
        assert got.shape == (N, M)
        assert got.size == 0 or (0 <= got.min() and got.max() < map.R), map


@pytest.mark.parametrize(
    ("map", "R"),
    [
        (OffsetMap(1), 1), (OffsetMap(5), 9), (ClipMap(0), 1), (ClipMap(3), 7), (T5Map(), 32),
        (T5Map(7, 9, False), 7), (WindowMap(7, 7), 169), (WindowMap(2, 3, 4), 105), (BeitMap(14, 14), 732),
    ],
    ids=str,
)  # fmt: skip
def test_the_number_of_rows_is_the_least_that_holds_all(map, R):
    assert map.R == R
    if isinstance(map, WindowMap | BeitMap):
        n = int(np.prod(map.sizes)) if isinstance(map, WindowMap) else 1 + map.height * map.width
        row = map(n, n)
    else:
        row = map(R, R) if isinstance(map, ClipMap | T5Map) else map(map.max_len, map.max_len)
    assert row.min() == 0
    assert row.max() == R - 1 if not isinstance(map, T5Map) else row.max() < R


def test_t5_reaches_its_last_row_from_far_keys():
    assert T5Map().of(np.array([128])).tolist() == [31]
    assert T5Map(7, 9, False).of(np.array([-9])).tolist() == [6]


def test_windows_have_the_rows_of_their_functions():
    assert WindowMap(2, 3)(6, 6).tolist() == window_index_2d(2, 3).tolist()
    assert WindowMap(2, 1, 3)(6, 6, 0).tolist() == window_index_3d(2, 1, 3).tolist()
    assert BeitMap(2, 3)(7, 7).tolist() == beit_index(2, 3).tolist()
    assert AlibiMap(12).slopes.tolist() == alibi_slopes(12).tolist()
    assert AlibiMap(12).R is None


def test_equal_maps_are_equal_and_print_as_they_are_made():
    assert WindowMap(2, 3) == WindowMap(np.int64(2), 3) != WindowMap(3, 2)
    assert repr(WindowMap(2, 3)) == "WindowMap(2, 3)"
    assert len({T5Map(), T5Map(32, 128), ClipMap(3), ClipMap(3), OffsetMap(3)}) == 3


@pytest.mark.usefixtures("raw_errors")
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: OffsetMap(0), RangeError, "max_len: expected an integer of at least 1, got 0"),
        (lambda: OffsetMap(2.0), DtypeError, "max_len: expected an integer, got float 2.0"),
        (
            lambda: OffsetMap(3)(4, 4),
            RangeError,
            r"offset: .* from -2 to 2, for which the table of 5 rows has one, got 3 at index \(0, 3\)",
        ),
        (lambda: ClipMap(-1), RangeError, "max_distance: expected an integer of at least 0, got -1"),
        (lambda: T5Map(31), RangeError, "num_buckets: expected an even number .*, got 31"),
        (lambda: T5Map(32, 8), RangeError, "max_distance: expected more than 8, .* got 8"),
        (lambda: T5Map(bidirectional="no"), DtypeError, "bidirectional: .* got str 'no'"),
        (lambda: WindowMap(3), RangeError, "sizes: expected two or three, got 1"),
        (lambda: WindowMap(3, 0), RangeError, r"sizes\[1\]: expected an integer of at least 1, got 0"),
        (
            lambda: WindowMap(2, 3)(6, 5),
            ShapeError,
            r"WindowMap\(2, 3\): expected N = M = 6, all tokens of the window, got N, M = \(6, 5\)",
        ),
        (lambda: BeitMap(2, 3)(6, 6), ShapeError, r"BeitMap\(height=2, width=3\): expected N = M = 7, all"),
        (lambda: WindowMap(2, 3)(6, 6, 1), RangeError, "query_start: expected None or 0 in a window, got 1"),
        (lambda: BeitMap(0, 3), RangeError, "height: expected an integer of at least 1, got 0"),
        (lambda: AlibiMap(0), RangeError, "heads: expected an integer of at least 1, got 0"),
        (lambda: AlibiMap(2, 1), DtypeError, "learned: expected True or False, got int 1"),
        (lambda: T5Map()(3, -1), RangeError, "M: expected an integer of at least 0, got -1"),
    ],
)
def test_bad_sizes_are_named(call, error, message):
    with pytest.raises(error, match=message):
        call()
