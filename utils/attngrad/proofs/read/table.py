"""The notation of a chapter: every symbol, its axes and its one meaning."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

from sympy import Expr, IndexedBase, Integer, Symbol

from ..sums import Scope
from .errors import TableError, unknown
from .meanings import check_notation, check_sizes
from .spelling import compiled, is_single_token

Bound = int | str
Axis = Bound | tuple[Bound, Bound]
Range = tuple[Expr, Expr]
_TERM = re.compile(r"\s*([+-]?)\s*(\d*)\s*(\\?[A-Za-z]+(?:_(?:\{[^{}]*\}|\\?[A-Za-z0-9]+))?)?\s*")


@dataclass(frozen=True, eq=False)
class Table:
    r"""The notation table: an immutable value.

    ``index``       letter -> its range: ``"n"`` and ``3`` mean 1..n and 1..3, ``("1-N", "M-1")`` a range
    ``names``       spelling -> tuple of axes (each given as a range), ``()`` scalar, ``"+"`` positive
                    scalar, ``"size"`` positive integer
    ``integers``    spelling -> (axes, range of its values): an integer-valued array or scalar
    ``functions``   opaque functions of one scalar
    ``alias``       second spelling -> name: ``{"q": "Q"}`` lets ``q_i`` be row i of Q
    ``kronecker``, ``identity``   the spellings of the Kronecker symbol and of the identity matrix
    ``lookalikes_allowed``        pairs of names that print alike and are meant all the same
    ``fixed``       sizes replaced by numbers, see :meth:`at`

    Raises
    ------
    TableError
        When a symbol has two meanings, two symbols print alike, or an entry is malformed.

    Example
    -------
    >>> t = Table(index={"i": "n"}, names={"p": ("n",), "L": ()}, kronecker=r"\delta")
    >>> t.symbol("p"), t.axes("p"), t.at(n=3).axes("p")
    (p, ((1, n),), ((1, 3),))
    """

    index: Mapping[str, Axis]
    names: Mapping[str, str | tuple[Axis, ...]]
    integers: Mapping[str, tuple[tuple[Axis, ...], Axis]] = field(default_factory=dict)
    functions: tuple[str, ...] = ()
    alias: Mapping[str, str] = field(default_factory=dict)
    kronecker: str = ""
    identity: str = ""
    lookalikes_allowed: tuple[tuple[str, str], ...] = ()
    fixed: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("index", "names", "integers", "alias", "fixed"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        object.__setattr__(self, "functions", tuple(self.functions))
        object.__setattr__(self, "lookalikes_allowed", tuple(tuple(p) for p in self.lookalikes_allowed))
        check_sizes(self)
        _ = self._ranges, self._axes  # a malformed entry is an error now, not at its first use
        check_notation(self)

    # --- what the reader asks ----------------------------------------------------------------

    @cached_property
    def size(self) -> Mapping[str, Symbol]:
        """The sizes that stay symbols, by name."""
        free = sorted(self.size_names - set(self.fixed))
        return MappingProxyType({s: Symbol(s, integer=True, positive=True) for s in free})

    @cached_property
    def size_names(self) -> frozenset[str]:
        """Every size: declared, or used in a range."""
        declared = {n for n, axes in self.names.items() if axes == "size"}
        used = {s for text in self._bound_texts() for _, _, s in _terms(text) if s}
        return frozenset(declared | {s for s in used if s not in self.integers})

    @cached_property
    def spellings(self) -> frozenset[str]:
        """Every declared spelling."""
        one = [s for s in (self.kronecker, self.identity) if s]
        return frozenset(
            {*self.index, *self.names, *self.integers, *self.functions, *self.alias, *one, *self.size_names}
        )

    def kind(self, name: str) -> str:
        """Return the token type of a declared spelling."""
        if name in self.index:
            return "LETTER"
        if name in self.functions:
            return "FUNCTION"
        return {self.kronecker: "KRONECKER", self.identity: "IDENTITY"}.get(name, "NAME")

    def symbol(self, name: str) -> Expr | IndexedBase:
        """Return the object that a name stands for; a fixed size is its number.

        Raises
        ------
        TableError
            When the table has no such name.
        """
        name = self.alias.get(name, name)
        if name in self.size_names:
            return self._size(name)
        if name in self.index:
            return Symbol(name, integer=True)
        if name in self.integers:
            if self.axes(name):
                return IndexedBase(name, integer=True)
            positive = (self._ranges[name][0] - 1).is_nonnegative
            return Symbol(name, integer=True, positive=True if positive else None)
        if name not in self.names:
            raise TableError(unknown(name, self.spellings, "name"))
        if self.names[name] == "+":
            return Symbol(name, positive=True)
        return IndexedBase(name) if self.axes(name) else Symbol(name)

    def axes(self, name: str) -> tuple[Range, ...]:
        """Return the ranges of a name's axes; none for a scalar."""
        return self._axes.get(self.alias.get(name, name), ())

    def range(self, name: str) -> Range:
        """Return the range of an index letter, or of the values of an integer table."""
        return self._ranges[name]

    def scope(self) -> Scope:
        """Return the typed range of each index letter and each integer table."""
        return self._scope

    def at(self, **sizes: int) -> Table:
        """Return this table with sizes replaced by numbers, for a worked instance.

        Raises
        ------
        TableError
            When a name is no size of this table, or a value is no positive integer.
        """
        return replace(self, fixed={**self.fixed, **sizes})

    @cached_property
    def patterns(self) -> tuple[re.Pattern[str], Mapping[str, str]]:
        """One expression that finds any declared name, the longest first."""
        return compiled(self.spellings)

    @cached_property
    def token_patterns(self) -> tuple[re.Pattern[str], Mapping[str, str]]:
        """The same for names that TeX takes as an argument without braces."""
        return compiled(n for n in self.spellings if is_single_token(n))

    # --- ranges ------------------------------------------------------------------------------

    @cached_property
    def _scope(self) -> Scope:
        return Scope({self.symbol(name): bounds for name, bounds in self._ranges.items()})

    @cached_property
    def _ranges(self) -> Mapping[str, Range]:
        letters = {k: self._range(k, a) for k, a in self.index.items()}
        for name, entry in self.integers.items():
            if not (isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], tuple)):
                raise TableError(f"integers[{name!r}] is (tuple of axes, range of values); got {entry!r}")
            letters[name] = self._range(name, entry[1])
        return MappingProxyType(letters)

    @cached_property
    def _axes(self) -> Mapping[str, tuple[Range, ...]]:
        out = {}
        for name, axes in {**self.names, **{n: e[0] for n, e in self.integers.items()}}.items():
            if axes in ("size", "+"):
                out[name] = ()
                continue
            if not isinstance(axes, tuple):
                raise TableError(
                    f"the axes of {name} are a tuple such as ('n',), or '+' or 'size'; got {axes!r}"
                )
            out[name] = tuple(self._range(name, a) for a in axes)
        return MappingProxyType(out)

    def _range(self, name: str, axis: Axis) -> Range:
        low, high = axis if isinstance(axis, tuple) and len(axis) == 2 else (1, axis)
        bounds = self._bound(name, low), self._bound(name, high)
        if (bounds[1] - bounds[0] + 1).is_negative:
            raise TableError(f"the range {bounds[0]}..{bounds[1]} of {name} runs backwards")
        return bounds

    def _bound(self, name: str, bound: Bound) -> Expr:
        if isinstance(bound, int) and not isinstance(bound, bool):
            return Integer(bound)
        if not isinstance(bound, str):
            raise TableError(
                f"a bound of {name} is an integer or a sum of sizes such as 'M-1'; got {bound!r}"
            )
        total: Expr = Integer(0)
        for sign, factor, size in _terms(bound):
            if size in self.integers:
                raise TableError(f"a bound of {name} is made of sizes; {size} is an integer table")
            part = Integer(factor or 1) * (self._size(size) if size else 1)
            total += -part if sign == "-" else part
        return total

    def _size(self, name: str) -> Expr:
        return Integer(self.fixed[name]) if name in self.fixed else Symbol(name, integer=True, positive=True)

    def _bound_texts(self) -> Iterable[str]:
        axes = [*self.index.values(), *(v for _, v in self.integers.values())]
        for given in [*self.names.values(), *(a for a, _ in self.integers.values())]:
            axes += given if isinstance(given, tuple) else ()
        for axis in axes:
            yield from (b for b in (axis if isinstance(axis, tuple) else (axis,)) if isinstance(b, str))


def _terms(bound: str) -> list[tuple[str, str, str]]:
    """Split ``"M-1"`` into (sign, number, size) terms."""
    out, at = [], 0
    while at < len(bound):
        m = _TERM.match(bound, at)
        if m is None or m.end() == at or not (m[2] or m[3]) or (out and not m[1]):
            raise TableError(f"a bound is a sum of sizes and integers such as 'M-1'; got {bound!r}")
        out.append((m[1], m[2], m[3] or ""))
        at = m.end()
    if not out:
        raise TableError("a bound is a sum of sizes and integers such as 'M-1'; got an empty text")
    return out
