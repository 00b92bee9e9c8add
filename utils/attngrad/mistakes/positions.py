"""Wrong versions of positions: shifts, rotations, indices of a bias, and a bias handed from layer to layer.

A rotation has halves: with x = (x_1, x_2) and rot(x) = (-x_2, x_1), y = x cos + rot(x) sin, entry by entry.
"""

import numpy as np

from attngrad import offsets, reference
from attngrad.mistakes.record import Mistake


def _padded(x: np.ndarray) -> np.ndarray:
    """Return the entries of (..., N, M) one after the other, with a zero in front of each row."""
    padded = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(1, 0)])
    return padded.reshape(*x.shape[:-2], -1)


def shift_first_kept(x: np.ndarray) -> np.ndarray:
    """Cut what is too much, N entries, off the end instead of the beginning."""
    return _padded(x)[..., : -x.shape[-2]].reshape(x.shape)


def _right_shift(x: np.ndarray) -> np.ndarray:
    """Return the shift of Transformer-XL: entry (i, j) is x[i, j + N - 1 - i] for keys that are not later."""
    return _padded(x)[..., x.shape[-2] :].reshape(x.shape)


def _rotated(x: np.ndarray) -> np.ndarray:
    """Return (-x_2, x_1) for the halves of x."""
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([-second, first], axis=-1)


