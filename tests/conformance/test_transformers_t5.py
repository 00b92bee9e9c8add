"""The gradient of a table of position biases that layers share, against that of transformers' T5.

A small stack with random weights runs in float64. Queries, keys, values and the cotangent of each layer's
output are taken from it; what is compared is what they send to `relative_attention_bias.weight`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from transformers import T5Config
from transformers.models.t5.modeling_t5 import T5Attention, T5Stack

from attngrad import layers, reference
from attngrad.checks import check_close
from attngrad.offsets import relative_offset

B, H, N, D, R, FEATURES = 2, 3, 13, 5, 12, 14
DISTANCE = 10  # from here on all offsets share a bucket
MODES = ("bidirectional", "causal", "padded")


@dataclass(frozen=True)
class Layer:
    """What one layer of the stack attended with and to, and T5's cotangents of it, (B, H, N, D) each."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    o: np.ndarray
    dq: np.ndarray
    dk: np.ndarray
    dv: np.ndarray
    do: np.ndarray


@dataclass(frozen=True)
class Run:
    """One backward pass of T5: its layers, their mask, the buckets of all pairs, the table, its gradient."""

    layers: tuple[Layer, ...]
    mask: np.ndarray
    bucket: np.ndarray
    table: np.ndarray
    dtable: np.ndarray

    @property
    def bias(self) -> np.ndarray:
        """Return the bias of every head and pair, (H, N, N)."""
        return np.moveaxis(self.table[self.bucket], -1, 0)


def made_stack(causal: bool, depth: int, rng: np.random.Generator) -> T5Stack:
    """Return a small T5 in float64 whose weights are all random."""
    config = T5Config(
        vocab_size=7, d_model=FEATURES, d_kv=D, d_ff=11, num_heads=H, num_layers=depth, dropout_rate=0.0,
        relative_attention_num_buckets=R, relative_attention_max_distance=DISTANCE,
        is_decoder=causal, use_cache=False, attn_implementation="eager",
    )  # fmt: skip
    stack = T5Stack(config).double().eval()
    with torch.no_grad():
        for name, weight in stack.named_parameters():
            spread = 1.0 if "relative_attention_bias" in name else weight.shape[-1] ** -0.5
            weight.copy_(torch.as_tensor(spread * rng.standard_normal(weight.shape)))
    return stack


@contextmanager
def recorded(stack: T5Stack) -> Iterator[list[dict[str, torch.Tensor]]]:
    """Keep what leaves the projections q, k and v of each layer, and what enters its projection o."""
    kept: list[dict[str, torch.Tensor]] = [{} for _ in stack.block]
    handles = []
    for into, block in zip(kept, stack.block, strict=True):
        inner = block.layer[0].SelfAttention
        for name in "qkv":

            def leave(module, inputs, output, into=into, name=name):
                into[name] = output

            handles.append(getattr(inner, name).register_forward_hook(leave))

        def enter(module, inputs, into=into):
            (into["o"],) = inputs

        handles.append(inner.o.register_forward_pre_hook(enter))
    yield kept
    for handle in handles:
        handle.remove()


def heads(x: torch.Tensor) -> np.ndarray:
    """Return (B, N, H D) as (B, H, N, D)."""
    return x.detach().numpy().reshape(B, N, H, D).transpose(0, 2, 1, 3)


def buckets(bidirectional: bool) -> np.ndarray:
    """Return T5's bucket of every pair, by T5's own function."""
    offset = torch.as_tensor(relative_offset(N, N))
    own = T5Attention._relative_position_bucket
    return own(offset, bidirectional=bidirectional, num_buckets=R, max_distance=DISTANCE).numpy()


