"""The operator "bias-gradient": attention with a trainable bias, forward and backward.

Every contender gets q, k, v, the bias and the cotangent of the output, and returns the output and all four
cotangents. The bias has one number for each head, query and key, shared by the batch.
"""

from typing import Any

import numpy as np

from attngrad import reference
from attngrad.bench.spec import Call, Case, Contender, Operator, Sizes, Tensors, Unavailable, compiled

INPUTS = ("q", "k", "v", "bias")
NO_KERNEL = ("No available kernel", "No viable backend")  # how torch's errors begin, on CUDA and on the CPU


def plain_attention(q: Any, k: Any, v: Any, bias: Any) -> Any:
    """Return softmax(q k^T / sqrt(D) + bias) v, one operation at a time."""
    s = q @ k.mT * q.shape[-1] ** -0.5 + bias
    return s.softmax(dim=-1) @ v


def closed_form(q: Any, k: Any, v: Any, bias: Any, do: Any) -> tuple[Any, ...]:
    """Return the output and the cotangents of q, k, v and the bias, by their formulas."""
    scale = q.shape[-1] ** -0.5
    p = (q @ k.mT * scale + bias).softmax(dim=-1)
    o = p @ v
    delta = (do * o).sum(dim=-1, keepdim=True)
    ds = p * (do @ v.mT - delta)
    return o, scale * (ds @ k), scale * (ds.mT @ q), p.mT @ do, ds.sum_to_size(bias.shape)


def _differentiated(attention: Any, inputs: Tensors) -> Call:
    """Return a call of attention whose backward pass is torch's."""
    import torch

    leaves = [inputs[name].detach().requires_grad_() for name in INPUTS]

    def call() -> Tensors:
        o = attention(*leaves)
        gradients = torch.autograd.grad(o, leaves, inputs["do"])
        return {"o": o, **{f"d{name}": dx for name, dx in zip(INPUTS, gradients, strict=True)}}

    return call


def build_autograd(inputs: Tensors) -> Call:
    """Write attention as it stands in the book and let torch differentiate it."""
    return _differentiated(plain_attention, inputs)


def build_closed(inputs: Tensors) -> Call:
    """Compute the formulas; no graph is recorded."""

    def call() -> Tensors:
        o, dq, dk, dv, dbias = closed_form(*(inputs[name] for name in INPUTS), inputs["do"])
        return {"o": o, "dq": dq, "dk": dk, "dv": dv, "dbias": dbias}

    return call


def _sdpa(q: Any, k: Any, v: Any, bias: Any) -> Any:
    """Return torch's attention; its fused kernels refuse a mask of three axes."""
    from torch.nn.functional import scaled_dot_product_attention

    return scaled_dot_product_attention(q, k, v, bias.unsqueeze(0))


def build_sdpa(inputs: Tensors) -> Call:
    """Give the bias to scaled_dot_product_attention as its mask; torch chooses the kernel."""
    return _differentiated(_sdpa, inputs)


def build_sdpa_efficient(inputs: Tensors) -> Call:
    """Force the memory-efficient kernel, the one of torch's fused kernels that returns a bias gradient."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def attention(q: Any, k: Any, v: Any, bias: Any) -> Any:
        with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
            return _sdpa(q, k, v, bias)

    call = _differentiated(attention, inputs)
    try:
        call()
    except RuntimeError as error:
        if str(error).startswith(NO_KERNEL):
            raise Unavailable("torch has no such kernel for these inputs") from error
        raise
    return call


def build_layers(inputs: Tensors) -> Call:
    """Use the library's layer: masks and checked values included."""
    from attngrad import layers

    def attention(q: Any, k: Any, v: Any, bias: Any) -> Any:
        return layers.attention(q, k, v, bias)

    return _differentiated(attention, inputs)


def build_compiled(inputs: Tensors) -> Call:
    """Let torch.compile fuse plain attention and its backward pass."""
    leaves = [inputs[name].detach().requires_grad_() for name in INPUTS]
    return _differentiated(compiled(plain_attention, *leaves), inputs)


def shapes(sizes: Sizes) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the inputs."""
    B, H, N, M, D = (sizes[letter] for letter in "BHNMD")
    queries, keys = (B, H, N, D), (B, H, M, D)
    return {"q": queries, "k": keys, "v": keys, "bias": (H, N, M), "do": queries}


def exact(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the results of the reference, in float64."""
    saved = reference.attention(*(inputs[name] for name in INPUTS))
    gradients = reference.attention_vjp(saved, inputs["do"])
    return {"o": saved.o, **{f"d{name}": getattr(gradients, f"d{name}") for name in INPUTS}}


def flops(sizes: Sizes) -> int:
    """Count the operations of the six matrix products; what is done entry by entry is not counted.

    Formula: 12 B H N M D, which is 2 B H N M D for each of q k^T and p v in the forward pass, do v^T, p^T do,
    ds k and ds^T q in the backward pass.

    >>> flops({"B": 1, "H": 1, "N": 2, "M": 3, "D": 5})
    360
    """
    return 12 * sizes["B"] * sizes["H"] * sizes["N"] * sizes["M"] * sizes["D"]


def moved(sizes: Sizes) -> int:
    """Count the numbers that at least have to be moved, where no N x M matrix but the bias is stored.

    Formula: B H D (4 N + 4 M) + 2 H N M, for q, do, k, v and the bias read, o, dq, dk, dv and dbias written.

    >>> moved({"B": 1, "H": 1, "N": 2, "M": 3, "D": 5})
    112
    """
    B, H, N, M, D = (sizes[letter] for letter in "BHNMD")
    return B * H * D * 4 * (N + M) + 2 * H * N * M


def _case(n: int, devices: tuple[str, ...] = ("cpu", "cuda")) -> Case:
    """Return eight heads of n queries and n keys with 64 features."""
    return Case(str(n), {"B": 1, "H": 8, "N": n, "M": n, "D": 64}, devices=devices)


BIAS_GRADIENT = Operator(
    name="bias-gradient",
    work="q, k, v, bias, do -> o, dq, dk, dv, dbias",
    contenders=(
        Contender("autograd", build_autograd),
        Contender("closed form", build_closed),
        Contender("attngrad.layers", build_layers),
        Contender("SDPA", build_sdpa),
        Contender("SDPA efficient", build_sdpa_efficient, devices=("cuda",)),
        Contender("torch.compile", build_compiled, compiled=True),
    ),
    cases=(_case(256), _case(1024), _case(4096, devices=("cuda",))),
    quick={"cpu": "256", "cuda": "1024"},
    outputs={"o": "forward", "dq": "backward", "dk": "backward", "dv": "backward", "dbias": "backward"},
    shapes=shapes,
    exact=exact,
    flops=flops,
    moved=moved,
)
