"""How arrays lie in memory, how fresh memory is filled, and the messages in which arrays travel."""

import io
import json
import sys

import numpy as np
import pytest
import torch

from attngrad.doctor import Spec, exchange
from attngrad.doctor.running.inside import arrays, wire
from attngrad.doctor.running.inside.subject_case import GUARD, SubjectCase
from attngrad.doctor.running.inside.uninitialised import filled_memory

from .run_subjects import case

DTYPES = ("float64", "float32", "float16", "bfloat16")
BY_TORCH = [
    lambda x: torch.empty(2, 3, dtype=x.dtype),
    lambda x: torch.empty_like(x),
    lambda x: torch.empty_like(x, requires_grad=True),
    lambda x: torch.empty_strided((2, 2), (1, 2), dtype=x.dtype),
    lambda x: x.new_empty(4),
    lambda x: x.new_empty_strided((2,), (1,)),
]


def made(one, spec):
    """Return a case as an implementation gets it."""
    return SubjectCase(exchange.told(one, spec), exchange.case_arrays(one, spec))


@pytest.mark.parametrize("framework", ["torch", "numpy"])
@pytest.mark.parametrize("layout", ["bhnd", "bnhd"])
def test_strides_are_as_they_are_called(framework, layout):
    spec = Spec(framework=framework, layout=layout)
    size = 4 if framework == "numpy" else 1  # strides of NumPy count bytes

    def strides(x):
        return tuple(n // size for n in (x.strides if framework == "numpy" else x.stride()))

    found = {s: made(case(strides=s, D=6, D_v=6), spec) for s in ("", "transposed", "sliced", "expanded")}
    contiguous = strides(found[""].q)
    assert contiguous[-1] == 1
    assert strides(found["transposed"].q)[-1] == found["transposed"].q.shape[-2]
    assert strides(found["transposed"].q)[-2] == 1
    assert strides(found["sliced"].k)[-2:] == (16, 1)
    assert strides(found["expanded"].do)[-1] == 0
    assert strides(found["expanded"].q) == contiguous
    for one in found.values():
        assert np.array_equal(arrays.numpy_copy(one.q), arrays.numpy_copy(found[""].q))
    around = arrays.numpy_copy(found["sliced"].memory()["q"])
    assert np.isnan(around).sum() == around.size - 2 * 2 * 3 * 6


def test_a_cotangent_that_varies_is_not_expanded():
    varying = case(strides="")
    spec = Spec()
    told = {**exchange.told(varying, spec), "strides": "expanded"}
    one = SubjectCase(told, exchange.case_arrays(varying, spec))
    assert 0 not in one.do.stride()
    assert np.array_equal(one.do.numpy(), varying.do.astype(np.float32))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 3), (), (0, 3), (5,)])
def test_the_fill_is_nan_and_known_again(dtype, shape):
    x = arrays.fill_unwritten(torch.zeros(shape, dtype=getattr(torch, dtype)))
    assert x.isnan().all()
    assert arrays.unwritten(x).all()
    x.fill_(torch.nan)
    assert not arrays.unwritten(x).any()
    if dtype != "bfloat16":
        y = arrays.fill_unwritten(np.zeros(shape, dtype=dtype))
        assert np.isnan(y).all()
        assert arrays.unwritten(y).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("make", BY_TORCH)
def test_fresh_memory_of_torch_is_filled_for_a_time(make, dtype):
    like = torch.zeros(2, 3, dtype=getattr(torch, dtype))
    with filled_memory():
        x = make(like)
    assert arrays.unwritten(x).all()
    assert x.dtype == like.dtype


def test_fresh_memory_of_numpy_is_filled_for_a_time():
    with filled_memory():
        made = [np.empty((2, 2)), np.empty_like(np.zeros((2, 3), np.float32).T), np.empty(3, np.float16)]
        assert np.empty(2, dtype=np.int64).dtype == np.int64
    assert all(arrays.unwritten(x).all() for x in made)
    assert made[1].strides == (4, 12)


