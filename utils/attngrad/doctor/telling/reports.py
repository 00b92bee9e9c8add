"""A report as text of 72 columns, as JSON and as Markdown."""

import json
import math
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from attngrad.doctor.outcome import KINDS, Finding, Report
from attngrad.mistakes.whole import STATE, WHOLE

WIDTH = 72
SHORT = 5  # findings in the short form
NAMED = 8  # cases that a finding lists
UNCLAIMED = "; not claimed"
VERDICTS = {
    "healthy": "no gradient is wrong on the cases that were tried",
    "imprecise": "the formulas are right, the precision is low",
    "wrong": "something is wrong",
}


def as_text(report: Report, *, short: bool = False) -> str:
    """Return a report as text: verdict, mistake, findings, what is computed, and what was not tried.

    The short form holds the verdict, the mistake and the first findings, for the message of an error.
    """
    lines = [*_head(report), *_diagnosed(report), *_found(report, SHORT if short else None)]
    if not short:
        lines += _list("What the forward pass computes", report.probe)
        lines += _list("Not tried", _joined(report.not_tried))
        lines += _list("Not exercised", report.not_exercised)
        lines += ["", *_wrapped(_how(report))]
    return "\n".join(lines).strip("\n") + "\n"


def again(report: Report, finding: Finding) -> str:
    """Return the command that runs the case of a finding alone; "" where there is none."""
    return f"{report.command} --case {finding.case}" if report.command and finding.case else ""


