"""The first NaN or infinity is named with the module that made it, and nothing is left behind."""

import gc
import weakref
from dataclasses import dataclass

import pytest
import torch
from torch import nn

from attngrad.monitor import first_non_finite
from attngrad.notation import DtypeError

INF, NAN = float("inf"), float("nan")


class Planted(nn.Module):
    """Two layers with code of their own between them, which ``between`` plants."""

    def __init__(self, between=lambda h: h, after=lambda h, x: h + x):
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.between, self.after = between, after

    def forward(self, x):
        return self.after(self.second(self.between(self.first(x))), x)


def chain(*inner):
    """Return a model with planted code in the middle, its weights fixed."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 3), *inner, nn.Linear(3, 1))


def watched(model, x=None, loss=torch.sum, **options):
    """Return what one forward and backward run leaves."""
    with first_non_finite(model, **options) as found:
        loss(model(torch.ones(4, 2) if x is None else x)).backward()
    return found


def test_a_sound_model_has_no_record():
    found = watched(chain(Planted()))
    assert found.first is None
    assert str(found) == "everything finite"


def test_code_between_two_modules_belongs_to_the_module_that_holds_it():
    found = watched(chain(Planted(between=lambda h: (h * 0.0).log())))
    first = found.first
    assert (first.phase, first.module, first.made_here) == ("forward", "1 (Planted)", True)
    assert first.what == "what it hands to 1.second (Linear)"
    assert (first.value, first.index, first.count, first.size) == (-INF, (0, 0), 12, 12)
    assert found["backward"] is not None
    assert not found["backward"].made_here


def test_the_module_that_makes_it_is_named_and_not_the_next():
    model = chain(nn.LayerNorm(3, eps=0.0), nn.ReLU())
    nn.init.zeros_(model[0].bias)
    found = watched(model, torch.zeros(4, 2))
    assert (found.first.module, found.first.what) == ("1 (LayerNorm)", "output")
    assert found.first.made_here


@pytest.mark.parametrize(
    ("between", "value"),
    [
        (lambda h: (h * 0.0).sqrt(), NAN),  # the backward of the root is infinite, times zero
        (lambda h: torch.where(h * 0.0 == 0.0, h, (h * 0.0).log()), NAN),
        (lambda h: h * 0.0 / (h * 0.0).norm().clamp(min=1e-3) + (h * 0.0).abs().sqrt(), NAN),
    ],
)
def test_a_finite_forward_pass_with_a_bad_gradient(between, value):
    found = watched(chain(Planted(between=between)))
    assert found["forward"] is None
    first = found.first
    assert (first.phase, first.module, first.made_here) == ("backward", "1 (Planted)", True)
    assert first.what == "gradient that it sends into 1.first (Linear)"
    assert first.value == value or first.value != first.value


def test_a_branch_around_a_module_is_not_the_module():
    """The input of the inner layer is also used by code beside it, where the NaN is made."""
    model = chain(Planted(after=lambda h, x: h + (x * 0.0).sqrt()))
    found = watched(model)
    assert (found.first.module, found.first.what) == ("1 (Planted)", "gradient of its input")


def test_a_bad_gradient_of_the_loss_comes_from_outside():
    for model in (chain(), chain(nn.Identity()), nn.Sequential(nn.Linear(2, 1), nn.Identity())):
        found = watched(model, loss=lambda o: (o * 0.0).sqrt().sum())
        assert (found.first.phase, found.first.module) == ("backward", "")
        assert found.first.what == "gradient that arrives at model (Sequential)"
        assert not found.first.made_here


def test_a_bad_gradient_of_a_parameter_alone():
    class Normed(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(3))

        def forward(self, x):
            return x + self.weight * (self.weight.square().sum().sqrt() + 1.0)

    found = watched(chain(Normed()))
    assert (found.first.module, found.first.what) == ("1 (Normed)", "gradient of its parameter weight")
    assert found["forward"] is None


def test_a_bad_input_comes_from_outside():
    x = torch.ones(4, 2)
    x[2, 1] = NAN
    found = watched(chain(), x)
    assert (found.first.phase, found.first.module, found.first.index) == ("forward", "", (2, 1))
    assert "input of model (Sequential)" in str(found.first)


def test_the_state_is_looked_at_before_and_after():
    model = chain()
    optimizer = torch.optim.Adam(model.parameters())
    watched(model)
    optimizer.step()
    key = next(iter(optimizer.state.values()))
    key["exp_avg"][0] = INF
    found = watched(model, optimizer=optimizer)
    assert found.first.phase == "before"
    assert found.first.what == "optimizer's exp_avg of 0.weight"
    key["exp_avg"][0] = 0.0
    with first_non_finite(model, optimizer) as found:
        key["exp_avg"][0] = NAN
        optimizer.step()
    assert (found.first.phase, found.first.what) == ("after", "parameter 0.weight")
    for name in ("parameter 0.weight", "gradient of 0.weight", "buffer 1.running_mean"):
        model = chain(nn.BatchNorm1d(3))
        watched(model)
        bad = {"p": model[0].weight.data, "g": model[0].weight.grad, "b": model[1].running_mean}[name[0]]
        bad[-1] = NAN
        assert watched(model).first.what == name


def test_gradients_that_overflow_while_they_add_up():
    w = nn.Linear(1, 1, bias=False).to(torch.float16)
    with first_non_finite(w) as found:
        for _ in range(2):
            (w(torch.ones(1, 1, dtype=torch.float16)) * 6e4).sum().backward()
    assert found.first.phase == "after"
    assert (found.first.what, found.first.value) == ("gradient of weight", INF)


class Masked(nn.Module):
    """Scores that are masked inside, by a mask that is handed in or by one that is added beforehand."""

    def __init__(self, beforehand=False):
        super().__init__()
        self.inner, self.beforehand = nn.Softmax(dim=-1), beforehand

    def forward(self, s, mask):
        return {"p": self.inner(s + mask) if self.beforehand else Masked.plain(s, mask=mask)}

    @staticmethod
    def plain(s, mask):
        return torch.softmax(s + mask, dim=-1)


@pytest.mark.parametrize(
    ("beforehand", "rows", "allow", "module"),
    [
        (False, 1, False, None),
        (False, 2, False, "model (Masked)"),
        (True, 1, False, "model (Masked)"),
        (True, 1, True, None),
        (True, 2, True, "inner (Softmax)"),
    ],
)
def test_a_mask_of_minus_infinity_may_be_meant(beforehand, rows, allow, module):
    s = torch.zeros(2, 3, requires_grad=True)
    mask = torch.tensor([[0.0, -INF, 0.0], [-INF, -INF, -INF]])
    with first_non_finite(model := Masked(beforehand), allow_minus_inf=allow) as found:
        model(s[:rows], mask[:rows])["p"].square().sum().backward()
    assert (found.first and found.first.module) == module


def test_the_masks_that_a_stock_encoder_makes_are_no_trouble():
    layer = nn.TransformerEncoderLayer(4, 2, 4, batch_first=True, dropout=0.0)
    model, x = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False), torch.randn(2, 3, 4)
    padding = torch.tensor([[False, False, True], [False, True, True]])
    with first_non_finite(model) as found:
        model(x, src_key_padding_mask=padding).sum().backward()
    assert found.first is None


@dataclass
class Answer:
    """An output of the kind that libraries return."""

    first: torch.Tensor
    rest: list


@pytest.mark.parametrize(
    ("wrap", "path"),
    [
        (lambda x: (x, x / 0.0), "output[1]"),
        (lambda x: {"o": x, "lse": x / 0.0}, "output['lse']"),
        (lambda x: Answer(x, [x, (x, x / 0.0)]), "output.rest[1][1]"),
        (lambda x: [x / 0.0], "output"),
    ],
)
def test_outputs_in_containers_are_looked_at(wrap, path):
    class Wrapped(nn.Module):
        def forward(self, x):
            return wrap(x)

    model = Wrapped()
    with first_non_finite(model) as found:
        model(torch.ones(2))
    assert found.first.what == path


def test_a_shared_module_has_all_its_names_and_the_number_of_the_call():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(1, 1)
            self.b = self.a

        def forward(self, x):
            return self.b(self.a(x) * 0.0 + 3e38)

    model = Twice()
    nn.init.constant_(model.a.weight, 10.0)
    with first_non_finite(model) as found:
        model(torch.ones(1, 1))
    assert found.first.module == "a = b (Linear)"
    assert found.first.call == 2
    assert "a = b (Linear), call 2: output is inf" in str(found.first)


def hooks(model):
    """Return how many hooks a model and its parameters carry."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_forward_hooks_always_called")
    on_modules = sum(len(getattr(m, kind)) for m in model.modules() for kind in kinds)
    return on_modules + sum(len(p._backward_hooks or ()) for p in model.parameters())


