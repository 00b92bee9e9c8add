"""Norms, update ratios and sparsity: exact on small cases, and trouble is named."""

import math
import subprocess
import sys

import pytest
import torch
from torch import nn

from attngrad import monitor
from attngrad.checks import check_close
from attngrad.notation import DtypeError, RangeError

F64 = torch.float64
SGD, Adam, AdamW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW


def parameter(*values, grad=None, dtype=F64):
    """Return a parameter with a gradient."""
    w = nn.Parameter(torch.tensor(values, dtype=dtype))
    w.grad = None if grad is None else torch.tensor(grad, dtype=dtype)
    return w


def w_with(value, slope):
    """Return a parameter of one entry with its gradient."""
    return parameter(value, grad=[slope])


def step(make, w, **options):
    """Return what one step of an optimizer did to one parameter."""
    optimizer = make([w], **options)
    with monitor.update_ratio(optimizer, {"w": w}) as found:
        optimizer.step()
    return found


def test_the_norm_is_that_of_all_entries_together():
    x, y = parameter(0.0, 0.0, grad=[3.0, 4.0]), parameter(0.0, grad=[12.0])
    found = monitor.gradient_norm([("x", x), ("y", y)])
    assert (found.norm, found.entries) == (13.0, 3)
    assert (found.each["x"].norm, found.each["y"].norm) == (5.0, 12.0)
    check_close("rms", found.rms, 13.0 / math.sqrt(3.0))
    check_close("rms", found.each["x"].rms, 5.0 / math.sqrt(2.0))


@pytest.mark.parametrize("terms", [1, 7, 1000])
def test_the_norm_of_a_sum_is_that_of_the_mean_times_the_terms(terms):
    x = torch.randn(terms, 3, dtype=F64, generator=torch.Generator().manual_seed(terms))
    layer, found = nn.Linear(3, 2, dtype=F64), {}
    for reduction in ("mean", "sum"):
        layer.zero_grad()
        getattr(layer(x).square().sum(dim=-1), reduction)().backward()
        found[reduction] = monitor.gradient_norm(layer, reduction=reduction, terms=terms)
    assert found["mean"].norm > 0.01
    check_close("in units of the mean", found["sum"].of_mean, found["mean"].norm)
    check_close("in units of the sum", found["sum"].norm, found["mean"].of_sum)
    check_close("ratio", found["sum"].norm / found["mean"].norm, float(terms))


def test_a_sum_and_a_mean_of_the_same_terms_agree_in_either_unit():
    w = parameter(0.0, 0.0, grad=[6.0, 8.0])
    of_sum = monitor.gradient_norm([w], reduction="sum", terms=5)
    w.grad /= 5
    of_mean = monitor.gradient_norm([w], terms=5)
    assert (of_sum.norm, of_sum.of_sum, of_sum.of_mean) == (10.0, 10.0, 2.0)
    check_close("of_sum", of_mean.of_sum, 10.0)
    assert of_mean.of_mean == of_mean.norm
    with pytest.raises(RangeError, match="terms: expected the number of terms of the loss, got None"):
        _ = monitor.gradient_norm([w]).of_sum


def test_parameters_without_a_gradient_and_with_a_gradient_of_zero_are_named():
    model = nn.ModuleDict({"a": nn.Linear(1, 1, bias=False), "b": nn.Linear(1, 1, bias=False)})
    model["c"] = nn.Linear(1, 1, bias=False).requires_grad_(False)
    (model["a"].weight * 0.0).sum().backward()
    found = monitor.gradient_norm(model)
    assert (found.missing, found.zero, found.norm) == (("b.weight",), ("a.weight",), 0.0)
    assert "b.weight: no gradient" in str(found)
    assert "c.weight" not in str(found)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_norm_is_never_nan_in_silence(value):
    x, y = parameter(0.0, grad=[1.0]), parameter(0.0, 0.0, grad=[1.0, value])
    told = rf"gradients: expected finite values, got: y is {value} at index \(1,\), 1 of 2 entries"
    with pytest.raises(RangeError, match=told):
        monitor.gradient_norm({"x": x, "y": y})


