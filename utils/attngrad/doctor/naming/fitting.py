"""Fits of weights that a forward pass shows: their logarithms by row, on products and bias."""

from dataclasses import dataclass

import numpy as np

SEEN = 5.0  # times the error bound: weights above it are fitted
SURE = 6.0  # times the error of a coefficient


@dataclass(frozen=True)
class Fit:
    """Coefficients of a fit, how far each may be off, and the largest residue as a multiple of its bound."""

    coefficients: np.ndarray
    off: np.ndarray
    residue: float

    @property
    def holds(self) -> bool:
        """Say whether rounding explains the residue."""
        return self.residue <= SURE


def precision(weights: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """Return one over the squared error of each logarithm, 0 for a weight too small to have one."""
    seen = weights > SEEN * bound
    return np.where(seen, (weights / np.where(bound > 0.0, bound, 1.0)) ** 2, 0.0)


def centred(x: np.ndarray, worth: np.ndarray) -> np.ndarray:
    """Return x minus the mean of each row, weighted: a constant of a row does not change the weights."""
    total = worth.sum(axis=-1, keepdims=True)
    return x - (worth * x).sum(axis=-1, keepdims=True) / np.where(total > 0.0, total, 1.0)


def fitted(weights: np.ndarray, bound: np.ndarray, columns: list[np.ndarray]) -> Fit | None:
    """Return the least squares fit of log weights on columns (B, H, N, M) by row; None without an answer."""
    worth = precision(weights, bound)
    if not worth.any():
        return None
    y = centred(np.log(np.where(worth > 0.0, weights, 1.0)), worth)
    x = [centred(column, worth) for column in columns]
    normal = np.array([[(worth * a * b).sum() for a in x] for b in x])
    size = np.sqrt(np.diag(normal))
    if not (size > 0.0).all() or np.linalg.cond(normal / np.outer(size, size)) > 1e8:
        return None
    found = np.linalg.solve(normal, [(worth * a * y).sum() for a in x])
    left = np.sqrt(worth) * np.abs(y - sum(c * a for c, a in zip(found, x, strict=True)))
    off = SURE * np.sqrt(np.diag(np.linalg.inv(normal))) + 1e-6 * np.abs(found)
    return Fit(found, off, float(left.max()))


def residue(weights: np.ndarray, bound: np.ndarray, s: np.ndarray) -> float:
    """Return the largest residue of log weights against scores, as a multiple of its bound."""
    worth = precision(weights, bound)
    y = centred(np.log(np.where(worth > 0.0, weights, 1.0)), worth)
    return float((np.sqrt(worth) * np.abs(y - centred(s, worth))).max(initial=0.0))


def cap_of(
    weights: np.ndarray, bound: np.ndarray, x: np.ndarray, beside: np.ndarray | float
) -> tuple[float, float]:
    """Return the c for which c tanh(x / c) + beside fits log weights best, and the residue that it leaves."""
    worth = precision(weights, bound)
    y = centred(np.log(np.where(worth > 0.0, weights, 1.0)) - beside * np.ones(weights.shape), worth)

    def squares(c: float) -> float:
        return float((worth * (y - centred(c * np.tanh(x / c), worth)) ** 2).sum())

    largest = float(np.abs(x).max(initial=1.0))
    grid = largest * np.geomspace(1e-2, 1e2, 81)
    at = int(np.argmin([squares(c) for c in grid]))
    low, high = grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)]
    for _ in range(40):
        first, second = low + 0.382 * (high - low), low + 0.618 * (high - low)
        low, high = (low, second) if squares(first) < squares(second) else (first, high)
    best = 0.5 * (low + high)
    return best, residue(weights, bound, best * np.tanh(x / best) + beside)
