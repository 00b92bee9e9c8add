"""The doctor from the command line: ``attention-doctor file.py:name``.

It examines an implementation of attention, and its exit status is 0 if all is healthy, 1 if something is
wrong, 2 if it could not run. ``attention-doctor cases --out FILE``, ``show FILE`` and ``judge FILE ANSWERS``
do the same by files, for programs in any language; ``attention-doctor cases --explain`` tells their format.
"""

import argparse
import sys
import traceback
from collections.abc import Sequence

from attngrad.doctor.examining import Examination, examination
from attngrad.doctor.running.runners import CannotRun
from attngrad.doctor.spec import Spec
from attngrad.doctor.telling import asking, door, reproduction
from attngrad.doctor.telling import reports as telling
from attngrad.doctor.telling.door_format import FORMAT
from attngrad.mistakes.whole import STATE, WHOLE
from attngrad.notation import DtypeError, RangeError, ShapeError

PROGRAM = "attention-doctor"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status: 0 healthy, 1 something is wrong, 2 it could not run."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    commands = {"cases": _cases, "judge": _judge, "show": _show}
    chosen = words[0] if words and words[0] in commands else ""
    try:
        return commands[chosen](words[1:]) if chosen else _examine(words)
    except (CannotRun, RangeError, DtypeError, ShapeError, OSError) as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{PROGRAM}: interrupted", file=sys.stderr)
        return 2
    except Exception:  # status 1 would say that the implementation is wrong
        traceback.print_exc()
        print(f"{PROGRAM}: this is a mistake of the doctor, not of the implementation", file=sys.stderr)
        return 2


def _examine(words: Sequence[str]) -> int:
    """Examine a target."""
    parser = argparse.ArgumentParser(prog=PROGRAM, description=(__doc__ or "").replace("`", ""))
    add = parser.add_argument
    add("target", nargs="?", help="file.py:name, file.py or module:name; or cases, judge, show")
    add("--list-mistakes", action="store_true", help="print the mistakes that it knows by name")
    add("--quick", action="store_true", help="few cases, each option once")
    add("--seed", type=int, default=0, metavar="N", help="of all random numbers (default 0)")
    limit = "seconds for a case (default 60); for the first 5 times that"
    add("--limit-s", type=float, default=60.0, metavar="S", help=limit)
    _add_output(parser)
    asking.add_fields(parser)
    asked = parser.parse_args(words)
    if asked.list_mistakes:
        print("\n".join(f"{id}\n    {whole.text}" for id, whole in sorted({**WHOLE, **STATE}.items())))
        return 0
    if not asked.target:
        parser.error("a target is needed, such as file.py:name")
    if not asked.limit_s > 0.0:
        parser.error(f"--limit-s: expected a positive number, got {asked.limit_s}")
    say = _progress if sys.stderr.isatty() else None
    examined = examination(
        asked.target, seed=asked.seed, quick=asked.quick, limit_s=asked.limit_s, cases=asked.case,
        changes=asking.changes(asked), command=asking.command(PROGRAM, words), say=say,
    )  # fmt: skip
    if say is not None:
        print("\r\033[K", end="", file=sys.stderr)
    return _told(examined, asked, asked.target)


def _cases(words: Sequence[str]) -> int:
    """Write the cases of a specification."""
    told = "Write cases that any program answers."
    parser = argparse.ArgumentParser(prog=f"{PROGRAM} cases", description=told)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", metavar="PATH", help="an .npz, or a folder of .npy files")
    what.add_argument("--explain", action="store_true", help="print the format of cases and answers")
    parser.add_argument("--quick", action="store_true", help="few cases, each option once")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of all random numbers (default 0)")
    asking.add_fields(parser)
    asked = parser.parse_args(words)
    if asked.explain:
        print(FORMAT, end="")
        return 0
    spec = Spec(**{"framework": "numpy", **asking.changes(asked)})
    planned = door.write_cases(asked.out, spec, seed=asked.seed, quick=asked.quick)
    print(f"{len(planned)} cases in {asked.out}; `{PROGRAM} cases --explain` tells the format")
    return 0


def _judge(words: Sequence[str]) -> int:
    """Judge a file of answers."""
    parser = argparse.ArgumentParser(prog=f"{PROGRAM} judge", description="Judge answers to cases of a file.")
    parser.add_argument("cases", help="what `cases --out` wrote")
    parser.add_argument("answers", help="an .npz, or a folder of .npy files")
    _add_output(parser)
    asked = parser.parse_args(words)
    return _told(door.judge(asked.cases, asked.answers, names=asked.case), asked, None)


def _show(words: Sequence[str]) -> int:
    """List the cases of a file."""
    parser = argparse.ArgumentParser(prog=f"{PROGRAM} show", description="List the cases of a file.")
    parser.add_argument("cases", help="what `cases --out` wrote")
    print(door.listing(parser.parse_args(words).cases), end="")
    return 0


def _add_output(parser: argparse.ArgumentParser) -> None:
    """Add the options on which cases to take and how to report."""
    add = parser.add_argument
    add("--case", action="append", metavar="NAME", help="this case alone; may be given several times")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the report as JSON")
    form.add_argument("--markdown", action="store_true", help="print the report as Markdown")
    add("--out", metavar="DIR", help="write report.json, report.md and a script for each finding")
    add("--allow-low-precision", action="store_true", help="status 0 where only the precision is low")


def _told(examined: Examination, asked: argparse.Namespace, target: str | None) -> int:
    """Print the report, write the files that are asked for, and return the exit status."""
    report = examined.report
    form = telling.as_json if asked.json else telling.as_markdown if asked.markdown else telling.as_text
    print(form(report), end="")
    if asked.out:
        written = reproduction.write(asked.out, examined, target)
        print(f"{PROGRAM}: {len(written)} files in {asked.out}", file=sys.stderr)
    fine = ("healthy", "imprecise") if asked.allow_low_precision else ("healthy",)
    return 0 if report.verdict in fine else 1


def _progress(text: str) -> None:
    """Show which case runs, on one line of a terminal."""
    print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
