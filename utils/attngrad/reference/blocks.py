"""Attention in blocks of keys: the state of a block, the merge of two states, and both passes block by block.

No function but `attention_block` holds a number for each query and key, unless a bias brings one.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, SupportsIndex

import numpy as np

from attngrad.notation import (
    DtypeError,
    Float,
    RangeError,
    ShapeError,
    check_same_shape,
    finite_array,
    finite_number,
    integer,
)
from attngrad.reference.softmax import checked_logits, lse, softmax


class State(NamedTuple):
    """Attention of some queries over some keys: ``lse`` (..., N) and ``o`` (..., N, D_v)."""

    lse: np.ndarray
    o: np.ndarray


class BlockGradients(NamedTuple):
    """The cotangents of q, k, v and the bias, each in the shape of its input; None for a bias of None."""

    dq: np.ndarray
    dk: np.ndarray
    dv: np.ndarray
    dbias: np.ndarray | None


class Inputs(NamedTuple):
    """Checked inputs: q (..., N, D), k (..., M, D), v (..., M, D_v), bias (..., N, M), and the scale."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    bias: np.ndarray
    scale: float

    def scores(self, keys: slice) -> np.ndarray:
        """Return the scores of a block of keys."""
        with np.errstate(over="ignore", invalid="ignore"):
            product = self.scale * self.q @ np.swapaxes(self.k[..., keys, :], -1, -2)
        return finite_array("scale q.k", product) + self.bias[..., keys]

    def blocks(self, columns: Any) -> Iterator[slice]:
        """Yield blocks of at most so many keys."""
        columns, M = integer("columns", columns, least=1), self.k.shape[-2]
        return (slice(first, min(first + columns, M)) for first in range(0, M, columns))


def _inputs(q: Any, k: Any, v: Any, bias: Any, scale: Any) -> Inputs:
    """Return the inputs; no bias is one of zeros, which takes no memory."""
    q, k, v = (finite_array(name, x, rank=2) for name, x in (("q", q), ("k", k), ("v", v)))
    check_same_shape("k", k.shape, "the axes of q", (*q.shape[:-2], *k.shape[-2:-1], q.shape[-1]))
    check_same_shape("v", v.shape, "the keys of k", (*k.shape[:-1], v.shape[-1]))
    if q.shape[-1] == 0:
        raise ShapeError(f"q: expected at least one feature, got shape {q.shape}")
    pairs = (*q.shape[:-1], k.shape[-2])
    bias = np.broadcast_to(0.0, pairs) if bias is None else _logits("bias", bias)
    check_same_shape("bias", bias.shape, "all pairs", pairs)
    return Inputs(q, k, v, bias, q.shape[-1] ** -0.5 if scale is None else finite_number("scale", scale))


def _logits(name: str, x: Any) -> np.ndarray:
    """Return numbers, or -inf where a key is hidden, as float64."""
    try:
        return checked_logits(x)[0]
    except (DtypeError, RangeError, ShapeError) as error:
        raise type(error)(f"{name}: {str(error).removeprefix('s: ')}") from error


def _checked_state(name: str, state: Any) -> State:
    """Return a state whose arrays fit together."""
    if not isinstance(state, State):
        told = type(state).__name__
        raise DtypeError(f"{name}: expected what attention_block returns, a State, got {told}")
    log_sum, o = _logits(f"{name}.lse", state.lse), finite_array(f"{name}.o", state.o, rank=2)
    check_same_shape(f"{name}.o", o.shape, f"{name}.lse", (*log_sum.shape, o.shape[-1]))
    return State(log_sum, o)