def test_everything_is_put_back():
    names = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")
    before = {(owner, n): vars(owner).get(n) for owner in (np, torch, torch.Tensor) for n in names}
    with filled_memory():
        assert np.empty is not before[np, "empty"]
        assert torch.empty is not before[torch, "empty"]
    with pytest.raises(ZeroDivisionError), filled_memory():
        _ = 1 / 0
    assert all(vars(owner).get(name) is kept for (owner, name), kept in before.items())


def test_numpy_is_left_alone_beside_numba(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", object())
    kept = np.empty
    with filled_memory():
        assert np.empty is kept


@pytest.mark.slow
def test_what_is_compiled_is_left_alone():
    @torch.compile(fullgraph=True)
    def doubled(x):
        out = torch.empty_like(x)
        return out.copy_(x * 2.0)

    with filled_memory():
        assert doubled(torch.ones(3)).tolist() == [2.0] * 3


@pytest.mark.parametrize("framework", ["torch", "numpy"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_buffers_have_guards_and_the_right_shape(framework, dtype):
    one = made(
        case(dtype=dtype, bias=np.zeros((1, 2, 3, 5)), bias_dtype="float64"), Spec(framework=framework)
    )
    for name, shape in {
        "dq": (2, 2, 3, 4),
        "dv": (2, 2, 5, 4),
        "lse": (2, 2, 3),
        "dbias": (1, 2, 3, 5),
    }.items():
        assert tuple(one.out(name).shape) == shape
        assert arrays.unwritten(one.out(name)).all()
    assert one.guard_faults() == []
    with pytest.raises(ValueError, match="dsink: expected a case with sink, got case right"):
        one.out("dsink")
    with pytest.raises(ValueError, match="name: expected one of o, lse, dq"):
        one.out("d_q")


def test_a_write_at_the_far_end_of_a_guard_is_seen():
    one = made(case(), Spec(framework="numpy"))
    one.out("dq")
    one._buffers[0].whole[0] = 0
    one._buffers[0].whole[-1] = 0
    assert one.guard_faults() == [
        f"guard: dq: written up to {GUARD} bytes {where} the buffer" for where in ("before", "behind")
    ]


def test_messages_arrive_as_they_were_sent():
    sent = {
        "half": np.arange(6, dtype=np.float16).reshape(2, 3).T,
        "none": np.zeros((0, 4)),
        "one": np.array(3),
        "nan": np.array([np.nan, -0.0]),
        "mask": np.array([True, False]),
    }
    stream = io.BytesIO()
    wire.send(stream, {"n": np.int64(3), "x": [1, "ä"], "scale": np.float32(0.5)}, sent)
    wire.send(stream, {})
    stream.seek(0)
    message, came = wire.receive(stream)
    assert message == {"n": 3, "x": [1, "ä"], "scale": 0.5}
    for name, x in sent.items():
        assert (came[name].dtype, came[name].shape) == (x.dtype, x.shape)
        assert came[name].tobytes() == x.tobytes()
        assert came[name].flags.writeable
    assert wire.receive(stream) == ({}, {})
    with pytest.raises(EOFError):
        wire.receive(stream)


def test_nothing_is_pickled():
    with pytest.raises(TypeError, match="x: expected an array of numbers, got object"):
        wire.send(io.BytesIO(), {}, {"x": np.array([{}], dtype=object)})
    with pytest.raises(TypeError, match="message: expected what JSON holds, got set"):
        wire.send(io.BytesIO(), {"x": {1}})
    stream = io.BytesIO()
    wire.send(stream, {"a": 1}, {"x": np.ones(2)})
    data = stream.getvalue()
    assert json.loads(data[8 : 8 + int.from_bytes(data[:8], "big")])["message"] == {"a": 1}
    with pytest.raises(EOFError, match="expected 1 more bytes"):
        wire.receive(io.BytesIO(data[:-1]))
