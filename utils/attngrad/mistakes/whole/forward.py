"""The forward pass of attention in float64 as steps, each of which a mistake can replace.

A case is any object with the attributes of a case of the doctor: q, k, v, do (B, H, N, D), scale, and bias,
table, row, mask, keep, dropout, sink, dlse, causal, query_start, softcap, softcap_on, bias_inside_scale,
lengths, strides, dtype, bias_dtype, wants.
"""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from attngrad.mistakes.whole.stages import Stages, stage
from attngrad.offsets import causal_mask, packed_offset

LARGEST = np.finfo(np.float64).max


class Weights(NamedTuple):
    """A softmax: ``p`` (B, H, N, M), ``p_sink`` and ``lse`` (B, H, N)."""

    p: np.ndarray
    p_sink: np.ndarray
    lse: np.ndarray


def transposed(x: np.ndarray) -> np.ndarray:
    """Return each matrix of the last two axes transposed."""
    return np.swapaxes(x, -1, -2)


def softmax(s: np.ndarray, allowed: np.ndarray, sink: np.ndarray | None, beside: float = 0.0) -> Weights:
    """Return the softmax of scores where allowed, beside a sink (H,) and ``beside`` more logits of zero."""
    s = np.where(allowed, s, -np.inf)
    top = s.max(axis=-1, initial=-np.inf)
    if sink is not None:
        top = np.maximum(top, sink[:, None])
    if beside:
        top = np.maximum(top, 0.0)
    shift = np.where(np.isfinite(top), top, 0.0)
    e = np.exp(s - shift[..., None])
    e_sink = np.zeros(shift.shape) if sink is None else np.exp(sink[:, None] - shift)
    total = e.sum(axis=-1) + e_sink + (beside * np.exp(-shift) if beside else 0.0)
    over = np.where(total == 0.0, 1.0, total)
    return Weights(e / over[..., None], e_sink / over, np.log(total) + shift)


