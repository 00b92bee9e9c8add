"""Wrong versions of the backward pass of attention, from the cotangent of the output to all gradients.

Arrays have the axes (..., N, M) of the scores, (..., N, D) of queries, (..., M, D) of keys and (..., M, D_v)
of values. ``p`` are the weights, ``dp`` and ``ds`` the cotangents of weights and scores, ``qk`` the products
q.k before the scale. What goes wrong with a bias stands in `attngrad.mistakes.bias`.
"""

import numpy as np

from attngrad import reference
from attngrad.mistakes.record import Mistake


def _transposed(x: np.ndarray) -> np.ndarray:
    """Return each matrix of the last two axes transposed."""
    return np.swapaxes(x, -1, -2)


def dq_unscaled(ds: np.ndarray, k: np.ndarray, scale: float) -> np.ndarray:
    """Forget the scale between the product q.k and the scores."""
    return ds @ k


def dq_scaled_twice(ds: np.ndarray, k: np.ndarray, scale: float) -> np.ndarray:
    """Scale the keys before all products, and the gradient of the queries once more at the end."""
    return scale * (ds @ (scale * k))


def _right_dq(ds: np.ndarray, k: np.ndarray, scale: float) -> np.ndarray:
    """Return the cotangent of the queries."""
    return scale * (ds @ k)


def dk_unscaled(ds: np.ndarray, q: np.ndarray, scale: float) -> np.ndarray:
    """Forget the scale between the product q.k and the scores."""
    return _transposed(ds) @ q


def _right_dk(ds: np.ndarray, q: np.ndarray, scale: float) -> np.ndarray:
    """Return the cotangent of the keys, one for each head of queries."""
    return scale * (_transposed(ds) @ q)


def do_as_dp(p: np.ndarray, v: np.ndarray, do: np.ndarray) -> np.ndarray:
    """Take the cotangent of the output for that of the weights; shapes fit if there are D_v keys."""
    return p * (do - (p * do).sum(axis=-1, keepdims=True))


def _right_ds(p: np.ndarray, v: np.ndarray, do: np.ndarray) -> np.ndarray:
    """Return the cotangent of the scores."""
    return reference.softmax_vjp(p, do @ _transposed(v))


def delta_unweighted(p: np.ndarray, dp: np.ndarray) -> np.ndarray:
    """Subtract the sum of the cotangents of a row instead of their mean by weights."""
    return p * (dp - dp.sum(axis=-1, keepdims=True))


def delta_of_block(p: np.ndarray, dp: np.ndarray, block: np.ndarray) -> np.ndarray:
    """Take the mean over the block of keys (M,) that a key is in, instead of over the whole row."""
    together = (block[:, None] == block).astype(np.float64)
    return p * (dp - (p * dp) @ together)


def _right_ds_of_blocks(p: np.ndarray, dp: np.ndarray, block: np.ndarray) -> np.ndarray:
    """Return the cotangent of the scores, whatever blocks their keys are in."""
    return reference.softmax_vjp(p, dp)


