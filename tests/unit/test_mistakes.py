"""Every wrong variant is rejected by the check that it names, and the right function passes the same check.

A variant may also agree with the right function on the inputs that naive tests use. Which ones is recorded
with the mistake and computed again here.
"""

import dataclasses
import re

import numpy as np
import pytest

from attngrad import reference as ref
from attngrad.checks import check_close, check_jvp, check_vjp
from attngrad.mistakes import MISTAKES, Mistake, mistake
from attngrad.notation import RangeError

from .attention_mistakes import ATTENTION_CHECKS, naive_attention_inputs
from .bias_mistakes import BIAS_CHECKS, naive_bias_inputs, ruled_out_by_row_sums
from .calculus_mistakes import CALCULUS_CHECKS, naive_calculus_inputs
from .table_mistakes import TABLE_CHECKS, naive_table_inputs
from .training_mistakes import TRAINING_CHECKS, naive_training_inputs

RNG = np.random.default_rng(0)
S = RNG.standard_normal((3, 5))
MASK = np.array([[1, 1, 0, 1, 0], [0, 1, 1, 1, 1], [1, 0, 0, 1, 1]], dtype=bool)
TARGETS = RNG.random((3, 5))


def vjp_difference(candidate):
    check_vjp(ref.softmax, lambda s, u: candidate(ref.softmax(s), u), S)


def masked_vjp_difference(candidate):
    check_vjp(lambda s: ref.softmax(s, MASK), lambda s, u: candidate(s, MASK, u), S)


def temperature_vjp_difference(candidate):
    def vjp(s, u):
        return candidate(ref.softmax_temperature(s, 2.0), s, 2.0, u)

    check_vjp(lambda s: ref.softmax_temperature(s, 2.0), vjp, S)


def log_softmax_vjp_difference(candidate):
    check_vjp(ref.log_softmax, lambda s, u: candidate(ref.softmax(s), u), S)


def cross_entropy_vjp_difference(candidate):
    check_vjp(lambda s: ref.cross_entropy(s, TARGETS), lambda s, u: candidate(ref.softmax(s), TARGETS, u), S)


def jacobian_difference(candidate):
    check_jvp(ref.softmax, lambda s, t: np.einsum("bij,bj->bi", candidate(s), t), S)


def large_logits(candidate):
    check_close("p", candidate(np.array([[1e4, 1e4], [-1e4, 1e4]])), np.array([[0.5, 0.5], [0.0, 1.0]]))


def empty_row(candidate):
    mask = np.array([[True, True, False, False, False], [False] * 5, [True] * 5])
    check_close("row without a key", candidate(S, mask)[1], np.zeros(5))


def confident_loss(candidate):
    """The loss of a confident right answer is nearly 0: log(1 + e^-20) for two logits 20 apart."""
    s, y = np.array([[20.0, 0.0]]), np.array([[1.0, 0.0]])
    check_close("loss", candidate(s, y), np.log1p(np.exp(np.array([-20.0]))), terms=1.0)


CHECKS = {
    "vjp-difference": vjp_difference,
    "masked-vjp-difference": masked_vjp_difference,
    "temperature-vjp-difference": temperature_vjp_difference,
    "log-softmax-vjp-difference": log_softmax_vjp_difference,
    "cross-entropy-vjp-difference": cross_entropy_vjp_difference,
    "jacobian-difference": jacobian_difference,
    "large-logits": large_logits,
    "empty-row": empty_row,
    "confident-loss": confident_loss,
} | BIAS_CHECKS
CHECKS |= TABLE_CHECKS | CALCULUS_CHECKS | ATTENTION_CHECKS | TRAINING_CHECKS


@pytest.mark.parametrize("id", MISTAKES)
def test_the_named_check_rejects_the_mistake(id):
    wrong = MISTAKES[id]
    with pytest.raises(AssertionError):
        CHECKS[wrong.check](wrong.function)


@pytest.mark.parametrize("id", MISTAKES)
def test_the_right_function_passes_the_same_check(id):
    CHECKS[MISTAKES[id].check](MISTAKES[id].right)


def test_every_check_is_the_check_of_some_mistake():
    assert {wrong.check for wrong in MISTAKES.values()} == set(CHECKS)


def test_a_large_negative_in_place_of_a_score_is_not_the_same_as_one_added():
    """In place, a row without a key attends to all keys equally; added, it keeps the order of the scores."""
    s, mask = np.array([[1.0, 2.0, 4.0], [1.0, 2.0, 4.0]]), np.array([[True, True, False], [False] * 3])
    got = MISTAKES["softmax-mask-large-negative"].function(s, mask)
    check_close("row with keys", got[0], ref.softmax(s[0], mask[0]))
    assert got[1].tolist() == [1 / 3] * 3
    assert not np.allclose(ref.softmax(s - np.where(mask, 0.0, 1e9))[1], got[1])


