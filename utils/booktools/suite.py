"""Runs the parts of `make test` one after the other and prints the time of each.

A part that fails does not hide the others; the exit status is 1 when any failed.
"""

import argparse
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

from booktools.paths import BUILD, ROOT

REPORTS = BUILD / "reports"
PYTHON = sys.executable
PARALLEL = ("-n", "2")
# Cells of one notebook share a kernel, so they must stay on one worker.
NBVAL = ("--nbval-current-env", *PARALLEL, "--dist", "loadfile")


@dataclass(frozen=True)
class Part:
    """A named step of the suite: commands that must all succeed."""

    name: str
    commands: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Outcome:
    """What became of a part; the counts are pytest's, and a part that fails without it counts as one."""

    name: str
    ok: bool
    wall_s: float
    cpu_s: float
    passed: int = 0
    failed: int = 0
    skipped: int = 0


def module(name: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs a module of this environment."""
    return (PYTHON, "-m", name, *arguments)


def pytest(part: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs pytest and leaves a report that can be counted."""
    return module("pytest", "-q", f"--junitxml={REPORTS / part}.xml", *arguments)


def without_triton() -> tuple[str, ...]:
    """Return what leaves the kernels out where there is no Triton, which their modules import."""
    return () if find_spec("triton") else ("--ignore=utils/attngrad/kernels",)


def parts(everything: bool, nbval: str) -> list[Part]:
    """Return the parts in order: what fails fast comes first."""
    chosen = () if everything else ("-m", "not slow")
    checks = ("sync", "execute", "status", "cards", "errata")
    lint = (module("ruff", "check", "."), *(module(f"booktools.{name}", "--check") for name in checks))
    return [
        Part("lint", lint),
        Part("proofs", (module("attngrad.proofs", "--check"),)),
        Part("unit", (pytest("unit", *PARALLEL, *chosen, "tests/unit"),)),
        Part("conformance", (pytest("conformance", *PARALLEL, *chosen, "tests/conformance"),)),
        Part("meta", (pytest("meta", *PARALLEL, *chosen, "tests/meta"),)),
        Part("doctest", (pytest("doctest", *PARALLEL, *without_triton(), "--doctest-modules", "utils"),)),
        Part("chapters", (pytest("chapters", nbval, *NBVAL, "chapters"),)),
        Part("site", (module("booktools.build"), pytest("site", *PARALLEL, *chosen, "tests/site"))),
    ]


def counts(report: Path) -> tuple[int, int, int]:
    """Return how many tests of a report passed, failed and were skipped; zeros when there is none."""
    if not report.exists():
        return 0, 0, 0
    suites = list(ElementTree.parse(report).getroot().iter("testsuite"))
    total, failures, errors, skipped = (
        sum(int(suite.get(key, "0")) for suite in suites)
        for key in ("tests", "failures", "errors", "skipped")
    )
    failed = failures + errors
    return max(total - failed - skipped, 0), failed, skipped


def cpu_of_children() -> float:
    """Return the processor time, in seconds, of all finished child processes so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_part(part: Part) -> Outcome:
    """Run one part, its output passing straight through."""
    report = REPORTS / f"{part.name}.xml"
    report.unlink(missing_ok=True)
    print(f"\n== {part.name} ==", flush=True)
    start, cpu = time.monotonic(), cpu_of_children()
    # All commands run, so that one report shows all that is wrong.
    statuses = [subprocess.run(command, cwd=ROOT, check=False).returncode for command in part.commands]
    wall, cpu = time.monotonic() - start, cpu_of_children() - cpu
    passed, failed, skipped = counts(report)
    if any(statuses):
        failed = max(failed, 1)
    return Outcome(part.name, not any(statuses), wall, cpu, passed, failed, skipped)


def table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield the lines of the closing table, and last the counts of all tests."""
    yield f"{'part':<12} {'result':<7} {'passed':>7} {'failed':>7} {'skipped':>8} {'wall s':>8} {'CPU s':>8}"
    for one in outcomes:
        yield (
            f"{one.name:<12} {'ok' if one.ok else 'FAILED':<7} {one.passed:>7} {one.failed:>7} "
            f"{one.skipped:>8} {one.wall_s:>8.1f} {one.cpu_s:>8.1f}"
        )
    passed, failed, skipped, wall, cpu = (
        sum(getattr(one, key) for one in outcomes)
        for key in ("passed", "failed", "skipped", "wall_s", "cpu_s")
    )
    ok = all(one.ok for one in outcomes)
    yield (
        f"{'all':<12} {'ok' if ok else 'FAILED':<7} {passed:>7} {failed:>7} "
        f"{skipped:>8} {wall:>8.1f} {cpu:>8.1f}"
    )
    if broken := [one.name for one in outcomes if not one.ok]:
        yield f"failed: {', '.join(broken)}"
    yield f"{passed} passed, {failed} failed, {skipped} skipped"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts that are named, or all of them."""
    parser = argparse.ArgumentParser(prog="python -m booktools.suite", description=__doc__)
    parser.add_argument("names", nargs="*", help="some parts only, in the order of the suite")
    parser.add_argument("--all", action="store_true", help="also the tests marked slow")
    parser.add_argument("--nbval", default="--nbval", choices=("--nbval", "--nbval-lax"))
    options = parser.parse_args(arguments)
    known = parts(options.all, options.nbval)
    if unknown := set(options.names) - {part.name for part in known}:
        expected = ", ".join(part.name for part in known)
        parser.error(f"expected parts among {expected}; got {', '.join(sorted(unknown))}")
    chosen = [part for part in known if not options.names or part.name in options.names]
    site = any(part.name == "site" for part in chosen)
    if site and subprocess.run(module("booktools.browser"), cwd=ROOT, check=False).returncode != 0:
        return 1
    shutil.rmtree(REPORTS, ignore_errors=True)
    REPORTS.mkdir(parents=True)
    outcomes = [run_part(part) for part in chosen]
    print("\n" + "\n".join(table(outcomes)))
    return int(not all(one.ok for one in outcomes))


if __name__ == "__main__":
    sys.exit(main())
