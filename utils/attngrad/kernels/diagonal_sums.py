"""The sums along the diagonals of a matrix in the smallest kernel that has them."""

import torch
import triton
import triton.language as tl

from attngrad.kernels.arguments import float_tensor, known_type, on_device
from attngrad.notation import Float, ShapeError

BLOCK = 32


@triton.jit
def add_up(X, SUMS, H, N, M, BLOCK: tl.constexpr):
    """Write the sums along BLOCK diagonals of one matrix, walking down its rows."""
    blocks = tl.cdiv(N + M - 1, BLOCK)
    h = (tl.program_id(0) // blocks).to(tl.int64)
    diagonal = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
    sums = tl.zeros((BLOCK, BLOCK), tl.float32)
    for i0 in range(0, N, BLOCK):
        i = i0 + tl.arange(0, BLOCK)[:, None]
        j = diagonal[None, :] - (N - 1) + i  # one row lower, the same diagonals lie one column to the right
        there = (i < N) & (0 <= j) & (j < M)
        sums += tl.load(X + (h * N + i) * M + j, mask=there, other=0.0)
    tl.store(SUMS + h * (N + M - 1) + diagonal, tl.sum(sums, 0), mask=diagonal < N + M - 1)


def diagonal_sums(x: Float[torch.Tensor, "H N M"]) -> Float[torch.Tensor, "H offsets"]:
    """Return the sum along each diagonal of each matrix in float32: ds gives the cotangent of `attention`.

    Formula: sums[h, d] = sum of x[h, i, j] over pairs with j - i + N - 1 = d, for d = 0 .. N + M - 2. Each
    program owns some diagonals and adds in a fixed order. The sums are not differentiable.

    Raises: DtypeError or ShapeError for what is no tensor of floats of three axes and at least one pair.
    """
    x = known_type("x", on_device("x", float_tensor("x", x))).detach()
    if x.ndim != 3 or 0 in x.shape:
        raise ShapeError(f"x: expected three axes (H, N, M), none of them empty, got shape {tuple(x.shape)}")
    H, N, M = x.shape
    sums = x.new_empty(H, N + M - 1, dtype=torch.float32)
    with torch.cuda.device_of(x):
        add_up[H * triton.cdiv(N + M - 1, BLOCK),](x.contiguous(), sums, H, N, M, BLOCK)
    return sums
