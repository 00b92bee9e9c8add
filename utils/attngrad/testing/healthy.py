"""An implementation of attention that must be healthy, in one call of a test."""

from typing import Any

from attngrad.doctor import Report, Spec
from attngrad.doctor.examining import examine
from attngrad.doctor.telling.reports import as_text


def assert_healthy(
    subject: Any,
    spec: Spec | None = None,
    *,
    seed: int = 0,
    quick: bool = True,
    isolate: bool | None = None,
    allow_low_precision: bool = False,
) -> Report:
    """Return the report on an implementation, and raise with its text unless it is healthy.

    ``subject`` is an object with ``forward(case)`` and ``backward(case, saved)`` or a function of torch, run
    in this process, or a target such as "file.py:name", run in a child. With ``allow_low_precision`` a right
    formula of low precision passes.

    Raises: AssertionError for a gradient that is wrong; attngrad.doctor.CannotRun for what cannot be loaded
    or supports no case.

    >>> import torch
    >>> assert_healthy(lambda q, k, v, scale: torch.softmax(scale * q @ k.mT, dim=-1) @ v).verdict
    'healthy'
    """
    report = examine(subject, spec, seed=seed, quick=quick, isolate=isolate)
    if report.verdict == "wrong" or (report.verdict == "imprecise" and not allow_low_precision):
        raise AssertionError(as_text(report, short=True))
    return report
