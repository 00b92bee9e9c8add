"""The first post's formulas and the behaviour of its code, judged: each test backs entries of the errata.

The weights of a row are fractions, so a counterexample is exact. The oracle is the quotient rule; what the
post prints is compared with it, and the book's formula passes where the post's fails.
"""

from fractions import Fraction as F

import numpy as np
import pytest
import torch

from attngrad import reference
from attngrad.checks import check_close
from attngrad.offsets import relative_offset
from attngrad.proofs.read import ReadError, Table, read
from attngrad.proofs.sums import normal_form

EQUAL = (F(1, 2), F(1, 2))


def changes(p, root=1):
    """Return dA_l / db_j, a line for each j, by the quotient rule on e^{b_l / root} / Z, all divided by Z."""
    one = [[F(l == j) * p[l] for l in range(len(p))] for j in range(len(p))]
    return [[(x - p[l] * sum(line)) / root for l, x in enumerate(line)] for line in one]


def gradient(p, g, root=1):
    """Return dL/db of a row by the quotient rule; p the weights, g = dL/dA, root = sqrt(d_k) (1: outside)."""
    return [sum(g[l] * change for l, change in enumerate(line)) for line in changes(p, root)]


def post_per_entry(p, g):
    """Return what the post's last line gives, read entry by entry."""
    return [g[j] * p[j] * (1 - sum(p[l] * p[j] for l in range(len(p)))) for j in range(len(p))]


def post_literal(rows, g):
    """Return the post's double sum taken literally: one number for all entries."""
    return sum(sum(post_per_entry(p, g_row)) for p, g_row in zip(rows, g, strict=True))


def book(p, g, root=1):
    """Return the book's gradient of the same row."""
    return reference.softmax_vjp(np.array(p, dtype=float), np.array(g, dtype=float)) / root


def row(*parts):
    """Return fractions that sum to one, in the ratio of the parts."""
    return [F(part, sum(parts)) for part in parts]


def softmax_of(b, root, inside, content=(0.0, 0.0)):
    """Return a row of weights with the bias inside or outside the division by root."""
    b, content = torch.as_tensor(b, dtype=torch.float64), torch.tensor(content, dtype=torch.float64)
    return torch.softmax((content + b) / root if inside else content / root + b, -1)


def test_the_oracle_is_the_derivative():
    """The quotient rule in fractions agrees with autograd and with the book, and an error would show."""
    p, g, root = row(1, 2, 5), [F(3), F(-1), F(2)], 3
    b = torch.log(torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64)).mul(root).requires_grad_()
    weights = torch.softmax(b / root, -1)
    (db,) = torch.autograd.grad(weights, b, torch.tensor([3.0, -1.0, 2.0], dtype=torch.float64))
    want = np.array(gradient(p, g, root), dtype=float)
    check_close("db", db, want)
    check_close("db", book(p, g, root), want)
    assert sum(gradient(p, g, root)) == 0
    with pytest.raises(AssertionError):
        check_close("db", np.array(post_per_entry(p, g), dtype=float), want)


def test_the_sum_alone():
    """Section 3.3 at d_k = 1: the terms of the other weights are lost."""
    p, g = EQUAL, (F(0), F(1))
    assert gradient(p, g)[0] == F(-1, 4)
    assert post_per_entry(p, g)[0] == 0
    check_close("db", book(p, g), [-0.25, 0.25])
    assert changes(p)[0] == [F(1, 4), F(-1, 4)], "raising b_1 lowers A_2"


def test_the_factor_alone():
    """Section 3.3 at d_k = 9 with a single weight in the loss: only 1 / sqrt(d_k) is lost."""
    p, g, root = EQUAL, (F(1), F(0)), 3
    assert gradient(p, g, root)[0] == F(1, 12)
    assert post_per_entry(p, g)[0] == F(1, 4) == gradient(p, g)[0]
    check_close("db", book(p, g, root), [1 / 12, -1 / 12])


def test_the_inner_sum_collapses():
    p = row(1, 2, 5, 3)
    assert [1 - sum(p[l] * p[j] for l in range(4)) for j in range(4)] == [1 - x for x in p]
    unnormalised = [F(1), F(2)]
    assert 1 - sum(x * unnormalised[0] for x in unnormalised) != 1 - unnormalised[0]


