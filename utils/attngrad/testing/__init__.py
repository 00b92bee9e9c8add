"""For tests of other people's code: an attention that must be healthy, and the table of a whole model."""

from attngrad.testing.healthy import assert_healthy
from attngrad.testing.table import check_table
from attngrad.testing.table_report import TableFinding, TableReport

__all__ = ["TableFinding", "TableReport", "assert_healthy", "check_table"]
