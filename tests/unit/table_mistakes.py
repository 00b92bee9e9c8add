"""Checks that must reject the mistakes of tables and slopes, and the naive inputs that let them through."""

import numpy as np

from attngrad import reference as ref
from attngrad.checks import check_close, check_vjp
from attngrad.mistakes import MISTAKES
from attngrad.offsets import ClipMap

B, H, N, M, BLOCK = 2, 3, 4, 7, 4
MAP = ClipMap(2)
RNG = np.random.default_rng(21)
TABLE, DS = RNG.standard_normal((H, MAP.R)), RNG.standard_normal((B, H, N, M))
X, DP = RNG.standard_normal((H, N, M)), RNG.standard_normal((H, N, M))
ROW = MAP(N, M)
# The rows of all columns of whole blocks of keys, one more than there are keys.
PADDED = MAP(N, -(-M // BLOCK) * BLOCK, M - N)
DISTINCT = np.arange(N * M).reshape(N, M)


def table_vjp_difference(candidate):
    check_vjp(lambda table: ref.table_bias(table, ROW), lambda table, u: candidate(ROW, u, MAP.R), TABLE)


def table_vjp_long_sum(candidate):
    """20,000 pairs of 0.001 are 20, whatever was added first."""
    got = candidate(np.zeros((100, 200), dtype=np.int64), np.full((1, 100, 200), 1e-3), 1)
    check_close("dtable", got, np.array([[20.0]]), kind="difference")


def table_vjp_of_layers(candidate):
    def two_layers(table):
        bias = ref.table_bias(table, ROW)
        return bias, np.sin(bias)

    def vjp(table, du, dv):
        bias = ref.table_bias(table, ROW)
        return candidate(ROW, np.stack([du, np.cos(bias) * dv]), MAP.R)

    check_vjp(two_layers, vjp, TABLE)


def table_vjp_of_scores(candidate):
    """The pairing of the weights with a fixed cotangent, by differences of the table."""
    check_vjp(
        lambda table: ref.softmax(X + ref.table_bias(table, ROW)),
        lambda table, u: candidate(table, PADDED, X, u),
        TABLE,
    )


def rows_pair_by_pair(candidate):
    for n, m, start in ((3, 5, None), (2, 6, 1), (1, 4, None)):
        first = m - n if start is None else start
        want = [[sorted((-2, j - i - first, 2))[1] + 2 for j in range(m)] for i in range(n)]
        check_close("row", candidate(n, m, start, 2), np.array(want), kind="equal")


def buckets_of_far_keys(candidate):
    far = np.array([-600, -128, -127, 127, 128, 600])
    check_close("bucket", candidate(far), np.array([15, 15, 15, 31, 31, 31]), kind="equal")


def bias_after_a_step(candidate):
    tables = np.stack([TABLE, TABLE - 0.1 * ref.table_bias_vjp(ROW, DS, MAP.R)])
    check_close("bias", candidate(tables, ROW)[1], tables[1][:, ROW], kind="equal")


def slopes_by_value(candidate):
    check_close("slopes", candidate(8), 0.5 ** np.arange(1, 9))


def slopes_of_devices(candidate):
    """The slopes of two devices with 4 heads each are those of 8 heads."""
    both = np.concatenate([candidate(8, 0, 4), candidate(8, 4, 4)])
    check_close("slopes", both, 0.5 ** np.arange(1, 9))


TABLE_CHECKS = {
    "table-vjp-difference": table_vjp_difference,
    "table-vjp-long-sum": table_vjp_long_sum,
    "table-vjp-of-layers": table_vjp_of_layers,
    "table-vjp-of-scores": table_vjp_of_scores,
    "rows-pair-by-pair": rows_pair_by_pair,
    "buckets-of-far-keys": buckets_of_far_keys,
    "bias-after-a-step": bias_after_a_step,
    "slopes-by-value": slopes_by_value,
    "slopes-of-devices": slopes_of_devices,
}


def naive_table_inputs() -> dict[str, dict[str, tuple]]:
    """Return, for each function that a mistake stands for, inputs such as naive tests use."""
    vanished = np.zeros(DS.shape)  # what a sum as loss sends to the scores
    return {
        "table_bias_vjp(row, dbias, R)": {
            "sum-loss": (ROW, vanished, MAP.R),
            "distinct-rows": (DISTINCT, DS[:1], N * M),
            "short-sums": (ROW, np.round(4.0 * DS), MAP.R),
            "one-head": (ROW, DS[:, :1], MAP.R),
            "one-batch": (ROW, DS[:1], MAP.R),
        },
        "table_bias_vjp(row, dbias, R), summed over layers": {
            "sum-loss": (ROW, vanished, MAP.R),
            "distinct-rows": (DISTINCT, DS, N * M),
            "one-layer": (ROW, DS[:1], MAP.R),
            "one-head": (ROW, DS[:, :1], MAP.R),
        },
        "table_bias_vjp(row, ds, R) in blocks of keys": {
            "sum-loss": (TABLE, PADDED, X, np.ones(X.shape)),
            "whole-blocks": (TABLE, PADDED[:, :BLOCK], X[..., :BLOCK], DP[..., :BLOCK]),
            "one-head": (TABLE[:1], PADDED, X[:1], DP[:1]),
        },
        "ClipMap(max_distance)(N, M, query_start)": {
            "one-token": (1, 1, None, 2),
            "square": (4, 4, None, 2),
            "cache": (1, 4, None, 2),
        },
        "t5_bucket(offset)": {"near-keys": (np.arange(-127, 128),), "far-keys": (np.array([-300, 300]),)},
        "table_bias(table, row) at every step": {
            "one-step": (TABLE[None], ROW),
            "distinct-rows": (RNG.standard_normal((2, H, N * M)), DISTINCT),
        },
        "alibi_slopes(H)": {"one-head": (1,), "eight-heads": (8,)},
        "alibi_slopes(H)[first : first + count]": {"one-device": (8, 0, 8), "two-devices": (8, 4, 4)},
    }


def ruled_out_by_sums_of_heads() -> dict[str, bool]:
    """Return whether each gradient's sum of a head, zero for a right one, rejects the mistake."""
    p = ref.softmax(np.broadcast_to(X + ref.table_bias(TABLE, ROW), DS.shape))
    ds = ref.softmax_vjp(p, DS)
    vjp = (ROW, ds, MAP.R)
    cases = {
        "table-vjp-fancy-index": vjp,
        "table-vjp-mean-over-pairs": vjp,
        "table-vjp-half-sums": vjp,
        "table-vjp-last-layer": vjp,
        "table-vjp-tail-columns": (TABLE, PADDED, X, DP),
    }
    found = {}
    for id, arguments in cases.items():
        right, wrong = (f(*arguments).sum(axis=-1) for f in (MISTAKES[id].right, MISTAKES[id].function))
        assert np.allclose(right, 0.0, rtol=0.0, atol=1e-12), id
        found[id] = not np.allclose(wrong, 0.0, rtol=0.0, atol=1e-12)
    return found
