"""What holds of the kernels beside their values: order, strides, rows without a key, work, offsets."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from .kernel_cases import FAR, INPUTS, Answers, Case, far_apart, kernels, run  # isort: skip
from triton.runtime import interpreter

from attngrad.checks import check_close
from attngrad.kernels import launching
from attngrad.kernels.launching import Tiles
from attngrad.kernels.tiles import Strided

# Some tests plant a mistake, which may read memory that was never written; NumPy then warns of what is there.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

CASE = Case(B=2, H=2, H_kv=1, N=19, M=21, D=5, D_v=3)
KERNELS = ("forward", "by_rows", "by_keys", "by_queries", "sum_blocks")


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Work on tiles of 16 and read two places at once, so that small sizes have several of both."""
    monkeypatch.setattr(launching, "tiles", lambda dtype, width: Tiles(16, 4, 2))
    monkeypatch.setattr(launching, "CHUNK", 2)


def agree(got, want):
    """Require two sets of answers to be equal in every bit."""
    for name, x, y in zip(Answers._fields, got[:7], want[:7], strict=False):
        assert torch.equal(x, y), name


def backwards(monkeypatch):
    """Run the programs of a launch from the last to the first."""
    builder = interpreter.interpreter_builder
    right = builder.set_grid_idx
    monkeypatch.setattr(builder, "set_grid_idx", lambda x, y, z: right(builder.grid_dim[0] - 1 - x, y, z))


def test_the_order_of_programs_does_not_show(monkeypatch):
    drawn = CASE.draw()
    want, atomics = run(CASE, drawn), run(replace(CASE, deterministic=False), drawn)
    agree(run(CASE, drawn), want)
    backwards(monkeypatch)
    agree(run(CASE, drawn), want)
    turned = run(replace(CASE, deterministic=False), drawn)
    assert not torch.equal(turned.ddiagonals, atomics.ddiagonals)
    for name in ("o", "lse", "dq", "dk", "dv", "dscale"):
        assert torch.equal(getattr(turned, name), getattr(want, name)), name
    check_close("ddiagonals", turned.ddiagonals, want.ddiagonals, "difference", terms=10.0)


def test_cotangents_of_stride_zero():
    drawn = CASE.draw() | {"do": torch.tensor([0.5, -1.0, 2.0]).expand(2, 2, 19, 3)}
    drawn["dlse"] = torch.tensor(0.25).expand(2, 2, 19)
    whole = {name: x.clone(memory_format=torch.contiguous_format) for name, x in drawn.items()}
    agree(run(CASE, drawn), run(CASE, whole))


def test_inputs_and_cotangents_of_any_stride(monkeypatch):
    case = replace(CASE, mask="pairs")
    drawn = case.draw()
    want = run(case, drawn)
    turned = drawn | {name: drawn[name].mT.contiguous().mT for name in "qkv"}
    turned["diagonals"] = torch.stack([drawn["diagonals"]] * 2, dim=-1)[..., 0]
    gaps = {name: through_gaps(x) for name, x in drawn.items()}
    agree(kept(case, turned), want)
    agree(kept(case, gaps), want)
    monkeypatch.setattr(launching, "strided", lambda x: Strided(x, *torch.empty_like(x).stride()))
    with pytest.raises(AssertionError):
        agree(kept(case, gaps), want)


def through_gaps(x):
    """Return the same values, every second entry of a larger tensor along each axis, from an odd place on."""
    held = torch.full([2 * size + 1 for size in x.shape], torch.nan, dtype=x.dtype)
    view = held[tuple(slice(1, None, 2) for _ in x.shape)]
    return view.copy_(x)


def kept(case, drawn):
    """Return the answers for inputs as they lie in memory."""
    inputs = {name: drawn[name].detach().requires_grad_() for name in INPUTS}
    assert not inputs["q"].is_contiguous()
    o, lse = kernels.attention(**inputs, **case.options(), return_lse=True)
    found = torch.autograd.grad((o, lse), list(inputs.values()), (drawn["do"], drawn["dlse"]))
    return Answers(o.detach(), lse.detach(), *found)


@pytest.mark.parametrize("how", ["causal", "mask", "bias"])
def test_a_query_without_a_key_has_output_zero_and_its_cotangent_is_not_read(how, monkeypatch):
    case, queries = replace(CASE, shared=True), torch.arange(19).expand(2, 2, 19)
    drawn = case.draw()
    if how == "causal":
        case, empty = replace(case, causal=True, query_start=-4), queries < 4
    elif how == "mask":
        case = replace(case, causal=True, query_start=0, mask="keys")
        empty = queries < torch.tensor([1, 19])[:, None, None]
    else:
        drawn["diagonals"][:, :24] = -torch.inf
        empty = queries > 14  # from which no key has an offset of 6 or more
    want = run(case, drawn)
    assert torch.equal(want.lse.isneginf(), empty)
    assert not want.o[empty].any()
    assert not want.dq[empty].any()
    assert all(x.isfinite().all() for x in want[2:7])
    drawn["do"][empty], drawn["dlse"][empty] = torch.nan, torch.nan
    agree(run(case, drawn), want)
    monkeypatch.setattr(launching.Inputs, "may_be_empty", False)
    with pytest.raises(AssertionError):
        agree(run(case, drawn), want)


