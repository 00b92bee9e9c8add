"""The gradient of one parameter against differences of a loss, entry by entry and along directions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from attngrad.notation import RangeError
from attngrad.testing.loss import Loss
from attngrad.testing.table_report import TableFinding
from attngrad.testing.uses import contributions, recorded

if TYPE_CHECKING:
    import torch

STEP = 1e-5
RTOL = 1e-6
DIRECTIONS = 3
COARSE = 1e-2
SAME = 1e-5
SECOND_TIME = "backward through the graph a second time"


class Comparison:
    """A loss as a function of one parameter, and the findings about its gradient.

    ``value`` is the loss, ``jitter`` by how much two calls differ, ``noise`` by how much rounding moves it,
    ``step`` that of differences, ``depends`` whether the loss changes when all entries move far.
    """

    def __init__(self, loss: Loss, findings: list[TableFinding], rng: np.random.Generator) -> None:
        """Measure the loss, first with a graph as in training, then without one."""
        self.loss, self.findings, self.rng = loss, findings, rng
        self.shape = tuple(loss.parameter.shape)
        trained, self.value, again = loss().item(), loss.value(), loss.value()
        self.jitter = abs(again - self.value)  # 0 but for sums in no fixed order
        if not math.isfinite(trained + self.value):
            raise RangeError(f"loss_fn: expected a finite loss, got {self.value}")
        if max(self.jitter, abs(trained - self.value)) > SAME * max(abs(self.value), 1e-6):
            told = f"expected the same at each call with one seed, got {trained}, {self.value} and {again}"
            raise RangeError(f"loss_fn: {told}; give it fixed data, and random numbers of torch alone")
        single = loss.parameter.element_size() < 8
        tiny = 1e-8 if single else 1e-13
        moves = [self.moved(tiny * rng.standard_normal(self.shape)) for _ in range(3)]
        rounded = np.finfo(np.float64).eps * abs(self.value)
        self.noise = max(abs(one) for one in (*moves, self.jitter)) + rounded
        coarse = single or self.noise > 1e-11 * abs(self.value)
        self.step = max(STEP, self.noise ** (1.0 / 3.0)) if coarse else STEP
        self.depends = not abs(self.moved(rng.standard_normal(self.shape))) <= self.jitter

    def add(self, kind: str, text: str = "") -> None:
        """Add a finding."""
        self.findings.append(TableFinding(kind, text))

    def moved(self, move: np.ndarray) -> float:
        """Return by how much the loss changes when the parameter moves."""
        return self.loss.moved(self._tensor(move)) - self.value

    def gradient(self, model: Any) -> tuple[np.ndarray | None, tuple[tuple[str, np.ndarray], ...]]:
        """Return the gradient, None if there is none, and each place's part of it."""
        found = None
        try:
            for _ in range(2):  # a graph that is kept from the first call cannot be used twice
                loss = self.loss()
                if loss.requires_grad:
                    found = self.loss.gradient(loss)
        except RuntimeError as error:
            if SECOND_TIME not in str(error):
                raise
            self.add("stale", "the second backward pass meets the graph of the first")
            return None, ()
        if found is None:
            return None, ()
        with recorded(model) as modules:
            loss = self.loss()
        parts = contributions(self.loss, loss, modules)
        return _numbers(found), tuple((name, _numbers(part)) for name, part in parts)

    def differences(self, entries: int) -> np.ndarray:
        """Return central differences of all entries, or of some random ones and NaN for the others."""
        size = int(np.prod(self.shape))
        chosen = np.arange(size) if size <= entries else self.rng.choice(size, entries, replace=False)
        found = np.full(size, np.nan)
        for at in chosen:
            move = np.zeros(size)
            move[at] = 1.0
            found[at] = self.loss.difference(self._tensor(move), self.step)
        return found.reshape(self.shape)

    def bound(self, differences: np.ndarray) -> float:
        """Return how far a gradient may be from its differences: by their curvature, and by rounding."""
        largest = float(np.nanmax(np.abs(differences), initial=0.0))
        curved = max(RTOL, 10.0 * self.step**2) if self.step > STEP else RTOL
        bound = curved * largest + 4.0 * self.noise / self.step
        if self.depends and bound > COARSE * largest:
            self.add("coarse", f"differences are certain to {bound:.1e}, and reach {largest:.1e}")
        return bound

    def compare(self, gradient: np.ndarray, differences: np.ndarray, bound: float) -> None:
        """Find the entries at which the gradient is off; without one, a direction along which it is."""
        wrong = np.isfinite(differences) & ~(np.abs(gradient - differences) <= bound)
        if wrong.any():
            self.add("wrong", _told(gradient, differences, wrong, bound))
            return
        for _ in range(DIRECTIONS):
            direction = self.rng.standard_normal(self.shape)
            direction /= np.linalg.norm(direction)
            found = float((gradient * direction).sum())
            change = self.loss.difference(self._tensor(direction), self.step)
            if not abs(found - change) <= bound + RTOL * abs(change):
                self.add("wrong", f"along a random direction it is {found:.6g}, the difference {change:.6g}")
                return

    def unused(self, gradient: np.ndarray | None, axis: int) -> tuple[int, ...]:
        """Return the rows whose gradient is 0, and which leave the loss the same."""
        rows, heads = self.shape[axis], self.shape[1 - axis]
        seen = np.zeros(rows, dtype=bool) if gradient is None else np.moveaxis(gradient, axis, 0).any(axis=1)
        found = []
        for row in np.flatnonzero(~seen):
            move = np.zeros(self.shape)
            np.moveaxis(move, axis, 0)[row] = self.rng.uniform(0.5, 1.5, heads)
            if abs(self.moved(move)) <= self.jitter:
                found.append(int(row))
        return tuple(found)

    def gauge(self, gradient: np.ndarray | None, axis: int, bound: float) -> tuple[bool, tuple[float, ...]]:
        """Return whether a constant for each head leaves the loss, and then the sums over rows."""
        constant = np.expand_dims(self.rng.uniform(0.5, 1.5, self.shape[1 - axis]), axis)
        change = self.moved(np.broadcast_to(constant, self.shape))
        free = bool(abs(change) <= 100.0 * self.noise + 1e-2 * bound)
        if gradient is None or not free:
            return free, ()
        sums = gradient.sum(axis=axis)
        off = np.flatnonzero(np.abs(sums) > self.shape[axis] * bound)
        if off.size:
            self.add("gauge", f"the sum is {sums[off[0]]:.3g} in head {off[0]}")
        return free, tuple(float(one) for one in sums)

    def _tensor(self, x: np.ndarray) -> torch.Tensor:
        """Return a move as a tensor beside the parameter."""
        import torch

        parameter = self.loss.parameter
        return torch.tensor(x, dtype=parameter.dtype, device=parameter.device).reshape(parameter.shape)


def _numbers(x: torch.Tensor) -> np.ndarray:
    """Return a gradient as a NumPy array; a sparse one is filled."""
    x = x.detach()
    return (x.to_dense() if x.is_sparse else x).double().cpu().numpy().copy()


def _told(gradient: np.ndarray, differences: np.ndarray, wrong: np.ndarray, bound: float) -> str:
    """Return where the gradient is off, and by which factor if it is one for all entries."""
    error = np.where(wrong, np.abs(gradient - differences), -1.0)
    error = np.where(np.isnan(error), np.inf, error)
    at = tuple(int(k) for k in np.unravel_index(error.argmax(), error.shape))
    compared = np.isfinite(differences)
    text = f"{int(wrong.sum())} of {int(compared.sum())} entries are off, the most at {at}: "
    text += f"{gradient[at]:.6g}, the difference is {differences[at]:.6g} within {bound:.1e}"
    g, d = gradient[compared], differences[compared]
    factor = float(g @ d / (d @ d)) if d.any() else np.nan
    same = np.isfinite(factor) and np.abs(g - factor * d).max() <= max(abs(factor), 1.0) * 2.0 * bound
    return f"{text}; all are {factor:.6g} times the difference" if same else text
