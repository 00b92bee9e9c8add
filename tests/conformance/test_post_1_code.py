"""The code of the first post's section 5, rebuilt in steps, and the models of its section 4.

Each test backs entries of the errata; the mended module passes where the post's fails.
"""

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel, GPT2Config, GPT2Model, T5Config, T5Model

from attngrad.checks import check_close
from attngrad.offsets import relative_offset

# The code of section 5, rebuilt a step at a time. n_q, n_k: lengths; width: what the embedding returns.


def post_offsets(n_q, n_k):
    """Return the matrix that the code builds: a row of n_q numbers minus a column of n_k."""
    return torch.arange(n_q)[None, :] - torch.arange(n_k)[:, None]


class MadeInForward(torch.nn.Module):
    """A bias whose table is made anew in each call, as in the code; one number for each offset."""

    def forward(self, q, k):
        n = q.shape[1]
        table = torch.nn.Embedding(2 * n - 1, 1, dtype=q.dtype)
        return weights_of(q, k, table(post_offsets(n, n) + n - 1)[..., 0])


class Mended(torch.nn.Module):
    """The same with its table made once, for given lengths."""

    def __init__(self, n_q, n_k):
        super().__init__()
        self.table = torch.nn.Embedding(n_q + n_k - 1, 1, dtype=torch.float64)
        self.index = torch.tensor(relative_offset(n_q, n_k, query_start=0) + n_q - 1)

    def forward(self, q, k):
        return weights_of(q, k, self.table(self.index)[..., 0])


def weights_of(q, k, bias):
    """Return softmax(q k^T / sqrt(d) + bias), the order of the code."""
    return torch.softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5 + bias, -1)


def queries_and_keys(batch, n_q, n_k, width, seed=0):
    """Return random float64 queries and keys that take a gradient."""
    rng = np.random.default_rng(seed)
    shapes = (batch, n_q, width), (batch, n_k, width)
    return [torch.tensor(rng.normal(size=shape), requires_grad=True) for shape in shapes]


def test_a_table_made_in_forward_is_no_parameter_and_new_at_each_call():
    q, k = queries_and_keys(2, 5, 5, 7)
    made, mended = MadeInForward(), Mended(5, 5)
    assert list(made.named_parameters()) == []
    assert (made(q, k) - made(q, k)).abs().max() > 1e-3
    assert [name for name, _ in mended.named_parameters()] == ["table.weight"]
    assert torch.equal(mended(q, k), mended(q, k))


def test_the_loop_prints_nothing():
    """After a backward pass no parameter of the code's model has a gradient; the mended one has."""
    q, k = queries_and_keys(2, 5, 5, 7)
    cotangent = torch.tensor(np.random.default_rng(6).normal(size=(2, 5, 5)))
    printed = {}
    for model in (MadeInForward(), Mended(5, 5)):
        model(q, k).backward(cotangent)
        printed[type(model)] = [name for name, p in model.named_parameters() if p.grad is not None]
    assert printed == {MadeInForward: [], Mended: ["table.weight"]}


def test_a_bias_of_width_d_model_cannot_be_added():
    scores = torch.zeros(2, 5, 5)
    with pytest.raises(RuntimeError, match=r"size of tensor a \(5\) must match the size of tensor b \(64\)"):
        scores + torch.zeros(5, 5, 64)
    assert (scores + torch.zeros(5, 5)).shape == (2, 5, 5)


@pytest.mark.parametrize(("batch", "n", "width"), [(1, 64, 64), (4, 4, 4), (1, 5, 1)])
def test_a_bias_of_width_d_model_is_added_in_silence_where_sizes_agree(batch, n, width):
    """The vector of an offset is spread over the keys, its rows over the batch: no error, wrong scores."""
    bias = torch.tensor(np.random.default_rng(n).normal(size=(n, n, width)))
    added = torch.zeros(batch, n, n, dtype=torch.float64) + bias
    assert added.shape == (max(batch, n), n, n)
    by_offset = post_offsets(n, n).T[None].expand(added.shape)
    same_offset = added[by_offset == 0]
    assert same_offset.max() - same_offset.min() > 0.1


@pytest.mark.parametrize(("n_q", "n_k"), [(2, 3), (3, 2), (5, 7)])
def test_its_matrix_has_a_row_for_each_key(n_q, n_k):
    assert post_offsets(n_q, n_k).shape == (n_k, n_q) != relative_offset(n_q, n_k).shape
    square = post_offsets(n_q, n_q).numpy()
    assert (square == relative_offset(n_q, n_q)).all()
    assert (post_offsets(n_q, n_k).T.numpy() == -relative_offset(n_q, n_k, query_start=0)).all()


