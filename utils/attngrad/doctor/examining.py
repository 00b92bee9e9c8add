"""An examination from end to end: plan cases, run and judge each, ask what is computed, name the mistake."""

import difflib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from attngrad.doctor import cases as planning
from attngrad.doctor.case import FORWARD, GRADIENTS, Case
from attngrad.doctor.judging import oracle, verdicts
from attngrad.doctor.naming import diagnosing, probing
from attngrad.doctor.outcome import KINDS, Finding, Outcome, Report
from attngrad.doctor.running import runners as running
from attngrad.doctor.spec import Spec
from attngrad.notation import DtypeError, RangeError

CHOSEN = "all cases but those that were chosen by name"
QUICKLY = "the cases of the full plan that the quick one leaves out"
NO_MODULE = "ModuleNotFoundError"
WARM_UP, LEAST_WARM_UP_S = 5.0, 30.0  # of limits: to load a target and for its first case, which compiles
Tried = tuple[Case, Outcome, tuple[Finding, ...]]
Say = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Examination:
    """A report with all that it was made from: the specification, and each case with what came of it."""

    report: Report
    spec: Spec
    tried: tuple[Tried, ...]


@dataclass(frozen=True)
class About:
    """What a report says beside the cases: who was examined, how, since when."""

    target: str
    seed: int
    started: float
    versions: Mapping[str, str]
    notes: tuple[str, ...] = ()
    command: str = ""


def examine(
    subject: Any,
    spec: Spec | None = None,
    *,
    seed: int = 0,
    quick: bool = False,
    isolate: bool | None = None,
    limit_s: float = 60.0,
    cases: Sequence[str] | None = None,
) -> Report:
    """Return the report on an implementation of attention.

    ``subject`` is a target, "file.py:name" or "module:name", which runs in a child process unless ``isolate``
    is False; or an object with ``forward(case)`` and ``backward(case, saved)``, or a function of torch, which
    run in this one. ``spec`` says what it claims; without one its own is taken. ``quick`` takes few cases,
    and ``cases`` those of some names alone. A case of a child has ``limit_s`` seconds, the first one 5 times
    that and 30 at least.

    Raises: CannotRun for a target that cannot be loaded, or that supports no case; RangeError for the
    name of no case, or for an object that is to be isolated.

    >>> found = examine(lambda q, k, v: q, Spec(scale="default"), quick=True, cases=["basic"])
    >>> found.verdict, {finding.what for finding in found.findings} >= {"o", "dk", "dv"}
    ('wrong', True)
    """
    return examination(
        subject, spec, seed=seed, quick=quick, isolate=isolate, limit_s=limit_s, cases=cases
    ).report  # fmt: skip


def examination(
    subject: Any,
    spec: Spec | None = None,
    *,
    seed: int = 0,
    quick: bool = False,
    isolate: bool | None = None,
    limit_s: float = 60.0,
    cases: Sequence[str] | None = None,
    changes: Mapping[str, Any] | None = None,
    command: str = "",
    say: Say | None = None,
) -> Examination:
    """Return the report of `examine` with all that it was made from.

    ``changes`` are fields that replace those of the specification, ``command`` is what the report prints to
    run it again, and ``say`` is told each case before it runs.

    Raises: what `examine` raises, and what Spec raises for a change.
    """
    started = time.monotonic()
    with _runner(subject, spec, isolate, limit_s) as runner:
        told = runner.describe()
        claimed = replace(spec or told.spec or Spec(), **(changes or {}))
        planned = planning.plan(claimed, seed=seed, quick=quick, rows=runner.rows)
        chosen = selected(planned, cases)
        ran = [(case, runner.run(case, claimed)) for case in _announced(chosen, say)]
        versions = {**told.versions, **_later_versions(runner, ran)}
    notes = [*told.notes, *left_out(planned)]
    notes += [text for text, said in ((QUICKLY, quick), (CHOSEN, cases is not None)) if said]
    return concluded(About(_name(subject), seed, started, versions, tuple(notes), command), claimed, ran)


def concluded(about: About, spec: Spec, ran: Iterable[tuple[Case, Outcome]]) -> Examination:
    """Return the examination of cases that were run or answered.

    Raises: CannotRun if no case is supported, or a module is missing in all.
    """
    tried = tuple((case, outcome, tuple(verdicts.judge(case, outcome, spec))) for case, outcome in ran)
    _check_ran(tried)
    supported = tuple(one for one in tried if one[1].status != "unsupported")
    probed, contradictions = probing.probe(supported, spec)
    findings = (*(finding for *_, found in supported for finding in found), *contradictions)
    report = Report(
        target=about.target,
        verdict=verdicts.verdict(findings),
        findings=_sorted(findings, supported),
        diagnosis=diagnosing.diagnose(supported, spec),
        probe=tuple(probed),
        tried=tuple(case.name for case, *_ in supported),
        not_tried=(*_unsupported(tried), *planning.not_tried(spec), *about.notes),
        not_exercised=_not_exercised(supported),
        spec=spec.to_json(),
        seed=about.seed,
        versions=dict(about.versions),
        seconds=time.monotonic() - about.started,
        command=about.command,
    )
    return Examination(report, spec, supported)


