"""RelativeBias against the reference: every map, sharing, caches, packing, and what is kept between calls."""

import copy

import numpy as np
import pytest
import torch

from attngrad import layers, reference
from attngrad.checks import check_close
from attngrad.layers import (
    AlibiMap,
    BeitMap,
    ClipMap,
    OffsetMap,
    RelativeBias,
    T5Map,
    WindowMap,
)
from attngrad.notation import RangeError
from attngrad.offsets import alibi_slopes, packed_offset, relative_offset

B, H, N, M, D, D_V = 2, 3, 5, 7, 4, 6
F64 = torch.float64


def own(N, M, query_start):
    """Return rows of a map of our own, as int32 in torch: the parity of the offset, 2 for keys not later."""
    offset = torch.tensor(relative_offset(N, M, query_start))
    return torch.where(offset <= 0, 2, offset % 2).to(torch.int32)


MAPS = {
    "offset": (OffsetMap(9), N, M),
    "clipped": (ClipMap(2), N, M),
    "T5": (T5Map(8, 5), N, M),
    "T5, one direction": (T5Map(5, 6, False), N, M),
    "Swin": (WindowMap(2, 3), 6, 6),
    "video": (WindowMap(2, 1, 3), 6, 6),
    "BEiT": (BeitMap(2, 2), 5, 5),
    "own": (own, N, M),
}


def random(*shape, seed=0):
    """Return a random float64 tensor."""
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape))


def made(map, heads=H, dtype=F64, seed=1):
    """Return a module whose table is random."""
    bias = RelativeBias(heads, map, rows=3 if map is own else None, dtype=dtype)
    with torch.no_grad():
        bias.table.copy_(random(*bias.table.shape, seed=seed))
    return bias


def rows(map, N, M, query_start=None):
    """Return the rows of a map in NumPy."""
    return np.asarray(map(N, M, query_start)).astype(np.int64)


@pytest.mark.parametrize("name", MAPS)
def test_bias_and_gradient_are_those_of_the_reference(name):
    map, n, m = MAPS[name]
    bias, row, dbias = made(map), rows(map, n, m), random(H, n, m, seed=2)
    out = bias(n, m)
    assert out.detach().numpy().tolist() == reference.table_bias(bias.table.detach().numpy(), row).tolist()
    out.backward(dbias)
    want = reference.table_bias_vjp(row, dbias.numpy(), bias.R)
    assert bias.table.grad.numpy().tolist() == want.tolist()
    assert bias.table.shape == (H, bias.R) == want.shape


@pytest.mark.parametrize("sort", [False, True])
def test_both_ways_of_gathering_give_the_same(sort):
    table, row = random(H, 8).requires_grad_(), T5Map(8, 5)(N, M)
    out, dbias = layers.relative_bias.gathered(table, torch.tensor(row), sort), random(H, N, M, seed=2)
    assert out.detach().numpy().tolist() == reference.table_bias(table.detach().numpy(), row).tolist()
    got = torch.autograd.grad(out, table, dbias)[0]
    want, terms = (reference.table_bias_vjp(row, x.numpy(), 8) for x in (dbias, dbias.abs()))
    check_close("dtable", got, want, terms=terms)


@pytest.mark.parametrize("learned", [False, True])
def test_slopes_and_their_gradient_are_those_of_the_reference(learned):
    bias, offset = RelativeBias(H, AlibiMap(H, learned), dtype=F64), relative_offset(N, M)
    out, dbias = bias(N, M), random(H, N, M)
    check_close("bias", out, reference.alibi_bias(alibi_slopes(H), offset), kind="equal")
    assert bias.table is None
    assert list(bias.state_dict()) == ["slopes"]
    assert [name for name, _ in bias.named_parameters()] == ["slopes"] * learned
    assert out.requires_grad == learned
    if learned:
        out.backward(dbias)
        terms = (np.abs(offset) * np.abs(dbias.numpy())).sum(axis=(-2, -1))
        check_close("dslopes", bias.slopes.grad, reference.alibi_bias_vjp(offset, dbias.numpy()), terms=terms)


def attended(bias, seed=3, **options):
    """Return what sends a cotangent to a bias (H, N, M): attention with random inputs."""
    n, m = bias.shape[-2:]
    q, k = random(B, H, n, D, seed=seed), random(B, H, m, D, seed=seed + 1)
    return layers.attention(q, k, random(B, H, m, D_V, seed=seed + 2), bias, **options)


