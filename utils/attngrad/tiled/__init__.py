"""Attention in tiles, in plain torch: nothing is stored for each pair, and repeated runs agree in every bit.

Forward, each query meets its keys tile by tile, and the softmax of a row is merged from those of its tiles.
Backward, the weights of a tile are computed again from the largest score and the sum of each row.

A bias by offset is a vector with an entry for each diagonal of the pairs. `geometry` tells how a tile reads
it without a gather and adds up its cotangent without a scatter. From the cotangents of the diagonals follow
those of any table by offset, by a gather of N + M - 1 entries in front of all this.

`attngrad.layers` checks the arguments and calls `attention` here.
"""

try:
    import torch  # noqa: F401
except ModuleNotFoundError as missing:
    told = "attngrad.tiled needs torch, which the extra attngrad[torch] brings"
    raise ModuleNotFoundError(told) from missing

from attngrad.tiled.attention import attention
from attngrad.tiled.scores import Options

__all__ = ["Options", "attention"]
