"""Bad arguments of attention on torch tensors: the same errors as the reference, and those of torch alone."""

import re

import numpy as np
import pytest
import torch

from attngrad import layers, reference
from attngrad.notation import DtypeError, RangeError, ShapeError

pytestmark = pytest.mark.usefixtures("raw_errors")

B, H, H_KV, N, M, D, D_V = 2, 4, 2, 5, 7, 3, 6
RNG = np.random.default_rng(0)
GOOD = {
    "q": RNG.standard_normal((B, H, N, D)),
    "k": RNG.standard_normal((B, H_KV, M, D)),
    "v": RNG.standard_normal((B, H_KV, M, D_V)),
    "bias": RNG.standard_normal((H, N, M)),
    "sink": RNG.standard_normal(H),
    "mask": RNG.random((N, M)) < 0.7,
    "keep": RNG.random((B, H, N, M)) < 0.7,
}


def spoilt(name, value, at=-1):
    """Return a good array with one entry replaced, the last one where nothing is said."""
    x = GOOD[name].copy()
    x.reshape(-1)[at] = value
    return {name: x}


EMPTY = {"q": GOOD["q"][..., :0], "k": GOOD["k"][..., :0]}
BAD = {
    "q: array": ({"q": [1.0]}, DtypeError, "q: expected a torch tensor of floats, got list"),
    "k: integers": ({"k": np.zeros((B, H_KV, M, D), int)}, DtypeError, "k: expected .* got torch.int64"),
    "v: booleans": ({"v": np.zeros((B, H_KV, M, D), bool)}, DtypeError, "v: expected .* got torch.bool"),
    "q: complex": ({"q": GOOD["q"] * 1j}, DtypeError, "q: expected .* got torch.complex128"),
    "q: axes": ({"q": GOOD["q"][0]}, ShapeError, r"q: expected four axes \(B, H, N, D\), got .* \(4, 5, 3\)"),
    "k: axes": ({"k": GOOD["k"][0]}, ShapeError, r"k: expected four axes \(B, H_kv, M, D\), got"),
    "v: axes": ({"v": GOOD["v"][0, 0]}, ShapeError, r"v: expected four axes \(B, H_kv, M, D_v\), got"),
    "q: nan": (spoilt("q", np.nan), RangeError, r"q: expected finite .* got nan at index \(1, 3, 4, 2\)"),
    "k: inf": (spoilt("k", -np.inf, 0), RangeError, r"k: expected finite values, got -inf at index \(0, 0"),
    "v: inf": (spoilt("v", np.inf), RangeError, r"v: expected finite .* got inf at index \(1, 1, 6, 5\)"),
    "k: batch": ({"k": GOOD["k"][:1]}, ShapeError, r"k: .* \(2, 2, 7, 3\) as for B and D of q, got \(1, 2"),
    "k: features": ({"k": GOOD["k"][..., 1:]}, ShapeError, r"k: .* as for B and D of q, got \(2, 2, 7, 2\)"),
    "v: keys": ({"v": GOOD["v"][:, :, 1:]}, ShapeError, r"v: .* for B, H_kv and M of k, got \(2, 2, 6, 6\)"),
    "v: heads": ({"v": GOOD["v"][:, :1]}, ShapeError, r"v: .* \(2, 2, 7, 6\) as for B, H_kv and M of k, got"),
    "scale: nan": ({"scale": np.nan}, RangeError, "scale: expected a finite number, got nan"),
    "scale: flag": ({"scale": True}, DtypeError, "scale: expected a number, got bool"),
    "scale: text": ({"scale": "0.3"}, DtypeError, "scale: expected a number, got str"),
    "scale: features": (EMPTY, RangeError, "scale: expected a number where queries have no feature, got"),
    "softcap: zero": ({"softcap": 0.0}, RangeError, "softcap: expected a positive finite number, got 0.0"),
    "softcap: sign": ({"softcap": -1.5}, RangeError, "softcap: expected a positive .* got -1.5"),
    "softcap: flag": ({"softcap": True}, DtypeError, "softcap: expected a number, got bool"),
    "softcap_on": (
        {"softcap_on": "logits"},
        RangeError,
        "softcap_on: expected one of 'scores', 'product', got 'logits'",
    ),
    "inside": ({"bias_inside_scale": 1}, DtypeError, "bias_inside_scale: expected True or False, got int 1"),
    "mask: list": ({"mask": [True]}, DtypeError, "mask: expected a torch tensor of booleans .* got list"),
    "mask: floats": ({"mask": np.zeros((N, M))}, DtypeError, "mask: expected booleans .* got torch.float64"),
    "mask: shape": ({"mask": np.ones((M, N), bool)}, ShapeError, r"mask: .* to \(2, 4, 5, 7\), got \(7, 5\)"),
    "causal": ({"causal": 1}, DtypeError, "causal: expected True or False, got int 1"),
    "start: alone": ({"query_start": 0}, RangeError, "query_start: expected None without causal=True, got 0"),
    "start: float": (
        {"query_start": 1.0, "causal": True},
        DtypeError,
        "query_start: expected an integer, got float 1.0",
    ),
    "start: size": ({"query_start": 2**62, "causal": True}, RangeError, r"query_start: .* at most 2\^61"),
    "bias: list": ({"bias": [0.0]}, DtypeError, "bias: expected a torch tensor of floats, got list"),
    "bias: integers": ({"bias": np.zeros((N, M), int)}, DtypeError, "bias: expected .* got torch.int64"),
    "bias: shape": ({"bias": np.zeros((B, N, M))}, ShapeError, r"bias: .* \(2, 4, 5, 7\), got \(2, 5, 7\)"),
    "bias: axes": ({"bias": np.zeros((1, 1, 1, 1, 1))}, ShapeError, r"bias: .* got \(1, 1, 1, 1, 1\)"),
    "bias: nan": (
        spoilt("bias", np.nan) | {"mask": None},
        RangeError,
        r"bias: expected finite logits or -inf, got nan at index \(0, 3, 4, 6\)",
    ),
    "bias: inf": (
        spoilt("bias", np.inf, 1) | {"mask": np.arange(M) == 1},
        RangeError,
        r"bias: expected finite logits or -inf, got inf at index \(0, 0, 0, 1\)",
    ),
    "sink: shape": ({"sink": np.zeros(H_KV)}, ShapeError, r"sink: .* \(4,\) as for the heads of q, got"),
    "sink: axes": ({"sink": np.zeros(())}, ShapeError, "sink: expected at least 1 axes, got shape"),
    "sink: inf": (spoilt("sink", np.inf), RangeError, r"sink: .* or -inf, got inf at index \(3,\)"),
    "sink: number": ({"sink": 0.5}, DtypeError, "sink: expected a torch tensor of floats, got float"),
    "keep: none": (
        {"keep": None, "dropout": 0.25},
        DtypeError,
        "keep: expected a mask of the weights that are kept at dropout = 0.25, got None",
    ),
    "keep: floats": ({"keep": np.ones((N, M))}, DtypeError, "keep: expected booleans .* got torch.float64"),
    "keep: shape": ({"keep": np.ones((N, N), bool)}, ShapeError, r"keep: .* to \(2, 4, 5, 7\), got \(5, 5\)"),
    "dropout: one": ({"dropout": 1.0}, RangeError, "dropout: expected a rate from 0 to less than 1, got 1.0"),
    "dropout: sign": ({"dropout": -0.1}, RangeError, "dropout: expected a rate .* got -0.1"),
    "dropout: none": ({"dropout": None}, DtypeError, "dropout: expected a number, got NoneType"),
    "heads": (
        {"q": GOOD["q"][:, :3], "bias": None, "sink": None, "keep": None},
        ShapeError,
        "H: expected a multiple of H_kv = 2, got H = 3",
    ),
    "no heads of keys": (
        {"k": GOOD["k"][:, :0], "v": GOOD["v"][:, :0]},
        ShapeError,
        "H: expected a multiple of H_kv = 0, got H = 4",
    ),
    "no heads": (
        {"q": GOOD["q"][:, :0], "bias": None, "sink": None, "keep": None},
        RangeError,
        "H: expected an integer of at least 1, got 0",
    ),
    "scores": (
        {"q": GOOD["q"] * 1e200, "k": np.abs(GOOD["k"]) * 1e200},
        RangeError,
        r"scale q.k: expected numbers within the range of floats, got (nan|-?inf) at index \(",
    ),
}  # fmt: skip


