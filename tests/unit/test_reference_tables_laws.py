"""Five laws of a table's gradient, each with a mistake that it alone catches, and one that none catches."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from attngrad import reference as ref
from attngrad.checks import check_close, check_vjp
from attngrad.mistakes import mistake
from attngrad.offsets import ClipMap, multiplicity, offset_row, relative_offset

B, H, N, M, D, D_V = 2, 3, 5, 8, 4, 6
MAP = ClipMap(3)


def drawn(*shape, seed=7):
    """Return random floats."""
    return np.random.default_rng(seed).standard_normal(shape)


def clipped_row(query_at, key_at):
    """Return the row of each pair by the positions of its query and its key."""
    return MAP.of(key_at[None, :] - query_at[:, None])


def reduced(row, ds, shared):
    """Return the gradient of a table of its own for each head, (H, R), or of one for all, (R,)."""
    dtable = ref.table_bias_vjp(row, ds, MAP.R)
    return dtable.sum(axis=0) if shared else dtable


@dataclass(frozen=True)
class Backward:
    """A backward pass from the weights to the table, in three stages, each of which may be wrong."""

    ds: Callable = ref.softmax_vjp
    row: Callable = clipped_row
    reduce: Callable = reduced

    def __call__(self, p, dp, query_at, key_at, shared=False):
        return self.reduce(self.row(query_at, key_at), self.ds(p, dp), shared)


def last_head(row, ds, shared):
    """Let each head write the gradient that all share."""
    if not shared:
        return reduced(row, ds, shared)
    return ref.table_bias_vjp(row, mistake("bias-vjp-broadcast-last-head").function(ds)[:, None], MAP.R)[0]


def last_batch(row, ds, shared):
    """Let each batch write the gradient that all share."""
    return reduced(row, ds[-1:], shared)


def half_positions(query_at, key_at):
    """Hold positions in float16, which has no odd integer beyond 2048."""
    return clipped_row(*(x.astype(np.float16).astype(np.int64) for x in (query_at, key_at)))


def fancy_index(row, ds, shared):
    """Write each row once, by its last pair."""
    dtable = mistake("table-vjp-fancy-index").function(row, ds, MAP.R)
    return dtable.sum(axis=0) if shared else dtable


RIGHT = Backward()
WRONG = {
    "mean of the row forgotten": Backward(ds=lambda p, dp: p * dp),
    "last head written": Backward(reduce=last_head),
    "last batch written": Backward(reduce=last_batch),
    "positions in float16": Backward(row=half_positions),
    "query minus key": Backward(row=lambda query_at, key_at: MAP.of(query_at[:, None] - key_at[None, :])),
    "last pair written": Backward(reduce=fancy_index),
}


@dataclass(frozen=True)
class Case:
    """Weights, their cotangent, and positions, of n queries and m keys."""

    n: int
    m: int

    @property
    def queries(self):
        return np.arange(self.n) + self.m - self.n

    @property
    def keys(self):
        return np.arange(self.m)

    def weights(self):
        """Return random weights and a random cotangent of them."""
        shape = (B, H, self.n, self.m)
        return ref.softmax(drawn(*shape)), drawn(*shape, seed=8)

    def size(self, p, dp):
        """Return a bound of the sum of the absolute terms of any entry."""
        return float(np.abs(p * dp).sum() * 2)


def zero_sum(backward, case):
    """The gradient of each head sums to zero: a constant added to a table changes no weight."""
    p, dp = case.weights()
    total = backward(p, dp, case.queries, case.keys).sum(axis=-1)
    check_close("sum of the gradient", total, np.zeros(H), terms=case.size(p, dp))


def broadcast(backward, case):
    """A table that heads share gets the sum over the heads."""
    p, dp = case.weights()
    one, each = (backward(p, dp, case.queries, case.keys, shared) for shared in (True, False))
    check_close("shared", one, each.sum(axis=0), terms=case.size(p, dp))


def additivity(backward, case):
    """Two batches, or two layers, give the sum of what each gives alone."""
    p, dp = case.weights()
    both = backward(p, dp, case.queries, case.keys)
    alone = [backward(p[b : b + 1], dp[b : b + 1], case.queries, case.keys) for b in range(B)]
    check_close("both", both, sum(alone), terms=case.size(p, dp))


def translation(backward, case):
    """All positions may be shifted."""
    p, dp = case.weights()
    here, there = (backward(p, dp, case.queries + by, case.keys + by) for by in (0, 4097))
    check_close("shifted", there, here, terms=case.size(p, dp))


def counting(backward, case):
    """A cotangent of ones for all pairs of one sequence counts the pairs of each row."""
    offsets, counts = multiplicity(case.n, case.m)
    want = [int(counts[MAP.of(offsets) == r].sum()) for r in range(MAP.R)]
    got = backward.reduce(backward.row(case.queries, case.keys), np.ones((1, H, case.n, case.m)), False)
    check_close("counts", got, np.tile(np.array(want, dtype=float), (H, 1)))


LAWS = {
    "zero sum": zero_sum,
    "broadcast": broadcast,
    "additivity": additivity,
    "translation": translation,
    "counting": counting,
}


def broken(backward, case=None):
    """Return the laws that a backward pass breaks."""
    found = []
    for name, law in LAWS.items():
        try:
            law(backward, case or Case(N, M))
        except AssertionError:
            found.append(name)
    return found


@pytest.mark.parametrize("sizes", [(N, M), (M, N), (6, 6), (1, M), (N, 1)], ids=str)
def test_the_right_gradient_keeps_all_laws(sizes):
    assert broken(RIGHT, Case(*sizes)) == []


def test_each_law_alone_catches_a_mistake():
    assert {name: broken(backward) for name, backward in WRONG.items()} == {
        "mean of the row forgotten": ["zero sum"],
        "last head written": ["broadcast"],
        "last batch written": ["additivity"],
        "positions in float16": ["translation"],
        "query minus key": ["counting"],
        "last pair written": ["zero sum", "counting"],
    }


def differences(backward, case):
    """Require the gradient of central differences through attention."""
    q, k = drawn(B, H, case.n, D), drawn(B, H, case.m, D, seed=8)
    v = drawn(B, H, case.m, D_V, seed=9)
    row = RIGHT.row(case.queries, case.keys)

    def attend(table):
        return ref.attention(q, k, v, ref.table_bias(table, row))

    def vjp(table, do):
        return backward(attend(table).p, do @ np.swapaxes(v, -1, -2), case.queries, case.keys)

    check_vjp(lambda table: attend(table).o, vjp, drawn(H, MAP.R, seed=10))


@pytest.mark.parametrize("sizes", [(N, M), (6, 6)], ids=str)
def test_differences_catch_what_no_law_does(sizes):
    """With as many queries as keys, offsets of the wrong sign keep every law."""
    case, flipped = Case(*sizes), WRONG["query minus key"]
    differences(RIGHT, case)
    with pytest.raises(AssertionError):
        differences(flipped, case)
    assert broken(flipped, case) == ([] if case.n == case.m else ["counting"])


ROW = MAP(N, M)
Q, K, V = drawn(B, H, N, D), drawn(B, H, M, D, seed=8), drawn(B, H, M, D_V, seed=9)
TABLE, DO, DLSE = drawn(H, MAP.R, seed=10), drawn(B, H, N, D_V, seed=11), drawn(B, H, N, seed=12)


def sums(dlse=None, row=ROW, bias=None, **options):
    """Return, for each head, the sum of the table's gradient, and the sum of its absolute terms."""
    bias = ref.table_bias(TABLE, row) if bias is None else bias
    saved = ref.attention(Q, K, V, bias, **options)
    got = ref.attention_vjp(saved, DO, dlse)
    dtable = ref.table_bias_vjp(row, got.dbias, MAP.R)
    return dtable.sum(axis=-1), np.abs(got.dbias).sum(axis=(-2, -1)), got


