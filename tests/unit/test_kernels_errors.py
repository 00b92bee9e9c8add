"""Bad arguments of the kernels: the errors of attention on torch tensors, and those of the kernels alone."""

import re
import subprocess
import sys

import numpy as np
import pytest
import torch

from .kernel_cases import kernels  # isort: skip
from attngrad import layers
from attngrad.kernels import arguments
from attngrad.notation import DtypeError, RangeError, ShapeError

B, H, H_KV, N, M, D, D_V = 2, 4, 2, 5, 7, 3, 6
GOOD = {
    "q": torch.ones(B, H, N, D),
    "k": torch.ones(B, H_KV, M, D),
    "v": torch.ones(B, H_KV, M, D_V),
    "diagonals": torch.ones(H, N + M - 1),
    "mask": torch.ones(N, M, dtype=torch.bool),
}
LAYERS = {
    "q: array": {"q": np.ones((B, H, N, D))},
    "k: integers": {"k": torch.ones(B, H_KV, M, D, dtype=torch.int64)},
    "q: axes": {"q": GOOD["q"][0]},
    "v: axes": {"v": GOOD["v"][0, 0]},
    "v: type": {"v": GOOD["v"].bfloat16()},
    "q: layout": {"q": GOOD["q"].to_sparse()},
    "v: device": {"v": GOOD["v"].to("meta")},
    "k: batch": {"k": GOOD["k"][:1]},
    "k: features": {"k": GOOD["k"][..., 1:]},
    "v: keys": {"v": GOOD["v"][:, :, 1:]},
    "heads": {"q": GOOD["q"][:, :3]},
    "no heads of keys": {"k": GOOD["k"][:, :0], "v": GOOD["v"][:, :0]},
    "no heads": {"q": GOOD["q"][:, :0]},
    "scale: nan": {"scale": np.nan},
    "scale: flag": {"scale": True},
    "scale: vector": {"scale": torch.ones(2)},
    "scale: integer": {"scale": torch.tensor(2)},
    "scale: beyond": {"scale": 1e300},
    "mask: list": {"mask": [True]},
    "mask: floats": {"mask": torch.ones(N, M)},
    "mask: shape": {"mask": torch.ones(M, N, dtype=torch.bool)},
    "mask: device": {"mask": GOOD["mask"].to("meta")},
    "causal": {"causal": 1},
    "start: alone": {"query_start": 0},
    "start: float": {"query_start": 1.0, "causal": True},
    "start: size": {"query_start": 2**62, "causal": True},
    "return_lse": {"return_lse": "yes"},
}
WIDE = {"q": torch.ones(B, H, N, 129), "k": torch.ones(B, H_KV, M, 129)}
KERNELS = {
    "q: float64": (
        {"q": GOOD["q"].double()},
        DtypeError,
        "q: expected torch.float32, torch.float16 or torch.bfloat16, got torch.float64",
    ),
    "q: features": (WIDE, ShapeError, r"q: expected from 1 to 128 features, got shape \(2, 4, 5, 129\)"),
    "v: no feature": ({"v": GOOD["v"][..., :0]}, ShapeError, "v: expected from 1 to 128 features"),
    "q: device": (
        {"q": GOOD["q"].to("meta")},
        DtypeError,
        "q: expected a tensor on the CPU, since TRITON_INTERPRET=1 is set, got one on meta",
    ),
    "diagonals: list": ({"diagonals": [0.0]}, DtypeError, "diagonals: expected a torch tensor of floats"),
    "diagonals: integers": ({"diagonals": torch.ones(H, 11, dtype=int)}, DtypeError, "diagonals: expected a"),
    "diagonals: heads": (
        {"diagonals": torch.ones(2, N + M - 1)},
        ShapeError,
        r"diagonals: expected shape \(4, 11\) or \(1, 11\), heads and N \+ M - 1, got \(2, 11\)",
    ),
    "diagonals: pairs": ({"diagonals": torch.ones(H, N, M)}, ShapeError, r"diagonals: .* got \(4, 5, 7\)"),
    "deterministic": ({"deterministic": 1}, DtypeError, "deterministic: expected True or False, got int 1"),
}


def message(f, arguments):
    """Return the type and the text of the error of a call."""
    with pytest.raises((DtypeError, ShapeError, RangeError)) as caught:
        f(**arguments)
    return caught.type, str(caught.value)


@pytest.mark.usefixtures("raw_errors")
@pytest.mark.parametrize("name", LAYERS)
def test_bad_input_is_named_as_by_the_layers(name):
    others = {key: value for key, value in GOOD.items() if key != "diagonals"} | LAYERS[name]
    assert message(kernels.attention, others) == message(layers.attention, others)


@pytest.mark.parametrize("name", KERNELS)
def test_bad_input_of_kernels_alone_is_named(name):
    changed, error, told = KERNELS[name]
    found = message(kernels.attention, GOOD | changed)
    assert found[0] is error
    assert re.match(told, found[1])


def test_good_input_passes():
    kernels.attention(**GOOD, causal=True, query_start=-1, scale=2, return_lse=True, deterministic=False)


def test_without_the_interpreter_a_device_is_asked_for(monkeypatch):
    monkeypatch.setattr(arguments, "INTERPRETED", False)
    with pytest.raises(DtypeError, match="q: expected a tensor on a CUDA device, got one on cpu"):
        kernels.attention(**GOOD)


@pytest.mark.parametrize(
    ("x", "told"),
    [
        (torch.ones(3, 4), r"x: expected three axes \(H, N, M\), none of them empty, got shape \(3, 4\)"),
        (torch.ones(1, 0, 4), r"x: expected three axes .* got shape \(1, 0, 4\)"),
        (torch.ones(1, 2, 4).double(), "x: expected torch.float32, .* got torch.float64"),
        ([1.0], "x: expected a torch tensor of floats, got list"),
    ],
)
def test_bad_input_of_diagonal_sums_is_named(x, told):
    with pytest.raises((DtypeError, ShapeError), match=told):
        kernels.diagonal_sums(x)


@pytest.mark.parametrize("missing", ["torch", "triton"])
def test_without_what_it_needs_the_error_names_the_extra(missing):
    code = f"import sys; sys.modules[{missing!r}] = None\nimport attngrad.kernels"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert f"attngrad.kernels needs {missing}, which the extra attngrad[triton] brings" in run.stderr
