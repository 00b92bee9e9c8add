"""The kernels compiled for a Hopper GPU ahead of time: registers, spilling, matrix products, atomics.

Counts are those of the release of Triton that the extra pins, whose compiler comes with it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

triton = pytest.importorskip("triton", reason="needs triton, which the extra attngrad[triton] brings")

PINNED = "3.7.1"
PAIRS = ("forward", "by_keys", "by_queries")
ALL = (*PAIRS, "by_rows", "sum_blocks")
# type, B, H, N, M, D, mask, ordered; then the registers that a thread of each kernel of pairs may take, and
# the matrix products in it.
CASES = {
    "bfloat16, 32": (("bfloat16", 2, 4, 256, 512, 32, "keys", True), (128, 232, 128), (6, 12, 8)),
    "bfloat16, 64": (("bfloat16", 2, 4, 256, 512, 64, "none", True), (128, 255, 168), (8, 16, 12)),
    "bfloat16, 128": (("bfloat16", 2, 4, 256, 512, 128, "keys", True), (160, 248, 208), (20, 40, 36)),
    "float16, 64": (("float16", 2, 4, 256, 512, 64, "keys", False), (128, 255, 168), (8, 16, 12)),
    "float32, 64": (("float32", 2, 4, 256, 512, 64, "pairs", True), (96, 184, 136), (0, 0, 0)),
    "float32, 128": (("float32", 2, 4, 256, 512, 128, "keys", True), (80, 160, 104), (0, 0, 0)),
    "sizes of one": (("bfloat16", 1, 1, 1, 1, 1, "pairs", True), (255, 255, 255), (5, 10, 6)),
}


@pytest.fixture(scope="module")
def counts(tmp_path_factory):
    """Return the counts of all cases, from a process in which kernels are compiled."""
    script = Path(__file__).with_name("compiled_kernels.py")
    work = json.dumps({name: case[0] for name, case in CASES.items()})
    environment = {name: x for name, x in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path_factory.mktemp("triton"))
    run = subprocess.run([sys.executable, script, work], capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize("name", CASES)
def test_every_kernel_compiles(name, counts):
    ordered = CASES[name][0][-1]
    assert set(counts[name]) == set(ALL) - (set() if ordered else {"sum_blocks"})


@pytest.mark.parametrize("name", CASES)
def test_sums_in_a_fixed_order_take_no_atomics(name, counts):
    ordered = CASES[name][0][-1]
    assert all(x["atomics"] == 0 for kernel, x in counts[name].items() if ordered or kernel != "by_keys")
    assert ordered or counts[name]["by_keys"]["atomics"] > 0


@pytest.mark.skipif(triton.__version__ != PINNED, reason=f"counts are those of triton {PINNED}")
@pytest.mark.parametrize("name", CASES)
def test_registers_suffice_and_products_run_on_the_matrix_units(name, counts):
    _, registers, products = CASES[name]
    found = [counts[name][kernel] for kernel in PAIRS]
    assert [x["products"] for x in found] == list(products)
    assert all(x["registers"] <= most for x, most in zip(found, registers, strict=True)), found
    assert all(x["spilt"] == 0 for x in counts[name].values()), found
    # A multiprocessor of Hopper has 65536 registers and 227 KiB of shared memory: one program at least fits.
    assert all(x["registers"] * 32 * x["warps"] <= 65536 and x["shared"] <= 227 * 1024 for x in found)
