"""Times: quartiles and ratios of planted samples, and the turns in which contenders are sampled."""

import gc

import pytest

from attngrad.bench import Spread, interleave, ratios, spread
from attngrad.bench.timing import WARM_UPS, CpuClock, loops_for
from attngrad.notation import DtypeError, RangeError


class PlantedClock:
    """A clock that runs nothing in samples, notes who was sampled, and answers with planted times."""

    def __init__(self, seconds):
        self.planted = seconds
        self.samples = []

    def seconds(self, call, loops):
        self.samples.append((call.name, loops, gc.isenabled()))
        return self.planted[call.name]


class Call:
    """A call that counts how often it ran."""

    def __init__(self, name):
        self.name, self.ran = name, 0

    def __call__(self):
        self.ran += 1


def calls(*names):
    return {name: Call(name) for name in names}


def test_quartiles_of_planted_samples():
    assert spread([5.0, 1.0, 4.0, 2.0, 3.0]) == Spread(2.0, 3.0, 4.0)
    assert spread([1.0, 2.0, 3.0, 100.0]) == Spread(1.75, 2.5, 27.25)
    assert spread([7.0]) == Spread(7.0, 7.0, 7.0)


def test_a_ratio_is_taken_within_a_round():
    """A machine that slows down by ten moves both times and no ratio; medians of times would say 1.5 / 10."""
    times = {"a": [1.0, 1.0, 10.0, 10.0, 10.0], "b": [1.5, 1.5, 15.0, 15.0, 1.5]}
    found = ratios({name: samples[:4] for name, samples in times.items()}, to="a")
    assert found["b"] == Spread(1.5, 1.5, 1.5)
    assert found["a"] == Spread(1.0, 1.0, 1.0)
    assert ratios(times, to="a")["b"].median == 1.5
    assert spread(times["b"]).median / spread(times["a"]).median == 0.15


def test_ratios_are_to_the_contender_that_is_named():
    found = ratios({"a": [2.0, 4.0], "b": [1.0, 1.0]}, to="b")
    assert found == {"a": Spread(2.5, 3.0, 3.5), "b": Spread(1.0, 1.0, 1.0)}


def test_rounds_must_be_as_long_for_all():
    with pytest.raises(ValueError, match="argument 2 is longer"):
        ratios({"a": [1.0], "b": [1.0, 1.0]}, to="b")


def test_every_round_samples_every_contender_once_in_a_changing_order():
    clock = PlantedClock({"a": 1e-3, "b": 4e-3, "c": 1.0})
    times = interleave(calls("a", "b", "c"), clock, rounds=8, sample_s=0.01, seed=3)
    assert times == {name: [clock.planted[name]] * 8 for name in "abc"}
    calibrating, sampling = clock.samples[:3], clock.samples[3:]
    assert [name for name, _, _ in calibrating] == ["a", "b", "c"]
    turns = ["".join(name for name, _, _ in sampling[k : k + 3]) for k in range(0, 24, 3)]
    assert all(sorted(turn) == ["a", "b", "c"] for turn in turns)
    assert len(set(turns)) > 2
    assert {(name, loops) for name, loops, _ in sampling} == {("a", 10), ("b", 3), ("c", 1)}


def test_the_order_is_that_of_the_seed():
    def order(seed):
        clock = PlantedClock(dict.fromkeys("abcd", 1e-3))
        interleave(calls(*"abcd"), clock, rounds=5, seed=seed)
        return [name for name, _, _ in clock.samples]

    assert order(1) == order(1)
    assert order(1) != order(2)


def test_a_call_is_warm_before_its_first_sample():
    call, clock = Call("a"), PlantedClock({"a": 1e-3})
    assert loops_for(call, clock, 0.0095) == 10
    assert call.ran == WARM_UPS
    assert clock.samples == [("a", 1, True)]


def test_no_garbage_is_collected_in_a_sample():
    clock = PlantedClock({"a": 1.0})
    interleave(calls("a"), clock, rounds=5)
    assert [collecting for _, _, collecting in clock.samples] == [True] + [False] * 5
    assert gc.isenabled()


def test_the_clock_of_the_processor_divides_by_the_loops(monkeypatch):
    ticks = iter([1_000, 7_000])
    monkeypatch.setattr("attngrad.bench.timing.perf_counter_ns", lambda: next(ticks))
    call = Call("a")
    assert CpuClock().seconds(call, 3) == pytest.approx(2e-6)
    assert call.ran == 3


@pytest.mark.parametrize(
    ("error", "arguments", "told"),
    [
        (RangeError, {"rounds": 4}, "rounds: expected an integer of at least 5, got 4"),
        (DtypeError, {"rounds": 5.0}, "rounds: expected an integer, got float 5.0"),
        (RangeError, {"sample_s": 0.0}, "sample_s: expected a positive finite number, got 0.0"),
    ],
)
def test_bad_settings_are_named(error, arguments, told):
    with pytest.raises(error, match=told):
        interleave(calls("a"), PlantedClock({"a": 1.0}), **arguments)


def test_nothing_to_time_is_an_error():
    with pytest.raises(RangeError, match="calls: expected at least one, got none"):
        interleave({}, PlantedClock({}))
