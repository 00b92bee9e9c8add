"""The tasks that position alone solves: what is to be copied, and that attention attains it."""

import numpy as np
import pytest

from attngrad import reference, tasks
from attngrad.checks import check_close
from attngrad.notation import DtypeError, RangeError, ShapeError

OFFSETS = {-3: 0.5, -1: 2.0, 0: 1.0, 2: 4.0}


def literal_weights(N, weights):
    """Return the weights entry by entry, by their definition."""
    found = np.zeros((N, N))
    for i in range(N):
        there = {j: weights[j - i] for j in range(N) if weights.get(j - i)}
        for j, weight in there.items():
            found[i, j] = weight / sum(there.values())
    return found


@pytest.mark.parametrize("N", [4, 5, 9])
def test_the_weights_are_those_of_the_offsets(N):
    got = tasks.copy_weights(N, OFFSETS)
    check_close("W", got, literal_weights(N, OFFSETS))
    assert not np.allclose(got, got.T)


def test_a_query_with_nothing_to_copy_has_no_weight_and_no_target():
    weights = tasks.copy_weights(4, {-2: 1.0, 1: 0.0})
    assert weights.sum(axis=-1).tolist() == [0.0, 0.0, 1.0, 1.0]
    _, y = tasks.copy_batch(np.random.default_rng(0), weights, 3, 5)
    assert y.sum(axis=-1).tolist() == [[0.0, 0.0, 1.0, 1.0]] * 3


def test_large_and_small_weights_keep_their_ratio():
    check_close("W", tasks.copy_weights(2, {0: 1e308, 1: 1e308})[0], np.array([0.5, 0.5]))
    check_close("W", tasks.copy_weights(2, {0: 5e-324, 1: 5e-324})[0], np.array([0.5, 0.5]))


def test_tokens_are_one_hot_and_drawn_anew():
    random = np.random.default_rng(1)
    weights = tasks.copy_weights(7, {-2: 1.0})
    (x, y), (other, _) = (tasks.copy_batch(random, weights, 3, 5) for _ in range(2))
    assert x.shape == y.shape == (3, 7, 5)
    assert np.array_equal(np.unique(x), [0.0, 1.0])
    assert (x.sum(axis=-1) == 1.0).all()
    assert np.array_equal(y[:, 2:], x[:, :-2])
    assert not np.array_equal(x, other)
    assert len(np.unique(tasks.copy_batch(random, weights, 50, 5)[0].argmax(axis=-1))) == 5


def test_attention_with_the_expected_table_attains_the_target():
    """The logarithm of the weights of the offsets is a table that solves the task."""
    N = 6
    weights = {o: 2.0 ** -abs(o + 1) for o in range(1 - N, N)}
    table = np.array([np.log(weights[o]) for o in range(1 - N, N)])
    x, y = tasks.copy_batch(np.random.default_rng(2), tasks.copy_weights(N, weights), 3, 4)
    row = np.arange(N) - np.arange(N)[:, None] + N - 1
    nothing = np.zeros((3, 1, N, 1))
    o = reference.attention(nothing, nothing, x[:, None], table[row]).o[:, 0]
    check_close("o", o, y, terms=1.0)
    flipped = reference.attention(nothing, nothing, x[:, None], table[row].T).o[:, 0]
    assert np.abs(flipped - y).max() > 0.1


@pytest.mark.usefixtures("raw_errors")
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0, {}), RangeError, "N: expected an integer of at least 1, got 0"),
        ((3.0, {}), DtypeError, "N: expected an integer, got float 3.0"),
        ((3, [1.0]), DtypeError, "weights: expected a mapping from offsets to weights, got list"),
        ((3, {0.5: 1.0}), DtypeError, "weights: offset: expected an integer, got float 0.5"),
        ((3, {3: 1.0}), RangeError, "weights: expected offsets from -2 to 2, got 3"),
        ((3, {1: -1.0}), RangeError, "weights: offset 1: expected a weight of at least 0, got -1.0"),
        ((3, {1: np.nan}), RangeError, "weights: offset 1: expected a finite number, got nan"),
        ((3, {1: "a"}), DtypeError, "weights: offset 1: expected a number, got str"),
    ],
)
def test_bad_weights_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        tasks.copy_weights(*arguments)


@pytest.mark.usefixtures("raw_errors")
@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"random": 0}, DtypeError, "random: expected a generator of NumPy, such as .* got int"),
        ({"weights": [[1.0]]}, DtypeError, "weights: expected a NumPy array of floats, got list"),
        ({"weights": np.ones(3)}, ShapeError, r"weights: expected at least 2 axes, got shape \(3,\)"),
        ({"weights": np.ones((2, 3))}, ShapeError, r"weights: expected shape \(3, 3\) as for one square"),
        ({"batch": 0}, RangeError, "batch: expected an integer of at least 1, got 0"),
        ({"tokens": 2.0}, DtypeError, "tokens: expected an integer, got float 2.0"),
        ({"tokens": 0}, RangeError, "tokens: expected an integer of at least 1, got 0"),
    ],
)
def test_a_bad_batch_is_named(changed, error, message):
    good = {"random": np.random.default_rng(0), "weights": np.eye(3), "batch": 2, "tokens": 4}
    with pytest.raises(error, match=message):
        tasks.copy_batch(**(good | changed))