def _rope(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    """Return x turned by the angles of its positions."""
    return x * cos + _rotated(x) * sin


def rope_vjp_sine_outside(dy: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    """Multiply by the sine after the halves changed places, which is right if the sine has equal halves."""
    return dy * cos - _rotated(dy) * sin


def rope_vjp_missing(dy: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    """Have no backward pass: what lies in front of the rotation gets nothing."""
    return np.zeros_like(dy)


def _right_rope_vjp(dy: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    """Return the cotangent of x for y = x cos + rot(x) sin."""
    return dy * cos - _rotated(dy * sin)


def rope_in_place(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, calls: int) -> np.ndarray:
    """Write the turned queries over the queries: the next call turns them once more."""
    turned = []
    for _ in range(calls):
        x = _rope(x, cos, sin)
        turned.append(x)
    return np.stack(turned)


def _right_rope_calls(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, calls: int) -> np.ndarray:
    """Return what each of some calls with the same queries gives."""
    return np.stack([_rope(x, cos, sin)] * calls)


def vjp_of_printed_row(row: np.ndarray, dbias: np.ndarray, R: int) -> np.ndarray:
    """Add to the row of (j, i), which an equation names, where the code read that of (i, j)."""
    return reference.table_bias_vjp(row.T, dbias, R)


def rows_unclipped(N: int, M: int, query_start: int | None, max_distance: int) -> np.ndarray:
    """Leave the clip out; a row before the first is counted from the end, as NumPy and torch do."""
    row = offsets.relative_offset(N, M, query_start) + max_distance
    return row % (2 * max_distance + 1)


def _right_rows(N: int, M: int, query_start: int | None, max_distance: int) -> np.ndarray:
    """Return the row of each pair in a table of clipped offsets."""
    return offsets.ClipMap(max_distance)(N, M, query_start)


def flat_index_32(shape: tuple[int, ...], at: np.ndarray) -> np.ndarray:
    """Count the places of a dense bias in 32 bits, which end at 2^31 - 1."""
    return _right_flat_index(shape, at).astype(np.int32).astype(np.int64)


def _right_flat_index(shape: tuple[int, ...], at: np.ndarray) -> np.ndarray:
    """Return the place in memory of entries (n, 4) of a dense bias (B, H, N, M)."""
    strides = np.cumprod((1, *shape[:0:-1]), dtype=np.int64)[::-1]
    return at.astype(np.int64) @ strides


def bias_of_first_batch(bias: np.ndarray, B: int) -> np.ndarray:
    """Have no stride for the batch of a bias: all read the first."""
    return np.broadcast_to(bias[:1], (B, *bias.shape[1:]))


def _right_bias_of_batches(bias: np.ndarray, B: int) -> np.ndarray:
    """Return the bias that each of B batches reads, of one (B, H, N, M) or (1, H, N, M)."""
    return np.broadcast_to(bias, (B, *bias.shape[1:]))


def weights_as_bias(s: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Hand the weights of a layer to the next in the place of the bias that they share."""
    p = reference.softmax(s[0] + bias)
    return np.stack([p, *(reference.softmax(later + p) for later in s[1:])])


def _right_weights_of_layers(s: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Return the weights of layers with scores (layers, N, M) that share a bias."""
    return reference.softmax(s + bias)


def cross_scores_biased(s: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Add the bias of the decoder to the scores of its cross-attention, which has none."""
    return reference.softmax(s + bias)


def _right_cross_weights(s: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Return the weights of cross-attention beside a decoder with a bias."""
    return reference.softmax(s)


POSITIONS = (
    Mistake(
        id="position-shift-first-kept",
        formula=r"\text{all but the last } N \text{ entries of the padded matrix, for all but the first } N",
        seen="https://github.com/labmlai/annotated_deep_learning_paper_implementations/issues/185",
        check="shift-pair-by-pair",
        function=shift_first_kept,
        right=_right_shift,
        stands_for="relative shift of (N, M) to pairs",
    ),
    Mistake(
        id="rope-vjp-sine-outside",
        formula=r"\mathrm{d}x = \mathrm{d}y \cos - \operatorname{rot}(\mathrm{d}y) \sin",
        seen="https://github.com/PaddlePaddle/Paddle/pull/74716",
        check="rope-vjp-difference",
        function=rope_vjp_sine_outside,
        right=_right_rope_vjp,
        stands_for="dy * cos - rot(dy * sin)",
        missed_by=("equal-halves",),
    ),
    Mistake(
        id="rope-vjp-missing",
        formula=r"\mathrm{d}x = 0 \text{ for } y = x \cos + \operatorname{rot}(x) \sin",
        seen="https://github.com/huggingface/candle/issues/3568",
        check="rope-vjp-difference",
        function=rope_vjp_missing,
        right=_right_rope_vjp,
        stands_for="dy * cos - rot(dy * sin)",
    ),
    Mistake(
        id="rope-in-place",
        formula=r"y^{(u)} = y^{(u-1)} \cos + \operatorname{rot}(y^{(u-1)}) \sin, \quad y^{(0)} = x",
        seen="https://github.com/unslothai/unsloth/issues/5001",
        check="rope-called-twice",
        function=rope_in_place,
        right=_right_rope_calls,
        stands_for="rope(x, cos, sin) at every call",
        missed_by=("one-step",),
    ),
    Mistake(
        id="table-vjp-transposed",
        formula=r"\mathrm{d}t_r = \sum_{i,j} [\varphi_{ji} = r]\, \mathrm{d}b_{ij}",
        seen="https://github.com/microsoft/DeBERTa/issues/162: the printed equation and the code differ",
        check="square-table-vjp-difference",
        function=vjp_of_printed_row,
        right=reference.table_bias_vjp,
        stands_for="table_bias_vjp(row, dbias, R), as many queries as keys",
        missed_by=("sum-loss", "one-token"),
    ),
    Mistake(
        id="table-rows-unclipped",
        formula=r"\varphi_{ij} = (j - i + k) \bmod (2 k + 1)",
        seen="https://github.com/huggingface/transformers/issues/17026; "
        "https://github.com/huggingface/transformers/issues/14010",
        check="rows-pair-by-pair",
        function=rows_unclipped,
        right=_right_rows,
        stands_for="ClipMap(max_distance)(N, M, query_start)",
        missed_by=("one-token",),
    ),
    Mistake(
        id="bias-index-of-32-bits",
        formula=r"((b H + h) N + i) M + j \bmod 2^{32} \text{, with a sign}",
        seen="https://github.com/pytorch/pytorch/issues/145869",
        check="last-place-of-a-large-bias",
        function=flat_index_32,
        right=_right_flat_index,
        stands_for="flat index of a pair",
        missed_by=("small-bias",),
    ),
    Mistake(
        id="bias-of-first-batch",
        formula=r"b_{0hij} \text{ for } b_{\beta hij}",
        seen="https://github.com/aqlaboratory/openfold-3/pull/228",
        check="bias-of-batches",
        function=bias_of_first_batch,
        right=_right_bias_of_batches,
        stands_for="the bias of every batch",
        missed_by=("one-batch",),
    ),
    Mistake(
        id="bias-replaced-by-weights",
        formula=r"s^{(2)} + p^{(1)} \text{ for } s^{(2)} + b",
        seen="https://github.com/huggingface/transformers/pull/4499",
        check="weights-of-layers",
        function=weights_as_bias,
        right=_right_weights_of_layers,
        stands_for="softmax(s + bias) of every layer",
        missed_by=("one-layer",),
    ),
    Mistake(
        id="bias-on-cross-attention",
        formula=r"\operatorname{softmax}(s + b) \text{ for } \operatorname{softmax}(s)",
        seen="https://github.com/huggingface/transformers/pull/8518",
        check="cross-weights",
        function=cross_scores_biased,
        right=_right_cross_weights,
        stands_for="softmax(s) beside a decoder's bias",
        missed_by=("zero-bias", "equal-bias"),
    ),
)