def test_the_double_sum_read_entry_by_entry():
    """Both errors at once, n = 2, d_k = 4; and the post is right where the lost sum is zero."""
    p, g, root = EQUAL, (F(1), F(2)), 2
    assert gradient(p, g, root)[0] == F(-1, 8)
    assert post_per_entry(p, g)[0] == F(1, 4)
    p, g = row(1, 2, 3), (F(7), F(3), F(-2))
    lost = [p[j] * sum(p[l] * g[l] for l in range(3) if l != j) for j in range(3)]
    right = [a - b for a, b in zip(post_per_entry(p, g), lost, strict=True)]
    assert right == gradient(p, g)
    assert lost[0] == 0
    assert post_per_entry(p, g)[0] == gradient(p, g)[0] != 0


def test_the_double_sum_taken_literally():
    """One number for four entries whose gradients have two values."""
    rows, g = (EQUAL, EQUAL), ((F(1), F(2)), (F(1), F(2)))
    assert post_literal(rows, g) == F(3, 2)
    assert gradient(EQUAL, g[0], 2) == [F(-1, 8), F(1, 8)]


TABLE = Table(
    index={**dict.fromkeys("ijkl", "n"), "m": "n"},
    names={"A": ("n", "n"), "b": ("n", "n"), "L": (), "G": ("n", "n")},
)
CHAIN = r"\sum_{%s} \sum_{%s} \frac{\partial L}{\partial A_{%s}} \frac{\partial A_{%s}}{\partial b_{ij}}"
LITERAL = "G_{ij} = " + CHAIN % ("i", "j", "ij", "ij")
RENAMED = "G_{ij} = " + CHAIN % ("k", "l", "kl", "kl")


def test_the_double_sum_with_renamed_letters():
    """The reader of the proofs refuses the literal line and reads the renamed one, the chain rule."""
    with pytest.raises(ReadError, match=r"bound"):
        read(LITERAL, TABLE)
    assert len(read(RENAMED, TABLE).statements) == 1
    rng = np.random.default_rng(0)
    b = torch.tensor(rng.normal(size=(3, 4)), requires_grad=True)
    g = torch.tensor(rng.normal(size=(3, 4)))
    jacobian = torch.autograd.functional.jacobian(lambda b: torch.softmax(b, -1), b)
    chain = torch.einsum("kl,klij->ij", g, jacobian)
    diagonal = torch.einsum("ij,ijij->ij", g, jacobian)
    want = reference.softmax_vjp(torch.softmax(b, -1).detach().numpy(), g.numpy())
    check_close("db", chain, want, terms=1.0)
    with pytest.raises(AssertionError):
        check_close("db", diagonal, want, terms=1.0)


def test_a_bound_letter_may_be_renamed():
    """A sum over k and a sum over l are one object; a letter that is free elsewhere is not bound by it."""
    sums = r"\sum_{k} A_{ik} G_{jk}", r"\sum_{l} A_{il} G_{jl}", r"\sum_{k} A_{ik} G_{kj}"
    read_as = [read(f"b_{{ij}} = {text}", TABLE) for text in sums]
    first, renamed, other = (reading.statements[0].rhs for reading in read_as)
    assert normal_form(first - renamed, read_as[0].scope) == 0
    assert normal_form(first - other, read_as[0].scope) != 0
    with pytest.raises(ReadError, match=r"bound"):
        read(r"b_{ij} = \sum_{i} A_{ij} G_{ij}", TABLE)


def test_inside_and_outside_give_other_weights_and_the_same_family():
    """d_k = 4 and e^b = (4, 1): 2/3 inside, 4/5 outside; b_inside = sqrt(d_k) b_outside gives the same."""
    b = np.log([4.0, 1.0])
    check_close("inside", softmax_of(b, 2.0, inside=True), [2 / 3, 1 / 3])
    check_close("outside", softmax_of(b, 2.0, inside=False), [4 / 5, 1 / 5])
    check_close("moved in", softmax_of(2.0 * b, 2.0, inside=True), [4 / 5, 1 / 5])


def one_step(optimiser, inside, root=2.0, rate=0.01, size=1.0):
    """Return how far one step moves the first bias, and how far its score."""
    b = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    loss = (size * softmax_of(b, root, inside) * torch.tensor([1.0, 0.0])).sum()
    loss.backward()
    optimiser([b], lr=rate).step()
    moved = b.detach()[0].item()
    return moved, moved / root if inside else moved