def test_its_table_size_and_shift_need_as_many_keys_as_queries():
    for n_q, n_k in ((4, 4), (2, 3), (3, 2)):
        offsets = relative_offset(n_q, n_k, query_start=0)
        assert len(np.unique(offsets)) == n_q + n_k - 1
        assert (2 * n_q - 1 == n_q + n_k - 1) == (n_q == n_k)
    index = post_offsets(2, 3) + 2 - 1
    assert index.min() == -1
    with pytest.raises(IndexError):
        torch.nn.Embedding(3, 1)(index)
    assert Mended(2, 3)(*queries_and_keys(2, 2, 3, 4)).shape == (2, 2, 3)


def test_code_scales_then_adds():
    """d_k = 4, no content, e^b = (4, 1): the prose gives 2/3, the code 4/5."""
    q, k, b = torch.zeros(1, 1, 4), torch.zeros(1, 2, 4), torch.log(torch.tensor([4.0, 1.0]))
    assert weights_of(q, k, b)[0, 0].tolist() == pytest.approx([4 / 5, 1 / 5])
    added_first = torch.softmax(((q @ k.transpose(-2, -1)) + b) / 4**0.5, -1)
    assert added_first[0, 0].tolist() == pytest.approx([2 / 3, 1 / 3])


def test_its_scale_and_softmax_are_those_of_one_head():
    """Without a bias the code's weights are those of scaled_dot_product_attention."""
    q, k = queries_and_keys(2, 3, 5, 7)
    identity = torch.eye(5, dtype=torch.float64).expand(2, 5, 5)
    want = torch.nn.functional.scaled_dot_product_attention(q, k, identity)
    check_close("p", weights_of(q, k, 0.0), want, terms=1.0)
    unscaled = torch.softmax(q @ k.transpose(-2, -1), -1)
    assert (unscaled - want).abs().max() > 0.01


def test_a_vector_for_each_offset_needs_the_query():
    """A vector r_{j-i} gives a bias only through q_i . r_{j-i}; that is what can be added to the scores."""
    q, k = queries_and_keys(2, 3, 3, 4)
    vectors = torch.nn.Embedding(5, 4, dtype=torch.float64)(torch.tensor(relative_offset(3, 3) + 2))
    by_key = torch.einsum("bid,bijd->bij", q, k[:, None] + vectors)
    by_bias = q @ k.transpose(-2, -1) + torch.einsum("bid,ijd->bij", q, vectors)
    check_close("s", by_bias, by_key.detach().numpy(), terms=30.0)
    with pytest.raises(RuntimeError):
        q @ k.transpose(-2, -1) + vectors


def test_the_sum_of_the_weights_has_no_gradient():
    """The loss of the code is B n_q whatever it is given: every gradient is zero, those of q and k too."""
    q, k = queries_and_keys(2, 5, 5, 7)
    model = Mended(5, 5)
    inputs = [q, k, model.table.weight]
    assert model(q, k).sum().item() == pytest.approx(10.0)
    for gradient_of_sum in torch.autograd.grad(model(q, k).sum(), inputs):
        assert gradient_of_sum.abs().max() < 1e-14
    cotangent = torch.tensor(np.random.default_rng(7).normal(size=(2, 5, 5)))
    for gradient_of_loss in torch.autograd.grad(model(q, k), inputs, cotangent):
        assert gradient_of_loss.abs().max() > 1e-3


# What the models of section 4 have.


def position_parameters(model):
    """Return the names of the parameters that carry positions, with their shapes."""
    words = ("position", "wpe", "relative")
    return {name: tuple(p.shape) for name, p in model.named_parameters() if any(w in name for w in words)}


def test_bert_has_learned_absolute_positions():
    sizes = {"hidden_size": 6, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 5}
    model = BertModel(BertConfig(**sizes, vocab_size=11, max_position_embeddings=9))
    assert position_parameters(model) == {"embeddings.position_embeddings.weight": (9, 6)}


def test_gpt2_has_learned_absolute_positions():
    """GPT-3 has the architecture of GPT-2, by its paper; its own weights are not public."""
    model = GPT2Model(GPT2Config(n_embd=6, n_head=2, n_layer=2, n_positions=9, vocab_size=11))
    assert position_parameters(model) == {"wpe.weight": (9, 6)}


def test_t5_has_one_table_for_each_stack_and_none_in_cross_attention():
    sizes = {"d_model": 6, "d_kv": 3, "d_ff": 5, "num_heads": 2, "num_layers": 3, "vocab_size": 11}
    model = T5Model(T5Config(**sizes, relative_attention_num_buckets=8))
    place = "block.0.layer.0.SelfAttention.relative_attention_bias.weight"
    assert position_parameters(model) == {f"{stack}.{place}": (8, 2) for stack in ("encoder", "decoder")}
    blocks = model.decoder.block
    assert not any(block.layer[1].EncDecAttention.has_relative_attention_bias for block in blocks)
    assert {block.layer[0].SelfAttention.scaling for block in blocks} == {1.0}
