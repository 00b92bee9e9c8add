"""Tables, buckets and slopes against those of transformers: T5, Swin, BEiT and BLOOM, all in float64.

Each attention layer is taken alone, with random weights and inputs: LayerNorm and softmax in float32, which
models have around and inside, would hide the last nine digits.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import BeitConfig, BloomConfig, SwinConfig
from transformers.models.beit.modeling_beit import BeitAttention, BeitRelativePositionBias
from transformers.models.bloom import modeling_bloom
from transformers.models.swin.modeling_swin import SwinAttention, SwinRelativePositionBias
from transformers.models.t5.modeling_t5 import T5Attention

from attngrad import layers, reference
from attngrad.checks import check_close
from attngrad.layers import BeitMap, RelativeBias, T5Map, WindowMap
from attngrad.mistakes import mistake
from attngrad.offsets import (
    alibi_slopes,
    beit_index,
    causal_mask,
    relative_offset,
    t5_bucket,
    window_index_2d,
)

from .test_transformers_t5 import H, Run, bias_gradient, check_dtable, run

FAR = np.concatenate([np.arange(-5000, 5001), [-(2**20), -99999, 99999, 2**20]])
USUAL = [(32, 128), (32, 64), (32, 256), (32, 512), (32, 20000), (64, 128), (64, 256), (16, 128), (16, 64),
         (8, 16), (12, 10), (4, 8), (128, 1024), (256, 4096)]  # fmt: skip


def buckets_of_t5(offset, num_buckets=32, max_distance=128, bidirectional=True):
    """Return the buckets of offsets by T5's own function."""
    own = T5Attention._relative_position_bucket
    return own(torch.tensor(offset), bidirectional, num_buckets, max_distance).numpy()


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("sizes", USUAL, ids=str)
def test_buckets_are_those_of_t5(sizes, bidirectional):
    got = t5_bucket(FAR, *sizes, bidirectional)
    assert got.tolist() == buckets_of_t5(FAR, *sizes, bidirectional).tolist()
    if sizes == (32, 128) and bidirectional:
        wrong = mistake("t5-bucket-unclamped").function(FAR)
        assert np.abs(FAR[wrong != got]).min() == 128


def differing(buckets: int, last: int) -> list[int]:
    """Return the distances to which T5 gives another bucket; require that float32 explains each."""
    distance = np.arange(last + 1)
    got = t5_bucket(-distance, buckets, last, False)
    own = buckets_of_t5(-distance, buckets, last, False)
    exact, L = buckets // 2, buckets - buckets // 2
    found = distance[got != own].tolist()
    for n in found:
        u = L * math.log(n / exact) / math.log(last / exact)
        assert abs(u - round(u)) < 1e-4, (buckets, last, n)
        assert abs(got[n] - own[n]) == 1, (buckets, last, n)
    return found


