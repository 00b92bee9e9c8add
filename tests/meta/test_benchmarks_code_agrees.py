"""The formulas of the chapter on benchmarks, as printed, are what the benchmark counts."""

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from attngrad import bench
from attngrad.bench.spec import draw
from attngrad.bench.table_contenders import INPUTS, gather, row_of_pairs
from attngrad.proofs.examine import page_formulas
from attngrad.proofs.floats import Evaluator
from attngrad.proofs.ledger.chapter_16_benchmarks import CHAPTER
from attngrad.proofs.read import read

OPERATOR = bench.find("table-gradient")
RNG = np.random.default_rng(16)


def printed(label: str, side: str, values: dict[str, object], **sizes: int) -> float:
    """Return a side of the last line of a display."""
    reading = read(page_formulas(CHAPTER)[label].tex, CHAPTER.table.at(**sizes))
    return float(Evaluator(values, {})(getattr(reading.statements[-1], side), {}))


@pytest.mark.parametrize(("N", "M", "d"), [(1, 1, 1), (4, 4, 3), (5, 2, 8)])
def test_operations_are_those_of_six_products(N, M, d):
    sizes = {"N": N, "M": M, "d": d, "T": 1}
    counted = OPERATOR.flops({"B": 1, "H": 1, "N": N, "M": M, "D": d})
    assert printed("eq-bench-work", "rhs", {}, **sizes) == counted
    assert printed("eq-bench-recomputed", "lhs", {}, **sizes) == pytest.approx(7 / 6 * counted)


@pytest.mark.parametrize(("n", "d"), [(1, 1), (4, 3), (256, 64)])
def test_operations_for_each_byte(n, d):
    sizes = {"B": 3, "H": 2, "N": n, "M": n, "D": d}
    one = sizes | {"B": 1}
    found = OPERATOR.flops(one) / (4 * OPERATOR.moved(one))
    assert printed("eq-bench-least", "rhs", {}, N=n, M=n, d=d, T=1) == pytest.approx(found)


def test_ratios_of_rounds_are_free_of_what_slows_them_down():
    x, y, f = RNG.uniform(1.0, 2.0, size=(3, 7))
    found, base = (bench.ratios({"a": f * x, "b": f * y}, to=name) for name in "ba")
    undisturbed = bench.ratios({"a": x, "b": y}, to="b")
    assert found["a"].median == pytest.approx(undisturbed["a"].median)
    assert base["a"].median == 1.0
    values = {r"\mu": f * x, r"\nu": f * y, r"\zeta": x / y}
    want = (f * x).sum() / (f * y).sum()
    assert printed("eq-bench-means", "rhs", values, N=1, M=1, d=1, T=7) == pytest.approx(want)
    assert want != pytest.approx((x / y).mean(), rel=1e-3)


class Passes(TorchDispatchMode):
    """Counts how often an operation reads or writes an array with a number for each head and pair."""

    def __init__(self, pairs: int) -> None:
        super().__init__()
        self.pairs, self.count = pairs, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        read = [x for x in args if isinstance(x, torch.Tensor)]
        view = any(x.untyped_storage().data_ptr() == result.untyped_storage().data_ptr() for x in read)
        if not view and "new_" not in str(function):
            touched = [x for x in (*read, result) if isinstance(x, torch.Tensor) and x.is_floating_point()]
            self.count += sum(x.numel() == self.pairs for x in touched)
        return result


def test_eager_attention_makes_as_many_passes_as_the_text_counts():
    sizes = {"B": 1, "H": 3, "N": 11, "M": 11, "D": 4}
    inputs = draw(OPERATOR.shapes(sizes), "float32", "cpu")
    leaves = [inputs[name].requires_grad_() for name in INPUTS]
    with Passes(3 * 11 * 11) as passes:
        o = gather(*leaves, row_of_pairs(11, 11))
        torch.autograd.grad(o, leaves, inputs["do"])
    assert passes.count == CHAPTER["num-bench-eager"].model(RNG, 0)["c"]
