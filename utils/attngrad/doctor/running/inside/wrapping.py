"""A plain callable of torch as an implementation: autograd is its backward pass."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from .signature import claims_of, roles_of
from .subject_case import LIKE, SubjectCase

OUTPUTS = ("o", "out", "output", "attn_output", "context", "hidden_states", "last_hidden_state")
LSES = ("lse", "logsumexp", "softmax_lse")
# What a case may hold, the roles that take it, and what to call it.
NEEDED = {
    "bias": ({"bias", "attn_mask"}, "bias"),
    "table": ({"table"}, "table"),
    "mask": ({"mask", "attn_mask"}, "mask"),
    "keep": ({"keep"}, "mask of dropout"),
    "sink": ({"sink"}, "sink"),
    "softcap": ({"softcap"}, "soft-cap"),
}


class Unsupported(Exception):
    """The callable does not take what the case has."""


def wrapped(function: Callable, notes: list[str]) -> "Wrapped":
    """Return a callable as an implementation; what is not passed to it is added to the notes.

    Raises: ValueError for a signature that is not understood.
    """
    if isinstance(function, type):  # torch.autograd.Function: its apply takes no names
        own = function.__mro__[: function.__mro__.index(_base(function))]
        without_ctx = any("setup_context" in vars(kind) for kind in own)
        roles, left = roles_of(function.forward, leave=0 if without_ctx else 1)
        return Wrapped(function.apply, roles, left, notes, by_position=True)
    told = getattr(function, "forward", None)  # the call of a torch.nn.Module names no parameter
    roles, left = roles_of(told if callable(told) else function)
    return Wrapped(function, roles, left, notes, by_position=False)


def _base(kind: type) -> type:
    """Return the first class that torch itself has among those of an autograd function."""
    return next(base for base in kind.__mro__ if base.__module__ == "torch.autograd.function")


class Wrapped:
    """forward(case) and backward(case, saved) around a callable of q, k, v and options."""

    def __init__(
        self,
        function: Callable,
        roles: Mapping[str, inspect.Parameter],
        left: tuple[str, ...],
        notes: list[str],
        by_position: bool,
    ) -> None:
        """Keep the callable and what its parameters are for."""
        self.function, self.roles, self.by_position = function, dict(roles), by_position
        if left:
            notes.append(f"not passed: {', '.join(left)}")
        if "mask" in roles:
            notes.append(f"{roles['mask'].name} is passed with True where a query may attend")
        if "table" in roles:
            told = "is taken for the table of a bias, and tried where the specification has a map"
            notes.append(f"{roles['table'].name} {told}")

    def told(self) -> dict[str, Any]:
        """Return what the parameters tell of a specification."""
        return claims_of(self.roles)

    def forward(self, case: SubjectCase) -> dict[str, Any]:
        """Call the callable with leaves that require a gradient exactly where the case asks for one."""
        self._require(case)
        leaves, arguments = self._arguments(case)
        o, lse = read(self._called(arguments), case)
        return {"o": o, "lse": lse, "leaves": leaves}

    def backward(self, case: SubjectCase, saved: Mapping[str, Any]) -> dict[str, Any]:
        """Return the gradients that autograd finds; None where it finds none."""
        import torch

        pairs = [(saved["o"], case.do), (saved["lse"], case.dlse)]
        pairs = [(y, dy.to(y.dtype)) for y, dy in pairs if y is not None and dy is not None]
        pairs, leaves = [(y, dy) for y, dy in pairs if y.requires_grad], saved["leaves"]
        if not pairs or not leaves:
            return {}
        outputs, cotangents = zip(*pairs, strict=True)
        found = torch.autograd.grad(outputs, list(leaves.values()), cotangents, allow_unused=True)
        return dict(zip(leaves, found, strict=True))

    def _require(self, case: SubjectCase) -> None:
        """Refuse a case with what the callable does not take."""
        taken, claims = set(self.roles), case.claims
        if case.framework != "torch":
            raise Unsupported("a plain callable is run with torch alone")
        for name, (roles, told) in NEEDED.items():
            if getattr(case, name) is not None and not roles & taken:
                raise Unsupported(f"the callable takes no {told}")
        for role in sorted({"table", "sink", "softcap"} & taken):
            if self._must(role) and getattr(case, role) is None:
                raise Unsupported(f"the callable needs a {NEEDED[role][1]}")
        if case.lengths and "lengths" not in taken:
            raise Unsupported("the callable takes no lengths of packed sequences")
        if case.causal and "causal" not in taken and claims.get("causal") != "always":
            raise Unsupported("the callable takes no flag for causal masking")
        if "scale" not in taken and claims.get("scale", "argument") == "argument":
            raise Unsupported("the callable takes no scale")
        own = 0 if claims.get("alignment") == "top-left" else case.M - case.N
        if case.causal and "query_start" not in taken and case.start != own:
            raise Unsupported("the callable takes no position of the first query")
        if "dscale" in case.wants and "scale" not in taken:
            raise Unsupported("the callable takes no scale by which to differentiate")
        if case.dropout and "dropout" not in taken:
            raise Unsupported("the callable takes no rate of dropout")

    def _arguments(self, case: SubjectCase) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the leaves by the names of their gradients, and the values of the parameters by role."""
        values: dict[str, Any] = {**self._neutral(case), **case.inputs()}
        values.update(scale=case.scale, softcap=case.softcap, dropout=case.dropout)
        values.update(causal=case.causal, return_lse=True, enable_gqa=case.H != case.H_kv)
        values.update(softcap_on=case.softcap_on, bias_inside_scale=case.bias_inside_scale)
        placed = case.causal or case.table is not None
        values.update(lengths=case.lengths or None, query_start=case.start if placed else None)
        if "dscale" in case.wants:
            import torch

            dtype = getattr(torch, case.dtype_of("dscale"))
            values["scale"] = torch.tensor(case.scale, dtype=dtype, device=case.device)
        leaves = {}
        for gradient in case.wants:
            name = LIKE.get(gradient, "scale")
            leaves[gradient] = values[name] = values[name].detach().requires_grad_()
        if "attn_mask" in self.roles:
            values["attn_mask"] = _additive(values, set(self.roles))
        return leaves, {role: values[role] for role in self.roles if values.get(role) is not None}

    def _neutral(self, case: SubjectCase) -> dict[str, Any]:
        """Return what changes nothing, for a bias or mask that the callable needs and the case has not."""
        import torch

        found = {}
        dtypes = {"bias": getattr(torch, case.bias_dtype), "mask": torch.bool, "keep": torch.bool}
        for role, dtype in dtypes.items():
            if role in self.roles and self._must(role) and getattr(case, role) is None:
                shape = (case.B, case.H, case.N, case.M)
                found[role] = torch.full(shape, role != "bias", dtype=dtype, device=case.device)
        return found

    def _called(self, arguments: Mapping[str, Any]) -> Any:
        """Call with names, or by position where names are not taken."""
        if self.by_position:
            return self.function(*(self._value(role, arguments) for role in self.roles))
        placed = [role for role, p in self.roles.items() if p.kind == p.POSITIONAL_ONLY]
        named = {self.roles[role].name: self._value(role, arguments) for role in self.roles
                 if role not in placed and (role in arguments or self._must(role))}  # fmt: skip
        return self.function(*(self._value(role, arguments) for role in placed), **named)

    def _must(self, role: str) -> bool:
        """Say whether a parameter has no default."""
        return self.roles[role].default is inspect.Parameter.empty

    def _value(self, role: str, arguments: Mapping[str, Any]) -> Any:
        """Return the value of a parameter: of the case, else its default, else None."""
        default = None if self._must(role) else self.roles[role].default
        return arguments.get(role, default)