def gradient(bias, *outputs):
    """Return the gradient of the table for a random cotangent of each output."""
    given = [random(*o.shape, seed=9 + at) for at, o in enumerate(outputs)]
    return torch.autograd.grad(outputs, bias.table, given)[0]


def test_one_table_for_all_heads_gets_the_sum_over_heads():
    one, each = made(T5Map(8, 5), heads=1), made(T5Map(8, 5))
    with torch.no_grad():
        each.table.copy_(one.table.expand(H, -1))
    assert one(N, M).shape == (1, N, M)
    shared, split = (gradient(b, attended(b(N, M))) for b in (one, each))
    check_close("shared", shared[0], split.sum(dim=0), terms=split.abs().sum())
    assert (shared[0] - split[-1]).abs().max() > 0.01


def test_a_bias_of_several_layers_gets_the_sum_over_layers():
    bias = made(T5Map(8, 5))
    passed = bias(N, M)
    outputs = [attended(passed, seed=3), attended(passed, seed=33)]
    alone = [torch.autograd.grad(o, bias.table, random(*o.shape, seed=9 + at), retain_graph=True)[0]
             for at, o in enumerate(outputs)]  # fmt: skip
    both = gradient(bias, *outputs)
    check_close("both layers", both, alone[0] + alone[1], terms=both.abs().sum())
    assert min((both - x).abs().max() for x in alone) > 0.01


@pytest.mark.parametrize("name", ["offset", "clipped", "T5, one direction"])
def test_a_decoder_with_a_cache_sees_the_rows_of_the_full_bias(name):
    bias = made(MAPS[name][0])
    full = bias(M, M)
    for t in range(M):
        assert torch.equal(bias(1, t + 1)[:, 0], full[:, t, : t + 1])
        assert torch.equal(bias(1, M, query_start=t)[:, 0], full[:, t])
    assert torch.equal(bias(3, M, query_start=2), full[:, 2:5])
    ignored = bias(1, M, query_start=0)[:, 0]
    assert not torch.equal(ignored, full[:, -1])


def test_packed_sequences_give_what_they_give_alone():
    lengths, n = [4, 2, 3], 9
    bias = made(OffsetMap(4))
    q, k, v = random(1, H, n, D, seed=3), random(1, H, n, D, seed=4), random(1, H, n, D_V, seed=5)
    do = random(1, H, n, D_V, seed=6)
    offset, same = packed_offset(lengths)
    packed = layers.attention(q, k, v, bias.at(offset), mask=torch.tensor(same))
    (together,) = torch.autograd.grad(packed, bias.table, do)
    alone, at = torch.zeros_like(together), 0
    for length in lengths:
        part = slice(at, at + length)
        o = layers.attention(q[:, :, part], k[:, :, part], v[:, :, part], bias(length, length))
        check_close("o", packed[:, :, part], o, terms=v.abs().max())
        alone += torch.autograd.grad(o, bias.table, do[:, :, part])[0]
        at += length
    check_close("dtable", together, alone, terms=together.abs().sum())
    with pytest.raises(RangeError, match="offset: expected offsets from -3 to 3"):
        bias(n, n)


@pytest.mark.parametrize("map", [OffsetMap(9), ClipMap(2), T5Map(8, 5), AlibiMap(H)], ids=repr)
def test_at_takes_offsets_of_numpy_and_torch(map):
    bias = RelativeBias(H, map) if isinstance(map, AlibiMap) else made(map)
    offset = relative_offset(N, M, 1)
    want = bias(N, M, query_start=1)
    assert torch.equal(bias.at(offset), want)
    assert torch.equal(bias.at(torch.tensor(offset, dtype=torch.int32)), want)
    assert not torch.equal(bias.at(-offset), want) or isinstance(map, AlibiMap)


class Stale(RelativeBias):
    """A bias that is gathered at the first call and kept."""

    def forward(self, N, M, query_start=None, *, dtype=None):
        if not hasattr(self, "kept"):
            self.kept = super().forward(N, M, query_start, dtype=dtype)
        return self.kept


