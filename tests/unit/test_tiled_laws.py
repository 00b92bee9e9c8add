"""Attention in tiles: what is computed and kept and what is not, repeated runs, strides, and refusals."""

import subprocess
import sys
import textwrap
from types import SimpleNamespace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

import attngrad
from attngrad import layers, tiled
from attngrad.checks import check_close
from attngrad.layers import ClipMap, OffsetMap, RelativeBias, T5Map, WindowMap
from attngrad.notation import RangeError

from .tiled_cases import Shared, random, tiles_of

CASE = Shared((2, 4, 2, 23, 29, 8, 6), OffsetMap(40))


def leaves(case=CASE, dtype=torch.float64):
    """Return q, k, v and the bias of a case, to be trained."""
    inputs = {name: x.to(dtype).requires_grad_() for name, x in case.inputs().items()}
    return inputs | {"bias": case.module().to(dtype)}


class Products(TorchDispatchMode):
    """Counts products of matrices."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += function.overloadpacket.__name__ in ("bmm", "baddbmm", "baddbmm_", "mm", "addmm")
        return function(*args, **(kwargs or {}))


# Scores are computed again, and each input takes one or two products more.
PRODUCTS = {"q": 3, "k": 3, "v": 2, "bias": 2, "scale": 3, "sink": 0}


@pytest.mark.parametrize("name", PRODUCTS)
def test_one_trainable_input_gets_its_gradient_for_no_more_products_than_it_needs(name):
    inputs = CASE.inputs() | {"bias": CASE.module(), "scale": torch.tensor(0.4, dtype=torch.float64)}
    inputs["sink"] = random(4, seed=9)
    wanted = inputs["bias"].table if name == "bias" else inputs[name]
    do, dlse = CASE.cotangents()
    found = []
    for trained in (PRODUCTS, [name]):
        for key, x in inputs.items():
            (x.table if key == "bias" else x).requires_grad_(key in trained)
        o, lse = layers.attention(**inputs, return_lse=True, impl="tiled")
        with Products() as products:
            found.append(torch.autograd.grad((o, lse), wanted, (do, dlse))[0])
    assert torch.equal(*found)
    assert found[0].abs().max() > 0.01
    # A group of two heads is computed in two blocks.
    assert products.count == 2 * PRODUCTS[name]


def test_all_inputs_together_take_seven_products():
    inputs = leaves()
    with Products() as products:
        o = layers.attention(**inputs, impl="tiled")
        assert products.count == 2 * 2
        o.backward(CASE.cotangents()[0])
    assert products.count == 2 * 7


def test_nothing_is_recorded_where_nothing_is_trainable():
    o = layers.attention(**CASE.inputs(), impl="tiled")
    assert not o.requires_grad
    with torch.no_grad():
        assert not layers.attention(**leaves(), impl="tiled").requires_grad


class Largest(TorchDispatchMode):
    """Notes the largest memory behind any result, in bytes."""

    def __init__(self):
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for x in out if isinstance(out, tuple | list) else (out,):
            if isinstance(x, torch.Tensor):
                self.bytes = max(self.bytes, x.untyped_storage().nbytes())
        return out


def largest(impl, n, **options):
    """Return the largest memory behind any tensor of a forward and a backward pass, in numbers of float32."""
    case = Shared((1, 2, 1, n, n, 8, 8), T5Map(), options=options)
    inputs, cotangents = leaves(case, torch.float32), [x.float() for x in case.cotangents()]
    with Largest() as noted:
        o, lse = layers.attention(**inputs, **options, return_lse=True, impl=impl)
        torch.autograd.backward((o, lse), cotangents)
    return noted.bytes / 4


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"softcap": 2.0}, {"sink": torch.zeros(2)}])
def test_nothing_is_as_large_as_the_pairs(options):
    n = 1000
    with tiles_of("middle"):
        assert largest("tiled", n, **options) <= 2 * n * 8
    assert largest("closed", n, **options) >= 2 * n * n


def test_a_longer_sequence_takes_no_larger_tiles():
    with tiles_of("middle"):
        assert largest("tiled", 1200) <= 2 * largest("tiled", 600)


def test_a_causal_mask_saves_work():
    case = Shared((1, 2, 2, 512, 512, 4, 4), T5Map())
    inputs, counts = leaves(case), []
    for causal in (False, True):
        with tiles_of("middle"), FlopCounterMode(display=False) as counter:
            layers.attention(**inputs, causal=causal, impl="tiled").sum().backward()
        counts.append(counter.get_total_flops())
    assert counts[1] <= 0.6 * counts[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_repeated_runs_agree_in_every_bit(dtype):
    case = Shared((2, 4, 2, 70, 90, 16, 16), T5Map())
    inputs = leaves(case, dtype)
    runs = []
    for _ in range(3):
        torch.empty(2**18).fill_(torch.nan)  # what memory holds before must not matter
        o, lse = layers.attention(**inputs, causal=True, return_lse=True, impl="tiled")
        wanted = [inputs["q"], inputs["k"], inputs["v"], inputs["bias"].table]
        do, dlse = case.cotangents()
        runs.append((o, lse, *torch.autograd.grad((o, lse), wanted, (do.to(dtype), dlse.float()))))
    assert all(torch.equal(x, y) for run in runs[1:] for x, y in zip(run, runs[0], strict=True))


def test_a_graph_may_be_used_twice_and_inputs_stay_as_they_are():
    inputs = leaves()
    before = [x.detach().clone() for x in (*list(inputs.values())[:3], inputs["bias"].table)]
    do, dlse = (x.clone() for x in CASE.cotangents())
    o, lse = layers.attention(**inputs, return_lse=True, impl="tiled")
    wanted = [*list(inputs.values())[:3], inputs["bias"].table]
    first = torch.autograd.grad((o, lse), wanted, (do, dlse), retain_graph=True)
    second = torch.autograd.grad((o, lse), wanted, (do, dlse))
    assert all(map(torch.equal, first, second))
    assert all(map(torch.equal, (*wanted, do, dlse), (*before, *CASE.cotangents())))


def test_a_cotangent_that_does_not_come_is_zero():
    inputs = leaves()
    o, lse = layers.attention(**inputs, return_lse=True, impl="tiled")
    do, dlse = CASE.cotangents()
    wanted = (inputs["q"], inputs["bias"].table)
    by_o = torch.autograd.grad(o, wanted, do, retain_graph=True)
    by_lse = torch.autograd.grad(lse, wanted, dlse, retain_graph=True)
    both = torch.autograd.grad((o, lse), wanted, (do, dlse))
    for x, y, z in zip(by_o, by_lse, both, strict=True):
        check_close("the sum", x + y, z, terms=100.0)
        assert min(x.abs().max(), y.abs().max()) > 0.1
    o, lse = layers.attention(**inputs, return_lse=True, impl="tiled")
    assert torch.autograd.grad(lse, inputs["v"], dlse, allow_unused=True)[0].eq(0.0).all()


def test_cotangents_and_inputs_of_any_stride():
    inputs, do = leaves(), CASE.cotangents()[0]
    B, H, N, D_v = do.shape
    views = {
        "transposed": random(N, B, D_v, H).permute(1, 3, 0, 2),
        "stride 0": torch.tensor(0.3, dtype=torch.float64).expand(B, H, N, D_v),
        "every second": random(B, H, N, 2 * D_v)[..., ::2],
    }
    strided = {
        name: x.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_()
        for name, x in list(inputs.items())[:3]
    }
    assert not strided["q"].is_contiguous()
    for name, view in views.items():
        runs = []
        for tensors, by_o in ((strided, view), (inputs, view.contiguous())):
            o, lse = layers.attention(**tensors | {"bias": inputs["bias"]}, return_lse=True, impl="tiled")
            wanted = [tensors[key] for key in "qkv"]
            runs.append(torch.autograd.grad((o, lse), wanted, (by_o, by_o[..., 0])))
        for key, got, want in zip("qkv", *runs, strict=True):
            check_close(f"{name}, d{key}", got, want, terms=100.0)


def test_autocast_changes_nothing():
    inputs = leaves(dtype=torch.float32)
    runs = []
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            o = layers.attention(**inputs, impl="tiled")
            runs.append((o, *torch.autograd.grad(o.sum(), (inputs["k"], inputs["bias"].table))))
    assert all(map(torch.equal, *runs))


def test_a_second_derivative_is_refused():
    inputs = leaves()
    o = layers.attention(**inputs, impl="tiled")
    (dq,) = torch.autograd.grad(o.square().sum(), inputs["q"], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        dq.sum().backward()


def test_torch_func_grad_reaches_the_inputs():
    inputs = CASE.inputs()

    def value(q):
        return layers.attention(q, inputs["k"], inputs["v"], impl="tiled").square().sum()

    got = torch.func.grad(value)(inputs["q"])
    q = inputs["q"].requires_grad_()
    check_close("dq", got, torch.autograd.grad(value(q), q)[0], kind="equal")


def test_where_values_cannot_be_read_it_is_refused():
    q = random(3, 1, 2, 4, 4)
    told = "impl: expected 'closed' inside torch.func.vmap, .*, got 'tiled'"
    with pytest.raises(RangeError, match=told):
        torch.func.vmap(lambda q: layers.attention(q, q, q, impl="tiled"))(q)
    with pytest.raises(RangeError, match=told):
        layers.attention(*(q[0].to("meta"),) * 3, impl="tiled")


COMPILED = """
    import torch
    from attngrad import layers
    from attngrad.notation import RangeError

    try:
        attend = torch.compile(lambda q: layers.attention(q, q, q, impl="tiled"), backend="eager")
        attend(torch.ones(1, 1, 2, 2))
    except RangeError as error:
        print(error)
