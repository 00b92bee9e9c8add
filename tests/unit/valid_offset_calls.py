"""A valid call of every public function of offsets and of tasks, and of every map that has been made."""

from collections.abc import Callable
from typing import Any

from attngrad import offsets, tasks

from .malformed import LARGE, each, flag, floats, integers, size, thing
from .valid_calls import (
    ANY_SHAPE,
    AT_END,
    FREE_SIZE,
    INTO_TABLE,
    OFFSET,
    RNG,
    ROW,
    B,
    Call,
    H,
    M,
    N,
    R,
    default,
    fine,
)

PAIRS = {"N": N, "M": M, "query_start": 1}
PAIR_KINDS = {"N": size(0, 2**61), "M": size(0, 2**61), "query_start": LARGE}
BUCKETS = {"num_buckets": 8, "max_distance": 16, "bidirectional": True}
BUCKET_KINDS = {"num_buckets": size(least=4), "max_distance": size(3, 2**61), "bidirectional": flag}
FROM_ONE = size(1, 2**61)
OFFSETS_FREE = fine("an array of any shape", offset=ANY_SHAPE)
WINDOW = {"height": 2, "width": 3}
WINDOW_KINDS = dict.fromkeys(WINDOW, FROM_ONE)
WINDOW_TOLD = {"height": r"height|sizes\[0\]", "width": r"width|sizes\[1\]"}


def of_map(made: Any, called: dict[str, Any]) -> dict[str, Call]:
    """Return the calls of a map that has been made: for all pairs, and for offsets where it has that."""
    name = type(made).__name__
    calls = {f"{name}.__call__": Call(made.__call__, called, PAIR_KINDS, default("query_start"))}
    if hasattr(made, "of"):
        calls[f"{name}.of"] = Call(made.of, {"offset": OFFSET}, {"offset": integers()}, OFFSETS_FREE)
    return calls


def of_window(function: Callable[..., Any]) -> Call:
    """Return a call of a function of any number of sizes."""
    told = {"first": r"sizes\[0\]", "second": r"sizes\[1\]"}
    kinds = dict.fromkeys(told, FROM_ONE)
    return Call(lambda first, second: function(first, second), {"first": 2, "second": 3}, kinds, told=told)


OF_OFFSETS = {
    **{
        name: Call(getattr(offsets, name), PAIRS, PAIR_KINDS, default("query_start"))
        for name in ("relative_offset", "causal_mask", "multiplicity")
    },
    "packed_offset": Call(
        offsets.packed_offset,
        {"lengths": (2, 1)},
        {"lengths": each(size(0, 2**61))},
        fine("lengths come from anything that can be gone through", lengths=("none", "one less", "dict")),
    ),
    "clip_offset": Call(
        offsets.clip_offset,
        {"offset": OFFSET, "max_distance": 2},
        {"offset": integers(-(2**61), 2**61), "max_distance": size(0, 2**61)},
        OFFSETS_FREE,
    ),
    "offset_row": Call(
        offsets.offset_row,
        {"offset": OFFSET, "max_distance": 5},
        {"offset": integers(-5, 5), "max_distance": size(0, 2**61)},
        OFFSETS_FREE,
    ),
    "t5_bucket": Call(
        offsets.t5_bucket, {"offset": OFFSET, **BUCKETS}, {"offset": integers(), **BUCKET_KINDS}, OFFSETS_FREE
    ),
    "rows_count": Call(
        offsets.rows_count,
        {"row": ROW, "R": R},
        {"row": INTO_TABLE, "R": size(0, 2**61)},
        fine(FREE_SIZE, row=(*AT_END, "short in front", "empty in front", "transposed")),
    ),
    "alibi_slopes": Call(offsets.alibi_slopes, {"H": H}, {"H": size(least=1)}),
    "window_axes": of_window(offsets.window_axes),
    "window_index_2d": Call(offsets.window_index_2d, WINDOW, WINDOW_KINDS, told=WINDOW_TOLD),
    "window_index_3d": Call(
        offsets.window_index_3d,
        {"depth": 2, **WINDOW},
        {"depth": FROM_ONE, **WINDOW_KINDS},
        told={"depth": r"depth|sizes\[0\]", "height": r"height|sizes\[1\]", "width": r"width|sizes\[2\]"},
    ),
    "beit_index": Call(offsets.beit_index, WINDOW, WINDOW_KINDS, told=WINDOW_TOLD),
    "OffsetMap": Call(offsets.OffsetMap, {"max_len": 5}, {"max_len": FROM_ONE}),
    **of_map(offsets.OffsetMap(5), PAIRS),
    "ClipMap": Call(offsets.ClipMap, {"max_distance": 2}, {"max_distance": size(0, 2**61)}),
    **of_map(offsets.ClipMap(2), PAIRS),
    "T5Map": Call(offsets.T5Map, BUCKETS, BUCKET_KINDS),
    **of_map(offsets.T5Map(8, 16), PAIRS),
    "WindowMap": of_window(offsets.WindowMap),
    **of_map(offsets.WindowMap(2, 3), {"N": 6, "M": 6, "query_start": 0}),
    "BeitMap": Call(offsets.BeitMap, WINDOW, WINDOW_KINDS),
    **of_map(offsets.BeitMap(2, 3), {"N": 7, "M": 7, "query_start": 0}),
    "AlibiMap": Call(
        offsets.AlibiMap, {"heads": H, "learned": True}, {"heads": size(least=1), "learned": flag}
    ),
}

GIVEN = {-1: 1.0, 2: 0.5}
TASKS = {
    "copy_weights": Call(
        tasks.copy_weights,
        {"N": N, "weights": GIVEN},
        {"N": size(least=1), "weights": thing},
        fine("no offset has a weight", weights=("dict",)),
    ),
    "copy_batch": Call(
        tasks.copy_batch,
        {"random": RNG, "weights": tasks.copy_weights(N, GIVEN), "batch": B, "tokens": 4},
        {"random": thing, "weights": floats, "batch": size(least=1), "tokens": size(least=1)},
    ),
}
