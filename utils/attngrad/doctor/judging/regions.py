"""Saying in words where the wrong entries of an answer are, and what stands there."""

import numpy as np

from attngrad.doctor.case import Case
from attngrad.doctor.cases.sizes import names_of

AXES = {"o": "bhic", "lse": "bhi", "dq": "bhic", "dk": "bhjc", "dv": "bhjc", "dbias": "bhij", "dsink": "h"}
FEW = 4
TOLD = 1e-3  # a factor nearer to 1 says nothing


def axes(name: str, rank: int) -> str:
    """Return a letter for each axis of an answer: of dk and dv, h counts heads of keys."""
    if name == "dtable":
        return "hr"[:rank]
    letters = AXES.get(name, "")
    return letters[len(letters) - rank :]


def place(name: str, index: tuple[int, ...]) -> str:
    """Return an index as "(b 0, h 1, i 64, c 3)"."""
    letters = axes(name, len(index))
    return "(" + ", ".join(f"{letter} {k}" for letter, k in zip(letters, index, strict=True)) + ")"


def region(name: str, wrong: np.ndarray) -> str:
    """Return where the wrong entries are, if along some axis they are not everywhere; "" otherwise.

    >>> region("lse", np.array([[[False, False, True]]]))
    'i = 2 only'
    """
    said = []
    for axis, letter in enumerate(axes(name, wrong.ndim)):
        others = tuple(k for k in range(wrong.ndim) if k != axis)
        at = np.flatnonzero(wrong.any(axis=others))
        if len(at) < wrong.shape[axis]:
            said.append(_indices(letter, at, wrong.shape[axis]))
    return f"{' and '.join(said)} only" if said else ""


def _indices(letter: str, at: np.ndarray, size: int) -> str:
    """Return some indices of an axis as an inequality, a list or a count."""
    first, last = int(at[0]), int(at[-1])
    if len(at) == 1:
        return f"{letter} = {first}"
    if len(at) == last - first + 1:
        if last == size - 1:
            return f"{letter} >= {first}"
        return f"{letter} <= {last}" if first == 0 else f"{first} <= {letter} <= {last}"
    if len(at) <= FEW:
        return f"{letter} = {', '.join(str(int(k)) for k in at)}"
    return f"{len(at)} of {size} {letter}"


def factor(got: np.ndarray, want: np.ndarray, bound: np.ndarray) -> tuple[float, float] | None:
    """Return the constant c for which got is c want inside the bounds, and the largest |got - c want|.

    None where no constant does it.
    """
    squares = float((want**2).sum())
    if got.size < 2 or squares == 0.0 or not np.isfinite(got).all():
        return None
    c = float((got * want).sum()) / squares
    rest = np.abs(got - c * want)
    return (c, float(rest.max())) if np.all(rest <= (1.0 + abs(c)) * bound) else None


def what_stands_there(
    case: Case, got: np.ndarray, want: np.ndarray, bound: np.ndarray, wrong: np.ndarray
) -> str:
    """Return what the wrong entries are: zero, or all of the answer by a constant factor; "" otherwise."""
    if not got[wrong].any():
        return "all of it is 0" if not got.any() else "where it is 0"
    fitted = factor(got, want, bound)
    if fitted is None:
        return ""
    c, rest = fitted
    if abs(c - 1.0) < TOLD:
        return ""
    names = names_of(c, case)
    told = f" = {' or '.join(names)}" if names else ""
    return f"all of it is {c:.6g}{told} times what it should be (rest {rest:.1e})"
