"""Attention in blocks: equal to attention as a whole, whatever the blocks, and mutants of its source."""

import importlib
import inspect
import tracemalloc
from functools import reduce
from types import ModuleType

import numpy as np
import pytest

from attngrad import reference as ref
from attngrad.checks import check_close, check_vjp
from attngrad.notation import DtypeError, RangeError, ShapeError

BLOCKS = importlib.import_module("attngrad.reference.blocks")
B, N, M, D, D_V = 2, 5, 7, 3, 4
COLUMNS = (1, 2, 3, M, 100)


def draw(seed: int = 0, hidden: bool = True) -> tuple[np.ndarray, ...]:
    """Return q, k, v and a bias under which a query has no key, and another one none in the first blocks."""
    rng = np.random.default_rng(seed)
    q, k, v, bias = (rng.normal(size=s) for s in ((B, N, D), (B, M, D), (B, M, D_V), (B, N, M)))
    if hidden:
        bias[0, 1], bias[1, 3, :4] = -np.inf, -np.inf
    return q, k, v, bias


def whole(q, k, v, bias, **options) -> ref.Attention:
    """Return attention as a whole, of one head."""
    return ref.attention(
        q[:, None], k[:, None], v[:, None], None if bias is None else bias[:, None], **options
    )


def check_against_whole(blocks: ModuleType, columns: int) -> None:
    """Require o, lse and all gradients of attention as a whole."""
    q, k, v, bias = draw()
    rng = np.random.default_rng(1)
    do, dlse = rng.normal(size=(B, N, D_V)), rng.normal(size=(B, N))
    state = blocks.attention_in_blocks(q, k, v, bias, columns=columns, scale=0.7)
    saved = whole(q, k, v, bias, scale=0.7)
    check_close("lse", state.lse, saved.lse[:, 0], terms=4.0)
    check_close("o", state.o, saved.o[:, 0], terms=4.0)
    found = blocks.attention_in_blocks_vjp(
        q, k, v, bias, BLOCKS.State(saved.lse[:, 0], saved.o[:, 0]), do, dlse, columns=columns, scale=0.7
    )
    wanted = ref.attention_vjp(saved, do[:, None], dlse[:, None])
    for name, got, want in zip(found._fields, found, wanted[:4], strict=True):
        check_close(name, got, want[:, 0], terms=20.0)
        assert np.abs(got).max() > 0.1


def check_merge(blocks: ModuleType) -> None:
    """Require of a merge the derivatives of differences."""
    rng = np.random.default_rng(2)
    inputs = tuple(rng.normal(size=s) for s in ((N,), (N, D_V), (N,), (N, D_V)))

    def merged(a, x, b, y):
        return tuple(blocks.merge_states(blocks.State(a, x), blocks.State(b, y)))

    def merged_vjp(a, x, b, y, dlse, do):
        one, other = blocks.merge_states_vjp(blocks.State(a, x), blocks.State(b, y), do, dlse)
        return (*one, *other)

    check_vjp(merged, merged_vjp, inputs, name="merge")


def check_all(blocks: ModuleType) -> None:
    """Require what the two checks above require."""
    check_against_whole(blocks, 3)
    check_merge(blocks)


@pytest.mark.parametrize("columns", COLUMNS)
def test_blocks_of_any_size_give_attention_and_its_gradients(columns):
    check_against_whole(BLOCKS, columns)


def test_a_merge_has_the_derivatives_of_differences():
    check_merge(BLOCKS)


def test_without_a_bias_or_a_cotangent_of_lse_they_are_zero():
    q, k, v, _ = draw()
    state, do = ref.attention_in_blocks(q, k, v, columns=3), np.random.default_rng(3).normal(size=(B, N, D_V))
    found = ref.attention_in_blocks_vjp(q, k, v, None, state, do, columns=2)
    wanted = ref.attention_vjp(whole(q, k, v, None), do[:, None])
    for got, want in zip(found[:3], wanted[:3], strict=True):
        check_close("gradient", got, want[:, 0], terms=20.0)
    assert found.dbias is None


def test_states_can_be_merged_in_any_order_and_grouping():
    _, _, v, s = draw()
    one, two, three = (
        ref.attention_block(s[..., keys], v[:, keys]) for keys in (slice(0, 2), slice(2, 4), slice(4, M))
    )
    want = ref.attention_block(s, v)
    merge = ref.merge_states
    for got in (
        merge(merge(one, two), three),
        merge(one, merge(two, three)),
        merge(merge(three, one), two),
        reduce(merge, (ref.attention_block(s[..., [j]], v[:, [j]]) for j in (6, 2, 0, 5, 1, 4, 3))),
    ):
        check_close("lse", got.lse, want.lse, terms=4.0)
        check_close("o", got.o, want.o, terms=4.0)


def test_the_state_of_no_key_changes_nothing_and_two_of_them_are_one():
    _, _, v, s = draw()
    some, nothing = ref.attention_block(s, v), ref.attention_block(s[..., :0], v[:, :0])
    assert np.isneginf(nothing.lse).all()
    assert not nothing.o.any()
    for got in (ref.merge_states(some, nothing), ref.merge_states(nothing, some)):
        assert np.array_equal(got.lse, some.lse)
        assert np.array_equal(got.o, some.o)
    twice = ref.merge_states(nothing, nothing)
    assert np.isneginf(twice.lse).all()
    assert not twice.o.any()
    cotangents = ref.merge_states_vjp(nothing, nothing, np.ones(nothing.o.shape), np.ones(nothing.lse.shape))
    assert not any(x.any() for state in cotangents for x in state)


