"""Tiles cover all pairs once, and the two views read and add up what the pairs say."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attngrad.tiled import geometry
from attngrad.tiled.geometry import SkewMemory, Tile, Tiling, diagonals_of, hankel, padded

from .tiled_cases import SMALL, padding_cleared_once, random, tiles_of


def tiling(N, M, H=1, B=1, H_kv=1, live=None):
    """Return how pairs are divided, all of them live unless it is said."""
    return Tiling(B, H, H_kv, N, M, slice(0, N + M - 1) if live is None else live)


sizes, sizes_of_tiles = st.integers(1, 30), st.sampled_from([*SMALL])


@given(sizes, sizes, st.integers(-3, 60), st.integers(0, 60), sizes_of_tiles)
def test_tiles_cover_the_live_pairs_once(N, M, first, number, tiles):
    live = slice(max(0, first), min(N + M - 1, first + number))
    covered = np.zeros((N, M), dtype=int)
    with tiles_of(tiles):
        divided = tiling(N, M, live=live)
        for rows in divided.strips():
            for tile in divided.tiles(rows):
                assert 0 < geometry.length(tile.columns) <= divided.columns
                assert geometry.length(tile.rows) <= divided.rows
                covered[tile.rows, tile.columns] += 1
    diagonal = np.arange(N)[:, None] + np.arange(M)
    wanted = (diagonal >= live.start) & (diagonal < live.stop)
    assert covered.max() <= 1
    assert (covered[wanted] == 1).all()


def test_what_a_causal_mask_hides_is_mostly_left_out():
    n = 64
    with tiles_of("small"):
        divided = tiling(n, n, live=slice(0, n))
        entries = sum(
            geometry.length(tile.rows) * geometry.length(tile.columns)
            for rows in divided.strips()
            for tile in divided.tiles(rows)
        )
    assert n * (n + 1) / 2 <= entries <= 0.55 * n * n


@given(st.integers(0, 4), st.integers(1, 4), st.integers(1, 3), st.sampled_from([*SMALL]))
def test_blocks_cover_all_heads_once_beside_their_keys(B, H_kv, group, tiles):
    covered = np.zeros((B, H_kv * group), dtype=int)
    with tiles_of(tiles):
        divided = tiling(5, 7, H=H_kv * group, B=B, H_kv=H_kv)
        for batches, heads, shared in divided.blocks():
            covered[batches, heads] += 1
            of_queries = np.arange(H_kv * group)[heads] // group
            assert of_queries.tolist() == np.arange(H_kv)[shared].tolist()
            assert geometry.length(batches) * geometry.length(shared) <= divided.heads
    assert (covered == 1).all()


@given(st.integers(1, 9), st.integers(1, 9), st.data())
def test_the_hankel_view_holds_the_diagonals_of_a_tile(N, M, data):
    diagonals = random(3, N + M - 1)
    rows, columns = (sorted(data.draw(st.lists(st.integers(0, n), min_size=2, max_size=2))) for n in (N, M))
    tile = Tile(slice(*rows), slice(*columns))
    if rows[0] == rows[1] or columns[0] == columns[1]:
        return
    whole = torch.stack([diagonals[:, N - 1 - i : N - 1 - i + M] for i in reversed(range(N))], dim=1)
    view = hankel(diagonals, tile)
    assert torch.equal(view, whole[:, tile.rows, tile.columns])
    assert view.untyped_storage().data_ptr() == diagonals.untyped_storage().data_ptr()
    some = diagonals[1::2]
    assert torch.equal(hankel(some, tile), whole[1::2, tile.rows, tile.columns])
    assert torch.equal(diagonals[:, diagonals_of(tile)][:, 0], view[:, 0, 0])
    assert torch.equal(diagonals[:, diagonals_of(tile)][:, -1], view[:, -1, -1])


def sums_one_by_one(x):
    """Return the sums of the diagonals r + j of x (heads, rows, columns)."""
    heads, rows, columns = x.shape
    total = torch.zeros(heads, rows + columns - 1, dtype=x.dtype)
    for r in range(rows):
        total[:, r : r + columns] += x[:, r]
    return total


SHAPES = [(4, 8), (4, 5), (2, 9), (1, 1), (3, 7), (4, 9)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_skew_view_adds_up_diagonals_after_tiles_of_any_shape(dtype):
    with tiles_of("small"):
        geometry.ROWS, geometry.COLUMNS, geometry.ENTRIES = 4, 9, 108
        memory = SkewMemory(tiling(4, 9, H=3, H_kv=3), torch.zeros((), dtype=dtype))
    for n, (rows, columns) in enumerate(SHAPES):
        tile = Tile(slice(0, rows), slice(2, 2 + columns))
        x = random(3, rows, columns, seed=n).to(dtype)
        memory.tile(3, tile).copy_(x)
        torch.testing.assert_close(memory.sums(3, tile), sums_one_by_one(x))


def test_padding_that_is_not_cleared_is_seen_by_that_test(monkeypatch):
    monkeypatch.setattr(SkewMemory, "tile", padding_cleared_once)
    with pytest.raises(AssertionError):
        test_the_skew_view_adds_up_diagonals_after_tiles_of_any_shape(torch.float64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("columns", [1, 16, 17, 127, 128, 129, 1024])
def test_the_pitch_is_an_odd_number_of_cache_lines(columns, dtype):
    lines, rest = divmod(padded(columns, dtype) * dtype.itemsize, 64)
    assert rest == 0
    assert lines % 2 == 1
    assert columns <= padded(columns, dtype) <= columns + 2 * 64 // dtype.itemsize


def test_the_picture_in_the_docstring_is_what_the_code_does():
    tile = Tile(slice(0, 3), slice(0, 4))
    grid = hankel(torch.arange(6)[None], tile)[0]
    lines = [line for line in geometry.__doc__.splitlines() if line.startswith("    row")]
    printed = [line.split("query")[1].split()[1:] for line in lines]
    assert grid.tolist() == [[int(entry) for entry in line] for line in printed]
