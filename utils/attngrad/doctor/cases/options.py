"""Recipes of options: each claim of a specification acts on a case of its own."""

from dataclasses import replace

from attngrad.doctor.cases.frame import Frame
from attngrad.doctor.cases.recipe import Recipe
from attngrad.doctor.cases.shapes import recipe
from attngrad.offsets import T5Map

N, M = 21, 133
SIMPLE = {
    "mask": ("mask", "a mask that hides some keys from each query"),
    "empty-rows": ("empty-rows", "queries without a key: output 0 and no gradient"),
    "dropout": ("dropout", "weights dropped by a given mask"),
    "dlse": ("dlse", "a cotangent of lse, which enters every score"),
    "softcap": ("softcap", "a soft-cap on the scores, near which its derivative is small"),
    "softcap-product": ("softcap-product", "a soft-cap on the product alone, the bias behind it"),
    "sink": ("sink", "a sink, which takes weight and has no value"),
}


def simple(frame: Frame) -> list[Recipe]:
    """Return a case for each option that only has to be switched on."""
    found = []
    for option, (word, why) in SIMPLE.items():
        if frame.spec.has(option):
            spread = 2.4 if word.startswith("softcap") else 1.3
            found.append(recipe(frame, option, why, N=N, M=M, acts=(word,), spread=spread))
    if frame.spec.has("dscale"):
        why = "values like keys and cotangents like queries: the terms of dscale have one sign"
        found.append(recipe(frame, "dscale", why, N=N, M=M, acts=("aligned",)))
    if frame.spec.has("mask"):
        why = "the last keys of each sequence of a batch hidden, as padding is"
        found.append(recipe(frame, "padding", why, N=N, M=M, acts=("padding",)))
    return found


def joined(frame: Frame) -> list[Recipe]:
    """Return cases in which two options must act together."""
    pairs = (
        ("sink", "dlse", "a cotangent of an lse that includes the sink"),
        ("dropout", "dlse", "dropped weights under a cotangent of lse, which knows nothing of dropout"),
        ("softcap", "dlse", "a soft-cap under a cotangent of lse"),
        ("mask", "dropout", "dropped weights among masked ones"),
    )
    both = [pair for pair in pairs if frame.spec.has(pair[0]) and frame.spec.has(pair[1])]
    return [
        recipe(frame, f"{a}-{b}", why, N=N, M=M, acts=(a, b), spread=2.4 if a == "softcap" else 1.3)
        for a, b, why in both
    ]