def test_one_step_moves_the_scores_by_one_over_d():
    """SGD: 1 / d_k on the score; Adam: 1 / sqrt(d_k)."""
    sgd = [one_step(torch.optim.SGD, inside)[1] for inside in (True, False)]
    adam = [one_step(torch.optim.Adam, inside)[1] for inside in (True, False)]
    assert sgd[1] == pytest.approx(-0.01 * 0.25)
    assert sgd[0] / sgd[1] == pytest.approx(1 / 4)
    assert adam[0] / adam[1] == pytest.approx(1 / 2, rel=1e-6)


def test_adam_first_step_forgets_the_size():
    """A gradient a hundred times larger moves SGD a hundred times as far and Adam as far as before."""
    small, large = (
        {name: one_step(name, inside=False, size=size)[0] for name in (torch.optim.SGD, torch.optim.Adam)}
        for size in (1.0, 100.0)
    )
    assert large[torch.optim.SGD] / small[torch.optim.SGD] == pytest.approx(100)
    assert large[torch.optim.Adam] / small[torch.optim.Adam] == pytest.approx(1, rel=1e-6)
    b = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    b.grad = torch.tensor([3.0, 4.0], dtype=torch.float64)
    torch.optim.Adam([b], lr=1.0).step()
    assert b.tolist() == pytest.approx([-1.0, -1.0])


def test_the_cotangent_of_a_weight_is_not_that_of_a_score():
    assert gradient(EQUAL, (F(1), F(0))) == [F(1, 4), F(-1, 4)]


def test_raising_one_bias_raises_its_weight_and_lowers_the_others():
    p = row(1, 2, 5)
    for j in range(3):
        change = changes(p)[j]
        assert change[j] > 0 > max(x for l, x in enumerate(change) if l != j)
        assert sum(change) == 0


def test_a_constant_over_a_row_changes_nothing():
    rng = np.random.default_rng(1)
    s = rng.normal(size=(3, 5))
    check_close("p", reference.softmax(s + rng.normal(size=(3, 1))), reference.softmax(s), terms=1.0)
    with pytest.raises(AssertionError):
        check_close("p", reference.softmax(s + rng.normal(size=(1, 5))), reference.softmax(s), terms=1.0)


def test_a_bias_multiplies_the_unnormalised_weights():
    """e^b = (3, 1) on equal content gives (3/4, 1/4): odds are multiplied, not weights set."""
    content = torch.log(torch.tensor([1.0, 5.0])).tolist()
    check_close("p", softmax_of(np.log([3.0, 1.0]), 1.0, inside=False), [3 / 4, 1 / 4])
    check_close("p", softmax_of(np.log([3.0, 1.0]), 1.0, False, content), [3 / 8, 5 / 8], kind="difference")


def test_a_bias_by_offset_does_not_read_the_text():
    """The odds that the bias adds are the same whatever the keys say."""
    b = np.log([3.0, 1.0])
    for content in ((0.0, 0.0), (2.0, -1.0), (-1.0, 2.0)):
        with_bias, without = softmax_of(b, 1.0, False, content), softmax_of(0 * b, 1.0, False, content)
        odds = (with_bias[0] / with_bias[1]) / (without[0] / without[1])
        assert odds.item() == pytest.approx(3.0)


def test_a_free_bias_has_more_numbers_than_offsets():
    """An offset is an integer, which autograd refuses; a bias by offset has N + M - 1 numbers, not N M."""
    with pytest.raises(RuntimeError, match="floating point"):
        torch.tensor(relative_offset(3, 3)).requires_grad_()
    offsets = relative_offset(2, 2)
    free = np.array([[0.0, 1.0], [2.0, 3.0]])
    assert len(np.unique(offsets)) == 3 < free.size
    assert len(set(free[offsets == 0])) == 2


def test_each_row_sums_over_the_keys():
    """Two queries and three keys: the softmax has n = 3 terms, and a sum over queries has 2."""
    s = np.random.default_rng(2).normal(size=(2, 3))
    p = reference.softmax(s)
    check_close("row sums", p.sum(axis=1), np.ones(2), terms=1.0)
    assert np.abs(p.sum(axis=0) - 1).max() > 0.01


def test_a_shift_of_all_positions_changes_no_offset():
    assert (relative_offset(4, 4, query_start=0) == relative_offset(7, 7, query_start=0)[3:, 3:]).all()
    absolute = np.arange(7)
    assert not (absolute[3:] == absolute[:4]).all()


