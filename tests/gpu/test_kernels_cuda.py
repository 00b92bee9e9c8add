"""On a CUDA device: the kernels of Triton against float64, repeated runs, offsets past 2^31, memory."""

from typing import NamedTuple

import pytest
import torch

pytest.importorskip("triton", reason="needs triton, which the extra attngrad[triton] brings")

from attngrad import kernels
from attngrad.checks import error_budget
from attngrad.kernels.tiles import INTERPRETED

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.skipif(INTERPRETED, reason="TRITON_INTERPRET=1 is set, with which kernels run on the CPU"),
]

DEVICE = "cuda"
UNIT = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
GIB = 2**30
H, H_KV, N, M = 4, 2, 301, 259
OPTIONS = {
    "plain": {},
    "shared, atomics": {"shared": True, "deterministic": False},
    "causal, bottom right, mask of keys": {"causal": True, "mask": "keys"},
    "causal, top left, mask of pairs": {"causal": True, "query_start": 0, "mask": "pairs"},
}


class Given(NamedTuple):
    """Inputs of attention, and the cotangents of o and lse."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    diagonals: torch.Tensor
    scale: torch.Tensor
    do: torch.Tensor
    dlse: torch.Tensor


class Answers(NamedTuple):
    """o, lse and the cotangents of the inputs."""

    o: torch.Tensor
    lse: torch.Tensor
    dq: torch.Tensor
    dk: torch.Tensor
    dv: torch.Tensor
    ddiagonals: torch.Tensor
    dscale: torch.Tensor


def draw(dtype, D, B=2, N=N, M=M, H=H, H_kv=H_KV, shared=False):
    """Return random tensors, drawn in the type of q."""
    generator = torch.Generator(DEVICE).manual_seed(0)
    shapes = {
        "q": (B, H, N, D), "k": (B, H_kv, M, D), "v": (B, H_kv, M, D),
        "diagonals": (1 if shared else H, N + M - 1), "do": (B, H, N, D), "dlse": (B, H, N),
    }  # fmt: skip
    drawn = {name: torch.randn(shape, generator=generator, device=DEVICE).to(dtype)
             for name, shape in shapes.items()}  # fmt: skip
    drawn |= {"dlse": drawn["dlse"].float(), "scale": torch.tensor(D**-0.5, device=DEVICE)}
    return Given(**drawn)


def masked(how, B):
    """Return a mask of keys or of pairs, or None."""
    if how is None:
        return None
    generator = torch.Generator(DEVICE).manual_seed(1)
    shape = (B, 1, 1, M) if how == "keys" else (B, 1, N, M)
    return torch.rand(shape, generator=generator, device=DEVICE) < 0.8


def answers(x, attend, dtype=None):
    """Return what an attention answers, its inputs in a type."""
    inputs = [(y if dtype is None else y.to(dtype)).detach().requires_grad_() for y in x[:5]]
    o, lse = attend(*inputs)
    found = torch.autograd.grad((o, lse), inputs, (x.do.to(o.dtype), x.dlse.to(lse.dtype)))
    return Answers(o.detach(), lse.detach(), *found)


def run(x, mask=None, **options):
    """Return what the kernels answer."""
    return answers(
        x,
        lambda q, k, v, diagonals, scale: kernels.attention(
            q, k, v, diagonals, scale=scale, mask=mask, return_lse=True, **options
        ),
    )


def seen_pairs(mask, causal=False, query_start=None):
    """Return where a query may attend, (B, 1, N, M) or (N, M)."""
    i, j = torch.arange(N, device=DEVICE)[:, None], torch.arange(M, device=DEVICE)
    seen = (j <= i + (M - N if query_start is None else query_start)) if causal else (i + j >= 0)
    return seen if mask is None else seen & mask


def plainly(seen):
    """Return attention in plain operations."""
    i, j = torch.arange(N, device=DEVICE)[:, None], torch.arange(M, device=DEVICE)

    def attend(q, k, v, diagonals, scale):
        k, v = (x.repeat_interleave(H // H_KV, dim=1) for x in (k, v))
        s = scale * (q @ k.mT) + diagonals[:, j - i + N - 1]
        empty = ~seen.any(dim=-1, keepdim=True)
        s = s.masked_fill(~seen & ~empty, -torch.inf)
        p = torch.softmax(s, dim=-1).masked_fill(empty, 0.0)
        return p @ v, torch.logsumexp(s, dim=-1).masked_fill(empty.squeeze(-1), 0.0)

    return attend


def room(x, seen):
    """Return how far the sums over pairs may be off: ddiagonals, and dscale.

    Formula: 6 band, with band^2 = sum of (p u |do.o|)^2 + u^2 ds^2 over the pairs; and four roundings of
    float32 in each pair, which may all go one way.
    """
    q, k, v, diagonals, scale, do, dlse = (y.double() for y in x)
    k, v = (y.repeat_interleave(H // H_KV, dim=1) for y in (k, v))
    i, j = torch.arange(N, device=DEVICE)[:, None], torch.arange(M, device=DEVICE)
    s = (scale * (q @ k.mT) + diagonals[:, j - i + N - 1]).masked_fill(~seen, -torch.inf)
    p = torch.softmax(s, dim=-1).nan_to_num(0.0)
    delta = (do * (p @ v)).sum(dim=-1, keepdim=True)
    ds = p * (do @ v.mT - delta + dlse[..., None])
    squares = UNIT[x.q.dtype] ** 2 * ((p * delta).square() + ds.square())
    sizes = 2.0**-22 * p * (do.abs() @ v.abs().mT + delta.abs() + dlse.abs()[..., None])
    by_diagonal, qk = [], (q @ k.mT).abs()
    for y in (squares, sizes):
        by_head = y.sum(dim=0).sum(dim=0, keepdim=True) if diagonals.shape[0] == 1 else y.sum(dim=0)
        flat = by_head.new_zeros(diagonals.shape)
        by_diagonal.append(flat.index_add(1, (j - i + N - 1).flatten(), by_head.flatten(1)))
    return (
        6.0 * by_diagonal[0].sqrt() + by_diagonal[1],
        6.0 * (squares * qk.square()).sum().sqrt() + (sizes * qk).sum(),
    )


def within(what, got, wanted, bound):
    """Require errors within a bound, within which zero would not pass."""
    error = (got.double() - wanted).abs()
    assert wanted.abs().max() > 4.0 * torch.as_tensor(bound).max(), f"{what}: zero would pass"
    assert (error <= bound).all(), f"{what}: error {error.max().item():.1e}"


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("D", [32, 64, 128])
@pytest.mark.parametrize("dtype", UNIT)
def test_answers_are_those_of_float64(dtype, D, options):
    options = dict(options)
    x = draw(dtype, D, shared=options.pop("shared", False))
    mask = masked(options.pop("mask", None), B=2)
    got = run(x, mask, **options)
    options.pop("deterministic", None)
    seen = seen_pairs(mask, **options)
    wanted, plain = answers(x, plainly(seen), torch.float64), answers(x, plainly(seen), dtype)
    for what in ("o", "dq", "dk", "dv"):
        three = [getattr(y, what) for y in (got, plain, wanted)]
        if dtype == torch.float32:
            within(what, three[0], three[2], 32.0 * UNIT[dtype] * three[2].abs().max())
        else:
            name = str(dtype).removeprefix("torch.")
            error_budget(what, *three, dtype=name, kind="forward" if what == "o" else "backward")
    empty = ~seen.any(dim=-1).expand(2, H, N)
    assert torch.equal(got.lse.isneginf(), empty)
    assert not got.o[empty].any()
    within("lse", got.lse.masked_fill(empty, 0.0), wanted.lse, 1e-6 * wanted.lse.abs().max())
    of_diagonals, of_scale = room(x, seen)
    of_diagonals += UNIT[dtype] * wanted.ddiagonals.abs()  # one rounding to the type of the diagonals
    within("ddiagonals", got.ddiagonals, wanted.ddiagonals, of_diagonals)
    error = (got.dscale.double() - wanted.dscale).abs()
    assert error <= of_scale


@pytest.mark.parametrize("dtype", UNIT)
def test_repeated_runs_agree_in_every_bit(dtype):
    x = draw(dtype, 64, B=4, N=1000, M=1500, H=8, H_kv=2)
    first = run(x, causal=True)
    for _ in range(20):
        assert all(torch.equal(y, z) for y, z in zip(run(x, causal=True), first, strict=True))
    atomics = run(x, causal=True, deterministic=False)
    for what in ("o", "lse", "dq", "dk", "dv", "dscale"):
        assert torch.equal(getattr(atomics, what), getattr(first, what)), what
    error = (atomics.ddiagonals.float() - first.ddiagonals.float()).abs().max()
    assert error <= max(1e-5, UNIT[dtype]) * first.ddiagonals.abs().max()


def test_layout_and_stride_do_not_show():
    x = draw(torch.bfloat16, 64)
    x = x._replace(do=x.do[:, :, :1].expand_as(x.do))
    want = run(x._replace(do=x.do.contiguous()))
    by_query = [y.transpose(1, 2).contiguous().transpose(1, 2) for y in x[:3]]
    for got in (run(x), run(x._replace(q=by_query[0], k=by_query[1], v=by_query[2]))):
        assert all(torch.equal(y, z) for y, z in zip(got, want, strict=True))


def test_one_query_behind_many_keys():
    x = draw(torch.bfloat16, 128, N=1, M=5000)
    got, want = run(x, causal=True), run(x)
    assert all(torch.equal(y, z) for y, z in zip(got, want, strict=True))
    k, v = (y.double().repeat_interleave(H // H_KV, dim=1) for y in (x.k, x.v))
    p = torch.softmax(x.scale.double() * (x.q.double() @ k.mT) + x.diagonals.double()[:, None], dim=-1)
    assert ((p @ v - got.o.double()).abs() <= 2.0**-7 * (p @ v.abs())).all()


def test_offsets_past_2_31():
    B, H, N, D = 65600, 8, 32, 128
    if torch.cuda.get_device_properties(0).total_memory < 80 * GIB:
        pytest.skip("needs 80 GiB of device memory")
    assert B * H * N * D > 2**31
    x = draw(torch.bfloat16, D, B=B, N=N, M=N, H=H, H_kv=H)
    got, sums = run(x, causal=True), 0.0
    for part in range(0, B, B // 8):
        rows = slice(part, part + B // 8)
        few = x._replace(**{name: getattr(x, name)[rows].clone() for name in ("q", "k", "v", "do", "dlse")})
        want = run(few, causal=True)
        for what in ("o", "lse", "dq", "dk", "dv"):
            assert torch.equal(getattr(got, what)[rows], getattr(want, what)), (what, part)
        sums = sums + want.ddiagonals.double()
    assert (got.ddiagonals.double() - sums).abs().max() <= 2.0**-6 * sums.abs().max()


def test_memory_does_not_hold_all_pairs():
    x = draw(torch.bfloat16, 64, B=1, N=16384, M=16384, H=8, H_kv=8)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    got = run(x, causal=True)
    assert got.ddiagonals.abs().max() > 0.0
    # All pairs would take 4 GiB in bfloat16; the sums along diagonals take 1/64 of them in float32.
    assert torch.cuda.max_memory_allocated() - before < 0.5 * GIB


def test_diagonal_sums_of_the_smallest_kernel():
    x = torch.randn(3, 700, 900, device=DEVICE)
    got = kernels.diagonal_sums(x)
    i, j = torch.arange(700, device=DEVICE)[:, None], torch.arange(900, device=DEVICE)
    want = torch.zeros(3, 1599, dtype=torch.float64, device=DEVICE)
    want.index_add_(1, (j - i + 699).flatten(), x.double().flatten(1))
    assert (got.double() - want).abs().max() < 1e-4
    assert torch.equal(got, kernels.diagonal_sums(x))