class Forward(Stages):
    """The outputs of attention, and what leads to them."""

    def __init__(self, case: Any, **settings: Any) -> None:
        """Keep the case; nothing is computed yet."""
        super().__init__()
        self.case, self.settings = case, settings
        for name, value in settings.items():
            setattr(self, name, value)

    anything = False  # whether NaN stands for what no formula says, such as memory of something else
    by_contrast = False  # whether it can be told only beside a case in which it does nothing

    def suits(self) -> bool:
        """Say whether the case has what a mistake needs in order to be one."""
        return True

    @cached_property
    def sizes(self) -> tuple[int, int, int, int]:
        """Return B, H, N, M."""
        return (*self.case.q.shape[:3], self.case.k.shape[2])

    @cached_property
    def start(self) -> int:
        """Return the position of query 0."""
        _, _, N, M = self.sizes
        return M - N if self.case.query_start is None else self.case.query_start

    @cached_property
    def has_bias(self) -> bool:
        """Say whether the case has a bias, dense or from a table."""
        return self.case.bias is not None or self.case.table is not None

    @cached_property
    def has_table(self) -> bool:
        """Say whether the bias comes from a table with rows."""
        return self.case.table is not None and self.case.table.ndim == 2

    @cached_property
    def slopes(self) -> bool:
        """Say whether the table is the slopes of ALiBi."""
        return self.case.table is not None and self.case.table.ndim == 1

    # inputs

    @stage
    def q(self) -> np.ndarray:
        """Queries (B, H, N, D)."""
        return self.case.q

    @stage
    def k(self) -> np.ndarray:
        """Keys (B, H_kv, M, D)."""
        return self.case.k

    @stage
    def v(self) -> np.ndarray:
        """Values (B, H_kv, M, D_v)."""
        return self.case.v

    @stage
    def do(self) -> np.ndarray:
        """Cotangent of the output (B, H, N, D_v)."""
        return self.case.do

    @stage
    def dlse(self) -> np.ndarray:
        """Cotangent of lse (B, H, N)."""
        return np.zeros(self.sizes[:3]) if self.case.dlse is None else self.case.dlse

    @stage
    def sink(self) -> np.ndarray | None:
        """Logits of the sink (H,)."""
        return self.case.sink

    @stage
    def head_of(self) -> np.ndarray:
        """The head of keys of each head of queries (H,)."""
        return np.arange(self.sizes[1]) // (self.sizes[1] // self.case.k.shape[1])

    @stage
    def keys(self) -> np.ndarray:
        """Keys of each head of queries (B, H, M, D)."""
        return self.k[:, self.head_of]

    @stage
    def values(self) -> np.ndarray:
        """Values of each head of queries (B, H, M, D_v)."""
        return self.v[:, self.head_of]

    # scores

    @stage
    def scale(self) -> float:
        """The factor of the products."""
        return float(self.case.scale)

    @stage
    def mask_given(self) -> np.ndarray | None:
        """The mask that the case gives."""
        return self.case.mask

    @stage
    def mask_causal(self) -> np.ndarray | None:
        """Where causal masking allows a pair (N, M); None without it."""
        return causal_mask(*self.sizes[2:], self.start) if self.case.causal else None

    @stage
    def mask_packed(self) -> np.ndarray | None:
        """Where a pair is of one packed sequence (N, M); None without packing."""
        return packed_offset(self.case.lengths)[1] if self.case.lengths else None

    @stage
    def mask(self) -> np.ndarray:
        """Where masks allow a pair (B, H, N, M)."""
        allowed = np.ones(self.sizes, dtype=bool)
        for mask in (self.mask_given, self.mask_causal, self.mask_packed):
            allowed = allowed if mask is None else allowed & mask
        return allowed

    @stage
    def table(self) -> np.ndarray | None:
        """The table (H, R) or (1, R), or the slopes (H,)."""
        return self.case.table

    @stage
    def row(self) -> np.ndarray | None:
        """The row of each pair (N, M), or its distance under ALiBi."""
        return self.case.row

    @stage
    def bias(self) -> np.ndarray | None:
        """The bias of pairs, which broadcasts to (B, H, N, M)."""
        if self.table is None:
            return self.case.bias
        return -self.table[:, None, None] * self.row if self.slopes else self.table[:, self.row]

    @stage
    def inside(self) -> bool:
        """Whether the scale multiplies the bias too."""
        return self.case.bias_inside_scale

    @stage
    def bias_factor(self) -> float:
        """What the bias is multiplied by before it is added."""
        return self.scale if self.inside else 1.0

    @stage
    def allowed(self) -> np.ndarray:
        """Where a key takes part (B, H, N, M): masks allow it and its bias is not -inf."""
        return self.mask if self.bias is None else self.mask & ~np.isneginf(self.bias)

    @stage
    def cap_product(self) -> float | None:
        """The soft-cap on the products."""
        return self.case.softcap if self.case.softcap_on == "product" else None

    @stage
    def cap_scores(self) -> float | None:
        """The soft-cap on the scores."""
        return self.case.softcap if self.case.softcap_on == "scores" else None

    @stage
    def qk(self) -> np.ndarray:
        """The products q.k (B, H, N, M)."""
        return self.q @ transposed(self.keys)

    @stage
    def product(self) -> np.ndarray:
        """The scaled products, under their cap."""
        return self.capped(self.scale * self.qk, self.cap_product)

    @stage
    def biased(self) -> np.ndarray:
        """The products with the bias, in front of the cap of the scores."""
        if self.bias is None:
            return self.product
        bias = np.where(self.allowed, self.bias, 0.0)
        return np.clip(self.product + self.bias_factor * bias, -LARGEST, LARGEST)

    @stage
    def s(self) -> np.ndarray:
        """The scores."""
        return self.capped(self.biased, self.cap_scores)

    @staticmethod
    def capped(x: np.ndarray, cap: float | None) -> np.ndarray:
        """Return cap tanh(x / cap), or x without a cap."""
        return x if cap is None else cap * np.tanh(x / cap)

    # weights and outputs

    @stage
    def weights(self) -> Weights:
        """The softmax of the forward pass."""
        return softmax(self.s, self.allowed, self.sink)

    @stage
    def keep(self) -> np.ndarray | float:
        """The factor of each weight behind the softmax: 0 or 1 / (1 - dropout)."""
        return 1.0 if self.case.keep is None else self.case.keep / (1.0 - self.case.dropout)


    @stage
    def o(self) -> np.ndarray:
        """The output (B, H, N, D_v)."""
        return (self.weights.p * self.keep) @ self.values

    @stage
    def lse(self) -> np.ndarray:
        """The logarithm of the sum of exponentials (B, H, N)."""
        return self.weights.lse
