"""`attngrad.layers` as implementations."""

from typing import Any

from attngrad.doctor.adapters.claiming import claims
from attngrad.doctor.spec import BIASES, DTYPES, OPTIONS, alibi, t5
from attngrad.offsets import AlibiMap, packed_offset

ALL = {"dtypes": DTYPES, "causal": "both", "deterministic": True}
BY_TABLE = tuple(option for option in OPTIONS if option not in ("hidden", "lowest"))
TABLE = t5(32, 128)


def _attention(q: Any, k: Any, v: Any, bias: Any, lengths: Any, mask: Any, options: dict[str, Any]) -> Any:
    """Return `attngrad.layers.attention`; packed sequences are a mask there."""
    import torch

    from attngrad import layers

    if lengths is not None:
        same = torch.as_tensor(packed_offset(lengths)[1], device=q.device)
        mask = same if mask is None else mask & same
    if not options["causal"]:
        options["query_start"] = None
    return layers.attention(q, k, v, bias, mask=mask, return_lse=True, **options)


@claims(**ALL, bias=BIASES, options=tuple(OPTIONS))
def layers_attention(
    q, k, v, bias=None, *, mask=None, lengths=None, causal=False, query_start=None, scale=None, softcap=None,
    softcap_on="scores", bias_inside_scale=False, sink=None, keep=None, dropout=0.0, return_lse=True,
):  # fmt: skip
    """Return `attngrad.layers.attention` with a dense bias."""
    options = {"causal": causal, "query_start": query_start, "scale": scale, "softcap": softcap, "sink": sink,
               "softcap_on": softcap_on, "bias_inside_scale": bias_inside_scale, "keep": keep,
               "dropout": dropout}  # fmt: skip
    return _attention(q, k, v, bias, lengths, mask, options)


def _relative(map: Any, name: str, table: Any, sizes: tuple[int, int, int | None], lengths: Any) -> Any:
    """Return the bias of `attngrad.layers.RelativeBias` with a given table or given slopes."""
    import torch

    from attngrad import layers

    shared = layers.RelativeBias(table.shape[0], map, dtype=table.dtype, device=table.device)
    if lengths is None:
        return torch.func.functional_call(shared, {name: table}, sizes)
    offset, held = packed_offset(lengths)[0], torch.nn.Module()
    held.shared, held.forward = shared, shared.at
    return torch.func.functional_call(held, {f"shared.{name}": table}, (offset,))


@claims(**ALL, map=TABLE, options=BY_TABLE)
def layers_table(
    q, k, v, table, *, mask=None, lengths=None, causal=False, query_start=None, scale=None, softcap=None,
    softcap_on="scores", sink=None, keep=None, dropout=0.0, return_lse=True,
):  # fmt: skip
    """Return `attngrad.layers.attention` with the bias of `attngrad.layers.RelativeBias`."""
    bias = _relative(TABLE, "table", table, (q.shape[2], k.shape[2], query_start), lengths)
    options = {"causal": causal, "query_start": query_start, "scale": scale, "softcap": softcap, "sink": sink,
               "softcap_on": softcap_on, "keep": keep, "dropout": dropout}  # fmt: skip
    return _attention(q, k, v, bias, lengths, mask, options)


@claims(**ALL, map=alibi(4, learned=True), options=BY_TABLE)
def layers_alibi(
    q, k, v, slopes, *, mask=None, lengths=None, causal=False, query_start=None, scale=None, softcap=None,
    softcap_on="scores", sink=None, keep=None, dropout=0.0, return_lse=True,
):  # fmt: skip
    """Return `attngrad.layers.attention` with learned slopes of ALiBi."""
    map = AlibiMap(slopes.shape[0], learned=True)
    bias = _relative(map, "slopes", slopes, (q.shape[2], k.shape[2], query_start), lengths)
    options = {"causal": causal, "query_start": query_start, "scale": scale, "softcap": softcap, "sink": sink,
               "softcap_on": softcap_on, "keep": keep, "dropout": dropout}  # fmt: skip
    return _attention(q, k, v, bias, lengths, mask, options)


def _by_module(table: Any, call: Any) -> Any:
    """Return ``call``(bias) for the module `attngrad.layers.RelativeBias` with a given table in it."""
    import torch

    from attngrad import layers

    held = torch.nn.Module()
    held.shared = layers.RelativeBias(table.shape[0], TABLE, dtype=table.dtype, device=table.device)
    held.forward = lambda: call(held.shared)
    return torch.func.functional_call(held, {"shared.table": table}, ())


@claims(**ALL, map=TABLE, options=tuple(option for option in BY_TABLE if option != "packed"))
def layers_tiled(
    q, k, v, table, *, mask=None, causal=False, query_start=None, scale=None, softcap=None,
    softcap_on="scores", sink=None, keep=None, dropout=0.0, return_lse=True,
):  # fmt: skip
    """Return `attngrad.layers.attention` with impl="tiled" and the module of a table."""
    from attngrad import layers

    options = {"mask": mask, "causal": causal, "query_start": query_start if causal else None, "scale": scale,
               "softcap": softcap, "softcap_on": softcap_on, "sink": sink, "keep": keep,
               "dropout": dropout}  # fmt: skip
    return _by_module(
        table, lambda bias: layers.attention(q, k, v, bias, impl="tiled", return_lse=True, **options)
    )


@claims(**ALL, bias=BIASES, options=tuple(option for option in OPTIONS if option != "packed"))
def layers_tiled_bias(
    q, k, v, bias=None, *, mask=None, causal=False, query_start=None, scale=None, softcap=None,
    softcap_on="scores", bias_inside_scale=False, sink=None, keep=None, dropout=0.0, return_lse=True,
):  # fmt: skip
    """Return `attngrad.layers.attention` with impl="tiled" and a dense bias."""
    from attngrad import layers

    options = {"mask": mask, "causal": causal, "query_start": query_start if causal else None, "scale": scale,
               "softcap": softcap, "softcap_on": softcap_on, "bias_inside_scale": bias_inside_scale,
               "sink": sink, "keep": keep, "dropout": dropout}  # fmt: skip
    return layers.attention(q, k, v, bias, impl="tiled", return_lse=True, **options)


@claims(
    dtypes=("float32", "float16", "bfloat16"), causal="both", deterministic=True, map=TABLE,
    options=("cross", "strides", "values", "shared-table", "gqa", "mask", "empty-rows", "lse", "dlse",
             "dscale", "query-start"),
)  # fmt: skip
def layers_triton(q, k, v, table, *, mask=None, causal=False, query_start=None, scale=None, return_lse=True):
    """Return `attngrad.layers.attention` with impl="triton" and the module of a table."""
    from attngrad import layers

    start = query_start if causal else None
    options = {"mask": mask, "causal": causal, "query_start": start, "scale": scale}
    return _by_module(
        table, lambda bias: layers.attention(q, k, v, bias, impl="triton", return_lse=True, **options)
    )
