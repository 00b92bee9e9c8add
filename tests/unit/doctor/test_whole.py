"""The pipeline is the reference's attention, and each wrong attention differs from it where it says so."""

from types import SimpleNamespace

import numpy as np
import pytest

from attngrad.doctor import Case
from attngrad.doctor.judging import oracle
from attngrad.mistakes import MISTAKES
from attngrad.mistakes.whole import STATE, WHOLE, Attention, right
from attngrad.mistakes.whole.record import differs
from attngrad.mistakes.whole.stages import Stages, stage
from attngrad.offsets import T5Map

from .whole_cases import random_case, special_cases

RANDOM = [random_case(seed) for seed in range(160)]
CASES = [*RANDOM[:48], *special_cases()]


def close(got, want):
    """Say whether answers agree to 1e-12 of the largest, and NaN and infinity exactly."""
    finite = np.isfinite(want)
    if got.shape != want.shape or not np.array_equal(got[~finite], want[~finite], equal_nan=True):
        return False
    largest = max(1.0, np.abs(want[finite]).max(initial=0.0))
    return bool((np.abs(got[finite] - want[finite]) <= 1e-12 * largest).all())


@pytest.mark.parametrize("first", range(0, 160, 40))
def test_the_pipeline_is_the_attention_of_the_reference(first):
    for case in RANDOM[first : first + 40]:
        got, want = Attention(case).answers(), oracle.answers(case)
        assert got.keys() == want.keys()
        for name in want:
            assert close(got[name], want[name]), (case.name, name)


def test_every_option_is_drawn():
    def some(has):
        return any(has(case) for case in RANDOM)

    assert some(lambda case: case.table is not None and case.table.shape[0] == 1 and case.sizes["H"] > 1)
    assert some(lambda case: case.softcap and case.softcap_on == "product" and case.bias_inside_scale)
    assert some(lambda case: np.isneginf(right(case).lse).any() and case.bias is not None)
    assert some(lambda case: case.lengths)
    assert some(lambda case: case.table is not None and case.table.ndim == 1)
    assert some(lambda case: case.bias is not None and (case.bias < -1e30).any() and case.sink is not None)
    assert some(lambda case: case.keep is not None and case.sizes["H"] > case.sizes["H_kv"])


def changed(whole):
    """Return the answers that a wrong attention changes in some case, each case with one of its variants."""
    found = set()
    for number, case in enumerate(CASES):
        want = right(case).answers()
        settings = whole.settings[number % len(whole.settings)]
        for kept in (whole.settings[0], settings):
            made = whole.pipeline(case, **kept)
            got = want if made is right(case) else made.answers()
            found |= {name for name in want if differs({name: want[name]}, {name: got[name]})}
    return found


@pytest.mark.parametrize("id", WHOLE)
def test_a_wrong_attention_changes_some_of_what_it_reaches_and_nothing_else(id):
    found = changed(WHOLE[id])
    assert found
    assert found <= set(WHOLE[id].reaches)


@pytest.mark.parametrize("id", WHOLE)
def test_what_is_shared_with_the_right_pipeline_is_what_would_be_computed(id):
    for case in CASES[::7]:
        for settings in WHOLE[id].settings[:2]:
            alone = WHOLE[id].kind(case, **settings)
            if alone.suits():
                shared = WHOLE[id].pipeline(case, **settings).answers()
                assert not differs(alone.answers(), shared, rtol=0.0)


@pytest.mark.parametrize("id", WHOLE)
def test_a_wrong_attention_replaces_steps_alone(id):
    own = {"anything", "by_contrast", "suits", "answers", "chain", "only_last", "shared", "tail", "rows_at"}
    for name in dir(WHOLE[id].kind):
        here, there = getattr(WHOLE[id].kind, name), getattr(Attention, name, None)
        if there is not None and here is not there and not name.startswith("_"):
            assert isinstance(here, stage) or name in own, name


def test_records_say_what_is_wrong_and_where_it_was_seen():
    for id, whole in WHOLE.items():
        assert whole.id == id
        assert whole.text.endswith(".")
        assert "\n" not in whole.text
        public = "http" in whole.seen or "post, section" in whole.seen
        assert public or whole.seen == "no public source" or whole.seen == MISTAKES[id].seen
        assert whole.level in ("forward", "backward", "final")
    assert not set(WHOLE) & set(STATE)


def test_a_mistake_by_an_id_that_functions_have_is_the_same_mistake():
    shared = set(WHOLE) & set(MISTAKES)
    assert len(shared) > 30
    assert all(WHOLE[id].seen == MISTAKES[id].seen for id in shared)


def dense_case(**fixed):
    """Return a case of one head with a bias of all pairs."""
    draw = np.random.default_rng(8)
    fields = {name: draw.standard_normal((1, 1, 5, 3)) for name in ("q", "k", "v", "do")}
    fields |= {"dtype": "float64", "bias": draw.standard_normal((5, 5)), "scale": 0.7}
    return Case("dense", "", wants=("dq", "dk", "dv", "dbias"), **{**fields, **fixed})


