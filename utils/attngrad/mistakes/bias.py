"""Wrong versions of the bias gradient and of the forward pass that it belongs to.

Arrays have the axes (..., N, M) of the scores, and each row is one query. ``p`` are the weights, ``dp`` their
cotangent do v^T, ``ds`` that of the scores, ``qk`` the products q.k before the scale. A bias outside the
scale that keeps only the diagonal is `softmax-vjp-diagonal-only`, since its gradient is that of the scores.
"""

import numpy as np

from attngrad import reference
from attngrad.mistakes.record import Mistake
from attngrad.mistakes.softmax import vjp_diagonal_only


def inside_vjp_factor_dropped(p: np.ndarray, dp: np.ndarray, scale: float) -> np.ndarray:
    """Forget the scale that a bias inside it is multiplied by."""
    return reference.softmax_vjp(p, dp)


def inside_vjp_entrywise(p: np.ndarray, dp: np.ndarray, scale: float) -> np.ndarray:
    """Keep the diagonal of the Jacobian alone, and forget the scale."""
    return vjp_diagonal_only(p, dp)


def inside_vjp_literal(p: np.ndarray, dp: np.ndarray, scale: float) -> np.ndarray:
    """Sum over the same two indices that name the entry: one number for all entries of the matrix."""
    return np.broadcast_to(vjp_diagonal_only(p, dp).sum(axis=(-2, -1), keepdims=True), p.shape)


def _right_inside_vjp(p: np.ndarray, dp: np.ndarray, scale: float) -> np.ndarray:
    """Return the cotangent of a bias inside the scale."""
    return scale * reference.softmax_vjp(p, dp)


def outside_vjp_scaled(p: np.ndarray, dp: np.ndarray, scale: float) -> np.ndarray:
    """Give a bias outside the scale the factor that belongs to dq and dk."""
    return scale * reference.softmax_vjp(p, dp)


def _right_outside_vjp(p: np.ndarray, dp: np.ndarray, scale: float) -> np.ndarray:
    """Return the cotangent of a bias outside the scale."""
    return reference.softmax_vjp(p, dp)


def weights_bias_inside(qk: np.ndarray, bias: np.ndarray, scale: float) -> np.ndarray:
    """Add a bias that is meant outside the scale before the scale is multiplied."""
    return reference.softmax(scale * (qk + bias))


def weights_exp2(qk: np.ndarray, bias: np.ndarray, scale: float) -> np.ndarray:
    """Take powers of two, with log2(e) on the products and not on the bias."""
    exponent = scale * np.log2(np.e) * qk + bias
    return reference.softmax(np.log(2.0) * exponent)  # 2^x = e^(x log 2)


def _right_weights(qk: np.ndarray, bias: np.ndarray, scale: float) -> np.ndarray:
    """Return the weights with a bias outside the scale."""
    return reference.softmax(scale * qk + bias)


def shared_vjp_last_head(ds: np.ndarray) -> np.ndarray:
    """Let each head store its gradient in the place that all heads share: the last one stays."""
    return ds[..., -1, :, :]


def _right_shared_vjp(ds: np.ndarray) -> np.ndarray:
    """Return the cotangent of a bias that all heads share."""
    return ds.sum(axis=-3)


def batched_vjp_zero(ds: np.ndarray) -> np.ndarray:
    """Return zeros for a bias with more than one batch, as a kernel without that case did."""
    return np.zeros_like(ds) if ds.shape[0] > 1 else ds


def _right_batched_vjp(ds: np.ndarray) -> np.ndarray:
    """Return the cotangent of a bias of its own for each batch."""
    return ds


def vjp_without_dlse(p: np.ndarray, dp: np.ndarray, dlse: np.ndarray) -> np.ndarray:
    """Forget that lse is an output too."""
    return reference.softmax_vjp(p, dp)


def _right_vjp_with_dlse(p: np.ndarray, dp: np.ndarray, dlse: np.ndarray) -> np.ndarray:
    """Return the cotangent of scores that reach the loss through the weights and through lse."""
    return reference.softmax_vjp(p, dp) + p * dlse[..., None]


def sink_vjp_without_sink(s: np.ndarray, sink: np.ndarray, dp: np.ndarray) -> np.ndarray:
    """Form the weights again for the backward pass, without the sink in the denominator."""
    return reference.softmax_vjp(reference.softmax(s), dp)


