"""Exercises on the gradient of a bias: outside and inside the scale, of a table, and of all of attention."""

from collections.abc import Callable

import numpy as np

from attngrad import reference
from attngrad.checks import check_vjp
from attngrad.exercises.record import Exercise, Sizes, on_record
from attngrad.mistakes import mistake

PAIRS = (
    {"B": 1, "H": 1, "N": 1, "M": 1},
    {"B": 1, "H": 1, "N": 1, "M": 2},
    {"B": 1, "H": 1, "N": 2, "M": 3},
    {"B": 1, "H": 2, "N": 1, "M": 3},
    {"B": 2, "H": 1, "N": 3, "M": 2},
    {"B": 2, "H": 3, "N": 5, "M": 7},
)
TABLES = (
    {"N": 1, "M": 1, "R": 1},
    {"N": 1, "M": 2, "R": 1},
    {"N": 2, "M": 3, "R": 2},
    {"N": 3, "M": 2, "R": 7},
    {"N": 5, "M": 7, "R": 4},
)
HEADS = (
    {"B": 1, "H": 1, "N": 1, "M": 1, "D": 1, "D_v": 1},
    {"B": 1, "H": 1, "N": 1, "M": 2, "D": 2, "D_v": 1},
    {"B": 1, "H": 1, "N": 2, "M": 3, "D": 3, "D_v": 2},
    {"B": 2, "H": 1, "N": 1, "M": 2, "D": 3, "D_v": 2, "shared": 1},
    {"B": 2, "H": 3, "N": 4, "M": 5, "D": 7, "D_v": 6},
)


def _shape(sizes: Sizes) -> tuple[int, ...]:
    return tuple(sizes[axis] for axis in "BHNM")


def _weights(rng: np.random.Generator, sizes: Sizes) -> tuple[np.ndarray, np.ndarray]:
    """Return weights, and a cotangent of them."""
    return reference.softmax(rng.normal(size=_shape(sizes))), rng.normal(size=_shape(sizes))


def _weights_and_scale(rng: np.random.Generator, sizes: Sizes) -> tuple[np.ndarray, np.ndarray, float]:
    return (*_weights(rng, sizes), float(rng.uniform(0.2, 0.6)))


def _rows_of_a_table(rng: np.random.Generator, sizes: Sizes) -> tuple[np.ndarray, np.ndarray, int]:
    """Return a cotangent of the scores, and for each pair its row of a table; some rows have no pair."""
    shape = sizes["N"], sizes["M"]
    return rng.normal(size=shape), rng.integers(0, max(1, sizes["R"] - 1), size=shape), sizes["R"]


def _heads(rng: np.random.Generator, sizes: Sizes) -> tuple[np.ndarray, ...]:
    """Return q, k, v, a bias and a cotangent of the output; a shared bias has one batch."""
    B, H, N, M = _shape(sizes)
    q, k = rng.normal(size=(B, H, N, sizes["D"])), rng.normal(size=(B, H, M, sizes["D"]))
    v, do = rng.normal(size=(B, H, M, sizes["D_v"])), rng.normal(size=(B, H, N, sizes["D_v"]))
    return q, k, v, rng.normal(size=(1 if "shared" in sizes else B, H, N, M)), do


def _gradients(q: np.ndarray, k: np.ndarray, v: np.ndarray, bias: np.ndarray, do: np.ndarray) -> tuple:
    return tuple(reference.attention_vjp(reference.attention(q, k, v, bias), do)[:4])


# --- sums of absolute terms, as bounds for errors ---------------------------------------------


def _row_terms(p: np.ndarray, dp: np.ndarray, scale: float = 1.0) -> np.ndarray:
    return scale * p * (np.abs(dp) + (p * np.abs(dp)).sum(axis=-1, keepdims=True))


def _table_terms(ds: np.ndarray, row: np.ndarray, R: int) -> np.ndarray:
    return np.bincount(row.ravel(), np.abs(ds).ravel(), minlength=R)


def _gradient_terms(q: np.ndarray, k: np.ndarray, v: np.ndarray, bias: np.ndarray, do: np.ndarray) -> tuple:
    run, transpose = reference.attention(q, k, v, bias), (0, 1, 3, 2)
    ds = _row_terms(run.p, np.abs(do) @ np.abs(v).transpose(transpose))
    dbias = ds.sum(axis=0, keepdims=True) if bias.shape[0] < ds.shape[0] else ds
    dq, dk = run.scale * ds @ np.abs(k), run.scale * ds.transpose(transpose) @ np.abs(q)
    return dq, dk, run.p.transpose(transpose) @ np.abs(do), dbias


# --- second opinions: differences of forward functions ------------------------------------------


def _outside_by_differences(function: Callable, arguments: tuple) -> None:
    b = np.log(arguments[0])
    if b.shape[-1] > 1:
        check_vjp(reference.softmax, lambda b, u: function(reference.softmax(b), u), b)


