"""Recipes of sizes: factors apart, lengths around blocks, N != M, a decode step, tables beyond their ends."""

from dataclasses import replace

from attngrad.doctor.cases.frame import FEATURES, Frame
from attngrad.doctor.cases.recipe import Recipe
from attngrad.offsets import ClipMap, T5Map

TAILS = (
    (15, 17), (17, 16), (31, 63), (33, 15), (63, 65), (65, 33), (127, 31), (129, 127), (16, 129), (64, 32),
)  # fmt: skip
LONG = 257
FARTHEST = 4500
LARGE = 4000  # pairs, beyond which batch and heads are few
LARGEST = 2_000_000  # pairs of all batches and heads, beyond which they are one or two


def recipe(frame: Frame, name: str, why: str, **wanted: object) -> Recipe:
    """Return a recipe with sizes as the specification has them, and few heads where they are large."""
    fields = {"B": 3, "H": 5, **frame.of(wanted)}
    pairs = fields["N"] * fields["M"]
    if pairs > LARGE and "B" not in wanted:
        fields["B"] = 2
        if "H" not in wanted and frame.heads is None:
            fields["H"] = 3 if pairs <= 4 * LARGE else 2
    for axis in ("B", "H"):
        if pairs * fields["B"] * fields["H"] > LARGEST and (axis == "B" or frame.heads is None):
            fields[axis] = min(fields[axis], 2 if pairs * 4 <= LARGEST else 1)
    return Recipe(name, why, frame, **fields)


def basic(frame: Frame, N: int = 67, M: int = 131, repeats: int = 2) -> Recipe:
    """Return the first case: sizes at which no factor can be taken for another."""
    why = "the plain case, at sizes where no factor such as sqrt(D), H or 1/N can be taken for another"
    return recipe(frame, "basic", why, B=3, H=5, N=N, M=M, D=FEATURES[1], repeats=repeats)


def tails(frame: Frame) -> list[Recipe]:
    """Return the cases with lengths around blocks of 16, 32, 64 and 128."""
    told = "lengths next to the multiples of blocks, where a last block is partly filled"
    cross = frame.spec.has("cross")
    sizes = TAILS if cross else tuple((n, n) for n in (15, 17, 33, 63, 65, 127, 129))
    turned = [(N, M) if frame.allows(N, M) else (M, N) for N, M in sizes]
    found = []
    for k, (N, M) in enumerate(dict.fromkeys(turned)):
        # Every other one is causal where that is claimed: blocks beyond the diagonal are skipped there.
        causal = frame.causal or (frame.spec.causal == "both" and k % 2 == 0 and frame.allows(N, M, True))
        if frame.allows(N, M, causal):
            found.append(recipe(frame, f"tail-{N}-{M}", told, N=N, M=M, B=2, H=2, causal=causal))
    found += [
        recipe(frame, name, why, N=N, M=M)
        for name, why, N, M in (
            ("one-query", "a decode step: one query at the end of all keys", 1, 67),
            ("one-key", "one key, whose weight is 1 and whose scores get no gradient", 5, 1),
            ("one", "one query and one key", 1, 1),
        )
        if frame.allows(N, M)
    ]
    return found


def whole(frame: Frame) -> list[Recipe]:
    """Return the cases of sizes that are multiples of every block: what is wrong here is not a tail."""
    told = "lengths that are multiples of blocks: what is wrong only elsewhere is wrong at tails"
    found = [recipe(frame, "whole-blocks", told, N=128, M=128, B=2, H=2, D=FEATURES[1])]
    if frame.allows(64, 128):
        found.append(recipe(frame, "whole-cross", told, N=64, M=128, B=2, H=2, D=FEATURES[1]))
    return found if frame.tokens is None else []


def cross(frame: Frame) -> list[Recipe]:
    """Return N < M and N > M with few keys, both ways round."""
    told = "more keys than queries, and the other way round: positions must be aligned"
    keys, queries = (recipe(frame, "more-keys", told, N=n, M=m) for n, m in ((21, 70), (70, 21)))
    found = [keys] if keys.N < keys.M else []
    return [*found, replace(queries, name="more-queries")] if queries.N > queries.M else found


def features(frame: Frame) -> list[Recipe]:
    """Return a case for each number of features that is allowed, and values of another number."""
    told = "another number of features"
    some = frame.spec.head_dims or (13, 40, 128)
    found = [recipe(frame, f"features-{D}", told, N=21, M=33, D=D, B=2, H=3) for D in dict.fromkeys(some)]
    return found + values(frame) + square(frame)


def square(frame: Frame) -> list[Recipe]:
    """Return the case with as many keys as values have features, where do and dp have one shape."""
    D = frame.side()
    if D is None:
        return []
    why = "as many keys as features of values: do has the shape of dp, and can be taken for it in silence"
    fewer = max(D // 2 + 1, 1)
    N = fewer if frame.allows(fewer, D) else D
    made = recipe(frame, "values-square", why, N=N, M=D, D=D, B=2, H=3)
    return [made] if made.M == made.D else []


def values(frame: Frame) -> list[Recipe]:
    """Return the case whose values have another number of features than its keys, if two are allowed."""
    if not frame.spec.has("values"):
        return []
    why = "values with another number of features than keys"
    made = recipe(frame, "values", why, N=21, M=70)
    other = [D for D in frame.spec.head_dims or (40,) if D != made.D]
    return [replace(made, D_v=other[0])] if other else []


def far(frame: Frame) -> list[Recipe]:
    """Return the cases whose offsets go beyond the last bucket, or beyond the distance of clipping."""
    if not isinstance(frame.spec.map, T5Map | ClipMap):
        return []
    last = int(frame.spec.map.max_distance)
    length = min(max(last + last // 2 + 3, 9), FARTHEST)
    told = "offsets beyond the last bucket or distance, on both sides"
    found = []
    for name, N, M in (("far-keys", 7, length), ("far-queries", length, 7)):
        made = recipe(frame, name, told, N=N, M=M, B=2, H=3)
        if made.N * made.M <= 16 * LARGE and max(made.N, made.M) > last:
            found.append(made)
    return list({(made.N, made.M): made for made in found}.values())


def long(frame: Frame) -> Recipe:
    """Return the case of long sums, in which an accumulator of a low-precision type stalls."""
    told = "sums over many queries, keys and pairs, in which a short accumulator stalls"
    return recipe(frame, "long", told, N=LONG, M=LONG, B=1, H=2, acts=("coherent",))