def group_last_head(dk: np.ndarray, H_kv: int) -> np.ndarray:
    """Let each head of queries store its gradient in the place that its group shares: the last one stays."""
    *batch, heads, keys, features = dk.shape
    return dk.reshape(*batch, H_kv, heads // H_kv, keys, features)[..., -1, :, :]


def dscale_of_scores(ds: np.ndarray, qk: np.ndarray, scale: float) -> np.ndarray:
    """Multiply by the scores, which have the scale, and by the scale again."""
    return np.asarray((ds * (scale * qk) * scale).sum())


def dscale_of_logarithm(ds: np.ndarray, qk: np.ndarray, scale: float) -> np.ndarray:
    """Multiply by the scores: the gradient of the logarithm of the scale."""
    return np.asarray((ds * (scale * qk)).sum())


def _right_dscale(ds: np.ndarray, qk: np.ndarray, scale: float) -> np.ndarray:
    """Return the cotangent of the scale."""
    return np.asarray((ds * qk).sum())


_POST = "the second post, section 3.2"

ATTENTION = (
    Mistake(
        id="attention-dq-unscaled",
        formula=r"\mathrm{d}q = \mathrm{d}s\, k \text{ for } s = \mathrm{scale}\, q k^\top",
        seen=f"{_POST}: d_Q = matmul(d_scores, K)",
        check="dq-difference",
        function=dq_unscaled,
        right=_right_dq,
        stands_for="scale * ds @ k",
        missed_by=("sum-loss", "one-key", "unit-scale"),
    ),
    Mistake(
        id="attention-dq-scaled-twice",
        formula=r"\mathrm{d}q = \mathrm{scale}^2\, \mathrm{d}s\, k",
        seen="https://github.com/HKUSTDial/flash-sparse-attention/pull/203",
        check="dq-difference",
        function=dq_scaled_twice,
        right=_right_dq,
        stands_for="scale * ds @ k",
        missed_by=("sum-loss", "one-key", "unit-scale"),
    ),
    Mistake(
        id="attention-dk-unscaled",
        formula=r"\mathrm{d}k = \mathrm{d}s^\top q \text{ for } s = \mathrm{scale}\, q k^\top",
        seen=f"{_POST}: d_K = matmul(d_scores.transpose(-2, -1), Q)",
        check="dk-difference",
        function=dk_unscaled,
        right=_right_dk,
        stands_for="scale * ds^T @ q",
        missed_by=("sum-loss", "one-key", "unit-scale"),
    ),
    Mistake(
        id="attention-do-as-dp",
        formula=r"\mathrm{d}s_{ij} = p_{ij} \Bigl(\mathrm{d}o_{ij} - \sum_l p_{il}\, \mathrm{d}o_{il}\Bigr)",
        seen=f"{_POST}, if d_out is the cotangent of the output",
        check="square-ds-difference",
        function=do_as_dp,
        right=_right_ds,
        stands_for="softmax_vjp(p, do @ v^T)",
        missed_by=("one-key", "identity-values"),
    ),
    Mistake(
        id="attention-delta-unweighted",
        formula=r"\mathrm{d}s_{ij} = p_{ij} \Bigl(\mathrm{d}p_{ij} - \sum_l \mathrm{d}p_{il}\Bigr)",
        seen="a slip when the sum of p dp is shortened; no public source",
        check="vjp-difference",
        function=delta_unweighted,
        right=reference.softmax_vjp,
        stands_for="softmax_vjp(p, dp)",
        missed_by=("one-key",),
    ),
    Mistake(
        id="attention-delta-of-block",
        formula=r"\mathrm{d}s_{ij} = p_{ij} \Bigl(\mathrm{d}p_{ij}"
        r" - \sum_{l \text{ in the block of } j} p_{il}\, \mathrm{d}p_{il}\Bigr)",
        seen="https://github.com/huggingface/picotron/issues/37, asked for in the place of right code",
        check="block-ds-difference",
        function=delta_of_block,
        right=_right_ds_of_blocks,
        stands_for="softmax_vjp(p, dp), keys in blocks",
        missed_by=("one-key", "one-block"),
    ),
    Mistake(
        id="attention-group-last-head",
        formula=r"\mathrm{d}k_g = \mathrm{d}k_{g,U} \text{ for } U \text{ heads of queries in a group}",
        seen="https://github.com/marin-community/levanter/pull/449: the sum over the group was missing",
        check="grouped-dk-difference",
        function=group_last_head,
        right=reference.reduce_kv_heads,
        stands_for="reduce_kv_heads(dk, H_kv)",
        missed_by=("ungrouped",),
    ),
    Mistake(
        id="attention-dscale-of-scores",
        formula=r"\mathrm{d}\,\mathrm{scale} = \sum_{ij} \mathrm{d}s_{ij}\, s_{ij}\, \mathrm{scale}",
        seen=f"{_POST}: d_scale, with scores as in its forward pass",
        check="dscale-difference",
        function=dscale_of_scores,
        right=_right_dscale,
        stands_for="(ds * qk).sum()",
        missed_by=("sum-loss", "one-key", "unit-scale"),
    ),
    Mistake(
        id="attention-dscale-of-logarithm",
        formula=r"\mathrm{d}\,\mathrm{scale} = \sum_{ij} \mathrm{d}s_{ij}\, s_{ij}",
        seen=f"{_POST}: d_scale, with scores for the bare product",
        check="dscale-difference",
        function=dscale_of_logarithm,
        right=_right_dscale,
        stands_for="(ds * qk).sum()",
        missed_by=("sum-loss", "one-key", "unit-scale"),
    ),
)
