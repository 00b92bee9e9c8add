"""How far an answer may be off: by rounding in its type, and by a right formula of low precision.

Formula, of o and gradients of q, k, v in less than float64: f max_row |plain - exact| + 4 band, with f = 2
forward and 3 backward, ``plain`` an emulated run that rounds every array as it is stored, and ``band`` the
standard deviation of the rounding errors of an entry. A row is a query's of o and dq, a key's of dk and dv.
Of lse and of what is summed over pairs (dbias, dtable, dscale, dsink): 6 band. In float64:
1e-12 |exact| + 9000 band, that is 1e-12 for each rounding of 2^-53. To dbias and dtable of a bias in a
shorter type than q its last rounding is added, and sums in float32 are granted.
"""

from weakref import WeakKeyDictionary

import numpy as np

from attngrad.checks import TOLERANCES
from attngrad.doctor.case import Case
from attngrad.doctor.judging import low, plain
from attngrad.doctor.judging.band import of_keys, outputs, units
from attngrad.doctor.judging.band_sums import of_sums
from attngrad.doctor.judging.rounding import ROUNDOFF

ROWS_OF = {"o": "forward", "dq": "backward", "dk": "backward", "dv": "backward"}
WIDE = 9000.0
BANDS = 4.0
SUMMED = TOLERANCES["reduced"].factor
_HEALTHY: WeakKeyDictionary[Case, dict[str, np.ndarray]] = WeakKeyDictionary()
_LOW: WeakKeyDictionary[Case, dict[str, dict[str, np.ndarray]]] = WeakKeyDictionary()


def bands(case: Case, exact: dict[str, np.ndarray], dtype: str) -> dict[str, np.ndarray]:
    """Return the standard deviation of each answer's error in a run of a type."""
    one = units(dtype)
    variances = outputs(case, one) | of_keys(case, one) | of_sums(case, one, exact)
    return {name: np.sqrt(v) for name, v in variances.items() if name in exact}


def healthy(case: Case, exact: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return how far rounding in the type of a case may move each answer, entry by entry.

    Formula: see the head of the module.
    """
    if case not in _HEALTHY:
        _HEALTHY[case] = _in_type(case, exact, case.dtype)
    return _HEALTHY[case]


def low_precision(
    case: Case, exact: dict[str, np.ndarray], level: str | None = None
) -> dict[str, np.ndarray]:
    """Return how far a right formula of low precision may move each answer, entry by entry.

    ``level`` is one of `attngrad.doctor.judging.low.levels`; without it, the lowest. What rounding in the
    type of the case explains is added.
    """
    level = low.LEVELS[case.dtype][-1] if level is None else level
    known = _LOW.setdefault(case, {})
    if level not in known:
        one = low.of_level(case, exact, level)
        usual = healthy(case, exact)
        known[level] = {name: one[name] + usual[name] for name in exact}
    return known[level]


def _in_type(case: Case, exact: dict[str, np.ndarray], dtype: str) -> dict[str, np.ndarray]:
    """Return the bounds of a run in a type."""
    band = bands(case, exact, dtype)
    size = {name: np.abs(np.where(np.isfinite(x), x, 0.0)) for name, x in exact.items()}
    if dtype == "float64":
        wide = {name: 1e-12 * size[name] + WIDE * x for name, x in band.items()}
        return wide | _of_shorter_bias(case, exact, wide)
    run = plain.run(case, plain.Arithmetic(dtype), tuple(ROWS_OF))
    found = {}
    for name, x in band.items():
        if name in ROWS_OF:
            factor = TOLERANCES[ROWS_OF[name]].factor
            found[name] = factor * _largest(run[name] - exact[name]) + BANDS * x
        else:
            found[name] = SUMMED * x
    return found | _of_shorter_bias(case, exact, found)


def _of_shorter_bias(
    case: Case, exact: dict[str, np.ndarray], bound: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return the bounds of dbias and dtable where the bias comes in a shorter type than q."""
    u = ROUNDOFF[case.bias_dtype]
    if u <= ROUNDOFF[case.dtype]:
        return {}
    read = [name for name in ("dbias", "dtable") if name in bound]
    sums = bands(case, exact, "float32") if read and case.dtype == "float64" else {}
    return {name: bound[name] + SUMMED * sums.get(name, 0.0) + 2.0 * u * np.abs(exact[name]) for name in read}


def _largest(error: np.ndarray) -> np.ndarray:
    """Return the largest absolute error of each row; one that is not finite counts as none."""
    size = np.abs(np.where(np.isfinite(error), error, 0.0))
    return size.max(axis=-1, keepdims=True, initial=0.0)
