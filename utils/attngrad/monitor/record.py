"""A NaN or an infinity, and where it stands."""

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from attngrad.monitor.arguments import named, stored
from attngrad.notation import RangeError, first_index


@dataclass(frozen=True)
class NonFinite:
    """One tensor that is not finite.

    ``what`` names it, ``index`` and ``value`` are those of its first entry that is not finite (of a sparse
    tensor, among the entries that it stores), ``count`` says how many of its ``size`` entries are not.

    - ``phase``: "before" (parameters, their gradients, the optimizer's state at the start), "forward",
      "backward", or "after" (the same state at the end).
    - ``module``: the module in whose code it appeared, "" where it came from outside the model, and
      ``call`` the number of that module's call in the block, 0 for a parameter.
    - ``made_here``: everything that entered that code was finite, and so was what came earlier.
    """

    what: str
    index: tuple[int, ...]
    value: float
    count: int
    size: int
    phase: str = ""
    module: str = ""
    call: int = 0
    made_here: bool = False

    @property
    def place(self) -> str:
        """Return the tensor, the first bad entry and how many there are, as a phrase."""
        at = f" at index {self.index}" if self.index else ""
        return f"{self.what} is {self.value}{at}, {self.count} of {self.size} entries"

    def __str__(self) -> str:
        """Return all of it as one line."""
        told = self.place
        if self.module:
            again = f", call {self.call}" if self.call > 1 else ""
            told = f"{self.module}{again}: {told}; {'made here' if self.made_here else 'passed on'}"
        return f"{self.phase}: {told}" if self.phase else told


def find(what: str, x: Any, allow_minus_inf: bool = False, **more: Any) -> NonFinite | None:
    """Return where a tensor of floats is not finite; None where it is, or where it holds no values."""
    if not isinstance(x, torch.Tensor) or x.is_meta or not (x.is_floating_point() or x.is_complex()):
        return None
    if x.layout not in (torch.strided, torch.sparse_coo) or is_lazy(x):
        return None
    x = stored(x)
    bad = ~torch.isfinite(x)
    if allow_minus_inf and not x.is_complex():
        bad &= x != -torch.inf
    if not bad.any():
        return None
    at = first_index(bad)
    return NonFinite(what, at, x[at].item(), int(bad.sum()), x.numel(), **more)


def non_finite(tensors: Any) -> tuple[NonFinite, ...]:
    """Return every tensor of a module, a mapping or a sequence that holds a NaN or an infinity.

    Raises: DtypeError for what holds no tensors; RangeError where there is none.

    >>> import torch
    >>> print(*non_finite({"scores": torch.tensor([[0.0, 1.0], [torch.inf, 2.0]])}))
    scores is inf at index (1, 0), 1 of 4 entries
    """
    found = (find(name, x) for name, x in named(tensors, "tensors").items())
    return tuple(one for one in found if one is not None)


def require_finite(told: str, tensors: dict[str, torch.Tensor]) -> None:
    """Raise a RangeError that names every tensor with an entry that is not finite."""
    bad = [found.place for name, x in tensors.items() if (found := find(name, x)) is not None]
    if bad:
        raise RangeError(f"{told}: expected finite values, got: {'; '.join(bad)}")
