"""The proofs from the command line: ``python -m attngrad.proofs``.

Without arguments: every claim of the book, its mistakes and its mutants; the exit status is 1 when
anything fails. With a formula in quotes: how it is read, and what the proofs make of it.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from .claim import Identity
from .examine import Result, examine, page_formulas
from .ledger import PAGES, chapter, chapters
from .page import book_root
from .prove import Context, judge
from .read import ReadError, explain, read
from .report import ledger_page, row, summary


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    options = _parser().parse_args(arguments)
    if options.formula:
        return _read_one(options)
    found = _examine_all(options)
    faults = [f for _, results in found for r in results for f in r.faults]
    for fault in faults:
        print(f"FAULT {fault}", file=sys.stderr)
    if options.page or options.no_mutants:
        return 1 if faults else 0
    target = book_root() / "book" / "ledger.md"
    if not faults and options.write:
        target.write_text(ledger_page(found), encoding="utf-8")
        print(f"wrote {target.relative_to(book_root())}")
    if not faults and options.check:
        faults = _stale(target, ledger_page(found))
    return 1 if faults else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m attngrad.proofs", description=__doc__.partition("\n\n")[2]
    )
    parser.add_argument("formula", nargs="?", help="a formula in LaTeX: say how it is read and judge it")
    parser.add_argument(
        "--page", choices=PAGES, help="only this page; for a formula, the page whose notation applies"
    )
    parser.add_argument(
        "--uses", default="", metavar="LABELS", help="for a formula: labels it builds on, separated by commas"
    )
    parser.add_argument(
        "--assume", default="", metavar="LABELS", help="for a formula: hypotheses, separated by commas"
    )
    parser.add_argument("--no-mutants", action="store_true", help="verdicts and known mistakes only")
    parser.add_argument("--write", action="store_true", help="write book/ledger.md when all is well")
    parser.add_argument(
        "--check", action="store_true", help="fail when book/ledger.md is not what these proofs give"
    )
    parser.add_argument("--workers", type=int, default=2, help="processes (default 2)")
    return parser


def _examine_all(options: argparse.Namespace) -> list[tuple]:
    pages = [chapter(options.page)] if options.page else chapters()
    start, cpu, out = time.perf_counter(), 0.0, []
    with ProcessPoolExecutor(options.workers) as pool:
        for one in pages:
            print(f"{one.page}")
            jobs = [pool.submit(_job, one.page, c.label, not options.no_mutants) for c in one.claims]
            results = []
            for job in jobs:
                results.append(job.result())
                print("  " + row(results[-1]), flush=True)
            out.append((one, results))
            cpu += sum(r.seconds + r.mutant_seconds for r in results)
            print(f"  {summary(results)}")
    proofs = sum(r.seconds for _, results in out for r in results)
    claims = sum(len(results) for _, results in out)
    print(
        f"{time.perf_counter() - start:.1f} s on {options.workers} processes; for {claims} entries "
        f"{proofs:.1f} CPU-s verdicts and mistakes, {cpu - proofs:.1f} CPU-s mutants"
    )
    return out


def _job(page: str, label: str, mutants: bool) -> Result:
    one = chapter(page)
    return examine(one, page_formulas(one), one[label], mutants)


def _stale(target: Path, fresh: str) -> list[str]:
    if target.is_file() and target.read_text(encoding="utf-8") == fresh:
        return []
    print(
        f"FAULT {target.name} is not what the proofs give; run `make proofs` and commit it", file=sys.stderr
    )
    return [target.name]


def _read_one(options: argparse.Namespace) -> int:
    one = chapter(options.page or PAGES[0])
    try:
        reading = read(options.formula, one.table)
    except ReadError as error:
        print(error, file=sys.stderr)
        return 1
    print(explain(reading))
    labels = [x for x in options.uses.split(",") if x]
    try:
        claim = Identity("eq-question", tuple(labels), tuple(x for x in options.assume.split(",") if x))
        verdict = judge(Context(one, page_formulas(one), claim), claim, options.formula)
    except KeyError as missing:
        print(f"{missing.args[0]}; labels are in the ledger of {one.page}", file=sys.stderr)
        return 1
    print(verdict if labels else f"{verdict} (no definitions in force; name them with --uses)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
