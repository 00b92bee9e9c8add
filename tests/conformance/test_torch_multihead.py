"""The reference between the projections of PyTorch's nn.MultiheadAttention: its output and all its gradients.

In float64, with masks of both kinds, and with the sink that a zero key with a zero value makes.
"""

from typing import Any

import numpy as np
import pytest
import torch

from attngrad import reference as ref
from attngrad.checks import check_close

RNG = np.random.default_rng(18)
WIDTH, HEADS = 12, 3
X, MEMORY, DY = (RNG.standard_normal((2, n, WIDTH)) for n in (5, 7, 5))
FORBIDDEN = RNG.random((5, 7)) < 0.3
FORBIDDEN[:, 0] = False
PADDING = np.arange(7) >= np.array([[7], [4]])
ADDED = RNG.standard_normal((5, 7))
LAYERS = {
    "plain": ({}, {}),
    "mask": ({"attn_mask": FORBIDDEN}, {"mask": ~FORBIDDEN}),
    "padding": ({"key_padding_mask": PADDING}, {"mask": ~PADDING[:, None, None]}),
    "both": (
        {"attn_mask": FORBIDDEN, "key_padding_mask": PADDING},
        {"mask": ~FORBIDDEN & ~PADDING[:, None, None]},
    ),
    "bias": ({"attn_mask": ADDED}, {"bias": ADDED}),
}


def made(**options: Any) -> torch.nn.MultiheadAttention:
    """Return a layer in float64 with random parameters, its biases too."""
    layer = torch.nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, **options).double()
    rng = np.random.default_rng(23)
    for parameter in layer.parameters():
        parameter.data = torch.tensor(0.5 * rng.standard_normal(parameter.shape))
    return layer


def parameters_by_torch(layer: Any, options: dict[str, Any], weights: bool) -> dict[str, torch.Tensor]:
    """Return the output of a layer and the gradient of each parameter."""
    x, memory = torch.tensor(X), torch.tensor(MEMORY)
    tensors = {name: torch.tensor(value) for name, value in options.items()}
    y, _ = layer(x, memory, memory, need_weights=weights, **tensors)
    named = dict(layer.named_parameters())
    found = torch.autograd.grad(y, list(named.values()), torch.tensor(DY))
    return {"y": y} | dict(zip(named, found, strict=True))


def parameters_by_reference(layer: Any, **options: Any) -> dict[str, np.ndarray]:
    """Return the same, with the reference as the attention between the projections."""
    weights = {name: parameter.detach().numpy() for name, parameter in layer.named_parameters()}
    inputs = (X, MEMORY, MEMORY)
    w_in, b_in = (np.split(weights[f"in_proj_{kind}"], 3) for kind in ("weight", "bias"))
    q, k, v = (split(x @ w.T + b) for x, w, b in zip(inputs, w_in, b_in, strict=True))
    saved = ref.attention(q, k, v, **options)
    heads = merged(saved.o)
    found = ref.attention_vjp(saved, split(DY @ weights["out_proj.weight"]))
    parts = [merged(part) for part in found[:3]]
    return {
        "y": heads @ weights["out_proj.weight"].T + weights["out_proj.bias"],
        "in_proj_weight": np.concatenate(
            [np.einsum("bnc,bnx->cx", d, x) for d, x in zip(parts, inputs, strict=True)]
        ),
        "in_proj_bias": np.concatenate([d.sum(axis=(0, 1)) for d in parts]),
        "out_proj.weight": np.einsum("bnc,bnx->cx", DY, heads),
        "out_proj.bias": DY.sum(axis=(0, 1)),
    }


def split(x: np.ndarray) -> np.ndarray:
    """Return (B, N, H D) as (B, H, N, D)."""
    return x.reshape(*x.shape[:2], HEADS, -1).swapaxes(1, 2)


def merged(x: np.ndarray) -> np.ndarray:
    """Return (B, H, N, D) as (B, N, H D)."""
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)


def check_layer(found: dict[str, torch.Tensor], wanted: dict[str, np.ndarray]) -> None:
    """Require the output and all gradients to agree; the largest entries measure the terms."""
    for name, want in wanted.items():
        check_close(name, found[name], want, terms=20.0 * np.abs(want).max())


@pytest.mark.parametrize("weights", [False, True], ids=["fused", "with weights"])
@pytest.mark.parametrize("name", LAYERS)
def test_the_layer_has_our_gradients_between_its_projections(name, weights):
    theirs, ours = LAYERS[name]
    layer = made()
    found = parameters_by_torch(layer, theirs, weights)
    check_layer(found, parameters_by_reference(layer, **ours))


def test_its_masks_say_where_a_query_may_not_attend():
    theirs, ours = LAYERS["mask"]
    layer = made()
    found = parameters_by_torch(layer, theirs, weights=False)
    with pytest.raises(AssertionError):
        check_layer(found, parameters_by_reference(layer, mask=~ours["mask"]))


@pytest.mark.parametrize("weights", [False, True], ids=["fused", "with weights"])
def test_a_zero_key_with_a_zero_value_is_a_sink_of_logit_zero(weights):
    layer = made(add_zero_attn=True)
    found = parameters_by_torch(layer, {}, weights)
    check_layer(found, parameters_by_reference(layer, sink=np.zeros(HEADS)))
    with pytest.raises(AssertionError):
        check_layer(found, parameters_by_reference(layer))


def test_the_bias_of_the_keys_gets_nothing_unless_there_is_a_sink():
    quiet = parameters_by_torch(made(), {}, weights=False)["in_proj_bias"]
    check_close("keys", quiet[WIDTH : 2 * WIDTH], np.zeros(WIDTH), terms=20.0)
    assert min(quiet[:WIDTH].abs().max(), quiet[2 * WIDTH :].abs().max()) > 0.1
    heard = parameters_by_torch(made(add_zero_attn=True), {}, weights=False)["in_proj_bias"]
    assert heard[WIDTH : 2 * WIDTH].abs().max() > 0.1


def test_one_row_without_a_key_poisons_the_layer_if_it_returns_weights():
    """PyTorch issue 41508: NaN in every gradient of the projections, from a row that the loss leaves out."""
    layer, forbidden = made(), torch.zeros(5, 7, dtype=torch.bool)
    forbidden[2] = True
    kept = [0, 1, 3, 4]
    for weights in (True, False):
        y, _ = layer(*map(torch.tensor, (X, MEMORY, MEMORY)), attn_mask=forbidden, need_weights=weights)
        assert y[:, 2].isnan().all() == weights
        assert not y[:, kept].isnan().any()
        (found,) = torch.autograd.grad(y[:, kept], layer.in_proj_weight, torch.tensor(DY[:, kept]))
        assert found.isnan().any() == weights
    ours = parameters_by_reference(layer, mask=~forbidden.numpy())
    assert all(np.isfinite(x).all() for x in ours.values())
    bias = layer.out_proj.bias.detach().numpy()
    check_close("row without a key", ours["y"][:, 2], np.broadcast_to(bias, (2, WIDTH)))
