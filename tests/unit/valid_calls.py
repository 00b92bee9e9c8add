"""A valid call of every public function of the reference, and what all valid calls share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from attngrad import offsets, reference

from .malformed import LARGE, POSITIVE, Kind, each, flag, floats, integers, masks, number, size, thing, word

B, H, H_KV, N, M, D, D_V, R = 2, 4, 2, 3, 5, 6, 7, 4
RNG = np.random.default_rng(0)
Harmless = dict[tuple[str, str], str]

IN_FRONT = ("axis more", "axis less", "short in front", "empty in front")
AT_END = ("short", "long", "empty")
ANY_SHAPE = (*IN_FRONT, *AT_END, "transposed")
OPTIONAL = "None is the default"
BROADCAST = "it is broadcast"
HIDES = "a logit of -inf hides its key, and a sink of -inf takes no weight"
ANY_ROWS = "any number of rows, of any length"
SUMMED = "all axes before the heads are summed over"
FREE_SIZE = "nothing else fixes this size"


@dataclass(frozen=True)
class Call:
    """A function, arguments that are valid, and the kind of each.

    ``harmless`` names spoilt values, by argument and how, that are valid all the same, with the reason;
    ``says`` holds another word that tells what came; ``told`` is what errors call an argument where not by
    its name; ``free`` names parameters that are not spoilt, with the reason.
    """

    function: Callable[..., Any]
    arguments: Mapping[str, Any]
    kinds: Mapping[str, Kind]
    harmless: Mapping[tuple[str, str], str] = field(default_factory=dict)
    says: Mapping[tuple[str, str], str] = field(default_factory=dict)
    told: Mapping[str, str] = field(default_factory=dict)
    free: Mapping[str, str] = field(default_factory=dict)


def draw(*shape: int) -> np.ndarray:
    """Return random numbers."""
    return np.asarray(RNG.standard_normal(shape))


def fine(reason: str, **of: tuple[str, ...]) -> Harmless:
    """Return what is harmless for one reason: the ways in which each argument may be spoilt."""
    return {(argument, how): reason for argument, hows in of.items() for how in hows}


def default(*arguments: str) -> Harmless:
    """Return that None is harmless for arguments that are optional."""
    return {(name, "NoneType"): OPTIONAL for name in arguments}


S, P, DP = draw(N, M), reference.softmax(draw(N, M)), draw(N, M)
ALL, LABELS = np.ones((N, M), dtype=bool), RNG.integers(1, M - 1, size=N)
LOGITS = default("mask") | fine(HIDES, s=("-inf",)) | fine("the mask is broadcast", s=("axis more",))


def of_logits(function: Callable[..., Any], **more: Any) -> Call:
    """Return a call of a function of logits, a mask and perhaps a temperature."""
    kinds = {"s": floats, "mask": masks, **dict.fromkeys(more, POSITIVE)}
    return Call(function, {"s": S, "mask": ALL, **more}, kinds, harmless=LOGITS)


def of_rows(function: Callable[..., Any]) -> Call:
    """Return a call of a function of weights alone."""
    return Call(function, {"p": P}, {"p": floats}, harmless=fine(ANY_ROWS, p=ANY_SHAPE))


def of_pair(function: Callable[..., Any], other: str, **mask: Any) -> Call:
    """Return a call of a function of weights, a cotangent or tangent, and perhaps a mask."""
    kinds = {"p": floats, other: floats, **dict.fromkeys(mask, masks)}
    return Call(function, {"p": P, other: DP, **mask}, kinds, harmless=default(*mask))


def of_targets(function: Callable[..., Any], y: Any, **others: Any) -> Call:
    """Return a call of a function of targets, which are weights or labels, and of other floats."""
    labels, of_loss = y.ndim == 1, "s" in others
    kinds = {"mask": masks, **dict.fromkeys(others, floats), "y": integers(0, M - 1) if labels else floats}
    says = {("y", "float64"): "as for s"} if labels else {("y", "int64"): "y (labels)"}
    if labels and not of_loss:
        says |= {("p", "short"): "from 0 to 3", ("p", "empty"): "no label"}
    harmless = default("mask")
    if of_loss and labels:
        harmless |= fine("no label rests on the hidden key", s=("-inf",))
    elif of_loss:
        says[("s", "-inf")] = "logits of -inf"
    arguments = {"y": y, "mask": ALL, **others}
    return Call(function, arguments, kinds, harmless, says, {"s": "s|logits of -inf"} if of_loss else {})


QKV = {"q": draw(B, H, N, D), "k": draw(B, H_KV, M, D), "v": draw(B, H_KV, M, D_V)}
OPTIONS = {
    "bias": draw(B, H, N, M), "scale": 0.6, "bias_inside_scale": True, "softcap": 1.5, "softcap_on": "scores",
    "mask": np.ones((B, H, N, M), dtype=bool), "causal": True, "query_start": 2, "sink": draw(H),
    "keep": RNG.random((B, H, N, M)) < 0.7, "dropout": 0.3,
}  # fmt: skip
OPTION_KINDS = {
    "bias": floats, "scale": number(), "bias_inside_scale": flag, "softcap": POSITIVE, "softcap_on": word,
    "mask": masks, "causal": flag, "query_start": LARGE, "sink": floats, "keep": masks, "dropout": number(),
}  # fmt: skip
OPTION_FREE = (
    default("bias", "scale", "softcap", "mask", "query_start", "sink")
    | fine(HIDES, bias=("-inf",), sink=("-inf",))
    | fine(BROADCAST, bias=("axis less", "short in front"))
    | fine(FREE_SIZE, v=AT_END)
)
SAVED = reference.attention(**QKV, **OPTIONS)
ONE, OTHER = (reference.attention_block(draw(B, N, M), draw(B, M, D_V)) for _ in range(2))
BLOCKS = {"q": draw(B, N, D), "k": draw(B, M, D), "v": draw(B, M, D_V), "bias": draw(B, N, M)}
BLOCK_OPTIONS = {"columns": 2, "scale": 0.6}
OF_BLOCKS = dict.fromkeys(BLOCKS, floats) | {"columns": size(least=1), "scale": number()}
BLOCKS_FREE = default("bias", "scale") | fine(HIDES, bias=("-inf",))
ROW, OFFSET = RNG.integers(1, R - 1, size=(N, M)), offsets.relative_offset(N, M)
DBIAS, TABLE = draw(B, H, N, M), draw(H, R)
INTO_TABLE, OF_AXIS = integers(0, R - 1), "tables?|rows?|bias of an axis"

REFERENCE = {
    "softmax": of_logits(reference.softmax),
    "lse": of_logits(reference.lse),
    "log_softmax": of_logits(reference.log_softmax),
    "softmax_temperature": of_logits(reference.softmax_temperature, tau=0.7),
    "softmax_jacobian": of_rows(reference.softmax_jacobian),
    "softmax_hessian": of_rows(reference.softmax_hessian),
    "softmax_vjp": of_pair(reference.softmax_vjp, "dp"),
    "softmax_jvp": of_pair(reference.softmax_jvp, "ts"),
    "log_softmax_vjp": of_pair(reference.log_softmax_vjp, "dlogp", mask=ALL),
    "log_softmax_jvp": of_pair(reference.log_softmax_jvp, "ts", mask=ALL),
    "softmax_temperature_vjp": Call(
        reference.softmax_temperature_vjp,
        {"p": P, "s": S, "tau": 0.7, "dp": DP},
        {"p": floats, "s": floats, "tau": POSITIVE, "dp": floats},
    ),
    "softmax_temperature_jvp": Call(
        reference.softmax_temperature_jvp,
        {"p": P, "s": S, "tau": 0.7, "ts": DP, "ttau": 0.3},
        {"p": floats, "s": floats, "tau": POSITIVE, "ts": floats, "ttau": number()},
    ),
    "cross_entropy": of_targets(reference.cross_entropy, P, s=S),
    "cross_entropy, labels": of_targets(reference.cross_entropy, LABELS, s=S),
    "cross_entropy_vjp": of_targets(reference.cross_entropy_vjp, P, p=P, dloss=draw(N)),
    "cross_entropy_vjp, labels": of_targets(reference.cross_entropy_vjp, LABELS, p=P, dloss=draw(N)),
    "expand_kv_heads": Call(
        reference.expand_kv_heads,
        {"x": QKV["k"], "H": H},
        {"x": floats, "H": size(least=1)},
        fine(FREE_SIZE, x=ANY_SHAPE),
    ),
    "reduce_kv_heads": Call(
        reference.reduce_kv_heads,
        {"dx": QKV["q"], "H_kv": H_KV},
        {"dx": floats, "H_kv": size(least=1)},
        fine(FREE_SIZE, dx=ANY_SHAPE),
    ),
    "attention": Call(
        reference.attention, QKV | OPTIONS, dict.fromkeys(QKV, floats) | OPTION_KINDS, OPTION_FREE
    ),
    "attention_vjp": Call(
        reference.attention_vjp,
        {"saved": SAVED, "do": draw(B, H, N, D_V), "dlse": draw(B, H, N)},
        {"saved": thing, "do": floats, "dlse": floats},
        default("dlse"),
    ),
    "attention_block": Call(
        reference.attention_block,
        {"s": draw(B, N, M), "v": draw(B, M, D_V)},
        {"s": floats, "v": floats},
        fine(HIDES, s=("-inf",)) | fine(FREE_SIZE, v=AT_END),
    ),
    "merge_states": Call(
        reference.merge_states, {"one": ONE, "other": OTHER}, dict.fromkeys(("one", "other"), thing)
    ),
    "merge_states_vjp": Call(
        reference.merge_states_vjp,
        {"one": ONE, "other": OTHER, "do": draw(B, N, D_V), "dlse": draw(B, N)},
        {"one": thing, "other": thing, "do": floats, "dlse": floats},
    ),
    "attention_in_blocks": Call(
        reference.attention_in_blocks,
        BLOCKS | BLOCK_OPTIONS,
        OF_BLOCKS,
        BLOCKS_FREE | fine(FREE_SIZE, v=AT_END),
    ),
    "attention_in_blocks_vjp": Call(
        reference.attention_in_blocks_vjp,
        BLOCKS | BLOCK_OPTIONS | {"state": ONE, "do": draw(B, N, D_V), "dlse": draw(B, N)},
        OF_BLOCKS | {"state": thing, "do": floats, "dlse": floats},
        BLOCKS_FREE | default("dlse"),
    ),
    "table_bias": Call(
        reference.table_bias,
        {"table": TABLE, "row": ROW},
        {"table": floats, "row": INTO_TABLE},
        fine(FREE_SIZE, table=("axis less", "short", "long", "short in front", "empty in front"))
        | fine(FREE_SIZE, row=(*AT_END, "short in front", "empty in front", "transposed")),
        {("table", "empty"): "since the table has none"},
    ),
    "table_bias_vjp": Call(
        reference.table_bias_vjp,
        {"row": ROW, "dbias": DBIAS, "R": R},
        {"row": INTO_TABLE, "dbias": floats, "R": size(least=0)},
        fine(SUMMED, dbias=IN_FRONT),
    ),
    "decomposed_bias": Call(
        reference.decomposed_bias,
        {"tables": (TABLE, TABLE), "rows": (ROW, ROW)},
        {"tables": each(floats), "rows": each(INTO_TABLE)},
        fine(FREE_SIZE, tables=("one: short", "one: long")),
        {("tables", "one: empty"): "since the table has none"},
        {"tables": OF_AXIS, "rows": OF_AXIS},
    ),
    "decomposed_bias_vjp": Call(
        reference.decomposed_bias_vjp,
        {"rows": (ROW, ROW), "dbias": DBIAS, "sizes": (R, R)},
        {"rows": each(INTO_TABLE), "dbias": floats, "sizes": each(size(least=0))},
        fine(SUMMED, dbias=IN_FRONT),
        told={"rows": OF_AXIS, "sizes": "sizes|R"},
    ),
    "alibi_bias": Call(
        reference.alibi_bias,
        {"slopes": draw(H), "offset": OFFSET, "signed": True},
        {"slopes": floats, "offset": integers(), "signed": flag},
        fine(FREE_SIZE, slopes=AT_END)
        | fine(FREE_SIZE, offset=(*AT_END, "short in front", "empty in front", "transposed")),
    ),
    "alibi_bias_vjp": Call(
        reference.alibi_bias_vjp,
        {"offset": OFFSET, "dbias": DBIAS, "signed": True},
        {"offset": integers(), "dbias": floats, "signed": flag},
        fine(SUMMED, dbias=IN_FRONT),
    ),
    "offset_sums": Call(
        reference.offset_sums,
        {"dbias": DBIAS, "query_start": 2},
        {"dbias": floats, "query_start": LARGE},
        default("query_start") | fine(FREE_SIZE, dbias=ANY_SHAPE),
    ),
}
