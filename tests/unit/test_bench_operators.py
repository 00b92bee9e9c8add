"""Operators: right contenders are timed, wrong ones refused, costs counted; the command runs."""

from dataclasses import replace
from math import prod

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from attngrad import bench, reference
from attngrad.bench import Case, Contender, Unavailable, bias_gradient, softmax_vjp
from attngrad.bench.__main__ import main
from attngrad.bench.measuring import LEFT_OUT
from attngrad.bench.memory import cpu_peak, growth
from attngrad.bench.spec import draw
from attngrad.mistakes import mistake

ODD = {"B": 2, "H": 3, "N": 5, "M": 7, "D": 11}
TINY = Case("tiny", ODD)
EACH = [(operator, one) for operator in bench.OPERATORS.values() for one in operator.on("cpu")]
BUILT = [(operator, one.name) for operator, one in EACH if not one.compiled]
IDS = [f"{operator.name}-{name}" for operator, name in BUILT]


class Silent:
    """A clock that notes what it was asked to time."""

    def __init__(self):
        self.asked = 0

    def seconds(self, call, loops):
        self.asked += 1
        return 1e-3


def with_contenders(name, *contenders):
    """Return an operator in which some contenders follow the plain run."""
    operator = bench.find(name)
    return replace(operator, contenders=(operator.contenders[0], *contenders))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("operator", "name"), BUILT, ids=IDS)
def test_every_contender_is_right_on_odd_sizes(operator, name, dtype):
    both = dict.fromkeys((operator.contenders[0], operator.contender(name, "cpu")))
    chosen = replace(operator, contenders=tuple(both))
    run = bench.measure(chosen, replace(TINY, dtype=dtype), "cpu", rounds=5, clock=Silent())
    assert run.rows[-1].contender == name
    assert [row.time.median for row in run.rows] == [1e-3] * len(both)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch's compiler warns of its own
@pytest.mark.parametrize("name", list(dict.fromkeys(operator.name for operator, one in EACH if one.compiled)))
def test_the_compiled_contenders_are_right(name):
    operator = bench.find(name)
    run = bench.measure(operator, TINY, "cpu", rounds=5, clock=Silent())
    compiled = {one.name for one in operator.on("cpu") if one.compiled}
    rows = [row for row in run.rows if row.contender in compiled]
    assert len(rows) == len(compiled) > 0
    for row in rows:
        missing = "jax is not installed" if "jax" in row.contender else "torch.compile failed with"
        assert row.time is not None or missing in row.note


def wrong_vjp(id):
    """Return a builder of a softmax whose backward pass is a known mistake."""

    def build(inputs):
        def call():
            p = reference.softmax(inputs["s"].double().numpy())
            ds = mistake(id).function(p, inputs["dp"].double().numpy())
            return {"p": torch.tensor(p).float(), "ds": torch.tensor(ds).float()}

        return call

    return build


def build_diagonal(inputs):
    return wrong_vjp("softmax-vjp-diagonal-only")(inputs)


def build_flattened(inputs):
    return wrong_vjp("softmax-vjp-flattened-batch")(inputs)


def build_flipped(inputs):
    return wrong_vjp("softmax-vjp-sign-flipped")(inputs)


def spoiled(change):
    """Return a builder of biased attention whose results are changed."""

    def build(inputs):
        right = bias_gradient.build_closed(inputs)

        def call():
            results = right()
            change(results, inputs)
            return results

        return call

    return build


def build_scaled(inputs):
    """The bias gets the factor of the scores, as if it stood inside the scale."""
    return spoiled(lambda results, _: results.update(dbias=results["dbias"] * 11**-0.5))(inputs)


def build_half_batch(inputs):
    """The bias is shared by the batch, and its cotangent is the mean in place of the sum."""
    return spoiled(lambda results, _: results.update(dbias=results["dbias"] / 2))(inputs)


def build_zero_key(inputs):
    return spoiled(lambda results, _: results.update(dk=torch.zeros_like(results["dk"])))(inputs)


def build_incomplete(inputs):
    return spoiled(lambda results, _: results.pop("dq"))(inputs)


