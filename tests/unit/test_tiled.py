"""Attention in tiles against the reference: every option, every map by offset, and sizes at the edge."""

import numpy as np
import pytest
import torch

from attngrad import layers, reference
from attngrad.checks import UNIT_ROUNDOFF, check_close, error_budget
from attngrad.layers import BeitMap, OffsetMap, RelativeBias, T5Map, WindowMap
from attngrad.notation import RangeError, ShapeError
from attngrad.tiled import Options, overflow
from attngrad.tiled.scores import Inputs

from . import attention_cases, tiled_cases
from .tiled_cases import CASES, SMALL, Shared, random, tiles_of

NAMES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}


def gradients(inputs, do, dlse=None, impl="tiled", **options):
    """Return o, lse, and the gradient by each input that wants one."""
    o, lse = layers.attention(**inputs, **options, return_lse=True, impl=impl)
    wanted = {name: x for name, x in inputs.items() if isinstance(x, torch.Tensor) and x.requires_grad}
    outs, cotangents = ((o,), (do,)) if dlse is None else ((o, lse), (do, dlse))
    found = torch.autograd.grad(outs, list(wanted.values()), cotangents)
    return o.detach(), lse.detach(), dict(zip(wanted, found, strict=True))


@pytest.mark.parametrize("tiles", SMALL)
@pytest.mark.parametrize("name", attention_cases.CASES)
def test_every_option(name, tiles):
    case = attention_cases.CASES[name]
    named = case.keywords(case.inputs())
    saved = reference.attention(**named)
    do, dlse = (np.asarray(random(*x.shape, seed=n)) for n, x in enumerate((saved.o, saved.lse)))
    want = reference.attention_vjp(saved, do, np.where(np.isfinite(saved.lse), dlse, 0.0))
    inputs = {key: torch.tensor(x) if isinstance(x, np.ndarray) else x for key, x in named.items()}
    for key in ("q", "k", "v", "bias", "sink"):
        if inputs[key] is not None:
            inputs[key].requires_grad_()
    if inputs["scale"] is not None:
        inputs["scale"] = torch.tensor(inputs["scale"], dtype=torch.float64, requires_grad=True)
    with tiles_of(tiles):
        o, lse, found = gradients(inputs, torch.tensor(do), torch.tensor(dlse))
    check_close("o", o, saved.o, terms=10.0)
    check_close("lse", lse, saved.lse, terms=10.0)
    assert {"q", "k", "v"} <= set(found)
    for key, got in found.items():
        check_close(f"d{key}", got, getattr(want, f"d{key}"), terms=300.0)


@pytest.mark.parametrize("tiles", SMALL)
@pytest.mark.parametrize("name", CASES)
def test_a_bias_by_offset(name, tiles):
    CASES[name].check(tiles)


@pytest.mark.parametrize("name", CASES)
def test_options_act_on_their_case(name):
    case = CASES[name]
    plain = Shared(case.sizes, case.map, case.heads).tiled()["o"]
    changed = case.options or case.query_start is not None
    # A softmax over one key does not see its score.
    assert bool((case.tiled()["o"] - plain).abs().max() > 0.01) == bool(changed)


def test_a_module_gives_its_bias_to_either_implementation():
    for map, n in ((T5Map(8, 6), 11), (WindowMap(2, 3), 6), (BeitMap(2, 2), 5)):
        case = Shared((2, 4, 2, n, n, 3, 5), map)
        both = []
        for impl in ("closed", "tiled"):
            bias = case.module()
            inputs = {name: x.requires_grad_() for name, x in case.inputs().items()}
            o, _, found = gradients(inputs | {"bias": bias}, case.cotangents()[0], impl=impl)
            again = layers.attention(**inputs, bias=bias, impl=impl)
            (dtable,) = torch.autograd.grad(again, bias.table, case.cotangents()[0])
            both.append({"o": o, "dtable": dtable} | found)
        for name, want in both[0].items():
            check_close(f"{map}, {name}", both[1][name], want, terms=300.0)
            assert want.abs().max() > 0.01


@pytest.mark.parametrize("heads", [1, 3])
def test_diagonals_are_those_of_the_bias(heads):
    for start in (None, 0, -3):
        bias = Shared((1, heads, 1, 4, 6, 1, 1), query_start=start).module()
        diagonals, pairs = bias.diagonals(4, 6, start), bias(4, 6, start)
        assert diagonals.shape == (heads, 9)
        for i in range(4):
            assert torch.equal(diagonals[:, 3 - i : 9 - i], pairs[:, i])


@pytest.mark.parametrize("sizes", [(0, 5, 3, 2), (5, 0, 3, 2), (0, 0, 3, 2), (4, 5, 0, 2), (4, 5, 3, 0)])
def test_nothing_of_something(sizes):
    N, M, D, D_v = sizes
    case = Shared((2, 4, 2, N, M, D, D_v), OffsetMap(6), options={"scale": 0.5})
    case.check("small")


