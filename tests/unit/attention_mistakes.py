"""Checks that must reject the mistakes of attention's backward pass, and the inputs that let them through."""

from typing import Any

import numpy as np

from attngrad import reference as ref
from attngrad.checks import check_vjp
from attngrad.mistakes import MISTAKES

B, H, H_KV, N, M, D, D_V = 2, 6, 3, 4, 5, 7, 3
SCALE = 0.4
RNG = np.random.default_rng(31)
Q, K, V = (RNG.standard_normal(shape) for shape in ((B, H, N, D), (B, H_KV, M, D), (B, H_KV, M, D_V)))
KEYS, VALUES = ref.expand_kv_heads(K, H), ref.expand_kv_heads(V, H)
SQUARE = RNG.standard_normal((B, H, M, M))
BLOCK = np.array([0, 0, 1, 1, 1])


def attend(q: np.ndarray = Q, k: np.ndarray = KEYS, v: np.ndarray = VALUES, scale: Any = SCALE) -> Any:
    """Return attention; heads of keys are not shared unless ``k`` and ``v`` say so."""
    return ref.attention(q, k, v, scale=float(scale))


def cotangent_of_scores(saved: Any, do: np.ndarray) -> np.ndarray:
    """Return ds by the library's own softmax_vjp."""
    values = ref.expand_kv_heads(saved.v, do.shape[1])
    return ref.softmax_vjp(saved.p, do @ np.swapaxes(values, -1, -2))


def dq_difference(candidate):
    check_vjp(
        lambda q: attend(q).o, lambda q, do: candidate(cotangent_of_scores(attend(q), do), KEYS, SCALE), Q
    )


def dk_difference(candidate):
    def vjp(k, do):
        return candidate(cotangent_of_scores(attend(k=k), do), Q, SCALE)

    check_vjp(lambda k: attend(k=k).o, vjp, KEYS)


def grouped_dk_difference(candidate):
    def vjp(k, do):
        ds = cotangent_of_scores(attend(k=k, v=V), do)
        return candidate(SCALE * np.swapaxes(ds, -1, -2) @ Q, H_KV)

    check_vjp(lambda k: attend(k=k, v=V).o, vjp, K)


def dscale_difference(candidate):
    def vjp(scale, do):
        qk = Q @ np.swapaxes(KEYS, -1, -2)
        return candidate(cotangent_of_scores(attend(scale=scale), do), qk, float(scale))

    check_vjp(lambda scale: attend(scale=scale).o, vjp, np.array(SCALE))


def square_ds_difference(candidate):
    """As many features of a value as keys, so that the shapes of a wrong formula fit."""
    check_vjp(
        lambda bias: ref.attention(Q, KEYS, SQUARE, bias).o,
        lambda bias, do: candidate(ref.attention(Q, KEYS, SQUARE, bias).p, SQUARE, do),
        RNG.standard_normal((B, H, N, M)),
    )


def block_ds_difference(candidate):
    s = RNG.standard_normal((3, M))
    check_vjp(ref.softmax, lambda s, dp: candidate(ref.softmax(s), dp, BLOCK), s)


ATTENTION_CHECKS = {
    "dq-difference": dq_difference,
    "dk-difference": dk_difference,
    "grouped-dk-difference": grouped_dk_difference,
    "dscale-difference": dscale_difference,
    "square-ds-difference": square_ds_difference,
    "block-ds-difference": block_ds_difference,
}