def _inside_by_differences(function: Callable, arguments: tuple) -> None:
    p, _, scale = arguments

    def weights(b: np.ndarray) -> np.ndarray:
        return reference.softmax(scale * b)

    if p.shape[-1] > 1:
        check_vjp(weights, lambda b, u: function(weights(b), u, scale), np.log(p) / scale)


def _table_by_differences(function: Callable, arguments: tuple) -> None:
    _, row, R = arguments
    table = np.linspace(-1.0, 1.0, R)
    check_vjp(lambda t: np.sin(t)[row], lambda t, u: np.cos(t) * function(u, row, R), table)


def _attention_by_differences(function: Callable, arguments: tuple) -> None:
    *inputs, _ = arguments
    if inputs[1].shape[-2] > 1:
        check_vjp(lambda *x: reference.attention(*x).o, function, inputs)


# --- what goes wrong ------------------------------------------------------------------------------


def _mean_over_queries(p: np.ndarray, dp: np.ndarray) -> np.ndarray:
    return p * (dp - (p * dp).sum(axis=-2, keepdims=True))


def _of_a_table(id: str) -> Callable[..., np.ndarray]:
    """Return a wrong gradient of the tables of heads, for the one table of this exercise."""
    wrong = mistake(id).function
    return lambda ds, row, R: wrong(row, ds[None], R)[0]


def _changed(**factors: Callable[..., np.ndarray]) -> Callable[..., tuple]:
    """Return the gradients of attention with some of them changed by a function of them and the inputs."""
    names = ("dq", "dk", "dv", "dbias")

    def wrong(*arguments: np.ndarray) -> tuple:
        right = dict(zip(names, _gradients(*arguments), strict=True))
        return tuple(factors[x](right, *arguments) if x in factors else right[x] for x in names)

    return wrong


def _root(q: np.ndarray) -> float:
    return float(np.sqrt(q.shape[-1]))


ATTENTION = {
    "bias-vjp-scaled-outside": _changed(dbias=lambda g, q, *rest: g["dbias"] / _root(q)),
    "the scale lost in dq": _changed(dq=lambda g, q, *rest: g["dq"] * _root(q)),
    "the scale lost in dk": _changed(dk=lambda g, q, *rest: g["dk"] * _root(q)),
    "the scale lost in dq and dk": _changed(
        dq=lambda g, q, *rest: g["dq"] * _root(q), dk=lambda g, q, *rest: g["dk"] * _root(q)
    ),
}
ROWS = on_record("softmax-vjp-diagonal-only", "softmax-vjp-elementwise", "softmax-vjp-sign-flipped")

BIAS = (
    Exercise(
        name="bias_vjp",
        signature="bias_vjp(p, dp) -> db",
        asks="The cotangent of a bias (B, H, N, M) that is added outside the scale, from the weights and "
        "their cotangent.",
        instances=PAIRS,
        draw=_weights,
        right=reference.softmax_vjp,
        terms=_row_terms,
        second=_outside_by_differences,
        mistakes={**ROWS, "the mean over the queries": _mean_over_queries},
    ),
    Exercise(
        name="bias_inside_vjp",
        signature="bias_inside_vjp(p, dp, scale) -> db",
        asks="The cotangent of a bias (B, H, N, M) inside the scale, scale * (q.k + b), from the weights and "
        "their cotangent.",
        instances=PAIRS,
        draw=_weights_and_scale,
        right=lambda p, dp, scale: scale * reference.softmax_vjp(p, dp),
        terms=_row_terms,
        second=_inside_by_differences,
        mistakes=on_record(
            "bias-inside-vjp-factor-dropped", "bias-inside-vjp-entrywise", "bias-inside-vjp-literal"
        )
        | {"the factor taken twice": lambda p, dp, scale: scale**2 * reference.softmax_vjp(p, dp)},
    ),
    Exercise(
        name="table_vjp",
        signature="table_vjp(ds, row, R) -> dtable",
        asks="The gradient (R,) of a table whose entry row[i, j], from 0 to R - 1, is the bias of query i "
        "and key j, from the cotangent ds (N, M) of the scores.",
        instances=TABLES,
        draw=_rows_of_a_table,
        right=lambda ds, row, R: np.bincount(row.ravel(), ds.ravel(), minlength=R),
        terms=_table_terms,
        second=_table_by_differences,
        mistakes={
            id: _of_a_table(id)
            for id in ("table-vjp-fancy-index", "table-vjp-mean-over-pairs", "table-vjp-half-sums")
        },
    ),
    Exercise(
        name="attention_vjp",
        signature="attention_vjp(q, k, v, bias, do) -> dq, dk, dv, dbias",
        asks="The backward pass of softmax(q k^T / sqrt(D) + bias) v; q is (B, H, N, D), k (B, H, M, D), "
        "v (B, H, M, D_v), the bias (B, H, N, M) or, shared by the batch, (1, H, N, M).",
        instances=HEADS,
        draw=_heads,
        right=_gradients,
        terms=_gradient_terms,
        second=_attention_by_differences,
        mistakes=ATTENTION,
        results=("dq", "dk", "dv", "dbias"),
    ),
)