@pytest.mark.parametrize(("kind", "fresh"), [(RelativeBias, True), (Stale, False)])
def test_the_bias_of_the_next_step_is_that_of_the_next_table(kind, fresh):
    bias = kind(H, ClipMap(2), dtype=F64)
    descent = torch.optim.SGD(bias.parameters(), lr=0.5)
    bias(N, M).backward(random(H, N, M))
    descent.step()
    moved = reference.table_bias(bias.table.detach().numpy(), ClipMap(2)(N, M))
    assert (bias(N, M).detach().numpy() == moved).all() == fresh
    if fresh:
        bias(N, M).backward(random(H, N, M, seed=1))
        return
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        attended(bias(N, M)).sum().backward()


def test_rows_are_kept_by_their_sizes_and_leave_no_trace_in_a_checkpoint():
    calls = []

    def counted(N, M, query_start):
        calls.append((N, M, query_start))
        return own(N, M, query_start)

    bias = RelativeBias(H, counted, rows=3)
    with torch.no_grad():
        bias.table.copy_(random(H, 3))
    for sizes in ((N, M), (N, M), (N, M, 0), (N, M, 0), (M, M), (N, M)):
        assert torch.equal(bias(*sizes), bias.table[:, own(*(*sizes, None)[:3]).long()])
    assert calls == [(N, M, None), (N, M, 0), (M, M, None), (N, M, None)]
    assert list(bias.state_dict()) == ["table"]
    other = RelativeBias(H, own, rows=3)
    other.load_state_dict(bias.state_dict())
    assert torch.equal(other(M, N), bias(M, N))
    assert torch.equal(copy.deepcopy(bias)(M, N), bias(M, N))


def test_a_module_may_be_moved():
    bias = made(ClipMap(2))
    before = bias(N, M)
    assert torch.equal(bias.to(torch.float32)(N, M), before.float())
    away = bias.to("meta")(N, M)
    assert away.device.type == "meta"
    assert away.shape == (H, N, M)


@pytest.mark.parametrize("map", [ClipMap(2), AlibiMap(H), AlibiMap(H, learned=True)], ids=repr)
def test_a_module_made_without_memory_gets_its_values_later(map):
    """What to_empty hands out is whatever the memory held; rows kept in a buffer would be lost with it."""
    want = RelativeBias(H, map)
    bias = RelativeBias(H, map, device="meta")
    assert bias(N, M).device.type == "meta"
    bias = bias.to_empty(device="cpu")
    bias.load_state_dict(want.state_dict())
    assert torch.equal(bias(N, M), want(N, M))
    for x in bias.state_dict().values():
        x.fill_(torch.nan)
    bias.reset_parameters()
    assert torch.equal(bias(N, M), want(N, M))


def test_only_the_table_of_a_frozen_model_trains():
    bias = made(T5Map(8, 5))
    o = attended(bias(N, M), causal=True)
    dtable = gradient(bias, o)
    seen = np.unique(rows(bias.map, N, M)[relative_offset(N, M) <= 0])
    assert dtable[:, seen].abs().min() > 1e-6
    assert (np.delete(dtable.numpy(), seen, axis=1) == 0.0).all()


@pytest.mark.parametrize(("optimizer", "keeps"), [("SGD", True), ("momentum", True), ("Adam", False)])
def test_descent_by_the_gradient_keeps_the_sum_of_a_head_and_adam_does_not(optimizer, keeps):
    bias = made(T5Map(8, 5))
    first = bias.table.detach().sum(dim=-1).clone()
    step = {
        "SGD": lambda x: torch.optim.SGD(x, lr=0.3),
        "momentum": lambda x: torch.optim.SGD(x, lr=0.3, momentum=0.9, nesterov=True),
        "Adam": lambda x: torch.optim.Adam(x, lr=0.03),
    }[optimizer](bias.parameters())
    start = bias.table.detach().clone()
    for at in range(20):
        step.zero_grad()
        attended(bias(N, M)).backward(random(B, H, N, D_V, seed=at % 3))
        step.step()
    moved = (bias.table.detach() - start).abs().max()
    change = (bias.table.detach().sum(dim=-1) - first).abs()
    assert moved > 0.1
    assert change.max() < 1e-13 if keeps else change.min() > 0.01


def test_sizes_may_be_zero():
    bias = made(ClipMap(2))
    for n, m in ((0, M), (N, 0), (0, 0)):
        out = bias(n, m)
        assert out.shape == (H, n, m)
        (grad,) = torch.autograd.grad(out.sum(), bias.table)
        assert (grad == 0.0).all()


def test_a_printed_module_says_what_it_is():
    assert repr(RelativeBias(2, ClipMap(3))) == "RelativeBias(heads=2, map=ClipMap(max_distance=3))"
