"""Sums along the diagonals of the pairs, which are the cotangent of a bias by offset.

A tile of BLOCK queries and BLOCK keys touches 2 BLOCK - 1 diagonals: two blocks of them. Block e holds the
diagonals j - i = e BLOCK .. e BLOCK + BLOCK - 1, and a tile of query block r and key block c lies in the
blocks e = c - r and e - 1.
"""

import triton
import triton.language as tl


@triton.jit
def halves(ds, BLOCK: tl.constexpr):
    """Return the sums along the diagonals of a tile (keys, queries) in blocks e and e - 1, (BLOCK,) each.

    Row a is rotated until column x holds the entry a - b = x, or a - b = x - BLOCK where it came around.
    """
    a, x = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    turned = tl.gather(ds, (a - x) & (BLOCK - 1), 1)
    return tl.sum(tl.where(x <= a, turned, 0.0), 0), tl.sum(tl.where(x <= a, 0.0, turned), 0)


@triton.jit
def place(head, c, r, N, M, BLOCK: tl.constexpr):
    """Return which place belongs to key block c and diagonals of block c - r; 64 bits count all of them."""
    return (head.to(tl.int64) * tl.cdiv(M, BLOCK) + c) * (tl.cdiv(N, BLOCK) + 1) + r


@triton.jit
def put_block(sums, SUMS, head, h, c, r, N, M, ORDERED: tl.constexpr, BLOCK: tl.constexpr):
    """Put away what key block c adds to the diagonals of block c - r.

    ORDERED stores it in a place of its own, SUMS (B H, key blocks, query blocks + 1, BLOCK); otherwise it is
    added to SUMS (H, N + M - 1), in whatever order programs arrive.
    """
    x = tl.arange(0, BLOCK)
    if ORDERED:
        tl.store(SUMS + place(head, c, r, N, M, BLOCK) * BLOCK + x, sums)
    else:
        diagonal = (c - r) * BLOCK + x + N - 1
        there = (diagonal >= 0) & (diagonal < N + M - 1)
        tl.atomic_add(SUMS + h.to(tl.int64) * (N + M - 1) + diagonal, sums, mask=there, sem="relaxed")


@triton.jit
def first_block(c, N, start, BLOCK: tl.constexpr):
    """Return the first block of queries of which one may attend to a key of block c."""
    return tl.minimum(tl.maximum(c * BLOCK - start, 0) // BLOCK, tl.cdiv(N, BLOCK))


@triton.jit
def sum_blocks(SUMS, DDIAGONALS, B, H, N, M, start, BLOCK: tl.constexpr, CHUNK: tl.constexpr):
    """Add up what `put_block` stored, in a fixed order: one program for each block of diagonals of a head."""
    blocks, of_keys = tl.cdiv(N, BLOCK), tl.cdiv(M, BLOCK)
    h, e = tl.program_id(0) // (blocks + of_keys), tl.program_id(0) % (blocks + of_keys) - blocks
    x = tl.arange(0, BLOCK)
    sums = tl.zeros((CHUNK, BLOCK), tl.float32)
    for b in range(B):
        for c0 in range(tl.maximum(e, 0), tl.minimum(of_keys, e + blocks + 1), CHUNK):
            c = c0 + tl.arange(0, CHUNK)
            r = c - e
            stored = (c < of_keys) & (first_block(c, N, start, BLOCK) <= r) & (r <= blocks)
            at = SUMS + place(b * H + h, c, r, N, M, BLOCK)[:, None] * BLOCK + x[None, :]
            sums += tl.load(at, mask=stored[:, None], other=0.0)
    diagonal = e * BLOCK + x + N - 1
    there = (diagonal >= 0) & (diagonal < N + M - 1)
    tl.store(DDIAGONALS + h.to(tl.int64) * (N + M - 1) + diagonal, tl.sum(sums, 0), mask=there)