@pytest.mark.parametrize(("dtype", "size"), [(torch.float16, 6e4), (torch.float32, 3e38), (F64, 1e300)])
def test_squares_do_not_overflow(dtype, size):
    x = parameter(0.0, 0.0, grad=[size, size], dtype=dtype)
    check_close("norm", monitor.gradient_norm([x]).norm, float(x.grad[0]) * math.sqrt(2.0))


def test_a_sparse_gradient_adds_up_what_shares_a_row():
    layer = nn.Embedding(5, 2, sparse=True)
    layer(torch.tensor([3, 3, 1])).sum().backward()
    found = monitor.gradient_norm(layer)
    assert found.entries == 10
    check_close("norm", found.norm, math.sqrt(10.0))


def test_a_tied_parameter_counts_once():
    w = parameter(0.0, grad=[2.0])
    assert monitor.gradient_norm([("a", w), ("b", w)]).norm == 2.0


@pytest.mark.parametrize(
    ("call", "error", "told"),
    [
        (lambda w: monitor.gradient_norm([]), RangeError, "parameters: expected at least one parameter"),
        (lambda w: monitor.gradient_norm(3), DtypeError, "parameters: expected a module, tensors, or pairs"),
        (lambda w: monitor.gradient_norm([1.0]), DtypeError, "expected tensors, or pairs .* got float"),
        (lambda w: monitor.gradient_norm([("a", w), ("a", w + 0)]), RangeError, "got two for 'a'"),
        (lambda w: monitor.gradient_norm([w.detach()]), RangeError, "at least one with a gradient"),
        (lambda w: monitor.gradient_norm([w], reduction="none"), RangeError, "'mean' or 'sum', got 'none'"),
        (lambda w: monitor.gradient_norm([w], reduction="sum"), DtypeError, "terms: expected the number"),
        (lambda w: monitor.gradient_norm([w], terms=0), RangeError, "terms: expected an integer of at least"),
        (lambda w: monitor.sparsity([1.0]), DtypeError, "gradient: expected a tensor, got list"),
        (lambda w: monitor.sparsity(torch.ones(2, dtype=int)), DtypeError, "expected real floats, got torch"),
        (lambda w: monitor.sparsity(torch.ones(0)), RangeError, "at least one entry, got shape"),
        (lambda w: monitor.sparsity(torch.tensor([math.nan])), RangeError, "gradient is nan at index"),
        (lambda w: monitor.sparsity(w, below=0.0), RangeError, "below: expected a positive finite number"),
        (lambda w: monitor.sparsity(w, of="mean"), RangeError, "of: expected 'max', 'rms' or a positive"),
        (lambda w: monitor.sparsity(w, of=-1.0), RangeError, "of: expected a positive finite number"),
        (lambda w: monitor.sparsity(torch.ones(2, device="meta")), DtypeError, "a tensor with values"),
        (lambda w: monitor.table_rows(w, [2]), RangeError, "looked_up: expected 0 to 1, got 2 to 2"),
        (lambda w: monitor.table_rows(w, [-1]), RangeError, "looked_up: expected 0 to 1, got -1 to -1"),
        (lambda w: monitor.table_rows(w, [0.0]), DtypeError, "looked_up: expected integers, got torch.float"),
        (lambda w: monitor.table_rows(w, [0], axis=1), RangeError, "axis: expected an axis of 1, got 1"),
        (lambda w: monitor.non_finite("w"), DtypeError, "tensors: expected a module, tensors"),
        (lambda w: step(SGD, w_with(math.nan, 1.0), lr=0.1), RangeError, "before the step: .* w is nan"),
        (lambda w: step(SGD, w_with(1.0, math.inf), lr=0.1), RangeError, "after the step: .* w is -inf"),
    ],
)  # fmt: skip
def test_bad_input_is_named(raw_errors, call, error, told):
    w = parameter(1.0, 2.0, grad=[1.0, 1.0])
    with pytest.raises(error, match=told):
        call(w)


def test_what_is_no_optimizer_is_named():
    with (
        pytest.raises(DtypeError, match="optimizer: expected one with param_groups, got Linear"),
        monitor.update_ratio(nn.Linear(1, 1)),
    ):
        pass


WEIGHT, GRADIENT = (3.0, 4.0), [0.6, 0.8]