"""


@pytest.mark.slow
def test_inside_a_compiled_function_it_is_refused():
    """In a process of its own: the run-time checker of these tests cannot be compiled."""
    code = textwrap.dedent(COMPILED)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("impl: expected 'closed' inside torch.func.vmap, inside torch.compile,")


def one_row(N, M, query_start):
    """Return one row for all pairs."""
    return torch.zeros(N, M, dtype=torch.int64)


REFUSED = {
    "bias": {"bias": torch.zeros(4, 23, 29)},
    "bias, a map that looks at more": {"bias": RelativeBias(4, one_row, rows=1)},
    "bias_inside_scale": {"bias_inside_scale": True},
    "softcap": {"softcap": 2.0},
    "sink": {"sink": torch.zeros(4)},
    "keep": {"keep": torch.ones(23, 29, dtype=torch.bool)},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_kernels_do_not_compute_is_refused(name, monkeypatch):
    """Whether or not triton is there."""
    monkeypatch.setitem(sys.modules, "attngrad.kernels", None)
    inputs = {key: x.float() for key, x in CASE.inputs().items()}
    argument = name.partition(",")[0]
    with pytest.raises(RangeError, match=rf"{argument}: expected .* with impl='triton'; 'tiled' and"):
        layers.attention(**inputs, **REFUSED[name], impl="triton")


def test_the_kernels_are_given_what_the_layer_checked(monkeypatch):
    given = {}

    def attend(q, k, v, diagonals, **named):
        given.update(named, diagonals=diagonals)
        return layers.attention(q, k, v, causal=True, query_start=6, return_lse=True)

    kernels = SimpleNamespace(attention=attend)
    monkeypatch.setitem(sys.modules, "attngrad.kernels", kernels)
    monkeypatch.setitem(vars(attngrad), "kernels", kernels)
    inputs, bias = CASE.inputs(), CASE.module()
    mask = torch.ones(1, 1, 1, 29, dtype=torch.bool)
    options = {"mask": mask, "causal": True, "query_start": 6, "scale": 0.5}
    o, lse = layers.attention(**inputs, bias=bias, **options, return_lse=True, impl="triton")
    assert (o.shape, lse.shape) == ((2, 4, 23, 6), (2, 4, 23))
    check_close("diagonals", given["diagonals"], bias.diagonals(23, 29, 6), kind="equal")
    assert given["mask"] is mask
    assert (given["causal"], given["query_start"], given["scale"].item()) == (True, 6, 0.5)
    layers.attention(**inputs, impl="triton")
    assert (given["diagonals"], given["mask"], given["causal"], given["query_start"]) == (
        None,
        None,
        False,
        None,
    )


def test_without_triton_the_kernels_say_how_to_get_it():
    code = "import sys; sys.modules['triton'] = None; import torch; from attngrad import layers; "
    code += "layers.attention(*[torch.ones(1, 1, 1, 16)] * 3, impl='triton')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "attngrad.kernels needs triton, which the extra attngrad[triton] brings" in run.stderr


def test_score_mod_adds_the_bias_to_scores():
    for map, n, m in ((T5Map(8, 6), 5, 7), (ClipMap(2), 6, 6), (WindowMap(2, 3), 6, 6)):
        for heads in (1, 3):
            bias = Shared((1, heads, 1, n, m, 1, 1), map).module()
            score = random(2, 3, n, m)
            b, h, i, j = torch.meshgrid(*map_sizes(score), indexing="ij")
            got = bias.score_mod(n, m)(score, b, h, i, j)
            check_close(f"{map}", got, score + bias(n, m), kind="equal")
            by_mod = torch.autograd.grad(got.square().sum(), bias.table)[0]
            by_pairs = torch.autograd.grad((score + bias(n, m)).square().sum(), bias.table)[0]
            check_close("dtable", by_mod, by_pairs, terms=100.0)


FLEX = """
    import torch
    from torch.nn.attention.flex_attention import flex_attention
    from attngrad import layers

    for heads in (1, 3):
        for map, n, m in ((layers.T5Map(8, 6), 20, 24), (layers.WindowMap(2, 3), 6, 6)):
            bias = layers.RelativeBias(heads, map).requires_grad_(False)
            torch.nn.init.normal_(bias.table)
            q, k, v = torch.randn(2, 3, n, 16), torch.randn(2, 3, m, 16), torch.randn(2, 3, m, 16)
            o = flex_attention(q, k, v, score_mod=bias.score_mod(n, m))
            torch.testing.assert_close(o, layers.attention(q, k, v, bias))
    print("all agree")
"""


def test_flex_attention_takes_it():
    """In a process of its own: the run-time checker of these tests cannot be traced."""
    code = textwrap.dedent(FLEX)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "all agree\n"


def map_sizes(x):
    """Return the indices along each axis."""
    return [torch.arange(n) for n in x.shape]


def test_options_of_the_function_below_the_layer():
    q, k, v = (x for x in CASE.inputs().values())
    scale = torch.tensor(0.4, dtype=torch.float64)
    o, lse = tiled.attention(q, k, v, scale, options=tiled.Options(query_start=6))
    want = layers.attention(q, k, v, scale=0.4, causal=True, return_lse=True)
    check_close("o", o, want[0], terms=10.0)
    check_close("lse", lse, want[1], terms=10.0)
