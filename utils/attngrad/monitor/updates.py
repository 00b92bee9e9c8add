"""What a step of an optimizer did to each parameter, measured and not predicted."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from attngrad.monitor.arguments import named, norm, real_values
from attngrad.monitor.record import require_finite
from attngrad.notation import DtypeError


@dataclass(frozen=True)
class Update:
    """The norms of one parameter before a step and of what the step changed; ``entries`` counts all."""

    before: float
    change: float
    entries: int

    @property
    def ratio(self) -> float:
        """Return change / before: 0 where nothing changed, infinite where a parameter of zeros moved."""
        if self.change == 0.0:
            return 0.0
        return self.change / self.before if self.before else math.inf


@dataclass
class UpdateRatio:
    """The updates of one step by the names of the parameters; empty until the step is done.

    ``outside`` names parameters of the model that the optimizer does not hold.
    """

    each: dict[str, Update] = field(default_factory=dict)
    outside: tuple[str, ...] = ()

    @property
    def total(self) -> Update:
        """Return the update of all parameters together."""
        parts = self.each.values()
        norms = (math.hypot(*(getattr(part, of) for part in parts)) for of in ("before", "change"))
        return Update(*norms, entries=sum(part.entries for part in parts))

    @property
    def ratio(self) -> float:
        """Return the ratio of all parameters together."""
        return self.total.ratio

    @property
    def still(self) -> tuple[str, ...]:
        """Return the parameters of which no entry changed."""
        return tuple(name for name, part in self.each.items() if part.change == 0.0)

    @property
    def skipped(self) -> bool:
        """Say whether nothing changed at all, as when a gradient scaler leaves a step out."""
        return bool(self.each) and len(self.still) == len(self.each)

    def __getitem__(self, name: str) -> Update:
        """Return the update of one parameter."""
        return self.each[name]

    def __str__(self) -> str:
        """Return the total and each parameter, a line each."""
        width = max(map(len, self.each), default=0)
        lines = [f"ratio {self.ratio:.3g}" + (", nothing changed" if self.skipped else "")]
        lines += [f"  {name:<{width}}  {part.ratio:.3g}" for name, part in self.each.items()]
        lines += [f"  {name}: not in the optimizer" for name in self.outside]
        return "\n".join(lines)


@contextmanager
def update_ratio(optimizer: Any, model: Any = None) -> Iterator[UpdateRatio]:
    """Measure what the steps in its block do to the parameters of an optimizer.

    Formula: ratio = |w_after - w_before| / |w_before|, in float64, from the stored numbers. So it holds for
    every optimizer, and counts momentum, weight decay, clipping, the scaling of a gradient, steps that a
    scaler leaves out, and steps that are lost when a parameter of 16 bits is rounded.

    ``model``, a module or pairs of a name and a tensor, gives the names. Parameters are copied, so the block
    needs their memory once more.

    Raises: DtypeError for what is no optimizer; RangeError for a parameter that is not finite before or after
    the block, by name.

    >>> import torch
    >>> w = torch.nn.Parameter(torch.tensor([3.0, 4.0], dtype=torch.float64))
    >>> w.grad = torch.tensor([0.6, 0.8], dtype=torch.float64)
    >>> optimizer = torch.optim.Adam([w], lr=0.01)
    >>> with update_ratio(optimizer, {"w": w}) as found:
    ...     optimizer.step()
    >>> round(found["w"].ratio, 6), round(0.01 * 1.0 / 5.0, 6)  # lr |g| / |w| is that of SGD
    (0.002828, 0.002)
    """
    held = _held(optimizer)
    names = {} if model is None else {id(p): name for name, p in named(model, "model").items()}
    labelled = {names.get(id(p), label): p for label, p in held.items()}
    inside = {id(p) for p in held.values()}
    found = UpdateRatio(outside=tuple(name for key, name in names.items() if key not in inside))
    require_finite("before the step", labelled)
    before = {name: p.detach().clone() for name, p in labelled.items()}
    yield found
    require_finite("after the step", labelled)
    for name, p in labelled.items():
        was, now = real_values(name, before[name]), real_values(name, p)
        found.each[name] = Update(norm(was), norm(now - was), p.numel())


def _held(optimizer: Any) -> dict[str, torch.Tensor]:
    """Return the parameters of an optimizer by their places in its groups."""
    groups = getattr(optimizer, "param_groups", None)
    if not isinstance(groups, list):
        raise DtypeError(f"optimizer: expected one with param_groups, got {type(optimizer).__name__}")
    pairs = ((f"group {g}, {k}", p) for g, group in enumerate(groups) for k, p in enumerate(group["params"]))
    return dict(pairs)
