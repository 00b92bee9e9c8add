"""Arrays of NumPy and tensors of torch: how they are made from a case, laid out, filled and compared."""

from collections.abc import Sequence
from typing import Any

import numpy as np

# Quiet NaNs with a payload of their own: an entry that still has these bits was never written.
UNWRITTEN = {"float64": 0x7FF8A5A5A5A5A5A5, "float32": 0x7FC0A5A5, "float16": 0x7EA5, "bfloat16": 0x7FE5}
BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
ALIGNED = 8  # entries: rows of a slice begin where vector loads may


def is_tensor(x: Any) -> bool:
    """Say whether x is a tensor of torch, without importing torch."""
    return any(kind.__module__ == "torch" and kind.__name__ == "Tensor" for kind in type(x).__mro__)


def dtype_name(x: Any) -> str:
    """Return the name of the type of an array's entries, such as "bfloat16"."""
    return str(x.dtype).removeprefix("torch.")


def integers(x: Any) -> Any:
    """Return the bits of floats as integers, in the same memory."""
    size = x.element_size() if is_tensor(x) else x.itemsize
    if not is_tensor(x):
        return x.view(f"i{size}")
    import torch

    return x.detach().view({8: torch.int64, 4: torch.int32, 2: torch.int16}[size])


def fill_unwritten(x: Any) -> Any:
    """Set every entry to the NaN that stands for unwritten memory, where the type has one; return x."""
    pattern = UNWRITTEN.get(dtype_name(x))
    if pattern is not None:
        integers(x)[...] = pattern
    return x


def unwritten(x: Any) -> np.ndarray | None:
    """Return where an array still holds the NaN of unwritten memory, None where its type has none."""
    pattern = UNWRITTEN.get(dtype_name(x))
    return None if pattern is None else numpy_copy(integers(x) == pattern)


def numpy_copy(x: Any) -> np.ndarray:
    """Return a copy as a NumPy array; bfloat16, which NumPy lacks, comes as float32."""
    if not is_tensor(x):
        return np.array(x)
    x = x.detach().cpu()
    x = (x.float() if dtype_name(x) == "bfloat16" else x).resolve_conj().resolve_neg()
    return np.array(x.numpy())


def raw(x: Any) -> np.ndarray:
    """Return a copy of the bits of every entry, row by row."""
    if is_tensor(x) and dtype_name(x) == "bfloat16":
        x = integers(x)
    x = np.ascontiguousarray(numpy_copy(x))
    return x.reshape(-1).view(np.uint8).reshape(x.size, x.itemsize) if x.size else np.zeros((0, 1), np.uint8)


def made(x: np.ndarray, framework: str, dtype: str | None, device: str) -> Any:
    """Return a fresh copy of an array for the implementation; ``dtype`` None keeps its type."""
    if framework == "numpy":
        return np.array(x)
    import torch

    kept = None if dtype is None else getattr(torch, dtype)
    return torch.tensor(x, dtype=kept, device=device)


def laid_out(x: Any, strides: str, name: str) -> tuple[Any, Any]:
    """Return x with the strides of a case, and the whole memory of which it is a part."""
    if strides == "transposed" and name in ("q", "k", "v", "do"):
        stored = _transposed(x)
        return _turned(stored), stored
    if strides == "sliced" and x.ndim and dtype_name(x) in UNWRITTEN:
        return _sliced(x)
    if strides == "expanded" and name == "do":
        return _expanded(x)
    return x, x


def _turned(x: Any) -> Any:
    """Return a view with the last two axes exchanged."""
    return x.transpose(-1, -2) if is_tensor(x) else np.swapaxes(x, -1, -2)


def _transposed(x: Any) -> Any:
    """Return a contiguous copy with the last two axes exchanged."""
    return _turned(x).contiguous() if is_tensor(x) else np.ascontiguousarray(_turned(x))


def _sliced(x: Any) -> tuple[Any, Any]:
    """Return x as a part of a bigger array of NaN; the last axis keeps its stride of 1."""
    *leading, last = x.shape
    shape = [size + 2 for size in leading] + [-(-last // ALIGNED) * ALIGNED + ALIGNED]
    whole = x.new_empty(shape) if is_tensor(x) else np.empty(shape, dtype=x.dtype)
    fill_unwritten(whole)
    part = whole[(*(slice(1, 1 + size) for size in leading), slice(0, last))]
    part[...] = x
    return part, whole


def _expanded(x: Any) -> tuple[Any, Any]:
    """Return x with stride 0 along every axis on which it does not vary."""
    stored = x
    for axis, size in enumerate(x.shape):
        first = stored[(*(slice(None),) * axis, slice(0, 1))]
        if size > 1 and bool((stored == first).all()):
            stored = first
    stored = stored.clone() if is_tensor(x) else stored.copy()
    return (stored.expand(x.shape) if is_tensor(x) else np.broadcast_to(stored, x.shape)), stored


def first_difference(before: np.ndarray, after: np.ndarray, shape: Sequence[int]) -> tuple[int, ...] | None:
    """Return the first index (row-major) at which the bits of two arrays differ."""
    differs = np.flatnonzero((before != after).any(axis=-1))
    return None if not differs.size else tuple(int(k) for k in np.unravel_index(differs[0], tuple(shape)))
