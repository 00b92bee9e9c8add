"""The gradient doctor: whether a backward pass of attention is wrong, on which case, by how much, and why.

`examine` takes an implementation and a `Spec` of what it claims to do, and returns a `Report`. From the
command line it is ``attention-doctor file.py:name``, in tests `attngrad.testing.assert_healthy`.

- ``spec``, ``case``, ``outcome``: what is claimed, asked and answered; ``exchange``: the same as arrays.
- ``cases``: which cases a claim leads to. ``running``: giving them to an implementation, ``adapters``:
  implementations in use. ``judging``: right answers, error bands, laws, findings. ``naming``: what the
  forward pass computes, and which known mistakes explain the answers. ``telling``: reports and files.
- ``kills``: which check rejects which mistake.
"""

from attngrad.doctor.case import Case, Unsupported
from attngrad.doctor.examining import examine
from attngrad.doctor.outcome import Diagnosis, Finding, Outcome, Report
from attngrad.doctor.running.inside.loading import CannotRun
from attngrad.doctor.spec import Spec, alibi, clip, offset, t5, window

__all__ = [
    "CannotRun",
    "Case",
    "Diagnosis",
    "Finding",
    "Outcome",
    "Report",
    "Spec",
    "Unsupported",
    "alibi",
    "clip",
    "examine",
    "offset",
    "t5",
    "window",
]
