"""What the mistakes of attention's backward pass do: exact factors, and the laws that see them or do not."""

import numpy as np
import pytest

from attngrad import reference as ref
from attngrad.checks import check_close
from attngrad.mistakes import MISTAKES

from .attention_mistakes import BLOCK, KEYS, SCALE, H, N, Q, attend, cotangent_of_scores, ruled_out_by_laws

RNG = np.random.default_rng(5)


def wrong(id, *arguments):
    """Return what a mistake computes."""
    return MISTAKES[id].function(*arguments)


def test_each_law_sees_some_mistakes_and_none_sees_all():
    """Both errors of the second post together break one law alone."""
    assert ruled_out_by_laws() == {
        "attention-dq-unscaled": {"rows": False, "balance": True, "scale": True, "keys": False},
        "attention-dq-scaled-twice": {"rows": False, "balance": True, "scale": True, "keys": False},
        "attention-delta-unweighted": {"rows": True, "balance": False, "scale": False, "keys": False},
        "attention-delta-of-block": {"rows": True, "balance": False, "scale": False, "keys": False},
        "attention-group-last-head": {"rows": False, "balance": True, "scale": False, "keys": False},
        "attention-dscale-of-scores": {"rows": False, "balance": False, "scale": True, "keys": False},
        "attention-dscale-of-logarithm": {"rows": False, "balance": False, "scale": True, "keys": False},
        "both lines of the post": {"rows": False, "balance": False, "scale": True, "keys": False},
    }


@pytest.mark.parametrize(
    ("id", "factor"),
    [
        ("attention-dq-unscaled", 1 / SCALE),
        ("attention-dq-scaled-twice", SCALE),
        ("attention-dk-unscaled", 1 / SCALE),
        ("attention-dscale-of-scores", SCALE**2),
        ("attention-dscale-of-logarithm", SCALE),
    ],
)
def test_what_the_scale_does_to_each_is_an_exact_factor(id, factor):
    ds = cotangent_of_scores(attend(), RNG.standard_normal((*Q.shape[:2], N, 3)))
    other = {"dq": KEYS, "dk": Q, "dscale": Q @ np.swapaxes(KEYS, -1, -2)}[id.split("-")[1]]
    arguments = ds, other, SCALE
    want = factor * MISTAKES[id].right(*arguments)
    check_close(id, wrong(id, *arguments), want, terms=50.0)
    assert np.abs(want).max() > 0.1


def test_blocks_of_keys_need_the_mean_of_the_whole_row():
    """Weights (1, 1, 2) / 4 with dp = (4, 0, 0): the mean is 1; in blocks of two and one, 1 and 0."""
    p, dp = np.array([[0.25, 0.25, 0.5]]), np.array([[4.0, 0.0, 0.0]])
    assert ref.softmax_vjp(p, dp).tolist() == [[0.75, -0.25, -0.5]]
    assert wrong("attention-delta-of-block", p, dp, np.array([0, 0, 1])).tolist() == [[0.75, -0.25, 0.0]]
    assert wrong("attention-delta-of-block", p, dp, np.zeros(3)).tolist() == [[0.75, -0.25, -0.5]]
    assert BLOCK.size == KEYS.shape[2]


def test_the_output_of_all_keys_gives_delta_in_any_block():
    """What picotron does: delta = do.o with the merged output, for each block of keys by itself."""
    do = RNG.standard_normal((*Q.shape[:2], N, 3))
    saved = attend()
    want = cotangent_of_scores(saved, do)
    delta = (do * saved.o).sum(axis=-1, keepdims=True)
    dp = do @ np.swapaxes(saved.v, -1, -2)
    blocks = [saved.p[..., part] * (dp[..., part] - delta) for part in (slice(0, 2), slice(2, None))]
    check_close("ds", np.concatenate(blocks, axis=-1), want, terms=20.0)


def test_a_group_of_equal_heads_gets_its_size_times_the_gradient_of_one():
    dk = np.broadcast_to(RNG.standard_normal((2, 3, 1, 5, 7)), (2, 3, 2, 5, 7)).reshape(2, H, 5, 7)
    check_close("dk", ref.reduce_kv_heads(dk, 3), 2.0 * wrong("attention-group-last-head", dk, 3))
