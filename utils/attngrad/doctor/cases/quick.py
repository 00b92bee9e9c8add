"""Recipes of the quick plan: some dozen small cases that together try every option once."""

from dataclasses import replace

from attngrad.doctor.cases import options, shapes
from attngrad.doctor.cases.frame import Frame
from attngrad.doctor.cases.probes import probes
from attngrad.doctor.cases.recipe import Recipe

JOINED = ("dlse", "sink", "dropout")
MOST = 14


def quick_recipes(frame: Frame) -> list[Recipe]:
    """Return the recipes of the quick plan."""
    found = [shapes.basic(frame, 19, 43)]
    found += [made for made in probes(frame) if made.name == "probe-weights"]
    found += [*shapes.square(frame), *_tails(frame)]
    wanted = ("causal-square", "causal-more-keys", "query-start")
    found += [_small(made) for made in options.causal(frame) if made.name in wanted][-1:]
    found += _options(frame)
    broadcast = _most_broadcast(frame)
    found += [_small(replace(made, bias=broadcast)) for made in options.heads(frame)]
    found += [_small(made) for made in (*options.packed(frame)[-1:], *_biases(frame))]
    more = [made for made in options.logits(frame) if made.name in ("saturated", "equal")]
    room = MOST - len(frame.spec.dtypes) + 1  # each further type has a case of its own
    return (found + [_small(made) for made in more])[: max(len(found) + 1, room)]


def _most_broadcast(frame: Frame) -> str:
    """Return the shape of bias that is broadcast most, or what else there is for a bias."""
    return max(frame.spec.bias, key=lambda s: s.count("1") + 2 * (4 - len(s)), default=frame.bias)


def _small(made: Recipe) -> Recipe:
    """Return a recipe with two batches and three heads, or as many as are given."""
    return replace(made, B=min(made.B, 2), H=made.H if made.frame.heads or made.H_kv else min(made.H, 3))


def _tails(frame: Frame) -> list[Recipe]:
    """Return one case beyond a block of 64, of strides that are not contiguous where that is claimed."""
    why = "lengths just beyond blocks of 64 and 128, where a last block is partly filled"
    strides = "transposed" if frame.spec.has("strides") else ""
    D_v = next((made.D_v for made in shapes.values(frame)), None)
    made = shapes.recipe(frame, "tail", why, N=67, M=131, B=2, H=2, strides=strides)
    return [made if D_v is None else replace(made, D_v=D_v)]


def _options(frame: Frame) -> list[Recipe]:
    """Return the options that need no size of their own: those that can be joined, and the caps apart.

    Queries without a key come without a sink as well, which would take their weight: under a cap if there is
    one, else alone.
    """
    N, M = 13, 37
    acts = tuple(word for word in JOINED if frame.spec.has(word))
    masks = [word for word in ("empty-rows", "mask") if frame.spec.has(word)]
    found = []
    if acts or masks:
        why = "lse cotangent, sink, dropout, mask and empty rows, those that are claimed, at once"
        acts = (*acts, *masks[:1])
        made = shapes.recipe(frame, "options", why, N=N, M=M, acts=acts, B=2, H=3, exercises=tuple(masks))
        found.append(made)
    if frame.spec.has("dscale") and frame.narrow:
        found += [_small(made) for made in options.simple(frame) if made.name == "dscale"]
    caps = [word for word in ("softcap", "softcap-product") if frame.spec.has(word)]
    bare = ("empty-rows",) if frame.spec.has("sink") and frame.spec.has("empty-rows") else ()
    for word in caps:
        acts, bare = (word, *bare), ()
        why = "; ".join(options.SIMPLE[one][1] for one in acts)
        found.append(shapes.recipe(frame, word, why, N=N, M=M, acts=acts, spread=2.4, B=2, H=3))
    if bare:
        found += [_small(made) for made in options.simple(frame) if made.name == "empty-rows"]
    return found


def _biases(frame: Frame) -> list[Recipe]:
    """Return the shapes of bias that are broadcast most, the shared table, and a bias that hides keys."""
    N, M = frame.lengths(13, 37)
    made = {recipe.name: replace(recipe, N=N, M=M) for recipe in options.biases(frame)}
    most = f"bias-{_most_broadcast(frame)}"
    names = [] if frame.spec.has("gqa") or most == f"bias-{frame.bias}" else [most]
    return [made[name] for name in (*names, "shared-table", "hidden", "lowest") if name in made]
