"""What the functions of the torch face share: checks of their arguments, and the type that is computed in."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._C._functorch import get_unwrapped, is_batchedtensor, is_functorch_wrapped_tensor

from attngrad.notation import DtypeError, RangeError, ShapeError, check_broadcasts, first_index

IMPLEMENTATIONS = ("closed", "tiled", "triton")


def check_impl(impl: str, known: Sequence[str] = ("closed",)) -> None:
    """Refuse an implementation that does not exist; nothing falls back to another one."""
    if not isinstance(impl, str) or impl not in known:
        raise RangeError(f"impl: expected one of {', '.join(map(repr, known))}, got {impl!r}")


def unreadable(x: torch.Tensor) -> bool:
    """Return whether Python cannot look at the values: under vmap, while compiling, on the meta device."""
    if torch.compiler.is_compiling() or x.is_meta:
        return True
    while is_functorch_wrapped_tensor(x):
        if is_batchedtensor(x):
            return True
        x = get_unwrapped(x)
    return False


def refuse(wrong: torch.Tensor, values: torch.Tensor, told: str, more: str = "") -> None:
    """Raise a RangeError that names the first value that is wrong, where values can be read."""
    if not unreadable(wrong) and wrong.any():
        at = first_index(wrong)
        place = f" at index {at}" if at else ""
        raise RangeError(f"{told}, got {values[at].item()}{place}{more}")


Beside = tuple[str, torch.device] | None


def dense(name: str, x: torch.Tensor, beside: Beside = None) -> torch.Tensor:
    """Return a tensor that holds all its entries, on the device of a named one; else raise DtypeError."""
    if x.layout != torch.strided:
        raise DtypeError(f"{name}: expected a dense tensor, got the layout {x.layout}")
    if beside is not None and x.device != beside[1]:
        other, device = beside
        raise DtypeError(f"{name}: expected a tensor on {device} as {other}, got one on {x.device}")
    return x


def float_tensor(name: str, x: Any, rank: int = 1, beside: Beside = None) -> torch.Tensor:
    """Return ``x`` if it is a float tensor with enough axes; raise DtypeError or ShapeError otherwise."""
    if not isinstance(x, torch.Tensor):
        raise DtypeError(f"{name}: expected a torch tensor of floats, got {type(x).__name__}")
    if not x.is_floating_point():
        raise DtypeError(f"{name}: expected a tensor of floats, got {x.dtype}")
    dense(name, x, beside)
    if x.ndim < rank:
        raise ShapeError(f"{name}: expected at least {rank} axes, got shape {tuple(x.shape)}")
    return x


def widened(x: torch.Tensor) -> torch.Tensor:
    """Return ``x`` in the type that is computed in: float32 for the 16-bit types, else its own."""
    return x if x.dtype in (torch.float32, torch.float64) else x.to(torch.float32)


def mask_tensor(
    name: str, mask: Any, shape: Sequence[int], beside: Beside, true: str = "may attend"
) -> torch.Tensor:
    """Return a boolean mask that broadcasts to ``shape``; raise DtypeError or ShapeError otherwise."""
    if not isinstance(mask, torch.Tensor):
        got = type(mask).__name__
        raise DtypeError(f"{name}: expected a torch tensor of booleans (True: {true}), got {got}")
    if mask.dtype != torch.bool:
        raise DtypeError(f"{name}: expected booleans (True: {true}), got {mask.dtype}")
    check_broadcasts(name, mask.shape, shape)
    return dense(name, mask, beside)


def finite(x: torch.Tensor, given: torch.Tensor, told: str) -> torch.Tensor:
    """Return ``x``; for a value that is not finite raise an error that names what was given in its place."""
    if x.numel() == 0 or unreadable(x):
        return x
    # A finite sum has finite terms alone, and takes a thirtieth of the time of looking at each of them.
    values = x.detach()
    if not math.isfinite(values.sum(dtype=torch.promote_types(x.dtype, torch.float32)).item()):
        refuse(~values.isfinite(), given.detach(), told)
    return x


def logits(
    name: str,
    x: torch.Tensor,
    dtype: torch.dtype,
    where: Callable[[], torch.Tensor],
    shape: Sequence[int],
    more: str = "",
) -> torch.Tensor:
    """Return logits in the type that is computed in: finite or -inf where they are read, else refused.

    ``where`` says it for all of ``shape``, to which the logits broadcast; it is asked if there is a doubt.
    """
    given, inside, told = x.detach(), x.to(dtype), f"{name}: expected finite logits or -inf"
    wrong = ~(inside.detach() < torch.inf)
    if x.dtype == torch.float64 != dtype:
        wrong, told = wrong | (inside.detach().isneginf() & ~given.isneginf()), f"{told} in {dtype}"
    if not unreadable(wrong) and wrong.any() and (read := wrong & where()).any():
        refuse(read.expand(shape), given.expand(shape), told, more)
    return inside
