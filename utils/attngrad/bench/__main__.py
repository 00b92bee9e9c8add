"""Benchmarks from the command line: ``python -m attngrad.bench cpu``.

Every contender of every operator, or of those that are named, is checked against the reference and timed.
With --record the rows go into book/results. OMP_NUM_THREADS fixes the number of threads.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from attngrad.bench.cell import missing
from attngrad.bench.measuring import ROUNDS, measure
from attngrad.bench.registry import OPERATORS, find
from attngrad.bench.results import FOLDER, ResultsError, folder, write
from attngrad.bench.spec import DEVICES, Case, Operator
from attngrad.bench.table import run_lines
from attngrad.notation import RangeError

QUICK_ROUNDS = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status: 0 all is well, 1 a contender is wrong, 2 it could not run."""
    options = _parser().parse_args(arguments)
    try:
        chosen = [(find(name), options.case) for name in options.operators or OPERATORS]
        cases = [(operator, case) for operator, name in chosen for case in _cases(operator, name, options)]
        if reason := missing(options.device):
            raise RangeError(f"{options.device}: {reason}")
        if options.flush and options.device != "cuda":
            raise RangeError(f"--flush: expected the device cuda, got {options.device}")
        where = folder() if options.record else None
        if options.record and where is None:
            raise RangeError(f"--record: expected a book with a folder {FOLDER.parent}/text, found none")
        for operator, case in cases:
            _measure(operator, case, options, where)
    except (RangeError, ResultsError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except AssertionError as error:
        print(f"refused: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    told = __doc__.partition("\n\n")[2]
    parser = argparse.ArgumentParser(prog="python -m attngrad.bench", description=told)
    add = parser.add_argument
    add("device", choices=DEVICES, help="where to measure")
    add("operators", nargs="*", metavar="OPERATOR", help=f"among {', '.join(OPERATORS)}; default: all")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--quick", action="store_true", help="one small case, no compilers, no memory")
    how.add_argument("--record", action="store_true", help="write the rows into book/results")
    add("--case", metavar="NAME", help="one case only, such as 1024")
    default = f"default: as the case says, or {ROUNDS}; with --quick {QUICK_ROUNDS}"
    add("--rounds", type=int, metavar="N", help=f"rounds at most, at least 5 ({default})")
    add("--flush", action="store_true", help="on cuda: empty the cache before each call")
    return parser


def _cases(operator: Operator, name: str | None, options: argparse.Namespace) -> tuple[Case, ...]:
    """Return the cases to measure."""
    if name or options.quick:
        return (operator.case(name or operator.quick[options.device], options.device),)
    return operator.cases_on(options.device)


def _measure(operator: Operator, case: Case, options: argparse.Namespace, where: Path | None) -> None:
    """Measure one case, print it, and record it where that is asked for."""
    print(f"\n{operator.name} on {options.device}: {operator.work}", flush=True)
    run = measure(
        operator,
        case,
        options.device,
        rounds=options.rounds or (QUICK_ROUNDS if options.quick else None),
        compiled=not options.quick,
        memory=not options.quick,
        flush=options.flush,
        say=lambda told: print(f"  {case.name}: {told}", flush=True),
    )
    print("\n".join(run_lines(operator, run, "measured now")), flush=True)
    if where is not None:
        print(f"recorded in {FOLDER}/{write(run, where).name}")


if __name__ == "__main__":
    sys.exit(main())
