"""On a CUDA device: the bias and its gradient are those of the CPU, and repeated runs agree in every bit."""

import pytest
import torch

from attngrad.layers import AlibiMap, ClipMap, RelativeBias, T5Map, WindowMap

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

H = 3
CASES = [
    (T5Map(), 300, 400),
    (ClipMap(2), 500, 500),
    (WindowMap(7, 7), 49, 49),
    (AlibiMap(H, True), 300, 400),
]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("map", "N", "M"), CASES, ids=repr)
def test_bias_and_gradient_are_those_of_the_cpu(map, N, M, dtype):
    torch.manual_seed(0)
    bias = RelativeBias(H, map, dtype=dtype)
    (parameter,) = bias.parameters()
    torch.nn.init.normal_(parameter)
    dbias = torch.randn(H, N, M, dtype=dtype)
    want = bias(N, M)
    (grad,) = torch.autograd.grad(want, parameter, dbias)
    bias = bias.cuda()
    (parameter,) = bias.parameters()
    got = bias(N, M)
    assert torch.equal(got.cpu(), want)
    found = [torch.autograd.grad(bias(N, M), parameter, dbias.cuda())[0] for _ in range(10)]
    assert all(torch.equal(x, found[0]) for x in found)
    rounding = {torch.float64: 1e-12, torch.float32: 1e-4, torch.bfloat16: 2.0**-7}[dtype]
    assert (found[0].cpu() - grad).abs().max() <= rounding * grad.abs().max()