def naive_attention_inputs() -> dict[str, dict[str, tuple]]:
    """Return, for each function that a mistake stands for, inputs such as naive tests use."""
    p, dp, ones = attend().p, RNG.standard_normal((B, H, N, M)), np.ones((B, H, N, M))
    ds, qk = ref.softmax_vjp(p, dp), Q @ np.swapaxes(KEYS, -1, -2)
    one, column = np.ones((B, H, N, 1)), dp[..., :1]
    flat, lonely = ref.softmax_vjp(p, ones), ref.softmax_vjp(one, column)
    row, eye = slice(None, 1), np.broadcast_to(np.eye(M), (B, H, M, M))

    def scaled(all_keys: np.ndarray, one_key: np.ndarray) -> dict[str, tuple]:
        return {
            "sum-loss": (flat, all_keys, SCALE),
            "one-key": (lonely, one_key, SCALE),
            "one-batch": (ds[row], all_keys[row], SCALE),
            "unit-scale": (ds, all_keys, 1.0),
        }

    return {
        "scale * ds @ k": scaled(KEYS, KEYS[..., :1, :]),
        "scale * ds^T @ q": scaled(Q, Q),
        "(ds * qk).sum()": scaled(qk, qk[..., :1]),
        "softmax_vjp(p, do @ v^T)": {
            "sum-loss": (p, SQUARE, ones),
            "one-key": (one, SQUARE[..., :1, :1], column),
            "identity-values": (p, eye, dp),
        },
        "softmax_vjp(p, dp), keys in blocks": {
            "sum-loss": (p, ones, BLOCK),
            "one-key": (one, column, BLOCK[:1]),
            "one-block": (p, dp, np.zeros(M)),
        },
        "reduce_kv_heads(dk, H_kv)": {
            "ungrouped": (KEYS, H),
            "one-batch": (KEYS[row], H_KV),
        },
    }


def ruled_out_by_laws() -> dict[str, dict[str, bool]]:
    """Return which law of the gradients, none of which needs a reference, rejects each mistake."""
    saved, do = attend(k=K, v=V), RNG.standard_normal((B, H, N, D_V))
    ds = cotangent_of_scores(saved, do)
    dp, qk = do @ np.swapaxes(VALUES, -1, -2), Q @ np.swapaxes(KEYS, -1, -2)
    per_head = SCALE * np.swapaxes(ds, -1, -2) @ Q
    right = {
        "ds": ds,
        "dq": SCALE * ds @ KEYS,
        "dk": ref.reduce_kv_heads(per_head, H_KV),
        "dscale": np.asarray((ds * qk).sum()),
    }
    assert not any(_laws(**right).values())
    unscaled = MISTAKES["attention-dk-unscaled"].function(ds, Q, SCALE)
    wrong = {
        "attention-dq-unscaled": {"dq": (ds, KEYS, SCALE)},
        "attention-dq-scaled-twice": {"dq": (ds, KEYS, SCALE)},
        "attention-delta-unweighted": {"ds": (saved.p, dp)},
        "attention-delta-of-block": {"ds": (saved.p, dp, BLOCK)},
        "attention-group-last-head": {"dk": (per_head, H_KV)},
        "attention-dscale-of-scores": {"dscale": (ds, qk, SCALE)},
        "attention-dscale-of-logarithm": {"dscale": (ds, qk, SCALE)},
    }
    found = {
        id: _laws(**{**right, name: MISTAKES[id].function(*arguments)})
        for id, case in wrong.items()
        for name, arguments in case.items()
    }
    both = {"dq": right["dq"] / SCALE, "dk": ref.reduce_kv_heads(unscaled, H_KV)}
    return found | {"both lines of the post": _laws(**{**right, **both})}


def _laws(ds: np.ndarray, dq: np.ndarray, dk: np.ndarray, dscale: np.ndarray) -> dict[str, bool]:
    """Return which laws are broken: row sums, Q^T dQ = dK^T K, <Q, dQ> = scale dscale, sums of dK."""
    grouped = (x.reshape(B, H_KV, H // H_KV, N, D) for x in (Q, dq))
    left = np.einsum("bguic,bguim->bgcm", *grouped)
    pairs = {
        "rows": (ds.sum(axis=-1), np.zeros((B, H, N))),
        "balance": (left, np.einsum("bgjc,bgjm->bgcm", dk, K)),
        "scale": ((Q * dq).sum(), SCALE * dscale),
        "keys": (dk.sum(axis=2), np.zeros((B, H_KV, D))),
    }
    return {name: not np.allclose(got, want, rtol=0.0, atol=1e-11) for name, (got, want) in pairs.items()}
