"""Known mistakes of tiled attention, planted one at a time: the comparison with the reference finds each."""

import importlib
import math

import pytest
import torch

from attngrad.tiled import backward, forward, geometry, overflow, scores
from attngrad.tiled.geometry import Block, SkewMemory, Tile, Tiling, length, parts

from .test_tiled import test_a_cotangent_on_a_query_without_a_key_is_not_read as unread
from .test_tiled import test_values_of_any_size_are_averaged as of_any_size
from .tiled_cases import CASES, Shared, padding_cleared_once

attention = importlib.import_module("attngrad.tiled.attention")
RIGHT = {
    "diagonals_of": geometry.diagonals_of,
    "hankel": geometry.hankel,
    "merged": forward.merged,
    "row_terms": attention.row_terms,
    "_diagonals": scores.Scores._diagonals,
    "tiles": Tiling.tiles,
}


def hankel_off_by_one(diagonals, tile):
    start = max(0, tile.rows.start - 1)
    return RIGHT["hankel"](diagonals, Tile(slice(start, start + length(tile.rows)), tile.columns))


def diagonals_off_by_one(tile):
    right = RIGHT["diagonals_of"](tile)
    return slice(max(0, right.start - 1), max(0, right.start - 1) + length(right))


def tail_left_out(self, rows):
    """Columns that do not fill a tile are dropped."""
    for tile in RIGHT["tiles"](self, rows):
        if length(tile.columns) == self.columns or self.M < self.columns:
            yield tile


def tail_rows_left_out(self):
    return (rows for rows in parts(0, self.N, self.rows) if length(rows) == self.rows or self.N < self.rows)


def pitch_too_short(self, tiling, like):
    self.all = like.new_zeros(tiling.heads, tiling.rows, tiling.columns)
    self.written = tiling.columns


def merged_without_fading(one, other, exp_):
    top = torch.maximum(one.top, other.top)
    return forward.State(top, one.total + other.total, one.weighted + other.weighted)


def lse_without_cotangent(o, lse, inverse, do, dlse):
    return RIGHT["row_terms"](o, lse, inverse, do, None)


def delta_of_the_wrong_sign(o, lse, inverse, do, dlse):
    do, row = RIGHT["row_terms"](o, lse, inverse, do, None)
    return do, -row if dlse is None else dlse.masked_fill(lse.isneginf(), 0.0).unsqueeze(-1) - row


def empty_rows_read(o, lse, inverse, do, dlse):
    row = -(do * o).sum(dim=-1, keepdim=True)
    return do, row if dlse is None else row + dlse.unsqueeze(-1)


def heads_of_another_group(self):
    """Consecutive heads are taken for the n-th ones of their groups."""
    group = self.H // self.H_kv
    for batches in parts(0, self.B, max(1, self.heads // self.H_kv)):
        for shared in parts(0, self.H_kv, self.heads):
            for n in range(group):
                first = n * self.H_kv + shared.start
                yield Block(batches, slice(first, first + length(shared)), shared)


def one_diagonal_too_few(self, N, M):
    found = RIGHT["_diagonals"](self, N, M)
    start = self.options.query_start
    if start is not None:
        found = found.clone()
        found[:, max(0, start + N - 1) :] = -torch.inf
    return found


def queries_in_the_order_of_rows(self, x, lines):
    part = x[self.block.batches, self.block.heads]
    part.copy_(lines.view(part.shape))


def one_batch_of_the_table(self, heads, tile, ds, sums):
    if sums.ddiagonals is not None:
        by_diagonal = heads.by_batch(self.skew.sums(heads.count, tile))
        of_one = by_diagonal[0] if heads.batches > 1 else by_diagonal
        sums.ddiagonals[:, geometry.diagonals_of(tile)].add_(of_one)


PLANTED = {
    "padding is not cleared": (SkewMemory, "tile", padding_cleared_once),
    "rows end too early": (SkewMemory, "__init__", pitch_too_short),
    "a bias one diagonal off": (scores, "hankel", hankel_off_by_one),
    "sums one diagonal off": (backward, "diagonals_of", diagonals_off_by_one),
    "tail of the columns": (Tiling, "tiles", tail_left_out),
    "tail of the rows": (Tiling, "strips", tail_rows_left_out),
    "merged without fading": (forward, "merged", merged_without_fading),
    "lse has no cotangent": (attention, "row_terms", lse_without_cotangent),
    "delta of the wrong sign": (attention, "row_terms", delta_of_the_wrong_sign),
    "heads of another group": (Tiling, "blocks", heads_of_another_group),
    "a causal mask one off": (scores.Scores, "_diagonals", one_diagonal_too_few),
    "queries stay in reverse": (scores.Heads, "put", queries_in_the_order_of_rows),
    "the table of one batch": (backward.Backward, "_add_to_bias", one_batch_of_the_table),
}


def found_by(tiles):
    """Return the cases that fail in tiles of a size, each with what it says."""
    failed = {}
    for name in ("T5", "one batch", "causal", "causal, empty rows", "padding", "dropout"):
        try:
            CASES[name].check(tiles)
        except (AssertionError, RuntimeError, IndexError) as error:
            failed[name] = str(error)
    return failed


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_mistake_is_found(name, monkeypatch):
    assert found_by("several heads") == {}
    monkeypatch.setattr(*PLANTED[name])
    assert found_by("several heads") != {}


def test_reading_a_cotangent_where_there_is_no_key_is_found(monkeypatch):
    monkeypatch.setattr(attention, "row_terms", empty_rows_read)
    with pytest.raises(AssertionError):
        unread()


@pytest.mark.parametrize(("name", "values"), [("SMALL", 1.0), ("MODERATE", 1e36)])
def test_a_bound_that_is_left_out_is_found(name, values, monkeypatch):
    size = {"SMALL": 100.0, "MODERATE": 22.1}[name]
    of_any_size(size, values)
    monkeypatch.setattr(overflow, name, math.inf)
    with pytest.raises(AssertionError):
        of_any_size(size, values)


def test_a_mistake_in_ragged_tiles_shows_in_no_tile_that_is_whole(monkeypatch):
    """So that sizes which tiles divide would not find it: the cases of these tests have prime ones."""
    monkeypatch.setattr(*PLANTED["padding is not cleared"])
    whole = Shared((2, 4, 2, 12, 15, 3, 5))
    assert all(math.gcd(n, size) == size for n, size in zip((12, 15), (2, 5), strict=True))
    whole.check("several heads")
    with pytest.raises(AssertionError, match="dtable"):
        Shared((2, 4, 2, 12, 13, 3, 5)).check("several heads")
