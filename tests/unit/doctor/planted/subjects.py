"""All planted subjects: importing the modules fills the list."""

from . import (  # noqa: F401
    healthy,
    sick_backward,
    sick_masks,
    sick_options,
    sick_scores,
    sick_sums,
    sick_tails,
    unknown,
)
from .record import PLANTED, Planted

__all__ = ["PLANTED", "Planted"]