def _right_sink_vjp(s: np.ndarray, sink: np.ndarray, dp: np.ndarray) -> np.ndarray:
    """Return the cotangent of scores (..., H, N, M) beside a sink (H,) that takes weight and has no value."""
    logit = np.broadcast_to(sink[..., None, None], (*s.shape[:-1], 1))
    p = reference.softmax(np.concatenate([s, logit], axis=-1))[..., :-1]
    return reference.softmax_vjp(p, dp)


def cap_vjp_factor_dropped(capped: np.ndarray, cap: float, ds: np.ndarray) -> np.ndarray:
    """Hand the cotangent of the capped scores on, as if the cap had derivative 1."""
    return ds


def _right_cap_vjp(capped: np.ndarray, cap: float, ds: np.ndarray) -> np.ndarray:
    """Return the cotangent of the scores in front of the cap."""
    return ds * (1.0 - (capped / cap) ** 2)


def dropout_vjp_mask_dropped(p: np.ndarray, keep: np.ndarray, dp: np.ndarray) -> np.ndarray:
    """Leave the factors of dropout, 0 or 1 / (1 - rate), to dv alone."""
    return reference.softmax_vjp(p, dp)


def _right_dropout_vjp(p: np.ndarray, keep: np.ndarray, dp: np.ndarray) -> np.ndarray:
    """Return the cotangent of the scores where dropout multiplies the weights by ``keep``."""
    return reference.softmax_vjp(p, dp * keep)


_POST = "https://blog.csdn.net/pzccool/article/details/147657740, section 3.3"

