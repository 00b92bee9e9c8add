"""Forward: one program for each block of queries of a head, which passes over the keys once."""

import triton
import triton.language as tl

from attngrad.kernels.tiles import dot, load_rows, scores, store_rows


@triton.jit
def forward(
    Q, K, V, O, LSE, DIAGONALS, MASK, SCALE, H, N, M, start,
    GROUP: tl.constexpr, D: tl.constexpr, D_V: tl.constexpr, CAUSAL: tl.constexpr, OF_KEYS: tl.constexpr,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, WIDTH_V: tl.constexpr,
):  # fmt: skip
    """Write o = softmax(s) v and lse, from a running maximum and sums over the keys so far."""
    blocks = tl.cdiv(N, BLOCK)
    head, block = tl.program_id(0) // blocks, tl.program_id(0) % blocks
    b, h = head // H, head % H
    i = block * BLOCK + tl.arange(0, BLOCK)
    q = load_rows(Q, b, h, i, N, D, WIDTH)  # (queries, D)
    scale = tl.load(SCALE)
    top = tl.full((BLOCK,), -float("inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    o = tl.zeros((BLOCK, WIDTH_V), tl.float32)
    for j0 in range(0, tl.minimum(M, (block + 1) * BLOCK + start), BLOCK):
        j = j0 + tl.arange(0, BLOCK)
        k = load_rows(K, b, h // GROUP, j, M, D, WIDTH)
        v = load_rows(V, b, h // GROUP, j, M, D_V, WIDTH_V)
        s = scores(
            scale * dot(q, tl.trans(k)), i[:, None], j[None, :], b, h,
            DIAGONALS, MASK, N, M, start, CAUSAL, OF_KEYS,
        )  # fmt: skip
        above = tl.maximum(top, tl.max(s, 1))
        shift = tl.where(above == -float("inf"), 0.0, above)  # no key so far: exp(-inf - 0) = 0
        p = tl.exp(s - shift[:, None])  # (queries, keys), not yet divided by their sum
        fade = tl.exp(top - shift)
        total = total * fade + tl.sum(p, 1)
        o = o * fade[:, None] + dot(p.to(v.dtype), v)
        top = above
    empty = total == 0.0
    total = tl.where(empty, 1.0, total)
    store_rows(O, o / total[:, None], b, h, i, N, D_V, WIDTH_V)
    lse = tl.where(empty, -float("inf"), top + tl.log(total))
    tl.store(LSE + head.to(tl.int64) * N + i, lse, mask=i < N)