def test_a_batch_of_none():
    o = layers.attention(*(torch.zeros(0, 2, 3, 4),) * 3, impl="tiled")
    assert o.shape == (0, 2, 3, 4)


@pytest.mark.parametrize("garbage", [torch.nan, torch.inf])
def test_what_stands_at_a_masked_key_is_not_read(garbage):
    mask, do = random(2, 1, 7, 9) < 0.4, random(2, 4, 7, 5, seed=3)
    case = Shared((2, 4, 2, 7, 9, 3, 5))
    dense = random(4, 7, 9, seed=6)
    for options in ({}, {"softcap": 1.5}, {"causal": True}, {"softcap": 1.5, "causal": True}):
        seen = mask & torch.tensor(np.tri(7, 9, 2, dtype=bool)) if "causal" in options else mask
        shown = seen.any(dim=0)
        clean, spoilt = ({**case.inputs(), "bias": x} for x in (dense, dense.masked_fill(~shown, garbage)))
        for inputs in (clean, spoilt):
            for x in inputs.values():
                x.requires_grad_()
        with tiles_of("small"):
            want, got = (gradients(x, do, mask=mask, **options) for x in (clean, spoilt))
        check_close("o", got[0], want[0], terms=10.0)
        for name, x in want[2].items():
            check_close(f"d{name}", got[2][name], x, terms=100.0)


def test_a_table_that_is_not_finite_counts_where_it_is_read():
    bias = RelativeBias(1, OffsetMap(5), dtype=torch.float64)
    with torch.no_grad():
        bias.table[0, 6] = torch.nan
    q, k, v = (random(1, 1, 3, 2, seed=n) for n in range(3))
    assert layers.attention(q, k, v, bias, causal=True, impl="tiled").isfinite().all()
    told = r"bias: expected finite logits or -inf, got nan at index \(0, 0, 0, 2\) of \(B, H, N, M\)"
    with pytest.raises(RangeError, match=told):
        layers.attention(q, k, v, bias, impl="tiled")
    mask = torch.tensor([[True, True, False], [True, True, True], [True, True, True]])
    with tiles_of("small"):
        assert layers.attention(q, k, v, bias, mask=mask, impl="tiled").isfinite().all()


def test_a_table_of_minus_infinity_is_a_window():
    """Offsets beyond 2 are hidden: the same as a mask, and the hidden rows of the table have no gradient."""
    case = Shared((2, 4, 2, 17, 19, 3, 5), OffsetMap(30), query_start=0)
    bias = case.module()
    with torch.no_grad():
        bias.table[:, :27] = -torch.inf
        bias.table[:, 32:] = -torch.inf
    offset = torch.tensor(np.arange(19) - np.arange(17)[:, None])
    inputs = {name: x.requires_grad_() for name, x in case.inputs().items()}
    for tiles in SMALL:
        for options in ({}, {"softcap": 1.5}):
            with tiles_of(tiles):
                o = layers.attention(**inputs, bias=bias, query_start=0, **options, impl="tiled")
            dtable, dq = torch.autograd.grad(o, (bias.table, inputs["q"]), case.cotangents()[0])
            dense = bias.table.detach().nan_to_num(neginf=0.0)[:, offset + 29]
            mask = (offset >= -2) & (offset <= 2)
            want = layers.attention(**inputs, bias=dense, mask=mask, **options)
            check_close("o", o, want, terms=10.0)
            check_close("dq", dq, torch.autograd.grad(want, inputs["q"], case.cotangents()[0])[0], terms=10.0)
            assert not dtable[:, :27].any()
            assert not dtable[:, 32:].any()
            assert dtable[:, 27:32].all()


def test_a_cotangent_on_a_query_without_a_key_is_not_read():
    for sink in (None, random(4, seed=8)):
        case = Shared(query_start=-4, options={"causal": True})
        inputs = {name: x.requires_grad_() for name, x in case.inputs().items()}
        do, dlse = case.cotangents()
        options = {"causal": True, "query_start": -4, "sink": sink}
        with tiles_of("small"):
            want = gradients(inputs, do, dlse, **options)
            do[:, :, :4] = torch.nan
            if sink is None:
                dlse[:, :, :4] = torch.inf
            got = gradients(inputs, do, dlse, **options)
        assert not got[0][:, :, :4].any()
        assert all(torch.equal(got[2][name], x) for name, x in want[2].items())
        assert all(x.isfinite().all() and x.any() for x in got[2].values())


LOWEST = torch.finfo(torch.float32).min


