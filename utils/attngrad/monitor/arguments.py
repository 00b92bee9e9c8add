"""What the monitor's tools share: parameters by name, and the values of a tensor in float64."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from attngrad.notation import DtypeError, RangeError


def named(parameters: Any, name: str = "parameters") -> dict[str, torch.Tensor]:
    """Return parameters by their names, each tensor once; without a name they are counted.

    Raises: DtypeError for what is no module, tensor, mapping or iterable of tensors or of pairs; RangeError
    where there is none, or two of one name.
    """
    found: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    for at, one in enumerate(_items(parameters, name)):
        label, x = one if isinstance(one, tuple) and len(one) == 2 else (f"parameter {at}", one)
        if not isinstance(x, torch.Tensor) or not isinstance(label, str):
            raise DtypeError(
                f"{name}: expected tensors, or pairs of a name and a tensor, got {type(x).__name__}"
            )
        if id(x) in seen:
            continue
        if label in found:
            raise RangeError(f"{name}: expected one tensor for each name, got two for {label!r}")
        seen.add(id(x))
        found[label] = x
    if not found:
        raise RangeError(f"{name}: expected at least one parameter, got none")
    return found


def _items(parameters: Any, name: str) -> Iterable[Any]:
    """Return the tensors or pairs that a module, a tensor, a mapping or an iterable holds."""
    if isinstance(parameters, nn.Module):
        return parameters.named_parameters()
    if isinstance(parameters, torch.Tensor):
        return (parameters,)
    if isinstance(parameters, Mapping):
        return parameters.items()
    if isinstance(parameters, str) or not isinstance(parameters, Iterable):
        told = "a module, tensors, or pairs of a name and a tensor"
        raise DtypeError(f"{name}: expected {told}, got {type(parameters).__name__}")
    return parameters


def stored(x: torch.Tensor) -> torch.Tensor:
    """Return the entries that a tensor stores, those of a sparse one added up where they share a place."""
    x = x.detach()
    if x.layout == torch.sparse_coo:
        return x.coalesce().values()
    return x


def real_values(name: str, x: Any) -> torch.Tensor:
    """Return the stored entries of a tensor of real floats as float64.

    Raises: DtypeError for what is no tensor of real floats, one on the meta device, and layouts other than
    strided and sparse COO.
    """
    if not isinstance(x, torch.Tensor):
        raise DtypeError(f"{name}: expected a tensor, got {type(x).__name__}")
    if not x.is_floating_point():
        raise DtypeError(f"{name}: expected real floats, got {x.dtype}")
    if x.is_meta or x.layout not in (torch.strided, torch.sparse_coo):
        raise DtypeError(f"{name}: expected a tensor with values, got {x.layout} on {x.device}")
    x = stored(x)
    # Apple's GPUs have no float64.
    return (x.cpu() if x.device.type == "mps" else x).to(torch.float64)


def norm(x: torch.Tensor) -> float:
    """Return the root of the sum of squares of float64 entries, without overflow on the way."""
    largest = float(x.abs().max()) if x.numel() else 0.0
    return largest * float(torch.linalg.vector_norm(x / largest)) if largest else 0.0