BIAS = (
    Mistake(
        id="bias-inside-vjp-factor-dropped",
        formula=r"\mathrm{d}b_{ij} = p_{ij} \Bigl(\mathrm{d}p_{ij} - \sum_l p_{il}\, \mathrm{d}p_{il}\Bigr)"
        r" \text{ for } p = \operatorname{softmax}(\mathrm{scale}\, (q k^\top + b))",
        seen=f"{_POST}: the factor 1/sqrt(d_k)",
        check="inside-vjp-difference",
        function=inside_vjp_factor_dropped,
        right=_right_inside_vjp,
        stands_for="scale * softmax_vjp(p, dp)",
        missed_by=("sum-loss", "one-key", "unit-scale"),
    ),
    Mistake(
        id="bias-inside-vjp-entrywise",
        formula=r"\mathrm{d}b_{ij} = p_{ij} (1 - p_{ij})\, \mathrm{d}p_{ij}"
        r" \text{ for } p = \operatorname{softmax}(\mathrm{scale}\, (q k^\top + b))",
        seen=f"{_POST}, read entry by entry",
        check="inside-vjp-difference",
        function=inside_vjp_entrywise,
        right=_right_inside_vjp,
        stands_for="scale * softmax_vjp(p, dp)",
        missed_by=("one-key",),
    ),
    Mistake(
        id="bias-inside-vjp-literal",
        formula=r"\mathrm{d}b_{ij} = \sum_{i,j} p_{ij} (1 - p_{ij})\, \mathrm{d}p_{ij}",
        seen=f"{_POST}, read as it stands: i and j are free and bound",
        check="inside-vjp-difference",
        function=inside_vjp_literal,
        right=_right_inside_vjp,
        stands_for="scale * softmax_vjp(p, dp)",
        missed_by=("one-key",),
    ),
    Mistake(
        id="bias-vjp-scaled-outside",
        formula=r"\mathrm{d}b_{ij} = \mathrm{scale}\, \mathrm{d}s_{ij}"
        r" \text{ for } s = \mathrm{scale}\, q k^\top + b",
        seen="the factor of dq and dk, copied to the bias; no public source",
        check="outside-vjp-difference",
        function=outside_vjp_scaled,
        right=_right_outside_vjp,
        stands_for="softmax_vjp(p, dp) at any scale",
        missed_by=("sum-loss", "one-key", "unit-scale"),
    ),
    Mistake(
        id="bias-inside-scale-instead",
        formula=r"p = \operatorname{softmax}(\mathrm{scale}\, (q k^\top + b))"
        r" \text{ for a bias outside the scale}",
        seen="https://github.com/tenstorrent/tt-metal/issues/55337; "
        "https://github.com/NVIDIA/OpenSeq2Seq/pull/76",
        check="weights-with-bias",
        function=weights_bias_inside,
        right=_right_weights,
        stands_for="softmax(scale * qk + bias)",
        missed_by=("unit-scale", "zero-bias", "equal-bias", "hard-mask", "one-key"),
    ),
    Mistake(
        id="bias-exp2-unscaled",
        formula=r"p_{ij} = \frac{2^{x_{ij}}}{\sum_l 2^{x_{il}}},"
        r"\quad x = \mathrm{scale}\, \log_2(e)\, q k^\top + b",
        seen="https://github.com/meta-pytorch/segment-anything-fast/pull/71",
        check="weights-with-bias",
        function=weights_exp2,
        right=_right_weights,
        stands_for="softmax(scale * qk + bias)",
        missed_by=("zero-bias", "equal-bias", "hard-mask", "one-key"),
    ),
    Mistake(
        id="bias-vjp-broadcast-last-head",
        formula=r"\mathrm{d}b_{ij} = \mathrm{d}s_{Hij} \text{ for a bias that } H \text{ heads share}",
        seen="https://github.com/catie-aq/flashT5, src/model/ops/flash_attention_v2_bias.py",
        check="shared-bias-difference",
        function=shared_vjp_last_head,
        right=_right_shared_vjp,
        stands_for="ds.sum(axis=-3)",
        missed_by=("sum-loss", "one-key", "one-head"),
    ),
    Mistake(
        id="bias-vjp-zero-for-a-batch",
        formula=r"\mathrm{d}b = 0 \text{ where the bias has a batch of more than one}",
        seen="https://github.com/jax-ml/jax/issues/27184",
        check="batched-bias-difference",
        function=batched_vjp_zero,
        right=_right_batched_vjp,
        stands_for="ds",
        missed_by=("sum-loss", "one-key", "one-batch"),
    ),
    Mistake(
        id="lse-cotangent-dropped",
        formula=r"\mathrm{d}s_{ij} = p_{ij} \Bigl(\mathrm{d}p_{ij} - \sum_l p_{il}\, \mathrm{d}p_{il}\Bigr)"
        r" \text{ where } \mathrm{lse}_i \text{ has a cotangent}",
        seen="a backward pass written for o alone, used where lse is an output; no public source",
        check="lse-vjp-difference",
        function=vjp_without_dlse,
        right=_right_vjp_with_dlse,
        stands_for="softmax_vjp(p, dp) + p * dlse",
        missed_by=("zero-lse-cotangent",),
    ),
    Mistake(
        id="sink-left-out-of-denominator-in-backward",
        formula=r"\mathrm{d}s_{ij} = p_{ij} \Bigl(\mathrm{d}p_{ij} - \sum_l p_{il}\, \mathrm{d}p_{il}\Bigr),"
        r"\quad p = \operatorname{softmax}(s) \text{ without the sink}",
        seen="a slip when the backward pass forms p again without the sink; no public source",
        check="sink-vjp-difference",
        function=sink_vjp_without_sink,
        right=_right_sink_vjp,
        stands_for="softmax_vjp(p, dp), p with the sink",
        missed_by=("no-sink",),
    ),
    Mistake(
        id="softcap-vjp-factor-dropped",
        formula=r"\mathrm{d}b_{ij} = \mathrm{d}s_{ij}"
        r" \text{ for } s = c \tanh((\mathrm{scale}\, q k^\top + b) / c)",
        seen="a cap added to the forward pass alone; no public source",
        check="cap-vjp-difference",
        function=cap_vjp_factor_dropped,
        right=_right_cap_vjp,
        stands_for="ds * (1 - (capped / cap)**2)",
        missed_by=("sum-loss", "one-key", "uncapped"),
    ),
    Mistake(
        id="dropout-vjp-mask-dropped",
        formula=r"\mathrm{d}s_{ij} = p_{ij} \Bigl(\mathrm{d}p_{ij} - \sum_l p_{il}\, \mathrm{d}p_{il}\Bigr),"
        r"\quad \mathrm{d}p = \mathrm{d}o\, v^\top \text{ without the factors of dropout}",
        seen="a slip when dropout is put on dv alone; no public source",
        check="dropout-vjp-difference",
        function=dropout_vjp_mask_dropped,
        right=_right_dropout_vjp,
        stands_for="softmax_vjp(p, dp * keep)",
        missed_by=("no-dropout", "one-key"),
    ),
)
