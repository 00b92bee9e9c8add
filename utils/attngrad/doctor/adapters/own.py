"""`attngrad.layers` as implementations."""

import inspect
from collections.abc import Callable
from typing import Any

from attngrad.doctor.adapters.claiming import claims
from attngrad.doctor.spec import BIASES, DTYPES, OPTIONS, alibi, t5
from attngrad.offsets import AlibiMap, packed_offset

ALL = {"dtypes": DTYPES, "causal": "both", "deterministic": True}
BY_TABLE = tuple(option for option in OPTIONS if option not in ("hidden", "lowest"))
BY_KERNELS = (
    "cross", "strides", "values", "shared-table", "gqa", "mask", "empty-rows", "lse", "dlse", "dscale",
    "query-start",
)  # fmt: skip
TABLE = t5(32, 128)
DEFAULTS = {
    "mask": None, "lengths": None, "causal": False, "query_start": None, "scale": None, "softcap": None,
    "softcap_on": "scores", "bias_inside_scale": False, "sink": None, "keep": None, "dropout": 0.0,
    "return_lse": True,
}  # fmt: skip
OF_DENSE = ("bias_inside_scale",)  # an option of a dense bias alone
NOT_IN_KERNELS = ("softcap", "softcap_on", "sink", "keep", "dropout")


def taking_options(*but: str) -> Callable[[Callable], Callable]:
    """Return a decorator that names the options of attention, but for some, in a signature with **options."""
    kind = inspect.Parameter.KEYWORD_ONLY
    named = [inspect.Parameter(name, kind, default=x) for name, x in DEFAULTS.items() if name not in but]

    def told(function: Callable) -> Callable:
        """Name them."""
        given = inspect.signature(function)
        front = [one for one in given.parameters.values() if one.kind is not one.VAR_KEYWORD]
        function.__signature__ = given.replace(parameters=[*front, *named])
        return function

    return told


def _attention(q: Any, k: Any, v: Any, bias: Any, **options: Any) -> Any:
    """Return `attngrad.layers.attention` and lse; packed sequences are a mask there."""
    import torch

    from attngrad import layers

    lengths = options.pop("lengths", None)
    if lengths is not None:
        same, mask = torch.as_tensor(packed_offset(lengths)[1], device=q.device), options.get("mask")
        options["mask"] = same if mask is None else mask & same
    if not options.get("causal"):
        options["query_start"] = None
    return layers.attention(q, k, v, bias, **{**options, "return_lse": True})


@claims(**ALL, bias=BIASES, options=tuple(OPTIONS))
@taking_options()
def layers_attention(q, k, v, bias=None, **options):
    """Return `attngrad.layers.attention` with a dense bias."""
    return _attention(q, k, v, bias, **options)


def _relative(map: Any, name: str, source: Any, q: Any, k: Any, options: dict[str, Any]) -> Any:
    """Return the bias of `attngrad.layers.RelativeBias` with a given table or given slopes."""
    import torch

    from attngrad import layers

    shared = layers.RelativeBias(source.shape[0], map, dtype=source.dtype, device=source.device)
    lengths = options.get("lengths")
    if lengths is None:
        sizes = q.shape[2], k.shape[2], options.get("query_start")
        return torch.func.functional_call(shared, {name: source}, sizes)
    offset, held = packed_offset(lengths)[0], torch.nn.Module()
    held.shared, held.forward = shared, shared.at
    return torch.func.functional_call(held, {f"shared.{name}": source}, (offset,))


@claims(**ALL, map=TABLE, options=BY_TABLE)
@taking_options(*OF_DENSE)
def layers_table(q, k, v, table, **options):
    """Return `attngrad.layers.attention` with the bias of `attngrad.layers.RelativeBias`."""
    return _attention(q, k, v, _relative(TABLE, "table", table, q, k, options), **options)


@claims(**ALL, map=alibi(4, learned=True), options=BY_TABLE)
@taking_options(*OF_DENSE)
def layers_alibi(q, k, v, slopes, **options):
    """Return `attngrad.layers.attention` with learned slopes of ALiBi."""
    map = AlibiMap(slopes.shape[0], learned=True)
    return _attention(q, k, v, _relative(map, "slopes", slopes, q, k, options), **options)


def _by_module(q: Any, k: Any, v: Any, table: Any, **options: Any) -> Any:
    """Return `attngrad.layers.attention` with the module `RelativeBias` itself, a given table in it."""
    import torch

    from attngrad import layers

    held = torch.nn.Module()
    held.shared = layers.RelativeBias(table.shape[0], TABLE, dtype=table.dtype, device=table.device)
    held.forward = lambda: _attention(q, k, v, held.shared, **options)
    return torch.func.functional_call(held, {"shared.table": table}, ())


@claims(**ALL, map=TABLE, options=tuple(option for option in BY_TABLE if option != "packed"))
@taking_options("lengths", *OF_DENSE)
def layers_tiled(q, k, v, table, **options):
    """Return `attngrad.layers.attention` with impl="tiled" and the module of a table."""
    return _by_module(q, k, v, table, impl="tiled", **options)


@claims(**ALL, bias=BIASES, options=tuple(option for option in OPTIONS if option != "packed"))
@taking_options("lengths")
def layers_tiled_bias(q, k, v, bias=None, **options):
    """Return `attngrad.layers.attention` with impl="tiled" and a dense bias."""
    return _attention(q, k, v, bias, impl="tiled", **options)


@claims(**{**ALL, "dtypes": ("float32", "float16", "bfloat16")}, map=TABLE, options=BY_KERNELS)
@taking_options("lengths", *OF_DENSE, *NOT_IN_KERNELS)
def layers_triton(q, k, v, table, **options):
    """Return `attngrad.layers.attention` with impl="triton" and the module of a table."""
    return _by_module(q, k, v, table, impl="triton", **options)
