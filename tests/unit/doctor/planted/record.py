"""What is recorded with a planted subject, and the list of all."""

from dataclasses import dataclass
from typing import Any

from attngrad.doctor.spec import Spec

NO_SOURCE = "no public source"


@dataclass(frozen=True)
class Planted:
    """A subject whose state of health is known.

    ``mistakes`` are the ids that the doctor should name, none where the mistake is unknown to it; ``seen`` is
    where the mistake was seen. ``make`` returns a new subject, since some of them hold state. The quick plan
    is run, or the ``cases`` of the whole one where the mistake does not show in the quick one.
    """

    name: str
    make: Any
    spec: Spec
    verdict: str
    mistakes: tuple[str, ...] = ()
    seen: str = NO_SOURCE
    cases: tuple[str, ...] = ()


PLANTED: list[Planted] = []


def plant(*mistakes, spec, verdict="wrong", seen=NO_SOURCE, cases=()):
    """Return a decorator that adds a class to the list; its name says which subject it is."""

    def add(kind):
        PLANTED.append(Planted(kind.__name__, kind, spec, verdict, mistakes, seen, cases))
        return kind

    return add


def plant_function(function, *mistakes, spec, verdict="wrong", seen=NO_SOURCE, cases=(), name=""):
    """Add a plain function of tensors to the list, by its own name or another."""
    PLANTED.append(Planted(name or function.__name__, lambda: function, spec, verdict, mistakes, seen, cases))
