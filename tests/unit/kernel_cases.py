"""Cases of attention for the kernels of Triton, and what is right for them, in float64."""

import os
from dataclasses import dataclass
from typing import Any, NamedTuple

# Read when kernels are defined: they run on the CPU.
os.environ.setdefault("TRITON_INTERPRET", "1")

import numpy as np
import pytest
import torch

pytest.importorskip("triton", reason="needs triton, which the extra attngrad[triton] brings")

from triton.runtime import interpreter

from attngrad import kernels, reference
from attngrad.checks import TOLERANCES, UNIT_ROUNDOFF, error_budget

Tensor = torch.Tensor
NAMES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}
INPUTS = ("q", "k", "v", "diagonals", "scale")


@dataclass(frozen=True)
class Case:
    """Sizes and options of one call; sizes differ such that swapped axes and factors show."""

    B: int = 2
    H: int = 4
    H_kv: int = 2
    N: int = 19
    M: int = 37
    D: int = 20
    D_v: int = 17
    shared: bool = False  # one row of diagonals for all heads
    causal: bool = False
    query_start: int | None = None
    mask: str | None = None  # "keys" or "pairs"
    dtype: torch.dtype = torch.float32
    deterministic: bool = True
    seed: int = 0

    def draw(self) -> dict[str, Tensor]:
        """Return inputs and cotangents, drawn in the type of the case."""
        rng = np.random.default_rng(self.seed)
        B, H, N, M = self.B, self.H, self.N, self.M
        shapes = {
            "q": (B, H, N, self.D), "k": (B, self.H_kv, M, self.D), "v": (B, self.H_kv, M, self.D_v),
            "diagonals": (1 if self.shared else H, N + M - 1), "do": (B, H, N, self.D_v), "dlse": (B, H, N),
        }  # fmt: skip
        drawn = {name: torch.tensor(rng.standard_normal(shape)) for name, shape in shapes.items()}
        drawn = {name: x.to(self.dtype) for name, x in drawn.items()}
        return drawn | {"dlse": drawn["dlse"].float(), "scale": torch.tensor(0.3)}

    def options(self) -> dict[str, Any]:
        """Return the options of a call."""
        found = {"causal": self.causal, "query_start": self.query_start, "mask": None}
        if self.mask is not None:
            shape = (self.B, 1, 1, self.M) if self.mask == "keys" else (self.B, 1, self.N, self.M)
            mask = torch.tensor(np.random.default_rng(1).random(shape) < 0.7)
            # Entry 1 has no key at all, or none for its first query; query 0 of entry 0 has none before it.
            mask[-1, :, :1] = mask[0, :, :, 0] = False
            mask[0, :, :, 1] = True
            found["mask"] = mask
        return found


FAR = Case(B=3, H=1, H_kv=1, N=3, M=3, D=2, D_v=2, dtype=torch.float16)


