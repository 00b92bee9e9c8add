"""The checks of the page of symptoms run: each finds its cause where it is planted, and clears sound code."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from attngrad import layers, reference
from attngrad.mistakes import MISTAKES
from attngrad.mistakes.positions import POSITIONS
from attngrad.mistakes.training import TRAINING
from attngrad.mistakes.whole import WHOLE
from attngrad.mistakes.whole.state import STATE
from booktools.paths import ROOT

F64 = torch.float64
PAGE = (ROOT / "book" / "symptoms.md").read_text()
SETUP = re.search(r"^```python\n(.+?)^```", PAGE, re.S | re.M)[1]
ITEMS = dict(re.findall(r"^\*\*(.+)\*\*\n((?:[: ].+\n)+)", PAGE, re.M))
CHECKS = {term: re.search(r"\*Check\.\* `(.+)`\\\n", text)[1] for term, text in ITEMS.items()}

torch.manual_seed(0)
Q, K, V = (torch.randn(2, 4, 17, 3, dtype=F64) for _ in range(3))
BIAS = torch.randn(4, 17, 17, dtype=F64)


def ref(q, k, v, bias, **options):
    """Return attention by plain torch operations."""
    return layers.attention(q, k, v, bias, **options)


def through(x, change):
    """Return x, with a function in the way of its gradient."""
    x = x * 1.0
    if x.requires_grad:
        x.register_hook(change)
    return x


def with_dbias(change):
    """Return attention with a change of the gradient of its bias, given the batch of q."""
    return lambda q, k, v, bias: ref(q, k, v, through(bias, lambda g: change(g, len(q))))


def diagonal(q, k, v, bias):
    """Return attention whose bias is made from the sizes in another alignment."""
    return ref(q, k, v, bias, causal=True, query_start=0)


def tail_lost(q, k, v, bias):
    """Return attention whose backward pass skips the queries of a last block that is not full."""
    whole = q.shape[-2] // 8 * 8
    return ref(through(q, lambda g: g * (torch.arange(g.shape[-2])[:, None] < whole)), k, v, bias)


def one_group(q, k, v, bias):
    """Return attention that keeps the gradient of the last head of a group alone."""
    if k.shape[1] == q.shape[1]:
        return ref(q, k, v, bias)
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    return ref(q, through(k, lambda g: g * (torch.arange(4)[:, None, None] == 3)), v, bias)


def reads_contiguous(q, k, v, bias):
    """Return attention whose backward pass reads the memory of the cotangent, whatever its strides are."""

    def misread(do):
        held = do.untyped_storage().nbytes() // 8
        return do if held >= do.numel() else do * 0.5

    return through(ref(q, k, v, bias), misread)


class Stateful:
    """Attention that goes wrong at the first call, or at each call otherwise."""

    def __init__(self, noise):
        self.calls, self.noise = 0, noise

    def __call__(self, q, k, v, bias):
        self.calls += 1
        return ref(q, k, v, bias) * (1.0 + self.noise(self.calls))


class Model(nn.Module):
    """A model with a table that it looks up, and a projection; kept=True keeps the bias of the first call."""

    def __init__(self, *, kept=False, dtype=F64, tied=False, frozen=False, unused=False):
        super().__init__()
        self.table, self.W = (
            nn.Parameter(torch.ones(2, 5, dtype=dtype)),
            nn.Parameter(torch.eye(2, dtype=dtype)),
        )
        self.kept, self.bias, self.unused = kept, None, unused
        if tied:
            self.again = self.table
        if frozen:
            self.extra = nn.Parameter(torch.ones(2, dtype=dtype))

    def forward(self, x):
        if self.bias is None or not self.kept:
            self.bias = self.table.exp()[:, [0, 1, 1]].sum(dim=0)[:2]
        bias = self.bias * 0 if self.unused else self.bias
        return torch.softmax(x @ self.W + bias, dim=-1).log()[..., 0]


def run(model, x=None, opt=None):
    """Return names for a model after one backward pass."""
    x = torch.eye(2, dtype=model.W.dtype) if x is None else x
    model(x).sum().backward()
    opt = opt or torch.optim.SGD(model.parameters(), lr=1e-3)
    return {"model": model, "x": x, "p": model.table, "opt": opt, "row": torch.tensor([0, 1, 2])}


def unlisted():
    """Return a model whose table stands in a list."""
    model = Model()
    table = model.table
    del model.table
    model.table = [table][0].detach().requires_grad_()
    return {"model": model, "p": model.table}


def scattered(rows, gradient):
    """Return names for a table with a gradient and the rows that were looked up."""
    p = nn.Parameter(torch.zeros(1, 4))
    p.grad = torch.tensor([gradient])
    return {"p": p, "row": torch.tensor(rows)}


def table_of_zeros(blind):
    """Return names for a parameter whose loss is blind to it, or whose attention is."""
    p = nn.Parameter(BIAS.clone())
    loss = ref(Q, K, V.new_ones(V.shape), p).sum() if blind else ref(Q, K, V, p).square().sum()
    loss.backward()
    return {"p": p}


def low_precision(sick):
    """Return three gradients: of 16 bits, of a plain run in the same type, and the exact one."""
    want = torch.randn(64, dtype=F64)
    plain = want.bfloat16()
    return {"want": want, "plain16": plain, "got16": (plain * 1.3 if sick else plain).bfloat16()}


def nan_model(where):
    """Return a model that makes a NaN at once, or whose optimizer holds one."""
    model = Model()
    opt = torch.optim.Adam(model.parameters())
    names = run(model, opt=opt)
    if where == "forward":
        model.table.data[0, 0] = -torch.inf
        names["x"] = torch.full((2, 2), -torch.inf, dtype=F64)
    opt.step()
    if where == "optimizer":
        opt.state[model.W]["exp_avg"][0, 0] = torch.inf
    return names


def loss_of(reduction):
    """Return names for a loss that is a sum or a mean over a batch."""
    model = Model()
    return {"loss": lambda x: getattr(model(x), reduction)(), "x": torch.eye(2, dtype=F64), "p": model.table}


def step_of(**more):
    """Return names for one step of a model, by an optimizer that misses what ``left_out`` says."""
    left_out, model = more.pop("left_out", ""), Model(**more)
    held = [x for name, x in model.named_parameters() if name != left_out]
    return run(model, opt=torch.optim.SGD(held, lr=1e-3))


def softmax_vjp_in(factor):
    """Return names for a forward pass and a backward pass that is wrong by a factor."""

    def vjp(scores, do):
        return factor * reference.softmax_vjp(reference.softmax(scores), do)

    return {"forward": reference.softmax, "vjp": vjp, "scores": torch.randn(3, 4, dtype=F64).numpy()}


def dropped_last(q, k, v, bias):
    """Return attention that keeps the gradient of one sequence of the batch for its bias."""
    both = ref(q, k, v, through(bias.expand(len(q), 4, 17, 17), lambda g: g * (len(g) == 1 or 0.5)))
    return both


def half(size):
    """Return names for queries and keys of one size in every feature."""
    return {"q": torch.full((1, 1, 2, 64), size), "k": torch.full((1, 1, 2, 64), size)}


def pair(factor=1.0, size=1.0):
    """Return names for a gradient and one that is off by a factor."""
    want = torch.randn(9, dtype=F64) * size
    return {"want": want, "got": factor * want}


def with_grads(bad):
    """Return a model with the gradient of one parameter planted."""
    names = run(Model())
    names["p"].grad[0, 0] = bad
    return names


def aliased():
    """Return one gradient under two names."""
    want = torch.ones(3)
    return {"want": want, "got": want}


def f(function):
    """Return the name of an attention."""
    return {"f": function}


def stale(kept):
    """Return a model whose table is about to change."""
    model = Model(kept=kept)
    return {"model": model, "x": torch.eye(2, dtype=F64), "p": model.table}


def after_backward(zeroed):
    """Return a parameter just before its next backward pass."""
    names = run(Model())
    if zeroed:
        names["model"].zero_grad(set_to_none=False)
    return names


def sound_attention() -> dict[str, Any]:
    """Return sound attention."""
    return f(ref)


# term: (planted cause, sound code)
CASES: dict[str, tuple[Callable[[], dict], Callable[[], dict]]] = {
    "A gradient is `None`.": (lambda: run(Model(frozen=True)), lambda: run(Model())),
    "A table is not among the parameters.": (unlisted, lambda: run(Model())),
    "The gradient of a bias is exactly zero, and the output does not depend on it.": (
        lambda: f(lambda q, k, v, bias: ref(q, k, v, 0 * bias)), sound_attention,
    ),
    "The gradient of a bias is exactly zero, and the output does depend on it.": (
        lambda: f(with_dbias(lambda g, B: 0 * g)), sound_attention,
    ),
    "The gradient is zero with this loss, and not with a random cotangent.": (
        lambda: f(ref) | table_of_zeros(True), lambda: f(ref) | table_of_zeros(False),
    ),
    "Zero as soon as the batch is larger than one.": (
        lambda: f(with_dbias(lambda g, B: g * (B == 1))), sound_attention,
    ),
    "Only layer 0 of several has a table with a gradient.": (
        lambda: run(Model(tied=True)), lambda: run(Model()),
    ),
    "Some rows of a table have no gradient.": (
        lambda: scattered([0, 1], [1.0, 2.0, 0.0, 0.0]),
        lambda: scattered([0, 1, 2, 3], [1.0, 2.0, 3.0, 0.0]),
    ),
    "Rows have a gradient that no pair looks up, or rows that are looked up have none.": (
        lambda: scattered([0, 1], [1.0, 0.0, 2.0, 0.0]), lambda: scattered([0, 1], [1.0, 2.0, 0.0, 0.0]),
    ),
    "Two implementations differ by a constant factor in a gradient.": (lambda: pair(0.693), pair),
    "The outputs differ as soon as there is a bias.": (
        lambda: f(lambda q, k, v, bias: ref(q, k, v, 0.693 * bias)), sound_attention,
    ),
    "Right for a bias of its own for each head, wrong for a shared one.": (
        lambda: f(with_dbias(lambda g, B: g / (4 if len(g) == 1 else 1))), sound_attention,
    ),
    "Wrong only for lengths that are not a multiple of a block.": (lambda: f(tail_lost), sound_attention),
    "Wrong only with more than one sequence in the batch.": (lambda: f(dropped_last), sound_attention),
    "Wrong only if there are more keys than queries, as with a cache.": (
        lambda: {"f": diagonal, "ref": lambda *x: ref(*x, causal=True)},
        lambda: {"f": lambda *x: ref(*x, causal=True), "ref": lambda *x: ref(*x, causal=True)},
    ),
    "Wrong only if queries have more heads than keys.": (lambda: f(one_group), sound_attention),
    "Wrong only if the cotangent was expanded, as that of a sum is.": (
        lambda: f(reads_contiguous), sound_attention,
    ),
    "Wrong only in bfloat16 or float16.": (lambda: low_precision(True), lambda: low_precision(False)),
    "Another answer at the first call only.": (lambda: f(Stateful(lambda call: call == 1)), sound_attention),
    "The output stays the same after the table has changed.": (lambda: stale(True), lambda: stale(False)),
    '"Backward through the graph a second time" at the second step.': (
        lambda: stale(True), lambda: stale(False),
    ),
    "Another gradient at every run.": (lambda: f(Stateful(lambda call: 1e-12 * call)), sound_attention),
    "NaN at once.": (lambda: nan_model("forward"), lambda: run(Model())),
    "NaN after a while.": (lambda: nan_model("optimizer"), lambda: nan_model("")),
    "NaN only in rows that are padding.": (
        lambda: {"mask": torch.tensor([[True, False], [False, False]])},
        lambda: {"mask": torch.tensor([[True, False], [False, True]])},
    ),
    "Infinite only in float16.": (lambda: half(32.0), lambda: half(31.0)),
    "A norm is NaN, and nobody says of what.": (lambda: with_grads(torch.nan), lambda: with_grads(1.0)),
    "The loss falls and the table never moves.": (
        lambda: step_of(left_out="table"), lambda: step_of(),
    ),
    "The mean of a table drifts.": (
        sound_attention, lambda: f(lambda q, k, v, bias: ref(q, k, v, bias, softcap=1.0)),
    ),
    "The loss falls, though a gradient is wrong by a factor.": (
        lambda: softmax_vjp_in(0.5), lambda: softmax_vjp_in(1.0),
    ),
    "The gradient check passes, and training is wrong all the same.": (lambda: pair(size=1e-5), pair),
    "The test compares a tensor with itself.": (aliased, pair),
    "Gradients grow with the batch.": (lambda: loss_of("sum"), lambda: loss_of("mean")),
    "Gradients grow from step to step.": (lambda: after_backward(False), lambda: after_backward(True)),
}  # fmt: skip


# The checks that answer with an error, and what it says.
RAISES = {
    "Wrong only in bfloat16 or float16.": (AssertionError, "exceeds"),
    '"Backward through the graph a second time" at the second step.': (RuntimeError, "second time"),
    "The loss falls, though a gradient is wrong by a factor.": (AssertionError, "exceeds"),
}


def result_of(check: str, names: dict[str, Any]) -> Any:
    """Run a check of the page: statements, of which the last may be an expression."""
    space: dict[str, Any] = {"q": Q, "k": K, "v": V, "bias": BIAS, "f": ref, "ref": ref}
    exec(SETUP, space)
    space |= names
    if check.startswith("with "):
        exec(check, space)
        found = space["found"]
        return found.outside + found.still if hasattr(found, "outside") else found.first
    *before, last = check.split("; ")
    exec("\n".join(before), space)
    return eval(last, space)


def test_every_symptom_has_a_check_and_a_case():
    assert len(ITEMS) == PAGE.count("*Cause.*") == PAGE.count("*Check.*") == PAGE.count("*Where.*")
    assert set(CHECKS) == set(CASES)
    assert len(CHECKS) > 30


@pytest.mark.parametrize("term", CASES)
def test_a_check_finds_its_cause_and_clears_sound_code(term):
    planted, sound = CASES[term]
    if term in RAISES:
        error, told = RAISES[term]
        with pytest.raises(error, match=told):
            result_of(CHECKS[term], planted())
        result_of(CHECKS[term], sound())
        return
    found, cleared = result_of(CHECKS[term], planted()), result_of(CHECKS[term], sound())
    assert found
    assert not cleared


def test_a_step_lost_in_rounding_is_named_too():
    names = step_of(dtype=torch.bfloat16)
    names["opt"].param_groups[0]["lr"] = 1e-9
    assert "table" in result_of(CHECKS["The loss falls and the table never moves."], names)


def test_every_mistake_that_the_page_names_exists():
    known = {*MISTAKES, *WHOLE, *STATE, *(mistake.id for mistake in (*TRAINING, *POSITIONS))}
    lines = [
        line.rpartition("*Known as*")[2] for line in PAGE.splitlines() if re.search("Known as|^\\|", line)
    ]
    told = {id for line in lines for id in re.findall(r"(?<!\})`([a-z0-9]+(?:-[a-z0-9]+)+)`", line)}
    assert len(told) > 30
    assert told <= known, told - known
