"""Wrong versions of tables and slopes that pairs share: of their rows, their values and their gradients.

``row`` (N, M) holds the row of each pair in a table (H, R), and ``dbias`` (..., H, N, M) the cotangent of the
bias. An offset is the position of the key minus that of the query. A table that heads share and that keeps
the gradient of the last one is `bias-vjp-broadcast-last-head`.
"""

import numpy as np

from attngrad import offsets, reference
from attngrad.mistakes.record import Mistake


def vjp_fancy_index(row: np.ndarray, dbias: np.ndarray, R: int) -> np.ndarray:
    """Add with an index that repeats rows: NumPy reads all, adds, and writes each row once."""
    summed = dbias.sum(axis=tuple(range(dbias.ndim - 3)))
    dtable = np.zeros((*summed.shape[:-2], R))
    dtable[..., row] += summed
    return dtable


def vjp_mean_over_pairs(row: np.ndarray, dbias: np.ndarray, R: int) -> np.ndarray:
    """Divide by the number of pairs that share a row."""
    return reference.table_bias_vjp(row, dbias, R) / np.maximum(offsets.rows_count(row, R), 1)


def vjp_half_sums(row: np.ndarray, dbias: np.ndarray, R: int) -> np.ndarray:
    """Add up in float16, in which a large sum no longer moves when something small is added."""
    summed = dbias.sum(axis=tuple(range(dbias.ndim - 3))).astype(np.float16)
    dtable = np.zeros((*summed.shape[:-2], R), dtype=np.float16)
    np.add.at(dtable, (..., row), summed)
    return dtable.astype(np.float64)


def layers_vjp_last(row: np.ndarray, dbias: np.ndarray, R: int) -> np.ndarray:
    """Keep the gradient of the last of the layers that share a table."""
    return reference.table_bias_vjp(row, dbias[-1], R)


def _right_layers_vjp(row: np.ndarray, dbias: np.ndarray, R: int) -> np.ndarray:
    """Return the cotangent of a table that layers share, by those of their biases, (layers, H, N, M)."""
    return np.asarray(sum(reference.table_bias_vjp(row, layer, R) for layer in dbias))


def _padded_ds(x: np.ndarray, bias: np.ndarray, dp: np.ndarray) -> np.ndarray:
    """Return the cotangent of scores x + bias, beside it that of the columns that x lacks.

    A block of keys beyond the last holds zeros, so its products x and its dp are zero, but its bias is not,
    and the weights exp(s - lse) are formed with the lse of the keys that exist.
    """
    M, beyond = x.shape[-1], bias.shape[-1] - x.shape[-1]
    x, dp = (np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, beyond)]) for a in (x, dp))
    s = x + bias
    p = np.exp(s - reference.lse(s[..., :M])[..., None])
    return p * (dp - (p * dp).sum(axis=-1, keepdims=True))


def vjp_tail_columns(table: np.ndarray, row: np.ndarray, x: np.ndarray, dp: np.ndarray) -> np.ndarray:
    """Add the columns of a last block beyond the last key to the table too."""
    ds = _padded_ds(x, reference.table_bias(table, row), dp)
    return reference.table_bias_vjp(row, ds, table.shape[-1])


def _right_vjp_of_scores(table: np.ndarray, row: np.ndarray, x: np.ndarray, dp: np.ndarray) -> np.ndarray:
    """Return the cotangent of a table, by rows (N, M') of all columns of whole blocks of keys.

    The products x = scale q.k and the cotangent dp of the weights, (H, N, M), have the keys that exist.
    """
    row = row[:, : x.shape[-1]]
    ds = _padded_ds(x, reference.table_bias(table, row), dp)
    return reference.table_bias_vjp(row, ds, table.shape[-1])


def rows_sign_flipped(N: int, M: int, query_start: int | None, max_distance: int) -> np.ndarray:
    """Take the position of the query minus that of the key."""
    return _clipped(-offsets.relative_offset(N, M, query_start), max_distance)


