"""Contenders of "table-gradient": ways to add a table by offset to the scores, and two bounds.

Each takes q, k, v, the table and the cotangent of the output. What depends on the sizes alone, such as the
row of every pair, is made when it is built.
"""

import os
from typing import Any

from attngrad.bench.spec import Call, Tensors, Unavailable, compiled

INPUTS = ("q", "k", "v", "table")
ROWS, COLUMNS, PADDING = 256, 1024, 16  # of the tiles in which products are timed alone


def row_of_pairs(N: int, M: int) -> Any:
    """Return the row of query i and key j, j - i + max(N, M) - 1."""
    import torch

    return torch.arange(M) - torch.arange(N)[:, None] + max(N, M) - 1


def softmax_attention(q: Any, k: Any, v: Any, bias: Any) -> Any:
    """Return softmax(q k^T / sqrt(D) + bias) v, one operation at a time."""
    return (q @ k.mT * q.shape[-1] ** -0.5 + bias).softmax(dim=-1) @ v


def gather(q: Any, k: Any, v: Any, table: Any, row: Any) -> Any:
    """Return attention with the rows of all pairs taken by an index."""
    return softmax_attention(q, k, v, table[:, row])


def embedding(q: Any, k: Any, v: Any, table: Any, row: Any) -> Any:
    """Return attention with the rows of all pairs taken from an embedding, a table of offsets by heads."""
    from torch.nn.functional import embedding as looked_up

    return softmax_attention(q, k, v, looked_up(row, table.mT).permute(2, 0, 1))


def toeplitz(q: Any, k: Any, v: Any, table: Any, row: Any) -> Any:
    """Return attention with a window of the table for each query, which slides by one from query to query."""
    N, M = row.shape
    first = max(N, M) - N
    return softmax_attention(q, k, v, table[:, first : first + N + M - 1].unfold(1, M, 1).flip(1))


def sdpa(q: Any, k: Any, v: Any, table: Any, row: Any) -> Any:
    """Return torch's attention with the rows of all pairs as its mask."""
    from torch.nn.functional import scaled_dot_product_attention

    return scaled_dot_product_attention(q, k, v, table[:, row].unsqueeze(0))


def differentiated(attention: Any, leaves: list[Any], do: Any) -> Call:
    """Return a call of attention and of the backward pass that torch has for it."""
    import torch

    def call() -> Tensors:
        o = attention(*leaves)
        gradients = torch.autograd.grad(o, leaves, do)
        return {"o": o, **{f"d{name}": dx for name, dx in zip(INPUTS, gradients, strict=False)}}

    return call


def built(attention: Any, inputs: Tensors, fused: bool = False) -> Call:
    """Return a call of attention with the row of every pair at hand, compiled or not."""
    row = row_of_pairs(inputs["q"].shape[2], inputs["k"].shape[2]).to(inputs["q"].device)
    leaves = [inputs[name].detach().requires_grad_() for name in INPUTS]
    used = compiled(attention, *leaves, row) if fused else attention
    return differentiated(lambda *leaves: used(*leaves, row), leaves, inputs["do"])


def build_gather(inputs: Tensors) -> Call:
    """Index the table, as it is written first."""
    return built(gather, inputs)


def build_embedding(inputs: Tensors) -> Call:
    """Look rows up in an embedding, as T5 does."""
    return built(embedding, inputs)


def build_toeplitz(inputs: Tensors) -> Call:
    """View the table as a matrix with equal diagonals."""
    return built(toeplitz, inputs)


def build_sdpa(inputs: Tensors) -> Call:
    """Give the gathered bias to scaled_dot_product_attention."""
    return built(sdpa, inputs)


def build_compiled_gather(inputs: Tensors) -> Call:
    """Let torch.compile fuse the gather."""
    return built(gather, inputs, fused=True)


def build_compiled_embedding(inputs: Tensors) -> Call:
    """Let torch.compile fuse the embedding."""
    return built(embedding, inputs, fused=True)


def build_compiled_toeplitz(inputs: Tensors) -> Call:
    """Let torch.compile fuse the view."""
    return built(toeplitz, inputs, fused=True)


def build_compiled_sdpa(inputs: Tensors) -> Call:
    """Let torch.compile fuse what it can around scaled_dot_product_attention."""
    return built(sdpa, inputs, fused=True)


def jax_with_threads_of_torch() -> Any:
    """Return jax, started with one thread where torch has one: it counts the cores that it may use.

    Raises: Unavailable where it is not installed.
    """
    import torch

    try:
        import jax
    except ModuleNotFoundError as missing:
        raise Unavailable("jax is not installed") from missing
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    if allowed and torch.get_num_threads() == 1:
        os.sched_setaffinity(0, {min(allowed)})
    jax.devices()  # starts it
    if allowed:
        os.sched_setaffinity(0, allowed)
    return jax


