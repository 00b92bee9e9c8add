"""What to watch while a model trains: exact numbers in the place of rules of thumb.

`gradient_norm` knows what the loss is summed over. `update_ratio` measures what a step of any optimizer did.
`sparsity` tells zeros from small entries, and `table_rows` rows that were never looked up from both.
`first_non_finite` names the module in which the first NaN or infinity of a run was made.
"""

try:
    import torch  # noqa: F401
except ModuleNotFoundError as missing:
    told = "attngrad.monitor needs torch, which the extra attngrad[torch] brings"
    raise ModuleNotFoundError(told) from missing

from attngrad.monitor.norms import GradientNorm, Size, gradient_norm
from attngrad.monitor.record import NonFinite, non_finite
from attngrad.monitor.sparsity import Sparsity, TableRows, sparsity, table_rows
from attngrad.monitor.updates import Update, UpdateRatio, update_ratio
from attngrad.monitor.watching import FirstNonFinite, first_non_finite

__all__ = [
    "FirstNonFinite",
    "GradientNorm",
    "NonFinite",
    "Size",
    "Sparsity",
    "TableRows",
    "Update",
    "UpdateRatio",
    "first_non_finite",
    "gradient_norm",
    "non_finite",
    "sparsity",
    "table_rows",
    "update_ratio",
]