def test_scores_of_any_size_stay_in_range():
    q, k, v, _ = draw()
    bias = np.random.default_rng(4).normal(size=(B, N, M)) * 1e4
    state = ref.attention_in_blocks(q, k, v, bias, columns=2)
    saved = whole(q, k, v, bias)
    check_close("lse", state.lse, saved.lse[:, 0])
    check_close("o", state.o, saved.o[:, 0], terms=4.0)


def test_no_array_has_a_number_for_each_pair():
    n, rng = 700, np.random.default_rng(5)
    q, k, v, do = rng.normal(size=(4, 1, n, 2))

    def peak(columns: int) -> int:
        tracemalloc.start()
        state = ref.attention_in_blocks(q, k, v, columns=columns)
        ref.attention_in_blocks_vjp(q, k, v, None, state, do, columns=columns)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert peak(20) < n * n * 8 / 4
    assert peak(n) > n * n * 8


# What is changed in the source, and into what; the checks above must reject it.
MUTANTS = {
    "the first part is not rescaled": (
        "_weights(x.lse, total)[..., None]",
        "np.exp(x.lse - one.lse)[..., None]",
    ),
    "parts are averaged": ("_weights(x.lse, total)[..., None]", "0.5 * np.ones((*total.shape, 1))"),
    "lse is the largest": ("np.logaddexp(one.lse, other.lse)", "np.maximum(one.lse, other.lse)"),
    "lse of parts has no cotangent": ("share * ((do * (x.o - o)).sum(axis=-1) + dlse)", "share * dlse"),
    "lse of parts from o alone": ("(do * (x.o - o)).sum(axis=-1) + dlse", "(do * x.o).sum(axis=-1) + dlse"),
    "o of parts gets it all": ("share[..., None] * do)", "do)"),
    "weights of the block alone": (
        "p = _weights(given.scores(keys), log_sum[..., None])",
        "p = softmax(given.scores(keys))",
    ),
    "delta of the block alone": (
        "ds = p * (do @ np.swapaxes(given.v[..., keys, :], -1, -2) + row)",
        "dp = do @ np.swapaxes(given.v[..., keys, :], -1, -2); ds = p * (dp - (p * dp).sum(-1)[..., None])",
    ),
    "cotangent of lse subtracted": ("(dlse - (do * o)", "(-dlse - (do * o)"),
    "dq of the last block": ("dq += given", "dq = given"),
    "dq without scale": ("dq += given.scale * ds", "dq += ds"),
    "dk without scale": ("given.scale * np.swapaxes(ds", "np.swapaxes(ds"),
    "dv from ds": ("np.swapaxes(p, -1, -2) @ do", "np.swapaxes(ds, -1, -2) @ do"),
    "last keys left out": (
        "for first in range(0, M, columns)",
        "for first in range(0, M - columns + 1, columns)",
    ),
    "bias of the first keys": (
        "+ self.bias[..., keys]",
        "+ self.bias[..., : product.shape[-1]]",
    ),
    "no key is a number": ("nothing = np.isneginf(total)", "nothing = np.isnan(total)"),
}


def planted(old: str, new: str) -> ModuleType:
    """Return the module with a change in its source."""
    source = inspect.getsource(BLOCKS)
    assert source.count(old) == 1, old
    module = ModuleType("planted")
    exec(compile(source.replace(old, new), "planted", "exec"), vars(module))
    return module


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_mistake_is_caught(name, monkeypatch):
    module = planted(*MUTANTS[name])
    monkeypatch.setattr(BLOCKS, "State", module.State)
    with pytest.raises((AssertionError, RangeError)):
        check_all(module)


@pytest.mark.usefixtures("raw_errors")
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda q, k, v, s: ref.attention_in_blocks(q, k, v, s, columns=0), RangeError, "columns: expected"),
        (
            lambda q, k, v, s: ref.attention_in_blocks(q, k, v, s[0], columns=1),
            ShapeError,
            "bias: expected sha",
        ),
        (lambda q, k, v, s: ref.attention_in_blocks(q[..., :0], k[..., :0], v, columns=1), ShapeError, "q: "),
        (
            lambda q, k, v, s: ref.attention_in_blocks(1e200 * q, 1e200 * k, v, columns=1),
            RangeError,
            "scale q.k",
        ),
        (lambda q, k, v, s: ref.attention_block(s[0, 0], v[0]), ShapeError, "s: expected at least 2 axes"),
        (lambda q, k, v, s: ref.attention_block(s, v[:1]), ShapeError, "v: expected shape"),
        (
            lambda q, k, v, s: ref.merge_states(None, None),
            DtypeError,
            "one: expected .* a State, got NoneType",
        ),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call(*draw())


def test_states_that_do_not_fit_are_named(raw_errors):
    _, _, v, s = draw()
    one = ref.attention_block(s, v)
    other = ref.attention_block(s[:, :2], v)
    with pytest.raises(
        ShapeError, match=r"other.o: expected shape \(2, 5, 4\) as for one.o, got \(2, 2, 4\)"
    ):
        ref.merge_states(one, other)
    with pytest.raises(ShapeError, match=r"one.o: expected shape"):
        ref.merge_states(one._replace(lse=one.lse[:1]), one)
    with pytest.raises(RangeError, match=r"one.lse: expected finite logits or -inf, got inf"):
        ref.merge_states(one._replace(lse=-one.lse), one)
