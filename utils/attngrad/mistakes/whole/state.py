"""Mistakes of an implementation that keeps something from call to call: no formula of one case shows them."""

from dataclasses import dataclass

import numpy as np

from attngrad.mistakes import MISTAKES
from attngrad.mistakes.whole.pipeline import Attention
from attngrad.mistakes.whole.record import NO_SOURCE
from attngrad.mistakes.whole.stages import stage


@dataclass(frozen=True)
class Stateful:
    """A mistake that shows between calls: ``text`` says what is done wrong, ``seen`` where it was seen."""

    id: str
    text: str
    seen: str


class TableStale(Attention):
    """The right attention with the table of another case in its forward pass."""

    first: np.ndarray | None = None

    @stage
    def table(self) -> np.ndarray | None:
        """The table of the first case, where there is one."""
        return self.case.table if self.first is None else self.first


STATE = {
    mistake.id: mistake
    for mistake in (
        Stateful(
            "table-bias-stale",
            "The bias is gathered at the first call and kept while the table changes.",
            MISTAKES["table-bias-stale"].seen,
        ),
        Stateful(
            "output-accumulated-between-calls",
            "A gradient is added to what the last call left in its buffer.",
            NO_SOURCE,
        ),
        Stateful(
            "accumulator-uninitialised",
            "A gradient is added to memory that was never set to zero, or a part of it is never written.",
            NO_SOURCE,
        ),
        Stateful(
            "sum-order-not-fixed",
            "A sum is taken in another order at each run, so that its last digits change.",
            "https://github.com/pytorch/pytorch/pull/137452; "
            "https://github.com/MooreThreads/torch_musa/pull/152",
        ),
        Stateful("input-overwritten", "An input is written over during the call.", NO_SOURCE),
    )
}