def test_no_hook_is_left_behind():
    model = chain(Planted())
    with first_non_finite(model) as found:
        assert hooks(model) > 0
        o = model(torch.ones(4, 2))
    assert hooks(model) == 0
    (o * 0.0).sqrt().sum().backward()
    assert found.first is None
    with pytest.raises(ZeroDivisionError), first_non_finite(model):
        raise ZeroDivisionError
    assert hooks(model) == 0


def test_when_it_is_off_nothing_is_hooked():
    model = chain(Planted(between=lambda h: h / 0.0))
    with first_non_finite(model, enabled=False) as found:
        assert hooks(model) == 0
        model(torch.ones(4, 2))
    assert found.first is None


def test_an_error_in_a_module_leaves_the_next_call_in_order():
    def refuse(h):
        raise ZeroDivisionError

    broken, model = Planted(between=refuse), chain(Planted(between=lambda h: h / 0.0))
    both = nn.ModuleList([broken, model])
    with first_non_finite(both) as found:
        with pytest.raises(ZeroDivisionError):
            broken(torch.ones(1, 3))
        model(torch.ones(4, 2))
    assert found.first.module == "1.1 (Planted)"


def attention():
    """Return a model that hands one tensor to several arguments, works in place, and returns its input."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.relu, self.same = nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Identity()
            self.attend = nn.MultiheadAttention(4, 2, batch_first=True)

        def forward(self, x):
            h = self.same(self.relu(self.first(x)))
            return self.attend(h, key=h, value=h)[0] + h

    torch.manual_seed(2)
    return Net()


def test_values_and_gradients_are_the_same_as_without_it():
    model, x = attention(), torch.randn(2, 3, 4)
    plain = model(x)
    want = torch.autograd.grad(plain.square().sum(), list(model.parameters()))
    with first_non_finite(model) as found:
        o = model(x)
        got = torch.autograd.grad(o.square().sum(), list(model.parameters()))
    assert found.first is None
    assert torch.equal(o, plain)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_a_lazy_module_is_watched_once_it_has_parameters():
    model = nn.Sequential(nn.LazyLinear(3), nn.LayerNorm(3, eps=0.0))
    with first_non_finite(model) as found:
        model[0](torch.ones(1, 2))
        nn.init.zeros_(model[0].weight)
        nn.init.zeros_(model[0].bias)
        model(torch.ones(1, 2))
    assert found.first.module == "1 (LayerNorm)"


def test_a_recomputed_module_is_watched_too():
    from torch.utils.checkpoint import checkpoint

    inner = Planted(between=lambda h: (h * 0.0).sqrt())

    class Recomputed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return checkpoint(self.inner, x, use_reentrant=False)

    found = watched(chain(Recomputed()))
    assert (found.first.phase, found.first.module) == ("backward", "1.inner (Planted)")


def test_graphs_are_freed_while_it_watches():
    model = chain(Planted())
    with first_non_finite(model):
        o = model(torch.ones(4, 2))
        ref = weakref.ref(o)
        o.sum().backward()
        del o
        gc.collect()
        assert ref() is None


def compiled():
    """Return a model with a module that looks compiled, without the time that compiling takes."""
    model = nn.Sequential(nn.Identity())
    model[0]._compiled_call_impl = model[0].forward
    return model


@pytest.mark.parametrize(
    ("arguments", "options", "told"),
    [
        ((3,), {}, "model: expected a module, got int"),
        ((compiled(),), {}, "model: expected modules that are not compiled, got a compiled 0"),
        ((nn.Identity(), 3), {}, "optimizer: expected one with a state, got int"),
        ((nn.Identity(),), {"enabled": 1}, "enabled: expected True or False"),
        ((nn.Identity(),), {"allow_minus_inf": None}, "allow_minus_inf: expected True or False"),
    ],
)
def test_bad_input_is_named(raw_errors, arguments, options, told):
    with pytest.raises(DtypeError, match=told), first_non_finite(*arguments, **options):
        pass