def test_sinusoidal_positions_are_distinct_and_a_learned_table_ends():
    positions, width = np.arange(4000)[:, None], 8
    angles = positions / 10000 ** (np.arange(0, width, 2) / width)
    encoding = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    nearest = [np.abs(encoding[i] - encoding[i + 1 :]).max(axis=1).min() for i in range(0, 3999, 37)]
    assert min(nearest) > 1e-3
    with pytest.raises(IndexError):
        torch.nn.Embedding(512, 3)(torch.tensor([512]))


def test_without_positions_attention_ignores_order():
    rng = np.random.default_rng(3)
    q, k, v = (rng.normal(size=shape) for shape in ((2, 4), (5, 4), (5, 3)))
    order = [2, 0, 4, 1, 3]
    out = reference.softmax(q @ k.T) @ v
    check_close("o", reference.softmax(q @ k[order].T) @ v[order], out, terms=5.0)
    with pytest.raises(AssertionError):
        check_close("o", reference.softmax(q @ k[order].T) @ v, out, terms=5.0)


def test_the_cotangent_of_the_weights_is_do_vt():
    rng = np.random.default_rng(4)
    a = torch.tensor(reference.softmax(rng.normal(size=(3, 5))), requires_grad=True)
    v, do = torch.tensor(rng.normal(size=(5, 2))), torch.tensor(rng.normal(size=(3, 2)))
    (da,) = torch.autograd.grad(a @ v, a, do)
    check_close("dA", da, (do @ v.T).numpy(), terms=5.0)


def test_the_gradient_is_the_derivative():
    """To first order the loss changes by the gradient times the change of the bias."""
    rng = np.random.default_rng(5)
    b, g, step = rng.normal(size=6), rng.normal(size=6), rng.normal(size=6)
    loss = lambda b: float(g @ reference.softmax(b))  # noqa: E731
    db = reference.softmax_vjp(reference.softmax(b), g)
    measured = (loss(b + 1e-6 * step) - loss(b - 1e-6 * step)) / 2e-6
    check_close("slope", float(db @ step), measured, kind="difference", terms=np.abs(g).sum())
    assert abs(measured) > 1e-3


def test_a_table_row_collects_its_offset():
    """Equal logits, G = (1, 2) in both rows, d_k = 4: offset 0 gets 0, its two entries -1/8 and 1/8."""
    db = [gradient(EQUAL, (F(1), F(2)), 2)] * 2
    offsets = relative_offset(2, 2)
    dtable = {o: sum(db[i][j] for i, j in zip(*np.nonzero(offsets == o), strict=True)) for o in (-1, 0, 1)}
    assert dtable == {-1: F(-1, 8), 0: F(0), 1: F(1, 8)}
    table = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    weights = torch.softmax(table[torch.tensor(offsets) + 1] / 2, -1)
    (got,) = torch.autograd.grad(weights, table, torch.tensor([[1.0, 2.0], [1.0, 2.0]], dtype=torch.float64))
    assert got.tolist() == pytest.approx([-1 / 8, 0.0, 1 / 8])
    assert db[0][0] != dtable[0]


def test_the_size_of_a_gradient_is_no_distance():
    """A scaled loss has the same minima; a saturated row has a small gradient and a large loss."""
    assert gradient(EQUAL, (F(100), F(0)))[0] == 100 * gradient(EQUAL, (F(1), F(0)))[0] == 25
    saturated, loss_of = row(1, 99), lambda p: 1 - p[0]
    assert gradient(saturated, (F(-1), F(0)))[0] == F(-99, 10000)
    assert abs(gradient(saturated, (F(-1), F(0)))[0]) < abs(gradient(EQUAL, (F(-1), F(0)))[0])
    assert loss_of(saturated) == F(99, 100) > loss_of(EQUAL) == F(1, 2)


def test_a_step_lowers_the_loss_only_if_it_is_small():
    """One step of gradient descent lowers the loss at a small rate and raises it at a large one."""

    def losses(rate):
        b, targets = np.array([0.0, 1.0]), np.array([0.4, 0.6])
        before = reference.cross_entropy(b, targets)
        db = reference.cross_entropy_vjp(reference.softmax(b), targets, np.array(1.0))
        return float(before), float(reference.cross_entropy(b - rate * db, targets))

    assert losses(0.5)[1] < losses(0.5)[0]
    assert losses(50.0)[1] > losses(50.0)[0]
