"""The reference of attention against PyTorch's function: every backend that runs on the CPU, in float64.

To 1e-12 of the absolute terms: both causal alignments, groups of heads, masks of both kinds, a learned bias
and dropout. `test_torch_multihead.py` does the same for PyTorch's layer.
"""

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from attngrad import reference as ref
from attngrad.checks import check_close

from .attention_eager import absolute_terms

SIZES = (2, 6, 6, 5, 7, 9, 9)  # B H H_kv N M D D_v
B, H, N, M = 2, 6, 5, 7
RATE = 0.3
RNG = np.random.default_rng(17)
MASK = RNG.random((B, 1, N, M)) < 0.6
MASK[0, 0, 1] = False
BIAS = RNG.standard_normal((H, N, M))
HIDDEN = np.where(RNG.random((1, 1, N, M)) < 0.3, -np.inf, RNG.standard_normal((1, 1, N, M)))
LOWER_RIGHT = np.tri(N, M, M - N, dtype=bool)

sdpa = torch.nn.functional.scaled_dot_product_attention


@dataclass(frozen=True)
class Case:
    """Sizes, the options of the reference, and the same in PyTorch's names."""

    ours: dict[str, Any] = field(default_factory=dict)
    theirs: dict[str, Any] = field(default_factory=dict)
    sizes: tuple[int, ...] = SIZES
    learned: bool = False  # the mask of floats needs a gradient


def dropped() -> np.ndarray:
    """Return the weights that PyTorch keeps: the same draws as in its plain program, for a seed of 3."""
    torch.manual_seed(3)
    ones = torch.ones(B, H, N, M, dtype=torch.float64)
    return torch.nn.functional.dropout(ones, RATE).numpy() > 0.0


