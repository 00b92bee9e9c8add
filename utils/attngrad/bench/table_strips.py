"""Attention with a table by offset on strips of queries: exact results, and those of the plain run.

A strip has some queries of one head, and all keys. Its rows of o and dq are those of the whole. Its dk, dv
and dtable are added to those of the other strips. So memory for pairs is that of one strip.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from attngrad import reference
from attngrad.bench.spec import Tensors
from attngrad.bench.table_contenders import INPUTS, gather

PAIRS = 2**20  # at a time
OUTPUTS = {"o": "forward", "dq": "backward", "dk": "backward", "dv": "backward", "dtable": "backward"}
LIKE = dict(zip(OUTPUTS, ("do", *INPUTS), strict=True))  # the input whose shape a result has

Attend = Callable[[Mapping[str, Any], np.ndarray], Mapping[str, Any]]


def over_strips(attend: Attend, inputs: Mapping[str, Any], results: dict[str, Any]) -> dict[str, Any]:
    """Write the rows of each strip into ``results``, and add to what all queries share.

    ``attend(inputs, row)`` returns the results for one head and the row (queries, M) of every pair. Arrays
    are those of NumPy or of torch; ``results`` are zeros.
    """
    (B, H, N, _), M = inputs["q"].shape, inputs["k"].shape[2]
    step = max(1, PAIRS // (B * M))
    for head in (slice(h, h + 1) for h in range(H)):
        for queries in (slice(start, start + step) for start in range(0, N, step)):
            row = np.arange(M) - np.arange(N)[queries, None] + max(N, M) - 1
            strip = {name: inputs[name][:, head, queries] for name in ("q", "do")}
            strip |= {name: inputs[name][:, head] for name in "kv"} | {"table": inputs["table"][head]}
            found = attend(strip, row)
            for name in ("o", "dq"):
                results[name][:, head, queries] = found[name]
            for name in ("dk", "dv"):
                results[name][:, head] += found[name]
            results["dtable"][head] += found["dtable"]
    return results


def exact(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the results of the reference, in float64."""
    zeros = {name: np.zeros_like(inputs[x]) for name, x in LIKE.items()}
    return over_strips(of_reference, inputs, zeros)


def of_reference(inputs: Mapping[str, np.ndarray], row: np.ndarray) -> dict[str, np.ndarray]:
    """Return the results of the reference for one strip."""
    table = inputs["table"]
    saved = reference.attention(*(inputs[name] for name in "qkv"), reference.table_bias(table, row))
    found = reference.attention_vjp(saved, inputs["do"])
    dtable = reference.table_bias_vjp(row, found.dbias, table.shape[1])
    return {"o": saved.o, "dq": found.dq, "dk": found.dk, "dv": found.dv, "dtable": dtable}


def plain_in_strips(inputs: Tensors) -> Tensors:
    """Return the results of the gather and of its backward pass, sums over strips in at least float32."""
    import torch

    dtype = inputs["q"].dtype
    kind = torch.promote_types(dtype, torch.float32)
    zeros = {name: torch.zeros_like(inputs[x], dtype=kind) for name, x in LIKE.items()}
    return {name: x.to(dtype) for name, x in over_strips(of_gather, inputs, zeros).items()}


def of_gather(inputs: Tensors, row: np.ndarray) -> Tensors:
    """Return the results of the gather for one strip."""
    import torch

    leaves = [inputs[name].detach().requires_grad_() for name in INPUTS]
    o = gather(*leaves, torch.from_numpy(row).to(inputs["q"].device))
    gradients = torch.autograd.grad(o, leaves, inputs["do"])
    return {"o": o.detach(), **{f"d{name}": dx for name, dx in zip(INPUTS, gradients, strict=True)}}