@pytest.mark.parametrize(
    "id", ["softmax-vjp-diagonal-only", "softmax-vjp-elementwise", "softmax-vjp-sign-flipped",
           "softmax-vjp-flattened-batch", "attention-delta-unweighted"],
)  # fmt: skip
def test_the_core_is_the_function_of_the_same_id(id):
    case = dense_case()
    x = right(case)
    want = MISTAKES[id].function(x.weights.p[0, 0], x.dp[0, 0])
    assert close(WHOLE[id].answers(case)["dbias"], want)


@pytest.mark.parametrize("id", ["bias-inside-scale-instead", "bias-exp2-unscaled"])
def test_the_weights_are_those_of_the_function_of_the_same_id(id):
    case = dense_case()
    p = MISTAKES[id].function(right(case).qk, case.bias, case.scale)
    assert close(WHOLE[id].answers(case)["o"], p @ case.v)


@pytest.mark.parametrize("id", [id for id in WHOLE if id.startswith("bias-inside-vjp")])
def test_the_gradient_of_a_bias_inside_the_scale_is_the_function_of_the_same_id(id):
    case = dense_case(bias_inside_scale=True)
    x = right(case)
    want = MISTAKES[id].function(x.weights.p, x.dp, case.scale)
    assert close(WHOLE[id].answers(case)["dbias"], np.asarray(want)[0, 0])


def test_columns_beyond_the_last_key_are_those_of_the_function():
    case = next(case for case in CASES if case.name == "far")
    whole, x = WHOLE["table-vjp-tail-columns"], right(case)
    N, M = case.sizes["N"], case.sizes["M"]
    beyond = -(-M // 64) * 64
    row = T5Map(32, 128)(N, beyond, M - N)
    want = MISTAKES[whole.id].function(case.table, row, x.product[0], x.dp[0])
    assert close(whole.answers(case)["dtable"], want)


def test_an_empty_row_is_nan_where_the_mistake_makes_it_so():
    mask = np.ones((5, 5), dtype=bool)
    mask[2] = False
    case = dense_case(mask=mask)
    o = WHOLE["attention-empty-row-nan"].answers(case)["o"]
    assert np.isnan(o[0, 0, 2]).all()
    assert np.isfinite(o[0, 0, [0, 1, 3, 4]]).all()
    o = WHOLE["softmax-mask-large-negative"].answers(case)["o"]
    assert close(o[0, 0, 2], case.v[0, 0].mean(axis=0))


def test_bytes_of_float32_read_as_float16_are_those_of_the_report():
    bias = np.where(np.arange(4) % 2, -np.inf, 0.0).reshape(1, 4)
    arrays = {name: np.zeros((1, 1, 4 if name in "kv" else 1, 2)) for name in ("q", "k", "v", "do")}
    case = dense_case(**arrays | {"bias": bias, "dtype": "float16", "bias_dtype": "float32"})
    read = WHOLE["bias-read-in-another-dtype"].pipeline(case).bias
    assert np.array_equal(read, [[0.0, 0.0, 0.0, np.nan]], equal_nan=True)


def test_a_case_may_be_any_object_with_the_attributes():
    case = random_case(4)
    plain = SimpleNamespace(**{name: getattr(case, name) for name in case.__dataclass_fields__})
    whole = WHOLE["attention-dq-unscaled"]
    assert not differs(whole.answers(case), whole.answers(plain))
    assert whole.applies(plain)
    assert not WHOLE["alibi-vjp-zero"].applies(dense_case())


class Chain(Stages):
    """Three steps, and how often each was computed."""

    count = 0

    @stage
    def x(self) -> float:
        type(self).count += 1
        return 1.0

    @stage
    def y(self) -> float:
        return 2.0 * self.x

    @stage
    def z(self) -> float:
        return 3.0


class OtherX(Chain):
    """Another first step, which builds on the first."""

    @stage
    def x(self) -> float:
        return 10.0 * super().x


def test_a_step_is_computed_once_and_may_build_on_the_one_that_it_replaces():
    chain = Chain()
    assert (chain.y, chain.x, Chain.count) == (2.0, 1.0, 1)
    other = OtherX()
    assert (other.x, other.y) == (10.0, 20.0)
    with pytest.raises(AttributeError, match="subclass"):
        chain.x = 3.0


def test_steps_that_something_different_feeds_are_not_taken_over():
    chain = Chain()
    assert (chain.y, chain.z) == (2.0, 3.0)
    other = OtherX()
    other.take_over(chain)
    assert {step.name for step in other.done} == {"z"}
    assert (other.y, other.x, other.z) == (20.0, 10.0, 3.0)
