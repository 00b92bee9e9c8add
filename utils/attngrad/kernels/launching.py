"""Launching the kernels: which tiles they work on, and the memory that they write to."""

from typing import NamedTuple

import torch
import triton

from attngrad.kernels.backward import by_keys, by_queries, by_rows
from attngrad.kernels.diagonals import sum_blocks
from attngrad.kernels.forward import forward
from attngrad.kernels.tiles import strided

Tensor = torch.Tensor
CHUNK = 32  # places that `sum_blocks` reads at once


class Tiles(NamedTuple):
    """How many queries and keys a tile has, and how many warps and loads in flight a program."""

    block: int
    warps: int
    stages: int


def tiles(dtype: torch.dtype, width: int) -> Tiles:
    """Return the tiles for rows of so many features; without a mask of pairs Hopper spills no register."""
    return Tiles(32 if dtype == torch.float32 else 64, 8 if width > 64 else 4, 2)


class Inputs(NamedTuple):
    """What forward and backward both read.

    q (B, H, N, D), k (B, H_kv, M, D), v (B, H_kv, M, D_v); diagonals (H, N + M - 1) and scale () in float32;
    mask broadcast to (B, H, N, M). Without a causal mask start is M, so that no key comes after a query.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    diagonals: Tensor | None
    scale: Tensor
    mask: Tensor | None
    causal: bool
    start: int

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Return B, H, N and M."""
        return *self.q.shape[:3], self.k.shape[2]

    @property
    def may_be_empty(self) -> bool:
        """Return whether there may be a query without a key."""
        hidden = self.mask is not None or self.diagonals is not None
        return hidden or self.start < 0 or self.k.shape[2] == 0


def _arguments(x: Inputs) -> dict:
    """Return the arguments that all kernels of pairs take."""
    _, H, N, M = x.sizes
    D, D_v = x.q.shape[-1], x.v.shape[-1]
    width, width_v = (max(16, triton.next_power_of_2(size)) for size in (D, D_v))
    block, warps, stages = tiles(x.q.dtype, max(width, width_v))
    mask = None if x.mask is None else strided(x.mask.view(torch.uint8))
    return {
        "Q": strided(x.q), "K": strided(x.k), "V": strided(x.v),
        "DIAGONALS": x.diagonals, "MASK": mask, "SCALE": x.scale,
        "H": H, "N": N, "M": M, "start": x.start,
        "GROUP": H // x.k.shape[1], "D": D, "D_V": D_v, "CAUSAL": x.causal,
        "OF_KEYS": mask is not None and mask.h == mask.row == 0,
        "BLOCK": block, "WIDTH": width, "WIDTH_V": width_v, "num_warps": warps, "num_stages": stages,
    }  # fmt: skip


def attend(x: Inputs) -> tuple[Tensor, Tensor]:
    """Return o in the type of q and lse in float32."""
    B, H, N, _ = x.sizes
    o = x.q.new_empty(B, H, N, x.v.shape[-1])
    lse = x.q.new_empty(B, H, N, dtype=torch.float32)
    arguments = _arguments(x)
    programs = B * H * triton.cdiv(N, arguments["BLOCK"])
    with torch.cuda.device_of(x.q):
        forward[(programs,)](O=strided(o), LSE=lse, **arguments)
    return o, lse


class Outputs(NamedTuple):
    """What the backward pass reads beside the inputs: o and lse, and their cotangents."""

    o: Tensor
    lse: Tensor
    do: Tensor
    dlse: Tensor


class Needed(NamedTuple):
    """Which cotangents are needed."""

    q: bool
    k: bool
    v: bool
    diagonals: bool
    scale: bool


def _by_rows(x: Inputs, y: Outputs, arguments: dict) -> tuple[Tensor, Tensor]:
    """Return delta and the lse of the weights, (B, H, N)."""
    B, H, N, _ = x.sizes
    delta, shift = torch.empty_like(y.lse), torch.empty_like(y.lse)
    sizes = {name: arguments[name] for name in ("H", "N", "D_V", "BLOCK", "WIDTH_V")}
    programs = B * H * triton.cdiv(N, sizes["BLOCK"])
    o, do, dlse = strided(y.o), strided(y.do), strided(y.dlse[..., None])
    by_rows[(programs,)](o, y.lse, do, dlse, delta, shift, **sizes)
    return delta, shift


def _by_keys(x: Inputs, needed: Needed, ordered: bool, arguments: dict) -> tuple[Tensor | None, ...]:
    """Return dk, dv and the cotangent of the diagonals."""
    B, H, N, M = x.sizes
    H_kv, block, start = x.k.shape[1], arguments["BLOCK"], arguments["start"]
    of_queries, of_keys = triton.cdiv(N, block), triton.cdiv(M, block)
    dk = torch.empty_like(x.k) if needed.k else None
    dv = torch.empty_like(x.v) if needed.v else None
    ddiagonals = torch.zeros_like(x.diagonals) if needed.diagonals else None
    sums = ddiagonals
    if needed.diagonals and ordered:
        sums = x.diagonals.new_empty(B, H, of_keys, of_queries + 1, block)
    by_keys[(B * H_kv * of_keys,)](DK=strided(dk), DV=strided(dv), SUMS=sums, ORDERED=ordered, **arguments)
    if needed.diagonals and ordered:
        sum_blocks[(H * (of_queries + of_keys),)](sums, ddiagonals, B, H, N, M, start, block, CHUNK)
    return dk, dv, ddiagonals


def _by_queries(x: Inputs, needed: Needed, arguments: dict) -> tuple[Tensor | None, ...]:
    """Return dq and the cotangent of the scale."""
    B, H, N, _ = x.sizes
    dq = torch.empty_like(x.q) if needed.q else None
    dscale = torch.empty_like(arguments["DELTA"]) if needed.scale else None
    programs = B * H * triton.cdiv(N, arguments["BLOCK"])
    by_queries[(programs,)](DQ=strided(dq), DSCALE=dscale, **arguments)
    return dq, None if dscale is None else dscale.sum()


def send_back(x: Inputs, y: Outputs, needed: Needed, ordered: bool) -> tuple[Tensor | None, ...]:
    """Return the cotangents of q, k, v, diagonals and scale, None where not needed.

    ``ordered`` adds the sums along diagonals up in a fixed order, through B H N M / BLOCK floats of memory.
    """
    dq = dk = dv = ddiagonals = dscale = None
    arguments = _arguments(x)
    if x.may_be_empty:  # o of a query without a key is constant: what stands in do there is not read
        y = y._replace(do=y.do.masked_fill(y.lse.isneginf()[..., None], 0.0))
    with torch.cuda.device_of(x.q):
        delta, shift = _by_rows(x, y, arguments)
        arguments |= {"DO": strided(y.do), "SHIFT": shift, "DELTA": delta}
        if needed.k or needed.v or needed.diagonals:
            dk, dv, ddiagonals = _by_keys(x, needed, ordered, arguments)
        if needed.q or needed.scale:
            dq, dscale = _by_queries(x, needed, arguments)
    return dq, dk, dv, ddiagonals, dscale
