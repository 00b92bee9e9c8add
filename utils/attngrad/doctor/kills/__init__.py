"""The kill table: which check rejects which wrong attention, found by running each check on each of them.

>>> kills = table(ids=("attention-dq-unscaled",), checks=("zero-sum", "balance"))
>>> kills.killed("zero-sum", "attention-dq-unscaled"), kills.killed("balance", "attention-dq-unscaled")
(False, True)
"""

from attngrad.doctor.kills import formula, laws, naive  # noqa: F401  each module records its checks
from attngrad.doctor.kills.record import CHECKS, Check
from attngrad.doctor.kills.table import SUBJECTS, Kills, table

__all__ = ["CHECKS", "SUBJECTS", "Check", "Kills", "table"]
