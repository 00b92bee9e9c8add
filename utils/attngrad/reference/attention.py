"""Attention with a bias on the scores: one semantic for all options, and every gradient from one identity."""

from dataclasses import dataclass
from typing import Any, NamedTuple, SupportsIndex

import numpy as np

from attngrad.notation import (
    Bool,
    DtypeError,
    Float,
    RangeError,
    ShapeError,
    boolean,
    check_broadcasts,
    check_same_shape,
    dropout_rate,
    finite_array,
    finite_number,
    first_index,
    float_array,
    mask_array,
    positive_number,
)
from attngrad.offsets import causal_mask
from attngrad.reference.heads import expand_kv_heads, reduce_kv_heads
from attngrad.reference.softmax import checked_logits, lse, softmax

CAPPED = ("scores", "product")


@dataclass(frozen=True)
class Attention:
    """The output of `attention`, and what its backward pass reads.

    ``o`` (B, H, N, D_v), ``lse`` (B, H, N) and ``p`` (B, H, N, M) are results. ``p`` holds the weights before
    dropout; ``p_sink`` (B, H, N) is the weight of the sink, 0 without one; ``x`` and ``s`` (B, H, N, M) are
    the product and the scores, after the cap where it acts on them, and 0 where a key is hidden; ``keep``
    holds the factors of dropout.
    """

    o: np.ndarray
    lse: np.ndarray
    p: np.ndarray
    p_sink: np.ndarray
    x: np.ndarray
    s: np.ndarray
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    bias: np.ndarray | None
    sink: np.ndarray | None
    keep: np.ndarray
    scale: float
    bias_inside_scale: bool
    softcap: float | None
    softcap_on: str


class AttentionGradients(NamedTuple):
    """The cotangents of all inputs of `attention`, each in the shape of its input; None for what was None."""

    dq: np.ndarray
    dk: np.ndarray
    dv: np.ndarray
    dbias: np.ndarray | None
    dscale: float
    dsink: np.ndarray | None


def _checked_qkv(q: Any, k: Any, v: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[int, ...]]:
    """Return q, k and v as float64, and the shape (B, H, N, M) of the scores."""
    q, k, v = _four("q", q, "B, H, N, D"), _four("k", k, "B, H_kv, M, D"), _four("v", v, "B, H_kv, M, D_v")
    (B, H, N, D), (_, H_kv, M, _) = q.shape, k.shape
    check_same_shape("k", k.shape, "B and D of q", (B, H_kv, M, D))
    check_same_shape("v", v.shape, "B, H_kv and M of k", (B, H_kv, M, v.shape[-1]))
    return q, k, v, (B, H, N, M)


def _four(name: str, x: Any, axes: str) -> np.ndarray:
    """Return a finite array of four axes as float64."""
    x = finite_array(name, x, rank=0)
    if x.ndim != 4:
        raise ShapeError(f"{name}: expected four axes ({axes}), got shape {x.shape}")
    return x


def _checked_scale(scale: Any, D: int) -> float:
    """Return the factor of the scores, 1/sqrt(D) where nothing is said."""
    if scale is None and D == 0:
        raise RangeError("scale: expected a number where queries have no feature, got None")
    return 1.0 / np.sqrt(D) if scale is None else finite_number("scale", scale)


def _checked_bias(bias: Any, mask: np.ndarray) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
    """Return the bias, its value for each pair with -inf where none is read, and where a key takes part."""
    if bias is None:
        return None, np.zeros(mask.shape), mask
    bias = float_array("bias", bias, rank=0)
    check_broadcasts("bias", bias.shape, mask.shape)
    try:
        over_pairs, allowed = checked_logits(np.broadcast_to(bias, mask.shape), mask)
    except RangeError as error:
        raise RangeError(f"bias: {str(error).removeprefix('s: ')} of (B, H, N, M)") from error
    return bias, over_pairs, allowed