CASES = {
    "plain": Case(),
    "scale": Case({"scale": 0.7}, {"scale": 0.7}),
    "groups": Case({}, {"enable_gqa": True}, (2, 6, 2, 5, 7, 9, 9)),
    "one head of keys": Case({}, {"enable_gqa": True}, (2, 6, 1, 5, 7, 9, 9)),
    "wide values": Case({}, {}, (2, 6, 6, 5, 7, 9, 4)),
    "one query": Case({}, {}, (2, 6, 6, 1, 7, 9, 9)),
    "causal, square": Case({"causal": True}, {"is_causal": True}, (2, 6, 6, 7, 7, 9, 9)),
    "causal, more keys": Case({"causal": True, "query_start": 0}, {"is_causal": True}),
    "causal, more queries": Case(
        {"causal": True, "query_start": 0}, {"is_causal": True}, (2, 6, 6, 8, 5, 9, 9)
    ),
    "causal, lower right": Case({"causal": True}, {"attn_mask": LOWER_RIGHT}),
    "mask": Case({"mask": MASK}, {"attn_mask": MASK}),
    "bias": Case({"bias": BIAS}, {"attn_mask": BIAS[None]}),
    "bias of three axes": Case({"bias": BIAS}, {"attn_mask": BIAS}),
    "bias that hides": Case({"bias": HIDDEN}, {"attn_mask": HIDDEN}),
    "learned bias": Case({"bias": BIAS}, {"attn_mask": BIAS}, learned=True),
    "mask and groups": Case({"mask": MASK}, {"attn_mask": MASK, "enable_gqa": True}, (2, 6, 3, 5, 7, 9, 9)),
    "dropout": Case({"keep": dropped(), "dropout": RATE}, {"dropout_p": RATE}),
}
# What a backend refuses, and what it says.
NO_KERNEL, SILENT = "No available kernel", ""
REFUSED = {
    ("FLASH_ATTENTION", "wide values"): (NO_KERNEL, "the same last dimension"),
    ("FLASH_ATTENTION", "bias of three axes"): (NO_KERNEL, "use the following attn mask shapes: 2d"),
    ("FLASH_ATTENTION", "learned bias"): (NO_KERNEL, SILENT),
    ("FLASH_ATTENTION", "dropout"): (NO_KERNEL, "do not support non-zero dropout"),
}
ABSENT = ("EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "OVERRIDEABLE")


def drawn(case: Case, seed: int = 0) -> dict[str, np.ndarray]:
    """Return q, k, v and a random cotangent of o."""
    rng, (B, H, H_kv, N, M, D, D_v) = np.random.default_rng(seed), case.sizes
    shapes = {"q": (B, H, N, D), "k": (B, H_kv, M, D), "v": (B, H_kv, M, D_v), "do": (B, H, N, D_v)}
    return {name: rng.standard_normal(shape) for name, shape in shapes.items()}


def through_torch(case: Case, backend: SDPBackend) -> dict[str, torch.Tensor]:
    """Return o and the gradients of q, k, v and a learned bias by one backend."""
    arrays = drawn(case)
    do = torch.tensor(arrays.pop("do"))
    tensors = {name: torch.tensor(x, requires_grad=True) for name, x in arrays.items()}
    options = {n: torch.tensor(x) if isinstance(x, np.ndarray) else x for n, x in case.theirs.items()}
    if case.learned:
        options["attn_mask"].requires_grad_()
        tensors["bias"] = options["attn_mask"]
    torch.manual_seed(3)
    with sdpa_kernel(backend):
        o = sdpa(*list(tensors.values())[:3], **options)
    found = torch.autograd.grad(o, list(tensors.values()), do)
    return {"o": o} | {f"d{name}": x for name, x in zip(tensors, found, strict=True)}


def compare(case: Case, found: dict[str, torch.Tensor], **changed: Any) -> None:
    """Require the reference, with some options changed, to give what PyTorch gave."""
    arrays = drawn(case)
    do = arrays.pop("do")
    saved = ref.attention(**arrays, **{**case.ours, **changed})
    wanted = ref.attention_vjp(saved, do)
    terms = absolute_terms(saved, do, np.zeros(saved.lse.shape))
    for name, got in found.items():
        want = saved.o if name == "o" else getattr(wanted, name)
        check_close(name, got, want, terms=terms[name])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("backend", [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], ids=lambda b: b.name)
def test_every_backend_of_the_cpu_has_our_gradients(backend, name):
    if (refusal := REFUSED.get((backend.name, name))) is not None:
        error, reason = refusal
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            with pytest.raises(RuntimeError, match=error):
                through_torch(CASES[name], backend)
        assert "not used because" in str(told[0].message)
        assert [reason in str(warning.message) for warning in told[1:]] == [True] * bool(reason)
        pytest.skip(f"refused: {error}; {reason or 'no reason given'}")
    found = through_torch(CASES[name], backend)
    assert ("dbias" in found) == CASES[name].learned
    compare(CASES[name], found)
    assert min(x.abs().max() for x in found.values()) > 0.01


@pytest.mark.parametrize("name", ABSENT)
def test_the_other_backends_do_not_exist_on_the_cpu(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(RuntimeError, match="No viable backend"):
            through_torch(CASES["plain"], getattr(SDPBackend, name))
    known = {"ERROR", "MATH", "FLASH_ATTENTION", *ABSENT}
    assert set(SDPBackend.__members__) <= known, "a backend that these tests do not know"


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("causal, more keys", {"query_start": None}),
        ("causal, lower right", {"query_start": 0}),
        ("causal, more queries", {"query_start": None}),
        ("mask", {"mask": ~MASK}),
        ("scale", {"scale": None}),
        ("learned bias", {"bias_inside_scale": True}),
        ("learned bias", {"bias": BIAS[:, ::-1]}),
        ("bias that hides", {"bias": np.maximum(HIDDEN, -1.0)}),
        ("dropout", {"dropout": 0.0}),
        ("dropout", {"keep": ~dropped()}),
    ],
    ids=lambda x: x if isinstance(x, str) else next(iter(x)),
)
def test_another_convention_is_noticed(name, changed):
    found = through_torch(CASES[name], SDPBackend.MATH)
    compare(CASES[name], found)
    with pytest.raises(AssertionError):
        compare(CASES[name], found, **changed)


def test_heads_that_are_dealt_out_in_another_order_are_noticed():
    """Query heads 0, 1, 2 read the first head of keys; not 0, 2, 4."""
    case = CASES["groups"]
    found = through_torch(case, SDPBackend.FLASH_ATTENTION)
    arrays = drawn(case)
    do = arrays.pop("do")
    order = [0, 2, 4, 1, 3, 5]
    saved = ref.attention(arrays["q"][:, order], arrays["k"], arrays["v"])
    with pytest.raises(AssertionError):
        check_close("dk", found["dk"], ref.attention_vjp(saved, do[:, order]).dk, terms=20.0)


def test_a_query_without_a_key_has_output_zero_and_sends_nothing():
    for backend in (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION):
        found = through_torch(CASES["mask"], backend)
        assert (found["o"][0, :, 1] == 0.0).all()
        assert (found["dq"][0, :, 1] == 0.0).all()
