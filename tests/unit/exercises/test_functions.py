"""Functions as answers: the right ones pass, and what is wrong with the others is told."""

import numpy as np
import pytest
import torch

from attngrad import reference
from attngrad.exercises import EXERCISES, Exercise, exercise, functions, judge_function
from attngrad.mistakes import MISTAKES
from attngrad.notation import DtypeError, RangeError

from .answers import one_line

NAMES = list(EXERCISES)


def zeros(asked: Exercise):
    """Return a function that gives zeros of the right shapes."""

    def function(*arguments):
        right = asked.right(*arguments)
        return tuple(map(np.zeros_like, right)) if asked.results else np.zeros_like(right)

    return function


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_the_right_function_is_right(name, seed):
    found = judge_function(name, exercise(name).right, seed=seed)
    assert (found.ok, found.word) == (True, "RIGHT")
    assert str(found) == f"{name}: RIGHT on {len(exercise(name).instances)} random instances"


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("name", "wrong"), [(n, w) for n in NAMES for w in exercise(n).mistakes])
def test_every_known_mistake_is_rejected_and_named(name, wrong, seed):
    found = judge_function(name, exercise(name).mistakes[wrong], seed=seed)
    assert (found.ok, found.word) == (False, "WRONG")
    assert f"known mistake: {wrong}" in one_line(found)
    if wrong in MISTAKES:
        assert f"Seen: {' '.join(MISTAKES[wrong].seen.split())}" in one_line(found)


@pytest.mark.parametrize("name", NAMES)
def test_zeros_are_rejected_and_are_no_known_mistake(name):
    found = judge_function(name, zeros(exercise(name)))
    assert found.word == "WRONG"
    assert "known mistake" not in found.told


@pytest.mark.parametrize("name", NAMES)
def test_a_result_that_is_off_by_one_part_in_ten_million_is_rejected(name):
    asked = exercise(name)

    def off(*arguments):
        right = asked.right(*arguments)
        return tuple(x * (1 + 1e-7) for x in right) if asked.results else right * (1 + 1e-7)

    assert "they differ by about" in one_line(judge_function(name, off))


@pytest.mark.parametrize("name", NAMES)
def test_instances_start_small_and_break_symmetries(name):
    asked = exercise(name)
    counts = [
        np.prod([v for k, v in one.items() if k not in ("hidden", "largest")]) for one in asked.instances
    ]
    assert counts[0] == 1
    assert counts[0] < counts[-1] == max(counts)
    last = [x for x in asked.arguments(0)[-1] if isinstance(x, np.ndarray) and x.dtype.kind == "f"]
    for x in last:
        assert len(set(x.shape)) == x.ndim  # no two axes may be taken for each other
        assert len(np.unique(x)) > x.size // 2


def test_empty_rows_and_large_logits_are_among_the_instances():
    s, mask = zip(*exercise("softmax").arguments(0), strict=True)
    assert any((~m).all(axis=-1).any() for m in mask)
    assert any(np.abs(x[m]).max() > 709 for x, m in zip(s, mask, strict=True))
    assert any((p == 0).all(axis=-1).any() for p, _ in exercise("softmax_vjp").arguments(0))


# --- the smallest instance ----------------------------------------------------------------------


def test_the_smallest_failing_instance_and_the_first_wrong_entry_are_told():
    def forgets_later_rows(p, dp):
        ds = reference.softmax_vjp(p, dp)
        ds.reshape(-1, ds.shape[-1])[2:] = 0.0
        return ds

    found = one_line(judge_function("softmax_vjp", forgets_later_rows))
    p, dp = exercise("softmax_vjp").arguments(0)[5]
    right = reference.softmax_vjp(p, dp)[2, 0]
    assert found == (
        f"softmax_vjp: WRONG at rows = 5, n = 4: at index (2, 0): your value is 0, the right one {right:.4g}"
    )


def test_the_result_at_fault_is_named():
    def wrong(*arguments):
        dq, dk, dv, dbias = exercise("attention_vjp").right(*arguments)
        return dq, dk, 2 * dv, dbias

    assert "D_v = 1: dv at index (0, 0, 0, 0): your value is" in one_line(
        judge_function("attention_vjp", wrong)
    )


# --- what is no result --------------------------------------------------------------------------


def into_its_argument(p, dp):
    dp -= (p * dp).sum(axis=-1, keepdims=True)
    return p * dp


