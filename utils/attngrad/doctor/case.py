"""One case: the numbers and options that an implementation is given, and what is asked back."""

from dataclasses import dataclass, field

import numpy as np

from attngrad import reference
from attngrad.notation import RangeError
from attngrad.offsets import packed_offset

FORWARD = ("o", "lse")
GRADIENTS = ("dq", "dk", "dv", "dbias", "dtable", "dscale", "dsink")


class Unsupported(Exception):
    """Raised by an implementation for what it does not do; the text says why. It is reported as not tried."""


@dataclass(frozen=True, eq=False)
class Case:
    """An instance of the one semantic. Arrays are float64 (B, H, N, D), of values that ``dtype`` holds.

    ``table`` (H, R), (1, R) or, of ALiBi, slopes (H,) stands for a bias by positions: ``row`` (N, M) is the
    row of each pair, or its distance under ALiBi. ``bias`` is a dense one that broadcasts to (B, H, N, M).
    ``keep`` is True where dropout keeps a weight. ``lengths`` are of sequences packed into one. ``wants`` are
    the gradients asked for, ``exercises`` the options that must be seen to act, ``strides`` how the inputs
    lie in memory: "" contiguous, "transposed", "sliced" or "expanded" (a cotangent of stride 0).
    """

    name: str
    why: str
    dtype: str
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    do: np.ndarray
    scale: float
    bias: np.ndarray | None = None
    table: np.ndarray | None = None
    row: np.ndarray | None = None
    bias_dtype: str = "float32"
    bias_inside_scale: bool = False
    mask: np.ndarray | None = None
    keep: np.ndarray | None = None
    dropout: float = 0.0
    sink: np.ndarray | None = None
    dlse: np.ndarray | None = None
    causal: bool = False
    query_start: int | None = None
    softcap: float | None = None
    softcap_on: str = "scores"
    lengths: tuple[int, ...] = ()
    strides: str = ""
    repeats: int = 1
    wants: tuple[str, ...] = ("dq", "dk", "dv")
    exercises: tuple[str, ...] = ()
    notes: dict[str, str] = field(default_factory=dict)

    @property
    def sizes(self) -> dict[str, int]:
        """Return B, H, H_kv, N, M, D, D_v by name."""
        (B, H, N, D), (_, H_kv, M, _) = self.q.shape, self.k.shape
        return {"B": B, "H": H, "H_kv": H_kv, "N": N, "M": M, "D": D, "D_v": self.v.shape[-1]}

    @property
    def start(self) -> int:
        """Return the position of query 0."""
        return self.sizes["M"] - self.sizes["N"] if self.query_start is None else self.query_start

    def dense_bias(self) -> np.ndarray | None:
        """Return the bias of all pairs: the dense one, or that which the table or the slopes give."""
        if self.table is None:
            return self.bias
        if self.row is None:
            raise RangeError("row: expected the row of each pair beside a table, got None")
        if self.table.ndim == 1:
            return -self.table[:, None, None] * self.row
        return reference.table_bias(self.table, self.row)

    def allowed(self) -> np.ndarray | None:
        """Return the mask with the borders of packed sequences, None where every pair is allowed."""
        if not self.lengths:
            return self.mask
        same = packed_offset(self.lengths)[1]
        return same if self.mask is None else self.mask & same
