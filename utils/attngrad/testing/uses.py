"""Where the bias of a table enters a model, and what each place contributes to the gradient."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from attngrad.testing.loss import Loss

if TYPE_CHECKING:
    import torch

MOST = 64


@dataclass
class Modules:
    """Which module ran when: its name, and the numbers of the first and last operation."""

    spans: list[tuple[str, int, int]] = field(default_factory=list)

    def name(self, number: int) -> str:
        """Return the innermost module in which an operation ran; "" for none."""
        inside = [(end - start, name) for name, start, end in self.spans if start <= number < end]
        return min(inside)[1] if inside else ""


@contextmanager
def recorded(model: Any) -> Iterator[Modules]:
    """Note while the model runs which operations belong to which module."""
    seen, open_calls, handles = Modules(), [], []
    if model is not None:
        for name, module in model.named_modules():

            def enter(_module: Any, _inputs: Any, name: str = name) -> None:
                open_calls.append((name, _number_now()))

            def leave(_module: Any, _inputs: Any, _output: Any) -> None:
                name, start = open_calls.pop()
                seen.spans.append((name, start, _number_now()))

            handles.append(module.register_forward_pre_hook(enter))
            handles.append(module.register_forward_hook(leave, always_call=True))
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def _number_now() -> int:
    """Return the number that autograd gives to an operation that runs now."""
    import torch

    with torch.enable_grad():
        return torch.ones((), requires_grad=True).clone().grad_fn._sequence_nr()


def contributions(
    loss_fn: Loss, loss: torch.Tensor, modules: Modules
) -> tuple[tuple[str, torch.Tensor], ...]:
    """Return each place where the bias meets other numbers, and its part of the gradient, as they ran.

    A bias is what depends on the parameter alone; a place is an operation that joins it with what depends on
    something else. All parts add up to the gradient. Nothing is returned where nothing else in the graph
    requires a gradient, or for more than 64 places. The graph is kept.
    """
    import torch

    edges = _edges(loss.grad_fn, loss_fn.parameter)
    places = sorted(edges, key=lambda node: node._sequence_nr())
    if not places or len(places) > MOST:
        return ()
    parts = []
    for place in places:
        handles = [node.register_hook(_without(edges[node])) for node in places if node is not place]
        try:
            part = loss_fn.gradient(loss, keep_graph=True)
        finally:
            for handle in handles:
                handle.remove()
        part = torch.zeros_like(loss_fn.parameter) if part is None else part.detach()
        parts.append((modules.name(place._sequence_nr()) or place.name(), part))
    return tuple(parts)


def _without(edges: set[int]) -> Any:
    """Return a hook on an operation that stops what flows into some of its inputs."""

    def hook(gradients: tuple[Any, ...], _outputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(
            g.new_zeros(g.shape) if k in edges and g is not None else g for k, g in enumerate(gradients)
        )

    return hook


def _edges(root: Any, parameter: torch.Tensor) -> dict[Any, set[int]]:
    """Return the operations that join the bias with other numbers, with the inputs at which it enters."""
    nodes = _ordered(root)
    pure: set[Any] = set()
    for node in nodes:
        inputs = [source for source, _ in node.next_functions if source is not None]
        if getattr(node, "variable", None) is parameter or (inputs and all(one in pure for one in inputs)):
            pure.add(node)
    found: dict[Any, set[int]] = {}
    for node in nodes:
        if node not in pure:
            at = {k for k, (source, _) in enumerate(node.next_functions) if source in pure}
            if at:
                found[node] = at
    return found


def _ordered(root: Any) -> list[Any]:
    """Return the operations of a graph, each behind those it takes its inputs from."""
    done: dict[Any, bool] = {}
    ordered, stack = [], [root]
    while stack:
        node = stack[-1]
        if node in done:
            stack.pop()
            if not done[node]:
                done[node] = True
                ordered.append(node)
            continue
        done[node] = False
        stack += [source for source, _ in node.next_functions if source is not None and source not in done]
    return ordered
