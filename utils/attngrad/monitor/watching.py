"""Hooks that name the module in which the first NaN or infinity of a run is made, forward and backward."""

import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from attngrad.monitor.record import NonFinite, find
from attngrad.notation import DtypeError, boolean

PHASES = ("before", "forward", "backward", "after")


@dataclass
class FirstNonFinite:
    """What was found: at most one record for each phase, "before", "forward", "backward" and "after"."""

    found: dict[str, NonFinite] = field(default_factory=dict)

    @property
    def first(self) -> NonFinite | None:
        """Return the earliest record; None where everything was finite."""
        return next((self.found[phase] for phase in PHASES if phase in self.found), None)

    def __getitem__(self, phase: str) -> NonFinite | None:
        """Return the record of one phase."""
        return self.found.get(phase)

    def __str__(self) -> str:
        """Return a line for each record."""
        lines = [str(self.found[phase]) for phase in PHASES if phase in self.found]
        return "\n".join(lines) or "everything finite"


@dataclass
class _Call:
    """One running call of a module: its label, and the versions of its private inputs by id."""

    label: str
    number: int
    versions: dict[int, int] = field(default_factory=dict)
    returned: set[int] = field(default_factory=set)


@dataclass
class _Arrival:
    """A returned tensor, its version, and in whose code the gradient that arrives there is made."""

    tensor: Callable[[], Any]
    version: int
    label: str
    caller: _Call | None


