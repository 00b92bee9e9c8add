"""What is compared: an operator, the sizes at which it runs, and the contenders that do its work.

torch is imported when inputs are drawn or a contender is built. Names, sizes and formulas are here without
it, so that recorded rows can be shown where torch is not installed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from attngrad.notation import RangeError

DEVICES = ("cpu", "cuda")
ITEM_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}

Sizes = Mapping[str, int]
Tensors = dict[str, Any]
Call = Callable[[], Tensors]


class Unavailable(RuntimeError):
    """A contender cannot run on this machine; the message is the reason, which the table shows."""


@dataclass(frozen=True)
class Case:
    """Sizes at which an operator runs, the type of its arrays, and the devices on which it is measured.

    With ``tuned`` it runs in a process of its own, whose C library keeps the memory that is freed, so that
    no page has to be fetched from the system twice. ``rounds`` is how many rounds are enough, ``sample_s``
    how many seconds a sample lasts; None stands for what is usual. ``contenders`` names those that take part
    where not all do, since some would need too much memory.
    """

    name: str
    sizes: Sizes
    dtype: str = "float32"
    devices: tuple[str, ...] = DEVICES
    tuned: bool = False
    rounds: int | None = None
    sample_s: float | None = None
    contenders: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Contender:
    """One way to do the work.

    ``build(inputs)`` returns a function without arguments that does the whole work once and returns its
    results by name. It is a function on the top level of its module, so that its source can be found.
    ``compiled`` says that building takes a compiler and many seconds. A ``bound`` does less than the work,
    to show what is left to win; its results are not checked. It may be ``part_of`` another contender, which
    does the same and more: then the share of its time that the rest takes is shown.
    """

    name: str
    build: Callable[[Tensors], Call]
    devices: tuple[str, ...] = DEVICES
    compiled: bool = False
    bound: bool = False
    part_of: str | None = None


@dataclass(frozen=True)
class Operator:
    """Work that all contenders do, with its exact results and its costs.

    The first contender is the plain run: ratios and error budgets refer to it. ``outputs`` says of each
    result whether it is of the forward or of the backward pass. ``shapes(sizes)`` gives the inputs, ``exact``
    takes them in float64 and returns the results in float64, ``flops(sizes)`` counts operations, and
    ``moved(sizes)`` counts the numbers that at least have to be read or written. ``quick`` names the case of
    a live cell, by device. ``plain_in_strips`` is the plain run on some queries at a time: in a case in which
    the plain run does not take part, error budgets refer to its results, and ratios to the first contender
    that does. ``limit`` names the contender to whose speed all are compared; where there is one, pages
    fetched from the system are counted too.
    """

    name: str
    work: str
    contenders: tuple[Contender, ...]
    cases: tuple[Case, ...]
    quick: Mapping[str, str]
    outputs: Mapping[str, str]
    shapes: Callable[[Sizes], dict[str, tuple[int, ...]]]
    exact: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]
    flops: Callable[[Sizes], int]
    moved: Callable[[Sizes], int]
    plain_in_strips: Callable[[Tensors], Tensors] | None = None
    limit: str | None = None

    def on(self, device: str, case: Case | None = None) -> tuple[Contender, ...]:
        """Return the contenders that run on a device, in one case or in any, the plain run first."""
        check_device(device)
        chosen = None if case is None else case.contenders
        here = (one for one in self.contenders if device in one.devices)
        return tuple(one for one in here if chosen is None or one.name in chosen)

    def cases_on(self, device: str) -> tuple[Case, ...]:
        """Return the cases that are measured on a device."""
        check_device(device)
        return tuple(one for one in self.cases if device in one.devices)

    def case(self, name: str, device: str) -> Case:
        """Return a case by its name; a RangeError lists those of the device."""
        return _by_name(f"case of {self.name} on {device}", name, self.cases_on(device))

    def contender(self, name: str, device: str) -> Contender:
        """Return a contender by its name; a RangeError lists those of the device."""
        return _by_name(f"contender for {self.name} on {device}", name, self.on(device))


def check_device(device: str) -> None:
    """Require a kind of device that is known.

    >>> check_device("tpu")
    Traceback (most recent call last):
    attngrad.notation.RangeError: device: expected one of 'cpu', 'cuda', got 'tpu'
    """
    if device not in DEVICES:
        raise RangeError(f"device: expected one of {', '.join(map(repr, DEVICES))}, got {device!r}")


def _by_name(what: str, name: str, known: tuple[Any, ...]) -> Any:
    """Return what has a name, or name all there is."""
    for one in known:
        if one.name == name:
            return one
    raise RangeError(f"{what}: expected one of {', '.join(repr(one.name) for one in known)}, got {name!r}")


def draw(shapes: Mapping[str, tuple[int, ...]], dtype: str, device: str, seed: int = 0) -> Tensors:
    """Return normal inputs, drawn in the type and on the device where they are used."""
    import torch

    generator = torch.Generator(device).manual_seed(seed)
    kind = getattr(torch, dtype)
    return {
        name: torch.randn(shape, generator=generator, dtype=kind, device=device)
        for name, shape in shapes.items()
    }


def compiled(function: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
    """Return ``function`` compiled by torch.compile for these arguments.

    Raises: Unavailable with the kind of error where torch cannot compile, such as InvalidCxxCompiler.
    """
    import torch
    from torch._dynamo.exc import TorchDynamoException

    # Each shape counts against a limit beyond which torch would refuse to compile once more.
    torch.compiler.reset()
    fast = torch.compile(function, fullgraph=True, dynamic=False)
    try:
        fast(*arguments)
    except TorchDynamoException as error:
        kind = type(getattr(error, "inner_exception", error)).__name__
        raise Unavailable(f"torch.compile failed with {kind}") from error
    return fast
