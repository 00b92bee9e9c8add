"""Benchmarks whose contenders are checked first, take turns, and are compared within a round.

`show` prints a table for a chapter, from recorded rows or, where the reader asks, measured on the spot;
``python -m attngrad.bench`` measures from the command line and records.

What a table says:

    ratio      the time over that of the first contender: median over the rounds, and its outer quartiles
    time       the median time of one call, which does the whole work
    GFLOP/s    operations of the work by its formula, over the time: the same operations for every contender
    GB/s       bytes that the work has to move at least, over the time
    MiB        peak memory of one call beyond its inputs
    limit      the speed as a part of that of the products alone, measured in the same rounds
    pages      pages that a call fetches from the system, on a CPU
    error      the largest error of a result, as a part of its largest entry
    bits       whether two calls gave equal bits

Where a contender is a part of another, the share of the other's time that it saves stands below.

Memory and times depend on the machine, the number of threads and the allocator of the C library. Ratios
depend less on the machine, and still on the other two.
"""

from attngrad.bench.cell import show
from attngrad.bench.measuring import measure
from attngrad.bench.registry import OPERATORS, find
from attngrad.bench.results import ResultsError, Row, Run, recorded, write
from attngrad.bench.spec import Case, Contender, Operator, Unavailable
from attngrad.bench.timing import Spread, interleave, ratios, spread

__all__ = [
    "OPERATORS",
    "Case",
    "Contender",
    "Operator",
    "ResultsError",
    "Row",
    "Run",
    "Spread",
    "Unavailable",
    "find",
    "interleave",
    "measure",
    "ratios",
    "recorded",
    "show",
    "spread",
    "write",
]
