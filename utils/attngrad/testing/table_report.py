"""What is found about the gradient of a table."""

from dataclasses import dataclass

import numpy as np

KINDS = {
    "unregistered": "model.parameters() does not hold it, so that no optimizer gets it",
    "frozen": "it requires no gradient, so that it is never trained",
    "none": "backward gives no gradient though the loss depends on it: look for detach, no_grad or .data",
    "stale": "the loss stays as it is when it moves: it is not used, or a bias made of it earlier is kept",
    "wrong": "the gradient is not the difference of the loss",
    "gauge": "a constant for each head leaves the loss, but the gradient does not sum to 0 over rows",
    "coarse": "its differences are lost in rounding: a part of the loss has a lower type, or all are zero",
}


@dataclass(frozen=True)
class TableFinding:
    """One thing that is wrong with the gradient of a table; ``kind`` is a word of `KINDS`."""

    kind: str
    text: str

    def __str__(self) -> str:
        """Return what is wrong, in general and here."""
        return f"{self.kind}: {KINDS[self.kind]}{'; ' * bool(self.text)}{self.text}"


@dataclass(frozen=True, eq=False)
class TableReport:
    """What `check_table` found. ``findings`` is empty for a gradient that is right.

    ``gradient`` is that of the loss in the shape of the parameter, None if there is none; ``differences`` are
    central differences, NaN for entries that were not compared, and ``bound`` how far they may differ.
    ``unused`` are the rows that no pair looks up. ``gauge`` says whether the loss ignores a constant for each
    head, None if it was not tried, and ``sums`` are those of the gradient over rows then. ``layers`` are the
    places where the bias enters, each with its part of the gradient; there are none where nothing else in the
    loss requires a gradient.
    """

    parameter: str
    findings: tuple[TableFinding, ...]
    loss: float
    gradient: np.ndarray | None
    differences: np.ndarray
    bound: float
    unused: tuple[int, ...]
    gauge: bool | None
    sums: tuple[float, ...]
    layers: tuple[tuple[str, np.ndarray], ...]

    def __str__(self) -> str:
        """Return the report as text."""
        compared, size = int(np.isfinite(self.differences).sum()), self.differences.size
        told = ", ".join(finding.kind for finding in self.findings) or "healthy"
        lines = [f"{self.parameter} {self.differences.shape}: {told}", *map(str, self.findings)]
        lines.append(f"{compared} of {size} entries and random directions compared, within {self.bound:.1e}")
        if self.unused:
            lines.append(f"rows that no pair looks up: {', '.join(map(str, self.unused))}")
        if self.gauge:
            largest = max(map(abs, self.sums), default=0.0)
            lines.append(f"a constant for each head leaves the loss; sums over rows reach {largest:.1e}")
        lines += [f"through {name}: norm {np.linalg.norm(part):.3e}" for name, part in self.layers]
        return "\n  ".join(lines)