SINK = drawn(H, seed=13)
KEEP = drawn(B, H, N, M, seed=14) < 0.5
HIDDEN = drawn(B, 1, N, M, seed=15) < 0.3
HIDDEN[:, :, 2] = False


@pytest.mark.parametrize(
    "options",
    [{}, {"causal": True}, {"mask": HIDDEN}, {"keep": KEEP, "dropout": 0.3}, {"bias_inside_scale": True},
     {"softcap": 1.5, "softcap_on": "product"}],
    ids=["plain", "causal", "masked", "dropout", "inside", "cap on the product"],
)  # fmt: skip
def test_what_leaves_the_sum_of_a_head_at_zero(options):
    total, terms, got = sums(**options)
    check_close("sum", total, np.zeros(H), terms=10 * terms)
    assert np.abs(got.dbias).max() > 0.01


def test_what_does_not():
    """A sink takes weight, lse has a cotangent of its own, and a cap after the bias shrinks each share."""
    total, terms, got = sums(sink=SINK)
    check_close("with the sink's share", total + got.dsink, np.zeros(H), terms=10 * terms)
    assert np.abs(total).min() > 1e-3
    total, terms, _ = sums(dlse=DLSE)
    check_close("sum of dlse", total, DLSE.sum(axis=(0, 2)), terms=10 * terms)
    assert np.abs(total).min() > 1e-3
    total, _, _ = sums(softcap=1.5)
    assert np.abs(total).min() > 1e-3


def test_a_table_that_not_every_pair_reads_has_no_such_sum():
    """Only pairs at a distance of at most 3 read a table without clipping; the others have bias 0."""
    offset = relative_offset(N, M)
    near = np.abs(offset) <= 3
    row = offset_row(np.where(near, offset, 0), 3)
    bias = np.where(near, ref.table_bias(TABLE, row), 0.0)
    got = ref.attention_vjp(ref.attention(Q, K, V, bias), DO).dbias
    assert np.abs(ref.table_bias_vjp(row, np.where(near, got, 0.0), 7).sum(axis=-1)).min() > 1e-3
