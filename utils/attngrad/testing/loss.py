"""A loss that can be called again and again: the same random numbers, and float64 inside."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from attngrad.notation import DtypeError, RangeError, ShapeError

if TYPE_CHECKING:
    import torch

SEED = 0
ACCESS = ("__get__", "__set__", "__setitem__")


@cache
def promoting() -> Any:
    """Return the class of a mode of torch in which every operation is done in float64.

    Tensors of a lower type of floats are converted, and say that theirs is float64. Operations in place keep
    the type of what they change.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    low = (torch.float32, torch.float16, torch.bfloat16)
    casts = (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16)
    type_of = torch.Tensor.dtype.__get__

    def promoted(x: Any) -> Any:
        """Return a tensor or a type in float64, and lists of them."""
        if isinstance(x, torch.Tensor):
            return x.double() if x.dtype in low else x
        if isinstance(x, list | tuple) and type(x) in (list, tuple):
            return type(x)(promoted(one) for one in x)
        return torch.float64 if isinstance(x, torch.dtype) and x in low else x

    class Promoting(TorchFunctionMode):
        """float64 for every lower type."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            """Call with float64 in the place of lower types."""
            name, kwargs = getattr(func, "__name__", ""), kwargs or {}
            if func in casts:
                return args[0].double()
            if func == type_of:
                return promoted(func(*args))
            inplace = name in ACCESS or (name.endswith("_") and not name.endswith("__")) or "out" in kwargs
            if inplace:
                return func(*args, **kwargs)
            return func(*map(promoted, args), **{key: promoted(x) for key, x in kwargs.items()})

    return Promoting


class Loss:
    """A closure as a function of one parameter, which is moved in place and put back."""

    def __init__(self, function: Callable[[], Any], parameter: torch.Tensor, promote: bool) -> None:
        """Keep the closure and the parameter."""
        self.function, self.parameter, self.promote = function, parameter, promote

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Hold the random numbers of one seed, and float64 where that is asked for."""
        import torch

        device = self.parameter.device
        with ExitStack() as entered:
            entered.enter_context(torch.random.fork_rng([device] if device.type == "cuda" else []))
            torch.manual_seed(SEED)
            if self.promote:
                entered.callback(torch.set_default_dtype, torch.get_default_dtype())
                torch.set_default_dtype(torch.float64)
                entered.enter_context(promoting()())
            yield

    def gradient(self, loss: torch.Tensor, keep_graph: bool = False) -> torch.Tensor | None:
        """Return the gradient of the parameter, None if there is none.

        torch.autograd.grad would leave the mode that promotes before it enters the backward passes.
        """
        import torch
        from torch.autograd.graph import _engine_run_backward

        with self.inside():
            cotangent, inputs = (torch.ones_like(loss),), (self.parameter,)
            options = {"allow_unreachable": True, "accumulate_grad": False}
            return _engine_run_backward((loss,), cotangent, keep_graph, False, inputs, **options)[0]

    def __call__(self, graph: bool = True) -> torch.Tensor:
        """Return the loss, with its graph unless that is not wanted.

        Raises: DtypeError or ShapeError for what is no tensor of one float.
        """
        import torch

        with self.inside(), torch.set_grad_enabled(graph):
            loss = self.function()
        if not isinstance(loss, torch.Tensor) or not loss.is_floating_point():
            told = loss.dtype if isinstance(loss, torch.Tensor) else type(loss).__name__
            raise DtypeError(f"loss_fn: expected a tensor of one float, got {told}")
        if loss.numel() != 1:
            raise ShapeError(f"loss_fn: expected a tensor of one number, got shape {tuple(loss.shape)}")
        return loss

    def value(self) -> float:
        """Return the loss as a number."""
        return float(self(graph=False))

    def moved(self, move: torch.Tensor) -> float:
        """Return the loss with the parameter moved; the parameter is put back bit for bit."""
        import torch

        kept = self.parameter.detach().clone()
        try:
            with torch.no_grad():
                self.parameter.add_(move)
            return self.value()
        finally:
            with torch.no_grad():
                self.parameter.copy_(kept)

    def difference(self, direction: torch.Tensor, step: float) -> float:
        """Return the central difference of the loss along a direction.

        Raises: RangeError where the loss is not finite a step beside.
        """
        difference = (self.moved(step * direction) - self.moved(-step * direction)) / (2.0 * step)
        if not math.isfinite(difference):
            raise RangeError(f"loss_fn: expected a finite loss {step:.0e} beside the parameter, got another")
        return difference


@contextmanager
def prepared(parameter: torch.Tensor, model: Any, promote: bool) -> Iterator[None]:
    """Hold the parameter in float64 with a gradient, and put it and the buffers of the model back."""
    import torch

    data, asked = parameter.data, parameter.requires_grad
    buffers = [] if model is None else [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    try:
        parameter.data = data.double() if promote else data.clone()
        parameter.requires_grad_(True)
        yield
    finally:
        parameter.data = data
        parameter.requires_grad_(asked)
        with torch.no_grad():
            for buffer, kept in buffers:
                buffer.copy_(kept)
