"""The kernels of Triton against float64, run by its interpreter in small tiles that divide no size."""

from dataclasses import replace

import pytest
import torch

from .kernel_cases import Case, check, exact, plain, run  # isort: skip
from attngrad.kernels import launching
from attngrad.kernels.launching import Tiles

SMALL = Case(H=2, H_kv=1, N=19, M=35)
CASES = {
    "plain": Case(),
    "atomics": Case(deterministic=False),
    "causal, bottom right": replace(SMALL, causal=True, shared=True),
    "causal, top left": Case(B=1, causal=True, query_start=0),
    "causal, first queries without a key": replace(SMALL, N=35, M=19, causal=True),
    "causal, no query has a key but the last": replace(SMALL, causal=True, query_start=-18),
    "causal, all keys": replace(SMALL, causal=True, query_start=10**9),
    "mask of keys": replace(SMALL, mask="keys"),
    "mask of keys, causal": replace(SMALL, mask="keys", causal=True, deterministic=False),
    "mask of pairs": replace(SMALL, mask="pairs", H=4, H_kv=4),
    "one query": replace(SMALL, N=1),
    "one key": replace(SMALL, M=1, H_kv=2),
    "one of each": Case(B=1, H=1, H_kv=1, N=1, M=1, D=1, D_v=1),
    "whole tiles": replace(SMALL, N=32, M=16, D=16, D_v=32, causal=True, query_start=0),
    "float16": replace(SMALL, dtype=torch.float16, N=33, causal=True, seed=1),
    "bfloat16": replace(SMALL, dtype=torch.bfloat16, mask="pairs"),
    "bfloat16, atomics": replace(SMALL, dtype=torch.bfloat16, deterministic=False),
}


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Work on tiles of 16 and read two places at once, so that small sizes have several of both."""
    monkeypatch.setattr(launching, "tiles", lambda dtype, width: Tiles(16, 4, 2))
    monkeypatch.setattr(launching, "CHUNK", 2)


@pytest.fixture
def nan_memory():
    """Fill memory with NaN before it is written, so that what no kernel writes is seen."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("nan_memory")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_answers_are_those_of_the_reference(case):
    drawn = case.draw()
    check(case, run(case, drawn), exact(case, drawn), plain(case, drawn))


def test_unwritten_memory_is_seen(nan_memory):
    assert torch.empty_like(torch.ones(3)).isnan().all()
    assert torch.ones(1).new_empty(3).isnan().all()