def far_apart(monkeypatch: pytest.MonkeyPatch, drawn: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return what `FAR` draws in 8 GiB, of which a few pages are touched: entry 2 begins past 2^31.

    The step from entry to entry fits into 32 bits, and its double does not; where it wraps to is memory too.
    """
    # A copy of storage onto itself, which the interpreter makes after each launch, would touch all of it.
    monkeypatch.setattr(interpreter.GridExecutor, "_restore_args_dev", lambda *arguments: None)
    step = 2**30 + 8
    held = torch.empty(2**31 + 2 * step + 64, dtype=torch.float16)
    places = {name: held.as_strided((3, 1, 3, 2), (step, 0, 2, 1), 2**31 + 8 * n)
              for n, name in enumerate(("q", "k", "v", "do"))}  # fmt: skip
    return drawn | {name: place.copy_(drawn[name]) for name, place in places.items()}


class Answers(NamedTuple):
    """o, lse and the cotangents, and what rounding may do to those that are sums over pairs."""

    o: Any
    lse: Any
    dq: Any
    dk: Any
    dv: Any
    ddiagonals: Any
    dscale: Any
    bounds: Any = None


def run(case: Case, drawn: dict[str, Tensor], library: Any = kernels) -> Answers:
    """Return what the kernels answer."""
    inputs = {name: drawn[name].detach().clone().requires_grad_() for name in INPUTS}
    o, lse = library.attention(
        **inputs, **case.options(), return_lse=True, deterministic=case.deterministic
    )  # fmt: skip
    found = torch.autograd.grad((o, lse), list(inputs.values()), (drawn["do"], drawn["dlse"]))
    return Answers(o.detach(), lse.detach(), *found)


def row(case: Case) -> np.ndarray:
    """Return the diagonal of every pair."""
    return np.arange(case.M)[None, :] - np.arange(case.N)[:, None] + case.N - 1


def exact(case: Case, drawn: dict[str, Tensor]) -> Answers:
    """Return what the reference answers."""
    x = {name: value.double().numpy() for name, value in drawn.items()}
    options = case.options()
    mask = None if options["mask"] is None else options["mask"].numpy()
    bias = x["diagonals"][:, row(case)]
    saved = reference.attention(
        x["q"], x["k"], x["v"], bias, scale=float(x["scale"]), **options | {"mask": mask}
    )  # fmt: skip
    found = reference.attention_vjp(saved, x["do"], x["dlse"])
    ddiagonals = reference.table_bias_vjp(row(case), found.dbias, case.N + case.M - 1)
    return Answers(
        saved.o, saved.lse, found.dq, found.dk, found.dv, ddiagonals, np.array(found.dscale),
        bounds(case, saved, x["do"], x["dlse"]),
    )  # fmt: skip


def bounds(
    case: Case, saved: reference.Attention, do: np.ndarray, dlse: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return how far ddiagonals and dscale may be off, which are sums over pairs.

    Formula: 6 band, with band^2 = sum of (p u |do.o|)^2 + u^2 ds^2 over the pairs, for the rounding of o and
    of ds to the type of the case; and four roundings of float32 in each pair, which may all go one way.
    """
    k, v = (np.repeat(x, case.H // case.H_kv, axis=1) for x in (saved.k, saved.v))
    delta = (do * saved.o).sum(axis=-1)[..., None]
    ds = saved.p * (do @ np.swapaxes(v, -1, -2) - delta + dlse[..., None])
    squares = UNIT_ROUNDOFF[NAMES[case.dtype]] ** 2 * ((saved.p * delta) ** 2 + ds**2)
    terms = np.abs(do) @ np.swapaxes(np.abs(v), -1, -2) + np.abs(delta) + np.abs(dlse)[..., None]
    sizes = 4.0 * UNIT_ROUNDOFF["float32"] * saved.p * terms
    by_diagonal = []
    for x in (squares, sizes):
        by_head = x.sum(axis=(0, 1) if case.shared else 0).reshape(-1, case.N, case.M)
        by_diagonal.append(reference.table_bias_vjp(row(case), by_head, case.N + case.M - 1))
    qk = np.abs(saved.q @ np.swapaxes(k, -1, -2))
    in_all = [(squares * qk**2).sum(), (sizes * qk).sum()]
    first, second = (TOLERANCES["reduced"].factor * np.sqrt(x) + y for x, y in (by_diagonal, in_all))
    return first, second


def plain(case: Case, drawn: dict[str, Tensor]) -> Answers:
    """Return what plain operations of torch answer, every step rounded to the type of the case."""
    x = {name: drawn[name].detach().to(case.dtype, copy=True).requires_grad_() for name in INPUTS}
    options = case.options()
    i, j = torch.arange(case.N)[:, None], torch.arange(case.M)
    seen = torch.ones(case.B, 1, case.N, case.M, dtype=torch.bool)
    if case.mask is not None:
        seen = seen & options["mask"]
    if case.causal:
        start = case.M - case.N if case.query_start is None else case.query_start
        seen = seen & (j <= i + start)
    k, v = (x[name].repeat_interleave(case.H // case.H_kv, dim=1) for name in "kv")
    s = x["scale"] * (x["q"] @ k.mT) + x["diagonals"][:, torch.tensor(row(case))]
    empty = ~seen.any(dim=-1, keepdim=True)
    s = s.masked_fill(~seen & ~empty, -torch.inf)
    p = torch.softmax(s, dim=-1).masked_fill(empty, 0.0)
    o, lse = p @ v, torch.logsumexp(s, dim=-1).masked_fill(empty.squeeze(-1), -torch.inf)
    dlse = drawn["dlse"].to(case.dtype).masked_fill(lse.isneginf(), 0.0)
    found = torch.autograd.grad((o, lse), list(x.values()), (drawn["do"], dlse))
    return Answers(o.detach(), lse.detach(), *found)


def check(case: Case, got: Answers, wanted: Answers, measure: Answers) -> None:
    """Require every answer to be right: within the budgets of its type.

    Raises: AssertionError that names the first wrong one.
    """
    for what in ("o", "dq", "dk", "dv"):
        value, plainly, right = (getattr(x, what) for x in (got, measure, wanted))
        assert value.dtype == case.dtype
        if case.dtype == torch.float32:
            # No budget by a plain run: that divides by sums; kernels take exp(s - lse), with lse rounded.
            bound = 16.0 * UNIT_ROUNDOFF["float32"] * np.abs(right).max()
            within(what, value.double().numpy(), right, bound)
        else:
            kind = "forward" if what == "o" else "backward"
            error_budget(what, value, plainly, right, dtype=NAMES[case.dtype], kind=kind)
    empty = np.isneginf(wanted.lse)
    assert np.array_equal(got.lse.isneginf().numpy(), empty), "lse: another row is empty"
    assert not got.o.double().numpy()[empty].any(), "o: a query without a key has an output"
    by_row = (np.where(empty, 0.0, x) for x in (got.lse.double().numpy(), wanted.lse))
    within("lse", *by_row, 1e-6 * np.abs(wanted.lse[~empty]).max())
    for what, bound in zip(("ddiagonals", "dscale"), wanted.bounds, strict=True):
        within(what, getattr(got, what).double().numpy(), getattr(wanted, what), bound)


def within(what: str, got: np.ndarray, wanted: np.ndarray, bound: np.ndarray) -> None:
    """Require errors within a bound; a bound within which zero would pass is none."""
    assert got.shape == wanted.shape, f"{what}: got shape {got.shape}, want {wanted.shape}"
    assert np.abs(wanted).max() > 4.0 * np.max(bound), f"{what}: zero would pass"
    error = np.abs(got - wanted)
    assert (error <= bound).all(), f"{what}: error {error.max():.1e}, bound {np.max(bound):.1e}"
