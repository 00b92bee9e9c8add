"""`attngrad.testing.check_table`: right tables pass, and each thing that can be wrong with one is found."""

import numpy as np
import pytest
import torch
from torch import nn

from attngrad.notation import DtypeError, RangeError, ShapeError
from attngrad.testing import check_table

from .table_models import Damaged, Model, Stack, W, X, kinds, loss_of, times, without_last_row


def test_a_right_table_is_healthy_and_its_layers_add_up():
    model = Model()
    before = [x.clone() for x in model.state_dict().values()]
    report = check_table(loss_of(model), "table", model=model)
    assert report.findings == ()
    assert report.gradient.shape == (2, 5)
    assert np.abs(report.gradient - report.differences).max() <= report.bound
    assert report.bound < 1e-5 * np.abs(report.gradient).max()
    assert [name for name, _ in report.layers] == ["layers.0", "layers.1"]
    parts = [part for _, part in report.layers]
    assert min(np.abs(part).max() for part in parts) > 1e-3
    np.testing.assert_allclose(sum(parts), report.gradient, rtol=0, atol=1e-13)
    assert report.gauge is True
    assert max(map(abs, report.sums)) < 1e-12
    assert report.unused == ()
    for kept, x in zip(before, model.state_dict().values(), strict=True):
        assert x.dtype == kept.dtype
        assert torch.equal(x, kept)
    assert model.table.requires_grad
    assert model.table.grad is None


def test_dropout_has_the_numbers_of_one_seed_and_the_state_is_kept():
    model, state = Model(dropout=0.5), torch.get_rng_state()
    assert kinds(check_table(loss_of(model), model.table)) == []
    assert torch.equal(torch.get_rng_state(), state)
    losses = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        losses.append(check_table(loss_of(model), model.table).loss)
    assert losses[0] == losses[1]
    assert torch.get_default_dtype() == torch.float32


WRONG = {
    "half": times(0.5),
    "nearly": times(1.0 + 1e-4),
    "sign": times(-1.0),
    "zero": times(0.0),
    "one row": lambda table: Damaged.apply(table, without_last_row),
    "nan": times(float("nan")),
    "mean over heads": lambda table: Damaged.apply(table, lambda g: g.mean(0, keepdim=True).expand_as(g)),
}


@pytest.mark.parametrize("used", WRONG.values(), ids=WRONG)
def test_a_wrong_gradient_is_found(used):
    model = Model(used)
    report = check_table(loss_of(model), "table", model=model)
    assert "wrong" in kinds(report)


def test_a_factor_is_told():
    report = check_table(loss_of(model := Model(times(0.5))), model.table)
    assert "all are 0.5 times the difference" in str(report)
    assert "wrong: the gradient is not the difference of the loss; 10 of 10 entries" in str(report)


def test_entries_beyond_a_limit_are_drawn_and_the_others_seen_along_directions():
    model = Model(lambda table: Damaged.apply(table, without_last_row))
    seen = [check_table(loss_of(model), model.table, entries=1, seed=seed) for seed in range(4)]
    assert all(int(np.isfinite(report.differences).sum()) == 1 for report in seen)
    assert all(kinds(report)[:1] == ["wrong"] for report in seen)
    assert any("random direction" in str(report) for report in seen)
    assert "1 of 10 entries" in str(seen[0])


def test_a_table_that_is_cut_off_from_the_loss_is_told_apart():
    assert kinds(check_table(loss_of(model := Model(lambda table: table.detach())), model.table)) == ["none"]
    frozen = Model()
    frozen.table.requires_grad_(False)
    assert kinds(check_table(loss_of(frozen), frozen.table)) == ["frozen"]
    assert not frozen.table.requires_grad
    unused = Model(lambda table: torch.zeros_like(table))
    assert kinds(check_table(loss_of(unused), unused.table)) == ["stale"]


def test_a_bias_kept_from_an_earlier_call_is_stale():
    kept = {}
    with_graph = Model(lambda table: kept.setdefault("graph", table * 1.0))
    assert kinds(check_table(loss_of(with_graph), with_graph.table)) == ["stale"]
    numbers = Model(lambda table: kept.setdefault("numbers", table.detach() * 1.0))
    assert kinds(check_table(loss_of(numbers), numbers.table)) == ["stale"]


def test_a_parameter_that_the_model_does_not_hold_is_found():
    model = Model()
    hidden = [nn.Parameter(torch.randn(2, 5))]
    model.used = lambda _: hidden[0]
    assert kinds(check_table(loss_of(model), hidden[0], model=model)) == ["unregistered"]
    assert kinds(check_table(loss_of(model), hidden[0])) == []


def test_rows_that_no_pair_looks_up_are_listed_and_are_no_finding():
    model = Model()
    model.table = nn.Parameter(torch.randn(2, 9))  # rows 5 to 8 are behind the last
    report = check_table(loss_of(model), model.table)
    assert (report.findings, report.unused) == ((), (5, 6, 7, 8))
    by_row = Model(lambda table: table.T)
    by_row.table = nn.Parameter(torch.randn(9, 2))
    assert check_table(loss_of(by_row), by_row.table, rows=0).unused == (5, 6, 7, 8)


def test_a_constant_that_is_not_free_is_told():
    model = Model(torch.tanh)
    report = check_table(loss_of(model), model.table)
    assert (report.findings, report.gauge, report.sums) == ((), False, ())


def test_a_caller_without_gradients_and_one_seed_for_all_calls():
    model = Model(dropout=0.5)
    with torch.no_grad():
        assert kinds(check_table(loss_of(model), model.table)) == []


