"""The benchmark of the table gradient: bounds, the tuned allocator, and what is remarked beside a time."""

import mmap
import os
import sys
from dataclasses import replace

import pytest
import torch

from attngrad import bench
from attngrad.bench import Case, Contender, Unavailable, table_strips, tuning
from attngrad.bench.memory import STATUS
from attngrad.bench.spec import draw
from attngrad.bench.table import run_lines
from attngrad.bench.table_gradient import LIMIT
from attngrad.checks import check_close

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


class Names:
    """A clock for contenders in a known order: the one at place n takes n + 1 thousandths of a second."""

    def __init__(self):
        self.calls = []

    def seconds(self, call, loops):
        if call not in self.calls:
            self.calls.append(call)
        return 1e-3 * (1 + self.calls.index(call))


def test_speed_is_a_part_of_that_of_the_limit():
    chosen = replace(OPERATOR, contenders=(OPERATOR.contenders[0], OPERATOR.contender(LIMIT, "cpu")))
    run = bench.measure(chosen, TINY, "cpu", rounds=5, clock=Names())
    assert [row.time.median for row in run.rows] == [1e-3, 2e-3]
    assert [row.limit for row in run.rows] == [2.0, None]
    assert all(row.pages >= 0 for row in run.rows)


def build_restless(inputs):
    """A right program whose last bits change from call to call."""
    right, calls = OPERATOR.contenders[0].build(inputs), []

    def call():
        calls.append(right())
        o = calls[-1]["o"]
        return calls[-1] | {"o": o * (1.0 + 2.0**-23 * (len(calls) % 2))}

    return call


def test_errors_and_equal_bits_are_those_of_the_contender():
    restless = Contender("restless", build_restless)
    bound = OPERATOR.contender("SDPA without bias", "cpu")
    chosen = replace(OPERATOR, contenders=(OPERATOR.contenders[0], restless, bound), limit=None)
    run = bench.measure(chosen, TINY, "cpu", rounds=5, clock=Silent())
    assert [row.repeats for row in run.rows] == [True, False, None]
    assert run.rows[2].error is None
    assert all(1e-9 < row.error < 2e-6 for row in run.rows[:2])
    inputs = draw(OPERATOR.shapes(TINY.sizes), "float32", "cpu")
    exact = OPERATOR.exact({name: x.double().numpy() for name, x in inputs.items()})
    got = OPERATOR.contenders[0].build(inputs)()
    errors = [
        float(abs(got[x].detach().double().numpy() - exact[x]).max() / abs(exact[x]).max()) for x in exact
    ]
    assert run.rows[0].error == max(errors)
    assert run.rows[0].pages is run.rows[0].limit is None


# Cases without the plain run


def test_strips_give_what_the_whole_gives(monkeypatch):
    """With strips of three, of one and of all queries; sums over strips are rounded once more."""
    inputs = draw(OPERATOR.shapes({"B": 2, "H": 3, "N": 10, "M": 7, "D": 4}), "float64", "cpu")
    arrays = {name: x.numpy() for name, x in inputs.items()}
    want = OPERATOR.contenders[0].build(inputs)()
    for pairs in (1, 3 * 2 * 7, 10**6):
        monkeypatch.setattr(table_strips, "PAIRS", pairs)
        for got in (OPERATOR.exact(arrays), OPERATOR.plain_in_strips(inputs)):
            assert list(got) == list(OPERATOR.outputs)
            for name, x in want.items():
                check_close(name, got[name], x.detach(), terms=100.0)


def test_the_plain_run_in_strips_has_the_type_of_the_inputs():
    inputs = draw(OPERATOR.shapes(TINY.sizes), "bfloat16", "cpu")
    assert {x.dtype for x in OPERATOR.plain_in_strips(inputs).values()} == {torch.bfloat16}


LONG = replace(OPERATOR.case("16384", "cpu"), sizes=TINY.sizes)


def test_in_a_long_case_nobody_keeps_an_array_of_pairs():
    run = bench.measure(OPERATOR, LONG, "cpu", rounds=5, clock=Silent())
    assert [row.contender for row in run.rows] == ["attngrad tiled", "SDPA without bias", LIMIT]
    assert {(row.ratio.low, row.ratio.high) for row in run.rows} == {(1.0, 1.0)}
    shown = "\n".join(run_lines(OPERATOR, replace(run, case="16384"), "measured now"))
    assert "eager" not in shown
    assert "not measured" not in shown


def spoilt(inputs, name, factor):
    """Return a call of the tiles, one of whose results is multiplied by a factor."""
    right = OPERATOR.contender("attngrad tiled", "cpu").build(inputs)

    def call():
        results = right()
        return results | {name: results[name] * factor}

    return call


def build_one_head_too_few(inputs):
    return spoilt(inputs, "dtable", torch.tensor([[1.0], [0.0]]))


def build_a_thousandth_off(inputs):
    return spoilt(inputs, "dq", 1.001)


@pytest.mark.parametrize(
    ("build", "name"), [(build_one_head_too_few, "dtable"), (build_a_thousandth_off, "dq")]
)
def test_in_a_long_case_a_wrong_contender_is_no_measure_of_itself(build, name):
    """It is the first one there, so its own error would pass."""
    contenders = (OPERATOR.contenders[0], Contender("attngrad tiled", build))
    chosen = replace(OPERATOR, contenders=contenders, limit=None)
    with pytest.raises(AssertionError, match=f"attngrad tiled, {name}: error"):
        bench.measure(chosen, LONG, "cpu", rounds=5, clock=Silent())


def test_every_case_without_the_plain_run_has_one_in_strips():
    for operator in bench.OPERATORS.values():
        for case in operator.cases:
            assert case.contenders is None or operator.plain_in_strips is not None
            known = {one.name for one in operator.contenders}
            assert case.contenders is None or set(case.contenders) <= known


# The share of the table in the backward pass

BACKWARD = bench.find("table-backward")
FIXED = [one for one in BACKWARD.contenders if one.part_of]


@pytest.mark.parametrize("one", [one for one in FIXED if "cpu" in one.devices], ids=lambda one: one.name)
def test_with_a_fixed_table_the_other_gradients_are_the_same_and_its_own_is_not_there(one):
    inputs = draw(BACKWARD.shapes(TINY.sizes), "float32", "cpu")
    whole = BACKWARD.contender(one.part_of, "cpu").build(inputs)()
    part = one.build(inputs)()
    assert list(part) == ["dq", "dk", "dv"]
    assert list(whole) == [*part, "dtable"]
    for name, x in part.items():
        assert torch.equal(x, whole[name])


def test_what_a_part_does_not_take_is_a_share_of_the_whole():
    run = bench.measure(BACKWARD, TINY, "cpu", rounds=5, clock=Names())
    assert [row.contender for row in run.rows] == [
        "eager gather",
        "eager, fixed table",
        "attngrad tiled",
        "tiled, fixed table",
    ]
    # The clock counts 1, 2, 3 and 4.
    assert [row.rest and row.rest.median for row in run.rows] == [None, -1.0, None, 1.0 - 4.0 / 3.0]
    lines = list(run_lines(BACKWARD, run, "measured now"))
    assert "eager, fixed table takes -100.0 % (-100.0 to -100.0) less than eager gather" in lines
    assert {one.part_of for one in FIXED} == {"eager gather", "attngrad tiled", "attngrad triton"}
    assert all(one.bound for one in FIXED)


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
