"""What is recorded with a wrong attention."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from attngrad.mistakes import MISTAKES
from attngrad.mistakes.whole.pipeline import Attention

FORWARD = ("o", "lse")
SCORES = ("dq", "dk", "dbias", "dtable", "dscale", "dsink")
BACKWARD = ("dq", "dk", "dv", "dbias", "dtable", "dscale", "dsink")
ALL = (*FORWARD, *BACKWARD)
BIAS = ("dbias", "dtable")
NO_SOURCE = "no public source"

Answers = dict[str, np.ndarray]


@dataclass(frozen=True)
class Whole:
    """One wrong attention, forward and backward.

    ``text`` is a sentence on what is done wrong, ``seen`` an address where it was seen, ``kind`` the pipeline
    that does it, ``reaches`` the answers that it can change. ``settings`` are its variants, such as several
    sizes of blocks; the first is the default.
    """

    id: str
    text: str
    seen: str
    kind: type[Attention]
    reaches: tuple[str, ...]
    settings: tuple[dict[str, Any], ...] = ({},)

    @property
    def level(self) -> str:
        """Return where it acts: "forward", "backward", or "final" for what leads to one answer alone."""
        if "o" in self.reaches:
            return "forward"
        final = len(self.reaches) == 1 or set(self.reaches) <= set(BIAS)
        return "final" if final else "backward"

    def pipeline(self, case: Any, **settings: Any) -> Attention:
        """Return the wrong pipeline of a case; the right one where the case lacks what the mistake needs."""
        wrong = self.kind(case, **(settings or self.settings[0]))
        if not wrong.suits():
            return right(case)
        wrong.take_over(right(case))
        return wrong

    def answers(self, case: Any) -> Answers:
        """Return the wrong answers to a case: o, lse and the gradients that it wants, in float64."""
        return self.pipeline(case).answers()

    def variants(self, case: Any) -> Iterator[Answers]:
        """Return the wrong answers of each variant, the default first."""
        for settings in self.settings:
            yield self.pipeline(case, **settings).answers()

    def applies(self, case: Any) -> bool:
        """Say whether some variant changes some answer to the case."""
        answers = right(case).answers()
        return any(differs(answers, wrong) for wrong in self.variants(case))


REGISTER: dict[str, Whole] = {}
READ = (
    "q", "k", "v", "do", "scale", "bias", "table", "row", "bias_inside_scale", "mask", "keep", "dropout",
    "sink", "dlse", "causal", "query_start", "softcap", "softcap_on", "lengths", "strides", "dtype",
    "bias_dtype", "wants",
)  # fmt: skip
_RIGHT: "WeakKeyDictionary[Any, Attention]" = WeakKeyDictionary()


def right(case: Any) -> Attention:
    """Return the right pipeline of a case, the same one while the case lives."""
    try:
        found = _RIGHT.get(case)
    except TypeError:  # a case that cannot be a key, such as a SimpleNamespace
        return _finished(case)
    if found is None:
        found = _RIGHT[case] = _finished(case)
    return found


def _finished(case: Any) -> Attention:
    """Return the right pipeline of a case with every wanted step done; it does not keep the case alive."""
    pipeline = Attention(SimpleNamespace(**{name: getattr(case, name) for name in READ}))
    pipeline.answers()
    return pipeline


def differs(answers: Answers, wrong: Answers, rtol: float = 1e-9) -> bool:
    """Say whether some answer differs from the right one by more than rounding."""
    for name, answer in answers.items():
        other, seen = wrong[name], np.isfinite(answer)
        if not np.array_equal(seen, np.isfinite(other)):
            return True
        largest = np.abs(answer[seen]).max(initial=0.0) + np.abs(other[seen]).max(initial=0.0)
        if (np.abs(answer[seen] - other[seen]) > rtol * largest).any():
            return True
    return False


def wrong(
    id: str,
    text: str,
    reaches: tuple[str, ...],
    seen: str | None = None,
    settings: tuple[dict[str, Any], ...] = ({},),
) -> Callable[[type[Attention]], type[Attention]]:
    """Record a pipeline as a wrong attention; what `MISTAKES` has by the same id says where it was seen."""

    def record(kind: type[Attention]) -> type[Attention]:
        kind.__doc__ = kind.__doc__ or text
        source = MISTAKES[id].seen if seen is None else seen
        REGISTER[id] = Whole(id, text, source, kind, reaches, settings)
        return kind

    return record