def tensors(x: Any, path: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors in nested tuples, lists, mappings and dataclasses, with the path to each."""
    if isinstance(x, torch.Tensor):
        yield path, x
    elif isinstance(x, Mapping):
        for key, value in x.items():
            yield from tensors(value, f"{path}[{key!r}]")
    elif isinstance(x, tuple | list):
        for at, value in enumerate(x):
            yield from tensors(value, f"{path}[{at}]" if len(x) > 1 else path)
    elif is_dataclass(x) and not isinstance(x, type):
        for one in fields(x):
            yield from tensors(getattr(x, one.name), f"{path}.{one.name}")


def _mapped(x: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return plain tuples, lists and dicts with their tensors changed; anything else stays as it is."""
    if isinstance(x, torch.Tensor):
        return change(x)
    if type(x) in (tuple, list):
        return type(x)(_mapped(one, change) for one in x)
    if type(x) is dict:
        return {key: _mapped(value, change) for key, value in x.items()}
    return x


class _Watch:
    """The hooks of one block, and what they have found."""

    def __init__(self, model: nn.Module, optimizer: Any, allow_minus_inf: bool) -> None:
        """Name the modules; nothing is hooked yet."""
        self.model, self.optimizer, self.allow_minus_inf = model, optimizer, allow_minus_inf
        self.record = FirstNonFinite()
        self.handles: list[Any] = []
        self.running: list[_Call] = []
        self.calls: dict[str, int] = {}
        self.arrivals: dict[int, _Arrival] = {}
        self.labels: dict[nn.Module, str] = {}
        names: dict[nn.Module, list[str]] = {}
        for name, module in model.named_modules(remove_duplicate=False):
            names.setdefault(module, []).append(name or "model")
        for module, known in names.items():
            self.labels[module] = f"{' = '.join(known)} ({type(module).__name__})"

    def note(self, phase: str, what: str, x: Any, call: _Call | None = None, *, mask: bool = False) -> None:
        """Keep the first tensor of a phase that is not finite; a mask may hold -inf."""
        if phase in self.record.found:
            return
        module, number = (call.label, call.number) if call else ("", 0)
        made_here = call is not None and not self.record.found
        more = {"phase": phase, "module": module, "call": number, "made_here": made_here}
        bad = find(what, x, self.allow_minus_inf or mask, **more)
        if bad is not None:
            self.record.found[phase] = bad

    def start(self) -> None:
        """Look at the state, then hook every module and parameter."""
        self.look_at_state("before")
        for module in self.labels:
            self.handles += [
                module.register_forward_pre_hook(self.enter, with_kwargs=True),
                module.register_forward_hook(self.leave, with_kwargs=True, always_call=True),
            ]
        owners = [(module, p) for module in self.labels for p in module.named_parameters(recurse=False)]
        for module, (name, p) in owners:
            if p.requires_grad and not is_lazy(p):
                self.hook_parameter(p, f"gradient of its parameter {name}", _Call(self.labels[module], 0))

    def stop(self) -> None:
        """Take every hook away."""
        for handle in self.handles:
            handle.remove()
        self.handles.clear()
        self.running.clear()
        self.arrivals.clear()

    def hook_parameter(self, p: nn.Parameter, what: str, owner: _Call) -> None:
        """Look at the gradient of a parameter before it is added to what is there."""
        self.handles.append(p.register_hook(lambda g: self.note("backward", what, g, owner)))

    def enter(self, module: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        """Look at what a module is handed, and give it private views, so that its gradients are its own."""
        label = self.labels[module]
        self.calls[label] = self.calls.get(label, 0) + 1
        caller, call = self.running[-1] if self.running else None, _Call(label, self.calls[label])
        whose = f"what it hands to {label}" if caller else f"input of {label}"
        for path, x in tensors((*args, kwargs) if kwargs else args, ""):
            self.note("forward", f"{whose} {path}".rstrip(), x, caller, mask=not x.requires_grad)
        self.running.append(call)
        views: dict[int, torch.Tensor] = {}

        def private(x: torch.Tensor) -> torch.Tensor:
            if not (x.requires_grad and torch.is_grad_enabled() and x.layout == torch.strided):
                return x
            if id(x) not in views:
                views[id(x)] = view = x.view_as(x)
                call.versions[id(view)] = view._version
                self.hook_input(view, call)
            return views[id(x)]

        return _mapped(args, private), _mapped(kwargs, private)

    def hook_input(self, view: torch.Tensor, call: _Call) -> None:
        """Look at the gradient that a module sends into an input, unless it returned that input as it was."""
        key = id(view)

        def look(g: torch.Tensor) -> None:
            if key not in call.returned:
                self.note("backward", "gradient of its input", g, call)

        self.handles.append(view.register_hook(look))

    def note_arrival(self, label: str, g: torch.Tensor, caller: _Call | None) -> None:
        """Look at the gradient that arrives where a module returned a tensor."""
        what = f"gradient that it sends into {label}" if caller else f"gradient that arrives at {label}"
        self.note("backward", what, g, caller)

    def leave(self, module: nn.Module, args: tuple, kwargs: dict, output: Any) -> None:
        """Look at what a module returns, and at the gradient that will arrive there."""
        if not self.running or self.running[-1].label != self.labels[module]:
            return  # another hook has stopped this call before it was entered
        call = self.running.pop()
        caller = self.running[-1] if self.running else None
        for path, x in tensors(output, "output"):
            self.note("forward", path, x, call)
            if x.requires_grad and x.layout == torch.strided:
                self.hook_output(x, call, caller)

    def hook_output(self, x: torch.Tensor, call: _Call, caller: _Call | None) -> None:
        """Look at the gradient of a returned tensor once, in the name of the outermost that returns it."""
        if call.versions.get(id(x)) == x._version:
            call.returned.add(id(x))
        known = self.arrivals.get(id(x))
        if known is not None and known.tensor() is x and known.version == x._version:
            known.label, known.caller = call.label, caller
            return
        arrival = _Arrival(weakref.ref(x), x._version, call.label, caller)
        self.arrivals[id(x)] = arrival
        self.handles.append(x.register_hook(lambda g: self.note_arrival(arrival.label, g, arrival.caller)))

    def look_at_state(self, phase: str) -> None:
        """Look at parameters, buffers, gradients, and what the optimizer keeps."""
        for name, p in self.model.named_parameters():
            self.note(phase, f"parameter {name}", p)
            self.note(phase, f"gradient of {name}", p.grad)
        for name, x in self.model.named_buffers():
            self.note(phase, f"buffer {name}", x)
        names = {id(p): name for name, p in self.model.named_parameters()}
        for p, state in getattr(self.optimizer, "state", {}).items():
            for key, x in state.items():
                self.note(phase, f"optimizer's {key} of {names.get(id(p), 'a parameter')}", x)


def _check(model: Any, optimizer: Any) -> None:
    """Refuse what cannot be hooked, and an optimizer without a state."""
    if not isinstance(model, nn.Module):
        raise DtypeError(f"model: expected a module, got {type(model).__name__}")
    for name, one in model.named_modules():
        if hasattr(one, "_orig_mod") or getattr(one, "_compiled_call_impl", None) is not None:
            raise DtypeError(
                f"model: expected modules that are not compiled, got a compiled {name or 'model'}"
            )
    if optimizer is not None and not hasattr(optimizer, "state"):
        raise DtypeError(f"optimizer: expected one with a state, got {type(optimizer).__name__}")


@contextmanager
def first_non_finite(
    model: nn.Module, optimizer: Any = None, *, allow_minus_inf: bool = False, enabled: bool = True
) -> Iterator[FirstNonFinite]:
    """Name the module in whose code the first NaN or infinity of the block is made.

    Forward: the first module, in the order of execution, that returns a tensor that is not finite, or hands
    one to a module inside it. Backward: the first one that sends such a gradient into an input, a parameter,
    or the output of a module inside it. All that entered that code was finite, so it was made there. After an
    earlier finding it is passed on. What comes from outside the model, as from the loss, has no module.
    Parameters, buffers, gradients and the optimizer's state are looked at before the block, and after it
    where nothing else was found.

    An input that needs no gradient may hold -inf, as masks do. ``allow_minus_inf`` lets it pass everywhere,
    for models that add it to scores. With ``enabled=False`` nothing is hooked or read; when the block ends,
    no hook is left. Each tensor that is looked at costs a wait for its device. Contributions to one gradient
    may be added up in another order, which moves its last digits.

    Raises: DtypeError for no module, a module that is compiled, or an optimizer without a state.

    >>> import torch
    >>> from torch import nn
    >>> model = nn.Sequential(nn.Identity(), nn.LayerNorm(3, eps=0.0))
    >>> with first_non_finite(model) as found:
    ...     o = model(torch.ones(1, 3))
    >>> print(found)
    forward: 1 (LayerNorm): output is nan at index (0, 0), 3 of 3 entries; made here
    """
    _check(model, optimizer)
    boolean("allow_minus_inf", allow_minus_inf)
    if not boolean("enabled", enabled):
        yield FirstNonFinite()
        return
    watch = _Watch(model, optimizer, allow_minus_inf)
    try:
        watch.start()
        yield watch.record
    finally:
        watch.stop()
    if not watch.record.found:
        watch.look_at_state("after")