def test_a_backend_that_changes_with_the_graph_is_no_randomness():
    model = Model()

    def loss():
        value = loss_of(model)()
        return value if value.requires_grad else value * (1.0 + 1e-15)

    assert kinds(check_table(loss, model.table)) == []


def test_a_model_whose_other_parameters_are_frozen_and_one_of_16_bits_are_checked():
    model = Model()
    for parameter in (model.layers.parameters(), model.norm.parameters()):
        for one in parameter:
            one.requires_grad_(False)
    assert kinds(check_table(loss_of(model), model.table, model=model)) == []
    half = Model().bfloat16()
    assert kinds(check_table(lambda: (half(X.bfloat16()) * W).sum(), half.table, model=half)) == []
    assert half.table.dtype == torch.bfloat16


def test_a_sparse_gradient_and_a_parameter_of_float64_are_read():
    table = nn.Embedding(5, 2, sparse=True)
    model = Model()
    model.used = lambda _: table(torch.arange(5)).T
    assert kinds(check_table(loss_of(model), table.weight)) == []
    double = Model().double()
    assert kinds(check_table(loss_of(double), double.table)) == []
    assert double.table.dtype == torch.float64


def test_without_promotion_the_bound_is_that_of_the_type():
    for used, expected in ((None, []), (times(0.5), ["wrong"])):
        model = Model(used or (lambda table: table))
        report = check_table(loss_of(model), model.table, promote=False)
        assert kinds(report) == expected
        assert report.bound > 1e-4


def test_a_loss_rounded_inside_is_coarse():
    model = Model()
    rounded = lambda: model(X).mul(W).sum().mul(1e4).round() / 1e4  # noqa: E731
    with_graph = lambda: loss_of(model)() + (rounded() - loss_of(model)()).detach()  # noqa: E731
    assert "coarse" in kinds(check_table(with_graph, model.table))


def test_a_loss_whose_gradient_is_zero_tells_nothing():
    table = nn.Parameter(torch.randn(2, 5))
    constant = check_table(lambda: torch.softmax(table, dim=-1).sum().round(), table)
    assert kinds(constant) == ["stale"]
    report = check_table(lambda: 1.0 + nn.functional.layer_norm(table, (5,)).sum(), table)
    assert "coarse" in kinds(report)
    assert "or all are zero" in str(report)


def test_a_loss_that_is_not_finite_far_away_is_checked_here():
    tau = nn.Parameter(torch.tensor(0.01))
    assert kinds(check_table(lambda: torch.log(tau) * 3.0, tau)) == []
    edge = nn.Parameter(torch.tensor(1e-7))
    with pytest.raises(RangeError, match="beside the parameter"):
        check_table(lambda: torch.log(edge), edge)


def test_what_cannot_be_checked_is_an_error():
    model = Model()
    rng = np.random.default_rng(0)
    loss = loss_of(model)
    with pytest.raises(RangeError, match="expected the same at each call"):
        check_table(lambda: loss() * rng.standard_normal(), model.table)
    with pytest.raises(ShapeError, match="expected a tensor of one number"):
        check_table(lambda: model(X), model.table)
    with pytest.raises(DtypeError, match="loss_fn: expected a tensor"):
        check_table(lambda: 1.0, model.table)
    with pytest.raises(RangeError, match="finite loss, got nan"):
        check_table(lambda: loss() * float("nan"), model.table)
    with pytest.raises(RangeError, match="a name such as table, got"):
        check_table(loss, "tabel", model=model)
    with pytest.raises(DtypeError, match="without model="):
        check_table(loss, "table")
    with pytest.raises(DtypeError, match="a leaf"):
        check_table(loss, model.table * 2.0)
    with pytest.raises(RangeError, match="rows: expected 0 or 1"):
        check_table(loss, model.layers[0].project.bias, rows=0)
    assert model.table.dtype == torch.float32


@pytest.mark.parametrize("once", [True, False])
def test_the_shared_bias_of_this_library_is_healthy_in_each_layer(once):
    model = Stack(once)
    report = check_table(loss_of(model), "bias.table", model=model)
    assert report.findings == ()
    assert len(report.layers) == 2
    np.testing.assert_allclose(sum(part for _, part in report.layers), report.gradient, rtol=0, atol=1e-13)
    assert all(np.abs(part).max() > 1e-3 for _, part in report.layers)


def test_the_table_of_a_t5_is_healthy_and_split_by_layer():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.T5Config(
        vocab_size=31, d_model=16, d_kv=4, d_ff=16, num_layers=3, num_heads=3, dropout_rate=0.1,
        relative_attention_num_buckets=8, relative_attention_max_distance=12,
    )  # fmt: skip
    model, ids = transformers.T5EncoderModel(config), torch.randint(0, 31, (2, 20))
    cotangent = torch.randn(2, 20, 16)
    first = "encoder.block.0.layer.0.SelfAttention"
    report = check_table(
        lambda: (model(input_ids=ids).last_hidden_state * cotangent).sum(),
        f"{first}.relative_attention_bias.weight",
        model=model,
    )
    assert report.findings == ()
    assert report.unused == (4,)  # a distance of 0 to later keys: every pair of offset 0 is in row 0
    assert [name for name, _ in report.layers] == [first.replace("block.0", f"block.{k}") for k in range(3)]
    np.testing.assert_allclose(sum(part for _, part in report.layers), report.gradient, rtol=0, atol=1e-12)
