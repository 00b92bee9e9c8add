"""The norm of a gradient, and the unit in which the loss's reduction leaves it."""

import math
from dataclasses import dataclass, field
from typing import Any

from attngrad.monitor.arguments import named, norm, real_values
from attngrad.monitor.record import require_finite
from attngrad.notation import DtypeError, RangeError, integer

REDUCTIONS = ("mean", "sum")


@dataclass(frozen=True)
class Size:
    """The norm of one tensor and how many entries it has."""

    norm: float
    entries: int

    @property
    def rms(self) -> float:
        """Return the root of the mean of the squares: norm / sqrt(entries)."""
        return self.norm / math.sqrt(self.entries) if self.entries else 0.0


@dataclass(frozen=True)
class GradientNorm(Size):
    """The norm of all gradients together, and of each.

    ``each`` holds the size of every parameter's gradient. ``missing`` names parameters that want a gradient
    and have None; ``zero`` those whose gradient is exactly zero.
    """

    reduction: str = "mean"
    terms: int | None = None
    each: dict[str, Size] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    zero: tuple[str, ...] = ()

    @property
    def of_mean(self) -> float:
        """Return the norm that the mean of the terms would have given."""
        return self.norm if self.reduction == "mean" else self.norm / self._known_terms()

    @property
    def of_sum(self) -> float:
        """Return the norm that the sum of the terms would have given.

        Raises: RangeError unless the number of terms is known.
        """
        return self.norm if self.reduction == "sum" else self.norm * self._known_terms()

    def _known_terms(self) -> int:
        """Return the number of terms."""
        if self.terms is None:
            raise RangeError("terms: expected the number of terms of the loss, got None")
        return self.terms

    def __str__(self) -> str:
        """Return the total and each parameter, a line each."""
        told = f"of a {self.reduction}" + (f" over {self.terms} terms" if self.terms else "")
        width = max(map(len, self.each), default=0)
        lines = [f"norm {self.norm:.3g} ({told}), rms {self.rms:.3g}"]
        lines += [f"  {name:<{width}}  {x.norm:.3g}, rms {x.rms:.3g}" for name, x in self.each.items()]
        lines += [f"  {name}: no gradient" for name in self.missing]
        return "\n".join(lines)


def gradient_norm(parameters: Any, *, reduction: str = "mean", terms: int | None = None) -> GradientNorm:
    """Return the norm of the gradients of parameters, together and one by one.

    Formula: norm^2 = sum over parameters of sum g^2, rms = norm / sqrt(entries), in float64 whatever the
    type of a gradient is.

    ``parameters`` is a module, tensors, or pairs of a name and a tensor. ``reduction`` says what the loss
    does with its terms, such as the tokens that count, and ``terms`` how many there are. The gradient of a
    sum is ``terms`` times that of a mean: ``of_sum`` and ``of_mean`` give the norm in either unit.

    Raises: RangeError that names every gradient with a NaN or an infinity; where no parameter has a gradient;
    for an unknown reduction, or a sum without ``terms``; DtypeError for what holds no parameters.

    >>> import torch
    >>> w = torch.zeros(2, requires_grad=True)
    >>> (w * torch.tensor([3.0, 4.0])).sum().backward()
    >>> found = gradient_norm({"w": w}, reduction="sum", terms=2)
    >>> found.norm, found.of_mean
    (5.0, 2.5)
    """
    if reduction not in REDUCTIONS:
        raise RangeError(f"reduction: expected 'mean' or 'sum', got {reduction!r}")
    if terms is not None:
        terms = integer("terms", terms, least=1)
    elif reduction == "sum":
        raise DtypeError("terms: expected the number of terms of a sum, got None")
    wanted = {name: p for name, p in named(parameters).items() if p.requires_grad}
    grads = {name: p.grad for name, p in wanted.items() if p.grad is not None}
    if not grads:
        raise RangeError("parameters: expected at least one with a gradient, got none; call backward first")
    require_finite("gradients", grads)
    each = {name: Size(norm(real_values(name, g)), g.numel()) for name, g in grads.items()}
    total, entries = math.hypot(*(x.norm for x in each.values())), sum(x.entries for x in each.values())
    missing = tuple(name for name in wanted if name not in grads)
    zero = tuple(name for name, x in each.items() if x.norm == 0.0)
    return GradientNorm(total, entries, reduction, terms, each, missing, zero)