def run(mode: str, depth: int = 2, seed: int = 5) -> Run:
    """Run T5 forward and backward with a random cotangent, and record it."""
    rng = np.random.default_rng(seed)
    stack = made_stack(mode == "causal", depth, rng)
    seen = np.ones((B, N), dtype=bool)
    if mode == "padded":
        seen[1, N - 4 :] = False
    x, cotangent = (torch.as_tensor(rng.standard_normal((B, N, FEATURES))) for _ in "xu")
    with recorded(stack) as kept:
        out = stack(inputs_embeds=x, attention_mask=torch.as_tensor(seen)).last_hidden_state
    weight = stack.block[0].layer[0].SelfAttention.relative_attention_bias.weight
    (dtable,) = torch.autograd.grad(out, weight, cotangent, retain_graph=True)
    passed = []
    for layer in kept:
        gradients = torch.autograd.grad(out, list(layer.values()), cotangent, retain_graph=True)
        cotangents = {f"d{name}": dx for name, dx in zip(layer, gradients, strict=True)}
        passed.append(Layer(**{name: heads(value) for name, value in (layer | cotangents).items()}))
    mask = np.broadcast_to(seen[:, None, None, :], (B, 1, N, N))
    if mode == "causal":
        mask = mask & (relative_offset(N, N) <= 0)
    return Run(tuple(passed), mask, buckets(mode != "causal"), weight.detach().numpy().copy(), dtable.numpy())


def attended(ran: Run, layer: Layer, scale: float | None = 1.0) -> reference.Attention:
    """Return our attention with what a layer attended with; T5 does not divide the scores."""
    return reference.attention(layer.q, layer.k, layer.v, ran.bias, scale=scale, mask=ran.mask)


def bias_gradient(ran: Run, layer: Layer, scale: float | None = 1.0) -> np.ndarray:
    """Return our gradient of the bias from one layer, (H, N, N)."""
    dbias = reference.attention_vjp(attended(ran, layer, scale), layer.do).dbias
    assert dbias is not None
    return dbias


def reduced(dbias: np.ndarray, bucket: np.ndarray) -> np.ndarray:
    """Return the gradient of the table, (R, H): each pair's is added to the row of its bucket."""
    dtable = np.zeros((R, H))
    np.add.at(dtable, bucket, np.moveaxis(dbias, 0, -1))
    return dtable


def absolute_terms(ran: Run) -> np.ndarray:
    """Return the sum of the absolute terms of which each entry of the table's gradient is made."""
    return reduced(sum(absolute_ds(ran, layer).sum(axis=0) for layer in ran.layers), ran.bucket)


def absolute_ds(ran: Run, layer: Layer) -> np.ndarray:
    """Return the sum of the absolute terms of each entry of the scores' cotangent."""
    p = attended(ran, layer).p
    dp = np.abs(layer.do) @ np.abs(layer.v).swapaxes(-1, -2)
    return p * (dp + (p * dp).sum(axis=-1, keepdims=True))


def check_dtable(ran: Run, got: np.ndarray) -> None:
    """Require that a gradient of the table is T5's."""
    check_close("relative_attention_bias.weight.grad", got, ran.dtable, terms=absolute_terms(ran))


@pytest.fixture(scope="module", params=MODES)
def ran(request: pytest.FixtureRequest) -> Run:
    return run(request.param)


def test_the_forward_pass_is_the_same(ran: Run) -> None:
    for layer in ran.layers:
        saved = attended(ran, layer)
        check_close("o", saved.o, layer.o, terms=saved.p @ np.abs(layer.v))


def test_queries_keys_and_values_get_the_same(ran: Run) -> None:
    for layer in ran.layers:
        saved, ds = attended(ran, layer), absolute_ds(ran, layer)
        got = reference.attention_vjp(saved, layer.do)
        check_close("dq", got.dq, layer.dq, terms=ds @ np.abs(layer.k))
        check_close("dk", got.dk, layer.dk, terms=ds.swapaxes(-1, -2) @ np.abs(layer.q))
        check_close("dv", got.dv, layer.dv, terms=saved.p.swapaxes(-1, -2) @ np.abs(layer.do))


