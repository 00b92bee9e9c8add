"""Bad input anywhere in the library gives an error that names the argument, what was expected and what came.

Each public function is called with one argument spoilt at a time, in every way that `malformed` knows.
"""

import inspect
import re
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import attngrad
from attngrad import offsets, reference
from attngrad.notation import DtypeError, RangeError, ShapeError

from .malformed import Bad, of_type
from .valid_calls import REFERENCE, Call
from .valid_check_calls import CHECKS, LABEL
from .valid_offset_calls import OF_OFFSETS, TASKS
from .valid_plot_calls import DIFFERENTIATION, PLOTS
from .valid_torch_calls import LAYERS

OWN = (DtypeError, ShapeError, RangeError, AssertionError)
SHAPE = re.compile(r"\((?:\d+,|\d+(?:, \d+)+)?\)")
REGISTERED = {
    "reference": REFERENCE,
    "offsets": OF_OFFSETS,
    "tasks": TASKS,
    "layers": LAYERS,
    "checks": CHECKS,
    "plots": PLOTS,
    "differentiation": DIFFERENTIATION,
}
# Classes of what functions return, and of rows of a table: nothing is checked where one is made.
RECORDS = {"Attention", "AttentionGradients", "Tolerance"}
CALLS = {f"{module}.{name}": call for module, calls in REGISTERED.items() for name, call in calls.items()}


def fault(call: Call, name: str, bad: Bad) -> str | None:
    """Return what is wrong with the answer to a spoilt argument: None for a right error or where harmless."""
    reason = call.harmless.get((name, bad.how))
    try:
        result = call.function(**{**call.arguments, name: bad.value})
    except OWN as error:
        return f"harmless ({reason}), and refused: {error}" if reason else misses(str(error), call, name, bad)
    except Exception as error:
        return f"{type(error).__name__} from inside: {error}"
    if reason:
        return None
    return "a NaN in silence" if holds_nan(result) else f"accepted: {type(result).__name__}"


def misses(message: str, call: Call, name: str, bad: Bad) -> str | None:
    """Return what an error fails to say."""
    names = [call.told.get(name, re.escape(name)), *(call.arguments if bad.either else ())]
    who = LABEL if bad.verdict else "|".join(names)
    if not re.search(rf"(?<!\w)(?:{who})(?!\w)", message):
        return f"does not name {name}: {message}"
    both = bad.either and len(SHAPE.findall(message)) > 1
    if not both and not bad.verdict and not re.search(r"expected|want", message):
        return f"does not say what was expected: {message}"
    came = (*bad.came, call.says[name, bad.how]) if (name, bad.how) in call.says else bad.came
    if not both and not any(word in message for word in came):
        return f"does not say what came, {' or '.join(came)}: {message}"
    return None


def holds_nan(result: Any) -> bool:
    """Return whether a NaN stands anywhere in a result."""
    if isinstance(result, torch.Tensor):
        return not result.is_meta and bool(result.isnan().any())
    if isinstance(result, np.ndarray | float):
        return np.asarray(result).dtype.kind == "f" and bool(np.isnan(result).any())
    parts = result if isinstance(result, tuple | list) else getattr(result, "__dict__", {}).values()
    return any(holds_nan(part) for part in parts)


def spoilt(call: Call) -> Iterator[tuple[str, Bad]]:
    """Yield each argument with each of its spoilt values."""
    for name, kind in call.kinds.items():
        for bad in kind(call.arguments[name]):
            yield name, bad


@pytest.mark.usefixtures("raw_errors")
@pytest.mark.parametrize("case", CALLS)
def test_a_spoilt_argument_is_named(case: str) -> None:
    call = CALLS[case]
    assert not holds_nan(call.function(**call.arguments))
    found = [(name, bad.how, fault(call, name, bad)) for name, bad in spoilt(call)]
    assert [line for line in found if line[2]] == []


@pytest.mark.parametrize("case", CALLS)
def test_every_exception_to_the_rule_is_used(case: str) -> None:
    call = CALLS[case]
    ways = {(name, bad.how) for name, bad in spoilt(call)}
    assert {*call.harmless, *call.says} <= ways
    assert set(call.told) <= set(call.kinds)


def public(module: ModuleType) -> dict[str, Any]:
    """Return the functions and classes of a module that it offers."""
    own = [name for name, x in vars(module).items() if getattr(x, "__module__", "") == module.__name__]
    names = getattr(module, "__all__", [name for name in own if not name.startswith("_")])
    return {name: getattr(module, name) for name in names if callable(getattr(module, name))}


