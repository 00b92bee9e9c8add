"""Attention as kernels of Triton, whose table gradient never holds more than a tile of the pairs.

One production kernel set, behind `attention`, and one to read first: `diagonal_sums`.

Kernels run on CUDA devices. Where TRITON_INTERPRET=1 is set before this module is imported, Triton's
interpreter runs them on a CPU, slowly and one program after the other: it shows that indices and arithmetic
are right, not that programs do not disturb each other.
"""

try:
    import torch  # noqa: F401
    import triton  # noqa: F401
except ModuleNotFoundError as missing:
    told = f"attngrad.kernels needs {missing.name}, which the extra attngrad[triton] brings"
    raise ModuleNotFoundError(told) from missing

from attngrad.kernels.attention import attention
from attngrad.kernels.diagonal_sums import diagonal_sums

__all__ = ["attention", "diagonal_sums"]