def test_buckets_of_other_sizes_differ_where_a_float32_falls_on_the_other_side_of_an_edge():
    """By one bucket, at one distance of few sizes: those below were found among 20,000."""
    sizes = [(b, last) for b in range(5, 80, 6) for last in range(b // 2 + 1, 1000, 43)]
    assert sum(bool(differing(*size)) for size in sizes) < len(sizes) / 50
    known = {(32, 939): 728, (34, 991): 236, (46, 164): 107, (48, 81): 54, (58, 282): 119, (70, 974): 666}
    found = {size: differing(*size) for size in known}
    assert all(set(distances) <= {known[size]} for size, distances in found.items())
    assert any(found.values())


def test_an_edge_that_float32_misses():
    """log(54 / 24) / log(81 / 24) is 2 / 3, so that distance 54 begins bucket 24 + 16."""
    offset = np.array([-55, -54, -53])
    assert t5_bucket(offset, 48, 81, False).tolist() == [40, 40, 39]
    assert buckets_of_t5(offset, 48, 81, False).tolist() == [40, 39, 39]


def test_in_bfloat16_buckets_begin_elsewhere():
    distance = torch.arange(8, 128)
    u = (torch.log(distance.bfloat16() / 8) / math.log(16) * 8).long().numpy()
    differing = distance.numpy()[8 + u != t5_bucket(-distance.numpy())]
    assert differing.tolist() == [16, 32, 90]
    assert (8 + u)[16 - 8] == 9


@pytest.mark.parametrize("mode", ["bidirectional", "causal", "padded"])
def test_the_module_gets_the_gradient_of_t5(mode):
    """A table that two layers share, with the bias computed once and passed on."""
    ran: Run = run(mode)
    assert T5Map(12, 10, mode != "causal")(13, 13).tolist() == ran.bucket.tolist()
    bias = RelativeBias(H, T5Map(12, 10, mode != "causal"), dtype=torch.float64)
    with torch.no_grad():
        bias.table.copy_(torch.tensor(ran.table.T))
    passed, outputs = bias(13, 13), []
    check_close("bias", passed, ran.bias, kind="equal")
    for layer in ran.layers:
        q, k, v = (torch.tensor(x) for x in (layer.q, layer.k, layer.v))
        outputs.append(layers.attention(q, k, v, passed, scale=1.0, mask=torch.tensor(ran.mask)))
    torch.autograd.backward(outputs, [torch.tensor(layer.do) for layer in ran.layers])
    check_dtable(ran, bias.table.grad.T)
    dbias = np.stack([bias_gradient(ran, layer) for layer in ran.layers])
    with pytest.raises(AssertionError, match="exceeds"):
        check_dtable(ran, mistake("table-vjp-last-layer").function(ran.bucket, dbias, 12).T)


def randomize(module: torch.nn.Module, seed: int) -> torch.nn.Module:
    """Return a module in float64 whose parameters are all random."""
    rng = np.random.default_rng(seed)
    module = module.double().eval()
    with torch.no_grad():
        for weight in module.parameters():
            weight.copy_(torch.tensor(rng.standard_normal(weight.shape) / math.sqrt(weight.shape[-1])))
    return module


def recorded(module: torch.nn.Module, names: list[str], into: dict[str, torch.Tensor]) -> None:
    """Keep what leaves the projections of a layer, and what enters the last one, under the name o."""
    for name in names[:-1]:
        getattr(module, name).register_forward_hook(lambda m, x, y, name=name: into.update({name: y}))
    getattr(module, names[-1]).register_forward_pre_hook(lambda m, x: into.update(o=x[0]))


def drawn(*shape: int, seed: int) -> torch.Tensor:
    """Return a random tensor."""
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape))


