"""Small scores, and those near the largest float: which base serves for them, and which are refused."""

import math

import torch

from attngrad.notation import RangeError, first_index
from attngrad.tiled.geometry import ROWS, length, parts
from attngrad.tiled.scores import LOG2_E, TWO, UNSHIFTED, Base, E, Inputs, Options, four_axes

Tensor = torch.Tensor

# Scores of at most 32 give powers of two between 2^-32 and 2^32. Times values of at most 2^60, 2^34 of them
# have a sum in the range of float32, and values of about 2^-60 are not lost.
SMALL, MODERATE = 32.0, 2.0**60


def base_for(inputs: Inputs, options: Options) -> Base:
    """Return base 2 where a bound on all scores shows that they fit, else base e after a look at each.

    Where the bound is small and values are not extreme, no score has to be shifted.

    Raises: RangeError for a score beyond the range of floats.
    """
    bound = _longest(inputs.q) * _longest(inputs.k) * abs(float(inputs.scale))
    bound += sum(_size(x) for x in (inputs.diagonals, inputs.bias, inputs.sink) if x is not None)
    if bound * LOG2_E <= SMALL:
        of_values = float(torch.linalg.vector_norm(inputs.v, dtype=inputs.scale.dtype))
        return UNSHIFTED if 1.0 / MODERATE <= of_values <= MODERATE else TWO
    if bound * LOG2_E < torch.finfo(inputs.scale.dtype).max / 4:
        return TWO
    _refuse_overflow(inputs, options)
    return E


def _longest(x: Tensor) -> float:
    """Return a bound on the norms of vectors (..., D), whose squares may be too small for floats."""
    if x.numel() == 0:
        return 0.0
    norms = torch.linalg.vector_norm(x, dim=-1, dtype=torch.promote_types(x.dtype, torch.float32))
    return float(norms.amax()) + math.sqrt(x.shape[-1] * torch.finfo(norms.dtype).tiny)


def _size(x: Tensor) -> float:
    """Return the largest absolute entry; minus infinity, which hides a key, does not count."""
    if x.numel() == 0:
        return 0.0
    low, high = float(x.amin()), float(x.amax())
    if low == -torch.inf:
        x = x.masked_fill(x.isneginf(), 0.0)
        low, high = float(x.amin()), float(x.amax())
    return max(-low, high)


def _refuse_overflow(inputs: Inputs, options: Options) -> None:
    """Raise a RangeError for the first score that is beyond the range of floats."""
    q, k, scale = inputs.q, inputs.k, inputs.scale
    (B, H, N, _), M, group = q.shape, k.shape[2], q.shape[1] // k.shape[1]
    for b, h in ((b, h) for b in range(B) for h in range(H)):
        for queries in parts(0, N, ROWS):
            x = scale * q[b, h, queries].to(scale.dtype) @ k[b, h // group].to(scale.dtype).mT
            bias, allowed = _bias_and_allowed(inputs, options, (b, h, queries), (N, M))
            for name, values in (("scale q.k", x), ("scores", _capped(x, options.product_cap) + bias)):
                wrong = allowed & ~values.isfinite()
                if wrong.any():
                    i, j = first_index(wrong)
                    told = f"expected numbers within the range of floats, got {values[i, j].item()}"
                    raise RangeError(f"{name}: {told} at index {(b, h, queries.start + i, j)}")


def _capped(x: Tensor, cap: float | None) -> Tensor:
    """Return cap tanh(x / cap), or x without a cap."""
    return x if cap is None else cap * (x / cap).tanh()


def _bias_and_allowed(
    inputs: Inputs, options: Options, at: tuple[int, int, slice], sizes: tuple[int, int]
) -> tuple[Tensor, Tensor]:
    """Return the bias of some queries of a head, 0 where a key is hidden, and where one is not."""
    (b, h, queries), (N, M), device = at, sizes, inputs.q.device
    offset = torch.arange(M, device=device) - torch.arange(N, device=device)[queries, None]
    allowed = torch.ones_like(offset, dtype=torch.bool)
    if options.query_start is not None:
        allowed &= offset <= options.query_start
    if inputs.mask is not None:
        allowed &= _of_queries(inputs.mask, b, h, queries, M)
    bias = inputs.scale.new_zeros(length(queries), M)
    if inputs.diagonals is not None:
        bias += inputs.diagonals[h if len(inputs.diagonals) > 1 else 0, offset + N - 1]
    if inputs.bias is not None:
        bias += _of_queries(inputs.bias, b, h, queries, M)
    allowed &= bias != -torch.inf
    return bias.masked_fill(~allowed, 0.0), allowed


def _of_queries(x: Tensor, b: int, h: int, queries: slice, M: int) -> Tensor:
    """Return what x, which broadcasts to (B, H, N, M), holds for some queries of a head."""
    x = four_axes(x)
    part = x[b if len(x) > 1 else 0, h if x.shape[1] > 1 else 0]
    return (part[queries] if len(part) > 1 else part).expand(length(queries), M)
