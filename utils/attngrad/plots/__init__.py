"""Figures of the book; each function returns the figure and the data that it shows, to assert on.

Matplotlib is imported when a figure is drawn. Figures have a white ground and dark text, which reads on
light and dark pages, and colours that remain apart for colour-blind readers (Okabe and Ito; cividis).
"""

from attngrad.plots.bias import bias_gap, bias_influence
from attngrad.plots.softmax import jacobian_heatmap, norm_against_scale, norm_over_simplex, spectral_norm
from attngrad.plots.style import BLUE, GREEN, GREY, ORANGE, style

__all__ = [
    "BLUE",
    "GREEN",
    "GREY",
    "ORANGE",
    "bias_gap",
    "bias_influence",
    "jacobian_heatmap",
    "norm_against_scale",
    "norm_over_simplex",
    "spectral_norm",
    "style",
]
