"""Position arithmetic in integers: which offset, which mask and which row of a table a pair has.

Key j sits at position j and query i at position i + query_start. The default query_start = M - N aligns
the last query with the last key; query_start = 0 aligns the first ones. An offset is the position of the
key minus that of the query; windows of images subtract the other way round, as Swin does.

A map takes N, M and query_start and returns the row of each pair; its attribute R is the number of rows.
"""

from attngrad.offsets.maps import AlibiMap, BeitMap, ClipMap, OffsetMap, T5Map, WindowMap
from attngrad.offsets.pairs import causal_mask, multiplicity, packed_offset, relative_offset
from attngrad.offsets.rows import clip_offset, offset_row, rows_count, t5_bucket
from attngrad.offsets.slopes import alibi_slopes
from attngrad.offsets.windows import beit_index, window_axes, window_index_2d, window_index_3d

__all__ = [
    "AlibiMap",
    "BeitMap",
    "ClipMap",
    "OffsetMap",
    "T5Map",
    "WindowMap",
    "alibi_slopes",
    "beit_index",
    "causal_mask",
    "clip_offset",
    "multiplicity",
    "offset_row",
    "packed_offset",
    "relative_offset",
    "rows_count",
    "t5_bucket",
    "window_axes",
    "window_index_2d",
    "window_index_3d",
]
