"""Telling a lack of precision from a wrong formula."""

import numpy as np

from attngrad.doctor.case import Case
from attngrad.doctor.judging import bounds, low
from attngrad.doctor.judging.exact import answers
from attngrad.doctor.judging.regions import factor

MOSTLY_RIGHT = 0.6  # of the 2-norm: beyond it an error is no lack of precision
EVERYWHERE = 0.25  # of the entries
ROW_REST = 0.3  # of the error of a row: what a factor of the row leaves of it
ENOUGH, SHIFTED = 4, 0.1  # entries, and the distance of a factor from 1, by which a factor is told


def lack(case: Case, name: str, got: np.ndarray, want: np.ndarray, bound: np.ndarray) -> str | None:
    """Return the type whose precision explains the error of an answer, None for an error of the formula.

    The error is within `bounds.low_precision` of the type, small beside the answer, and not made as those of
    formulas are: by a factor of all entries or, where a shorter type would be seen everywhere, by one of each
    row or in some entries alone. What is within float32 of a float64 answer is no formula.
    """
    if not float(np.linalg.norm(got - want)) < MOSTLY_RIGHT * float(np.linalg.norm(want)):
        return None
    structured = _structured(case, name, got, want, bound)
    for level in low.levels(case, name):
        if structured and level != "float32":
            return None
        if np.all(np.abs(got - want) <= bounds.low_precision(case, answers(case), level)[name]):
            return level
    return None


def _structured(case: Case, name: str, got: np.ndarray, want: np.ndarray, bound: np.ndarray) -> bool:
    """Say whether an error is one that formulas make."""
    fitted = factor(got, want, bound)
    if _most_by_a_factor(got, want, bound):
        return True
    if case.dtype in ("float16", "bfloat16") or low.of_shorter_bias(case, name):
        return fitted is not None and abs(fitted[0] - 1.0) > SHIFTED
    somewhere = np.mean((np.abs(got - want) > bound)[want != 0.0]) < EVERYWHERE
    return fitted is not None or bool(somewhere) or _factor_of_rows(got, want)


def _factor_of_rows(got: np.ndarray, want: np.ndarray) -> bool:
    """Say whether most rows are the right ones times a factor of their own, as no rounding makes them."""
    if want.ndim == 0 or want.shape[-1] < ENOUGH:
        return False
    error, size = got - want, (want**2).sum(axis=-1, keepdims=True)
    read = (size > 0.0)[..., 0]
    rest = error - (error * want).sum(axis=-1, keepdims=True) / np.where(size > 0.0, size, 1.0) * want
    left, whole = (np.sqrt((x**2).sum(axis=-1))[read] for x in (rest, error))
    return bool(np.median(left / np.where(whole > 0.0, whole, 1.0)) < ROW_REST)


def _most_by_a_factor(got: np.ndarray, want: np.ndarray, bound: np.ndarray) -> bool:
    """Say whether half of the entries that can be told are the right ones times one factor."""
    read = np.abs(want) > 4.0 * bound
    if read.sum() < ENOUGH:
        return False
    first, middle, last = np.percentile(got[read] / want[read], (25, 50, 75))
    shift = abs(middle - 1.0)
    return bool(shift > SHIFTED and max(last - middle, middle - first) < 0.5 * shift)
