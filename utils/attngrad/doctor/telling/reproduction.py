"""Files of a report: JSON, Markdown, and for each finding a script that shows it with NumPy alone."""

import json
import os
import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from attngrad.doctor import exchange
from attngrad.doctor.case import Case
from attngrad.doctor.examining import Examination
from attngrad.doctor.judging import bounds, oracle
from attngrad.doctor.outcome import Finding
from attngrad.doctor.running import inside
from attngrad.doctor.spec import Spec
from attngrad.doctor.telling import replay
from attngrad.doctor.telling import reports as telling
from attngrad.doctor.telling.formula import formula
from attngrad.notation import RangeError

HARNESS, INSIDE = "doctor_replay", "doctor_inside"
SCRIPT = '''"""{text}

Target {place}, case {case}: {why}
It needs NumPy, what lies beside it, and whatever the target needs. It prints what the target gives and what
the formula gives, and ends with status 1 if they differ. It is run in the folder where the doctor was:

    python {script}
"""

import sys
from pathlib import Path

import numpy as np

TARGET = {target!r}


{formula}

if __name__ == "__main__":
    from {harness} import replay  # the file beside this one

    sys.exit(replay(formula, TARGET, Path(__file__).with_suffix(".npz")))
'''


def write(folder: str | Path, examined: Examination, target: str | None) -> tuple[Path, ...]:
    """Write report.json, report.md and, for each answer and kind that is wrong, a script; return the paths.

    A script is repro_CASE.py beside repro_CASE.npz, for the smallest case of each answer and kind. They load
    ``target``; without one, as for answers from a file, there are no scripts.

    Raises: RangeError for a path that is a file; OSError for one that cannot be written.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise RangeError(f"--out: expected a folder, got the file {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / "report.json", folder / "report.md"]
    written[0].write_text(telling.as_json(examined.report), encoding="utf-8")
    written[1].write_text(telling.as_markdown(examined.report), encoding="utf-8")
    findings = dict(_to_show(examined)) if target else {}
    if findings:
        written.append(folder / f"{HARNESS}.py")
        written[-1].write_text(Path(replay.__file__).read_text())
        _copy_inside(folder / INSIDE)
    cases = {case.name: case for case, *_ in examined.tried}
    for finding in findings.values():
        case = cases[finding.case]
        script = folder / f"repro_{case.name}.py"
        stored = _stored(case, _before(case, examined), examined.spec)
        np.savez_compressed(script.with_suffix(".npz"), **stored)
        text = _script(script, case, examined.spec, finding, _reachable(target or ""))
        script.write_text(text, encoding="utf-8")
        written += [script, script.with_suffix(".npz")]
    return tuple(written)


def _to_show(examined: Examination) -> Iterator[tuple[str, Finding]]:
    """Yield the case and the finding of each script: the smallest case of each answer and kind."""
    shown: set[str] = set()
    cases = {case.name for case, *_ in examined.tried}
    for (first, *_) in telling.grouped(examined.report.findings).values():
        if first.case in cases and first.case not in shown:
            shown.add(first.case)
            yield first.case, first


def _before(case: Case, examined: Examination) -> tuple[Case, ...]:
    """Return cases that an implementation may remember, in their order.

    These are the first of all, the first of the same lengths, that with the same shape of bias, and the last.
    """
    order = [one for one, *_ in examined.tried]
    at = order.index(case)
    lengths = [(one.sizes["N"], one.sizes["M"]) for one in order]
    biases = [np.shape(one.bias if one.table is None else one.table) for one in order]
    kept = {0, lengths.index(lengths[at]), biases.index(biases[at]), at - 1}
    return tuple(order[k] for k in sorted(kept) if 0 <= k < at)


def _stored(case: Case, before: tuple[Case, ...], spec: Spec) -> dict[str, np.ndarray]:
    """Return the arrays of a case and of those before it, as given, and how far rounding reaches."""
    claims, stored = json.loads(spec.to_json()), {}
    for prefix, one in (("", case), *((f"before{number}_", one) for number, one in enumerate(before))):
        told = {**exchange.told(one, spec), "claims": claims}
        stored[f"{prefix}told"] = np.array(json.dumps(told, default=int))
        stored |= {prefix + name: x for name, x in exchange.case_arrays(one, spec).items()}
    exact = oracle.answers(case)
    for name, bound in bounds.healthy(case, exact).items():
        full = np.broadcast_to(bound, exact[name].shape)
        stored[f"bound_{name}"] = exchange.turned(name, full, spec)
    return stored


def _copy_inside(folder: Path) -> None:
    """Copy what runs an implementation, which needs NumPy alone."""
    folder.mkdir(exist_ok=True)
    for source in Path(inside.__file__).parent.glob("*.py"):
        shutil.copyfile(source, folder / source.name)


def _reachable(target: str) -> str:
    """Return a target by a file with its whole path, and any other as it is."""
    place, sign, name = target.rpartition(":") if not target.endswith(".py") else (target, "", "")
    return f"{os.path.abspath(place)}{sign}{name}" if place.endswith(".py") else target


def _quotable(text: str) -> str:
    """Return a text that may stand inside a docstring."""
    return text.replace("\\", "\\\\").replace('"', "'")


def _script(script: Path, case: Case, spec: Spec, finding: Finding, target: str) -> str:
    """Return the text of a script."""
    first = f"{finding.what} {finding.kind}".strip()
    text = textwrap.fill(f"{first}: {finding.text}", 106, break_long_words=False)
    return SCRIPT.format(
        text=_quotable(text), place=_quotable(target), target=target, case=case.name, why=_quotable(case.why),
        harness=HARNESS, script=script.name, formula=formula(case, spec),
    )  # fmt: skip