def _weights(exponent: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Return exp(exponent - total), and 0 where the total is that of no key."""
    nothing = np.isneginf(total)
    return np.exp(np.where(nothing, -np.inf, exponent) - np.where(nothing, 0.0, total))


def attention_block(s: Float[np.ndarray, "... N M"], v: Float[np.ndarray, "... M D_v"]) -> State:
    r"""Return the state of queries with scores s over keys with values v.

    Formula: lse = log sum_j exp(s_j) and o = softmax(s) v. A score of -inf hides its key.

    Derived in: def-rec-lse, def-rec-output.

    Raises: DtypeError, ShapeError or RangeError that names s or v, what was expected and what came.

    >>> attention_block(np.zeros((1, 2)), np.array([[1.0], [5.0]])).o
    array([[3.]])
    """
    s, v = checked_logits(s)[0], finite_array("v", v, rank=2)
    if s.ndim < 2:
        raise ShapeError(f"s: expected at least 2 axes, got shape {s.shape}")
    check_same_shape("v", v.shape, "the keys of s", (*s.shape[:-2], s.shape[-1], v.shape[-1]))
    return State(lse(s), softmax(s) @ v)


def merge_states(one: State, other: State) -> State:
    r"""Return the state over the keys of both, which must have no key in common.

    Formula: lse = log(exp(lse_1) + exp(lse_2)) and o = exp(lse_1 - lse) o_1 + exp(lse_2 - lse) o_2.

    Derived in: eq-rec-merge-lse, eq-rec-merge, eq-rec-merge-step.

    Raises: DtypeError for what is no State; ShapeError for states of other queries or features.

    >>> one, other = (attention_block(np.zeros((1, 1)), np.full((1, 1), x)) for x in (1.0, 5.0))
    >>> merge_states(one, other).o
    array([[3.]])
    """
    one, other = _checked_state("one", one), _checked_state("other", other)
    check_same_shape("other.o", other.o.shape, "one.o", one.o.shape)
    total = np.logaddexp(one.lse, other.lse)
    shares = (_weights(x.lse, total)[..., None] for x in (one, other))
    return State(total, sum(share * x.o for share, x in zip(shares, (one, other), strict=True)))


def merge_states_vjp(
    one: State, other: State, do: Float[np.ndarray, "... N D_v"], dlse: Float[np.ndarray, "... N"]
) -> tuple[State, State]:
    r"""Return the cotangents of both states, of lse and of o.

    Formula: do_r = share do and dlse_r = share (do.(o_r - o) + dlse), with share exp(lse_r - lse).

    Derived in: eq-rec-merge-do, eq-rec-merge-dlse.

    Raises: as `merge_states`, and for cotangents that are no finite floats of the shapes of their outputs.

    >>> one, other = (attention_block(np.zeros((1, 1)), np.full((1, 1), x)) for x in (1.0, 5.0))
    >>> merge_states_vjp(one, other, np.ones((1, 1)), np.zeros(1))[0]
    State(lse=array([-1.]), o=array([[0.5]]))
    """
    total, o = merge_states(one, other)
    do, dlse = finite_array("do", do, rank=2), finite_array("dlse", dlse)
    check_same_shape("do", do.shape, "o", o.shape)
    check_same_shape("dlse", dlse.shape, "lse", total.shape)
    shares = [_weights(x.lse, total) for x in (one, other)]
    found = [
        State(share * ((do * (x.o - o)).sum(axis=-1) + dlse), share[..., None] * do)
        for share, x in zip(shares, (one, other), strict=True)
    ]
    return found[0], found[1]


def attention_in_blocks(
    q: Float[np.ndarray, "... N D"],
    k: Float[np.ndarray, "... M D"],
    v: Float[np.ndarray, "... M D_v"],
    bias: Float[np.ndarray, "... N M"] | None = None,
    *,
    columns: SupportsIndex,
    scale: float | None = None,
) -> State:
    r"""Return attention, from the states of blocks of at most ``columns`` keys.

    Formula: as `attention`, with s = scale q.k + bias; the states are merged from the first to the last.

    Derived in: eq-rec-parts-lse, eq-rec-parts.

    Raises: DtypeError, ShapeError or RangeError that names the argument, what was expected and what came.

    >>> x = np.zeros((1, 2, 1))
    >>> attention_in_blocks(x, x, np.array([[[1.0], [5.0]]]), columns=1).o.ravel()
    array([3., 3.])
    """
    given = _inputs(q, k, v, bias, scale)
    rows = given.q.shape[:-1]
    state = State(np.full(rows, -np.inf), np.zeros((*rows, given.v.shape[-1])))
    for keys in given.blocks(columns):
        state = merge_states(state, attention_block(given.scores(keys), given.v[..., keys, :]))
    return state


def attention_in_blocks_vjp(
    q: Float[np.ndarray, "... N D"],
    k: Float[np.ndarray, "... M D"],
    v: Float[np.ndarray, "... M D_v"],
    bias: Float[np.ndarray, "... N M"] | None,
    state: State,
    do: Float[np.ndarray, "... N D_v"],
    dlse: Float[np.ndarray, "... N"] | None = None,
    *,
    columns: SupportsIndex,
    scale: float | None = None,
) -> BlockGradients:
    r"""Return the cotangents of q, k, v and the bias; the weights of a block are computed again from lse.

    Formula: p = exp(s - lse), ds = p (do v^T - do.o + dlse), dbias = ds, dq = scale ds k, dk = scale ds^T q,
    and dv = p^T do.

    Derived in: eq-rec-weights, eq-rec-ds, eq-rec-dq, eq-rec-dk.

    Raises: as `attention_in_blocks`, and for a state or cotangents of other shapes.

    >>> x = np.zeros((1, 2, 1))
    >>> state = attention_in_blocks(x, x, np.array([[[1.0], [5.0]]]), columns=1)
    >>> attention_in_blocks_vjp(x, x, x, np.zeros((1, 2, 2)), state, x, columns=1).dq.ravel()
    array([0., 0.])
    """
    given, (log_sum, o) = _inputs(q, k, v, bias, scale), _checked_state("state", state)
    check_same_shape("state.o", o.shape, "q and v", (*given.q.shape[:-1], given.v.shape[-1]))
    do = finite_array("do", do, rank=2)
    check_same_shape("do", do.shape, "o", o.shape)
    dlse = np.zeros(log_sum.shape) if dlse is None else finite_array("dlse", dlse)
    check_same_shape("dlse", dlse.shape, "lse", log_sum.shape)

    row = (dlse - (do * o).sum(axis=-1))[..., None]
    dq, dk, dv = (np.zeros(x.shape) for x in given[:3])
    dbias = None if bias is None else np.zeros(given.bias.shape)
    for keys in given.blocks(columns):
        p = _weights(given.scores(keys), log_sum[..., None])
        ds = p * (do @ np.swapaxes(given.v[..., keys, :], -1, -2) + row)
        dq += given.scale * ds @ given.k[..., keys, :]
        dk[..., keys, :] = given.scale * np.swapaxes(ds, -1, -2) @ given.q
        dv[..., keys, :] = np.swapaxes(p, -1, -2) @ do
        if dbias is not None:
            dbias[..., keys] = ds
    return BlockGradients(dq, dk, dv, dbias)
