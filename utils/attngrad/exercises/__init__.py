r"""Graders that answer back: formulas are judged by proof, code on random instances, and no answer is told.

`judge_formula` takes the label of an identity of a page and an answer in LaTeX or SymPy. It needs nothing but
the page and its ledger, so every ``eq-`` label of the book is an exercise.

`judge_function` takes the name of an exercise in code and a function. To add one, put an `Exercise` into the
tuple of a module of this package, one module for each topic, and the tuple into ``EXERCISES`` below. Known
wrong answers belong to its ``mistakes``; the tests feed them to the grader and require that it rejects each.
The wrong answers to a formula are those of the ledger; `distractors` holds what no page shows.
"""

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any

from attngrad.exercises import functions
from attngrad.exercises.bias import BIAS
from attngrad.exercises.outcome import Judgement
from attngrad.exercises.record import Exercise
from attngrad.exercises.softmax import SOFTMAX
from attngrad.notation import DtypeError, RangeError, integer

__all__ = ["EXERCISES", "Exercise", "Judgement", "exercise", "judge_formula", "judge_function"]

EXERCISES = {one.name: one for one in (*SOFTMAX, *BIAS)}


def exercise(name: str) -> Exercise:
    """Return an exercise in code; printed, it says what is asked.

    Raises: RangeError for a name that does not exist, with the nearest ones.

    >>> print(exercise("bias_vjp"))
    bias_vjp(p, dp) -> db
      The cotangent of a bias (B, H, N, M) that is added outside the scale, from
      the weights and their cotangent.
    """
    if name not in EXERCISES:
        close = get_close_matches(str(name), EXERCISES, n=3) or list(EXERCISES)
        raise RangeError(f"name: expected an exercise, got {name!r}; near it: {', '.join(close)}")
    return EXERCISES[name]


def judge_function(name: str, function: Callable[..., Any], *, seed: int = 0) -> Judgement:
    """Judge a function as the answer to an exercise in code.

    The results are compared with the library's on random instances, the smallest first, within the bounds of
    the table of tolerances for float64; then by a check that does not know the library's result, such as
    central differences. RIGHT is told with the number of instances; WRONG with the smallest instance that
    fails and the first wrong entry, or what the function did instead, and with the known mistake that gives
    the same results on all instances.

    Raises: RangeError for a name that does not exist; DtypeError for what is no function.

    >>> judge_function("softmax_vjp", lambda p, dp: p * dp)
    softmax_vjp: WRONG at n = 1: at index (0,): your value is 0.6404, the right
      one 0
    known mistake: softmax-vjp-elementwise. Multiply by the weights and forget
      the mean of the row. Seen: ...
    """
    asked = exercise(name)
    if not callable(function):
        raise DtypeError(f"function: expected {asked.signature}, got {type(function).__name__} {function!r}")
    return functions.judge(asked, function, integer("seed", seed, least=0))


def judge_formula(
    label: str, answer: Any, *, names: Sequence[str] | None = None, derivatives: bool = False
) -> Judgement:
    r"""Judge a formula as the answer to what an identity of the book asks: another form of its left side.

    The answer is the right side, an equation that has the left side on one side, or a derivation that begins
    with it; in LaTeX, in the notation of the page, or in SymPy, where ``\beta`` is called ``beta`` and
    ``\bar{v}`` ``vbar``. It may use the names of the definitions on which the identity rests, or only
    ``names`` of them; not the name that is asked for, and no derivative unless ``derivatives`` is true. What
    only repeats the left side or its definition is refused.

    PROVED is told for every size, REFUTED with the smallest exact counterexample and the known mistake to
    which the answer is equal, REFUSED with the place and the reason, UNDECIDED where neither proof nor
    counterexample was found.

    Raises: RangeError for a label that is no identity of the book, or names that it does not have;
    DtypeError for an answer that is no formula.

    >>> judge_formula("eq-vjp", r"p_j\, dp_j")
    eq-vjp: REFUTED at n = 1, j = 1, dp = (1), s = 0; so p = (1): the left side
      is 0, your formula gives 1
    known mistake: softmax-vjp-elementwise, shown as bad-vjp-elementwise.
      Multiply by the weights and forget the mean of the row. Seen: ...
    """
    import attngrad.proofs  # noqa: F401  (first, since it says which extra is missing)
    from attngrad.exercises.formulas import judge

    return judge(label, answer, names, derivatives)
