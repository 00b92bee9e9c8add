"""Checks of what the functions of this package are given: types, shapes and devices, never values."""

import math
from typing import Any

import torch

from attngrad.kernels.tiles import INTERPRETED
from attngrad.notation import (
    DtypeError,
    RangeError,
    ShapeError,
    boolean,
    check_broadcasts,
    check_same_shape,
    finite_number,
    group_size,
    integer,
)
from attngrad.offsets.arguments import bounded

Tensor = torch.Tensor
TYPES = (torch.float32, torch.float16, torch.bfloat16)
MOST = 128  # features of a row that the registers hold


def float_tensor(name: str, x: Any) -> Tensor:
    """Return a dense tensor of floats."""
    if not isinstance(x, Tensor):
        raise DtypeError(f"{name}: expected a torch tensor of floats, got {type(x).__name__}")
    if not x.is_floating_point():
        raise DtypeError(f"{name}: expected a tensor of floats, got {x.dtype}")
    return _dense(name, x)


def _dense(name: str, x: Tensor) -> Tensor:
    """Return a tensor that holds all its entries."""
    if x.layout != torch.strided:
        raise DtypeError(f"{name}: expected a dense tensor, got the layout {x.layout}")
    return x


def on_device(name: str, x: Tensor, device: torch.device | None = None) -> Tensor:
    """Return a tensor on the device of q, or where none is given on one that kernels run on."""
    if device is not None and x.device != device:
        raise DtypeError(f"{name}: expected a tensor on {device} as q, got one on {x.device}")
    if device is None and x.device.type != ("cpu" if INTERPRETED else "cuda"):
        other = "the CPU, since TRITON_INTERPRET=1 is set" if INTERPRETED else "a CUDA device"
        raise DtypeError(f"{name}: expected a tensor on {other}, got one on {x.device}")
    return x


def known_type(name: str, x: Tensor) -> Tensor:
    """Return a tensor of a type that kernels compute with."""
    if x.dtype not in TYPES:
        raise DtypeError(f"{name}: expected {', '.join(map(str, TYPES[:-1]))} or {TYPES[-1]}, got {x.dtype}")
    return x


def _four(name: str, x: Any, axes: str, device: torch.device | None = None) -> Tensor:
    """Return a tensor of four axes, of which the last is short enough."""
    x = known_type(name, on_device(name, float_tensor(name, x), device))
    if x.ndim != 4:
        raise ShapeError(f"{name}: expected four axes ({axes}), got shape {tuple(x.shape)}")
    if not 1 <= x.shape[-1] <= MOST:
        raise ShapeError(f"{name}: expected from 1 to {MOST} features, got shape {tuple(x.shape)}")
    return x


def checked_qkv(q: Any, k: Any, v: Any) -> tuple[Tensor, Tensor, Tensor, tuple[int, int, int, int]]:
    """Return q, k and v, and the shape (B, H, N, M) of the scores."""
    q = _four("q", q, "B, H, N, D")
    k, v = _four("k", k, "B, H_kv, M, D", q.device), _four("v", v, "B, H_kv, M, D_v", q.device)
    for name, x in (("k", k), ("v", v)):
        if x.dtype != q.dtype:
            raise DtypeError(f"{name}: expected {q.dtype} as q, got {x.dtype}")
    (B, H, N, D), (_, H_kv, M, _) = q.shape, k.shape
    check_same_shape("k", k.shape, "B and D of q", (B, H_kv, M, D))
    check_same_shape("v", v.shape, "B, H_kv and M of k", (B, H_kv, M, v.shape[-1]))
    group_size(integer("H", H, least=1), H_kv)
    return q, k, v, (B, H, N, M)


def checked_diagonals(diagonals: Any, q: Tensor, shape: tuple[int, int, int, int]) -> Tensor | None:
    """Return the bias of each diagonal and head in float32, or None."""
    if diagonals is None:
        return None
    _, H, N, M = shape
    diagonals = on_device("diagonals", float_tensor("diagonals", diagonals), q.device)
    wanted = max(N + M - 1, 0)
    if diagonals.ndim != 2 or diagonals.shape[0] not in (1, H) or diagonals.shape[1] != wanted:
        told = f"({H}, {wanted}) or (1, {wanted}), heads and N + M - 1"
        raise ShapeError(f"diagonals: expected shape {told}, got {tuple(diagonals.shape)}")
    return diagonals.to(torch.float32).expand(H, wanted)


def checked_scale(scale: Any, q: Tensor) -> Tensor:
    """Return the factor of q.k as a 0-d tensor in float32, 1/sqrt(D) where nothing is said."""
    if isinstance(scale, Tensor):
        check_same_shape("scale", float_tensor("scale", scale).shape, "a scalar", ())
        return scale.to(device=q.device, dtype=torch.float32)
    number = 1.0 / math.sqrt(q.shape[-1]) if scale is None else finite_number("scale", scale)
    if abs(number) > torch.finfo(torch.float32).max:
        raise RangeError(f"scale: expected a finite number in torch.float32, got {number}")
    return torch.full((), number, dtype=torch.float32, device=q.device)


def checked_mask(mask: Any, q: Tensor, shape: tuple[int, int, int, int]) -> Tensor | None:
    """Return where a query may attend, broadcast to (B, H, N, M) without a copy, or None."""
    if mask is None:
        return None
    true = "True: may attend"
    if not isinstance(mask, Tensor):
        raise DtypeError(f"mask: expected a torch tensor of booleans ({true}), got {type(mask).__name__}")
    if mask.dtype != torch.bool:
        raise DtypeError(f"mask: expected booleans ({true}), got {mask.dtype}")
    check_broadcasts("mask", mask.shape, shape)
    return on_device("mask", _dense("mask", mask), q.device).expand(shape)


def checked_start(causal: Any, query_start: Any, shape: tuple[int, int, int, int]) -> tuple[bool, int]:
    """Return whether attention is causal, and the key at whose position the first query stands.

    The start lies from -N, where no query has a key, to M, where no key comes after a query, as without a
    causal mask.
    """
    _, _, N, M = shape
    causal = boolean("causal", causal)
    if query_start is None:
        return causal, max(M - N, -N) if causal else M
    if not causal:
        raise RangeError(f"query_start: expected None without causal=True, got {query_start!r}")
    return causal, min(max(bounded("query_start", query_start), -N), M)