def naive_inputs(wrong: Mistake) -> dict[str, tuple]:
    """Return, for the function that a mistake stands for, inputs such as naive tests use."""
    p, u = ref.softmax(S), RNG.standard_normal((3, 5))
    one_key, one_row = (np.ones((3, 1)), u[:, :1]), (p[:1], u[:1])
    unit = TARGETS / TARGETS.sum(axis=-1, keepdims=True)
    column, full = S[:, :1], np.ones((3, 1), dtype=bool)
    inputs = {
        "softmax(s)": {"moderate-logits": (S,), "large": (S + 800.0,)},
        "softmax(s, mask)": {"no-empty-row": (S, MASK), "empty-row": (S, MASK & [[True], [False], [True]])},
        "softmax_jacobian(softmax(s))": {"one-key": (column,), "equal-logits": (np.zeros((3, 5)),)},
        "softmax_vjp(p, dp)": {"sum-loss": (p, np.ones((3, 5))), "one-key": one_key, "one-row": one_row},
        "softmax_vjp(softmax(s, mask), dp)": {
            "sum-loss": (S, MASK, np.ones((3, 5))),
            "one-key": (column, full, u[:, :1]),
            "one-row": (S[:1], MASK[:1], u[:1]),
        },
        "softmax_temperature_vjp(p, s, tau, dp)[0]": {
            "sum-loss": (p, S, 2.0, np.ones((3, 5))),
            "one-key": (np.ones((3, 1)), column, 2.0, u[:, :1]),
            "one-row": (p[:1], S[:1], 2.0, u[:1]),
            "unit-temperature": (p, S, 1.0, u),
        },
        "log_softmax_vjp(p, dlogp)": {
            "sum-loss": (p, np.ones((3, 5))),
            "one-key": one_key,
            "one-row": one_row,
            "one-hot": (p, np.eye(3, 5)),
        },
        "cross_entropy(s, y)": {"equal-logits": (np.zeros((3, 5)), unit), "one-hot": (S, np.eye(3, 5))},
        "cross_entropy_vjp(p, y, dloss)": {
            "one-hot": (p, np.eye(3, 5), np.ones(3)),
            "one-row": (p[:1], TARGETS[:1], np.ones(1)),
        },
    } | naive_bias_inputs()
    inputs |= naive_table_inputs() | naive_calculus_inputs() | naive_attention_inputs()
    inputs |= naive_training_inputs()
    return inputs[wrong.stands_for]


@pytest.mark.parametrize("id", MISTAKES)
def test_what_naive_inputs_miss_is_recorded(id):
    wrong = MISTAKES[id]
    missed = []
    for name, arguments in naive_inputs(wrong).items():
        try:
            check_close(name, wrong.function(*arguments), wrong.right(*arguments), terms=1.0)
        except AssertionError:
            continue
        missed.append(name)
    assert sorted(missed) == sorted(wrong.missed_by)


def test_naive_inputs_miss_most_mistakes():
    """The lesson: a sum as loss, one key, one row or one-hot targets let most of these through."""
    assert sum(bool(wrong.missed_by) for wrong in MISTAKES.values()) == 62
    assert len(MISTAKES) == 70


def test_the_sum_of_a_row_rules_out_only_some_mistakes_of_the_bias_gradient():
    """Five of the ten keep every row at the sum that theory asks for."""
    out = ruled_out_by_row_sums()
    assert out == {
        "bias-inside-vjp-entrywise": True,
        "bias-inside-vjp-literal": True,
        "bias-inside-vjp-factor-dropped": False,
        "bias-vjp-scaled-outside": False,
        "bias-vjp-broadcast-last-head": False,
        "bias-vjp-zero-for-a-batch": False,
        "dropout-vjp-mask-dropped": False,
        "lse-cotangent-dropped": True,
        "sink-left-out-of-denominator-in-backward": True,
        "softcap-vjp-factor-dropped": True,
    }


def test_ids_and_texts_are_well_formed():
    for id, wrong in MISTAKES.items():
        assert id == wrong.id
        assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)+", id)
        for field in dataclasses.fields(wrong):
            value = getattr(wrong, field.name)
            assert value or field.name == "missed_by", (id, field.name)
        assert wrong.formula.count("{") == wrong.formula.count("}")
        assert wrong.function.__doc__


def test_an_unknown_id_is_named():
    assert mistake("softmax-vjp-elementwise") is MISTAKES["softmax-vjp-elementwise"]
    with pytest.raises(RangeError, match=r"id: expected one of softmax-naive-exp, .* got 'softmax'"):
        mistake("softmax")
