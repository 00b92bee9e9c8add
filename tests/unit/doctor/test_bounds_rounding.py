"""Rounding to types that NumPy lacks, beside torch."""

import numpy as np
import pytest
import torch

from attngrad.doctor.judging.rounding import LOWEST, ROUNDOFF, SMALLEST, rounded, stored
from attngrad.notation import RangeError

RNG = np.random.default_rng(0)
EDGES = [0.0, 1.0, 1.00390625, 1.01171875, 65504.0, 65519.9, 65520.0, 3.39e38, 3.4e38, 1e-40, 6e-8, np.inf]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_values_are_rounded_as_torch_rounds_them(dtype):
    x = RNG.standard_normal(20_000) * 10.0 ** RNG.integers(-9, 9, 20_000)
    x = np.concatenate([x, EDGES, np.negative(EDGES)]).astype(np.float32)
    want = torch.tensor(x).to(getattr(torch, dtype)).double().numpy()
    got = rounded(x.astype(np.float64), dtype)
    assert np.array_equal(got, want)
    assert np.array_equal(np.signbit(got), np.signbit(want))
    assert got.dtype == np.float64


def test_halves_go_to_the_even_neighbour():
    one, step = 1.0, 2.0**-7
    x = np.array([one + step / 2, one + 3 * step / 2])
    assert rounded(x, "bfloat16").tolist() == [one, one + 2 * step]


def test_nan_and_infinities_stay():
    x = np.array([np.nan, np.inf, -np.inf])
    for dtype in ROUNDOFF:
        np.testing.assert_array_equal(rounded(x, dtype), x)


def test_tf32_keeps_eleven_bits_and_the_range_of_float32():
    x = np.array([1.0 + 2.0**-10, 1.0 + 2.0**-12, 2.0**127])
    assert rounded(x, "tf32").tolist() == [1.0 + 2.0**-10, 1.0, 2.0**127]
    x = RNG.standard_normal(1000)
    error = np.abs(rounded(x, "tf32") / x - 1.0).max()
    assert ROUNDOFF["tf32"] / 2 < error <= ROUNDOFF["tf32"]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_limits_of_types(dtype):
    info = torch.finfo(getattr(torch, dtype))
    assert LOWEST[dtype] == info.min
    assert ROUNDOFF[dtype] == info.eps / 2
    assert SMALLEST[dtype] == (2.0**-24 if dtype == "float16" else info.tiny)


def test_shapes_and_axes_are_kept_and_unknown_types_refused():
    x = RNG.standard_normal((3, 4, 5))
    turned = stored(x.transpose(2, 0, 1), "bfloat16")
    assert np.array_equal(turned, stored(x, "bfloat16").transpose(2, 0, 1))
    assert stored(np.asarray(0.1), "bfloat16").shape == ()
    with pytest.raises(RangeError, match=r"dtype: expected one of float64, .*, tf32, got 'int8'"):
        rounded(x, "int8")
