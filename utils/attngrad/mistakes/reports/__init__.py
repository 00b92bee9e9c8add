"""Public reports of wrong values, and the mistakes that reproduce each of them.

Reports of crashes, of what is not supported and of wasted work are left out: they change no value.
"""

from attngrad.mistakes.reports.formulas import POSTS, SCORES, SOFTMAX
from attngrad.mistakes.reports.record import Report
from attngrad.mistakes.reports.sums import BIAS, POSITIONS, TAILS, TRAINING

__all__ = ["REPORTS", "Report", "reports_of"]

REPORTS = (*SOFTMAX, *POSTS, *SCORES, *BIAS, *TAILS, *POSITIONS, *TRAINING)


def reports_of(id: str) -> tuple[Report, ...]:
    """Return the public reports that a mistake reproduces.

    >>> [report.text for report in reports_of("alibi-vjp-zero")]
    ['Slopes are accepted as input and get no gradient.']
    """
    return tuple(report for report in REPORTS if id in report.mistakes)
