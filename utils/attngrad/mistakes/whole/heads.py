"""Wrong attentions: grouped heads, and arrays whose axes are confused."""

import numpy as np

from attngrad.mistakes.attention import group_last_head
from attngrad.mistakes.whole.pipeline import Attention
from attngrad.mistakes.whole.record import ALL, NO_SOURCE, wrong
from attngrad.mistakes.whole.stages import stage
from attngrad.offsets import causal_mask

BOTH = ({"of": ("dk", "dv")}, {"of": ("dk",)}, {"of": ("dv",)})


class _Grouped(Attention):
    """A mistake with fewer heads of keys than of queries; ``of`` are the gradients that it hits."""

    of = ("dk", "dv")

    def suits(self) -> bool:
        return self.case.k.shape[1] < self.case.q.shape[1]


@wrong(
    "attention-heads-interleaved", "Head h of the queries uses head h modulo H_kv of the keys.", ALL,
    seen=NO_SOURCE,
)  # fmt: skip
class HeadsInterleaved(_Grouped):
    @stage
    def head_of(self) -> np.ndarray:
        return np.arange(self.sizes[1]) % self.case.k.shape[1]


@wrong(
    "attention-group-last-head", "Keys get the gradient of the last head of queries of their group.",
    ("dk", "dv"), settings=BOTH,
)  # fmt: skip
class GroupLastHead(_Grouped):
    @stage
    def dk(self) -> np.ndarray:
        H_kv = self.case.k.shape[1]
        return group_last_head(self.dk_of_heads, H_kv) if "dk" in self.of else super().dk

    @stage
    def dv(self) -> np.ndarray:
        H_kv = self.case.k.shape[1]
        return group_last_head(self.dv_of_heads, H_kv) if "dv" in self.of else super().dv


def _first_head(x: np.ndarray, H_kv: int) -> np.ndarray:
    """Return the gradient of the first head of queries of each group."""
    return x[:, :: x.shape[1] // H_kv]


@wrong(
    "attention-group-first-head", "Keys get the gradient of the first head of queries of their group.",
    ("dk", "dv"), seen=NO_SOURCE, settings=BOTH,
)  # fmt: skip
class GroupFirstHead(_Grouped):
    @stage
    def dk(self) -> np.ndarray:
        return _first_head(self.dk_of_heads, self.case.k.shape[1]) if "dk" in self.of else super().dk

    @stage
    def dv(self) -> np.ndarray:
        return _first_head(self.dv_of_heads, self.case.k.shape[1]) if "dv" in self.of else super().dv


@wrong(
    "attention-group-mean", "Keys get the mean over the heads of queries of their group in place of the sum.",
    ("dk", "dv"), seen=NO_SOURCE, settings=BOTH,
)  # fmt: skip
class GroupMean(_Grouped):
    @stage
    def dk(self) -> np.ndarray:
        return super().dk * self._share("dk")

    @stage
    def dv(self) -> np.ndarray:
        return super().dv * self._share("dv")

    def _share(self, name: str) -> float:
        """Return the factor of a gradient: one over the heads of a group."""
        return self.case.k.shape[1] / self.case.q.shape[1] if name in self.of else 1.0


def reread(x: np.ndarray) -> np.ndarray:
    """Return (B, H, N, D) as read from memory of (B, N, H, D) without a transpose."""
    return np.ascontiguousarray(np.swapaxes(x, 1, 2)).reshape(x.shape)


def written(x: np.ndarray) -> np.ndarray:
    """Return (B, H, N, D) as it looks when its memory is taken for (B, N, H, D): the inverse of `reread`."""
    B, H, N, D = x.shape
    return np.swapaxes(np.ascontiguousarray(x).reshape(B, N, H, D), 1, 2)


@wrong(
    "attention-output-not-transposed",
    "Heads are joined by a reshape that takes memory of (B, H, N, D) for (B, N, H, D).", ALL,
    seen=NO_SOURCE,
)  # fmt: skip
class OutputNotTransposed(Attention):
    @stage
    def do(self) -> np.ndarray:
        return reread(self.case.do)

    def answers(self, names: tuple[str, ...] | None = None) -> dict[str, np.ndarray]:
        found = super().answers(names)
        return {**found, "o": written(found["o"])} if "o" in found else found


@wrong(
    "attention-heads-as-lengths", "Memory of (B, N, H, D) is read as (B, H, N, D), and written so.", ALL,
    seen=NO_SOURCE,
)  # fmt: skip
class HeadsAsLengths(OutputNotTransposed):
    @stage
    def q(self) -> np.ndarray:
        return reread(self.case.q)

    @stage
    def k(self) -> np.ndarray:
        return reread(self.case.k)

    @stage
    def v(self) -> np.ndarray:
        return reread(self.case.v)

    def answers(self, names: tuple[str, ...] | None = None) -> dict[str, np.ndarray]:
        found = super().answers(names)
        return {name: written(x) if name in ("dq", "dk", "dv") else x for name, x in found.items()}


@wrong(
    "attention-across-heads",
    "A kernel for (B, N, H, D) is handed (B, H, N, D): the heads of a token attend to each other.", ALL,
    seen="the second post, section 4.2: memory_efficient_attention",
)  # fmt: skip
class AcrossHeads(Attention):
    """Its heads are the tokens, its lengths the heads; a mask or a bias would not fit."""

    def suits(self) -> bool:
        case = self.case
        others = (case.bias, case.table, case.mask, case.keep, case.sink, case.lengths or None)
        return case.q.shape[:3] == case.k.shape[:3] and all(one is None for one in others)

    @stage
    def q(self) -> np.ndarray:
        return np.swapaxes(self.case.q, 1, 2)

    @stage
    def k(self) -> np.ndarray:
        return np.swapaxes(self.case.k, 1, 2)

    @stage
    def v(self) -> np.ndarray:
        return np.swapaxes(self.case.v, 1, 2)

    @stage
    def do(self) -> np.ndarray:
        return np.swapaxes(self.case.do, 1, 2)

    @stage
    def dlse(self) -> np.ndarray:
        return np.swapaxes(super().dlse, 1, 2)

    @stage
    def keys(self) -> np.ndarray:
        return self.k

    @stage
    def values(self) -> np.ndarray:
        return self.v

    @stage
    def mask(self) -> np.ndarray:
        B, H, N, _ = self.sizes
        seen = causal_mask(H, H) if self.case.causal else np.ones((H, H), dtype=bool)
        return np.broadcast_to(seen, (B, N, H, H))

    @stage
    def dk(self) -> np.ndarray:
        return self.dk_of_heads

    @stage
    def dv(self) -> np.ndarray:
        return self.dv_of_heads

    def answers(self, names: tuple[str, ...] | None = None) -> dict[str, np.ndarray]:
        found = super().answers(names)
        turned = ("o", "lse", "dq", "dk", "dv")
        return {name: np.swapaxes(x, 1, 2) if name in turned else x for name, x in found.items()}
