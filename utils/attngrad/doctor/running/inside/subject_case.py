"""The case as an implementation gets it: arrays of its framework, options, and buffers to write into."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from . import arrays

GUARD = 1 << 16  # bytes before and behind a buffer
GUARDED = 0xA5
ARRAYS = ("q", "k", "v", "do", "dlse", "sink", "bias", "table", "mask", "keep", "row")
LIKE = {"dq": "q", "dk": "k", "dv": "v", "dbias": "bias", "dtable": "table", "dsink": "sink"}
ANSWERS = ("o", "lse", *LIKE, "dscale")
OPTIONS = (
    "name", "dtype", "bias_dtype", "scale", "causal", "query_start", "softcap", "softcap_on",
    "bias_inside_scale", "dropout",
)  # fmt: skip


class SubjectCase:
    """One case in the arrays and the layout of an implementation; what the case has not is None.

    ``q`` ``k`` ``v`` ``do`` ``dlse`` ``sink`` ``bias`` ``table`` ``mask`` ``keep`` ``row`` are arrays;
    ``B`` ``H`` ``H_kv`` ``N`` ``M`` ``D`` ``D_v`` are sizes; ``name`` ``dtype`` ``bias_dtype`` ``scale``
    ``causal`` ``query_start`` ``softcap`` ``softcap_on`` ``bias_inside_scale`` ``dropout`` ``lengths``
    ``wants`` are options. ``start`` is the position of query 0, whether or not query_start is given.
    """

    def __init__(self, told: Mapping[str, Any], given: Mapping[str, np.ndarray]) -> None:
        """Make the arrays, fresh for each run."""
        for name in OPTIONS:
            setattr(self, name, told[name])
        for name, size in told["sizes"].items():
            setattr(self, name, int(size))
        self.lengths, self.wants = tuple(told["lengths"]), tuple(told["wants"])
        self.start = self.M - self.N if self.query_start is None else self.query_start
        self.claims: dict[str, Any] = dict(told.get("claims", {}))
        self.framework, self.device, self.layout = told["framework"], told["device"], told["layout"]
        self._memory: dict[str, Any] = {}
        self._buffers: list[Buffer] = []
        for name in ARRAYS:
            setattr(self, name, self._made(name, given[name], told["strides"]) if name in given else None)

    def _made(self, name: str, x: np.ndarray, strides: str) -> Any:
        """Return one array in its type and strides, and keep the memory in which it lies."""
        dtype = None if x.dtype.kind != "f" or name == "row" else self.dtype_of(name)
        view, self._memory[name] = arrays.laid_out(
            arrays.made(x, self.framework, dtype, self.device), strides, name
        )
        return view

    def dtype_of(self, name: str) -> str:
        """Return the type of an input, or in which an answer is expected, as torch names it."""
        if name in ("bias", "table", "dbias", "dtable"):
            return self.bias_dtype
        if name in ("lse", "dscale") and self.dtype != "float64":
            return "float32"
        return self.dtype

    def shape_of(self, name: str) -> tuple[int, ...]:
        """Return the shape of an answer in the layout of the implementation."""
        if name in LIKE:
            like = getattr(self, LIKE[name])
            if like is None:
                raise ValueError(f"{name}: expected a case with {LIKE[name]}, got case {self.name}")
            return tuple(like.shape)
        if name == "o":
            return (*tuple(self.q.shape)[:3], self.D_v)
        if name == "lse":
            return (self.B, self.H, self.N)
        if name == "dscale":
            return ()
        raise ValueError(f"name: expected one of {', '.join(ANSWERS)}, got {name!r}")

    def out(self, name: str) -> Any:
        """Return a buffer for an answer, of its shape and type, filled with NaN, with guards around it.

        Raises: ValueError for what is no answer of this case.
        """
        buffer = Buffer(name, self.shape_of(name), self.dtype_of(name), self.framework, self.device)
        self._buffers.append(buffer)
        return buffer.array

    def inputs(self) -> dict[str, Any]:
        """Return the arrays that the case has, by name."""
        return {name: getattr(self, name) for name in ARRAYS if getattr(self, name) is not None}

    def memory(self) -> dict[str, Any]:
        """Return the whole memory of each input."""
        return self._memory

    def guard_faults(self) -> list[str]:
        """Return a sentence for each buffer around which something was written."""
        return [fault for buffer in self._buffers for fault in buffer.faults()]


class Buffer:
    """An array between two guards, all in one allocation."""

    def __init__(self, name: str, shape: tuple[int, ...], dtype: str, framework: str, device: str) -> None:
        """Allocate and fill it."""
        self.name = name
        dtype = "float32" if framework == "numpy" and dtype == "bfloat16" else dtype
        self.size = int(np.prod(shape, dtype=np.int64)) * arrays.BYTES[dtype]
        whole = np.full(self.size + 2 * GUARD, GUARDED, dtype=np.uint8)
        if framework == "numpy":
            self.whole, kind = whole, np.dtype(dtype)
        else:
            import torch

            self.whole, kind = torch.tensor(whole, device=device), getattr(torch, dtype)
        self.array = arrays.fill_unwritten(self.whole[GUARD : GUARD + self.size].view(kind).reshape(shape))

    def faults(self) -> list[str]:
        """Return what was written into the guards."""
        whole, found = arrays.numpy_copy(self.whole), []
        behind = np.flatnonzero(whole[GUARD + self.size :] != GUARDED)
        before = np.flatnonzero(whole[:GUARD] != GUARDED)
        if before.size:
            found.append(f"guard: {self.name}: written up to {GUARD - before[0]} bytes before the buffer")
        if behind.size:
            found.append(f"guard: {self.name}: written up to {behind[-1] + 1} bytes behind the buffer")
        return found
