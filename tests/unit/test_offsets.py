"""Offsets, causal masks and multiplicities against their definitions, pair by pair."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attngrad.notation import DtypeError, RangeError
from attngrad.offsets import causal_mask, multiplicity, relative_offset

sizes = st.integers(0, 9)
starts = st.one_of(st.none(), st.integers(-12, 12))


@given(sizes, sizes, starts)
def test_offset_is_key_position_minus_query_position(N, M, query_start):
    got = relative_offset(N, M, query_start)
    start = M - N if query_start is None else query_start
    assert got.shape == (N, M)
    assert got.dtype == np.int64
    assert got.tolist() == [[j - (i + start) for j in range(M)] for i in range(N)]


@given(sizes, sizes, starts)
def test_causal_mask_allows_what_is_not_later(N, M, query_start):
    mask = causal_mask(N, M, query_start)
    start = M - N if query_start is None else query_start
    assert mask.dtype == np.bool_
    assert mask.tolist() == [[j <= i + start for j in range(M)] for i in range(N)]


@given(sizes, sizes, starts)
def test_multiplicity_counts_pairs(N, M, query_start):
    offsets, counts = multiplicity(N, M, query_start)
    values, times = np.unique(relative_offset(N, M, query_start), return_counts=True)
    assert offsets.tolist() == values.tolist()
    assert counts.tolist() == times.tolist()
    assert counts.sum() == N * M


def test_the_default_aligns_the_last_query_with_the_last_key():
    assert relative_offset(3, 7)[-1, -1] == 0
    assert relative_offset(7, 3)[-1, -1] == 0
    assert relative_offset(3, 7, query_start=0)[0, 0] == 0


def test_more_queries_than_keys_leave_rows_without_a_key():
    mask = causal_mask(5, 3)
    assert mask.any(axis=1).tolist() == [False, False, True, True, True]


def test_a_step_by_step_decoder_sees_the_rows_of_the_full_one():
    full = relative_offset(6, 6)
    steps = [relative_offset(1, t + 1)[0].tolist() for t in range(6)]
    assert steps == [full[t, : t + 1].tolist() for t in range(6)]


@pytest.mark.usefixtures("raw_errors")
@pytest.mark.parametrize("function", [relative_offset, causal_mask, multiplicity])
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((-1, 2), RangeError, "N: expected an integer of at least 0, got -1"),
        ((2, -3), RangeError, "M: expected an integer of at least 0, got -3"),
        ((2.0, 3), DtypeError, "N: expected an integer, got float 2.0"),
        ((2, 2, 2**63), RangeError, "query_start: expected an integer of at most 2.61 in size, got 92233"),
        ((2, 2, -(2**62)), RangeError, "query_start: expected an integer of at most 2.61 in size, got -46"),
        ((True, 3), DtypeError, "N: expected an integer, got bool True"),
        ((2, "3"), DtypeError, "M: expected an integer, got str '3'"),
        ((2, 3, 0.5), DtypeError, "query_start: expected an integer, got float 0.5"),
        ((2, 3, False), DtypeError, "query_start: expected an integer, got bool False"),
    ],
)
def test_bad_sizes_are_named(function, arguments, error, message):
    with pytest.raises(error, match=message):
        function(*arguments)