def causal(frame: Frame) -> list[Recipe]:
    """Return causal cases of N = M, N < M and N > M, and one with a position of query 0 of its own."""
    if frame.spec.causal == "never":
        return []
    told = "causal masking with {}: alignment, and no gradient from hidden keys"
    wanted = [("causal-square", "as many keys as queries", 69, 69)]
    if frame.spec.has("cross") and frame.tokens is None:
        wanted += [("causal-more-keys", "more keys than queries", N, M)]
        wanted += [("causal-more-queries", "more queries than keys", M, N)]
    found = [
        recipe(frame, name, told.format(words), N=n, M=m, causal=True)
        for name, words, n, m in wanted
        if frame.lengths(n, m, True) == frame.lengths(n, m)
    ]
    if frame.spec.has("query-start") and frame.spec.has("cross") and frame.tokens is None:
        why = "a part of a sequence: query 0 stands at a position of its own"
        made = recipe(frame, "query-start", why, N=N, M=M, causal=True, exercises=("query-start",))
        if made.N < made.M:
            found.append(replace(made, start=(made.M - made.N) // 2 + 1))
    return found


def heads(frame: Frame) -> list[Recipe]:
    """Return the case of grouped heads: consecutive heads of queries share one of keys."""
    if not frame.spec.has("gqa"):
        return []
    H = frame.heads or 6
    shared = next((n for n in (2, 3, 5, 7, 1) if H % n == 0 and n < H), None)
    if shared is None:
        return []
    why = "heads of queries that share a head of keys: its gradient is the sum of theirs"
    acts = ("gqa",) if shared > 1 else ()  # one head for all leaves nothing to mistake
    return [recipe(frame, "gqa", why, N=13, M=M, B=5, H=H, H_kv=shared, exercises=acts)]


def packed(frame: Frame) -> list[Recipe]:
    """Return the cases of sequences packed into one, causal where that is claimed."""
    if not frame.spec.has("packed") or frame.tokens is not None:
        return []
    why = "sequences packed into one: no pair of two of them may attend"
    flags = [] if frame.causal else [("packed", False)]
    flags += [] if frame.spec.causal == "never" else [("packed-causal", True)]
    return [
        recipe(frame, name, why, N=M, M=M, B=1, acts=("packed",), causal=flag)
        for name, flag in flags
    ]


def biases(frame: Frame) -> list[Recipe]:
    """Return a case for each shape of bias, a shared table, and biases that hide keys."""
    spec = frame.spec
    found = []
    for shape in spec.bias:
        why = f"a bias of shape {shape}: its gradient is summed over the axes along which it is broadcast"
        found.append(recipe(frame, f"bias-{shape}", why, N=N, M=M, bias=shape))
    if frame.bias == "table" and spec.has("shared-table"):
        why = "one table for all heads: its gradient is summed over them"
        found.append(recipe(frame, "shared-table", why, N=N, M=M, bias="shared-table"))
    if isinstance(spec.map, T5Map) and spec.has("cross") and frame.allows(1, 200):
        why = "a decode step with a table: the query stands at the end"
        found.append(recipe(frame, "decode-table", why, N=1, M=200))
    for word in ("hidden", "lowest"):
        if spec.has(word) and spec.bias:
            value = "-inf" if word == "hidden" else "the lowest number of its type"
            why = f"a bias that hides keys by {value}"
            found.append(recipe(frame, word, why, N=N, M=M, bias=_widest(spec.bias), acts=(word,)))
    if spec.has("lowest") and spec.bias and "float16" not in (frame.dtype, frame.bias_dtype):
        why = "a query with the lowest number at all keys: every weight is the same, none is NaN"
        acts = ("lowest", "lowest-row")
        found.append(recipe(frame, "lowest-row", why, N=N, M=M, bias=_widest(spec.bias), acts=acts))
    return found


def _widest(shapes: tuple[str, ...]) -> str:
    """Return the shape that is broadcast least."""
    return min(shapes, key=lambda shape: shape.count("1") + 2 * (4 - len(shape)))


def memory(frame: Frame) -> list[Recipe]:
    """Return cases of arrays that are not contiguous, and of gradients wanted for the bias alone."""
    found = []
    if frame.spec.has("strides"):
        told = {
            "transposed": "inputs whose axes lie in another order in memory",
            "sliced": "inputs that are parts of larger arrays",
            "expanded": "a cotangent of stride 0, as the sum of an output gives",
        }
        found += [recipe(frame, word, why, N=N, M=M, strides=word) for word, why in told.items()]
    if frame.bias and not (frame.bias == "slopes" and not frame.spec.map.learned):
        only = ("dtable",) if frame.bias in ("table", "slopes") else ("dbias",)
        why = "nothing but the bias is trained: its gradient must not depend on what else is asked for"
        found.append(recipe(frame, "bias-alone", why, N=N, M=M, only=only))
    return found


def logits(frame: Frame) -> list[Recipe]:
    """Return cases of saturated, equal and structured logits, and of the default scale."""
    narrow = frame.narrow
    saturated = "scores so large that most queries look at one key"
    outlier = "one large feature in all tokens and one key that all look at, as real activations have"
    equal = "equal scores: every key has the same weight"
    found = [
        recipe(frame, "saturated", saturated, N=N, M=M, spread=4.0 if narrow else 24.0),
        recipe(frame, "outlier", outlier, N=N, M=M, acts=("outlier",)),
        recipe(frame, "equal", equal, N=N, M=M, acts=("equal", "no-bias-values")),
    ]
    if frame.spec.scale == "argument":
        made = recipe(frame, "default-scale", "the scale that everybody has, 1/sqrt(D)", N=N, M=M)
        found.append(replace(made, scale=made.D**-0.5))
    return found
