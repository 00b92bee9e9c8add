"""The gradient of a bias table inside a whole model, against differences of its loss."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from attngrad.notation import DtypeError, RangeError, integer
from attngrad.testing.comparing import Comparison
from attngrad.testing.loss import Loss, prepared
from attngrad.testing.table_report import TableFinding, TableReport

if TYPE_CHECKING:
    import torch

ENTRIES = 1024


def check_table(
    loss_fn: Callable[[], Any],
    parameter: torch.nn.Parameter | str,
    *,
    model: torch.nn.Module | None = None,
    rows: int | None = None,
    entries: int = ENTRIES,
    seed: int = 0,
    promote: bool = True,
) -> TableReport:
    """Return whether the gradient of a bias table, or of any parameter, is that of the loss of a model.

    ``loss_fn()`` returns the loss, computed anew at each call; ``parameter`` is the table, or its name in
    ``model``. With a model it is checked that it holds the parameter, and layers have the names of modules.
    Every entry, or ``entries`` random ones of more, and three random directions are moved by 1e-5, and the
    difference of the loss is compared with the gradient within 1e-6 of the largest. ``rows`` is the axis of
    the rows of a table of two axes; without it the longer one is meant.

    The parameter is held in float64 meanwhile, every operation of torch is done in float64 with ``promote``,
    and random numbers are those of one seed. Code that takes float32 alone needs ``promote=False``, which
    widens the bound. Parameter and buffers are put back bit for bit.

    Raises: DtypeError for a loss that is no tensor of floats, or a parameter that is none; ShapeError or
    RangeError for a loss that is not one finite number, for a name that the model has not, and where two
    calls with the same numbers return different losses.

    >>> import torch
    >>> table, row = torch.nn.Parameter(torch.tensor([[0.5, -1.0, 1.0]])), torch.tensor([[0, 1], [2, 0]])
    >>> report = check_table(lambda: torch.softmax(table[0][row], dim=-1)[:, 0].square().sum(), table)
    >>> report.findings, report.gradient.round(3)
    ((), array([[-0.049, -0.244,  0.293]]))
    """
    name, tensor, findings = _found(parameter, model)
    axis = _axis(rows, tuple(tensor.shape))
    integer("entries", entries, least=1)
    if not tensor.requires_grad:
        findings.append(TableFinding("frozen", ""))
    with prepared(tensor, model, promote):
        checked = Comparison(Loss(loss_fn, tensor, promote), findings, np.random.default_rng(seed))
        gradient, layers = checked.gradient(model)
        differences = checked.differences(entries)
        bound = checked.bound(differences)
        if not checked.depends and "stale" not in {finding.kind for finding in findings}:
            checked.add("stale")
        if checked.depends and gradient is None:
            checked.add("none")
        if gradient is not None:
            checked.compare(gradient, differences, bound)
        rows_read = axis is not None and checked.depends
        unused = checked.unused(gradient, axis) if rows_read else ()
        gauge, sums = checked.gauge(gradient, axis, bound) if rows_read else (None, ())
    return TableReport(
        name, tuple(findings), checked.value, gradient, differences, bound, unused, gauge, sums, layers
    )  # fmt: skip


def _found(parameter: Any, model: Any) -> tuple[str, torch.Tensor, list[TableFinding]]:
    """Return the name and tensor of a parameter, and whether the model lacks it."""
    import torch

    named = {} if model is None else dict(model.named_parameters(remove_duplicate=False))
    if isinstance(parameter, str):
        if model is None:
            raise DtypeError("parameter: expected a tensor without model=, got a name")
        if parameter not in named:
            near = difflib.get_close_matches(parameter, named, n=3, cutoff=0.4) or list(named)[:3]
            raise RangeError(f"parameter: expected a name such as {', '.join(near)}, got {parameter!r}")
        return parameter, named[parameter], []
    if not isinstance(parameter, torch.Tensor) or not parameter.is_floating_point():
        raise DtypeError(f"parameter: expected a tensor of floats, got {type(parameter).__name__}")
    if not parameter.is_leaf:
        raise DtypeError("parameter: expected a leaf such as an nn.Parameter, got the result of an operation")
    name = next((name for name, one in named.items() if one is parameter), "")
    if model is None or name:
        return name or "parameter", parameter, []
    text = "assign it to an attribute of a module as an nn.Parameter"
    return "parameter", parameter, [TableFinding("unregistered", text)]


def _axis(rows: Any, shape: tuple[int, ...]) -> int | None:
    """Return the axis of the rows, None for what has not two axes."""
    if rows is not None and (len(shape) != 2 or rows not in (0, 1)):
        raise RangeError(f"rows: expected 0 or 1 for a table of two axes, got {rows!r} for shape {shape}")
    if len(shape) != 2:
        return None
    return int(shape[1] >= shape[0]) if rows is None else rows