def test_a_bias_of_minus_infinity_hides_and_the_least_number_does_not():
    drawn = CASE.draw()
    drawn["diagonals"][:, 19:] = -torch.inf  # every key after its query
    hidden = run(CASE, drawn)
    drawn["diagonals"][:, 19:] = torch.nan
    causal = run(replace(CASE, causal=True, query_start=0), drawn)
    agree(hidden, causal)
    assert not hidden.ddiagonals[:, 19:].any()
    drawn["diagonals"] = torch.full((2, 39), torch.finfo(torch.float32).min)
    even = run(CASE, drawn)
    mean = drawn["v"].mean(dim=2, keepdim=True).expand(2, 2, 19, 3)
    check_close("weights all equal", even.o, mean, "difference", terms=1.0)


@pytest.mark.parametrize(
    ("trainable", "ran"),
    [
        ((), ("forward",)),
        (("diagonals",), ("forward", "by_rows", "by_keys", "sum_blocks")),
        (("v",), ("forward", "by_rows", "by_keys")),
        (("q",), ("forward", "by_rows", "by_queries")),
        (("scale",), ("forward", "by_rows", "by_queries")),
        (("k", "diagonals"), ("forward", "by_rows", "by_keys", "sum_blocks")),
    ],
)
def test_nothing_is_computed_that_is_not_needed(trainable, ran, monkeypatch):
    drawn, seen = CASE.draw(), []
    want = run(CASE, drawn)
    for name in KERNELS:
        kernel = getattr(launching, name)
        monkeypatch.setattr(launching, name, Spy(name, kernel, seen))
    inputs = {name: drawn[name].detach().requires_grad_(name in trainable) for name in INPUTS}
    o = kernels.attention(**inputs)
    assert o.requires_grad == bool(trainable)
    if trainable:
        o, lse = kernels.attention(**inputs, return_lse=True)
        del seen[0]
        leaves = [inputs[name] for name in trainable]
        found = torch.autograd.grad((o, lse), leaves, (drawn["do"], drawn["dlse"]))
        for name, x in zip(trainable, found, strict=True):
            assert torch.equal(x, getattr(want, f"d{name}")), name
    assert tuple(seen) == ran


class Spy:
    """A kernel that tells that it is launched."""

    def __init__(self, name, kernel, seen):
        """Take the kernel and where to tell it."""
        self.name, self.kernel, self.seen = name, kernel, seen

    def __getitem__(self, grid):
        """Tell it, and return the kernel on a grid."""
        self.seen.append(self.name)
        return self.kernel[grid]


def test_one_cotangent_alone():
    drawn = CASE.draw()
    inputs = {name: drawn[name].detach().requires_grad_() for name in INPUTS}
    o, lse = kernels.attention(**inputs, return_lse=True)
    leaves, do, dlse = list(inputs.values()), drawn["do"], drawn["dlse"]
    both = torch.autograd.grad((o, lse), leaves, (do, dlse), retain_graph=True)
    one = torch.autograd.grad(o, leaves, do, retain_graph=True)
    other = torch.autograd.grad(lse, leaves, dlse)
    for name, x, y, z in zip(INPUTS, both, one, other, strict=True):
        check_close(f"d{name}", y + z, x, "difference", terms=10.0)
    assert not other[2].any()


@pytest.mark.parametrize("cotangent", ["constant", "moving"])
def test_a_second_derivative_is_refused(cotangent):
    drawn = CASE.draw()
    inputs = [drawn[name].detach().requires_grad_() for name in INPUTS[:4]]
    o = kernels.attention(*inputs)
    loss = o.sum() if cotangent == "constant" else o.square().sum()
    found = torch.autograd.grad(loss, inputs, create_graph=True)
    for x in found:
        with pytest.raises(RuntimeError, match="attention has no second derivative"):
            torch.autograd.grad(x.sum(), inputs[0], retain_graph=True)


def test_sizes_of_zero():
    for sizes in ({"N": 0}, {"M": 0}, {"B": 0}):
        case = replace(CASE, **sizes)
        got = run(case, case.draw())
        assert got.o.shape == (case.B, 2, case.N, 3)
        assert not got.o.any()
        assert all(not x.any() for x in got[2:7])
        assert got.lse.isneginf().all()


def test_offsets_beyond_32_bits(monkeypatch):
    drawn = FAR.draw()
    want = run(FAR, drawn)
    agree(kept(FAR, far_apart(monkeypatch, drawn)), want)


def test_diagonal_sums_of_the_smallest_kernel():
    for H, N, M in ((2, 37, 53), (1, 1, 40), (3, 70, 2)):
        x = torch.tensor(np.random.default_rng(0).standard_normal((H, N, M))).float()
        got = kernels.diagonal_sums(x)
        want = np.stack([[np.trace(y, d) for d in range(1 - N, M)] for y in x.double().numpy()])
        check_close("diagonal sums", got, want, "difference", terms=np.sqrt(N))
    check_close("of 16 bits", kernels.diagonal_sums(torch.ones(1, 40, 40).bfloat16()).max(), 40.0)
