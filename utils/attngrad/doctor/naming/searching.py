"""The smallest set of known mistakes that explains every answer: one, or several at different places."""

from collections.abc import Iterable, Iterator

from attngrad.doctor.naming.explaining import CLEAR, Evidence, Judge, Part, Parts, all_parts, fit, pipeline

Groups = tuple[tuple[str, ...], ...]
MOST = 5  # mistakes in a set
TYPICAL = 4  # cases on which it is seen whether one more mistake helps


def smallest(found: list[Evidence]) -> Groups:
    """Return the smallest set of mistakes that explains all, each with its equals; empty if none does."""
    clear = any(e.deviation(name) >= CLEAR for e in found for name in e.wrong)
    return Search(found).run() if clear else ()


class Search:
    """A search over sets: at most one mistake forward, one backward, and one in front of each answer."""

    def __init__(self, found: list[Evidence]) -> None:
        """Keep the evidence, and what could explain it."""
        self.found, self.judge = found, Judge(found)
        self.names = frozenset(name for e in found for name in e.got)
        self.wrong = frozenset(name for e in found for name in e.wrong)
        self.parts = [part for part in all_parts(found) if part.reaches & self.names]

    def run(self) -> Groups:
        """Return the smallest set that explains all."""
        alone = [part for part in self.parts if self.wrong <= part.reaches and self.all_by(part)]
        if alone:
            return (_ids(alone),)
        sets = [groups for groups in self.sets() if len(groups) <= MOST]
        fewest = min(map(len, sets), default=0)
        return merged([groups for groups in sets if len(groups) == fewest])

    def all_by(self, part: Part) -> bool:
        """Say whether one mistake explains every answer."""
        return all(self.explained((part,), e, e.got) for e in self.found)

    def explained(self, parts: Parts, e: Evidence, names: Iterable[str]) -> bool:
        """Say whether mistakes explain the answers to a case of the given names."""
        made = pipeline(parts, e.case)
        return all(self.judge.explains(e, made, name) for name in names)

    def missing(self, parts: Parts, e: Evidence) -> set[str]:
        """Return the answers to a case that mistakes do not explain."""
        made = pipeline(parts, e.case)
        return {name for name in e.got if not self.judge.explains(e, made, name)}

    def sets(self) -> Iterator[Groups]:
        """Yield sets that explain all, of one mistake forward, one backward and one for each answer."""
        for forward in self.forwards():
            yield from self.upon(forward)
            lacking = self.typical(forward)
            for part in self.parts:
                beside = part.level == "backward" and self.fits(forward, part)
                if beside and self.helps(forward, part, lacking):
                    yield from self.upon((*forward, part))

    def typical(self, parts: Parts) -> list[tuple[Evidence, frozenset[str]]]:
        """Return the first case of each set of answers that mistakes do not explain, few of them."""
        first: dict[frozenset[str], Evidence] = {}
        for e in self.found:
            lacking = frozenset(self.missing(parts, e))
            if lacking:
                first.setdefault(lacking, e)
        return [(e, lacking) for lacking, e in list(first.items())[:TYPICAL]]

    def helps(self, parts: Parts, part: Part, lacking: list[tuple[Evidence, frozenset[str]]]) -> bool:
        """Say whether a mistake explains something more in one of some cases."""
        return any(
            part.reaches & names and len(self.missing((*parts, part), e)) < len(names) for e, names in lacking
        )

    def fits(self, parts: Parts, part: Part) -> bool:
        """Say whether a mistake can stand beside others."""
        return fit(parts, part, self.found[0].case)

    def forwards(self) -> Iterator[Parts]:
        """Yield mistakes that explain the outputs; none at all where the outputs are right."""
        if "o" not in self.wrong:
            yield ()
            return
        for part in self.parts:
            if part.level != "forward":
                continue
            if all(self.explained((part,), e, e.got.keys() & {"o"}) for e in self.found):
                yield (part,)

    def upon(self, parts: Parts) -> Iterator[Groups]:
        """Yield the set of mistakes with one more for each answer that they do not explain, if there is."""
        lacking: set[str] = set()
        for e in self.found:
            lacking |= self.missing(parts, e)
            if any(not self.finals(name) for name in lacking):
                return
        groups = [(part.id,) for part in parts]
        for name in sorted(lacking):
            able = (part for part in self.finals(name) if self.fits(parts, part))
            ids = _ids(part for part in able if self.mends(parts, part, name))
            if not ids:
                return
            groups.append(ids)
        yield _without_repeats(groups)

    def finals(self, name: str) -> list[Part]:
        """Return the mistakes in front of one answer alone."""
        return [part for part in self.parts if part.level == "final" and name in part.reaches]

    def mends(self, parts: Parts, part: Part, name: str) -> bool:
        """Say whether a mistake in front of an answer, upon others, explains it in every case."""
        return all(
            self.judge.explains(e, pipeline((*parts, part), e.case, under=pipeline(parts, e.case)), name)
            for e in self.found
            if name in e.got
        )


def _ids(parts: Iterable[Part]) -> tuple[str, ...]:
    """Return the ids of mistakes, each once."""
    return tuple(sorted({part.id for part in parts}))


def _without_repeats(groups: list[tuple[str, ...]]) -> Groups:
    """Return groups with those that share a mistake made one: it explains both answers."""
    kept: list[tuple[str, ...]] = []
    for group in groups:
        at = next((n for n, other in enumerate(kept) if set(other) & set(group)), None)
        if at is None:
            kept.append(group)
        else:
            kept[at] = tuple(sorted(set(kept[at]) & set(group)))
    return tuple(kept)


def merged(sets: list[Groups]) -> Groups:
    """Return sets of equal size as one, with equals side by side where they differ."""
    if not sets:
        return ()
    common = [group for group in sets[0] if all(group in other for other in sets)]
    rest = [[group for group in groups if group not in common] for groups in sets]
    columns = [sorted({id for group in column for id in group}) for column in zip(*rest, strict=True)]
    if len(columns) > 1 and len(sets) > 1 and not _aligned(rest):
        columns = [sorted({id for column in columns for id in column})]
    return tuple(sorted([*common, *map(tuple, columns)]))


def _aligned(rest: list[list[tuple[str, ...]]]) -> bool:
    """Say whether no mistake stands at two places."""
    columns = [{id for group in column for id in group} for column in zip(*rest, strict=True)]
    return sum(map(len, columns)) == len(set().union(*columns))