def left_out(planned: Sequence[Case]) -> tuple[str, ...]:
    """Return a sentence for each case of a plan whose sizes a map of the owner's own refuses."""
    return tuple(planned[0].notes.get("left out", "").splitlines())


def _check_ran(tried: Sequence[Tried]) -> None:
    """Refuse to judge what never ran: no case is supported, or every one lacks a module.

    Raises: CannotRun with the reasons.
    """
    came = [outcome for _, outcome, _ in tried]
    refused = [one for one in came if one.status == "unsupported" or NO_MODULE in one.text]
    if len(refused) == len(tried):
        told = "; ".join(dict.fromkeys(outcome.text or "unsupported" for outcome in refused))
        hint = "; install torch, or claim framework='numpy'" if "named 'torch'" in told else ""
        raise running.CannotRun(f"{told or 'no case was tried'}{hint}")


def selected(planned: Sequence[Case], names: Sequence[str] | None) -> tuple[Case, ...]:
    """Return the cases of some names in the order of the plan, all of them for None.

    Raises: RangeError for the name of no case, with those near it; DtypeError for one text.
    """
    if names is None:
        return tuple(planned)
    if isinstance(names, str):
        raise DtypeError(f"cases: expected a sequence of names, got {names!r}")
    known = [case.name for case in planned]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.4) or known
            raise RangeError(f"cases: expected a name such as {', '.join(near)}, got {name!r}")
    return tuple(case for case in planned if case.name in names)


def _runner(subject: Any, spec: Spec | None, isolate: bool | None, limit_s: float) -> Any:
    """Return what runs the cases: a child process for a target, this process for an object."""
    target = isinstance(subject, str)
    if isolate and not target:
        raise RangeError("isolate: expected False for an object, which no child process can load, got True")
    if target and isolate is not False:
        return running.Child(subject, limit_s=limit_s, warm_up_s=max(LEAST_WARM_UP_S, WARM_UP * limit_s))
    return running.InProcess(subject, spec)


def _later_versions(runner: Any, ran: Sequence[tuple[Case, Outcome]]) -> Mapping[str, str]:
    """Return the versions of what the cases made an implementation load; a process that died is left."""
    alive = bool(ran) and ran[-1][1].status in ("ok", "error", "unsupported")
    return runner.describe().versions if alive else {}


def _announced(cases: Sequence[Case], say: Say | None) -> Iterator[Case]:
    """Yield each case, said before it runs."""
    for number, case in enumerate(cases, start=1):
        if say is not None:
            say(f"{number}/{len(cases)} {case.name}")
        yield case


def _name(subject: Any) -> str:
    """Return how a report calls a subject."""
    if isinstance(subject, str):
        return subject
    named = subject if hasattr(subject, "__name__") else type(subject)
    module = getattr(named, "__module__", None)
    return f"{module}:{named.__name__}" if isinstance(module, str) else named.__name__


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the second entries by the first, in the order in which they come."""
    groups: dict[str, list[str]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def _unsupported(tried: Sequence[Tried]) -> tuple[str, ...]:
    """Return a sentence for each reason that was given for not doing cases."""
    refused = ((came.text, case.name) for case, came, _ in tried if came.status == "unsupported")
    groups = _grouped(refused)
    return tuple(f"{', '.join(names)}: {reason or 'unsupported'}" for reason, names in groups.items())


def _not_exercised(tried: Sequence[Tried]) -> tuple[str, ...]:
    """Return a sentence for each option that does not act on a case that was to show it."""
    idle = ((text, case.name) for case, outcome, _ in tried if outcome.status == "ok"
            for text in oracle.not_exercised(case))  # fmt: skip
    return tuple(f"{text} ({', '.join(names)})" for text, names in _grouped(idle).items())


def _sorted(findings: Sequence[Finding], tried: Sequence[Tried]) -> tuple[Finding, ...]:
    """Return findings by answer, then by kind, the smallest case first; then what follows from them."""
    answers, kinds = (*FORWARD, *GRADIENTS), tuple(KINDS)
    cost = {case.name: (case.q.size * case.k.shape[2], number) for number, (case, *_) in enumerate(tried)}

    def place(finding: Finding) -> tuple:
        what = answers.index(finding.what) if finding.what in answers else -1
        follows = finding.kind in ("law", "probe")
        return follows, what, kinds.index(finding.kind), cost.get(finding.case, (0, 0))

    return tuple(sorted(findings, key=place))
