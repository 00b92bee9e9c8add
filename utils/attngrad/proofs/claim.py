"""What the ledger says about a label: one small record a claim.

A record never holds the formula of its label. The formula stands on the page and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from random import Random

import numpy as np

from .read import Table

Planted = Mapping[tuple, Fraction]
Model = Callable[[np.random.Generator, int], Mapping[str, object]]
NOTHING: Mapping[str, str] = {}


class LedgerError(ValueError):
    """A ledger entry that does not fit its page, or that leans on what it may not lean on."""


@dataclass(frozen=True)
class Claim:
    """A label and the labels that its formula builds on (definitions, or proved ``name = ...`` lemmas).

    ``at`` fixes sizes, for a worked instance.
    """

    label: str
    uses: tuple[str, ...] = ()
    assume: tuple[str, ...] = ()
    at: Mapping[str, int] = field(default_factory=dict)

    prefix = ""

    def __post_init__(self) -> None:
        if not self.label.startswith(self.prefix):
            raise LedgerError(f"{type(self).__name__} labels start with {self.prefix!r}; got {self.label!r}")
        if getattr(self, "model", "none needed") is None:
            raise LedgerError(f"{self.label}: a model that draws its numbers is missing")


@dataclass(frozen=True)
class Definition(Claim):
    """``name = expression``: the very object that proofs unfold.

    ``plant(sizes, random)`` returns values of inputs by key, such as ``{("x", 1): Fraction(1, 3)}``, for a
    definition with a root: the oracle works on fractions, so the radicand must be a square for it.
    """

    plant: Callable[[Mapping[str, int], Random], Planted] | None = None
    prefix = "def-"


@dataclass(frozen=True)
class Hypothesis(Claim):
    """An equation that claims may assume, and a way to draw numbers that satisfy it.

    ``plant(sizes, random)`` returns values by key, such as ``{("y", 1): Fraction(1, 3)}``.
    """

    plant: Callable[[Mapping[str, int], Random], Planted] = field(default=lambda sizes, random: {})
    prefix = "def-"


@dataclass(frozen=True)
class Identity(Claim):
    """An equation or a chain of equations, proved for every size.

    With ``at`` it is a worked instance, checked at every entry. ``mistakes`` are known wrong forms
    of the formula, as LaTeX by name, besides the page's own ``bad-`` formulas.
    """

    mistakes: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    sizes: tuple[Mapping[str, int], ...] = ()
    prefix = "eq-"


@dataclass(frozen=True)
class Wrong(Claim):
    """A formula that the page shows as wrong: it must have an exact counterexample.

    ``instead`` is the label of the right formula, ``mistake`` its id in ``attngrad.mistakes``.
    """

    instead: str = ""
    mistake: str = ""
    sizes: tuple[Mapping[str, int], ...] = ()
    prefix = "bad-"


@dataclass(frozen=True)
class Theorem(Claim):
    """An inequality or an order: argued on the page, attacked with numbers here.

    ``model(random, trial)`` draws one instance, first the extreme ones. ``tight`` says that some
    instance attains equality, so that no weaker constant passes.
    """

    rests_on: tuple[str, ...] = ()
    classical: tuple[str, ...] = ()
    model: Model | None = None
    tight: bool = True
    prefix = "thm-"


@dataclass(frozen=True)
class Number(Claim):
    """A numerical fact ``expression \\approx digits``, measured by the machine at each run."""

    model: Model | None = None
    prefix = "num-"


@lru_cache(maxsize=64)
def _at(table: Table, sizes: tuple[tuple[str, int], ...]) -> Table:
    """Return a table at fixed sizes; one for all claims of a worked example."""
    return table.at(**dict(sizes))


def circle(needs: Mapping[str, set[str]]) -> list[str]:
    """Return the names that need themselves, or need one that does; an empty list when none does."""
    left = dict(needs)
    while ready := {name for name, others in left.items() if not others & set(left)}:
        left = {name: others for name, others in left.items() if name not in ready}
    return sorted(left)


@dataclass(frozen=True)
class Chapter:
    """The claims of one page, its notation, and the sizes at which the oracle runs."""

    page: str
    table: Table
    sizes: tuple[Mapping[str, int], ...]
    claims: tuple[Claim, ...]

    def __post_init__(self) -> None:
        labels = [c.label for c in self.claims]
        twice = sorted({x for x in labels if labels.count(x) > 1})
        if twice:
            raise LedgerError(f"{self.page}: labels claimed twice: {', '.join(twice)}")
        for c in self.claims:
            missing = sorted({*c.uses, *c.assume} - set(labels))
            if missing:
                raise LedgerError(f"{self.page}: {c.label} builds on unknown labels: {', '.join(missing)}")
            self._check_grounds(c)
        for sizes in (self.sizes, *(getattr(c, "sizes", ()) for c in self.claims)):
            self._check_sizes(sizes)
        if stuck := circle({c.label: set(c.uses) for c in self.claims}):
            raise LedgerError(f"{self.page}: these claims lean on each other: {', '.join(stuck)}")

    def _check_grounds(self, claim: Claim) -> None:
        """Check that a claim builds on definitions and on lemmas that hold wherever it needs them."""
        for label in claim.uses:
            ground = self[label]
            if not isinstance(ground, (Definition, Identity)):
                raise LedgerError(
                    f"{claim.label} builds on {label}, which is neither definition nor identity"
                )
            if ground.at and ground.at != claim.at:
                raise LedgerError(f"{claim.label} builds on {label}, which holds at {dict(ground.at)} only")
            if isinstance(ground, Identity) and ground.assume:
                given = ", ".join(ground.assume)
                raise LedgerError(f"{claim.label} builds on {label}, which assumes {given}")
        for label in getattr(claim, "rests_on", ()):
            if not any(c.label == label and isinstance(c, (Identity, Theorem)) for c in self.claims):
                raise LedgerError(f"{claim.label} rests on {label}, no identity or theorem of the page")
        for label in claim.assume:
            if not isinstance(self[label], Hypothesis):
                raise LedgerError(f"{claim.label} assumes {label}, which is no hypothesis")

    def _check_sizes(self, sizes: tuple[Mapping[str, int], ...]) -> None:
        for name, value in (pair for one in sizes for pair in one.items()):
            if name not in self.table.size_names or type(value) is not int or value < 1:
                raise LedgerError(
                    f"{self.page}: a size is a name of the table, an integer from 1; got {name} = {value!r}"
                )

    def __getitem__(self, label: str) -> Claim:
        for c in self.claims:
            if c.label == label:
                return c
        raise KeyError(f"{self.page} has no claim {label!r}")

    def table_of(self, claim: Claim) -> Table:
        """Return the notation in which the formula of a claim is read."""
        return _at(self.table, tuple(sorted(claim.at.items()))) if claim.at else self.table

    def closure(self, claim: Claim) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the labels that a claim uses and assumes.

        A definition brings what it uses and assumes. A lemma, used as ``name = ...``, stands for
        itself; it may not assume anything, since a derivative would leave what it assumes.
        """
        uses: list[str] = []
        assume: list[str] = list(claim.assume)
        todo = list(claim.uses)
        while todo:
            label = todo.pop(0)
            if label in uses:
                continue
            uses.append(label)
            assume += [a for a in self[label].assume if a not in assume]
            if isinstance(self[label], Definition):
                todo += self[label].uses
        return tuple(uses), tuple(assume)
