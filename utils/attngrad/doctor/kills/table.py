"""Running the checks on the wrong attentions, and printing what each of them rejected."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from attngrad.doctor.case import Case
from attngrad.doctor.kills.record import CHECKS, Answers, Check, Make, Subject
from attngrad.doctor.kills.state import MAKERS
from attngrad.mistakes.whole import STATE, WHOLE, right
from attngrad.mistakes.whole.record import Whole
from attngrad.notation import RangeError

SMALL = 16  # the size of blocks, where a mistake has one
TOPICS = {
    "scales": "scale and bias",
    "masks": "masks",
    "core": "softmax's derivative",
    "products": "products",
    "heads": "heads",
    "reductions": "sums of a bias or a table",
    "positions": "rows of a table, slopes",
    "options": "lse, sink, cap, dropout",
    "tails": "tails and layout",
    "state": "memory",
}
UNSEEN = "·"


def _whole(wrong: Whole) -> Make:
    """Return what makes a wrong attention, with the smallest blocks."""
    settings = next((one for one in wrong.settings if one.get("block") == SMALL), wrong.settings[0])
    return lambda: lambda case: wrong.pipeline(case, **settings).answers()


def _topic(id: str) -> str:
    """Return the topic of a mistake: the module that has it."""
    module = "state" if id in STATE else WHOLE[id].kind.__module__.rsplit(".", 1)[-1]
    return TOPICS.get(module, module)


SUBJECTS: dict[str, Make] = {id: _whole(wrong) for id, wrong in WHOLE.items()}
SUBJECTS |= {id: MAKERS[id] for id in STATE}


def healthy() -> Subject:
    """Return the right attention."""
    return lambda case: right(case).answers()


def _remembering(make: Make) -> Make:
    """Return a maker of subjects that share what was computed for a case; not for subjects with a state."""
    subject, known = make(), {}

    def answers(case: Case) -> Answers:
        if id(case) not in known:
            known[id(case)] = (case, subject(case))
        return known[id(case)][1]

    return lambda: answers


@dataclass(frozen=True)
class Kills:
    """Which check rejected which mistake: ``ids`` in the order of topics, ``checks`` in that of letters."""

    ids: tuple[str, ...]
    checks: tuple[str, ...]
    pairs: frozenset[tuple[str, str]]

    def killed(self, check: str, id: str) -> bool:
        """Say whether a check rejected a mistake.

        Raises: RangeError for a check or a mistake that is not in the table.
        """
        for name, value, known in (("check", check, self.checks), ("id", id, self.ids)):
            if value not in known:
                raise RangeError(f"{name}: expected one of {', '.join(known)}, got {value!r}")
        return (check, id) in self.pairs

    def by_check(self, check: str) -> tuple[str, ...]:
        """Return the mistakes that a check rejected."""
        return tuple(id for id in self.ids if self.killed(check, id))

    def by_id(self, id: str) -> tuple[str, ...]:
        """Return the checks that rejected a mistake."""
        return tuple(check for check in self.checks if self.killed(check, id))

    def _marks(self, id: str) -> str:
        """Return the letters of the checks that rejected a mistake, dots for others, naive ones apart."""
        marks = {c: CHECKS[c].letter if self.killed(c, id) else UNSEEN for c in self.checks}
        groups = ["".join(marks[c] for c in marks if CHECKS[c].naive == naive) for naive in (False, True)]
        return " ".join(group for group in groups if group)

    def _groups(self) -> Iterator[tuple[str, list[str]]]:
        """Yield each topic and its mistakes."""
        for topic in dict.fromkeys(_topic(id) for id in self.ids):
            yield topic, [id for id in self.ids if _topic(id) == topic]

    def text(self) -> str:
        """Return the table in plain letters, a mistake a line, with a legend of the checks."""
        width = max(map(len, self.ids), default=0)
        lines = []
        for topic, ids in self._groups():
            lines += [f"{topic}", *(f"  {id:<{width}}  {self._marks(id)}" for id in ids), ""]
        lines += [f"{'rejected, of ' + str(len(self.ids)):<{width + 4}}checks"]
        return "\n".join(lines + [f"{len(self.by_check(c)):>6}  {_told(CHECKS[c])}" for c in self.checks])

    def markdown(self) -> str:
        """Return the table in Markdown, one for each topic, and a legend."""
        lines = []
        for topic, ids in self._groups():
            lines += [f"| {topic} | rejected by |", "|---|---|"]
            lines += [f"| `{id}` | `{self._marks(id)}` |" for id in ids] + [""]
        lines += ["| check | rejects | what it demands |", "|---|---|---|"]
        for name in self.checks:
            check = CHECKS[name]
            label = f"`{check.letter}` {name}{', naive' if check.naive else ''}"
            lines.append(f"| {label} | {len(self.by_check(name))} | {check.text} |")
        return "\n".join(lines)


def _told(check: Check) -> str:
    """Return a line of the legend."""
    return f"{check.letter}  {check.name}{' (naive)' if check.naive else ''}: {check.text}"


def _chosen(name: str, asked: Sequence[str] | None, known: dict[str, Any]) -> tuple[str, ...]:
    """Return the asked names, all by default, refusing one that is unknown."""
    for one in asked or ():
        if one not in known:
            raise RangeError(f"{name}: expected some of {', '.join(known)}, got {one!r}")
    return tuple(known) if asked is None else tuple(one for one in known if one in asked)


def table(ids: Sequence[str] | None = None, checks: Sequence[str] | None = None) -> Kills:
    """Return the kill table of some mistakes and checks, all by default.

    Each check runs on each mistake, in float64 on small cases with fixed numbers. A naive check is a test
    that people use; the others are those of the book.

    Raises: RangeError for an id or a check that does not exist.
    """
    order = {topic: place for place, topic in enumerate(TOPICS.values())}
    known = dict(sorted(SUBJECTS.items(), key=lambda item: (order.get(_topic(item[0]), len(order)), item[0])))
    ids, names = _chosen("ids", ids, known), _chosen("checks", checks, _ordered())
    return Kills(ids, names, frozenset(pair for id in ids for pair in _killed(id) if pair[0] in names))


@cache
def _killed(id: str) -> frozenset[tuple[str, str]]:
    """Return the pairs of a mistake and each check that rejects it."""
    make = SUBJECTS[id] if id in STATE else _remembering(SUBJECTS[id])
    return frozenset((name, id) for name, check in CHECKS.items() if rejects(check, make))


def rejects(check: Check, make: Callable[[], Subject]) -> bool:
    """Say whether a check rejects a subject."""
    with np.errstate(all="ignore"):
        return bool(check.rejects(make))


def _ordered() -> dict[str, Check]:
    """Return the checks, those of the book first, each group by its letters."""
    return dict(sorted(CHECKS.items(), key=lambda item: (item[1].naive, item[1].letter)))
