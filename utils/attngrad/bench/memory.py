"""Peak memory of one call beyond its inputs: results, what is saved for the backward pass, and temporaries.

On CUDA torch counts its own bytes. On the CPU a fresh process does the work and the kernel counts the pages
that it holds. In that process the C library returns every block of 64 KiB or more to the system when it is
freed, so that memory of the warm-up does not hide what the call needs. The count is good to about 0.25 MiB.
"""

import gc
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from time import perf_counter

from attngrad.bench.spec import Call, draw

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
CHILD = "import sys; from attngrad.bench.memory import child; child(*sys.argv[1:])"
BLOCK = 65536
WARM_UPS = 2
LONG_S = 1.0  # a call that takes longer is not repeated where once will do


def cpu_peak(operator: str, case: str, contender: str) -> int | None:
    """Return the peak memory of one call on the CPU in bytes, None where the system does not tell it.

    The process that does the work finds the operator by its name in the registry.

    Raises: RuntimeError with the last line of a process that fails.
    """
    if not RESET.exists() or platform.libc_ver()[0] != "glibc":
        return None
    paths = [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]
    setting = f"glibc.malloc.mmap_threshold={BLOCK}"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "GLIBC_TUNABLES": setting}
    command = [sys.executable, "-c", CHILD, operator, case, contender]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        told = (ran.stderr.strip().splitlines() or ["no message"])[-1]
        raise RuntimeError(f"memory of {contender}: the process that measures it failed: {told}")
    return json.loads(ran.stdout.splitlines()[-1])


def child(operator: str, case: str, contender: str) -> None:
    """Print the growth of this process by one call of a contender on the CPU."""
    from attngrad.bench.registry import find

    found = find(operator)
    chosen, one = found.case(case, "cpu"), found.contender(contender, "cpu")
    inputs = draw(found.shapes(chosen.sizes), chosen.dtype, "cpu")
    print(json.dumps(growth(one.build(inputs))))


def growth(call: Call) -> int | None:
    """Return by how many bytes the memory of this process grows at most during one call, after a warm-up.

    A call that takes long is called once before, others twice. None where the system does not let a process
    reset its mark.
    """
    for _ in range(WARM_UPS):
        start = perf_counter()
        call()
        if perf_counter() - start > LONG_S:
            break
    gc.collect()
    try:
        # 5 sets the highest mark of resident memory back to what is resident now.
        RESET.write_text("5")
    except OSError:
        return None
    before = _status("VmRSS")
    held = call()
    after = _status("VmHWM")
    del held
    return max(after - before, 0)


def _status(key: str) -> int:
    """Return a count of the kernel for this process in bytes."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(f"{key}:"))
    return 1024 * int(line.split()[1])


def cuda_peak(call: Call) -> int:
    """Return by how many bytes torch's memory on the CUDA device grows at most during one call, warmed up."""
    import torch

    for _ in range(WARM_UPS):
        call()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    held = call()
    torch.cuda.synchronize()
    grown = torch.cuda.max_memory_allocated() - before
    del held
    return grown