def grouped(findings: Iterable[Finding]) -> dict[tuple[str, str], list[Finding]]:
    """Return findings by answer and kind, in the order of the report: the smallest case first."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.what, finding.kind), []).append(finding)
    return groups


def as_json(report: Report) -> str:
    """Return a report as JSON: every field, keys in a fixed order, NaN and infinities as texts.

    ``kinds`` explains the kinds that occur, and ``mistakes`` the names; each finding has the command that
    runs its case ``again``.
    """
    told = asdict(report)
    told["findings"] = [{**asdict(finding), "again": again(report, finding)} for finding in report.findings]
    told["kinds"] = {kind: KINDS[kind] for kind in sorted({finding.kind for finding in report.findings})}
    told["mistakes"] = {id: {"text": text, "seen": seen} for id, text, seen in _mistakes(report)}
    told["spec"] = json.loads(report.spec)
    return json.dumps(_plain(told), indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def as_markdown(report: Report) -> str:
    """Return a report as Markdown, for an issue tracker."""
    lines = [f"## `{report.target}`: {report.verdict}", "", f"{_summary(report)}.", ""]
    lines += [f"- {' or '.join(f'**{id}**' for id in equals)}" for equals in report.diagnosis.names]
    lines += [f"  - {id}: {_cell(text)} Seen: {_cell(seen)}" for id, text, seen in _mistakes(report)]
    lines += [""] if report.diagnosis.names else []
    lines += [_said(report), ""] if _said(report) else []
    if report.findings:
        lines += ["| answer | kind | case | finding | other cases |", "| --- | --- | --- | --- | --- |"]
        for (what, kind), (first, *others) in grouped(report.findings).items():
            rest = ", ".join(finding.case for finding in others[:NAMED])
            rest += f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
            lines.append(f"| {what} | {kind} | {first.case} | {_cell(first.text)} | {rest} |")
        lines.append("")
    if command := next((again(report, finding) for finding in report.findings), ""):
        lines += ["The first finding again:", "", "```sh", command, "```", ""]
    parts = {"What the forward pass computes": report.probe, "Not tried": _joined(report.not_tried),
             "Not exercised": report.not_exercised}  # fmt: skip
    for title, sentences in parts.items():
        if sentences:
            lines += [f"### {title}", "", *(f"- {sentence}" for sentence in sentences), ""]
    return "\n".join([*lines, _how(report)]) + "\n"


def _head(report: Report) -> Iterator[str]:
    """Yield the first lines: who was examined, and the verdict."""
    yield from _wrapped(f"{report.target}: {report.verdict.upper()}")
    yield from _wrapped(f"{_summary(report)}.")


def _summary(report: Report) -> str:
    """Return the verdict as a clause with the numbers of cases."""
    sick = {finding.case for finding in report.findings}
    tried = f"{len(report.tried)} case{'s' * (len(report.tried) != 1)}"
    found = f"findings in {len(sick)} of {tried}" if sick else f"{tried} tried"
    return f"{VERDICTS[report.verdict].capitalize()}; {found}"


def _mistakes(report: Report) -> Iterator[tuple[str, str, str]]:
    """Yield each mistake of the diagnosis with its sentence, and where it was seen."""
    for id in dict.fromkeys(id for equals in report.diagnosis.names for id in equals):
        whole = WHOLE.get(id) or STATE.get(id)
        yield (id, whole.text, whole.seen) if whole else (id, "", "")


def _diagnosed(report: Report) -> Iterator[str]:
    """Yield the part on the known mistakes that explain all answers."""
    if not report.diagnosis.names and not _said(report):
        return
    told = {id: (text, seen) for id, text, seen in _mistakes(report)}
    yield from ("", "Diagnosis")
    for equals in report.diagnosis.names:
        yield from _wrapped(" or ".join(equals), "  ")
        for id in equals:
            text, seen = told[id]
            yield from _wrapped(text, "    ")
            yield from _wrapped(f"seen: {seen}", "    ") if seen else ()
    yield from _wrapped(_said(report), "  ")


def _said(report: Report) -> str:
    """Return the text of the diagnosis; where wrong numbers have no name and no text, that it is unknown."""
    known = report.diagnosis.names or not any(one.kind in ("wrong", "nan") for one in report.findings)
    return report.diagnosis.text or ("" if known else "unknown: no known mistake explains every answer")


def _found(report: Report, most: int | None) -> Iterator[str]:
    """Yield the findings by answer and kind: the smallest case in full, the others by name."""
    groups = grouped(report.findings)
    if groups:
        yield from ("", "Findings")
    for (what, kind), (first, *others) in list(groups.items())[:most]:
        told = "" if KINDS[kind] in first.text else f" ({KINDS[kind]})"
        yield from _wrapped(f"{what}: {kind}{told}" if what else f"{kind}{told}", "  ")
        yield from _wrapped(f"{first.case}: {first.text}", "    ")
        if others:
            more = f" and {len(others) - NAMED} more" if len(others) > NAMED else ""
            names = ", ".join(finding.case for finding in others[:NAMED])
            yield from _wrapped(f"also in {names}{more}", "    ")
        if command := again(report, first):
            yield f"    again: {command}"  # never wrapped: it is copied
    if most is not None and len(groups) > most:
        yield f"  and {len(groups) - most} more"


def _list(title: str, sentences: Iterable[str]) -> list[str]:
    """Return a titled list of sentences, nothing without one."""
    lines = [line for sentence in sentences for line in _wrapped(sentence, "  - ", "    ")]
    return ["", title, *lines] if lines else []


def _joined(sentences: Iterable[str]) -> list[str]:
    """Return sentences on what was not tried, those on what is not claimed in one."""
    unclaimed = [one.partition(":")[0] for one in sentences if one.endswith(UNCLAIMED)]
    others = [one for one in sentences if not one.endswith(UNCLAIMED)]
    return [*others, *([f"not claimed: {', '.join(unclaimed)}"] if unclaimed else [])]


def _how(report: Report) -> str:
    """Return the line on seed, time and versions."""
    versions = ", ".join(f"{name} {version}" for name, version in sorted(report.versions.items()))
    return f"Seed {report.seed}, {report.seconds:.1f} s{', ' * bool(versions)}{versions}."


def _wrapped(text: str, first: str = "", later: str | None = None) -> list[str]:
    """Return a text in lines of 72 columns; addresses are not broken."""
    rest = "".ljust(len(first)) if later is None else later
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest,
                         break_long_words=False, break_on_hyphens=False)  # fmt: skip


def _cell(text: str) -> str:
    """Return a text that fits into a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")


def _plain(value: Any) -> Any:
    """Return what JSON can hold: lists for tuples, numbers of Python, texts for what is not finite."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