@pytest.mark.parametrize(
    ("make", "options", "change"),
    [
        (SGD, {"lr": 0.01}, 0.01),
        (SGD, {"lr": 0.01, "momentum": 0.9}, 0.01),
        (SGD, {"lr": 0.01, "weight_decay": 0.2}, 0.01 * 2.0),  # the decay points along the gradient here
        (Adam, {"lr": 0.01, "eps": 1e-30}, 0.01 * math.sqrt(2.0)),
        (AdamW, {"lr": 0.01, "eps": 1e-30, "weight_decay": 0.0}, 0.01 * math.sqrt(2.0)),
        (AdamW, {"lr": 0.01, "eps": 1e-30, "weight_decay": 1.0}, 0.01 * math.hypot(4.0, 5.0)),
    ],
)
def test_the_ratio_of_a_first_step(make, options, change):
    w = parameter(*WEIGHT, grad=GRADIENT)
    found = step(make, w, **options)
    check_close("ratio", found["w"].ratio, change / 5.0, terms=1.0)
    assert found.ratio == found["w"].ratio
    assert not found.skipped


def test_the_ratio_of_adam_does_not_see_the_size_of_the_gradient_and_that_of_sgd_does():
    small, large = (parameter(*WEIGHT, grad=[scale * g for g in GRADIENT]) for scale in (1.0, 100.0))
    by_adam = [step(Adam, w, lr=0.01, eps=1e-30).ratio for w in (small, large)]
    check_close("Adam", by_adam[0], by_adam[1], terms=1.0)
    small, large = (parameter(*WEIGHT, grad=[scale * g for g in GRADIENT]) for scale in (1.0, 100.0))
    by_sgd = [step(SGD, w, lr=0.01).ratio for w in (small, large)]
    check_close("SGD", by_sgd[1] / by_sgd[0], 100.0, terms=1.0)


def test_momentum_ends_at_ten_times_the_formula():
    w = parameter(*WEIGHT, grad=GRADIENT)
    optimizer = SGD([w], lr=1e-6, momentum=0.9)
    for _ in range(400):
        optimizer.step()
    with monitor.update_ratio(optimizer) as found:
        optimizer.step()
    formula = 1e-6 * 1.0 / found.total.before
    check_close("ratio", found.ratio / formula, 10.0, "difference")


def test_what_clips_or_skips_a_step_is_in_the_ratio():
    w = parameter(*WEIGHT, grad=[60.0, 80.0])
    nn.utils.clip_grad_norm_([w], 0.5, error_if_nonfinite=True)
    check_close("clipped", step(SGD, w, lr=0.01).ratio, 0.01 * 0.5 / 5.0, "difference")
    w = parameter(*WEIGHT, grad=[math.inf, 1.0])
    scaler, optimizer = torch.amp.GradScaler("cpu"), SGD([w], lr=0.01)
    scaler.scale(torch.zeros(()))
    with monitor.update_ratio(optimizer, {"w": w}) as found:
        scaler.step(optimizer)
    assert found.skipped
    assert (found.still, found.ratio) == (("w",), 0.0)
    assert "nothing changed" in str(found)


def test_a_step_that_rounding_swallows_is_seen():
    for dtype, still in ((torch.bfloat16, ("w",)), (torch.float32, ())):
        assert step(SGD, parameter(1.0, grad=[0.1], dtype=dtype), lr=1e-3).still == still


def test_parameters_of_zeros_that_do_not_move_and_that_the_optimizer_does_not_hold():
    moved, fixed, other = parameter(0.0, grad=[1.0]), parameter(0.0), parameter(1.0)
    optimizer = SGD([moved, fixed], lr=0.1)
    with monitor.update_ratio(optimizer, {"moved": moved, "fixed": fixed, "other": other}) as found:
        assert not found.skipped
        optimizer.step()
    assert found["moved"].ratio == math.inf
    assert found["fixed"].ratio == 0.0
    assert (found.outside, found.still) == (("other",), ("fixed",))
    assert "other: not in the optimizer" in str(found)