def test_the_gradient_of_a_shared_table_is_the_sum_over_layers(ran: Run) -> None:
    check_dtable(ran, reduced(sum(bias_gradient(ran, layer) for layer in ran.layers), ran.bucket))


def test_the_torch_layer_adds_up_the_same(ran: Run) -> None:
    table = torch.tensor(ran.table, requires_grad=True)
    bias, mask = table[ran.bucket].movedim(-1, 0), torch.tensor(ran.mask)
    for layer in ran.layers:
        q, k, v, do = (torch.tensor(x) for x in (layer.q, layer.k, layer.v, layer.do))
        o = layers.attention(q, k, v, bias, scale=1.0, mask=mask)
        check_close("o", o, layer.o, terms=attended(ran, layer).p @ np.abs(layer.v))
        o.backward(do, retain_graph=True)
    check_dtable(ran, table.grad)


@pytest.mark.parametrize("mode", MODES)
def test_one_layer_with_a_table_of_its_own(mode: str) -> None:
    ran = run(mode, depth=1)
    check_dtable(ran, reduced(bias_gradient(ran, *ran.layers), ran.bucket))


def test_rows_that_no_pair_has_get_zero_and_all_others_do_not(ran: Run) -> None:
    allowed = np.broadcast_to(ran.mask.any(axis=(0, 1)), (N, N))
    hit = np.isin(np.arange(R), ran.bucket[allowed])
    assert hit.sum() >= R - 1
    assert (ran.dtable[~hit] == 0.0).all()
    assert np.abs(ran.dtable[hit]).min() > 1e-6 * absolute_terms(ran).max()


def without_row_mean(ran: Run, layer: Layer) -> np.ndarray:
    """Return p dp summed over the batch: the mean of the row is forgotten."""
    return (attended(ran, layer).p * (layer.do @ layer.v.swapaxes(-1, -2))).sum(axis=0)


def last_pair_only(dbias: np.ndarray, bucket: np.ndarray) -> np.ndarray:
    """Return a table into which each pair of a bucket is written, and not added."""
    dtable = np.zeros((R, H))
    dtable[bucket] = np.moveaxis(dbias, 0, -1)
    return dtable


MISTAKES = {
    "the first layer alone": lambda ran: reduced(bias_gradient(ran, ran.layers[0]), ran.bucket),
    "the last layer alone": lambda ran: reduced(bias_gradient(ran, ran.layers[-1]), ran.bucket),
    "scores divided by the root of d_k": lambda ran: reduced(
        sum(bias_gradient(ran, layer, scale=None) for layer in ran.layers), ran.bucket
    ),
    "offsets query minus key": lambda ran: reduced(
        sum(bias_gradient(ran, layer) for layer in ran.layers), ran.bucket.T
    ),
    "the mean of the row forgotten": lambda ran: reduced(
        sum(without_row_mean(ran, layer) for layer in ran.layers), ran.bucket
    ),
    "written instead of added": lambda ran: last_pair_only(
        sum(bias_gradient(ran, layer) for layer in ran.layers), ran.bucket
    ),
    "the mean over the batch": lambda ran: reduced(
        sum(bias_gradient(ran, layer) for layer in ran.layers) / B, ran.bucket
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_seen(ran: Run, mistake: str) -> None:
    with pytest.raises(AssertionError, match="exceeds"):
        check_dtable(ran, MISTAKES[mistake](ran))


def test_an_offset_of_t5_is_ours_with_and_without_a_cache() -> None:
    bias = made_stack(True, 1, np.random.default_rng(3)).block[0].layer[0].SelfAttention
    want = bias.compute_bias(4, N, past_seen_tokens=N - 4)[0]
    own = T5Attention._relative_position_bucket
    for offset, is_t5 in ((relative_offset(4, N), True), (relative_offset(4, N, 0), False)):
        bucket = own(torch.as_tensor(offset), bidirectional=False, num_buckets=R, max_distance=DISTANCE)
        got = bias.relative_attention_bias.weight.T[:, bucket]
        assert torch.equal(got, want) == is_t5
