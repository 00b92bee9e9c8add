"""Backward: the weights again from lse, then ds = p (dp - delta), once by blocks of keys, once by queries.

Each gradient is added up by one program in a fixed order.
"""

import triton
import triton.language as tl

from attngrad.kernels.diagonals import first_block, halves, put_block
from attngrad.kernels.tiles import dot, load_rows, pointers, scores, store_rows


@triton.jit
def by_rows(
    O, LSE, DO, DLSE, DELTA, SHIFT, H, N, D_V: tl.constexpr, BLOCK: tl.constexpr, WIDTH_V: tl.constexpr
):  # fmt: skip
    """Write delta = do.o - dlse, and lse or, for a query without a key, the infinity that gives no weight."""
    blocks = tl.cdiv(N, BLOCK)
    head, block = tl.program_id(0) // blocks, tl.program_id(0) % blocks
    b, h = head // H, head % H
    i = block * BLOCK + tl.arange(0, BLOCK)
    at = head.to(tl.int64) * N + i
    o = load_rows(O, b, h, i, N, D_V, WIDTH_V).to(tl.float32)
    do = load_rows(DO, b, h, i, N, D_V, WIDTH_V).to(tl.float32)
    dlse = tl.load(pointers(DLSE, b, h, i, tl.zeros_like(i)), mask=i < N, other=0.0)
    lse = tl.load(LSE + at, mask=i < N, other=0.0)
    empty = lse == -float("inf")
    tl.store(DELTA + at, tl.where(empty, 0.0, tl.sum(do * o, 1) - dlse), mask=i < N)
    tl.store(SHIFT + at, tl.where(empty, float("inf"), lse), mask=i < N)


@triton.jit
def by_keys(
    Q, K, V, DO, SHIFT, DELTA, DIAGONALS, MASK, SCALE, DK, DV, SUMS, H, N, M, start,
    GROUP: tl.constexpr, D: tl.constexpr, D_V: tl.constexpr, CAUSAL: tl.constexpr, OF_KEYS: tl.constexpr,
    ORDERED: tl.constexpr, BLOCK: tl.constexpr, WIDTH: tl.constexpr, WIDTH_V: tl.constexpr,
):  # fmt: skip
    """Write dk = scale ds^T q, dv = p^T do and the sums of ds along diagonals, each where it is not None.

    One program for each block of keys of a head of keys; it passes over the queries of all heads of a group.
    """
    of_keys, blocks = tl.cdiv(M, BLOCK), tl.cdiv(N, BLOCK)
    c, b = tl.program_id(0) % of_keys, tl.program_id(0) // of_keys // (H // GROUP)
    h_kv = tl.program_id(0) // of_keys % (H // GROUP)
    j = c * BLOCK + tl.arange(0, BLOCK)
    k = load_rows(K, b, h_kv, j, M, D, WIDTH)  # (keys, D)
    v = load_rows(V, b, h_kv, j, M, D_V, WIDTH_V)
    scale = tl.load(SCALE)
    dk = tl.zeros((BLOCK, WIDTH), tl.float32)
    dv = tl.zeros((BLOCK, WIDTH_V), tl.float32)
    for g in range(GROUP):
        h = h_kv * GROUP + g
        head = (b * H + h).to(tl.int64)
        carry = tl.zeros((BLOCK,), tl.float32)
        for r in range(first_block(c, N, start, BLOCK), blocks):
            i = r * BLOCK + tl.arange(0, BLOCK)
            q = load_rows(Q, b, h, i, N, D, WIDTH)
            do = load_rows(DO, b, h, i, N, D_V, WIDTH_V)
            shift = tl.load(SHIFT + head * N + i, mask=i < N, other=float("inf"))
            s = scores(
                scale * dot(k, tl.trans(q)), i[None, :], j[:, None], b, h,
                DIAGONALS, MASK, N, M, start, CAUSAL, OF_KEYS,
            )  # fmt: skip
            p = tl.exp(s - shift[None, :])  # (keys, queries)
            if DV is not None:
                dv += dot(p.to(do.dtype), do)
            if DK is not None or SUMS is not None:
                delta = tl.load(DELTA + head * N + i, mask=i < N, other=0.0)
                ds = p * (dot(v, tl.trans(do)) - delta[None, :])
                if DK is not None:
                    dk += dot(ds.to(q.dtype), q)
                if SUMS is not None:
                    upper, lower = halves(ds, BLOCK)
                    put_block(carry + upper, SUMS, head, h, c, r, N, M, ORDERED, BLOCK)
                    carry = lower  # the next tile adds its upper half to these diagonals
        if SUMS is not None:
            put_block(carry, SUMS, head, h, c, blocks, N, M, ORDERED, BLOCK)
    if DK is not None:
        store_rows(DK, scale * dk, b, h_kv, j, M, D, WIDTH)
    if DV is not None:
        store_rows(DV, dv, b, h_kv, j, M, D_V, WIDTH_V)


@triton.jit
def by_queries(
    Q, K, V, DO, SHIFT, DELTA, DIAGONALS, MASK, SCALE, DQ, DSCALE, H, N, M, start,
    GROUP: tl.constexpr, D: tl.constexpr, D_V: tl.constexpr, CAUSAL: tl.constexpr, OF_KEYS: tl.constexpr,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, WIDTH_V: tl.constexpr,
):  # fmt: skip
    """Write dq = scale ds k, and what each query adds to the cotangent of the scale, q.(ds k)."""
    blocks = tl.cdiv(N, BLOCK)
    head, block = tl.program_id(0) // blocks, tl.program_id(0) % blocks
    b, h = head // H, head % H
    i = block * BLOCK + tl.arange(0, BLOCK)
    at = head.to(tl.int64) * N + i
    q = load_rows(Q, b, h, i, N, D, WIDTH)  # (queries, D)
    do = load_rows(DO, b, h, i, N, D_V, WIDTH_V)
    shift = tl.load(SHIFT + at, mask=i < N, other=float("inf"))
    delta = tl.load(DELTA + at, mask=i < N, other=0.0)
    scale = tl.load(SCALE)
    along = tl.zeros((BLOCK, WIDTH), tl.float32)
    for j0 in range(0, tl.minimum(M, (block + 1) * BLOCK + start), BLOCK):
        j = j0 + tl.arange(0, BLOCK)
        k = load_rows(K, b, h // GROUP, j, M, D, WIDTH)
        v = load_rows(V, b, h // GROUP, j, M, D_V, WIDTH_V)
        s = scores(
            scale * dot(q, tl.trans(k)), i[:, None], j[None, :], b, h,
            DIAGONALS, MASK, N, M, start, CAUSAL, OF_KEYS,
        )  # fmt: skip
        p = tl.exp(s - shift[:, None])  # (queries, keys)
        ds = p * (dot(do, tl.trans(v)) - delta[:, None])
        along += dot(ds.to(k.dtype), k)
    if DQ is not None:
        store_rows(DQ, scale * along, b, h, i, N, D, WIDTH)
    if DSCALE is not None:
        tl.store(DSCALE + at, tl.sum(q.to(tl.float32) * along, 1), mask=i < N)
