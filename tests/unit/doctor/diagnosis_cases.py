"""Implementations that are answers alone: right or wrong ones with the noise of rounding, judged."""

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from attngrad.doctor import Case, Outcome, Spec, alibi, t5
from attngrad.doctor.cases import plan
from attngrad.doctor.judging import bounds, verdicts
from attngrad.mistakes.whole import WHOLE, right

Answers = dict[str, np.ndarray]
Make = Callable[[Case], Answers]
OPTIONS = (
    "cross", "values", "gqa", "mask", "empty-rows", "dropout", "lse", "dlse", "softcap", "sink", "dscale",
    "query-start", "packed", "strides",
)  # fmt: skip
SPECS = {
    "table": Spec(framework="numpy", map=t5(32, 64), causal="both", options=OPTIONS),
    "bias": Spec(
        framework="numpy", bias=("1hnm", "11nm", "bhnm"), causal="both",
        options=(*OPTIONS, "hidden", "lowest"),
    ),
    "inside": Spec(
        framework="numpy", bias=("1hnm", "11nm"), bias_inside_scale=True, causal="both",
        options=("softcap-product", "dscale"),
    ),
    "slopes": Spec(framework="numpy", map=alibi(4, learned=True), options=("cross", "query-start", "lse")),
    "masks": Spec(framework="numpy", options=("mask", "empty-rows", "lse")),
    "half": Spec(framework="numpy", dtypes=("float16",), bias=("bhnm",), bias_dtype="float32"),
}  # fmt: skip


@lru_cache(maxsize=16)
def cases_of(name: str, quick: bool = True) -> tuple[Case, ...]:
    """Return the cases of a specification by its name here."""
    extra = (square_case(),) if name == "masks" else ()
    return (*plan(SPECS[name], quick=quick), *extra)


def noisy(case: Case, answers: Answers, rng: np.random.Generator) -> Answers:
    """Return answers with a third of the error that rounding explains."""
    bound = bounds.healthy(case, right(case).answers())
    found = {}
    for name, x in answers.items():
        width = np.broadcast_to(bound[name], x.shape)
        found[name] = x + rng.uniform(-0.3, 0.3, x.shape) * np.where(np.isfinite(width), width, 0.0)
    return found


def tried(cases: Sequence[Case], spec: Spec, make: Make, seed: int = 0) -> list:
    """Return cases with the outcome that some answers are, and its findings."""
    rng, found = np.random.default_rng(seed), []
    for case in cases:
        outcome = Outcome("ok", answers=noisy(case, make(case), rng))
        found.append((case, outcome, verdicts.judge(case, outcome, spec)))
    return found


def healthy(case: Case) -> Answers:
    """Return the right answers."""
    return right(case).answers()


def planted(id: str, **settings: object) -> Make:
    """Return the wrong answers of a mistake."""
    return lambda case: WHOLE[id].pipeline(case, **settings).answers()


def changed(
    name: str, change: Callable[[np.ndarray], np.ndarray], where: Callable[[Case], bool] | None = None
) -> Make:
    """Return the right answers with one of them changed, in some cases."""

    def make(case: Case) -> Answers:
        answers = dict(healthy(case))
        if name in answers and (where is None or where(case)):
            answers[name] = np.asarray(change(answers[name]))
        return answers

    return make


def square_case() -> Case:
    """Return a case with as many keys as a value has features."""
    rng = np.random.default_rng(9)
    sizes = {"q": (2, 3, 13, 24), "k": (2, 3, 24, 24), "v": (2, 3, 24, 24), "do": (2, 3, 13, 24)}
    drawn = {name: np.float32(rng.standard_normal(size)).astype(np.float64) for name, size in sizes.items()}
    return Case("square", "as many keys as features", "float32", scale=0.26, **drawn)
