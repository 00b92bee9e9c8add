"""A valid call of every figure, and of the four ways to a derivative."""

from collections.abc import Callable
from typing import Any

import matplotlib
import numpy as np

from attngrad import differentiation, plots

from .malformed import LARGE, POSITIVE, each, floats, integers, mapping, number, size, thing
from .valid_calls import DP, FREE_SIZE, OFFSET, Call, M, N, P, S, default, draw, fine

matplotlib.use("Agg")
DRAWS = ("short", "long", "short in front", "transposed")
ONE = size(least=1)


def drawn(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that draws and closes the figure; what is left are the data."""

    def called(**arguments: Any) -> Any:
        import matplotlib.pyplot as plt

        try:
            return function(**arguments)[1]
        finally:
            plt.close("all")

    return called


def of_sizes(function: Callable[..., Any], **sizes: int) -> Call:
    """Return a call of a figure that needs nothing but sizes of at least 1."""
    return Call(drawn(function), sizes, dict.fromkeys(sizes, ONE))


OFFSETS = np.arange(-2, 3)
RUNS = {"true": draw(5) ** 2, "wrong": draw(5) ** 2}
RUN = {"losses": RUNS, "tables": RUNS, "offsets": OFFSETS, "expected": draw(5)}
PLOTS = {
    "spectral_norm": Call(
        plots.spectral_norm,
        {"p": P},
        {"p": floats},
        fine(FREE_SIZE, p=("axis more", "axis less", *DRAWS, "empty in front")),
        {("p", "empty"): "at least one key in a row, got 0"},
    ),
    "jacobian_heatmap": Call(
        drawn(plots.jacobian_heatmap), {"p": P[0]}, {"p": floats}, fine(FREE_SIZE, p=("short", "long"))
    ),
    "norm_over_simplex": Call(drawn(plots.norm_over_simplex), {"steps": 6}, {"steps": size(least=2)}),
    "norm_against_scale": Call(
        drawn(plots.norm_against_scale),
        {"s": S[0], "scales": np.geomspace(0.1, 10.0, 9)},
        {"s": floats, "scales": floats},
        default("s", "scales") | fine(FREE_SIZE, s=("short", "long"), scales=("short", "long")),
    ),
    "bias_influence": Call(
        drawn(plots.bias_influence),
        {"p": P, "v": draw(M, 2), "query": 1, "key": 2},
        {"p": floats, "v": floats, "query": size(0, N - 1), "key": size(0, M - 1)},
        fine(FREE_SIZE, p=("short in front",)),
    ),
    "bias_gap": Call(drawn(plots.bias_gap), {"p": P, "dp": DP}, {"p": floats, "dp": floats}),
    "index_matrices": Call(
        drawn(plots.index_matrices),
        {"written": -OFFSET.T, "right": OFFSET},
        {"written": integers(), "right": integers()},
    ),
    "training_run": Call(
        drawn(plots.training_run),
        RUN,
        {"losses": mapping(floats), "tables": mapping(floats), "offsets": integers(), "expected": floats},
        default("expected") | fine(FREE_SIZE, losses=("one: short", "one: long")),
        {("offsets", "axis less"): "got int64"},
    ),
    "product_influence": Call(
        drawn(plots.product_influence),
        {"w": draw(N, M), "x": draw(M, 2), "of_w": (1, 2), "of_x": (3, 1)},
        {"w": floats, "x": floats, "of_w": each(size(0, M - 1)), "of_x": each(size(0, 1))},
        fine(FREE_SIZE, w=("short in front",), x=("long",)),
    ),
    "step_errors": Call(
        drawn(plots.step_errors),
        {"s": S[0], "t": DP[0], "steps": np.array([1e-3, 0.1])},
        {"s": floats, "t": floats, "steps": floats},
        default("steps") | fine(FREE_SIZE, steps=("short", "long")),
    ),
    "diagonal_sums": Call(
        drawn(plots.diagonal_sums),
        {"ds": DP, "query_start": 2},
        {"ds": floats, "query_start": LARGE},
        default("query_start") | fine(FREE_SIZE, ds=DRAWS),
    ),
    "cotangent_margins": Call(
        drawn(plots.cotangent_margins), {"ds": DP}, {"ds": floats}, fine(FREE_SIZE, ds=DRAWS)
    ),
    "query_pull": Call(
        drawn(plots.query_pull),
        {"p": P[0], "dp": DP[0], "k": draw(M, 2), "scale": 0.5},
        {"p": floats, "dp": floats, "k": floats, "scale": number()},
    ),
    "attention_flow": of_sizes(plots.attention_flow, N=3, M=5, D=2, D_v=4),
    "running_output": Call(
        drawn(plots.running_output), {"s": S[0], "v": draw(M, 2)}, {"s": floats, "v": floats}
    ),
    "leaks": Call(
        drawn(plots.leaks),
        {"means": np.arange(1.0, 6.0), "errors": {"a": draw(5) ** 2, "b": draw(5) ** 2}},
        {"means": floats, "errors": mapping(floats)},
        fine(FREE_SIZE, errors=("one less",)),
    ),
    "window_rows": Call(
        drawn(plots.window_rows),
        {"height": 2, "width": 3},
        {"height": ONE, "width": ONE},
        told={"height": r"height|sizes\[0\]", "width": r"width|sizes\[1\]"},
    ),
    "t5_buckets": Call(
        drawn(plots.t5_buckets),
        {"reach": 5, "num_buckets": 8, "max_distance": 16},
        {"reach": ONE, "num_buckets": size(least=4), "max_distance": size(least=5)},
    ),
    "rare_offsets": Call(
        drawn(plots.rare_offsets),
        {"N": 3, "M": 5, "draws": 4, "seed": 1},
        {"N": ONE, "M": ONE, "draws": ONE, "seed": size(least=0)},
    ),
    "skewed_view": Call(
        drawn(plots.skewed_view),
        {"ds": DP, "pitch": M + N - 1},
        {"ds": floats, "pitch": size(least=M)},
        default("pitch") | fine(FREE_SIZE, ds=DRAWS),
    ),
    "tile_diagonals": of_sizes(plots.tile_diagonals, N=5, M=7, rows=2, columns=3),
    "summation_orders": Call(
        drawn(plots.summation_orders),
        {"count": 9, "orders": 4, "strip": 2, "seed": 1},
        {"count": ONE, "orders": ONE, "strip": ONE, "seed": size(least=0)},
    ),
    "growth": Call(
        drawn(plots.growth),
        {"lengths": np.arange(1.0, 6.0), "times": {"a": draw(5) ** 2, "b": draw(5) ** 2}, "memory": RUNS},
        {"lengths": floats, "times": mapping(floats), "memory": mapping(floats)},
        fine(FREE_SIZE, times=("one less",), memory=("one less",)),
    ),
    "roofline": Call(
        drawn(plots.roofline),
        {"points": {"a": draw(3, 2) ** 2, "b": draw(4, 2) ** 2}, "peak": 2.0, "bandwidth": 0.5},
        {"points": mapping(floats), "peak": POSITIVE, "bandwidth": POSITIVE},
        fine(FREE_SIZE, points=("one less", "one: short in front")),
    ),
    "style": Call(plots.style, {}, {}),
}

ANY = ("nan", "inf", "-inf")
ALONG = {"f": np.exp, "x": S, "t": DP, "h": 1e-3}
ALONG_KINDS = {"f": thing, "x": floats, "t": floats, "h": POSITIVE}
DIFFERENTIATION = {
    name: Call(getattr(differentiation, name), ALONG, ALONG_KINDS)
    for name in ("forward_difference", "central_difference", "complex_step")
}
DIFFERENTIATION["dual_derivative"] = Call(
    differentiation.dual_derivative,
    {name: ALONG[name] for name in ("f", "x", "t")},
    {name: ALONG_KINDS[name] for name in ("f", "x", "t")},
)
DIFFERENTIATION["Dual"] = Call(
    differentiation.Dual,
    {"value": S, "tangent": DP},
    {"value": floats, "tangent": floats},
    fine("a step inside a calculation; dual_derivative checks where it begins", value=ANY, tangent=ANY),
)
