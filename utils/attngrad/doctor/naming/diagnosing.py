"""Naming what is wrong: the known mistakes that explain every answer, or what is known of an unknown one."""

from collections.abc import Sequence

from attngrad.doctor.case import Case
from attngrad.doctor.naming.between import explained_by_calls, kept_between_calls
from attngrad.doctor.naming.explaining import evidence
from attngrad.doctor.naming.searching import smallest
from attngrad.doctor.naming.unknown import what_is_known
from attngrad.doctor.outcome import Diagnosis, Finding, Outcome
from attngrad.doctor.spec import Spec


def diagnose(tried: Sequence[tuple[Case, Outcome, tuple[Finding, ...]]], spec: Spec) -> Diagnosis:
    """Return the smallest set of known mistakes that explains every answer, wrong ones and right ones alike.

    A mistake is named only if its answers agree with those that came in all entries of all cases, inside the
    band of rounding. Otherwise ``names`` is empty, or holds what shows between calls alone, and ``text`` says
    what is known: a constant factor and what it can be, in which entries and in which cases.
    """
    kinds = {finding.kind for *_, findings in tried for finding in findings}
    if not kinds:
        return Diagnosis()
    if kinds == {"imprecise"}:
        return Diagnosis(text="No formula is wrong: what differs is the precision.")
    found = evidence(tried, spec)
    between = kept_between_calls(tried)
    if between and (not any(e.wrong for e in found) or explained_by_calls(tried, found, between)):
        return Diagnosis(names=tuple((id,) for id in between))
    names = smallest(found)
    if names:
        wrong = frozenset(name for e in found for name in e.wrong)
        return Diagnosis(names=(*names, *((id,) for id in kept_between_calls(tried, explained=wrong))))
    if any(e.wrong for e in found):
        return Diagnosis(text=what_is_known(found, between))
    return Diagnosis(text=f"No value of an answer is known to be wrong; found: {', '.join(sorted(kinds))}.")