def build_not_a_number(inputs):
    return spoiled(lambda results, _: results["dv"][0, 0, 0].fill_(torch.nan))(inputs)


def build_destructive(inputs):
    return spoiled(lambda _, inputs: inputs["do"].mul_(1.0 + 2.0**-20))(inputs)


WRONG = {
    "diagonal": ("softmax-vjp", build_diagonal, "softmax-vjp, wrong, ds: error"),
    "flattened": ("softmax-vjp", build_flattened, "softmax-vjp, wrong, ds: error"),
    "flipped": ("softmax-vjp", build_flipped, "softmax-vjp, wrong, ds: error"),
    "scaled": ("bias-gradient", build_scaled, "bias-gradient, wrong, dbias: error"),
    "mean": ("bias-gradient", build_half_batch, "bias-gradient, wrong, dbias: error"),
    "zero": ("bias-gradient", build_zero_key, "bias-gradient, wrong, dk: error"),
    "incomplete": ("bias-gradient", build_incomplete, r"expected \['dbias', 'dk', 'dq', 'dv', 'o'\], got"),
    "nan": ("bias-gradient", build_not_a_number, "dv: got is not finite"),
    "changes an input": ("bias-gradient", build_destructive, "it changes its input do"),
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_contender_is_refused_before_anything_is_timed(fault):
    name, build, told = WRONG[fault]
    clock = Silent()
    with pytest.raises(AssertionError, match=told):
        bench.measure(with_contenders(name, Contender("wrong", build)), TINY, "cpu", clock=clock)
    assert clock.asked == 0


def test_a_plain_run_that_is_wrong_cannot_serve_as_measure():
    operator = replace(bench.find("softmax-vjp"), contenders=(Contender("wrong", build_diagonal),))
    with pytest.raises(AssertionError, match="softmax-vjp, wrong, ds"):
        bench.measure(operator, TINY, "cpu", clock=Silent())


def build_unavailable(inputs):
    raise Unavailable("no such kernel here")


def build_broken(inputs):
    raise RuntimeError("broken")


def test_a_contender_that_cannot_run_here_says_why_and_one_that_breaks_is_an_error():
    absent, left_out = Contender("absent", build_unavailable), Contender("slow", build_broken, compiled=True)
    operator = with_contenders("softmax-vjp", absent, left_out)
    run = bench.measure(operator, TINY, "cpu", compiled=False, clock=Silent())
    assert [row.note for row in run.rows] == ["", "no such kernel here", LEFT_OUT]
    assert [row.time is None for row in run.rows] == [False, True, True]
    with pytest.raises(RuntimeError, match="broken"):
        bench.measure(operator, TINY, "cpu", clock=Silent())


@pytest.mark.filterwarnings("ignore:.*kernel.*:UserWarning")  # torch says why each kernel does not serve
def test_a_kernel_that_a_device_does_not_have_is_named():
    fused = Contender("fused", bias_gradient.build_sdpa_efficient)
    run = bench.measure(with_contenders("bias-gradient", fused), TINY, "cpu", clock=Silent())
    assert run.rows[1].note == "torch has no such kernel for these inputs"


@pytest.mark.parametrize("name", list(bench.OPERATORS))
def test_numbers_moved_are_those_of_the_inputs_and_the_results(name):
    operator = bench.find(name)
    inputs = draw(operator.shapes(ODD), "float32", "cpu")
    results = operator.contenders[0].build(inputs)()
    assert operator.moved(ODD) == sum(x.numel() for x in [*inputs.values(), *results.values()])
    run = bench.measure(operator, replace(TINY, dtype="bfloat16"), "cpu", compiled=False, clock=Silent())
    assert run.bytes == 2 * operator.moved(ODD)


def test_operations_of_attention_are_those_that_torch_counts():
    operator = bench.find("bias-gradient")
    inputs = draw(operator.shapes(ODD), "float32", "cpu")
    for name in ("autograd", "closed form"):
        call = operator.contender(name, "cpu").build(inputs)
        with FlopCounterMode(display=False) as counter:
            call()
        assert counter.get_total_flops() == operator.flops(ODD)


class Counted:
    """A number that counts the operations done with it."""

    done = 0

    def __init__(self, value):
        self.value = value

    def _operation(self, other):
        Counted.done += 1
        return Counted(1.0)

    __add__ = __sub__ = __mul__ = __truediv__ = _operation

    def exp(self):
        return self._operation(None)


def test_operations_of_softmax_counted_one_by_one():
    """A sum of n numbers, or the largest of them, starts at a first one and takes n operations."""
    Counted.done, n = 0, 7
    s, dp = ([Counted(1.0) for _ in range(n)] for _ in range(2))
    top, total, mean = Counted(0.0), Counted(0.0), Counted(0.0)
    for x in s:
        top = top + x  # stands for the comparison
    e = [(x - top).exp() for x in s]
    for x in e:
        total = total + x
    p = [x / total for x in e]
    for x, u in zip(p, dp, strict=True):
        mean = mean + x * u
    assert len([x * (u - mean) for x, u in zip(p, dp, strict=True)]) == n
    assert Counted.done == softmax_vjp.flops({"B": 1, "H": 1, "N": 1, "M": n})


def test_inputs_are_drawn_in_their_own_type_and_again_the_same():
    shapes = {"x": (3, 5), "y": (3, 5)}
    first, again = (draw(shapes, "bfloat16", "cpu", seed=4) for _ in range(2))
    assert {x.dtype for x in first.values()} == {torch.bfloat16}
    assert all(first[name].equal(again[name]) for name in shapes)
    assert not first["x"].equal(first["y"])
    assert not first["x"].equal(draw(shapes, "bfloat16", "cpu", seed=5)["x"])


MIB = 2**20


def test_peak_memory_is_that_of_results_and_temporaries():
    """At 8 x 256 x 256 floats an array has 2 MiB: autograd holds p and ds, the formula one temporary more."""
    name, size = "softmax-vjp", 4 * prod(bench.find("softmax-vjp").case("256", "cpu").sizes.values())
    found = {one: cpu_peak(name, "256", one) for one in ("autograd", "closed form")}
    if None in found.values():
        pytest.skip("this system does not tell the peak memory of a process")
    assert size == 2 * MIB
    assert 2 * size - MIB / 2 < found["autograd"] < 2 * size + MIB / 2
    assert 3 * size - MIB / 2 < found["closed form"] < 3 * size + MIB / 2


def test_an_earlier_peak_does_not_count():
    np.ones(200 * MIB, dtype=np.uint8)
    grown = growth(lambda: np.ones(48 * MIB, dtype=np.uint8))
    if grown is None:
        pytest.skip("this system does not tell the peak memory of a process")
    assert 44 * MIB < grown < 52 * MIB


def test_a_process_that_fails_is_an_error():
    if growth(lambda: None) is None:
        pytest.skip("this system does not tell the peak memory of a process")
    with pytest.raises(RuntimeError, match=r"memory of nobody: the process .* failed: .*got 'nobody'"):
        cpu_peak("softmax-vjp", "256", "nobody")


def test_a_live_cell_measures_and_says_so(monkeypatch, capsys):
    monkeypatch.setenv("ATTNGRAD_BENCH", "live")
    bench.show("softmax-vjp")
    shown = capsys.readouterr().out
    assert "\nmeasured now " in shown
    assert f"torch.compile    not measured  {LEFT_OUT}\n" in shown
    assert shown.count(" ms ") + shown.count(" us ") + shown.count(" s ") >= 3


@pytest.mark.skipif(torch.cuda.is_available(), reason="has a CUDA device")
def test_without_a_cuda_device_a_live_cell_shows_what_is_recorded(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ATTNGRAD_BOOK", str(tmp_path))
    bench.show("bias-gradient", "cuda", live=True)
    shown = capsys.readouterr().out
    assert "cannot be measured here: torch sees no CUDA device\n" in shown
    assert shown.count("not measured") == len(bench.find("bias-gradient").on("cuda"))


def test_without_torch_recorded_rows_are_shown(monkeypatch, capsys):
    monkeypatch.setattr("attngrad.bench.cell.find_spec", lambda name: None)
    bench.show("softmax-vjp", live=True)
    assert "cannot be measured here: torch is not installed" in capsys.readouterr().out


def test_the_command_measures_quickly(capsys):
    assert main(["cpu", "--quick"]) == 0
    shown = capsys.readouterr().out
    for operator in bench.OPERATORS.values():
        assert f"{operator.name} on cpu: {operator.work}" in shown
    assert shown.count("autograd         1.00  1.00-1.00 ") == 2


def test_the_command_records_what_it_measures(tmp_path, monkeypatch, capsys):
    plain = bench.find("softmax-vjp")
    tiny = replace(plain, contenders=plain.contenders[:2], cases=(TINY,), quick={"cpu": "tiny"})
    monkeypatch.setitem(bench.OPERATORS, "softmax-vjp", tiny)
    monkeypatch.setattr("attngrad.bench.measuring.cpu_peak", lambda *names: 3 * MIB)
    (tmp_path / "book" / "text").mkdir(parents=True)
    monkeypatch.setenv("ATTNGRAD_BOOK", str(tmp_path))
    assert main(["cpu", "softmax-vjp", "--record", "--rounds", "6"]) == 0
    assert "recorded in book/results/softmax-vjp.cpu.json" in capsys.readouterr().out
    run = bench.recorded("softmax-vjp", "cpu")["tiny"]
    assert [row.contender for row in run.rows] == ["autograd", "closed form"]
    assert {row.memory for row in run.rows} == {3 * MIB}
    assert run.provenance["rounds"] == 6
    assert all(row.time.low > 0.0 for row in run.rows)
    bench.show("softmax-vjp")
    assert "stale" not in capsys.readouterr().out


ERRORS = {
    "operator": (["cpu", "softmax"], "error: operator: expected one of"),
    "case": (["cpu", "softmax-vjp", "--case", "7"], "error: case of softmax-vjp on cpu: expected one of"),
    "rounds": (["cpu", "softmax-vjp", "--quick", "--rounds", "4"], "error: rounds: expected an integer of"),
    "flush": (["cpu", "--quick", "--flush"], "error: --flush: expected the device cuda, got cpu"),
}


@pytest.mark.parametrize("fault", ERRORS)
def test_the_command_names_what_is_wrong(fault, capsys):
    arguments, told = ERRORS[fault]
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith(told)


@pytest.mark.skipif(torch.cuda.is_available(), reason="has a CUDA device")
def test_the_command_needs_the_device_that_it_is_asked_for(capsys):
    assert main(["cuda", "--quick"]) == 2
    assert capsys.readouterr().err == "error: cuda: torch sees no CUDA device\n"


def test_the_command_needs_a_book_to_record(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ATTNGRAD_BOOK", str(tmp_path))
    assert main(["cpu", "--record"]) == 2
    assert "--record: expected a book with a folder book/text, found none" in capsys.readouterr().err


def test_the_command_refuses_a_wrong_contender(monkeypatch, capsys):
    wrong = with_contenders("softmax-vjp", Contender("wrong", build_flipped))
    monkeypatch.setitem(bench.OPERATORS, "softmax-vjp", wrong)
    assert main(["cpu", "softmax-vjp", "--quick"]) == 1
    assert "refused: softmax-vjp, wrong, ds: error" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["tpu"], ["cpu", "--quick", "--record"], []])
def test_the_command_line_is_checked(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2


def test_exact_results_are_those_of_the_reference():
    """The reference that judges contenders is itself compared with autograd in float64."""
    for operator in bench.OPERATORS.values():
        inputs = draw(operator.shapes(ODD), "float64", "cpu")
        want = operator.contenders[0].build(inputs)()
        got = operator.exact({name: x.numpy() for name, x in inputs.items()})
        for name, x in want.items():
            np.testing.assert_allclose(got[name], x.detach(), rtol=1e-10, atol=1e-13)
