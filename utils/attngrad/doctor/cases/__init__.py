"""The cases on which an implementation is tried."""

from attngrad.doctor.cases.planning import plan
from attngrad.doctor.cases.untried import not_tried

__all__ = ["not_tried", "plan"]
