"""One symbol, one meaning, one look: what a notation table must not hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import lookalikes
from .errors import TableError, unknown
from .spelling import canonical, is_differential, units

if TYPE_CHECKING:
    from .table import Table

RESERVED = frozenset("e diag tr rowsum".split())


def check_notation(table: Table) -> None:
    """Refuse a table whose symbols have two meanings, or print alike.

    Raises
    ------
    TableError
        Which symbols, and what to do.
    """
    _check_meanings(table)
    _check_splits(table)
    _check_looks(table)


def check_sizes(table: Table) -> None:
    """Refuse a fixed size that is no size, or no positive integer."""
    for name, value in table.fixed.items():
        if name not in table.size_names:
            raise TableError(
                f"{name} is no size of this table; its sizes: {', '.join(sorted(table.size_names))}"
            )
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise TableError(f"the size {name} is a positive integer; got {value!r}")


def _check_meanings(table: Table) -> None:
    """Refuse a spelling that is declared twice, is reserved, or is malformed."""
    lists = [
        *table.index,
        *table.names,
        *table.integers,
        *table.functions,
        *table.alias,
        table.kronecker,
        table.identity,
    ]
    lists += [s for s in table.size_names if s not in table.names]
    seen: dict[str, str] = {}
    for name in filter(None, lists):
        if not name.isascii():
            raise TableError(f"{name!r}: {lookalikes.character(next(c for c in name if not c.isascii()))}")
        key = canonical(name)
        if key in seen:
            raise TableError(f"one symbol, two meanings: {seen[key]} and {name}")
        word = "".join(u for u in units(name) if u not in ("\\mathrm", "\\operatorname", "{", "}"))
        if word in RESERVED or word[0].isdigit():
            raise TableError(f"{name} is reserved: it cannot be declared")
        seen[key] = name
    for name, target in table.alias.items():
        if target not in table.names:
            raise TableError(f"alias {name} of {target}: {unknown(target, table.names, 'name')}")


def _check_splits(table: Table) -> None:
    """Refuse a name that also reads as a product or as an entry of other declared names."""
    for name in table.spellings:
        parts = units(name)
        for cut in range(1, len(parts)):
            head, tail = "".join(parts[:cut]), "".join(parts[cut:])
            if head in table.spellings and tail in table.spellings and not is_differential(name):
                raise TableError(f"{name} also reads as {head} times {tail}: rename one of the three")
        if "^" in parts[1:]:
            head = "".join(parts[: parts.index("^", 1)])
            power = "".join(u for u in parts[parts.index("^", 1) + 1 :] if u not in "{}")
            if head in table.spellings and (power.isdigit() or power in ("T", "\\top")):
                raise TableError(
                    f"{name} also reads as a power or a transpose of {head}: rename one of the two"
                )
        if "_" in parts[1:]:
            head = "".join(parts[: parts.index("_", 1)])
            tail = [u for u in parts[parts.index("_", 1) + 1 :] if u not in "{}"]
            if table.axes(head) and all(u in table.index or u.isdigit() for u in tail):
                raise TableError(f"{name} also reads as an entry of {head}: rename one of the two")


def _check_looks(table: Table) -> None:
    """Refuse two names that print alike, unless the pair is listed."""
    allowed = {frozenset(p) for p in table.lookalikes_allowed}
    for a, b in lookalikes.pairs(table.spellings):
        same = table.alias.get(a, a) == table.alias.get(b, b)
        apart = table.identity in (a, b) and (
            a in table.index or b in table.index
        )  # one is never a subscript
        if not (same or apart or frozenset((a, b)) in allowed):
            raise TableError(f"{a} and {b} print alike: rename one, or list the pair in lookalikes_allowed")