def by_heads(x: torch.Tensor, heads: int) -> np.ndarray:
    """Return (B, N, H D) as (B, H, N, D)."""
    x = x.detach().numpy()
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def absolute_ds(p: np.ndarray, do: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return the sum of the absolute terms of which each entry of the scores' cotangent is made."""
    dp = np.abs(do) @ np.abs(v).swapaxes(-1, -2)
    return p * (dp + (p * dp).sum(axis=-1, keepdims=True))


PROJECTIONS = ["q_proj", "k_proj", "v_proj", "o_proj"]


@dataclass(frozen=True)
class Table:
    """A table's gradient by transformers, (H, R); our gradient of the bias; the absolute terms of it."""

    own: np.ndarray
    dbias: np.ndarray
    absolute: np.ndarray

    def check(self, row: np.ndarray, reduce: Callable = reference.table_bias_vjp) -> None:
        """Require that our gradient of the table, by these rows, is that of transformers."""
        R = self.own.shape[-1]
        terms = reference.table_bias_vjp(row, self.absolute, R)
        check_close("relative_position_bias_table.grad", reduce(row, self.dbias, R), self.own, terms=terms)


def vision(
    layer: torch.nn.Module,
    table: torch.nn.Parameter,
    given: tuple[int, ...],
    row: np.ndarray,
    bias: torch.Tensor | None = None,
    mask: np.ndarray | float = 0.0,
) -> Table:
    """Run an attention layer and ours, with the same table and a mask that is added to the bias."""
    heads, kept = table.shape[1], {}
    recorded(layer, PROJECTIONS, kept)
    x, u = drawn(*given, seed=5), drawn(*given, seed=6)
    layer(x, attention_mask=bias)[0].backward(u)
    do = by_heads(u @ layer.o_proj.weight, heads)
    q, k, v = (by_heads(kept[name], heads) for name in PROJECTIONS[:3])
    ours = reference.table_bias(table.detach().numpy().T, row) + mask
    saved = reference.attention(q, k, v, ours)
    check_close("o", saved.o, by_heads(kept["o"], heads), terms=saved.p @ np.abs(v))
    dbias = reference.attention_vjp(saved, do).dbias
    return Table(table.grad.numpy().T, dbias, absolute_ds(saved.p, do, v))


@pytest.mark.parametrize("shifted", [False, True], ids=["windows", "shifted windows"])
def test_the_gradient_of_swins_table(shifted):
    """With a mask of -100 for pairs of two regions of a shifted window, which Swin adds to the bias."""
    size, heads, windows, B = 3, 2, 4, 3
    config = SwinConfig(qkv_bias=True, attention_probs_dropout_prob=0.0, attn_implementation="sdpa")
    layer = randomize(SwinAttention(config, 10, heads, size), seed=1)
    table = layer.relative_position_bias.relative_position_bias_table
    with torch.no_grad():
        table.copy_(drawn(25, heads, seed=2))
    row, given = window_index_2d(size, size), (B * windows, 9, 10)
    if shifted:
        region = np.random.default_rng(3).integers(0, 2, (windows, 9))
        mask = np.where(region[:, :, None] == region[:, None, :], 0.0, -100.0)
        ran = vision(layer, table, given, row, torch.tensor(mask), np.tile(mask, (B, 1, 1))[:, None])
    else:
        ran = vision(layer, table, given, row)
    ran.check(row)
    total = ran.absolute.sum(axis=(0, 2, 3))
    check_close("sum of a head", ran.own.sum(axis=-1), np.zeros(heads), terms=total)
    for wrong in (row.T, np.roll(row, 1, axis=1)):
        with pytest.raises(AssertionError, match="exceeds"):
            ran.check(wrong)
    for id in ("table-vjp-fancy-index", "table-vjp-mean-over-pairs"):
        with pytest.raises(AssertionError, match="exceeds"):
            ran.check(row, mistake(id).function)


def test_swins_bias_and_index_are_ours():
    for size in ((2, 3), (7, 7), (1, 4)):
        swin = SwinRelativePositionBias(3, size).double()
        assert swin._create_relative_position_index().tolist() == window_index_2d(*size).tolist()
        with torch.no_grad():
            swin.relative_position_bias_table.copy_(drawn(*swin.relative_position_bias_table.shape, seed=1))
        bias = RelativeBias(3, WindowMap(*size), dtype=torch.float64)
        bias.load_state_dict({"table": swin.relative_position_bias_table.T})
        n = size[0] * size[1]
        assert torch.equal(bias(n, n), swin()[0])
        if n > 1:
            assert not torch.equal(bias(n, n).transpose(1, 2), swin()[0])


def test_the_gradient_of_beits_table():
    config = BeitConfig(
        image_size=6, patch_size=2, hidden_size=10, num_attention_heads=2,
        attention_probs_dropout_prob=0.0, attn_implementation="sdpa",
    )  # fmt: skip
    layer, own = randomize(BeitAttention(config), seed=1), randomize(BeitRelativePositionBias(config), seed=2)
    row, table = beit_index(3, 3), own.relative_position_bias_table
    assert own.generate_relative_position_index((3, 3)).tolist() == row.tolist()
    assert own.generate_relative_position_index((2, 4)).tolist() == beit_index(2, 4).tolist()
    ran = vision(layer, table, (2, 10, 10), row, own((3, 3)))
    ran.check(row)
    assert BeitMap(3, 3).R == len(table)
    # Rows 25 and 26: the class token as query, and as key.
    assert np.abs(ran.own[:, 25:]).min() > 1e-4
    with pytest.raises(AssertionError, match="exceeds"):
        ran.check(np.where(row == 25, 26, np.where(row == 26, 25, row)))


def bloom(monkeypatch, padded: bool):
    """Run BLOOM's attention with slopes that take a gradient; return it, and what it attended with and to."""
    wide = SimpleNamespace(**vars(torch.nn.functional))
    wide.softmax = lambda x, dim, dtype: torch.softmax(x, dim)  # BLOOM's own rounds to float32
    monkeypatch.setattr(modeling_bloom, "F", wide)
    B, N, heads, features = 2, 7, 3, 12
    config = BloomConfig(hidden_size=features, n_head=heads, hidden_dropout=0.0, attention_dropout=0.0)
    layer, kept = randomize(modeling_bloom.BloomAttention(config, layer_idx=0), seed=1), {}
    recorded(layer, ["query_key_value", "dense"], kept)
    seen = np.ones((B, N), dtype=bool)
    if padded:
        seen[1, :2] = False
    slopes = torch.tensor(alibi_slopes(heads), requires_grad=True)
    # As build_alibi_tensor makes it, of slopes that take a gradient.
    tokens = torch.tensor(seen).long()
    position = ((tokens.cumsum(dim=-1) - 1) * tokens)[:, None, :]
    alibi = (slopes[:, None] * position).reshape(B * heads, 1, N)
    allowed = causal_mask(N, N) & seen[:, None, None, :]
    # A row of a padded query sees its own key, as it must see one.
    allowed |= np.eye(N, dtype=bool) & ~seen[:, None, :, None]
    added = torch.tensor(np.where(allowed, 0.0, np.finfo(np.float64).min))
    x, u = drawn(B, N, features, seed=5), drawn(B, N, features, seed=6)
    out, _ = layer(x, torch.zeros_like(x), alibi, added)
    own = modeling_bloom.build_alibi_tensor(tokens, heads, torch.float64)
    np.testing.assert_allclose(alibi.detach().numpy(), own.numpy(), rtol=1e-6)
    (dslopes,) = torch.autograd.grad(out, slopes, u)
    q, k, v = kept["query_key_value"].detach().reshape(B, N, heads, 3, -1).permute(3, 0, 2, 1, 4).numpy()
    do = by_heads(u @ layer.dense.weight, heads)
    return dslopes.numpy(), (q, k, v), by_heads(kept["o"], heads), do, allowed


@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded on the left"])
def test_the_gradient_of_blooms_slopes(monkeypatch, padded):
    """BLOOM adds m j, we add -m |i - j|: rows differ by constants, the gradients do not."""
    dslopes, (q, k, v), o, do, allowed = bloom(monkeypatch, padded)
    N, heads = q.shape[2], q.shape[1]
    offset = relative_offset(N, N)
    bias = reference.alibi_bias(alibi_slopes(heads), offset)
    saved = reference.attention(q, k, v, bias, mask=allowed)
    check_close("o", saved.o, o, terms=saved.p @ np.abs(v))
    dbias = reference.attention_vjp(saved, do).dbias
    terms = N * absolute_ds(saved.p, do, v).sum(axis=(0, 2, 3))
    position = np.broadcast_to(np.arange(N), (N, N))
    for name, got in {
        "distance": reference.alibi_bias_vjp(offset, dbias),
        "offset": reference.alibi_bias_vjp(offset, dbias, signed=True),
        "position of the key": reference.alibi_bias_vjp(position, dbias, signed=True),
    }.items():
        check_close(name, got, dslopes, terms=terms)
    assert np.abs(dslopes).min() > 1e-3
    with pytest.raises(AssertionError, match="exceeds"):
        check_close("sign", reference.alibi_bias_vjp(-offset, dbias, signed=True), dslopes, terms=terms)


def test_slopes_are_those_of_bloom():
    for heads in range(1, 65):
        own = modeling_bloom._get_alibi_slopes(heads, torch.device("cpu")).double().numpy()
        np.testing.assert_allclose(alibi_slopes(heads), own, rtol=2e-5)
    for id, arguments in (("alibi-slopes-exponent", (8,)), ("alibi-slopes-local-heads", (16, 0, 8))):
        wrong, right = mistake(id).function(*arguments), mistake(id).right(*arguments)
        assert np.abs(wrong - right).max() > 0.1
