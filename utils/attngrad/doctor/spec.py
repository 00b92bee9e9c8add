"""What an implementation of attention claims to do: the one thing that its owner writes down."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from attngrad.notation import DtypeError, RangeError, boolean, finite_number, integer
from attngrad.offsets import AlibiMap, BeitMap, ClipMap, OffsetMap, T5Map, WindowMap

DTYPES = ("float64", "float32", "float16", "bfloat16")
OPTIONS = {
    "cross": "as many keys as wanted: N != M",
    "values": "values with another number of features than keys: D_v != D",
    "shared-table": "one table (1, R) for all heads",
    "gqa": "fewer heads of keys and values than of queries",
    "mask": "a boolean mask, True where a query may attend",
    "empty-rows": "queries without a key: output 0, gradient 0",
    "hidden": "a bias of -inf, which hides a key",
    "lowest": "a bias with the lowest finite number of its type in the place of -inf",
    "dropout": "dropout by a given mask of kept weights",
    "lse": "lse is returned",
    "dlse": "a cotangent of lse",
    "softcap": "a soft-cap on the scores, bias included",
    "softcap-product": "a soft-cap on scale q.k alone",
    "sink": "a logit for each head that takes weight and has no value",
    "dscale": "the gradient of the scale",
    "query-start": "a position of the first query under causal masking",
    "packed": "sequences packed into one, by their lengths",
    "strides": "inputs and cotangents that are not contiguous, or of stride 0",
}
BIASES = ("bhnm", "1hnm", "b1nm", "11nm", "bh1m", "b11m", "hnm", "nm")
MAPS = {kind.__name__: kind for kind in (OffsetMap, ClipMap, T5Map, WindowMap, BeitMap, AlibiMap)}
t5, offset, clip, window, alibi = T5Map, OffsetMap, ClipMap, WindowMap, AlibiMap

Map = Callable[[int, int, int | None], Any]


def _one_of(name: str, value: Any, allowed: tuple) -> None:
    """Require one of some words."""
    if value not in allowed:
        raise RangeError(f"{name}: expected one of {', '.join(map(repr, allowed))}, got {value!r}")


def _words(name: str, values: Any, allowed: tuple) -> tuple[str, ...]:
    """Return a sequence of words as a tuple, refusing one that is unknown."""
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise DtypeError(f"{name}: expected a sequence of words, got {type(values).__name__} {values!r}")
    values = tuple(values)
    for value in values:
        _one_of(name, value, allowed)
    return values


@dataclass(frozen=True)
class Spec:
    """What an implementation claims to do. What it does not claim is not tried, and the report says so.

    - ``framework``: "torch" or "numpy", the arrays that it is handed; ``device``: where torch has them.
    - ``dtypes``: of q, k, v; ``head_dims``: the D that it can do, None for any; ``length_multiple``: of what
      N and M must be multiples; ``layout``: the axes of q, k, v and o, "bhnd" or "bnhd".
    - ``map``: of a bias by positions, `t5`, `offset`, `clip`, `window`, `alibi` or any callable
      (N, M, query_start) -> rows (N, M), then with ``map_rows`` rows; ``table``: its axes, "hr" or "rh".
      Of ALiBi the table is the slopes (H,).
    - ``bias``: shapes of a dense bias that it takes, such as "1hnm"; ``bias_dtype``: "same" as q, or a type
      in which a bias or table comes whatever q is; ``bias_inside_scale``: scale (q.k + bias).
    - ``causal``: "never", "always" or "both"; ``alignment``: where query 0 stands if N != M, "bottom-right"
      (position M - N) or "top-left" (position 0).
    - ``scale``: "argument" if it takes any, "default" for 1/sqrt(D), or a number that is built in.
    - ``options``: words of `OPTIONS`. ``deterministic``: it promises equal bits at each run.

    Raises: DtypeError or RangeError that names the field, what was expected and what came.

    >>> Spec(map=t5(32, 128), causal="both").options
    ('cross', 'strides')
    """

    framework: str = "torch"
    device: str = "cpu"
    dtypes: tuple[str, ...] = ("float32",)
    head_dims: tuple[int, ...] | None = None
    length_multiple: int = 1
    layout: str = "bhnd"
    map: Map | None = None
    map_rows: int | None = None
    table: str = "hr"
    bias: tuple[str, ...] = ()
    bias_dtype: str = "same"
    bias_inside_scale: bool = False
    causal: str = "never"
    alignment: str = "bottom-right"
    scale: str | float = "argument"
    options: tuple[str, ...] = ("cross", "strides")
    deterministic: bool = False

    def __post_init__(self) -> None:
        """Check every field."""
        keep = object.__setattr__
        _one_of("framework", self.framework, ("torch", "numpy"))
        if not isinstance(self.device, str):
            raise DtypeError(f"device: expected a name such as 'cpu' or 'cuda', got {self.device!r}")
        keep(self, "dtypes", _words("dtypes", self.dtypes, DTYPES))
        if not self.dtypes:
            raise RangeError("dtypes: expected at least one, got none")
        if self.head_dims is not None:
            keep(self, "head_dims", tuple(integer("head_dims", D, least=1) for D in self.head_dims))
            if not self.head_dims:
                raise RangeError("head_dims: expected at least one, or None for any, got none")
        integer("length_multiple", self.length_multiple, least=1)
        _one_of("layout", self.layout, ("bhnd", "bnhd"))
        _one_of("table", self.table, ("hr", "rh"))
        keep(self, "bias", _words("bias", self.bias, BIASES))
        _one_of("bias_dtype", self.bias_dtype, ("same", *DTYPES))
        boolean("bias_inside_scale", self.bias_inside_scale)
        _one_of("causal", self.causal, ("never", "always", "both"))
        _one_of("alignment", self.alignment, ("bottom-right", "top-left"))
        if isinstance(self.scale, str):
            _one_of("scale", self.scale, ("argument", "default"))
        else:
            keep(self, "scale", finite_number("scale", self.scale))
        keep(self, "options", _words("options", self.options, tuple(OPTIONS)))
        boolean("deterministic", self.deterministic)
        self._check_map()

    def _check_map(self) -> None:
        """Require a map with a number of rows, and no dense bias beside it."""
        known = isinstance(self.map, tuple(MAPS.values()))
        if self.map is not None and not callable(self.map) and not known:
            told = "t5(...), offset(...), clip(...), window(...), alibi(...) or a callable"
            raise DtypeError(f"map: expected {told}, got {type(self.map).__name__}")
        if self.map is not None and self.bias:
            raise RangeError(f"bias: expected none beside a map, got {self.bias}")
        if self.map is None or known:
            if self.map_rows is not None:
                raise RangeError(f"map_rows: expected None unless the map is a callable, got {self.map_rows}")
        else:
            integer("map_rows", self.map_rows, least=1)

    @property
    def R(self) -> int | None:
        """Return the rows of the table; None without a table."""
        return getattr(self.map, "R", None) if self.map_rows is None else self.map_rows

    def has(self, option: str) -> bool:
        """Say whether an option is claimed."""
        return option in self.options

    def to_json(self) -> str:
        """Return the specification as text; a map of the owner's own is told by its number of rows."""
        told = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "map"}
        if self.map is not None:
            kind = type(self.map).__name__
            arguments = asdict(self.map) if kind in MAPS else {}
            told["map"] = {"kind": kind if kind in MAPS else "callable", **arguments}
        return json.dumps(told, default=int)

    @classmethod
    def from_json(cls, text: str, map: Map | None = None) -> "Spec":
        """Return the specification that a text tells; ``map`` stands in for a callable, which no text holds.

        Raises: RangeError for a text that tells none, or names no field; else as `Spec`.
        """
        try:
            told = dict(json.loads(text))
        except (TypeError, ValueError) as error:
            raise RangeError(f"spec: expected the text that Spec.to_json gives, got {text!r:.80}") from error
        known = [field.name for field in fields(cls)]
        for name in told:
            _one_of("spec", name, tuple(known))
        told = {name: tuple(x) if isinstance(x, list) else x for name, x in told.items()}
        return cls(**{**told, "map": _read_map(told.get("map"), map)})


def _read_map(told: Any, own: Map | None) -> Map | None:
    """Return the map that a text tells, or one in the place of a callable."""
    if told is None:
        return None
    kind = dict(told) if isinstance(told, dict) else {"kind": told}
    name = kind.pop("kind", None)
    _one_of("map", name, (*MAPS, "callable"))
    if name == "callable":
        return own or no_rows
    try:
        return WindowMap(*kind["sizes"]) if name == "WindowMap" else MAPS[name](**kind)
    except (KeyError, TypeError) as error:
        raise RangeError(f"map: expected the arguments of {name}, got {kind}") from error


def no_rows(N: int, M: int, query_start: int | None) -> np.ndarray:
    """Refuse to say rows: a map of the owner's own lives with the implementation.

    Raises: RangeError always.
    """
    raise RangeError("map: expected rows from the map of the implementation, which is not loaded here")
