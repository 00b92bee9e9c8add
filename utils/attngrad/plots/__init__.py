"""Figures of the book; each function returns the figure and the data that it shows, to assert on.

Matplotlib is imported when a figure is drawn. Figures have a white ground and dark text, which reads on
light and dark pages, and colours that remain apart for colour-blind readers (Okabe and Ito; cividis).
"""

from attngrad.plots.attention import attention_flow, cotangent_margins, query_pull
from attngrad.plots.benchmarks import growth, roofline
from attngrad.plots.bias import bias_gap, bias_influence
from attngrad.plots.calculus import product_influence, step_errors
from attngrad.plots.fused import skewed_view, summation_orders, tile_diagonals
from attngrad.plots.recomputation import leaks, running_output
from attngrad.plots.repair import index_matrices, training_run
from attngrad.plots.softmax import jacobian_heatmap, norm_against_scale, norm_over_simplex, spectral_norm
from attngrad.plots.style import BLUE, GREEN, GREY, ORANGE, style
from attngrad.plots.table import diagonal_sums, rare_offsets, t5_buckets, window_rows

__all__ = [
    "BLUE",
    "GREEN",
    "GREY",
    "ORANGE",
    "attention_flow",
    "bias_gap",
    "bias_influence",
    "cotangent_margins",
    "diagonal_sums",
    "growth",
    "index_matrices",
    "jacobian_heatmap",
    "leaks",
    "norm_against_scale",
    "norm_over_simplex",
    "product_influence",
    "query_pull",
    "rare_offsets",
    "roofline",
    "running_output",
    "skewed_view",
    "spectral_norm",
    "step_errors",
    "style",
    "summation_orders",
    "t5_buckets",
    "tile_diagonals",
    "training_run",
    "window_rows",
]
