"""Wrong attentions: which row of a table, or which distance, a pair has."""

from typing import NamedTuple

import numpy as np

from attngrad.mistakes.tables import slopes_exponent
from attngrad.mistakes.whole.core import BLOCKS
from attngrad.mistakes.whole.pipeline import Attention, scattered
from attngrad.mistakes.whole.record import ALL, NO_SOURCE, wrong
from attngrad.mistakes.whole.stages import stage
from attngrad.notation import RangeError
from attngrad.offsets import ClipMap, OffsetMap, T5Map, relative_offset

DISTANCES = (128, 64, 32, 16, 256, 512, 20, 40, 100, 8, 1024)


class Rows(NamedTuple):
    """A map that gives the rows of a case, and the offsets (N, M) that it gives them for."""

    map: ClipMap | OffsetMap | T5Map
    offset: np.ndarray


def _maps(R: int) -> list[ClipMap | OffsetMap | T5Map]:
    """Return the maps by offset that have R rows."""
    maps: list[ClipMap | OffsetMap | T5Map] = []
    for distance in DISTANCES:
        for both in (True, False):
            try:
                maps.append(T5Map(R, distance, both))
            except RangeError:
                continue
    return [*maps, ClipMap((R - 1) // 2), OffsetMap((R + 1) // 2)] if R % 2 else maps


def rows_of(pipeline: Attention) -> Rows | None:
    """Return a known map that gives the rows of a case; None if none does."""
    case, (_, _, N, M) = pipeline.case, pipeline.sizes
    if case.table is None or case.table.ndim != 2:
        return None
    offset = relative_offset(N, M, pipeline.start)
    for map in _maps(case.table.shape[-1]):
        try:
            rows = map.of(offset)
        except RangeError:
            continue
        if np.array_equal(rows, case.row):
            return Rows(map, offset)
    return None


class _Rows(Attention):
    """A mistake with the rows of a table whose map is known."""

    @stage
    def known(self) -> Rows | None:
        """The map and the offsets of the case."""
        return rows_of(self)

    def suits(self) -> bool:
        return self.known is not None

    def rows_at(self, offset: np.ndarray) -> np.ndarray:
        """Return the rows of other offsets, the last row for what the table lacks."""
        map = self.known.map
        if isinstance(map, OffsetMap):
            return np.clip(offset + map.max_len - 1, 0, map.R - 1)
        return map.of(offset)


@wrong("table-rows-sign-flipped", "Offsets are those of the query minus the key.", ALL)
class RowsSignFlipped(_Rows):
    def suits(self) -> bool:
        return self.has_table and (self.known is not None or self.sizes[2] == self.sizes[3])

    @stage
    def row(self) -> np.ndarray:
        return self.case.row.T if self.known is None else self.rows_at(-self.known.offset)


@wrong("table-rows-start-ignored", "Queries count from 0 whatever keys stand before them.", ALL)
class RowsStartIgnored(_Rows):
    def suits(self) -> bool:
        return (self.slopes or self.known is not None) and not self.case.lengths and self.start != 0

    @stage
    def row(self) -> np.ndarray:
        offset = relative_offset(*self.sizes[2:], 0)
        return np.abs(offset) if self.slopes else self.rows_at(offset)


class _T5(_Rows):
    """A mistake with the buckets of T5."""

    def suits(self) -> bool:
        return self.known is not None and isinstance(self.known.map, T5Map)


@wrong("t5-bucket-unclamped", "The last bucket is forgotten: far keys run on into other rows.", ALL)
class T5Unclamped(_T5):
    @stage
    def row(self) -> np.ndarray:
        map, offset = self.known
        half = map.num_buckets // 2 if map.bidirectional else map.num_buckets
        exact = half // 2
        distance = np.abs(offset) if map.bidirectional else np.maximum(-offset, 0)
        ratio = np.log(np.maximum(distance, exact) / exact) / np.log(map.max_distance / exact)
        far = exact + np.floor(ratio * (half - exact) + 1e-9).astype(np.int64)
        known = np.where(distance < map.max_distance, map.of(-distance), far)
        later = np.where(offset > 0, half, 0) if map.bidirectional else 0
        return np.minimum(later + known, map.num_buckets - 1)


@wrong(
    "t5-one-direction", "Buckets of both directions are used for one, or those of one for both.", ALL,
    seen=NO_SOURCE,
)  # fmt: skip
class T5OneDirection(_T5):
    @stage
    def row(self) -> np.ndarray:
        map = self.known.map
        return T5Map(map.num_buckets, map.max_distance, not map.bidirectional).of(self.known.offset)


class _Slopes(Attention):
    """A mistake with ALiBi."""

    def suits(self) -> bool:
        return self.slopes


@wrong(
    "alibi-vjp-zero", "The slopes of ALiBi get zeros.", ("dtable",),
    seen="https://github.com/Dao-AILab/flash-attention/pull/2876",
)  # fmt: skip
class SlopesZero(_Slopes):
    @stage
    def dtable(self) -> np.ndarray:
        return np.zeros(self.case.table.shape)


@wrong("alibi-vjp-sign", "The gradient of the slopes has the other sign.", ("dtable",), seen=NO_SOURCE)
class SlopesSign(_Slopes):
    @stage
    def dtable(self) -> np.ndarray:
        return -super().dtable


@wrong("alibi-vjp-undistanced", "The gradient of the slopes lacks the distances.", ("dtable",), NO_SOURCE)
class SlopesUndistanced(_Slopes):
    @stage
    def row_back(self) -> np.ndarray:
        return np.ones_like(self.row)


@wrong(
    "alibi-signed-offset", "The slopes multiply offsets, so that later keys get a positive bias.", ALL,
    seen="https://github.com/meta-pytorch/attention-gym, attn_gym/mods/alibi.py, without a causal mask",
)  # fmt: skip
class SlopesSigned(_Slopes):
    @stage
    def row(self) -> np.ndarray:
        return -relative_offset(*self.sizes[2:], self.start)


@wrong("alibi-slopes-exponent", "The heads of the slopes count from 0, so that the first slope is 1.", ALL)
class SlopesExponent(_Slopes):
    @stage
    def table(self) -> np.ndarray:
        return slopes_exponent(self.sizes[1])


@wrong(
    "table-vjp-tail-columns", "The columns of a last block beyond the last key are added to the table too.",
    ("dtable",), settings=BLOCKS,
)  # fmt: skip
class TailColumns(_Rows):
    block = 64

    def suits(self) -> bool:
        masked = self.case.causal or self.case.mask is not None or bool(self.case.lengths)
        return self.known is not None and not masked and self.sizes[3] % self.block != 0

    @stage
    def dtable(self) -> np.ndarray:
        """Products and dp of a column beyond the last key are zero; its bias is not."""
        _, _, N, M = self.sizes
        beyond = self.block - M % self.block
        row = self.rows_at(relative_offset(N, M + beyond, self.start)[:, M:])
        s = self.capped(self.bias_factor * self.table[:, row], self.cap_scores)
        lse = np.where(np.isfinite(self.weights.lse), self.weights.lse, np.inf)
        p = np.exp(s - lse[..., None])
        ds = p * (self.dlse[..., None] - self.delta)
        pairs = self.bias_factor_back * self.through_cap(s, self.cap_scores, ds)
        return super().dtable + self.of_table(scattered(row, pairs.sum(axis=0), self.case.table.shape[-1]))
