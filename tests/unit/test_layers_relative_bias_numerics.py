"""RelativeBias: 16 bits, repeated runs, second derivatives, transforms of torch, and bad arguments."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch

from attngrad import layers, reference
from attngrad.checks import UNIT_ROUNDOFF, check_close, error_budget
from attngrad.layers import AlibiMap, BeitMap, ClipMap, OffsetMap, RelativeBias, T5Map, WindowMap
from attngrad.notation import DtypeError, RangeError, ShapeError
from attngrad.offsets import relative_offset

H, N, M = 3, 5, 7
HALF = {"float16": torch.float16, "bfloat16": torch.bfloat16}


def random(*shape, seed=0, dtype=torch.float64):
    """Return a random tensor."""
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape)).to(dtype)


def made(map, heads=H, dtype=torch.float64):
    """Return a module whose table is random."""
    bias = RelativeBias(heads, map, dtype=dtype)
    with torch.no_grad():
        bias.table.copy_(random(heads, bias.R))
    return bias


def plain_sums(row, dbias, R, dtype):
    """Return the gradient of a table to which the pairs of each query are added in a type, (H, R)."""
    total = torch.zeros(len(dbias), R, dtype=dtype)
    for i, at in enumerate(torch.tensor(row)):
        total += torch.zeros_like(total).index_add_(1, at, dbias[:, i].to(dtype))
    return total


@pytest.mark.parametrize("dtype", HALF)
def test_sums_of_16_bits_do_not_stall(dtype):
    """20,000 pairs of 0.001 share a row. Added up one by one in 16 bits, they stop at 4 or at 0.5."""
    bias = RelativeBias(1, ClipMap(0), dtype=HALF[dtype])
    one = torch.full((1, 20000, 1), 1e-3, dtype=HALF[dtype])
    bias(20000, 1).backward(one)
    exact = 2e4 * float(one[0, 0, 0])
    assert bias.table.grad.dtype == HALF[dtype]
    assert abs(float(bias.table.grad) - exact) <= 1.1 * UNIT_ROUNDOFF[dtype] * exact
    stalled = plain_sums(ClipMap(0)(20000, 1), one, 1, HALF[dtype])
    assert float(stalled) == {"float16": 4.0, "bfloat16": 0.5}[dtype]


@pytest.mark.parametrize("dtype", HALF)
def test_in_16_bits_the_table_gets_a_float32_sum_rounded_once(dtype):
    bias, dbias = made(T5Map(), dtype=HALF[dtype]), random(H, 200, 300, dtype=HALF[dtype], seed=1)
    out, row = bias(200, 300), T5Map()(200, 300)
    assert out.dtype == HALF[dtype]
    assert torch.equal(out, bias.table[:, torch.tensor(row)])
    out.backward(dbias)
    exact = reference.table_bias_vjp(row, dbias.double().numpy(), 32)
    single = plain_sums(row, dbias, 32, torch.float32).double().numpy()
    bound = UNIT_ROUNDOFF[dtype] * np.abs(exact) + 3.0 * np.abs(single - exact).max()
    assert (np.abs(bias.table.grad.double().numpy() - exact) <= bound).all()
    half = plain_sums(row, dbias, 32, HALF[dtype]).double().numpy()
    assert (np.abs(half - exact) > bound).any()


@pytest.mark.parametrize("dtype", HALF)
def test_a_bias_in_float32_hands_its_cotangents_over_unrounded(dtype):
    bias, dbias = made(T5Map(), dtype=HALF[dtype]), random(H, 60, 90, dtype=torch.float32, seed=1)
    exact = reference.table_bias_vjp(T5Map()(60, 90), dbias.double().numpy(), 32)
    errors = []
    for wanted in (torch.float32, None):
        bias.table.grad = None
        out = bias(60, 90, dtype=wanted)
        assert out.dtype == (wanted or HALF[dtype])
        out.backward(dbias.to(out.dtype))
        errors.append(np.abs(bias.table.grad.double().numpy() - exact).max())
    assert errors[0] <= UNIT_ROUNDOFF[dtype] * np.abs(exact).max() * 1.001
    assert errors[1] > errors[0]
    assert RelativeBias(H, AlibiMap(H))(N, M, dtype=torch.float64).dtype == torch.float64


def test_in_float32_the_error_is_that_of_a_plain_run():
    bias, dbias = made(T5Map(), dtype=torch.float32), random(H, 100, 130, dtype=torch.float32, seed=1)
    bias(100, 130).backward(dbias)
    row = torch.tensor(T5Map()(100, 130))
    table = bias.table.detach().clone().requires_grad_()
    (plain,) = torch.autograd.grad(table[:, row], table, dbias)
    exact = reference.table_bias_vjp(row.numpy(), dbias.double().numpy(), 32)
    error_budget("dtable", bias.table.grad, plain, exact, dtype="float32", axis=-1)


def test_slopes_of_16_bits_multiply_exact_distances():
    """A distance of 2049 is no float16, its product with a slope is rounded once."""
    bias = RelativeBias(2, AlibiMap(2, learned=True), dtype=torch.float16)
    out = bias(1, 2050)
    exact = -bias.slopes.detach().double()[:, None] * torch.arange(2049, -1, -1)
    assert torch.equal(out[:, 0].double(), exact.to(torch.float16).double())
    dbias = (0.1 * random(2, 1, 2050, seed=1)).to(torch.float16)
    out.backward(dbias)
    want = reference.alibi_bias_vjp(relative_offset(1, 2050), dbias.double().numpy())
    np.testing.assert_allclose(bias.slopes.grad.double().numpy(), want, rtol=1.1 * UNIT_ROUNDOFF["float16"])


@pytest.mark.parametrize("threads", [1, 2])
def test_repeated_runs_agree_in_every_bit(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        bias, dbias = made(T5Map(), dtype=torch.float32), random(H, 300, 400, dtype=torch.float32, seed=1)
        found = [torch.autograd.grad(bias(300, 400), bias.table, dbias)[0] for _ in range(8)]
        assert all(torch.equal(x, found[0]) for x in found[1:])
        # The same pairs in another order: what a sum without a fixed order may return.
        flipped = torch.autograd.grad(bias(300, 400).flip(1, 2), bias.table, dbias.flip(1, 2))[0]
        assert torch.equal(flipped, found[0])
        row = torch.tensor(T5Map()(300, 400)).flip(0, 1)
        other = torch.zeros(H, 32).index_add_(1, row.flatten(), dbias.flip(1, 2).flatten(1))
        assert not torch.equal(other, found[0])
    finally:
        torch.set_num_threads(before)


CASES = {"table": (ClipMap(2), "table"), "slopes": (AlibiMap(H, True), "slopes")}


def through_attention(name, n=3, m=4):
    """Return a function of the parameter of a module: the output of attention with its bias."""
    map, parameter = CASES[name]
    bias = RelativeBias(H, map, dtype=torch.float64)
    q, k, v = random(1, H, n, 2), random(1, H, m, 2, seed=1), random(1, H, m, 2, seed=2)

    def f(x):
        return layers.attention(q, k, v, torch.func.functional_call(bias, {parameter: x}, (n, m)))

    return f, 0.3 * random(*getattr(bias, parameter).shape, seed=3)


@pytest.mark.parametrize("name", CASES)
def test_first_and_second_derivatives_are_those_of_differences(name):
    f, x = through_attention(name)
    x.requires_grad_()
    assert torch.autograd.gradcheck(f, x, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, x)


@pytest.mark.parametrize("name", CASES)
def test_transforms_of_torch_agree(name):
    f, x = through_attention(name)
    u = random(*f(x).shape, seed=4)
    jacobian = torch.func.jacrev(f)(x)
    check_close("jacfwd", torch.func.jacfwd(f)(x), jacobian, terms=jacobian.abs().max())
    batch = torch.stack([x, 2.0 * x, -x])
    each = torch.stack([torch.func.vjp(f, y)[1](u)[0] for y in batch])
    got = torch.func.vmap(lambda y: torch.func.vjp(f, y)[1](u)[0])(batch)
    check_close("vmap", got, each, terms=each.abs().max())


COMPILED = """
    import torch
    from attngrad.layers import AlibiMap, RelativeBias, T5Map, WindowMap

    sizes, window = [(5, 7), (6, 7), (6, 9, 2), (5, 7)], [(6, 6)]
    for map, wanted in ((T5Map(), sizes), (AlibiMap(3, True), sizes[:2]), (WindowMap(2, 3), window)):
        bias = RelativeBias(3, map, dtype=torch.float64)
        (parameter,) = bias.parameters()
        torch.nn.init.normal_(parameter)
        torch.compiler.reset()
        compiled = torch.compile(bias, backend="aot_eager", fullgraph=True)
        for size in wanted:
            want, got = bias(*size), compiled(*size)
            assert torch.equal(got, want), (map, size)
            u = torch.randn_like(want)
            grads = [torch.autograd.grad(out, parameter, u)[0] for out in (got, want)]
            torch.testing.assert_close(*grads, rtol=1e-12, atol=1e-12)
            assert grads[1].abs().max() > 0.01

    # Traced like other code, rows fail: the compiler must take them as constants.
    del RelativeBias._rows._dynamo_marked_constant
    torch.compiler.reset()
    try:
        torch.compile(RelativeBias(3, T5Map()), backend="aot_eager", fullgraph=True)(5, 7)
    except torch._dynamo.exc.Unsupported:
        print("compiled")