def as_tensors(arguments):
    """Return arguments with tensors in the place of arrays."""
    return {name: torch.tensor(x) if isinstance(x, np.ndarray) else x for name, x in arguments.items()}


def in_torch(message):
    """Return a message of the reference in the words of torch."""
    message = message.replace("a NumPy array", "a torch tensor").replace("an array", "a tensor")
    return re.sub(r"(d a tensor of floats|d booleans .*), got (\w+)$", r"\1, got torch.\2", message)


def message_of(f, arguments, error):
    """Return the message of the error that a call raises."""
    with pytest.raises((DtypeError, ShapeError, RangeError)) as caught:
        f(**arguments)
    assert caught.type is error
    return str(caught.value)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named_as_by_the_reference(name):
    changed, error, message = BAD[name]
    told = message_of(layers.attention, as_tensors(GOOD | changed), error)
    assert re.match(message, told)
    by_reference = in_torch(message_of(reference.attention, GOOD | changed, error))
    if name == "scores":  # whether inf - inf occurs depends on the order of summation
        told, by_reference = (re.sub("nan|-?inf", "", text) for text in (told, by_reference))
    assert told == by_reference


def test_good_input_passes():
    o = layers.attention(**as_tensors(GOOD), causal=True, query_start=0, dropout=0.25)
    assert o.shape == (B, H, N, D_V)


