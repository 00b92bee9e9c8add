"""What came of a case, what is wrong with it, and the report of all."""

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, eq=False)
class Outcome:
    """What an implementation did with a case.

    ``status`` is "ok", "unsupported", "error", "crash" or "hang", and ``text`` its reason. ``answers`` are
    float64 arrays by name in the layout of `attngrad.doctor.case`, dbias as it came if it only has to be
    summed; they may hold NaN. ``repeats`` are those of later runs of the same case. ``faults`` are sentences
    on what was done beside the answers, each "kind: sentence", such as "input-changed: q differs ...".
    """

    status: str
    text: str = ""
    answers: dict[str, np.ndarray] = field(default_factory=dict)
    repeats: tuple[dict[str, np.ndarray], ...] = ()
    faults: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong. ``kind`` is a word of `KINDS`, ``what`` the answer, such as "dq"."""

    case: str
    what: str
    kind: str
    text: str
    error: float = 0.0
    bound: float = 0.0
    index: tuple[int, ...] = ()
    got: float = 0.0
    want: float = 0.0


KINDS = {
    "wrong": "differs from the formula by more than rounding can explain",
    "imprecise": "the formula is right, the precision is low",
    "nan": "NaN or infinite where the formula is finite",
    "shape": "another shape, type or name than asked for",
    "missing": "None, or never returned, for what is claimed",
    "error": "an exception",
    "crash": "the process died",
    "hang": "no answer within the limit",
    "input-changed": "an input was overwritten",
    "guard": "written outside a buffer",
    "unwritten": "part of a buffer was never written",
    "repeat": "another answer for the same input",
    "law": "a law that the declared semantic implies does not hold",
    "probe": "the forward pass computes something else than declared",
}


@dataclass(frozen=True)
class Diagnosis:
    """Which known mistakes explain every answer. ``names`` is a set of ids, each with equals that cannot be
    told apart by this implementation's cases: (("a",), ("b", "c")) means a, and one of b and c. Empty where
    nothing known explains all of it; ``text`` says what is known then, such as a constant factor.
    """

    names: tuple[tuple[str, ...], ...] = ()
    text: str = ""


@dataclass(frozen=True)
class Report:
    """Everything the doctor says. ``verdict`` is "healthy", "imprecise" or "wrong".

    ``command`` examines again; with ``--case NAME`` behind it, one case alone. It is "" for what has none.
    """

    target: str
    verdict: str
    findings: tuple[Finding, ...]
    diagnosis: Diagnosis
    probe: tuple[str, ...]
    tried: tuple[str, ...]
    not_tried: tuple[str, ...]
    not_exercised: tuple[str, ...]
    spec: str
    seed: int
    versions: dict[str, str]
    seconds: float
    command: str = ""

    def __str__(self) -> str:
        """Return the report as text of 72 columns."""
        from attngrad.doctor.telling.reports import as_text

        return as_text(self)
