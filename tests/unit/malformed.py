"""Ways to spoil one argument of a call: its type, its shape, its values; each says what an error must tell.

A kind of argument is a function from a valid value to the spoilt ones.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True)
class Bad:
    """A spoilt value, how it was spoilt, and the words of which an error must say one.

    Of two arrays whose shapes or devices do not fit, ``either`` may be called the wrong one: an error may
    name another argument, and say both shapes. A ``verdict`` is passed on a function for what it returns: it
    names what was checked, and the output or input that is wrong.
    """

    how: str
    value: Any
    came: tuple[str, ...]
    either: bool = False
    verdict: bool = False


Kind = Callable[[Any], Iterator[Bad]]
SPREAD = 7  # which entry is spoilt: in an array of more, neither the first nor the last one
NOT_FLOATS = ("int64", "bool", "complex128", "object", "str", "longdouble")
NOT_INTEGERS = ("float64", "bool", "complex128", "object", "str")
NOT_BOOLEANS = ("int64", "float64", "complex128", "object")


def of_type(value: Any) -> Bad:
    """Return a value of a type that does not belong; the error must name the type, or the value."""
    name = type(value).__name__
    return Bad(name, value, (name, repr(value)))


def with_entry(how: str, x: Any, value: Any, told: str) -> Iterator[Bad]:
    """Yield a copy with one entry replaced; the error must name the value, and its index where it has one."""
    if 0 in x.shape:
        return
    at = tuple(int(k) for k in np.unravel_index(SPREAD % int(np.prod(x.shape)), x.shape))
    spoilt = x.clone() if isinstance(x, torch.Tensor) else x.copy()
    spoilt[at] = value
    yield Bad(how, spoilt, (f"{told} at index {at}",) if at else (f"got {told}",))


def shapes(x: Any) -> Iterator[Bad]:
    """Yield arrays of other shapes, which the error must name."""
    join = torch.cat if isinstance(x, torch.Tensor) else np.concatenate
    changed = {"axis more": x[None]}
    if x.ndim:
        changed["axis less"], changed["short"], changed["empty"] = x[0], x[..., :-1], x[..., :0]
        changed["long"] = join([x, x[..., :1]], -1)
    if x.ndim > 1:
        changed["short in front"], changed["empty in front"] = x[1:], x[:0]
    if x.ndim > 1 and x.shape[-1] != x.shape[-2]:
        changed["transposed"] = x.swapaxes(-1, -2)
    for how, spoilt in changed.items():
        yield Bad(how, spoilt, (str(tuple(spoilt.shape)),), either=True)


def types(x: Any) -> Iterator[Bad]:
    """Yield values of types that hold no array of this kind."""
    for value in (None, "text", 0.5, object(), x.tolist(), tuple(x.tolist()) if x.ndim else (1,)):
        yield of_type(value)
    if isinstance(x, torch.Tensor):
        yield of_type(x.numpy())
        yield Bad("sparse", x.to_sparse(), ("sparse_coo",))
        yield Bad("meta", x.to("meta"), ("meta",), either=True)
    else:
        yield Bad("masked", np.ma.array(x, mask=False), ("MaskedArray", "masked array"))
        yield Bad("tensor", torch.tensor(x), ("Tensor",))


def dtypes(x: Any, names: tuple[str, ...]) -> Iterator[Bad]:
    """Yield arrays of other types, which the error must name."""
    for name in names:
        if isinstance(x, torch.Tensor):
            if name not in ("object", "str", "longdouble"):
                yield Bad(name, x.to(getattr(torch, name)), (f"torch.{name}",))
        elif name != "longdouble" or np.dtype(np.longdouble).itemsize > 8:
            yield Bad(name, x.astype(name), (str(x.astype(name).dtype),))


def floats(x: Any) -> Iterator[Bad]:
    """Yield what is no array of finite floats of this shape."""
    yield from types(x)
    yield from dtypes(x, NOT_FLOATS)
    yield from shapes(x)
    for value in ("nan", "inf", "-inf"):
        yield from with_entry(value, x, float(value), value)
    if isinstance(x, torch.Tensor):
        yield Bad("float32", x.to(torch.float32), ("torch.float32",))


def integers(least: int | None = None, most: int | None = None) -> Kind:
    """Return the kind of an array of integers from ``least`` to ``most``."""

    def kind(x: Any) -> Iterator[Bad]:
        yield from types(x)
        yield from dtypes(x, NOT_INTEGERS)
        yield from shapes(x)
        for how, value in (("below", None if least is None else least - 1), ("above", most)):
            if value is not None:
                beside = value if how == "below" else value + 1
                yield from with_entry(how, x, beside, str(beside))

    return kind


def masks(x: Any) -> Iterator[Bad]:
    """Yield what is no boolean mask that broadcasts to the shape of this one."""
    yield from types(x)
    yield of_type(True)
    yield from dtypes(x, NOT_BOOLEANS)
    for bad in shapes(x):
        aligned = zip(reversed(bad.value.shape), reversed(x.shape), strict=False)
        if bad.value.ndim > x.ndim or any(size not in (1, wanted) for size, wanted in aligned):
            yield bad


def size(least: int | None = None, most: int | None = None) -> Kind:
    """Return the kind of an integer from ``least`` to ``most``."""

    def kind(x: Any) -> Iterator[Bad]:
        for value in (None, True, float(x), str(x), complex(x), [x], np.array([x, x]), np.float64(x)):
            yield of_type(value)
        yield Bad("array of a float", np.array(float(x)), ("ndarray", "float64"))
        yield Bad("tensor of a float", torch.tensor(float(x)), ("Tensor",))
        if least is not None:
            yield Bad("below", least - 1, (str(least - 1),))
        if most is not None:
            yield Bad("above", most + 1, (str(most + 1),))

    return kind


LARGE = size(most=2**61)


def number(positive: bool = False, tensor: bool = False) -> Kind:
    """Return the kind of a finite number; ``tensor`` says that a tensor of no axes will do."""

    def kind(x: Any) -> Iterator[Bad]:
        for value in (None, True, str(x), complex(x), [x], object()):
            yield of_type(value)
        yield Bad("array", np.array([x, x]), ("ndarray", "(2,)"))
        yield Bad("array of a flag", np.array(True), ("bool",))
        for value in (np.nan, np.inf, -np.inf, *((0.0, -1.0) if positive else ())):
            yield Bad(str(value), value, (str(value),))
        yield Bad("huge", 10**400, ("beyond the range of floats",))
        if tensor:
            yield Bad("vector", torch.ones(2), ("(2,)",))
            yield Bad("tensor of nan", torch.tensor(torch.nan), ("nan",))
            yield Bad("tensor of an integer", torch.tensor(1), ("torch.int64",))
            yield Bad("tensor of a complex", torch.tensor(1j), ("torch.complex64",))
        else:
            yield Bad("tensor", torch.tensor(1.0), ("Tensor",))

    return kind


POSITIVE = number(positive=True)


def flag(x: Any) -> Iterator[Bad]:
    """Yield what is no boolean."""
    for value in (None, 1, 0.0, "True", np.array([True, False]), torch.tensor(True)):
        yield of_type(value)


def word(x: str) -> Iterator[Bad]:
    """Yield what is not one of the words that are known."""
    for value in ("", "other", x.upper()):
        yield Bad(f"word {value!r}", value, (repr(value),))
    for value in (None, 1, [x], {x}, np.array([x, x])):
        yield of_type(value)


def text(x: str) -> Iterator[Bad]:
    """Yield what is no text."""
    for value in (None, 1, [x], x.encode()):
        yield of_type(value)


def thing(x: Any) -> Iterator[Bad]:
    """Yield what is no object of a class of the library, and no function."""
    for value in (None, 1.0, "text", {}, (1, 2), np.ones(2)):
        yield of_type(value)


def functions(x: Any) -> Iterator[Bad]:
    """Yield what is no function, and functions whose results are not what they should be."""
    yield from thing(x)
    for how, result, came in (
        ("None", lambda y: None, ("got None",)),
        ("text", lambda y: "text", ("<U4",)),
        ("complex", lambda y: y + 0j, ("complex128",)),
        ("objects", lambda y: y.astype(object), ("object",)),
        ("nan", lambda y: y * np.nan, ("NaN",)),
        ("masked", lambda y: np.ma.array(y), ("masked array",)),
        ("less", lambda y: y[:-1], ("got shape", "claimed")),
        ("two", lambda y: (y, y), ("2 results", "2 arrays", "zero would pass", "claimed", "got shape")),
        ("ragged", lambda y: np.array, ("object",)),
    ):
        yield Bad(f"gives {how}", lambda *arguments, f=result: f(x(*arguments)), came, verdict=True)


def each(kind: Kind, fewer: bool = True) -> Kind:
    """Return the kind of a tuple: another type, too few entries, or its last entry spoilt."""

    def of_tuple(x: Any) -> Iterator[Bad]:
        for value in (None, 3, 0.5, "12", {}):
            yield of_type(value)
        if fewer:
            yield Bad("none", (), ("none", "got 0", "for 0"))
            yield Bad("one less", x[:-1], (str(len(x) - 1), "none"))
        for bad in kind(x[-1]):
            yield Bad(f"one: {bad.how}", (*x[:-1], bad.value), bad.came, bad.either)

    return of_tuple


def torch_type(x: Any) -> Iterator[Bad]:
    """Yield what is no floating-point type of torch."""
    for value in (None, "float32", torch.int64, np.float32, 32):
        yield of_type(value)


def exactly(x: np.ndarray) -> Iterator[Bad]:
    """Yield what does not equal an array; a list or a tensor could."""
    yield Bad("ragged", [[1.0], [1.0, 2.0]], ("list",))
    yield Bad("masked", np.ma.array(x, mask=False), ("masked array",))
    yield Bad("sparse", torch.tensor(x).to_sparse(), ("sparse_coo",))
    yield Bad("meta", torch.tensor(x).to("meta"), ("meta",))
    yield from shapes(x)
    yield Bad("other entry", x + 1, (str(x.ravel()[0] + 1),))


def comparable(x: np.ndarray) -> Iterator[Bad]:
    """Yield what cannot be compared with real numbers of this shape; a list or a tensor could."""
    yield from (bad for bad in exactly(x) if bad.how != "other entry")
    for value in (None, "text", object(), {}):
        yield Bad(type(value).__name__, value, (type(value).__name__, "object", "<U4"))
    yield from dtypes(x, ("bool", "complex128", "object", "str"))
    for value in ("nan", "inf", "-inf"):
        for bad in with_entry(value, x, float(value), value):
            yield Bad(bad.how, bad.value, (value,))


def axis(x: int) -> Iterator[Bad]:
    """Yield what is no axis of an array of two axes."""
    yield from (bad for bad in size()(x) if bad.value is not None)
    for value in (2, -3):
        yield Bad(str(value), value, (str(value),))


def points(x: np.ndarray) -> Iterator[Bad]:
    """Yield what is no float64 array without a NaN; any shape will do."""
    for value in (None, "text", 0.5, {}, x.tolist(), torch.tensor(x), np.ma.array(x, mask=False)):
        yield of_type(value)
    yield from dtypes(x, ("float32", "int64", "bool", "complex128", "object"))
    yield from with_entry("nan", x, np.nan, "nan")


def mapping(kind: Kind) -> Kind:
    """Return the kind of a mapping from names to values: another type, a name less, or a value spoilt."""

    def of_mapping(x: Any) -> Iterator[Bad]:
        for value in (None, 3, "text", tuple(x)):
            yield of_type(value)
        *others, last = x
        yield Bad("none", {}, ("got 0", "[]"))
        yield Bad("one less", {name: x[name] for name in others}, (str(others),), either=True)
        for bad in kind(x[last]):
            yield Bad(f"one: {bad.how}", {**x, last: bad.value}, bad.came, bad.either)

    return of_mapping