NO_RESULT = [
    (lambda p, dp: None, "it returns None, expected an array of shape (1,)"),
    (lambda p: p, "it raises TypeError: "),
    (lambda p, dp: 1 // 0, "it raises ZeroDivisionError: integer division or modulo by zero"),
    (lambda p, dp: (p * dp).tolist(), "it returns list, expected an array of shape (1,)"),
    (lambda p, dp: (p * dp).sum(), "it returns shape (), expected (1,)"),
    (lambda p, dp: p[None] * dp, "it returns shape (1, 1), expected (1,)"),
    (lambda p, dp: reference.softmax_vjp(p, dp).astype(np.float32), "type float32, expected float64"),
    (lambda p, dp: (p * dp).astype(int), "type int64, expected float64"),
    (lambda p, dp: p * np.nan, "your value is nan, the right one 0"),
    (into_its_argument, "it changes its argument 2 of softmax_vjp(p, dp) -> ds"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "told"), NO_RESULT, ids=[x[1][:40] for x in NO_RESULT])
def test_what_is_no_result_is_told(function, told):
    found = judge_function("softmax_vjp", function)
    assert found.word == "WRONG"
    assert told in one_line(found)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda *a: a[0], "it returns ndarray, expected dq, dk, dv, dbias"),
        (lambda *a: a[:3], "it returns 3 results, expected dq, dk, dv, dbias"),
        (
            lambda q, k, v, b, do: (q, None, v, b),
            "dk: it returns None, expected an array of shape (1, 1, 1, 1)",
        ),
    ],
)
def test_the_wrong_number_of_results_is_told(function, told):
    assert told in one_line(judge_function("attention_vjp", function))


def test_torch_tensors_of_the_right_type_are_results():
    def by_autograd(p, dp):
        s = torch.log(torch.tensor(np.where(p > 0.0, p, 1.0))).masked_fill(torch.tensor(p == 0.0), -1e300)
        s.requires_grad_()
        weights = torch.softmax(s, dim=-1) * torch.tensor(p > 0.0)
        return torch.autograd.grad((weights * torch.tensor(dp)).sum(), s)[0]

    assert judge_function("softmax_vjp", by_autograd).ok
    halves = judge_function("softmax_vjp", lambda p, dp: torch.tensor(p * dp, dtype=torch.bfloat16))
    assert "torch.bfloat16, expected float64" in one_line(halves)


def test_warnings_of_an_answer_are_not_shown(recwarn):
    def overflows(s, mask):
        return np.exp(s + 1e4) / np.exp(s + 1e4).sum()

    assert judge_function("softmax", overflows).word == "WRONG"
    assert not recwarn.list


# --- the grader itself ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_reference_is_not_believed(name, monkeypatch):
    """Where the library and the answer err alike, the second opinion says so."""
    asked = exercise(name)
    for wrong in asked.mistakes.values():
        believed = Exercise(**{**vars(asked), "right": wrong})
        found = functions.judge(believed, wrong, 0)
        assert (found.ok, found.word) == (False, "UNDECIDED")
        assert "a check that does not know the library" in one_line(found)


def test_an_accidental_agreement_on_small_instances_is_no_known_mistake():
    def elementwise_in_one_row(p, dp):
        return p * dp if p.ndim == 1 else 3.0 * p * dp

    assert "known mistake" not in judge_function("softmax_vjp", elementwise_in_one_row).told


def test_an_exercise_prints_what_it_asks():
    assert str(exercise("table_vjp")).splitlines()[0] == "table_vjp(ds, row, R) -> dtable"
    assert max(map(len, "\n".join(map(str, EXERCISES.values())).splitlines())) <= 100


def test_errors_name_what_was_expected():
    with pytest.raises(RangeError, match="got 'softmax_vpj'; near it: softmax_vjp"):
        judge_function("softmax_vpj", zeros)
    with pytest.raises(RangeError, match="near it: softmax, softmax_vjp"):
        exercise("zzz")
    with pytest.raises(DtypeError, match=r"function: expected softmax_vjp\(p, dp\) -> ds, got str"):
        judge_function("softmax_vjp", "p * dp")
    with pytest.raises(DtypeError, match="seed: expected an integer"):
        judge_function("softmax_vjp", reference.softmax_vjp, seed=0.5)
