"""What the mistakes of tables and slopes do, in the numbers of those who met them."""

import numpy as np
import pytest

from attngrad import reference as ref
from attngrad.checks import check_close
from attngrad.mistakes import MISTAKES
from attngrad.offsets import T5Map, alibi_slopes, relative_offset, t5_bucket

from .table_mistakes import ruled_out_by_sums_of_heads

RNG = np.random.default_rng(2)


def wrong(id, *arguments):
    """Return what a mistake computes."""
    return MISTAKES[id].function(*arguments)


def test_the_sum_of_a_head_rules_out_only_some_mistakes_of_the_table():
    assert ruled_out_by_sums_of_heads() == {
        "table-vjp-fancy-index": True,
        "table-vjp-mean-over-pairs": True,
        "table-vjp-half-sums": True,
        "table-vjp-last-layer": False,
        "table-vjp-tail-columns": True,
    }


def test_an_index_that_repeats_keeps_the_last_pair():
    row, dbias = np.array([[0, 1, 0], [2, 0, 1]]), np.arange(1.0, 7.0).reshape(1, 2, 3)
    assert wrong("table-vjp-fancy-index", row, dbias, 4).tolist() == [[5.0, 6.0, 4.0, 0.0]]
    assert ref.table_bias_vjp(row, dbias, 4).tolist() == [[9.0, 8.0, 4.0, 0.0]]


@pytest.mark.parametrize(("M", "blocks"), [(128, 1), (96, 2), (100, 2)])
def test_columns_beyond_the_last_key_spoil_the_table_unless_blocks_are_whole(M, blocks):
    """TurboT5, with blocks of 64 keys: right for 128 keys, wrong for 96 and for 100."""
    row, table = T5Map()(M, 128, 0), RNG.standard_normal((2, 32))
    x, dp = RNG.standard_normal((2, 2, M, M))
    arguments = table, row, x, dp
    got, want = (
        wrong("table-vjp-tail-columns", *arguments),
        MISTAKES["table-vjp-tail-columns"].right(*arguments),
    )
    assert np.allclose(want.sum(axis=-1), 0.0, atol=1e-11)
    if blocks == 1:
        check_close("dtable", got, want, terms=1.0)
    else:
        assert np.abs(got.sum(axis=-1)).max() > 0.1
        assert np.abs(got - want).max() > 0.1


def test_a_float16_sum_of_20000_terms_of_0001_stops_at_4():
    row, dbias = np.zeros((100, 200), dtype=np.int64), np.full((1, 100, 200), 1e-3)
    assert wrong("table-vjp-half-sums", row, dbias, 1).tolist() == [[4.0]]
    check_close("dtable", ref.table_bias_vjp(row, dbias, 1), np.array([[20.0]]), terms=20.0)


def test_a_float16_sum_of_a_row_with_few_pairs_is_only_rounded():
    row, dbias = np.arange(20000).reshape(100, 200) // 4, np.full((1, 100, 200), 1e-3)
    assert np.abs(wrong("table-vjp-half-sums", row, dbias, 5000) - 4e-3).max() < 1e-5


def test_a_step_of_decoding_without_the_start_sees_distances_of_no_cache():
    """Each query of a step-by-step decoder is number 0 of its call: all its keys seem to come later."""
    full = [MISTAKES["table-rows-start-ignored"].right(1, t + 1, None, 9)[0].tolist() for t in range(6)]
    assert full == [(np.arange(t + 1) - t + 9).tolist() for t in range(6)]
    steps = [wrong("table-rows-start-ignored", 1, t + 1, None, 9)[0].tolist() for t in range(6)]
    assert steps == [(np.arange(t + 1) + 9).tolist() for t in range(6)]


def test_the_wrong_sign_transposes_the_rows_of_a_square():
    rows = MISTAKES["table-rows-sign-flipped"].right(6, 6, None, 3)
    assert wrong("table-rows-sign-flipped", 6, 6, None, 3).tolist() == rows.T.tolist()


def test_without_a_clamp_the_first_wrong_distance_is_128_and_later_keys_leave_the_table():
    offset = np.arange(-600, 601)
    got, want = wrong("t5-bucket-unclamped", offset), t5_bucket(offset)
    assert np.abs(offset[got != want]).min() == 128
    assert got.max() == 36
    # An earlier key that is far away reads a row of the later keys, and no index is out of range.
    assert got[0] == 20
    with pytest.raises(IndexError):
        np.zeros(32)[got]


def test_a_kept_bias_learns_nothing_after_the_first_step():
    """Descent on the square of the distance to a wanted bias, gathered once or at each step."""
    row, wanted = relative_offset(4, 4) + 3, RNG.standard_normal((1, 7))
    for id, learns in (("right", True), ("function", False)):
        gather = getattr(MISTAKES["table-bias-stale"], id)
        tables = [np.zeros((1, 7))]
        for _ in range(60):
            bias = gather(np.stack(tables), row)[-1]
            dbias = bias - ref.table_bias(wanted, row)
            tables.append(tables[-1] - 0.4 * ref.table_bias_vjp(row, dbias, 7))
        assert (np.abs(tables[-1] - wanted).max() < 1e-6) == learns
        # A gradient that does not change moves the table by the same step for ever.
        steps = np.diff(np.stack(tables), axis=0)
        assert np.allclose(steps, steps[0], rtol=1e-9) != learns


def test_slopes_by_a_wrong_number_of_heads():
    assert wrong("alibi-slopes-exponent", 8).tolist() == [2.0**-h for h in range(8)]
    assert alibi_slopes(8)[0] == 0.5
    local = np.concatenate([wrong("alibi-slopes-local-heads", 8, first, 4) for first in (0, 4)])
    assert local.tolist() == [0.25, 0.0625, 0.015625, 0.00390625] * 2
