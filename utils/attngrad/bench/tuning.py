"""The allocator of the C library: how many pages a call fetches, and a process in which it keeps them.

A block of memory above a threshold is fetched from the system for each use and given back after it; the
system hands out each page of it with zeros, at the first touch. Arrays over all pairs of a sequence are above
it. glibc can be told to keep such blocks instead.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path

from attngrad.bench.results import Run, run_of, stored
from attngrad.bench.spec import Call

KEPT = 2**34  # bytes
SETTING = f"glibc.malloc.mmap_threshold={KEPT}:glibc.malloc.trim_threshold={KEPT}"
CHILD = "import sys; from attngrad.bench.tuning import child; child(*sys.argv[1:])"
SAMPLES = 3


def is_tuned() -> bool:
    """Return whether this process keeps memory that it frees, or has a C library that cannot be told to."""
    return os.environ.get("GLIBC_TUNABLES") == SETTING or platform.libc_ver()[0] != "glibc"


def pages(call: Call, samples: int = SAMPLES) -> int:
    """Return how many pages a call fetches from the system, the median of some calls."""
    import resource

    def fetched() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

    counts = []
    for _ in range(samples):
        before = fetched()
        call()
        counts.append(fetched() - before)
    return int(statistics.median(counts))


def tuned_run(operator: str, case: str, rounds: int, sample_s: float, compiled: bool) -> Run:
    """Return a run on the CPU that is measured in a process with the tuned allocator.

    Raises: AssertionError or RuntimeError with the last line of a process that fails.
    """
    paths = [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "GLIBC_TUNABLES": SETTING}
    told = json.dumps({"rounds": rounds, "sample_s": sample_s, "compiled": compiled})
    command = [sys.executable, "-c", CHILD, operator, case, told]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        last = (ran.stderr.strip().splitlines() or ["no message"])[-1]
        kind = AssertionError if last.startswith("AssertionError") else RuntimeError
        raise kind(f"{operator}, {case}: the process with the tuned allocator failed: {last}")
    return run_of(json.loads(ran.stdout.splitlines()[-1]), operator, "cpu", case)


def child(operator: str, case: str, told: str) -> None:
    """Print a run that is measured in this process."""
    from attngrad.bench.measuring import measure
    from attngrad.bench.registry import find

    found = find(operator)
    print(json.dumps(stored(measure(found, found.case(case, "cpu"), "cpu", **json.loads(told)))))
