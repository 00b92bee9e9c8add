"""Comparing values by a row of the table of tolerances."""

from typing import Any

import numpy as np

from attngrad.checks.arguments import is_one_of
from attngrad.checks.tolerances import TOLERANCES
from attngrad.notation import DtypeError, RangeError, check_broadcasts, first_index


def as_numpy(x: Any, name: str = "value") -> np.ndarray:
    """Return an array, a number or a torch tensor as a NumPy array; floats become float64.

    Raises: DtypeError for a masked array, whose mask would be lost, a list whose rows differ in length, and
    a tensor that is sparse or holds no values.
    """
    if hasattr(x, "detach"):
        if str(x.layout) != "torch.strided" or x.is_meta:
            raise DtypeError(f"{name}: expected a dense tensor with values, got {x.layout} on {x.device}")
        x = x.detach().cpu()
        # NumPy has no bfloat16.
        x = x.double() if x.is_floating_point() else x
    if isinstance(x, np.ma.MaskedArray):
        raise DtypeError(f"{name}: expected a plain array, got a masked array, whose mask would be lost")
    try:
        x = np.asarray(x)
    except ValueError as error:
        raise DtypeError(
            f"{name}: expected an array, got a {type(x).__name__} with rows that differ"
        ) from error
    return x.astype(np.float64) if x.dtype.kind == "f" else x


def real_array(name: str, x: Any) -> np.ndarray:
    """Return a value to compare as float64.

    Raises: DtypeError for what is not real numbers, such as complex ones or objects.
    """
    x = as_numpy(x, name)
    if x.dtype.kind not in "fiu":
        raise DtypeError(f"{name}: expected numbers, got {x.dtype}")
    return x.astype(np.float64)


def certified_error(want: Any, kind: str, terms: Any = None) -> np.ndarray:
    """Return the error that the rule of a kind allows for each entry; 0 for kind "equal".

    Formula: rtol |want| + atol terms; for kind "difference" rtol max(|want|, terms).

    Raises: RangeError for a kind without such a rule, or terms that are negative or not finite; ShapeError
    for terms that do not broadcast to ``want``.
    """
    usable = [key for key, row in TOLERANCES.items() if row.rtol > 0.0]
    if not is_one_of(kind, ("equal", *usable)):
        raise RangeError(f"kind: expected 'equal' or one of {usable}, got {kind!r}")
    if kind == "equal":
        return np.zeros(as_numpy(want, "want").shape)
    rule = TOLERANCES[kind]
    want = real_array("want", want)
    size = np.abs(np.where(np.isfinite(want), want, 0.0))
    terms = np.zeros(()) if terms is None else real_array("terms", terms)
    check_broadcasts("terms", terms.shape, want.shape)
    wrong = np.asarray(~(np.isfinite(terms) & (terms >= 0.0)))
    if wrong.any():
        at = first_index(wrong)
        raise RangeError(f"terms: expected finite numbers of at least 0, got {terms[at]} at index {at}")
    if kind == "difference":
        return np.asarray(rule.rtol * np.maximum(size, terms))
    return np.asarray(rule.rtol * size + rule.atol * terms)


def check_close(name: str, got: Any, want: Any, kind: str = "float64", terms: Any = None) -> None:
    """Require that two values agree by a row of the table.

    Formula: |got - want| <= rtol |want| + atol terms, entry by entry; for kind "difference" the bound is
    rtol max(|want|, terms). ``terms`` is the sum of the absolute terms of which each entry is made; without
    it the bound is relative alone, so that a wanted zero must be met exactly. Infinities must be equal.

    Raises: AssertionError that names the worst entry; RangeError for a kind that has no such rule, or terms
    that are negative or not finite; ShapeError for terms that do not broadcast to ``want``.

    >>> check_close("row sum", 0.1 + 0.2, 0.3)
    """
    bound = certified_error(want, kind, terms)
    if kind == "equal":
        return _check_equal(name, as_numpy(got, f"{name}: got"), as_numpy(want, f"{name}: want"))
    got, want = real_array(f"{name}: got", got), real_array(f"{name}: want", want)
    _check_shapes(name, got, want)
    finite = np.isfinite(want)
    same = np.where(finite, np.isfinite(got), got == want)
    if not same.all():
        at = first_index(~same)
        raise AssertionError(f"{name}: got {got[at]}, want {want[at]} at index {at}")
    got, want = np.where(finite, got, 0.0), np.where(finite, want, 0.0)
    with np.errstate(over="ignore"):
        error = np.asarray(np.abs(got - want))
    _check_within(name, error, bound, got, want)


def _check_shapes(name: str, got: np.ndarray, want: np.ndarray) -> None:
    """Require equal shapes, with nothing broadcast."""
    if got.shape != want.shape:
        raise AssertionError(f"{name}: got shape {got.shape}, want shape {want.shape}")


def _check_equal(name: str, got: np.ndarray, want: np.ndarray) -> None:
    """Require equal shapes and entries; a NaN equals nothing."""
    _check_shapes(name, got, want)
    if not (got == want).all():
        at = first_index(got != want)
        raise AssertionError(f"{name}: got {got[at]}, want {want[at]} at index {at}; they must be equal")


def _check_within(name: str, error: np.ndarray, bound: np.ndarray, got: np.ndarray, want: np.ndarray) -> None:
    """Require every error to be within its bound; name the entry that exceeds it most."""
    excess = np.asarray(error - bound)
    if excess.size and not excess.max() <= 0.0:
        at = np.unravel_index(int(np.argmax(excess)), excess.shape)
        where = f" at index {tuple(int(k) for k in at)}" if at else ""
        if bound[at] == 0.0 and want[at] == 0.0:
            raise AssertionError(
                f"{name}: got {got[at]:.6g}, want 0{where}; a wanted zero has no relative bound: "
                "pass terms=, the sum of the absolute terms of which the entry is made"
            )
        raise AssertionError(
            f"{name}: got {got[at]:.6g}, want {want[at]:.6g}{where}; "
            f"error {error[at]:.2e} exceeds {bound[at]:.2e}"
        )


def check_not_vacuous(name: str, size: float, bound: float, margin: float = 100.0) -> None:
    """Refuse a comparison in which a zero in place of the result would have passed.

    Raises: AssertionError unless ``size`` exceeds ``margin`` times ``bound``.
    """
    if not size > margin * bound:
        raise AssertionError(
            f"{name}: the result is so small that zero would pass within {bound:.1e}; "
            "use a random cotangent, or say nonzero=False if zero is meant"
        )