def _checked_mask(mask: Any, causal: Any, query_start: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return where a query may attend, for all pairs."""
    allowed = mask_array("mask", mask, shape)
    causal = boolean("causal", causal)
    if query_start is not None and not causal:
        raise RangeError(f"query_start: expected None without causal=True, got {query_start!r}")
    return allowed & causal_mask(*shape[-2:], query_start) if causal else allowed


def _checked_keep(keep: Any, dropout: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return the factor of dropout for all pairs: 0, or 1 / (1 - dropout)."""
    rate = dropout_rate(dropout, keep)
    try:
        return mask_array("keep", keep, shape) / (1.0 - rate)
    except DtypeError as error:
        raise DtypeError(str(error).replace("may attend", "is kept")) from error


def _checked_cap(softcap: Any, softcap_on: Any, bias_inside_scale: Any) -> float | None:
    """Return the cap, and refuse an unknown place for it."""
    if not isinstance(softcap_on, str) or softcap_on not in CAPPED:
        raise RangeError(f"softcap_on: expected one of {', '.join(map(repr, CAPPED))}, got {softcap_on!r}")
    boolean("bias_inside_scale", bias_inside_scale)
    return None if softcap is None else positive_number("softcap", softcap)


def _checked_sink(sink: Any, H: int) -> np.ndarray | None:
    """Return the logit of the sink of each head."""
    if sink is None:
        return None
    sink = float_array("sink", sink)
    check_same_shape("sink", sink.shape, "the heads of q", (H,))
    try:
        return checked_logits(sink)[0]
    except RangeError as error:
        raise RangeError(f"sink: {str(error).removeprefix('s: ')}") from error


def _finite(name: str, x: np.ndarray, read: np.ndarray) -> np.ndarray:
    """Return x with 0 where it is not read; an overflow where it is read is refused by its position."""
    wrong = read & ~np.isfinite(x)
    if wrong.any():
        at = first_index(wrong)
        raise RangeError(f"{name}: expected numbers within the range of floats, got {x[at]} at index {at}")
    return np.where(read, x, 0.0)


def _pairs(name: str, rows: np.ndarray, columns: np.ndarray, read: np.ndarray) -> np.ndarray:
    """Return the product of each row with each column, as `_finite` does."""
    with np.errstate(over="ignore", invalid="ignore"):
        return _finite(name, rows @ _transposed(columns), read)


def _capped(x: np.ndarray, cap: float | None) -> np.ndarray:
    """Return cap tanh(x / cap), or x without a cap."""
    with np.errstate(over="ignore"):  # x / cap beyond the floats has the tangent of infinity, one
        return x if cap is None else cap * np.tanh(x / cap)


def _through_cap(capped: np.ndarray, cap: float | None, cotangent: np.ndarray) -> np.ndarray:
    """Return the cotangent in front of the cap: tanh' = 1 - tanh^2."""
    return cotangent if cap is None else cotangent * (1.0 - (capped / cap) ** 2)


def _transposed(x: np.ndarray) -> np.ndarray:
    """Return each matrix of the last two axes transposed."""
    return np.swapaxes(x, -1, -2)


def _summed_to(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return the sum over the axes along which ``shape`` was broadcast to that of x."""
    x = x.sum(axis=tuple(range(x.ndim - len(shape))))
    stretched = tuple(axis for axis, size in enumerate(shape) if size == 1)
    return np.asarray(x.sum(axis=stretched, keepdims=True))


def attention(
    q: Float[np.ndarray, "B H N D"],
    k: Float[np.ndarray, "B H_kv M D"],
    v: Float[np.ndarray, "B H_kv M D_v"],
    bias: Float[np.ndarray, "..."] | None = None,
    *,
    scale: float | None = None,
    bias_inside_scale: bool = False,
    softcap: float | None = None,
    softcap_on: str = "scores",
    mask: Bool[np.ndarray, "..."] | None = None,
    causal: bool = False,
    query_start: SupportsIndex | None = None,
    sink: Float[np.ndarray, " H"] | None = None,
    keep: Bool[np.ndarray, "..."] | None = None,
    dropout: float = 0.0,
) -> Attention:
    r"""Return attention with every option of the book, and what its backward pass needs.

    Formula: o = softmax(s) v with s = scale q.k + bias and scale = 1/sqrt(D), for each head and query. Inside
    the scale the bias enters as scale (q.k + bias). A soft-cap c replaces the scores s by c tanh(s / c), or,
    on the "product", scale q.k alone. A sink is one more logit for each head that takes weight and has no
    value; lse includes it. ``keep`` is the mask of the weights that dropout keeps, divided by 1 - dropout.
    ``bias``, ``mask`` and ``keep`` broadcast to (B, H, N, M); H_kv divides H, and consecutive query heads
    share a head of keys. A bias of -inf hides a key, whatever the cap. A query without a key has o = 0.

    Derived in: def-bias-scores, def-bias-weights, def-bias-output.

    Raises: DtypeError, ShapeError or RangeError that names the argument, what was expected and what came;
    query_start without causal, and dropout without keep, are refused, since they would do nothing; so is a
    score beyond the range of floats, which would hide its key.

    >>> x = np.zeros((1, 1, 1, 1))
    >>> attention(x, np.zeros((1, 1, 2, 1)), np.array([1.0, 5.0]).reshape(1, 1, 2, 1)).o.item()
    3.0
    """
    q, k, v, shape = _checked_qkv(q, k, v)
    keys, values = expand_kv_heads(k, shape[1]), expand_kv_heads(v, shape[1])
    scale, cap = _checked_scale(scale, q.shape[-1]), _checked_cap(softcap, softcap_on, bias_inside_scale)
    bias, b, allowed = _checked_bias(bias, _checked_mask(mask, causal, query_start, shape))
    sink, keep = _checked_sink(sink, shape[1]), _checked_keep(keep, dropout, shape)

    x = _capped(_pairs("scale q.k", scale * q, keys, allowed), cap if softcap_on == "product" else None)
    with np.errstate(over="ignore", invalid="ignore"):
        s = _finite("scores", x + (scale * b if bias_inside_scale else b), allowed)
    s = _capped(s, cap if softcap_on == "scores" else None)
    logit = np.full(shape[1], -np.inf) if sink is None else sink
    logits = np.concatenate([s, np.broadcast_to(logit[:, None, None], (*shape[:3], 1))], axis=-1)
    visible = np.concatenate([allowed, np.ones((*shape[:3], 1), dtype=bool)], axis=-1)
    weights = softmax(logits, visible)
    p, p_sink = weights[..., :-1], weights[..., -1]
    return Attention(
        o=(p * keep) @ values, lse=lse(logits, visible), p=p, p_sink=p_sink, x=x, s=s, q=q, k=k, v=v,
        bias=bias, sink=sink, keep=keep, scale=scale, bias_inside_scale=bool(bias_inside_scale),
        softcap=cap, softcap_on=softcap_on,
    )  # fmt: skip


def attention_vjp(
    saved: Attention,
    do: Float[np.ndarray, "B H N D_v"],
    dlse: Float[np.ndarray, "B H N"] | None = None,
) -> AttentionGradients:
    r"""Return the cotangents of all inputs of `attention`.

    Formula: dp = do v^T times the factors of dropout; ds = p (dp - sum_j p_j dp_j + dlse); through the cap;
    dbias = ds summed over broadcast axes; dq = scale ds k; dk = scale ds^T q; dv = p^T do; dscale is the sum
    of ds times what the scale multiplies; dsink = p_sink (dlse - sum_j p_j dp_j) summed over queries.

    Derived in: eq-bias, eq-bias-inside, eq-bias-lse, eq-bias-cap, eq-bias-dropout, eq-bias-sink.

    Raises: DtypeError, ShapeError or RangeError for a cotangent that is no float array of the shape of its
    output or not finite, and for a product do.v beyond the range of floats; DtypeError for another ``saved``.

    >>> saved = attention(*np.zeros((3, 1, 1, 2, 1)), bias=np.zeros((2, 2)))
    >>> attention_vjp(saved, np.ones((1, 1, 2, 1))).dbias
    array([[0., 0.],
           [0., 0.]])
    """
    if not isinstance(saved, Attention):
        raise DtypeError(f"saved: expected what attention returns, an Attention, got {type(saved).__name__}")
    q, keys, values = saved.q, *(expand_kv_heads(x, saved.q.shape[1]) for x in (saved.k, saved.v))
    do = finite_array("do", do, rank=0)
    check_same_shape("do", do.shape, "o", saved.o.shape)
    dlse = np.zeros(saved.lse.shape) if dlse is None else finite_array("dlse", dlse, rank=0)
    check_same_shape("dlse", dlse.shape, "lse", saved.lse.shape)
    dropped, on_product = saved.p * saved.keep, saved.softcap_on == "product"

    dp = _pairs("do.v", do, values, dropped > 0.0) * saved.keep
    delta = (saved.p * dp).sum(axis=-1)
    ds = saved.p * (dp - delta[..., None] + dlse[..., None])
    ds = _through_cap(saved.s, None if on_product else saved.softcap, ds)
    dx = _through_cap(saved.x, saved.softcap if on_product else None, ds)
    through_keys = dx @ keys
    dq = saved.scale * through_keys
    dk = saved.scale * _transposed(dx) @ q
    dv = _transposed(dropped) @ do
    dscale = float((through_keys * q).sum())
    dbias = dsink = None
    if saved.bias is not None:
        dbias = _summed_to(saved.scale * ds if saved.bias_inside_scale else ds, saved.bias.shape)
        if saved.bias_inside_scale:
            dscale += float((ds * np.where(saved.p > 0.0, saved.bias, 0.0)).sum())
    if saved.sink is not None:
        dsink = (saved.p_sink * (dlse - delta)).sum(axis=(0, 2))
    dk, dv = (reduce_kv_heads(x, saved.k.shape[1]) for x in (dk, dv))
    return AttentionGradients(dq, dk, dv, dbias, dscale, dsink)
