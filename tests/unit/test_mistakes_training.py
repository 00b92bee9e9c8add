"""The mistakes of training loops and positions: each is rejected by its check, in the reports' numbers."""

import dataclasses
import re

import numpy as np
import pytest

from attngrad.checks import check_close

from .training_mistakes import CHECKS, TRAINING_CHECKS, WRONG, M, N, naive_training_inputs


@pytest.mark.parametrize("id", WRONG)
def test_the_named_check_rejects_the_mistake(id):
    with pytest.raises(AssertionError):
        CHECKS[WRONG[id].check](WRONG[id].function)


@pytest.mark.parametrize("id", WRONG)
def test_the_right_function_passes_the_same_check(id):
    CHECKS[WRONG[id].check](WRONG[id].right)


def test_every_check_is_the_check_of_some_mistake():
    assert set(TRAINING_CHECKS) <= {wrong.check for wrong in WRONG.values()} == set(CHECKS)


@pytest.mark.parametrize("id", WRONG)
def test_what_naive_inputs_miss_is_recorded(id):
    wrong, missed = WRONG[id], []
    for name, arguments in naive_training_inputs()[wrong.stands_for].items():
        got, want = wrong.function(*arguments), wrong.right(*arguments)
        if np.allclose(got, want, rtol=0.0, atol=1e-12):
            missed.append(name)
    assert sorted(missed) == sorted(wrong.missed_by)


def test_ids_and_texts_are_well_formed():
    for id, wrong in WRONG.items():
        assert re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)+", id)
        for field in dataclasses.fields(wrong):
            assert getattr(wrong, field.name) or field.name == "missed_by", (id, field.name)
        assert wrong.formula.count("{") == wrong.formula.count("}")
        assert wrong.function.__doc__


def wrong(id, *arguments):
    """Return what a mistake computes."""
    return WRONG[id].function(*arguments)


def test_clipping_a_scaled_gradient_of_one_half_leaves_1_5e_5():
    got = wrong("training-clip-before-unscale", np.array([0.5]), 65536.0, 1.0)
    check_close("step", got, np.array([2.0**-16]))


def test_the_mean_of_means_of_eight_tokens_and_one_is_5():
    assert wrong("training-mean-of-means", np.array([[8.0], [9.0]]), np.array([8.0, 1.0])).tolist() == [5.0]


def test_a_shift_of_three_by_three():
    x = np.arange(9.0).reshape(3, 3)
    right = [[2, 0, 3], [4, 5, 0], [6, 7, 8]]
    assert WRONG["position-shift-first-kept"].right(x).tolist() == right
    assert wrong("position-shift-first-kept", x).tolist() == [[0, 0, 1], [2, 0, 3], [4, 5, 0]]


def test_a_shift_with_memory_gives_each_pair_its_offset():
    """With more keys than queries: entry (i, j) has what stands at the place of its offset."""
    got = WRONG["position-shift-first-kept"].right(np.tile(np.arange(1.0, M + 1), (N, 1)))
    for i in range(N):
        for j in range(i + M - N + 1):
            assert got[i, j] == M + (j - i - (M - N))


def test_the_sum_of_thousands_of_float32_depends_on_the_order():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(100_000)
    sums = wrong("sum-order-not-fixed", x, np.stack([rng.permutation(x.size) for _ in range(20)]))
    assert len(set(sums)) > 10
    assert 1e-4 < np.ptp(sums) < 1e-1


def test_a_bias_of_2_to_the_33_places_ends_below_zero_in_32_bits():
    shape, last = (16, 32, 4096, 4096), np.array([[15, 31, 4095, 4095], [4, 0, 0, 0], [3, 31, 4095, 4095]])
    assert np.prod(shape, dtype=np.int64) == 2**33
    assert wrong("bias-index-of-32-bits", shape, last).tolist() == [-1, -(2**31), 2**31 - 1]
