"""A valid call of every public function of the checks and of the figures."""

import contextlib
import io
from collections.abc import Callable
from typing import Any

import numpy as np

from attngrad import checks

from .malformed import (
    axis,
    comparable,
    each,
    exactly,
    flag,
    functions,
    number,
    points,
    size,
    text,
    thing,
    word,
)
from .valid_calls import BROADCAST, LABELS, Call, M, S, default, draw, fine

LABEL = "the check"
NAMED = {"name": "a label, which is printed as it is"}
GIVEN = {"name": LABEL, "seed": 3, "nonzero": True}
GIVEN_KINDS = {"seed": size(least=0), "nonzero": flag}
INPUT = {"inputs": "inputs?"}
X, TALL = draw(2, 3), draw(4, 2)
PLAIN = np.float32(S * (1.0 + 1e-6))
SIZES = each(size(least=0), fewer=False)
TRIED = {"trials": size(least=1), **GIVEN_KINDS}


def quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose printing is not seen."""

    def called(**arguments: Any) -> Any:
        with contextlib.redirect_stdout(io.StringIO()):
            return function(**arguments)

    return called


def sine_vjp(x: np.ndarray, *cotangents: np.ndarray) -> np.ndarray:
    """Return the cotangent of the argument of a sine."""
    return np.cos(x) * cotangents[0]


CHECKS = {
    "check_close": Call(
        checks.check_close,
        {"name": LABEL, "got": S, "want": S, "kind": "float64", "terms": np.abs(S)},
        {"got": comparable, "want": comparable, "kind": word, "terms": comparable},
        default("terms") | fine(BROADCAST, terms=("axis less",)),
        free=NAMED,
    ),
    "check_close, equal": Call(
        checks.check_close,
        {"name": LABEL, "got": LABELS, "want": LABELS, "kind": "equal"},
        {"got": exactly, "want": exactly},
        free=NAMED | {"terms": "an exact comparison has none"},
    ),
    "report": Call(
        quiet(checks.report),
        {"name": LABEL, "got": S, "want": S, "kind": "float64", "terms": np.abs(S) + 2.0, "digits": 3},
        {"got": comparable, "want": comparable, "kind": word, "terms": comparable, "digits": size(1, 10)},
        default("terms", "digits") | fine(BROADCAST, terms=("axis less",)),
        free=NAMED,
    ),
    "format_value": Call(
        checks.format_value,
        {"value": S[0], "digits": 3, "scale": 2.0, "error": np.full(M, 1e-9)},
        {"value": comparable, "digits": size(least=1), "scale": number(), "error": comparable},
        default("scale", "error")
        | fine(BROADCAST, value=("axis more",), error=("axis less",))
        | fine("printed as it is", value=("bool", "nan", "inf", "-inf")),
    ),
    "error_budget": Call(
        checks.error_budget,
        {
            "name": LABEL, "got": np.float32(S), "plain": PLAIN, "exact": S, "dtype": "float32",
            "kind": "backward", "axis": 1, "nonzero": True,
        },
        {
            "got": comparable, "plain": comparable, "exact": comparable, "dtype": word, "kind": word,
            "axis": axis, "nonzero": flag,
        },
        free=NAMED,
    ),
    "check_vjp": Call(
        checks.check_vjp,
        {"f": np.sin, "vjp": sine_vjp, "inputs": (X,), "trials": 2, **GIVEN},
        {"f": functions, "vjp": functions, "inputs": each(points), **TRIED},
        told=INPUT,
        free=NAMED,
    ),
    "check_jvp": Call(
        checks.check_jvp,
        {"f": np.sin, "jvp": lambda x, t: np.cos(x) * t, "inputs": (X,), "trials": 2, **GIVEN},
        {"f": functions, "jvp": functions, "inputs": each(points), **TRIED},
        told=INPUT,
        free=NAMED,
    ),
    "check_adjoint": Call(
        checks.check_adjoint,
        {
            "apply": lambda t: TALL @ t, "transpose": lambda u: TALL.T @ u, "tangent_shape": (2, 3),
            "cotangent_shape": (4, 3), **GIVEN,
        },
        {
            "apply": functions, "transpose": functions, "tangent_shape": SIZES,
            "cotangent_shape": SIZES, **GIVEN_KINDS,
        },
        free=NAMED,
    ),
    "expect_error": Call(
        quiet(checks.expect_error),
        {"error": ValueError, "function": lambda: int("x"), "match": "invalid"},
        {"error": thing, "function": thing, "match": text},
        free={"args": "passed on to the function", "kwargs": "passed on to the function"},
    ),
}  # fmt: skip