def test_the_lowest_number_in_a_bias_stands_for_a_mask_and_does_not_hide_all_keys():
    q, k, v = (random(1, 1, 3, 4, seed=n).float().requires_grad_() for n in range(3))
    bias = torch.tensor([[0.0, LOWEST, 0.0], [LOWEST, LOWEST, LOWEST], [LOWEST, 0.5 * LOWEST, LOWEST]])
    with tiles_of("one pair"):
        o, lse, found = gradients({"q": q, "k": k, "v": v, "bias": bias}, torch.ones(1, 1, 3, 4))
    closed = gradients({"q": q, "k": k, "v": v, "bias": bias}, torch.ones(1, 1, 3, 4), impl="closed")
    torch.testing.assert_close(o, closed[0])
    torch.testing.assert_close(lse, closed[1])
    for name, want in closed[2].items():
        torch.testing.assert_close(found[name], want)
    torch.testing.assert_close(o[0, 0, 1], v[0, 0].mean(dim=0))
    torch.testing.assert_close(o[0, 0, 2], v[0, 0, 1])


def test_a_bias_of_the_lowest_numbers_of_sixteen_bits():
    dtype = torch.bfloat16
    q, k, v = (random(1, 1, 3, 4, seed=n).to(dtype).requires_grad_() for n in range(3))
    bias = torch.full((3, 3), torch.finfo(dtype).min, dtype=dtype)
    bias[0, 1] = 0.0
    inputs = {"q": q, "k": k, "v": v, "bias": bias}
    o, lse, found = gradients(inputs, torch.ones(1, 1, 3, 4, dtype=dtype))
    closed = gradients(inputs, torch.ones(1, 1, 3, 4, dtype=dtype), impl="closed")
    torch.testing.assert_close((o, lse, found), closed)
    torch.testing.assert_close(o[0, 0, 0], v[0, 0, 1])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_large_scores_stay_finite(dtype):
    q = torch.full((1, 1, 1, 1), 100.0, dtype=dtype, requires_grad=True)
    k = torch.tensor([100.0, 100.0, -100.0], dtype=dtype).reshape(1, 1, 3, 1).requires_grad_()
    v = torch.tensor([2.0, 4.0, 7.0], dtype=dtype).reshape(1, 1, 3, 1).requires_grad_()
    with tiles_of("one pair"):
        o, lse, found = gradients({"q": q, "k": k, "v": v}, torch.ones(1, 1, 1, 1, dtype=dtype))
    assert o.item() == 3.0
    assert lse.item() == pytest.approx(1e4 + np.log(2.0), rel=1e-6)
    assert found["q"].item() == 0.0
    assert found["k"].flatten().tolist() == pytest.approx([-50.0, 50.0, 0.0])
    assert found["v"].flatten().tolist() == [0.5, 0.5, 0.0]


@pytest.mark.parametrize("options", [{}, {"softcap": 2.0}, {"softcap": 2.0, "softcap_on": "product"}])
def test_a_score_beyond_the_range_of_its_type_is_refused(options):
    q = torch.full((1, 1, 1, 1), 1e30)
    k = torch.tensor([0.0, -1e30, 0.0]).reshape(1, 1, 3, 1)
    told = r"scale q.k: expected numbers within the range of floats, got -inf at index \(0, 0, 0, 1\)"
    with pytest.raises(RangeError, match=told):
        layers.attention(q, k, k, scale=1.0, **options, impl="tiled")
    mask = torch.tensor([True, False, True])
    assert layers.attention(q, k, k, scale=1.0, mask=mask, **options, impl="tiled").item() == 0.0
    near, bias = torch.full((1, 1, 1, 1), 3e38), torch.tensor([0.0, 0.0, 3e38])
    if "softcap_on" not in options:
        told = r"scores: expected numbers within the range of floats, got inf at index \(0, 0, 0, 2\)"
        with pytest.raises(RangeError, match=told):
            layers.attention(near, torch.ones_like(k), k, bias, scale=1.0, **options, impl="tiled")


def test_scores_too_large_for_base_two_are_computed_with_base_e():
    """3e38 log2(e) is beyond the range of float32."""
    q, k = torch.full((1, 1, 2, 1), 3e38, requires_grad=True), torch.ones(1, 1, 3, 1, requires_grad=True)
    v = random(1, 1, 3, 2).float()
    o, lse = layers.attention(q, k, v, scale=1.0, return_lse=True, impl="tiled")
    torch.testing.assert_close(o, v.mean(dim=2, keepdim=True).expand(1, 1, 2, 2))
    assert lse.flatten().tolist() == pytest.approx([3e38] * 2)


def scores_of(size, N=2, M=300, D=4):
    """Return q and k whose scores at scale 1 are minus or plus this size, and values for them."""
    q, k = torch.ones(1, 1, N, D), torch.full((1, 1, M, D), size / D)
    q[:, :, 0] = -1.0
    return q, k, random(1, 1, M, 3).float()


