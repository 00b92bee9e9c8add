"""The operator "table-gradient": attention with a table by offset, forward and backward.

Every contender gets q, k, v, a table with one row for each offset, and the cotangent of the output. It
returns the output and the four cotangents, that of the table included.

Two more do less than the work, to show what it costs at least: the products of matrices alone, which is the
limit of all that compute with matrices, and torch's attention without a bias.
"""

from dataclasses import replace
from typing import Any

from attngrad.bench.spec import DEVICES, Case, Contender, Operator, Sizes
from attngrad.bench.table_contenders import (
    build_compiled_embedding,
    build_compiled_gather,
    build_compiled_sdpa,
    build_compiled_toeplitz,
    build_embedding,
    build_flex,
    build_gather,
    build_jax,
    build_products,
    build_sdpa,
    build_tiled,
    build_toeplitz,
    build_triton,
    build_without_bias,
)
from attngrad.bench.table_strips import OUTPUTS, exact, plain_in_strips

LIMIT = "products alone"


def shapes(sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the inputs; the table has a row for each offset in the longer sequence."""
    B, H, N, M, D = (sizes[letter] for letter in "BHNMD")
    queries, keys = (B, H, N, D), (B, H, M, D)
    return {"q": queries, "k": keys, "v": keys, "table": (H, 2 * max(N, M) - 1), "do": queries}


def flops(sizes: Sizes) -> int:
    """Count the operations of the six products; what is done entry by entry is not counted.

    Formula: 12 B H N M D, as for "bias-gradient". Who computes the scores again does a sixth more, which
    does not count either.

    >>> flops({"B": 1, "H": 1, "N": 2, "M": 3, "D": 5})
    360
    """
    return 12 * sizes["B"] * sizes["H"] * sizes["N"] * sizes["M"] * sizes["D"]


def moved(sizes: Sizes) -> int:
    """Count the numbers that at least have to be moved, where no N x M matrix is stored.

    Formula: B H D (4 N + 4 M) + 2 H (2 max(N, M) - 1), for q, do, k, v and the table read, o, dq, dk, dv and
    dtable written.

    >>> moved({"B": 1, "H": 1, "N": 2, "M": 3, "D": 5})
    110
    """
    B, H, N, M, D = (sizes[letter] for letter in "BHNMD")
    return B * H * D * 4 * (N + M) + 2 * H * (2 * max(N, M) - 1)


def case_of(n: int, devices: tuple[str, ...] = ("cpu",), **more: Any) -> Case:
    """Return the case of eight heads of n queries and keys with 64 features."""
    return Case(str(n), {"B": 1, "H": 8, "N": n, "M": n, "D": 64}, devices=devices, **more)


def with_either_allocator(case: Case) -> tuple[Case, Case]:
    """Return a case, and the same on the CPU with the tuned allocator."""
    return case, replace(case, name=f"{case.name} tuned", devices=("cpu",), tuned=True)


# Who keeps an array with a number for each pair would need 8 GiB for each at 16384.
LONG = case_of(16384, rounds=5, contenders=("attngrad tiled", "SDPA without bias", LIMIT))
TABLE_GRADIENT = Operator(
    name="table-gradient",
    work="q, k, v, table, do -> o, dq, dk, dv, dtable",
    contenders=(
        Contender("eager gather", build_gather),
        Contender("eager embedding", build_embedding),
        Contender("Toeplitz view", build_toeplitz),
        Contender("SDPA, gathered mask", build_sdpa),
        Contender("attngrad tiled", build_tiled),
        Contender("attngrad triton", build_triton, devices=("cuda",)),
        Contender("compiled gather", build_compiled_gather, compiled=True),
        Contender("compiled embedding", build_compiled_embedding, compiled=True),
        Contender("compiled Toeplitz", build_compiled_toeplitz, compiled=True),
        Contender("compiled SDPA", build_compiled_sdpa, compiled=True),
        Contender("jax.jit gather", build_jax, devices=("cpu",), compiled=True),
        Contender("FlexAttention", build_flex, devices=("cuda",), compiled=True),
        Contender("SDPA without bias", build_without_bias, bound=True),
        Contender(LIMIT, build_products, devices=("cpu",), bound=True),
    ),
    # Five programs are compiled for each case, so there are two on a GPU.
    cases=(
        *with_either_allocator(case_of(256)),
        *with_either_allocator(case_of(512)),
        *with_either_allocator(case_of(1024, DEVICES)),
        *with_either_allocator(case_of(2048, rounds=5)),
        *with_either_allocator(case_of(4096, DEVICES, rounds=5)),
        LONG,
    ),
    quick={"cpu": "256", "cuda": "1024"},
    outputs=OUTPUTS,
    shapes=shapes,
    exact=exact,
    flops=flops,
    moved=moved,
    plain_in_strips=plain_in_strips,
    limit=LIMIT,
)