def missing(module: ModuleType, registered: dict[str, Call]) -> list[str]:
    """Return what a module offers and has no call, and parameters that no call spoils."""
    calls: dict[str, list[Call]] = {}
    for name, call in registered.items():
        calls.setdefault(name.partition(",")[0], []).append(call)
    found = []
    for name, function in public(module).items():
        if name in RECORDS or (module is not offsets and function is getattr(offsets, name, None)):
            continue
        parameters = inspect.signature(function).parameters.values()
        names = [p.name for p in parameters if p.kind is not p.VAR_POSITIONAL or name == "expect_error"]
        kept = [{*call.kinds, *call.free} for call in calls.get(name, [])]
        found += [name] if not kept else [f"{name}: {x}" for x in names if not any(x in k for k in kept)]
    return found


@pytest.mark.parametrize("module", REGISTERED)
def test_every_public_function_and_parameter_is_spoilt(module: str) -> None:
    assert missing(getattr(attngrad, module), REGISTERED[module]) == []


def test_what_has_no_call_is_found() -> None:
    fewer = {name: call for name, call in REFERENCE.items() if not name.startswith("cross_entropy")}
    assert missing(reference, fewer) == ["cross_entropy", "cross_entropy_vjp"]
    lse = REFERENCE["lse"]
    unspoilt = replace(lse, kinds={"s": lse.kinds["s"]})
    assert missing(reference, REFERENCE | {"lse": unspoilt}) == ["lse: mask"]


def test_there_are_thousands_of_spoilt_calls() -> None:
    assert sum(1 for call in CALLS.values() for _ in spoilt(call)) > 4000


def test_no_spoilt_value_is_the_valid_one() -> None:
    """A wrong answer would be accepted where a spoilt value is the valid one."""
    for call in CALLS.values():
        for name, bad in spoilt(call):
            assert bad.value is not call.arguments[name]


def planted(raises: Exception | None = None, result: Any = 1.0) -> Call:
    """Return a call of a function that answers anything in one way."""

    def answer(x: Any) -> Any:
        if raises is not None:
            raise raises
        return result

    return Call(answer, {"x": np.zeros((3, 5))}, {})


TRANSPOSED = Bad("transposed", np.zeros((5, 3)), ("(5, 3)",), either=True)
VERDICT = Bad("gives nan", None, ("NaN",), verdict=True)


@pytest.mark.parametrize(
    ("call", "bad", "told"),
    [
        (planted(), of_type("text"), "accepted: float"),
        (planted(result=(1.0, [np.array([1.0, np.nan])])), of_type("text"), "a NaN in silence"),
        (planted(result=torch.tensor(torch.nan)), of_type("text"), "a NaN in silence"),
        (planted(IndexError("index 3")), of_type("text"), "IndexError from inside: index 3"),
        (planted(ValueError("x: expected floats, got str")), of_type("text"), "ValueError from inside"),
        (planted(DtypeError("expected floats, got str")), of_type("text"), "does not name x"),
        (planted(DtypeError("max: expected floats, got str")), of_type("text"), "does not name x"),
        (planted(DtypeError("x: got str")), of_type("text"), "does not say what was expected"),
        (planted(DtypeError("x: expected floats, got it")), of_type("text"), "does not say what came"),
        (planted(ShapeError("x: expected three axes")), TRANSPOSED, "does not say what came"),
        (planted(ShapeError("y: expected (3, 5), got (5, 3)")), TRANSPOSED, "does not name x"),
        (planted(AssertionError("it holds a NaN")), VERDICT, "does not name x"),
    ],
)
def test_a_planted_fault_is_found(call: Call, bad: Bad, told: str) -> None:
    assert str(fault(call, "x", bad)).startswith(told)


@pytest.mark.parametrize(
    ("call", "bad"),
    [
        (planted(DtypeError("x: expected floats, got str")), of_type("text")),
        (planted(ShapeError("x: expected (3, 5) as for y, got (5, 3)")), TRANSPOSED),
        (planted(AssertionError(f"{LABEL}: got a NaN")), VERDICT),
        (replace(planted(), harmless={("x", "str"): "text will do"}), of_type("text")),
    ],
)
def test_a_right_answer_is_no_fault(call: Call, bad: Bad) -> None:
    assert fault(call, "x", bad) is None


def test_what_is_harmless_and_yet_refused_is_found() -> None:
    refused = planted(DtypeError("x: expected floats, got str"))
    call = replace(refused, harmless={("x", "str"): "text will do"})
    assert str(fault(call, "x", of_type("text"))).startswith("harmless (text will do), and refused")