"""


def test_modules_compile_into_one_graph_for_every_size():
    """In a process of its own: the run-time checker of these tests cannot be compiled."""
    code = textwrap.dedent(COMPILED)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout == "compiled\n"


def own(value):
    """Return a map that gives every pair the same row."""
    return lambda N, M, query_start: np.full((N, M), value)


BAD = {
    "heads": (lambda: RelativeBias(0, ClipMap(2)), RangeError, "heads: .* at least 1, got 0"),
    "heads: float": (lambda: RelativeBias(2.0, ClipMap(2)), DtypeError, "heads: .* got float 2.0"),
    "map": (
        lambda: RelativeBias(2, "t5"),
        DtypeError,
        "map: expected a map of attngrad.offsets, or .* got str",
    ),
    "no rows": (lambda: RelativeBias(2, own(0)), DtypeError, "rows: expected the number of rows .* got None"),
    "rows twice": (
        lambda: RelativeBias(2, ClipMap(2), rows=6),
        RangeError,
        r"rows: expected None, since ClipMap\(max_distance=2\) has R = 5, got 6",
    ),
    "rows of slopes": (
        lambda: RelativeBias(2, AlibiMap(2), rows=2),
        RangeError,
        "rows: .* has R = None, got 2",
    ),
    "zero rows": (lambda: RelativeBias(2, own(0), rows=0), RangeError, "rows: .* at least 1, got 0"),
    "heads of slopes": (
        lambda: RelativeBias(2, AlibiMap(4)),
        RangeError,
        r"heads: expected 4 as in AlibiMap\(heads=4, learned=False\), got 2",
    ),
    "dtype": (
        lambda: RelativeBias(2, ClipMap(2), dtype=torch.int32),
        DtypeError,
        "dtype: .* got torch.int32",
    ),
    "dtype: text": (
        lambda: RelativeBias(2, ClipMap(2))(2, 2, dtype="float32"),
        DtypeError,
        "dtype: .*'float32'",
    ),
    "row beyond": (
        lambda: RelativeBias(2, own(7), rows=7)(2, 3),
        RangeError,
        r"rows of the map: expected rows from 0 to 6, since the table has R = 7, got 7 at index \(0, 0\)",
    ),
    "negative row": (
        lambda: RelativeBias(2, own(-1), rows=7)(2, 3),
        RangeError,
        "rows of the map: .* got -1 at",
    ),
    "float rows": (
        lambda: RelativeBias(2, own(0.0), rows=7)(2, 3),
        DtypeError,
        "rows of the map: .* float64",
    ),
    "rows of torch": (
        lambda: RelativeBias(2, lambda *_: torch.zeros(2, 3), rows=7)(2, 3),
        DtypeError,
        "rows of the map: expected an array of integers, got float32",
    ),
    "list of rows": (
        lambda: RelativeBias(2, lambda *_: [[0]], rows=7)(1, 1),
        DtypeError,
        "rows of the map: expected a NumPy array of integers, got list",
    ),
    "shape of rows": (
        lambda: RelativeBias(2, lambda N, M, _: np.zeros((M, N), int), rows=7)(2, 3),
        ShapeError,
        r"rows of the map: expected shape \(2, 3\) as for N and M, got \(3, 2\)",
    ),
    "long sequence": (
        lambda: RelativeBias(2, OffsetMap(3))(4, 4),
        RangeError,
        r"offset: expected offsets from -2 to 2, .* got 3 at index \(0, 3\)",
    ),
    "other window": (
        lambda: RelativeBias(2, WindowMap(2, 3))(4, 4),
        ShapeError,
        r"WindowMap\(2, 3\): .* = 6",
    ),
    "size": (lambda: RelativeBias(2, ClipMap(2))(-1, 4), RangeError, "N: .* at least 0, got -1"),
    "start": (lambda: RelativeBias(2, ClipMap(2))(1, 4, 0.5), DtypeError, "query_start: .* got float 0.5"),
    "offset: axes": (
        lambda: RelativeBias(2, ClipMap(2)).at(np.zeros(3, int)),
        ShapeError,
        r"offset: expected two axes \(N, M\), got shape \(3,\)",
    ),
    "offset: floats": (
        lambda: RelativeBias(2, ClipMap(2)).at(torch.zeros(2, 3)),
        DtypeError,
        "offset: expected an array of integers, got float32",
    ),
    "offset of a window": (
        lambda: RelativeBias(2, BeitMap(2, 3)).at(np.zeros((2, 3), int)),
        DtypeError,
        r"map: expected OffsetMap, ClipMap, T5Map or AlibiMap, got BeitMap\(height=2, width=3\)",
    ),
    "checkpoint": (
        lambda: RelativeBias(2, ClipMap(2)).load_state_dict(RelativeBias(2, ClipMap(3)).state_dict()),
        RuntimeError,
        "size mismatch for table",
    ),
}


@pytest.mark.usefixtures("raw_errors")
@pytest.mark.parametrize("case", BAD)
def test_bad_arguments_are_named(case):
    call, error, message = BAD[case]
    with pytest.raises(error, match=message):
        call()
