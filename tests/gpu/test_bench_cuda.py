"""On a CUDA device: every contender is right there, and its time and memory are those of the device."""

from dataclasses import replace

import pytest
import torch

from attngrad import bench
from attngrad.bench import Case
from attngrad.bench.timing import CudaClock

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

# The fused kernels take a number of features that is a multiple of 8.
SMALL = Case("small", {"B": 2, "H": 3, "N": 13, "M": 29, "D": 24})


@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("name", list(bench.OPERATORS))
def test_every_contender_is_right_and_measured(name, flush):
    operator = bench.find(name)
    eager = replace(operator, contenders=tuple(one for one in operator.contenders if not one.compiled))
    run = bench.measure(eager, SMALL, "cuda", rounds=5, memory=True, flush=flush)
    assert [row.contender for row in run.rows] == [one.name for one in eager.on("cuda")]
    for row in run.rows:
        assert row.time.low > 0.0
        assert row.memory > 0
    assert run.provenance["device"] == torch.cuda.get_device_name()
    assert run.provenance["flush"] is flush


def test_the_clock_waits_for_the_device():
    x = torch.randn(2048, 2048, device="cuda")
    once = CudaClock().seconds(lambda: x @ x, 3)
    assert CudaClock().seconds(lambda: [x @ x for _ in range(16)], 3) > 4 * once