T = as_tensors(GOOD)
SINGLE = {name: T[name].float() for name in ("q", "k", "v")}
BAD_IN_TORCH = {
    "array": ({"q": GOOD["q"]}, DtypeError, "q: expected a torch tensor of floats, got ndarray"),
    "mask array": ({"mask": GOOD["mask"]}, DtypeError, "mask: expected a torch tensor of .* got ndarray"),
    "types": ({"k": T["k"].float()}, DtypeError, "k: expected torch.float64 as q, got torch.float32"),
    "type of v": ({"v": T["v"].bfloat16()}, DtypeError, "v: expected torch.float64 as q, got torch.bfloat16"),
    "scale vector": ({"scale": T["sink"]}, ShapeError, r"scale: .* \(\) as for a scalar, got \(4,\)"),
    "scale integer": ({"scale": torch.tensor(2)}, DtypeError, "scale: expected .* floats, got torch.int64"),
    "scale nan": (
        {"scale": torch.tensor(torch.nan)},
        RangeError,
        "scale: expected a finite number in torch.float64, got nan",
    ),
    "scale beyond": (SINGLE | {"scale": 1e300}, RangeError, r"scale: .* in torch.float32, got 1e\+300"),
    "softcap beyond": (
        SINGLE | {"softcap": 1e-60},
        RangeError,
        r"softcap: expected a number from 1.17.*e-38 to 3.4.*e\+38, the range of torch.float32, got 1e-60",
    ),
    "softcap tensor": ({"softcap": torch.tensor(2.0)}, DtypeError, "softcap: expected a number, got Tensor"),
    "bias beyond": (
        SINGLE | {"bias": T["bias"].clamp(max=-1e300), "mask": None},
        RangeError,
        r"bias: expected finite logits or -inf in torch.float32, got -1e\+300 at index \(0, 0, 0, 0\)",
    ),
    "sink beyond": (
        SINGLE | {"sink": torch.full((H,), 1e300, dtype=torch.float64)},
        RangeError,
        r"sink: expected finite logits or -inf in torch.float32, got 1e\+300 at index \(0,\)",
    ),
    "impl": (
        {"impl": "fused"},
        RangeError,
        "impl: expected one of 'closed', 'tiled', 'triton', got 'fused'",
    ),
}


@pytest.mark.parametrize("name", BAD_IN_TORCH)
def test_bad_input_of_torch_alone_is_named(name):
    changed, error, message = BAD_IN_TORCH[name]
    assert re.match(message, message_of(layers.attention, T | changed, error))


def test_every_argument_has_a_bad_case():
    arguments = set(layers.attention.__wrapped__.__annotations__) - {"return"}
    changed = {name for case in (*BAD.values(), *BAD_IN_TORCH.values()) for name in case[0]}
    assert arguments - changed == {"return_lse"}
