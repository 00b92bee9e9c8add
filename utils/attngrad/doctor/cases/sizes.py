"""Factors by which an answer may be off, by name, and whether the sizes of a case keep them apart."""

import math
from collections.abc import Sequence
from itertools import combinations

from attngrad.doctor.case import Case
from attngrad.doctor.judging.rounding import ROUNDOFF

SINGLE = 8.0  # times the unit roundoff: how far apart factors must be to be told apart
LEAST = 2e-3
MOST = 6  # names of one number
OF_SCORES = ("2", "scale", "D", "ln 2")


def factors(case: Case) -> dict[str, float]:
    """Return each factor by its name, 1 left out: those of the sizes, of the scale, of bases of logarithms.

    >>> from attngrad.doctor import Spec
    >>> from attngrad.doctor.cases import plan
    >>> round(factors(plan(Spec())[0])["1/sqrt(D)"], 3)
    0.125
    """
    s = case.sizes
    bases = {
        "2": 2.0, "scale": case.scale, "scale^2": case.scale**2, "sqrt(D)": math.sqrt(s["D"]), "D": s["D"],
        "B": s["B"], "H": s["H"], "N": s["N"], "M": s["M"], "H/H_kv": s["H"] // s["H_kv"],
        "ln 2": math.log(2.0), "1 - dropout": 1.0 - case.dropout,
    }  # fmt: skip
    return {**_both_ways(bases), "-1": -1.0}


def _both_ways(bases: dict[str, float]) -> dict[str, float]:
    """Return factors and their inverses, without 0 and 1."""
    kept = {name: float(x) for name, x in bases.items() if x not in (0.0, 1.0)}
    return {**kept, **{_inverse(name): 1.0 / x for name, x in kept.items()}}


def _inverse(name: str) -> str:
    """Return how the inverse of a factor is written."""
    if name == "H/H_kv":
        return "H_kv/H"
    return f"1/({name})" if " - " in name else f"1/{name}"


def products(case: Case) -> dict[str, float]:
    """Return by their names the products of two factors, and what is rarer than a single factor.

    Products that cancel, or that are one factor, are left out.
    """
    s, single = case.sizes, factors(case)
    grouped = float(s["H_kv"]) if s["H_kv"] < s["H"] else 0.0
    rare = {"4": 4.0, "sqrt(N)": math.sqrt(s["N"]), "sqrt(M)": math.sqrt(s["M"]), "H_kv": grouped,
            "softcap": case.softcap or 0.0}  # fmt: skip
    found = _both_ways(rare)
    positive = [(name, x) for name, x in single.items() if name != "-1"]
    for (a, x), (b, y) in combinations(positive, 2):
        if _base(a) != _base(b) and {_base(a), _base(b)} != {"H", "H/H_kv"}:
            found.setdefault(_product(a, b), x * y)
    return {**found, **{f"-{name}": -x for name, x in (*positive, *found.items())}}


def _base(name: str) -> str:
    """Return the quantity that a factor is a power of: a product of two powers is a factor of its own."""
    plain = name.removeprefix("1/").removeprefix("sqrt").removesuffix("^2").strip("()")
    return "H/H_kv" if plain == "H_kv/H" else plain


def _product(a: str, b: str) -> str:
    """Return how the product of two factors is written."""
    below = [name[2:] for name in (a, b) if name.startswith("1/")]
    above = [name for name in (a, b) if not name.startswith("1/")]
    over = " ".join(f"({name})" if "/" in name or " - " in name else name for name in above) or "1"
    if len(below) == 2:
        return f"1/({' '.join(below)})"
    return f"{over}/{below[0]}" if below else over


def margin(case: Case) -> float:
    """Return the relative difference at which two factors can be told apart in the type of a case."""
    return max(SINGLE * ROUNDOFF[case.dtype], LEAST)


def names_of(c: float, case: Case, tolerance: float | None = None) -> tuple[str, ...]:
    """Return the names of all factors that a number is, single ones first; products only if none fits.

    A number that may be 1 has none.

    >>> from attngrad.doctor import Spec
    >>> from attngrad.doctor.cases import plan
    >>> names_of(8.0001, plan(Spec())[0])
    ('sqrt(D)',)
    """
    return names_in_all([(case, c, margin(case) if tolerance is None else tolerance)])


def names_in_all(numbers: Sequence[tuple[Case, float, float]]) -> tuple[str, ...]:
    """Return the names that numbers have in each case, the shortest first: single factors, else products.

    Each comes with its case and how far it may be off, relative to its size. Numbers that may all be 1 have
    none.
    """
    if all(abs(c - 1.0) <= tolerance for _, c, tolerance in numbers):
        return ()
    for table in (factors, products):
        near = [{name for name, x in table(case).items() if abs(c - x) <= tolerance * max(abs(x), abs(c))}
                for case, c, tolerance in numbers]  # fmt: skip
        if found := set.intersection(*near):
            return tuple(sorted(found, key=lambda name: (len(name), name))[:MOST])
    return ()


def _scaled(name: str) -> str:
    """Return how the scale times a factor is written: numbers come first."""
    return _product("2", "scale") if name == "2" else _product("scale", name)


def of_scores(case: Case) -> dict[str, float]:
    """Return what a coefficient of the product or of the bias can be by name: made of `OF_SCORES` alone.

    >>> from attngrad.doctor import Spec
    >>> from attngrad.doctor.cases import plan
    >>> [name for name in of_scores(plan(Spec())[0]) if "ln 2" in name and "-" not in name]
    ['ln 2', '1/ln 2', 'scale ln 2', 'scale/ln 2']
    """
    single = {name: x for name, x in factors(case).items() if _base(name) in OF_SCORES}
    others = {name: x for name, x in single.items() if _base(name) != "scale"}
    found = {**single, **{_scaled(name): case.scale * x for name, x in others.items()}}
    return {**found, **{f"-{name}": -x for name, x in found.items()}, "-1": -1.0}


def confused(case: Case, *, with_products: bool = False) -> tuple[tuple[str, str], ...]:
    """Return the pairs of factors that the sizes of a case do not keep apart in its type; "1" is no factor.

    ``with_products`` compares each factor with what `products` returns as well.
    """
    near, single = margin(case), {"1": 1.0, **factors(case)}
    pairs = list(combinations(single.items(), 2))
    if with_products:
        pairs += [(one, two) for one in single.items() for two in products(case).items()]
    return tuple((a, b) for (a, x), (b, y) in pairs if abs(x / y - 1.0) <= near)