def test_scores_are_shifted_unless_they_and_the_values_are_moderate():
    scale = torch.tensor(1.0)

    def shifts(size, values=1.0, **more):
        q, k, v = scores_of(size)
        inputs = Inputs(q, k, v * values, scale, *[None] * 5)._replace(**more)
        return overflow.base_for(inputs, Options()).shifts

    for size, values in ((0.0, 1.0), (22.1, 1.0), (22.1, 1e15), (22.1, 1e-15)):
        assert not shifts(size, values)
    for size, values in ((22.3, 1.0), (1e30, 1.0), (3e38, 1.0), (1.0, 1e20), (1.0, 1e-20), (1.0, 0.0)):
        assert shifts(size, values)
    for name in ("diagonals", "bias"):
        assert not shifts(20.0, **{name: torch.tensor([[2.0, -torch.inf]])})
        assert shifts(20.0, **{name: torch.tensor([[-2.3, 0.0]])})
    # Squares below the range of floats count as what they may be.
    assert overflow._longest(torch.full((1, 4), 1e-30)) >= 2e-30
    assert overflow._longest(torch.zeros(0, 4)) == 0.0


@pytest.mark.parametrize("size", [22.1, 22.3])
@pytest.mark.parametrize("values", [1e-36, 1e-20, 1.0, 1e20, 1e36])
def test_values_of_any_size_are_averaged(size, values):
    """On either side of the bound for scores, and with cotangents as small or large as the values are not."""
    q, k, v = (x.requires_grad_() for x in scores_of(size))
    by_o = torch.full((1, 1, 2, 3), 1.0 / values)
    want = layers.attention(q, k, v, scale=1.0)
    wanted = torch.autograd.grad(want, (q, k, v), torch.ones_like(by_o))
    large = (v.detach() * values).requires_grad_()
    o = layers.attention(q, k, large, scale=1.0, impl="tiled")
    dq, dk, dv = torch.autograd.grad(o, (q, k, large), by_o)
    for got, one in zip((o / values, dq, dk, dv * values), (want, *wanted), strict=True):
        torch.testing.assert_close(got, one, rtol=1e-4, atol=1e-5)


def test_heads_of_a_module_must_fit():
    case = Shared()
    with pytest.raises(ShapeError, match=r"bias: expected a shape that broadcasts to .* got \(3, 11, 13\)"):
        layers.attention(**case.inputs(), bias=RelativeBias(3, T5Map()), impl="tiled")


def eager(q, k, v, table, row):
    """Return attention with a gathered bias, every step in the type of the inputs."""
    s = q @ k.mT * q.shape[-1] ** -0.5 + table[:, row]
    return s.softmax(dim=-1) @ v


@pytest.mark.parametrize("dtype", NAMES)
def test_low_precision_is_within_its_budget(dtype):
    case = Shared((1, 2, 2, 150, 170, 16, 16), OffsetMap(170))
    row = torch.tensor(case.map(150, 170))
    bias, do = case.module().to(dtype), case.cotangents()[0].to(dtype)
    low = {name: x.to(dtype).requires_grad_() for name, x in case.inputs().items()}
    with tiles_of("all"):
        o = layers.attention(**low, bias=bias, impl="tiled")
        got = (o, *torch.autograd.grad(o, (*low.values(), bias.table), do))
    runs = []
    for kind in (dtype, torch.float64):
        leaves = [x.detach().to(kind).requires_grad_() for x in (*low.values(), bias.table)]
        o = eager(*leaves, row)
        runs.append((o, *torch.autograd.grad(o, leaves, do.to(kind))))
    for name, *three in zip(("o", "dq", "dk", "dv", "dtable"), got, *runs, strict=True):
        kind = "forward" if name == "o" else "backward"
        error_budget(name, *three, dtype=NAMES[dtype], kind=kind)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sixteen_bits_are_rounded_once(dtype):
    case = tiled_cases.Shared((2, 4, 2, 33, 37, 8, 8))
    low = {name: x.to(dtype).requires_grad_() for name, x in case.inputs().items()}
    exact = {name: x.detach().double().requires_grad_() for name, x in low.items()}
    bias, do = case.module().to(dtype), case.cotangents()[0].to(dtype)
    wide = case.module()
    wide.table.data = bias.table.detach().double()
    found = []
    for inputs, module, by_o in ((low, bias, do), (exact, wide, do.double())):
        with tiles_of("small"):
            o = layers.attention(**inputs, bias=module, impl="tiled")
            found.append((o, *torch.autograd.grad(o, (*inputs.values(), module.table), by_o)))
    for name, got, want in zip(("o", "q", "k", "v", "table"), *found, strict=True):
        assert got.dtype == dtype
        band = 1.001 * UNIT_ROUNDOFF[NAMES[dtype]] * want.abs() + 2e-6 * want.abs().max()
        assert ((got.double() - want).abs() <= band).all(), name
