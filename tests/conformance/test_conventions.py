"""What the conventions say of PyTorch and of the models in transformers, where it can be run here."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional
from torch.nn.attention.bias import causal_lower_right
from transformers import BeitConfig, BloomConfig, FalconConfig, MptConfig, T5Config
from transformers.models.beit.modeling_beit import BeitRelativePositionBias
from transformers.models.bloom.modeling_bloom import BloomAttention, build_alibi_tensor
from transformers.models.falcon.modeling_falcon import FalconAttention
from transformers.models.falcon.modeling_falcon import build_alibi_tensor as falcon_alibi
from transformers.models.mpt.modeling_mpt import MptAttention, build_mpt_alibi_tensor
from transformers.models.swin.modeling_swin import SwinRelativePositionBias
from transformers.models.t5.modeling_t5 import T5Attention

from attngrad.checks import check_close
from attngrad.offsets import causal_mask, relative_offset

B, H, N, M, D = 2, 3, 5, 7, 4


def drawn(*shape, seed=0):
    """Return a random float64 tensor."""
    return torch.tensor(np.random.default_rng(seed).normal(size=shape))


def qkv():
    """Return queries, keys and values of unequal lengths."""
    return drawn(B, H, N, D, seed=1), drawn(B, H, M, D, seed=2), drawn(B, H, M, D, seed=3)


def plain(q, k, v, bias=0.0, inside=False):
    """Return attention as the book writes it."""
    scale = 1 / math.sqrt(q.shape[-1])
    scores = scale * (q @ k.mT + bias) if inside else scale * (q @ k.mT) + bias
    return torch.softmax(scores, -1) @ v


def test_sdpa_adds_a_float_mask_outside_and_lets_true_attend():
    (q, k, v), bias = qkv(), drawn(H, N, M, seed=4)
    check_close("o", functional.scaled_dot_product_attention(q, k, v, bias), plain(q, k, v, bias), terms=9.0)
    with pytest.raises(AssertionError):
        check_close("o", plain(q, k, v, bias, inside=True), plain(q, k, v, bias), terms=9.0)
    mask = torch.tensor(causal_mask(N, M))
    masked = plain(q, k, v, torch.zeros(N, M).masked_fill(~mask, -torch.inf).double())
    check_close("o", functional.scaled_dot_product_attention(q, k, v, mask), masked, terms=9.0)


def test_is_causal_is_top_left_and_lower_right_the_other():
    q, k, v = qkv()
    for start, options in ((0, {"is_causal": True}), (M - N, {"attn_mask": torch.tensor(causal_mask(N, M))})):
        allowed = torch.tensor(causal_mask(N, M, query_start=start))
        want = plain(q, k, v, torch.zeros(N, M).double().masked_fill(~allowed, -torch.inf))
        check_close("o", functional.scaled_dot_product_attention(q, k, v, **options), want, terms=9.0)
    lower_right = causal_lower_right(2, 4)._materialize()
    assert lower_right.tolist() == [[True, True, True, False], [True] * 4]
    assert causal_mask(2, 4).tolist() == lower_right.tolist()


def test_multihead_attention_masks_where_true():
    layer = torch.nn.MultiheadAttention(H * D, H, bias=False, batch_first=True).double()
    x, mask = drawn(B, N, H * D), torch.tensor(causal_mask(N, N))
    by_bool = layer(x, x, x, attn_mask=~mask, need_weights=False)[0]
    floats = torch.zeros(N, N).double().masked_fill(~mask, -torch.inf)
    check_close("o", by_bool, layer(x, x, x, attn_mask=floats, need_weights=False)[0], terms=9.0)
    padded = torch.zeros(B, N, dtype=torch.bool)
    padded[:, -1] = True
    changed = x.clone()
    changed[:, -1] += 1.0
    hidden = [layer(x, y, y, key_padding_mask=padded, need_weights=False)[0] for y in (x, changed)]
    check_close("o", hidden[0], hidden[1], terms=9.0)


def test_the_lse_of_pytorch_is_natural():
    q, k, v = qkv()
    want = torch.logsumexp(q @ k.mT / math.sqrt(D), -1)
    lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)[1]
    check_close("lse", lse.double(), want, kind="difference", terms=9.0)
    assert ((lse * math.log2(math.e)) - want).abs().max() > 0.1


def test_t5_has_key_minus_query_a_table_of_rows_and_no_scale():
    config = T5Config(d_model=6, d_kv=D, num_heads=H, relative_attention_num_buckets=64)
    layer = T5Attention(config, has_relative_attention_bias=True)
    assert layer.relative_attention_bias.weight.shape == (64, H)
    assert layer.scaling == 1.0
    bias = layer.compute_bias(N, N)[0, 0]
    offsets = relative_offset(N, N)
    bucket = T5Attention._relative_position_bucket(torch.tensor(offsets), True, 64, 128)
    assert (bias == layer.relative_attention_bias.weight[bucket, 0]).all()
    assert bucket[0, 1] == 33, "offset +1 lies in the second half"
    assert bucket[1, 0] == 1, "offset -1 in the first"


@pytest.mark.parametrize("model", ["swin", "beit"])
def test_swin_and_beit_have_query_minus_key_in_a_table_of_rows(model):
    if model == "swin":
        made = SwinRelativePositionBias(H, (2, 3))
        index, rows = made.relative_position_index.view(6, 6), 3 * 5
    else:
        config = BeitConfig(image_size=(32, 48), patch_size=16, num_attention_heads=H, hidden_size=H * D)
        made = BeitRelativePositionBias(config)
        index, rows = made.generate_relative_position_index((2, 3))[1:, 1:], 3 * 5 + 3
    assert made.relative_position_bias_table.shape == (rows, H)
    place = [(i // 3, i % 3) for i in range(6)]
    for query, (y, x) in enumerate(place):
        for key, (v, u) in enumerate(place):
            assert index[query, key] == (y - v + 1) * 5 + (x - u + 2)


def test_the_forms_of_alibi_agree_under_a_causal_mask_only():
    slope, allowed = 0.25, torch.tensor(causal_mask(N, M))
    position, keys = torch.arange(N)[:, None] + M - N, torch.arange(M)[None, :]
    forms = [-slope * (position - keys).abs(), slope * keys, slope * (keys - (M - 1))]
    content = drawn(N, M)
    causal = [torch.softmax((content + form).masked_fill(~allowed, -torch.inf), -1) for form in forms]
    full = [torch.softmax(content + form, -1) for form in forms]
    for other in (1, 2):
        check_close("p", causal[other], causal[0], terms=1.0)
        assert (full[other] - full[0]).abs().max() > 0.01


def test_bloom_and_falcon_multiply_the_key_and_mpt_counts_from_the_end():
    mask = torch.ones(1, M, dtype=torch.long)
    for made in (build_alibi_tensor(mask, 8, torch.float32), falcon_alibi(mask, 8, torch.float32)):
        assert made[0, 0].tolist() == [0.5 * j for j in range(M)]
    mpt = build_mpt_alibi_tensor(8, M)
    assert mpt[0, 0].tolist() == [0.5 * (j + 1 - M) for j in range(M)]


def test_bloom_and_mpt_add_outside_and_falcon_inside():
    """With queries and keys zero the weights are the softmax of the bias, or of the bias over sqrt(d_k)."""
    x, mask = torch.zeros(1, M, 8 * D), torch.ones(1, M, dtype=torch.long)
    alibi = build_alibi_tensor(mask, 8, torch.float32)
    no_mask, told = torch.zeros(1, 1, M, M), {"output_attentions": True}
    falcon = FalconConfig(hidden_size=8 * D, num_attention_heads=8, alibi=True, attn_implementation="eager")
    layers = {
        "bloom": (BloomAttention(BloomConfig(hidden_size=8 * D, n_head=8), 0), (x, x, alibi, no_mask), told),
        "mpt": (MptAttention(MptConfig(d_model=8 * D, n_heads=8), 0), (x, alibi), {}),
        "falcon": (FalconAttention(falcon, 0), (x, alibi, no_mask), told),
    }
    for name, (layer, inputs, options) in layers.items():
        for parameter in layer.parameters():
            torch.nn.init.zeros_(parameter)
        weights = layer.eval()(*inputs, **options)[1]
        want = torch.softmax(alibi / math.sqrt(D) if name == "falcon" else alibi, -1)
        check_close(name, weights[0, :, :1], want, kind="difference", terms=1.0)
        assert (torch.softmax(alibi / math.sqrt(D), -1) - torch.softmax(alibi, -1)).abs().max() > 0.1
