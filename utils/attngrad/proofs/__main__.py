"""The proofs from the command line: ``python -m attngrad.proofs``.

Without a formula: every claim of the book, its mistakes and its mutants; the exit status is 1 when
anything fails. With a formula in quotes: how it is read, and what the proofs make of it.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from .ask import ask
from .claim import LedgerError
from .examine import Result, examine, page_formulas
from .ledger import PAGES, chapter, chapters
from .page import PageError, book_root
from .read import ReadError
from .report import ledger_page, row, summary

READ_AS = re.compile(r"^\(claim-([a-z0-9-]+)\)=\n(?:.+\n)*?.*Read as `([0-9a-f]+)`", re.M)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status: 0 all is well, 1 something fails, 2 it could not run."""
    options = _parser().parse_args(arguments)
    if options.book:
        os.environ["ATTNGRAD_BOOK"] = options.book
    try:
        if options.formula:
            print(
                ask(options.formula, options.page or PAGES[0], _labels(options.uses), _labels(options.assume))
            )
            return 0
        return _prove_all(options)
    except RecursionError:
        print("error: this formula is nested too deeply", file=sys.stderr)
        return 2
    except (ReadError, LedgerError, PageError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _labels(text: str) -> tuple[str, ...]:
    return tuple(x.strip() for x in text.split(",") if x.strip())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m attngrad.proofs", description=__doc__.partition("\n\n")[2]
    )
    add = parser.add_argument
    add("formula", nargs="?", help="a formula in LaTeX: say how it is read, and judge it")
    add("--page", choices=PAGES, help="only this page; for a formula, the page whose notation applies")
    add("--uses", default="", metavar="LABELS", help="for a formula: the definitions in force, by label")
    add("--assume", default="", metavar="LABELS", help="for a formula: the hypotheses in force, by label")
    add("--book", metavar="FOLDER", help="the folder that holds book/text (default: where the library lies)")
    add("--no-mutants", action="store_true", help="verdicts and known mistakes only")
    add("--write", action="store_true", help="write book/ledger.md when all is well")
    add("--check", action="store_true", help="fail when book/ledger.md is not what these proofs give")
    add("--workers", type=int, default=2, metavar="N", help="processes (default 2)")
    return parser


def _prove_all(options: argparse.Namespace) -> int:
    found = _examine_all(options)
    faults = [f for _, results in found for r in results for f in r.faults]
    for fault in faults:
        print(f"FAULT {fault}", file=sys.stderr)
    if faults:
        return 1
    target = book_root() / "book" / "ledger.md"
    if options.check:
        return 1 if _stale(target, found, whole=not (options.page or options.no_mutants)) else 0
    if options.write and not (options.page or options.no_mutants):
        target.write_text(ledger_page(found), encoding="utf-8")
        print("wrote book/ledger.md")
    return 0


def _examine_all(options: argparse.Namespace) -> list[tuple]:
    pages = [chapter(options.page)] if options.page else chapters()
    start, mutants, out = time.perf_counter(), not options.no_mutants, []
    with ProcessPoolExecutor(options.workers) as pool:
        for one in pages:
            page_formulas(one)
            print(one.page)
            jobs = [pool.submit(_job, one.page, c.label, mutants) for c in one.claims]
            results = []
            for job in jobs:
                results.append(job.result())
                print("  " + row(results[-1]), flush=True)
            out.append((one, results))
            print(f"  {summary(results)}")
    results = [r for _, some in out for r in some]
    print(
        f"{time.perf_counter() - start:.1f} s on {options.workers} processes; for {len(results)} entries "
        f"{sum(r.seconds for r in results):.1f} CPU-s verdicts and mistakes, "
        f"{sum(r.mutant_seconds for r in results):.1f} CPU-s mutants"
    )
    return out


def _job(page: str, label: str, mutants: bool) -> Result:
    one = chapter(page)
    return examine(one, page_formulas(one), one[label], mutants)


def _stale(target: Path, found: list[tuple], whole: bool) -> bool:
    """Say whether the ledger page differs from what the proofs give, and show the first lines that do.

    The whole page is compared, or, where not all was run, what each formula was read as.
    """
    page = target.read_text(encoding="utf-8") if target.is_file() else ""
    old, new = page.splitlines(), ledger_page(found).splitlines()
    if not whole:
        old = [f"{label}: read as {mark}" for label, mark in READ_AS.findall(page)]
        new = [f"{r.label}: read as {r.fingerprint}" for _, results in found for r in results]
        old = [line for line in old if line.partition(":")[0] in {n.partition(":")[0] for n in new}]
    if old == new:
        return False
    changes = list(difflib.unified_diff(old, new, lineterm="", n=0))
    lines = [line for line in changes if line[0] in "+-" and line[:3] not in ("+++", "---")]
    print("FAULT book/ledger.md is not what the proofs give: `make proofs` writes it", file=sys.stderr)
    print("\n".join(f"  {line[:150]}" for line in lines[:8]), file=sys.stderr)
    return True


if __name__ == "__main__":
    sys.exit(main())
