"""The operator "softmax-vjp": softmax and its backward pass.

The work is both passes, since that is what a training step pays. Every contender gets the logits s and the
cotangent dp, and returns the weights p and the cotangent ds.
"""

from typing import Any

import numpy as np

from attngrad import reference
from attngrad.bench.spec import Call, Case, Contender, Operator, Sizes, Tensors, compiled


def closed_form(s: Any, dp: Any) -> tuple[Any, Any]:
    """Return p and ds = p (dp - sum p dp), in plain torch."""
    p = s.softmax(dim=-1)
    return p, p * (dp - (p * dp).sum(dim=-1, keepdim=True))


def build_autograd(inputs: Tensors) -> Call:
    """Leave the backward pass to torch, which has one kernel for it."""
    import torch

    s, dp = inputs["s"].detach().requires_grad_(), inputs["dp"]

    def call() -> Tensors:
        p = s.softmax(dim=-1)
        (ds,) = torch.autograd.grad(p, s, dp)
        return {"p": p, "ds": ds}

    return call


def build_closed(inputs: Tensors) -> Call:
    """Do the formula one operation at a time; no graph is recorded."""

    def call() -> Tensors:
        p, ds = closed_form(inputs["s"], inputs["dp"])
        return {"p": p, "ds": ds}

    return call


def build_layers(inputs: Tensors) -> Call:
    """Use the library's layer: masks and checked values included."""
    import torch

    from attngrad import layers

    s, dp = inputs["s"].detach().requires_grad_(), inputs["dp"]

    def call() -> Tensors:
        p = layers.softmax(s)
        (ds,) = torch.autograd.grad(p, s, dp)
        return {"p": p, "ds": ds}

    return call


def build_compiled(inputs: Tensors) -> Call:
    """Let torch.compile fuse the formula."""
    fast = compiled(closed_form, inputs["s"], inputs["dp"])

    def call() -> Tensors:
        p, ds = fast(inputs["s"], inputs["dp"])
        return {"p": p, "ds": ds}

    return call


def shapes(sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the inputs."""
    shape = (sizes["B"], sizes["H"], sizes["N"], sizes["M"])
    return {"s": shape, "dp": shape}


def exact(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the results of the reference, in float64."""
    p = reference.softmax(inputs["s"])
    return {"p": p, "ds": reference.softmax_vjp(p, inputs["dp"])}


def flops(sizes: Sizes) -> int:
    """Count the operations of one pass in each direction.

    Formula: 9 B H N M. For each score: compare, subtract, exponentiate, add and divide in the forward pass;
    multiply, add, subtract and multiply in the backward pass.

    >>> flops({"B": 1, "H": 1, "N": 2, "M": 3})
    54
    """
    return 9 * sizes["B"] * sizes["H"] * sizes["N"] * sizes["M"]


def moved(sizes: Sizes) -> int:
    """Count the numbers that at least have to be moved.

    Formula: 4 B H N M, for s and dp read, p and ds written.

    >>> moved({"B": 1, "H": 1, "N": 2, "M": 3})
    24
    """
    return 4 * sizes["B"] * sizes["H"] * sizes["N"] * sizes["M"]


def _case(n: int, devices: tuple[str, ...] = ("cpu", "cuda")) -> Case:
    """Return eight heads of n queries and n keys."""
    return Case(str(n), {"B": 1, "H": 8, "N": n, "M": n}, devices=devices)


SOFTMAX_VJP = Operator(
    name="softmax-vjp",
    work="s, dp -> p, ds",
    contenders=(
        Contender("autograd", build_autograd),
        Contender("closed form", build_closed),
        Contender("attngrad.layers", build_layers),
        Contender("torch.compile", build_compiled, compiled=True),
    ),
    cases=(_case(256), _case(1024), _case(4096, devices=("cuda",))),
    quick={"cpu": "256", "cuda": "1024"},
    outputs={"p": "forward", "ds": "backward"},
    shapes=shapes,
    exact=exact,
    flops=flops,
    moved=moved,
)
