"""What the parameters of a callable are for, by their names; what is ambiguous is not guessed."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any

NAMES = {
    "q": ("q", "query", "queries", "xq", "query_states"),
    "k": ("k", "key", "keys", "xk", "key_states"),
    "v": ("v", "value", "values", "xv", "value_states"),
    "bias": (
        "bias", "attn_bias", "attention_bias", "position_bias", "rel_bias", "rel_pos_bias", "pair_bias",
        "relative_bias", "relative_position_bias", "score_bias",
    ),
    "table": (
        "table", "bias_table", "rel_table", "rpb", "rpb_table", "rel_pos_table", "weight", "slopes",
        "relative_position_bias_table", "relative_attention_bias", "alibi_slopes",
    ),
    "row": ("row", "rows", "buckets", "relative_position_index", "rel_pos_index"),
    "attn_mask": ("attn_mask",),
    "mask": ("mask", "keep_if", "allowed"),
    "keep": ("keep", "keep_mask", "dropout_mask"),
    "dropout": ("dropout", "dropout_p", "p_dropout", "dropout_rate"),
    "causal": ("causal", "is_causal"),
    "query_start": ("query_start", "q_start"),
    "scale": ("scale", "sm_scale", "softmax_scale", "scaling", "qk_scale"),
    "softcap": ("softcap", "soft_cap", "logits_soft_cap", "logit_cap"),
    "softcap_on": ("softcap_on",),
    "bias_inside_scale": ("bias_inside_scale",),
    "sink": ("sink", "sinks", "s_aux", "attn_sink", "attention_sink"),
    "lengths": ("lengths", "seqlens", "seq_lens"),
    "return_lse": ("return_lse",),
    "enable_gqa": ("enable_gqa",),
}  # fmt: skip
ROLES = {name: role for role, names in NAMES.items() for name in names}
BIASES = ("bhnm", "1hnm", "b1nm", "11nm")


def roles_of(function: Callable, leave: int = 0) -> tuple[dict[str, inspect.Parameter], tuple[str, ...]]:
    """Return the parameters of a callable by their roles, and the names with a default that have none.

    ``leave`` parameters in front are not looked at.

    Raises: ValueError where there is no signature, q, k or v is missing, two parameters have one role, or a
    parameter without a default has none.
    """
    name = getattr(function, "__qualname__", type(function).__qualname__)
    try:
        parameters = list(inspect.signature(function).parameters.values())[leave:]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: it has no signature; wrap it in a function of q, k, v") from error
    found: dict[str, inspect.Parameter] = {}
    unknown, left = [], []
    for parameter in parameters:
        role = ROLES.get(parameter.name.lower())
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if role is None:
            (unknown if parameter.default is parameter.empty else left).append(parameter.name)
        elif role in found:
            both = f"{found[role].name} and {parameter.name}"
            raise ValueError(f"{name}: expected one parameter that is a {role}, got {both}")
        else:
            found[role] = parameter
    missing = [role for role in "qkv" if role not in found]
    if unknown or missing:
        told = f"no {', '.join(missing)} found"
        if unknown:
            told = f"{', '.join(unknown)} has no default and no known meaning"
        raise ValueError(f"{name}: {told}; known names are {', '.join(ROLES)}")
    return found, tuple(left)


def claims_of(roles: Iterable[str]) -> dict[str, Any]:
    """Return the specification that parameters tell, as the text of a specification holds it.

    The map of a table is not among it: a signature does not say the row of a pair.
    """
    roles = set(roles)
    options = ["cross", "strides"]
    options += ["mask"] if roles & {"mask", "attn_mask"} else []
    options += ["dropout"] if {"keep", "dropout"} <= roles else []
    options += ["lse", "dlse"] if "return_lse" in roles else []
    options += ["gqa"] if "enable_gqa" in roles else []
    options += ["packed"] if "lengths" in roles else []
    options += ["query-start"] if {"query_start", "causal"} <= roles else []
    options += [role for role in ("sink", "softcap") if role in roles]
    return {
        "framework": "torch",
        "dtypes": ["float32"],
        "bias": list(BIASES) if roles & {"bias", "attn_mask"} else [],
        "causal": "both" if "causal" in roles else "never",
        "scale": "argument" if "scale" in roles else "default",
        "options": options,
    }
