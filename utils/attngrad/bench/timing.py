"""Times of contenders that take turns, and what can be said of them.

A machine's speed drifts: other work comes and goes, clocks change. So contenders run one after the other
within a round, in an order that changes from round to round, and are compared within the round. What slows a
whole round down cancels in its ratios.
"""

import gc
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any, Protocol

import numpy as np

from attngrad.notation import RangeError, integer, positive_number

LEAST_ROUNDS = 5
WARM_UPS = 3

Run = Callable[[], Any]


@dataclass(frozen=True)
class Spread:
    """The quartiles of some samples; the middle one is the median."""

    low: float
    median: float
    high: float


class Clock(Protocol):
    """Measures how long a call takes on one kind of device."""

    def seconds(self, call: Run, loops: int) -> float:
        """Return the mean time of one call over some loops, when all its work is done."""


class CpuClock:
    """Wall time of this process."""

    def seconds(self, call: Run, loops: int) -> float:
        """Return the mean wall time of one call."""
        start = perf_counter_ns()
        for _ in range(loops):
            call()
        return (perf_counter_ns() - start) * 1e-9 / loops


class CudaClock:
    """Time on the CUDA device, between two events around each call.

    With ``flush`` a buffer of twice the size of the level-2 cache is written before each call, outside the
    time that counts, so that no call finds its inputs in the cache.
    """

    def __init__(self, flush: bool = False) -> None:
        import torch

        self._torch = torch
        size = 2 * torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size if flush else 0
        self._buffer = torch.empty(size, dtype=torch.uint8, device="cuda")

    def seconds(self, call: Run, loops: int) -> float:
        """Return the mean time of one call on the device."""
        cuda = self._torch.cuda
        pairs = [(cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)) for _ in range(loops)]
        cuda.synchronize()
        for start, end in pairs:
            if self._buffer.numel():
                self._buffer.zero_()
            start.record()
            call()
            end.record()
        cuda.synchronize()
        return sum(start.elapsed_time(end) for start, end in pairs) * 1e-3 / loops


@contextmanager
def _without_collector() -> Iterator[None]:
    """Keep the garbage collector from running in somebody's sample."""
    gc.collect()
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def loops_for(call: Run, clock: Clock, sample_s: float) -> int:
    """Warm a call up and return how often to repeat it in a sample that is to last ``sample_s`` seconds."""
    for _ in range(WARM_UPS):
        call()
    return max(1, math.ceil(sample_s / max(clock.seconds(call, 1), 1e-9)))


def interleave(
    calls: Mapping[str, Run], clock: Clock, *, rounds: int = 11, sample_s: float = 0.01, seed: int = 0
) -> dict[str, list[float]]:
    """Return the times of each call, one sample a round, every call sampled once in each round.

    Each call is first run a few times, so that compilers and caches are done; a sample repeats it for about
    ``sample_s`` seconds or runs it once. The order within a round is drawn from ``seed``.

    Raises: RangeError for fewer than 5 rounds, nothing to time, or a sample of no length.
    """
    rounds, sample_s = integer("rounds", rounds, least=LEAST_ROUNDS), positive_number("sample_s", sample_s)
    if not calls:
        raise RangeError("calls: expected at least one, got none")
    loops = {name: loops_for(call, clock, sample_s) for name, call in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in calls}
    order, draws = list(calls), random.Random(seed)
    with _without_collector():
        for _ in range(rounds):
            draws.shuffle(order)
            for name in order:
                times[name].append(clock.seconds(calls[name], loops[name]))
    return times


def spread(samples: Sequence[float]) -> Spread:
    """Return the quartiles of samples, interpolated between neighbours.

    >>> spread([4.0, 1.0, 2.0, 3.0])
    Spread(low=1.75, median=2.5, high=3.25)
    """
    return Spread(*(float(x) for x in np.quantile(samples, (0.25, 0.5, 0.75))))


def ratios(times: Mapping[str, Sequence[float]], to: str) -> dict[str, Spread]:
    """Return for each contender the quartiles, over the rounds, of its time over that of ``to``.

    >>> ratios({"a": [1.0, 2.0, 1.0], "b": [3.0, 6.0, 3.0]}, to="a")["b"]
    Spread(low=3.0, median=3.0, high=3.0)
    """
    return {
        name: spread([mine / base for mine, base in zip(samples, times[to], strict=True)])
        for name, samples in times.items()
    }