def build_jax(inputs: Tensors) -> Call:
    """Let jax.jit compile the gather and its backward pass."""
    import torch

    jax = jax_with_threads_of_torch()
    row = row_of_pairs(inputs["q"].shape[2], inputs["k"].shape[2]).numpy()

    def attention(q: Any, k: Any, v: Any, table: Any) -> Any:
        s = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5 + table[:, row]
        return jax.nn.softmax(s, axis=-1) @ v

    @jax.jit
    def both(leaves: Any, do: Any) -> Any:
        o, pulled_back = jax.vjp(attention, *leaves)
        return o, *pulled_back(do)

    *leaves, do = (jax.numpy.array(inputs[name].numpy()) for name in (*INPUTS, "do"))
    names = "o", *(f"d{name}" for name in INPUTS)

    def call() -> Tensors:
        results = jax.block_until_ready(both(leaves, do))
        return {name: torch.from_dlpack(x) for name, x in zip(names, results, strict=True)}

    return call


def shared_bias(inputs: Tensors) -> Any:
    """Return the module of the library whose table is that of the inputs."""
    import torch

    from attngrad import layers

    H, R = inputs["table"].shape
    module = layers.RelativeBias(H, layers.OffsetMap((R + 1) // 2), dtype=inputs["table"].dtype)
    module.table = torch.nn.Parameter(inputs["table"].detach())
    return module


def _layer(inputs: Tensors, impl: str) -> Call:
    """Return a call of the library's attention, checks of its arguments included."""
    from attngrad import layers

    module = shared_bias(inputs)

    def attention(q: Any, k: Any, v: Any, table: Any) -> Any:
        return layers.attention(q, k, v, module, query_start=0, impl=impl)

    leaves = [*(inputs[name].detach().requires_grad_() for name in "qkv"), module.table]
    return differentiated(attention, leaves, inputs["do"])


def build_tiled(inputs: Tensors) -> Call:
    """Use the library's tiles in plain torch."""
    return _layer(inputs, "tiled")


def build_triton(inputs: Tensors) -> Call:
    """Use the library's kernels."""
    call = _layer(inputs, "triton")
    try:
        call()
    except ModuleNotFoundError as missing:
        raise Unavailable(str(missing)) from missing
    return call


def build_flex(inputs: Tensors) -> Call:
    """Add the table to the scores in FlexAttention, which has to be compiled."""
    from torch.nn.attention.flex_attention import flex_attention

    module = shared_bias(inputs)

    def attention(q: Any, k: Any, v: Any, table: Any) -> Any:
        last = max(q.shape[2], k.shape[2]) - 1
        return flex_attention(q, k, v, lambda score, b, h, i, j: score + table[h, j - i + last])

    leaves = [*(inputs[name].detach().requires_grad_() for name in "qkv"), module.table]
    return differentiated(compiled(attention, *leaves), leaves, inputs["do"])


def build_without_bias(inputs: Tensors) -> Call:
    """Leave the table out: torch's fastest attention, which does less than the work."""
    from torch.nn.functional import scaled_dot_product_attention

    leaves = [inputs[name].detach().requires_grad_() for name in "qkv"]
    return differentiated(scaled_dot_product_attention, leaves, inputs["do"])


def build_products(inputs: Tensors) -> Call:
    """Do the six products of attention in tiles, and nothing else: no bias, no exponential, no sum."""
    import torch

    q, k, v, do = (inputs[name].flatten(0, 1) for name in ("q", "k", "v", "do"))
    results = [torch.zeros_like(x) for x in (q, q, k, v)]
    tile = q.new_zeros(min(ROWS, q.shape[1]), min(COLUMNS, k.shape[1]) + PADDING)

    def call() -> Tensors:
        for q_h, k_h, v_h, do_h, *of_head in zip(q, k, v, do, *results, strict=True):
            for first in range(0, len(q_h), ROWS):
                rows = slice(first, first + ROWS)
                for start in range(0, len(k_h), COLUMNS):
                    keys = slice(start, start + COLUMNS)
                    multiply(tile, q_h[rows], k_h[keys], v_h[keys], do_h[rows], of_head, rows, keys)
        return {"o": results[0]}

    return call


def multiply(
    tile: Any, q: Any, k: Any, v: Any, do: Any, results: list[Any], rows: slice, keys: slice
) -> None:
    """Do the products of a tile: q k^T and p v, then p^T do, do v^T, ds k and ds^T q."""
    o, dq, dk, dv = results
    x = tile[: len(q), : len(k)]
    x.addmm_(q, k.mT, beta=0.0)
    o[rows].addmm_(x, v)
    dv[keys].addmm_(x.mT, do)
    x.addmm_(do, v.mT, beta=0.0)
    dq[rows].addmm_(x, k)
    dk[keys].addmm_(x.mT, q)