def _additive(values: Mapping[str, Any], roles: set[str]) -> Any:
    """Return what goes to one parameter for mask and bias: -inf hides a key where there are both."""
    mask = None if "mask" in roles else values.get("mask")
    bias = None if "bias" in roles else values.get("bias")
    if mask is None or bias is None:
        return mask if bias is None else bias
    return bias.masked_fill(~mask, float("-inf"))


def read(result: Any, case: SubjectCase) -> tuple[Any, Any]:
    """Return o and lse, if any, from what a callable returned.

    Raises: TypeError where there is no tensor to be found.
    """
    if hasattr(result, "requires_grad"):
        return result, None
    if isinstance(result, tuple | list) and not hasattr(result, "_fields"):
        rows = (case.B, case.H, case.N)
        found = [next(iter(result), None), next((x for x in result[1:] if _shape(x) == rows), None)]
    else:
        found = [_by_name(result, names) for names in (OUTPUTS, LSES)]
    if not hasattr(found[0], "requires_grad"):
        told = "a tensor, (o, lse), or o and lse by name"
        raise TypeError(f"the callable: expected {told}, got {type(result).__name__}")
    return found[0], found[1]


def _shape(x: Any) -> tuple[int, ...]:
    """Return the shape of a tensor, () for what is none."""
    return tuple(getattr(x, "shape", ()))


def _by_name(result: Any, names: tuple[str, ...]) -> Any:
    """Return the first entry or attribute of one of some names, None without one."""
    if isinstance(result, Mapping):
        return next((result[name] for name in names if name in result), None)
    return next((getattr(result, name) for name in names if hasattr(result, name)), None)
