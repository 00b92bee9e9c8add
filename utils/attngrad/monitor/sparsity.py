"""Zeros and small entries of a gradient, and rows of a table that nothing looked up."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from attngrad.monitor.arguments import real_values
from attngrad.monitor.record import require_finite
from attngrad.notation import DtypeError, RangeError, integer, positive_number

SCALES = ("max", "rms")


@dataclass(frozen=True)
class Sparsity:
    """Two readings of a sparse gradient, as shares of all its entries.

    ``zero`` is the share that is exactly 0, ``small`` the share, zeros included, below ``threshold``.
    """

    zero: float
    small: float
    threshold: float
    entries: int

    def __str__(self) -> str:
        """Return both shares."""
        return f"{self.zero:.1%} exactly zero, {self.small:.1%} below {self.threshold:.3g}"


@dataclass(frozen=True)
class TableRows:
    """The rows of a table by what their gradient says; each row stands in one list.

    ``dead`` were never looked up and got exactly 0. ``stray`` were never looked up and got something: the
    scatter wrote into a row that it did not own. ``silent`` were looked up and got exactly 0. ``small`` were
    looked up and have a norm below ``threshold``. ``live`` are the others.
    """

    dead: tuple[int, ...]
    stray: tuple[int, ...]
    silent: tuple[int, ...]
    small: tuple[int, ...]
    live: tuple[int, ...]
    threshold: float

    def __str__(self) -> str:
        """Return how many rows there are of each kind."""
        kinds = ("live", "small", "silent", "dead", "stray")
        return ", ".join(f"{len(getattr(self, kind))} {kind}" for kind in kinds)


def _dense(name: str, x: Any) -> torch.Tensor:
    """Return a finite gradient as dense float64."""
    if isinstance(x, torch.Tensor) and x.layout == torch.sparse_coo:
        x = x.to_dense()
    values = real_values(name, x)
    require_finite(name, {name: values})
    if values.numel() == 0:
        raise RangeError(f"{name}: expected at least one entry, got shape {tuple(x.shape)}")
    return values


def sparsity(gradient: torch.Tensor, *, below: float = 1e-3, of: str | float = "max") -> Sparsity:
    """Return the share of entries that are exactly zero, and the share below a threshold.

    Formula: threshold = below times the scale, which is the largest |g| for "max", the root of the mean of
    the squares for "rms", or a number.

    Without a scale "small" means nothing: a gradient of a mean over a million tokens is small everywhere.

    Raises: DtypeError for what is no tensor of real floats; RangeError for an entry that is not finite, no
    entry at all, a threshold that is not positive, or an unknown scale.

    >>> import torch
    >>> print(sparsity(torch.tensor([0.0, 1e-5, 1.0, -2.0])))
    25.0% exactly zero, 50.0% below 0.002
    """
    size = _dense("gradient", gradient).abs()
    below = positive_number("below", below)
    if isinstance(of, str):
        if of not in SCALES:
            raise RangeError(f"of: expected 'max', 'rms' or a positive number, got {of!r}")
        scale = float(size.max()) if of == "max" else float(size.square().mean().sqrt())
    else:
        scale = positive_number("of", of)
    zero, small = size == 0.0, (size < below * scale) | (size == 0.0)
    return Sparsity(float(zero.double().mean()), float(small.double().mean()), below * scale, size.numel())


def table_rows(gradient: torch.Tensor, looked_up: Any, *, axis: int = -1, below: float = 1e-3) -> TableRows:
    """Tell the rows of a table apart by whether they were looked up and what they got.

    ``gradient`` is that of the table, whose rows run along ``axis``: -1 for a table (H, R), 0 for one (R, H)
    or an embedding. ``looked_up`` holds the rows that the forward pass read, in any shape, such as the row of
    each pair or the tokens. The threshold is ``below`` times the largest norm of a row.

    Raises: DtypeError for rows that are no integers; RangeError for rows outside the table, an axis that does
    not exist, and as `sparsity`.

    >>> import torch
    >>> print(table_rows(torch.tensor([[0.0, 1.0, 0.0, 0.5]]), torch.tensor([[1, 2], [2, 1]])))
    1 live, 0 small, 1 silent, 1 dead, 1 stray
    """
    values = _dense("gradient", gradient)
    axis, below = integer("axis", axis), positive_number("below", below)
    if not -values.ndim <= axis < values.ndim:
        raise RangeError(f"axis: expected an axis of {values.ndim}, got {axis}")
    values = values.movedim(axis, 0).flatten(1) if values.ndim > 1 else values[:, None]
    read = _read_rows(looked_up, len(values))
    largest = values.abs().amax(dim=1)
    norms = largest * torch.linalg.vector_norm(values / largest.clamp(min=1e-300)[:, None], dim=1)
    threshold, zero = below * float(norms.max()), largest == 0.0
    small = ~zero & (norms < threshold)
    kinds: Mapping[str, torch.Tensor] = {
        "dead": ~read & zero,
        "stray": ~read & ~zero,
        "silent": read & zero,
        "small": read & small,
        "live": read & ~zero & ~small,
    }
    rows = {name: tuple(int(k) for k in which.nonzero()[:, 0]) for name, which in kinds.items()}
    return TableRows(**rows, threshold=threshold)


def _read_rows(looked_up: Any, R: int) -> torch.Tensor:
    """Return for each of R rows whether it is among those that were looked up."""
    rows = torch.as_tensor(looked_up).detach().cpu().flatten()
    if rows.dtype.is_floating_point or rows.dtype.is_complex or rows.dtype == torch.bool:
        raise DtypeError(f"looked_up: expected integers, got {rows.dtype}")
    if rows.numel() and not (0 <= int(rows.min()) and int(rows.max()) < R):
        raise RangeError(f"looked_up: expected 0 to {R - 1}, got {int(rows.min())} to {int(rows.max())}")
    read = torch.zeros(R, dtype=torch.bool)
    read[rows.long()] = True
    return read
