"""The benchmark of the table gradient: bounds, the tuned allocator, and what is remarked beside a time."""

import mmap
import os
import re
import sys
from dataclasses import replace

import pytest
import torch

from attngrad import bench
from attngrad.bench import Case, Contender, Unavailable, tuning
from attngrad.bench.memory import STATUS
from attngrad.bench.spec import draw
from attngrad.bench.table import run_lines
from attngrad.bench.table_gradient import LIMIT

OPERATOR = bench.find("table-gradient")
TINY = Case("tiny", {"B": 1, "H": 2, "N": 9, "M": 9, "D": 4})
GLIBC = pytest.mark.skipif(tuning.platform.libc_ver()[0] != "glibc", reason="needs the C library of GNU")


class Silent:
    """A clock that says a thousandth of a second, and twice as much for the limit."""

    def __init__(self, limit=None):
        self.limit = limit

    def seconds(self, call, loops):
        return 2e-3 if call is self.limit else 1e-3


def build_nothing(inputs):
    return lambda: {}


def test_a_bound_is_not_checked_and_another_contender_is():
    for bound in (True, False):
        less = Contender("less", build_nothing, bound=bound)
        chosen = replace(OPERATOR, contenders=(OPERATOR.contenders[0], less), limit=None)
        if bound:
            run = bench.measure(chosen, TINY, "cpu", rounds=5, clock=Silent())
            assert run.rows[1].time.median == 1e-3
        else:
            with pytest.raises(AssertionError, match=r"table-gradient, less: expected \['dk'"):
                bench.measure(chosen, TINY, "cpu", rounds=5, clock=Silent())


def test_bounds_do_the_products_they_say():
    inputs = draw(OPERATOR.shapes(TINY.sizes), "float64", "cpu")
    q, k, v, do = (inputs[name] for name in ("q", "k", "v", "do"))
    got = OPERATOR.contender(LIMIT, "cpu").build(inputs)()["o"].view_as(q)
    torch.testing.assert_close(got, (q @ k.mT) @ v)
    got = OPERATOR.contender("SDPA without bias", "cpu").build(inputs)()
    s = (q @ k.mT / 2).softmax(dim=-1)
    torch.testing.assert_close(got["o"], s @ v)
    torch.testing.assert_close(got["dv"], s.mT @ do)


@pytest.mark.parametrize("sizes", [{"N": 300, "M": 1100}, {"N": 9, "M": 9}])
def test_the_limit_covers_all_pairs(sizes):
    inputs = draw(OPERATOR.shapes(TINY.sizes | sizes), "float64", "cpu")
    q, k, v = (inputs[name] for name in "qkv")
    got = OPERATOR.contender(LIMIT, "cpu").build(inputs)()["o"].view_as(q)
    torch.testing.assert_close(got, (q @ k.mT) @ v)


def test_speed_is_remarked_as_a_part_of_the_limit():
    chosen = replace(OPERATOR, contenders=(OPERATOR.contenders[0], OPERATOR.contender(LIMIT, "cpu")))
    run = bench.measure(chosen, TINY, "cpu", rounds=5, clock=Silent())
    assert re.fullmatch(r"1\.00 of limit, \d+ pages", run.rows[0].note)
    assert re.fullmatch(r"\d+ pages", run.rows[1].note)


@pytest.mark.skipif(not STATUS.exists(), reason="needs a system that counts pages")
def test_pages_are_counted():
    def touch():
        with mmap.mmap(-1, 64 * mmap.PAGESIZE) as memory:
            memory.write(bytes(64 * mmap.PAGESIZE))

    # Small enough that the system does not take a huge page in their place.
    assert tuning.pages(touch) >= 64
    assert tuning.pages(lambda: None) <= 2


@GLIBC
def test_a_tuned_case_is_measured_in_a_process_that_keeps_its_memory(monkeypatch):
    assert not tuning.is_tuned()
    seen = {}

    def ran(command, env, **options):
        seen.update(env=env, command=command)
        return right(command, env=env, **options)

    right = tuning.subprocess.run
    monkeypatch.setattr(tuning.subprocess, "run", ran)
    run = tuning.tuned_run("softmax-vjp", "256", 5, 1e-4, False)
    assert seen["env"]["GLIBC_TUNABLES"] == tuning.SETTING
    assert run.operator == "softmax-vjp"
    assert [row.time is not None for row in run.rows] == [True, True, True, False]
    assert os.environ.get("GLIBC_TUNABLES") != tuning.SETTING
    with pytest.raises(RuntimeError, match=r"the process with the tuned allocator failed: .*got 'nothing'"):
        tuning.tuned_run("nothing", "256", 5, 1e-4, False)


@GLIBC
def test_a_case_that_is_tuned_asks_for_that_process(monkeypatch):
    asked = []
    monkeypatch.setattr("attngrad.bench.measuring.tuned_run", lambda *told: asked.append(told))
    bench.measure(OPERATOR, OPERATOR.case("4096 tuned", "cpu"), "cpu", rounds=11)
    assert asked == [("table-gradient", "4096 tuned", 5, 0.01, True)]


@pytest.mark.parametrize(("case", "tuned"), [("1024", False), ("1024 tuned", True), ("gone", False)])
def test_a_table_says_whether_the_allocator_was_tuned(case, tuned):
    row = bench.Row("eager gather", "")
    run = bench.Run(OPERATOR.name, "cpu", case, {"N": 1024}, "float32", 1, 1, {}, (row,))
    first = next(run_lines(OPERATOR, run, "recorded"))
    assert first == f"N=1024, float32{', tuned allocator' if tuned else ''}"


def test_jax_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    inputs = draw(OPERATOR.shapes(TINY.sizes), "float32", "cpu")
    with pytest.raises(Unavailable, match="jax is not installed"):
        OPERATOR.contender("jax.jit gather", "cpu").build(inputs)


def test_jax_does_the_work():
    pytest.importorskip("jax", reason="jax is a contender where it is installed, and no dependency")
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    inputs = draw(OPERATOR.shapes(TINY.sizes), "float32", "cpu")
    got = OPERATOR.contender("jax.jit gather", "cpu").build(inputs)()
    want = OPERATOR.contender("eager gather", "cpu").build(inputs)()
    torch.testing.assert_close(got, want)
    assert allowed is None or os.sched_getaffinity(0) == allowed