def test_without_a_model_parameters_are_named_by_their_groups():
    w, v = parameter(1.0, grad=[1.0]), parameter(2.0, grad=[1.0])
    optimizer = SGD([{"params": [w]}, {"params": [v], "lr": 0.5}], lr=0.1)
    with monitor.update_ratio(optimizer) as found:
        optimizer.step()
    assert list(found.each) == ["group 0, 0", "group 1, 0"]
    check_close("ratios", [part.ratio for part in found.each.values()], [0.1, 0.25])


def test_an_error_in_the_block_is_not_hidden():
    w = parameter(1.0, grad=[1.0])

    def broken():
        with monitor.update_ratio(SGD([w], lr=0.1)):
            w.data.fill_(math.nan)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()


def test_the_two_readings_of_sparsity():
    g = torch.tensor([[0.0, 0.0, 1e-6, -1e-3], [0.5, -1.0, 2.0, -4.0]], dtype=F64)
    by_max = monitor.sparsity(g, below=1e-3)
    assert (by_max.zero, by_max.small, by_max.threshold) == (0.25, 0.5, 0.004)
    by_number = monitor.sparsity(g, below=0.1, of=10.0)
    assert (by_number.zero, by_number.small) == (0.25, 5 / 8)
    rms = float(g.square().mean().sqrt())
    check_close("threshold", monitor.sparsity(g, below=0.5, of="rms").threshold, 0.5 * rms)
    zeros = monitor.sparsity(torch.zeros(3))
    assert (zeros.zero, zeros.small) == (1.0, 1.0)


def test_small_depends_on_the_scale_and_zero_does_not():
    g = torch.tensor([0.0, 1.0, 3.0], dtype=F64)
    for shrunk in (g, g * 1e-9):
        assert monitor.sparsity(shrunk, of="max").small == monitor.sparsity(g, of="max").small
    assert monitor.sparsity(g * 1e-9, of=1.0).small == 1.0
    assert monitor.sparsity(g * 1e-9, of=1.0).zero == 1 / 3


def test_rows_of_a_table_are_told_apart():
    g = torch.tensor([[0.0, 0.0, 2.0, 1e-9, 0.0], [0.0, 0.0, 1.0, 0.0, 3.0]], dtype=F64)
    found = monitor.table_rows(g, torch.tensor([[1, 2], [3, 2]]))
    kinds = (found.dead, found.stray, found.silent, found.small, found.live)
    assert kinds == ((0,), (4,), (1,), (3,), (2,))
    assert monitor.table_rows(g.T.contiguous(), [1, 2, 3], axis=0) == found
    assert str(found) == "1 live, 1 small, 1 silent, 1 dead, 1 stray"


def test_an_embedding_with_and_without_sparse_gradients_has_the_same_rows():
    tokens = torch.tensor([[3, 1], [1, 0]])
    found = []
    for sparse in (False, True):
        layer = nn.Embedding(6, 2, sparse=sparse)
        layer(tokens).sum().backward()
        found.append(monitor.table_rows(layer.weight.grad, tokens, axis=0))
    assert found[0] == found[1]
    assert (found[0].dead, found[0].live) == ((2, 4, 5), (0, 1, 3))


def test_a_scatter_to_the_transposed_pair_leaves_strays():
    row = torch.arange(4)[None, :] - torch.arange(3)[:, None] + 2
    ds = torch.randn(3, 4, dtype=F64, generator=torch.Generator().manual_seed(0))
    for rows, stray in ((row, ()), (5 - row + 1, (6,))):
        grad = torch.zeros(7, dtype=F64).index_add_(0, rows.flatten(), ds.flatten())
        assert monitor.table_rows(grad, row).stray == stray


def test_every_tensor_that_is_not_finite_is_listed():
    found = monitor.non_finite({"a": torch.ones(2), "b": torch.tensor([1.0, math.inf, math.nan])})
    assert [(one.what, one.index, one.value, one.count) for one in found] == [("b", (1,), math.inf, 2)]
    assert str(found[0]) == "b is inf at index (1,), 2 of 3 entries"
    assert monitor.non_finite(nn.Linear(2, 2)) == ()


def test_without_torch_the_extra_is_named():
    code = "import sys; sys.modules['torch'] = None\nimport attngrad.monitor"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "attngrad.monitor needs torch, which the extra attngrad[torch] brings" in run.stderr
