"""Attention forward and backward in float64 as steps, each of which a mistake can replace.

It is the semantic of `attngrad.reference.attention` and its gradients; tests hold the two together. What a
case is stands in `attngrad.mistakes.whole.forward`.
"""

import numpy as np

from attngrad.mistakes.whole.forward import Forward, Weights, transposed
from attngrad.mistakes.whole.stages import stage


def summed_to(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return the sum over the axes along which ``shape`` was broadcast to that of x."""
    x = x.sum(axis=tuple(range(x.ndim - len(shape))))
    stretched = tuple(axis for axis, size in enumerate(shape) if size == 1)
    return np.asarray(x.sum(axis=stretched, keepdims=True))


def scattered(row: np.ndarray, dbias: np.ndarray, R: int) -> np.ndarray:
    """Return the sums (H, R) of the pairs (H, N, M) of each row."""
    H = dbias.shape[0]
    places = np.arange(H)[:, None, None] * R + row
    return np.bincount(places.ravel(), weights=dbias.ravel(), minlength=H * R).reshape(H, R)


class Attention(Forward):
    """The right attention of a case. A mistake is a subclass that replaces a step, or a few that go together.

    Steps whose name ends in ``_back`` are what the backward pass reads; by default it is what the forward
    pass used. ``settings`` are attributes of a mistake, such as its size of blocks. A mistake replaces steps
    and `suits` alone: what is no step is shared.
    """

    @stage
    def scale_back(self) -> float:
        """The factor between products and scores in the backward pass."""
        return self.scale

    @stage
    def bias_factor_back(self) -> float:
        """What the cotangent of the scores is multiplied by for that of the bias."""
        return self.bias_factor

    @stage
    def weights_back(self) -> Weights:
        """The softmax as the backward pass has it."""
        return self.weights

    @stage
    def keep_dp(self) -> np.ndarray | float:
        """The factor of each weight as dp has it."""
        return self.keep

    @stage
    def keep_dv(self) -> np.ndarray | float:
        """The factor of each weight as dv has it."""
        return self.keep

    @stage
    def dp(self) -> np.ndarray:
        """Cotangent of the weights (B, H, N, M)."""
        return (self.do @ transposed(self.values)) * self.keep_dp

    @stage
    def delta(self) -> np.ndarray:
        """The mean of dp by the weights of each row (B, H, N, 1)."""
        return (self.weights_back.p * self.dp).sum(axis=-1, keepdims=True)

    @stage
    def delta_of_output(self) -> np.ndarray:
        """The same mean as do.o (B, H, N, 1), which differs where the backward pass has other weights."""
        return (self.do * self.o).sum(axis=-1, keepdims=True)

    @stage
    def core(self) -> np.ndarray:
        """Cotangent of the scores by way of the weights."""
        return self.weights_back.p * (self.dp - self.delta)

    @stage
    def ds(self) -> np.ndarray:
        """Cotangent of the scores."""
        return self.core + self.weights_back.p * self.dlse[..., None]

    @stage
    def db(self) -> np.ndarray:
        """Cotangent in front of the cap of the scores."""
        return self.through_cap(self.s, self.cap_scores, self.ds)

    @stage
    def dx(self) -> np.ndarray:
        """Cotangent of the scaled products."""
        return self.through_cap(self.product, self.cap_product, self.db)

    @staticmethod
    def through_cap(capped: np.ndarray, cap: float | None, cotangent: np.ndarray) -> np.ndarray:
        """Return the cotangent in front of a cap."""
        return cotangent if cap is None else cotangent * (1.0 - (capped / cap) ** 2)

    @stage
    def dq(self) -> np.ndarray:
        """Cotangent of the queries."""
        return self.scale_back * (self.dx @ self.keys)

    @stage
    def dk_of_heads(self) -> np.ndarray:
        """Cotangent of the keys of each head of queries (B, H, M, D)."""
        return self.scale_back * (transposed(self.dx) @ self.q)

    @stage
    def dv_of_heads(self) -> np.ndarray:
        """Cotangent of the values of each head of queries (B, H, M, D_v)."""
        return transposed(self.weights_back.p * self.keep_dv) @ self.do

    @stage
    def dk(self) -> np.ndarray:
        """Cotangent of the keys."""
        return self.reduced(self.dk_of_heads)

    @stage
    def dv(self) -> np.ndarray:
        """Cotangent of the values."""
        return self.reduced(self.dv_of_heads)

    def reduced(self, x: np.ndarray) -> np.ndarray:
        """Return the sum over the heads of queries that share a head of keys."""
        out = np.zeros((x.shape[0], self.case.k.shape[1], *x.shape[2:]))
        np.add.at(out, (slice(None), self.head_of), x)
        return out

    @stage
    def dbias_pairs(self) -> np.ndarray:
        """Cotangent of the bias of each pair (B, H, N, M)."""
        return self.bias_factor_back * self.db

    @stage
    def dbias(self) -> np.ndarray:
        """Cotangent of the dense bias, in its shape."""
        return summed_to(self.dbias_pairs, self.case.bias.shape)

    @stage
    def row_back(self) -> np.ndarray:
        """The row of each pair, or its distance, as the backward pass has it."""
        return self.row

    @stage
    def dtable(self) -> np.ndarray:
        """Cotangent of the table, in its shape, or of the slopes."""
        pairs = self.dbias_pairs.sum(axis=0)
        if self.slopes:
            return -(self.row_back * pairs).sum(axis=(-2, -1))
        return self.of_table(scattered(self.row_back, pairs, self.case.table.shape[-1]))

    def of_table(self, dtable: np.ndarray) -> np.ndarray:
        """Return the cotangent (H, R) of each head's rows in the shape of the table."""
        return dtable.sum(axis=0, keepdims=True) if self.case.table.shape[0] == 1 else dtable

    @stage
    def scale_chain(self) -> float:
        """The derivative of the factor of the products by the scale of the case."""
        return 1.0

    @stage
    def dscale(self) -> np.ndarray:
        """Cotangent of the scale, an array without axes."""
        total = (self.dx * self.qk).sum()
        if self.bias is not None and self.inside:
            total += (self.db * np.where(self.allowed, self.bias, 0.0)).sum()
        return np.asarray(self.scale_chain * total)

    @stage
    def dsink(self) -> np.ndarray:
        """Cotangent of the logits of the sink (H,)."""
        return (self.weights_back.p_sink * (self.dlse - self.mean_for_sink)).sum(axis=(0, 2))

    @stage
    def mean_for_sink(self) -> np.ndarray:
        """The mean of dp of each row (B, H, N), as the sink reads it."""
        return self.delta[..., 0]

    def answers(self, names: tuple[str, ...] | None = None) -> dict[str, np.ndarray]:
        """Return o, lse and each gradient that the case wants, or those of the given names."""
        with np.errstate(all="ignore"):
            return {name: getattr(self, name) for name in names or ("o", "lse", *self.case.wants)}
