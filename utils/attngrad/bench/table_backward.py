"""The operator "table-backward": the backward pass of attention with a table by offset, alone.

The forward pass is done once, when a contender is built, and what it keeps serves every call. Each program
comes twice: with a table that is trained, and with one that is fixed, whose gradient nobody computes. The
second does the same and less, so the time that it saves is the table's share of the backward pass.
"""

from typing import Any

import numpy as np

from attngrad.bench import table_strips
from attngrad.bench.spec import Call, Case, Contender, Operator, Sizes, Tensors, Unavailable
from attngrad.bench.table_contenders import INPUTS, gather, row_of_pairs, shared_bias
from attngrad.bench.table_gradient import case_of, shapes, with_either_allocator

FIXED = INPUTS[:3]  # what is trained where the table is fixed


def _backward(o: Any, leaves: list[Any], do: Any) -> Call:
    """Return a call of the backward pass from o to the leaves, which may be called again."""
    import torch

    def call() -> Tensors:
        gradients = torch.autograd.grad(o, leaves, do, retain_graph=True)
        return {f"d{name}": dx for name, dx in zip(INPUTS, gradients, strict=False)}

    return call


def _eager(inputs: Tensors, trained: tuple[str, ...]) -> Call:
    """Return the backward pass of the gather."""
    leaves = {name: inputs[name].detach().requires_grad_(name in trained) for name in INPUTS}
    row = row_of_pairs(inputs["q"].shape[2], inputs["k"].shape[2]).to(inputs["q"].device)
    o = gather(*leaves.values(), row)
    return _backward(o, [leaves[name] for name in trained], inputs["do"])


def _layer(inputs: Tensors, impl: str, trained: tuple[str, ...]) -> Call:
    """Return the backward pass of the library's attention."""
    from attngrad import layers

    module = shared_bias(inputs).requires_grad_("table" in trained)
    leaves = {name: inputs[name].detach().requires_grad_() for name in "qkv"} | {"table": module.table}
    o = layers.attention(*(leaves[name] for name in "qkv"), module, query_start=0, impl=impl)
    return _backward(o, [leaves[name] for name in trained], inputs["do"])


def _kernels(inputs: Tensors, trained: tuple[str, ...]) -> Call:
    """Return the backward pass of the library's kernels."""
    try:
        return _layer(inputs, "triton", trained)
    except ModuleNotFoundError as missing:
        raise Unavailable(str(missing)) from missing


def build_eager(inputs: Tensors) -> Call:
    """Go back through the gather, as torch does it."""
    return _eager(inputs, INPUTS)


def build_eager_fixed(inputs: Tensors) -> Call:
    """Go back through the gather, not to the table."""
    return _eager(inputs, FIXED)


def build_tiled(inputs: Tensors) -> Call:
    """Go back through the library's tiles."""
    return _layer(inputs, "tiled", INPUTS)


def build_tiled_fixed(inputs: Tensors) -> Call:
    """Go back through the library's tiles, not to the table."""
    return _layer(inputs, "tiled", FIXED)


def build_triton(inputs: Tensors) -> Call:
    """Go back through the library's kernels."""
    return _kernels(inputs, INPUTS)


def build_triton_fixed(inputs: Tensors) -> Call:
    """Go back through the library's kernels, not to the table."""
    return _kernels(inputs, FIXED)


def exact(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the results of the reference, in float64."""
    found = table_strips.exact(inputs)
    return {name: found[name] for name in OUTPUTS}


def flops(sizes: Sizes) -> int:
    """Count the operations of the four products of a backward pass.

    Formula: 8 B H N M D, for p^T do, do v^T, ds k and ds^T q. The scores that tiles compute again and the
    sums of the table do not count.

    >>> flops({"B": 1, "H": 1, "N": 2, "M": 3, "D": 5})
    240
    """
    return 8 * sizes["B"] * sizes["H"] * sizes["N"] * sizes["M"] * sizes["D"]


def moved(sizes: Sizes) -> int:
    """Count the numbers that at least have to be moved; what the forward pass keeps is not counted.

    Formula: B H D (3 N + 4 M) + 2 H (2 max(N, M) - 1), for q, do, k, v and the table read, dq, dk, dv and
    dtable written.

    >>> moved({"B": 1, "H": 1, "N": 2, "M": 3, "D": 5})
    100
    """
    B, H, N, M, D = (sizes[letter] for letter in "BHNMD")
    return B * H * D * (3 * N + 4 * M) + 2 * H * (2 * max(N, M) - 1)


def _on_cpu(n: int) -> tuple[Case, Case]:
    """Return the cases of n tokens with either allocator, sampled longer than usual and more often.

    Shares of a few percent have to be told apart from noise.
    """
    return with_either_allocator(case_of(n, rounds=31, sample_s=0.2))


OUTPUTS = {name: kind for name, kind in table_strips.OUTPUTS.items() if kind == "backward"}
TABLE_BACKWARD = Operator(
    name="table-backward",
    work="do -> dq, dk, dv, dtable",
    contenders=(
        Contender("eager gather", build_eager),
        Contender("eager, fixed table", build_eager_fixed, bound=True, part_of="eager gather"),
        Contender("attngrad tiled", build_tiled),
        Contender("tiled, fixed table", build_tiled_fixed, bound=True, part_of="attngrad tiled"),
        Contender("attngrad triton", build_triton, devices=("cuda",)),
        Contender(
            "triton, fixed table",
            build_triton_fixed,
            devices=("cuda",),
            bound=True,
            part_of="attngrad triton",
        ),
    ),
    cases=(
        *_on_cpu(512),
        *_on_cpu(1024),
        *_on_cpu(2048),
        *(case_of(n, ("cuda",)) for n in (1024, 4096)),
    ),
    quick={"cpu": "512", "cuda": "1024"},
    outputs=OUTPUTS,
    shapes=shapes,
    exact=exact,
    flops=flops,
    moved=moved,
)