def rows_start_ignored(N: int, M: int, query_start: int | None, max_distance: int) -> np.ndarray:
    """Count the queries from 0, as if no key stood in a cache before them."""
    return _clipped(offsets.relative_offset(N, M, 0), max_distance)


def _right_rows(N: int, M: int, query_start: int | None, max_distance: int) -> np.ndarray:
    """Return the row of each pair in a table of clipped offsets."""
    return _clipped(offsets.relative_offset(N, M, query_start), max_distance)


def _clipped(offset: np.ndarray, max_distance: int) -> np.ndarray:
    """Return the row of each offset in a table of clipped ones."""
    return offsets.offset_row(offsets.clip_offset(offset, max_distance), max_distance)


def t5_bucket_unclamped(offset: np.ndarray) -> np.ndarray:
    """Take T5's logarithm, with 32 buckets up to 128 for both directions, and forget the last bucket."""
    distance = np.abs(offset)
    far = 8 + np.floor(np.log2(np.maximum(distance, 8) / 8) * 2).astype(np.int64)
    return np.where(offset > 0, 16, 0) + np.where(distance < 8, distance, far)


def biases_stale(tables: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Gather the bias once, and hand it out at every step."""
    return np.stack([reference.table_bias(tables[0], row) for _ in tables])


def _right_biases(tables: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Return the bias of every step, by the tables that the steps find, (steps, H, R)."""
    return np.stack([reference.table_bias(table, row) for table in tables])


def slopes_exponent(H: int) -> np.ndarray:
    """Count the heads from 0, so that the first slope is 1."""
    return np.exp2(-8.0 * np.arange(H) / H)


def slopes_local_heads(H: int, first: int, count: int) -> np.ndarray:
    """Make the slopes of a device by the number of heads that it holds."""
    return offsets.alibi_slopes(count)


def _right_slopes(H: int, first: int, count: int) -> np.ndarray:
    """Return the slopes of the heads from ``first`` on that a device holds, of H in the model."""
    return offsets.alibi_slopes(H)[first : first + count]


_VJP = "table_bias_vjp(row, dbias, R)"
_TURBO = "https://github.com/Knowledgator/TurboT5, src/turbot5/ops/fused_bias_attention.py"

TABLES = (
    Mistake(
        id="table-vjp-fancy-index",
        formula=r"\mathrm{d}t_r = \mathrm{d}b_{ij} \text{ for the last pair } (i, j) \text{ of row } r",
        seen="dtable[row] += dbias, of which "
        "https://numpy.org/doc/stable/reference/generated/numpy.ufunc.at.html warns",
        check="table-vjp-difference",
        function=vjp_fancy_index,
        right=reference.table_bias_vjp,
        stands_for=_VJP,
        missed_by=("sum-loss", "distinct-rows"),
    ),
    Mistake(
        id="table-vjp-mean-over-pairs",
        formula=r"\mathrm{d}t_r = \frac{1}{n_r} \sum_{i,j} [\varphi_{ij} = r]\, \mathrm{d}b_{ij}"
        r" \text{ for } n_r \text{ pairs of row } r",
        seen="a slip when the reduction is a mean, such as scatter_reduce with reduce='mean'; "
        "no public source",
        check="table-vjp-difference",
        function=vjp_mean_over_pairs,
        right=reference.table_bias_vjp,
        stands_for=_VJP,
        missed_by=("sum-loss", "distinct-rows"),
    ),
    Mistake(
        id="table-vjp-half-sums",
        formula=r"\mathrm{d}t_r = \sum_{i,j} [\varphi_{ij} = r]\, \mathrm{d}b_{ij}"
        r" \text{ rounded to float16 after each term}",
        seen=f"{_TURBO}: the sum has the type of the weights",
        check="table-vjp-long-sum",
        function=vjp_half_sums,
        right=reference.table_bias_vjp,
        stands_for=_VJP,
        missed_by=("sum-loss", "short-sums"),
    ),
    Mistake(
        id="table-vjp-last-layer",
        formula=r"\mathrm{d}t = \mathrm{d}t^{(L)} \text{ for a table that } L \text{ layers share}",
        seen="a slip when each layer writes the gradient of the bias that it was handed; no public source",
        check="table-vjp-of-layers",
        function=layers_vjp_last,
        right=_right_layers_vjp,
        stands_for="table_bias_vjp(row, dbias, R), summed over layers",
        missed_by=("sum-loss", "one-layer"),
    ),
    Mistake(
        id="table-vjp-tail-columns",
        formula=r"\mathrm{d}t_r = \sum_{i} \sum_{j=1}^{M'} [\varphi_{ij} = r]\, \mathrm{d}s_{ij}"
        r" \text{ for blocks of } M' > M \text{ keys}",
        seen=_TURBO,
        check="table-vjp-of-scores",
        function=vjp_tail_columns,
        right=_right_vjp_of_scores,
        stands_for="table_bias_vjp(row, ds, R) in blocks of keys",
        missed_by=("whole-blocks",),
    ),
    Mistake(
        id="table-rows-sign-flipped",
        formula=r"\varphi_{ij} = \operatorname{clip}(i + \mathrm{query\_start} - j) + k",
        seen="https://github.com/nntrainer/nntrainer/pull/3982; "
        "https://github.com/microsoft/DeBERTa/issues/162",
        check="rows-pair-by-pair",
        function=rows_sign_flipped,
        right=_right_rows,
        stands_for="ClipMap(max_distance)(N, M, query_start)",
        missed_by=("one-token",),
    ),
    Mistake(
        id="table-rows-start-ignored",
        formula=r"\varphi_{ij} = \operatorname{clip}(j - i) + k"
        r" \text{ where query } i \text{ stands at } i + \mathrm{query\_start}",
        seen="https://github.com/lucidrains/x-transformers/pull/103; "
        "https://github.com/huggingface/transformers/issues/19045",
        check="rows-pair-by-pair",
        function=rows_start_ignored,
        right=_right_rows,
        stands_for="ClipMap(max_distance)(N, M, query_start)",
        missed_by=("one-token", "square"),
    ),
    Mistake(
        id="t5-bucket-unclamped",
        formula=r"\varphi = 8 + \lfloor 8 \log(n / 8) / \log(128 / 8) \rfloor \text{ for } n \ge 128",
        seen="https://github.com/huggingface/candle/pull/1312; "
        "https://github.com/lucidrains/x-transformers/pull/10",
        check="buckets-of-far-keys",
        function=t5_bucket_unclamped,
        right=offsets.t5_bucket,
        stands_for="t5_bucket(offset)",
        missed_by=("near-keys",),
    ),
    Mistake(
        id="table-bias-stale",
        formula=r"b_{ij} = t^{(0)}_{\varphi_{ij}} \text{ where the table is } t^{(u)} \text{ at step } u",
        seen="https://github.com/microsoft/Swin-Transformer/issues/189, as a proposal",
        check="bias-after-a-step",
        function=biases_stale,
        right=_right_biases,
        stands_for="table_bias(table, row) at every step",
        missed_by=("one-step",),
    ),
    Mistake(
        id="alibi-slopes-exponent",
        formula=r"m_h = 2^{-8 h / H} \text{ for } h = 0, \dots, H - 1",
        seen="https://github.com/paiml/aprender/pull/2143",
        check="slopes-by-value",
        function=slopes_exponent,
        right=offsets.alibi_slopes,
        stands_for="alibi_slopes(H)",
    ),
    Mistake(
        id="alibi-slopes-local-heads",
        formula=r"m_h = 2^{-8 h / H'} \text{ on a device that holds } H' \text{ of } H \text{ heads}",
        seen="https://github.com/flashinfer-ai/flashinfer/pull/5101",
        check="slopes-of-devices",
        function=slopes_local_heads,
        right=_right_slopes,
        stands_for="alibi_slopes(H)[first : first + count]",
        missed_by=("one-device",),
    ),
)
