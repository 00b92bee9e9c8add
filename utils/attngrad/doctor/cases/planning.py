"""The plan: which cases are run for a specification, and in which order."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from attngrad.doctor.case import Case
from attngrad.doctor.cases import options, shapes
from attngrad.doctor.cases.drawing import Refused, drawn
from attngrad.doctor.cases.frame import Frame
from attngrad.doctor.cases.probes import probes
from attngrad.doctor.cases.quick import quick_recipes
from attngrad.doctor.cases.recipe import Recipe, Rows
from attngrad.doctor.spec import Spec
from attngrad.notation import RangeError, boolean, integer


def plan(spec: Spec, *, seed: int = 0, quick: bool = False, rows: Rows | None = None) -> tuple[Case, ...]:
    """Return the cases of a specification in the order in which they are run.

    The first type of full precision, or the first of all, has the whole plan; the others have a smaller one,
    their names ending in the type. The numbers of a case depend on the seed and its name alone. ``quick``
    gives a dozen of cases that together try every option once. ``rows`` says the rows of pairs in the place
    of a map that is a callable; a case whose sizes it refuses is left out, and ``notes`` of the first case
    say so under "left out", a line for each.

    Raises: DtypeError or RangeError for a seed that is no integer of at least 0; RangeError for a map that
    refuses every case, or gives rows of another shape, type or range.

    >>> [case.name for case in plan(Spec(), quick=True)]
    ['basic', 'probe-weights', 'values-square', 'tail', 'saturated', 'equal']
    """
    seed, quick = integer("seed", seed, least=0), boolean("quick", quick)
    first = main_dtype(spec)
    recipes = quick_recipes(Frame(spec, first)) if quick else full_recipes(Frame(spec, first))
    for dtype in spec.dtypes:
        if dtype != first:
            recipes += [replace(r, name=f"{r.name}-{dtype}") for r in _few_recipes(Frame(spec, dtype), quick)]
    return _drawn(recipes, seed, rows)


def main_dtype(spec: Spec) -> str:
    """Return the type that has the whole plan: the first of full precision, or the first of all."""
    return next((dtype for dtype in spec.dtypes if dtype in ("float32", "float64")), spec.dtypes[0])


def full_recipes(frame: Frame) -> list[Recipe]:
    """Return the recipes of the whole plan."""
    makers: tuple[Callable[[Frame], Iterable[Recipe]], ...] = (
        shapes.cross, options.causal, options.biases, options.simple, options.joined, options.heads,
        options.packed, options.memory, options.logits, shapes.features, shapes.tails, shapes.whole,
        shapes.far,
    )  # fmt: skip
    basic = shapes.basic(frame)
    why = "the first case once more, after others: nothing may be kept"
    again = replace(basic, name="again", why=why, repeats=1, numbers_of=basic.name)
    repeat = "the same case three times: sums in another order show as other bits"
    rest = [made for maker in makers for made in maker(frame)]
    thrice = shapes.recipe(frame, "repeat", repeat, N=67, M=131, B=2, H=2, repeats=3)
    rest += [shapes.long(frame)] if frame.narrow else []
    return [basic, *probes(frame), *rest, again, thrice]


def _few_recipes(frame: Frame, quick: bool) -> list[Recipe]:
    """Return the recipes of a further type."""
    found = [shapes.basic(frame, 21, 70, repeats=1)]
    if quick:
        return found
    found += [made for made in shapes.tails(frame) if made.name in ("tail-63-65", "tail-33-15", "tail-65-65")]
    found += [shapes.long(frame), *(made for made in options.logits(frame) if made.name == "saturated")]
    wanted = ("lowest", "hidden", "shared-table", "dlse", "softcap", "sink", "gqa", "dscale", "causal-square")
    makers = (options.biases, options.simple, options.heads, options.causal)
    return found + [made for maker in makers for made in maker(frame) if made.name in wanted]


def _drawn(recipes: list[Recipe], seed: int, rows: Rows | None) -> tuple[Case, ...]:
    """Return the cases of recipes, each once, without those whose sizes a map of the owner's own refuses."""
    found, refused = [], []
    by_name = {recipe.name: recipe for recipe in reversed(recipes)}
    for recipe in (by_name[name] for name in dict.fromkeys(recipe.name for recipe in recipes)):
        try:
            found.append(drawn(recipe, seed, rows))
        except Refused as error:
            refused.append(f"{recipe.name}: the map refuses {error}")
    if not found:
        raise RangeError(f"map: expected rows for some sizes, got none; {refused[0]}")
    if refused:
        found[0] = replace(found[0], repeats=2, notes={"left out": "\n".join(refused)})
    return tuple(found)
