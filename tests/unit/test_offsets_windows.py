"""Rows of windows against their definitions, token by token, and golden values of Swin and BEiT."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attngrad.notation import DtypeError, RangeError
from attngrad.offsets import beit_index, rows_count, window_axes, window_index_2d, window_index_3d

sizes = st.integers(1, 5)

# Swin's relative_position_index for a window of 2 by 2, and transformers 5.24.0 for one of 2 by 3.
SWIN = {
    (2, 2): [[4, 3, 1, 0], [5, 4, 2, 1], [7, 6, 4, 3], [8, 7, 5, 4]],
    (2, 3): [
        [7, 6, 5, 2, 1, 0], [8, 7, 6, 3, 2, 1], [9, 8, 7, 4, 3, 2],
        [12, 11, 10, 7, 6, 5], [13, 12, 11, 8, 7, 6], [14, 13, 12, 9, 8, 7],
    ],
}  # fmt: skip
# BeitRelativePositionBias.generate_relative_position_index of transformers 5.24.0.
BEIT = {
    (1, 2): [[5, 3, 3], [4, 1, 0], [4, 2, 1]],
    (2, 2): [[11, 9, 9, 9, 9], [10, 4, 3, 1, 0], [10, 5, 4, 2, 1], [10, 7, 6, 4, 3], [10, 8, 7, 5, 4]],
}


def tokens(*shape):
    """Return the coordinates of every token, the last axis first."""
    return list(itertools.product(*(range(size) for size in shape)))


def row_of(query, key, shape):
    """Return the row of a pair: digits of the offsets, the last axis in the last place."""
    row = 0
    for at, to, size in zip(query, key, shape, strict=True):
        row = row * (2 * size - 1) + (at - to + size - 1)
    return row


@pytest.mark.parametrize("size", SWIN, ids=str)
def test_golden_index_of_swin(size):
    assert window_index_2d(*size).tolist() == SWIN[size]


@pytest.mark.parametrize("size", BEIT, ids=str)
def test_golden_index_of_beit(size):
    assert beit_index(*size).tolist() == BEIT[size]


def test_swin_with_windows_of_7():
    index = window_index_2d(7, 7)
    R, center = 13 * 13, 84
    assert (index.min(), index.max(), np.diag(index).tolist()) == (0, R - 1, [center] * 49)
    assert (index[0, 48], index[48, 0], index[0, 1], index[0, 7]) == (0, R - 1, center - 1, center - 13)
    assert (index + index.T == R - 1).all()
    along = 7 - np.abs(np.arange(-6, 7))
    assert rows_count(index, R).tolist() == np.outer(along, along).ravel().tolist()


@given(sizes, sizes)
def test_rows_of_an_image_are_those_of_its_offsets(height, width):
    shape = (height, width)
    want = [[row_of(query, key, shape) for key in tokens(*shape)] for query in tokens(*shape)]
    assert window_index_2d(height, width).tolist() == want


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4))
def test_rows_of_a_video_are_those_of_its_offsets(depth, height, width):
    shape = (depth, height, width)
    want = [[row_of(query, key, shape) for key in tokens(*shape)] for query in tokens(*shape)]
    got = window_index_3d(*shape)
    assert got.tolist() == want
    assert set(got.ravel().tolist()) == set(range(math.prod(2 * size - 1 for size in shape)))


def test_a_video_of_one_image_has_the_rows_of_the_image():
    assert window_index_3d(1, 3, 4).tolist() == window_index_2d(3, 4).tolist()
    assert window_index_3d(3, 1, 4).tolist() == window_index_2d(3, 4).tolist()


@given(st.lists(st.integers(1, 3), min_size=1, max_size=3))
def test_each_axis_has_rows_of_its_own(shape):
    places = tokens(*shape)
    axes = window_axes(*shape)
    assert len(axes) == len(shape)
    for a, (row, size) in enumerate(zip(axes, shape, strict=True)):
        assert row.tolist() == [[query[a] - key[a] + size - 1 for key in places] for query in places]
        assert row.min() == 0
        assert row.max() == 2 * size - 2


@given(sizes, sizes)
def test_the_class_token_has_three_rows_of_its_own(height, width):
    index, patches = beit_index(height, width), height * width
    R = (2 * height - 1) * (2 * width - 1) + 3
    assert index[1:, 1:].tolist() == window_index_2d(height, width).tolist()
    assert rows_count(index, R)[R - 3 :].tolist() == [patches, patches, 1]
    assert (index[0, 0], set(index[0, 1:].tolist()), set(index[1:, 0].tolist())) == (R - 1, {R - 3}, {R - 2})


def test_beit_at_its_own_size():
    index = beit_index(14, 14)
    assert index.shape == (197, 197)
    assert [int(index[at]) for at in ((0, 5), (5, 0), (0, 0))] == [729, 730, 731]


@pytest.mark.usefixtures("raw_errors")
@pytest.mark.parametrize(
    ("function", "arguments", "error", "message"),
    [
        (window_index_2d, (0, 3), RangeError, r"sizes\[0\]: expected an integer of at least 1, got 0"),
        (window_index_2d, (3, -2), RangeError, r"sizes\[1\]: expected an integer of at least 1, got -2"),
        (window_index_2d, (2.0, 3), DtypeError, r"sizes\[0\]: expected an integer, got float 2.0"),
        (window_index_3d, (2, 3, True), DtypeError, r"sizes\[2\]: expected an integer, got bool True"),
        (beit_index, (2, "3"), DtypeError, r"sizes\[1\]: expected an integer, got str '3'"),
        (window_axes, (), RangeError, "sizes: expected the size of at least one axis, got none"),
        (window_axes, (2**62,), RangeError, r"sizes\[0\]: expected an integer of at most 2\^61 in size"),
    ],
)
def test_bad_sizes_are_named(function, arguments, error, message):
    with pytest.raises(error, match=message):
        function(*arguments)
