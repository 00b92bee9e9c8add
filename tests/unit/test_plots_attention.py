"""What the figures of attention's backward pass show, asserted on the data that they return."""

import matplotlib
import numpy as np
import pytest

from attngrad import plots
from attngrad import reference as ref
from attngrad.checks import check_close
from attngrad.notation import DtypeError, RangeError, ShapeError

matplotlib.use("Agg")
RNG = np.random.default_rng(8)
N, M, D, D_V = 3, 5, 2, 4


def test_the_graph_has_the_shapes_of_all_arrays_and_cotangents():
    figure, flow = plots.attention_flow(N, M, D, D_V)
    q, k, v, bias = (RNG.standard_normal((1, 1, *flow["shapes"][name])) for name in "QKVb")
    saved = ref.attention(q, k, v, bias)
    do = RNG.standard_normal(saved.o.shape)
    found = ref.attention_vjp(saved, do)
    arrays = {"S": saved.s, "P": saved.p, "O": saved.o, "dO": do, "dQ": found.dq, "dK": found.dk}
    arrays |= {"dV": found.dv, "db": found.dbias, "dS": found.dbias, "dP": do @ np.swapaxes(v, -1, -2)}
    arrays |= {"Q": q, "K": k, "V": v, "b": bias}
    assert {name: x.shape[2:] for name, x in arrays.items()} == flow["shapes"]
    told = [text.get_text() for text in figure.axes[0].texts]
    assert "$V$\n$5 \\times 4$" in told
    assert sum("\\times K" in text for text in told) == 1
    figure.canvas.draw()


def test_each_cotangent_is_formed_from_what_stands_at_its_arrow_and_nothing_else():
    """With all arrays but the two that are read drawn anew, the formula still gives the cotangent."""
    _, flow = plots.attention_flow(N, M, D, D_V)
    formulas = {
        "dV": lambda do, p: p.T @ do,
        "dP": lambda do, v: do @ v.T,
        "dS": lambda dp, p: ref.softmax_vjp(p, dp),
        "dQ": lambda ds, k: ds @ k,
        "dK": lambda ds, q: ds.T @ q,
        "db": lambda ds: ds,
    }
    assert set(flow["reads"]) == set(formulas)
    q, k, v, bias = (RNG.standard_normal(flow["shapes"][name]) for name in "QKVb")
    saved = ref.attention(q[None, None], k[None, None], v[None, None], bias, scale=1.0)
    do = RNG.standard_normal((N, D_V))
    found = ref.attention_vjp(saved, do[None, None])
    dp = do @ v.T
    arrays = {"Q": q, "K": k, "V": v, "P": saved.p[0, 0], "dO": do, "dP": dp, "dS": found.dbias}
    wanted = {"dV": found.dv[0, 0], "dP": dp, "dS": found.dbias, "dQ": found.dq[0, 0], "dK": found.dk[0, 0]}
    for name, read in flow["reads"].items():
        got = formulas[name](*(arrays[x] for x in read))
        check_close(name, got, wanted.get(name, found.dbias), terms=20.0)


def test_a_query_is_pulled_by_the_covariance_of_what_is_wanted_and_where_keys_are():
    p, dp, k = ref.softmax(RNG.standard_normal(M)), RNG.standard_normal(M), RNG.standard_normal((M, 2))
    figure, pull = plots.query_pull(p, dp, k, scale=0.3)
    check_close("mean", pull["mean"], sum(p[j] * k[j] for j in range(M)), terms=4.0)
    covariance = sum(p[j] * (dp[j] - p @ dp) * (k[j] - p @ k) for j in range(M))
    check_close("dq", pull["dq"], 0.3 * covariance, terms=4.0)
    moved = plots.query_pull(p, dp + 2.0, k - 5.0, scale=0.3)[1]
    check_close("dq of moved keys", moved["dq"], pull["dq"], terms=20.0)
    filled, hollow = figure.axes[0].collections
    assert len(filled.get_offsets()) == (pull["ds"] > 0.0).sum() > 0
    assert len(hollow.get_offsets()) == (pull["ds"] <= 0.0).sum() > 0
    figure.canvas.draw()


def test_the_margins_are_the_sums_of_rows_and_columns():
    ds = ref.softmax_vjp(ref.softmax(RNG.standard_normal((N, M))), RNG.standard_normal((N, M)))
    figure, margins = plots.cotangent_margins(ds)
    check_close("rows", margins["rows"], np.zeros(N), terms=4.0)
    check_close("columns", margins["columns"], np.ones(N) @ ds, terms=4.0)
    assert np.abs(margins["columns"]).max() > 0.1
    told = [text.get_text() for text in figure.axes[0].texts]
    assert f"{margins['columns'][1]:.3g}" in told[-M:]
    figure.canvas.draw()


P, K = np.array([0.25, 0.75]), np.zeros((2, 2))


@pytest.mark.usefixtures("raw_errors")
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: plots.attention_flow(0, 1, 1, 1), RangeError, "N: expected an integer of at least 1, got 0"),
        (lambda: plots.attention_flow(1, 1, 1, 2.0), DtypeError, "D_v: expected an integer"),
        (lambda: plots.query_pull(P[None], P[None], K, 1.0), ShapeError, r"p: expected shape \(2,\) as for"),
        (lambda: plots.query_pull(P, P, K[:1], 1.0), ShapeError, r"k: expected shape \(2, 2\) as for keys"),
        (lambda: plots.query_pull(P, P[:1], K, 1.0), ShapeError, "dp: expected shape"),
        (lambda: plots.query_pull(P, P, K, np.inf), RangeError, "scale: expected a finite number"),
        (lambda: plots.cotangent_margins(np.zeros(3)), ShapeError, "ds: expected at least 2 axes"),
        (lambda: plots.cotangent_margins(np.zeros((1, 2, 3))), ShapeError, "ds: expected shape"),
        (lambda: plots.cotangent_margins(np.full((2, 2), np.nan)), RangeError, "ds: "),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()
