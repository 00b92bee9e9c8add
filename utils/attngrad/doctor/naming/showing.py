"""What weights say of the scale, the bias, and the sums of their rows."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from attngrad.doctor.case import Case
from attngrad.doctor.cases.sizes import factors, of_scores
from attngrad.doctor.judging import bounds
from attngrad.doctor.judging.precision import lack
from attngrad.doctor.naming.fitting import SURE, fitted
from attngrad.doctor.outcome import Finding
from attngrad.mistakes.whole import Attention, right

Told = tuple[str, Finding | None]
LOWEST = 1e30  # a bias beyond it stands for a hidden key


@dataclass(frozen=True, eq=False)
class Shown:
    """A probe with its answers."""

    case: Case
    answers: dict[str, np.ndarray]

    @property
    def o(self) -> np.ndarray:
        """Return the output: the weights (B, H, N, M)."""
        return self.answers["o"]

    @property
    def right(self) -> Attention:
        """Return the right attention of the probe."""
        return right(self.case)

    def bound(self, name: str = "o") -> np.ndarray:
        """Return the error bound of a right answer, entry by entry; of the type that its precision is of."""
        exact, got = self.right.answers(), self.answers.get(name)
        bound = np.broadcast_to(bounds.healthy(self.case, exact)[name], exact[name].shape)
        if got is None or got.shape != bound.shape or (np.abs(got - exact[name]) <= bound).all():
            return bound
        level = lack(self.case, name, got, exact[name], bound)
        return bound if level is None else bounds.low_precision(self.case, exact, level)[name]

    def bias(self) -> np.ndarray:
        """Return the bias of each pair, 0 where there is none or where it hides a key."""
        bias = self.right.bias
        if bias is None:
            return np.zeros(self.o.shape)
        return np.broadcast_to(np.where(np.abs(bias) < LOWEST, bias, 0.0), self.o.shape)

    def contradiction(
        self, text: str, got: float, want: float, off: float, what: str = "o", at: tuple[int, ...] = ()
    ) -> Told:
        """Return a sentence and the finding that it is."""
        return text, Finding(self.case.name, what, "probe", text, abs(got - want), off, at, got, want)


def number(x: float) -> str:
    """Return a number in four digits."""
    return f"{x:.4g}"


def coefficients(shown: Shown) -> Iterator[Told]:
    """Yield the factors with which the products and the bias enter the scores."""
    pipeline, bias = shown.right, shown.right.bias
    usable = pipeline.allowed if bias is None else pipeline.allowed & (np.abs(bias) < LOWEST)
    columns = [pipeline.qk, shown.bias()] if bias is not None and np.any(shown.bias()) else [pipeline.qk]
    fit = fitted(np.where(usable, shown.o, 0.0), shown.bound(), columns)
    if fit is None:
        yield "weights: too few are large enough to say what the scores are", None
        return
    if not fit.holds and shown.case.softcap is None:
        text = "weights: no softmax of a multiple of q.k and a multiple of the bias"
        yield shown.contradiction(text, fit.residue, 0.0, SURE)
        return
    asked = [("scale:", pipeline.scale), ("bias: enters with coefficient", pipeline.bias_factor)]
    for (what, want), got, off in zip(asked, fit.coefficients, fit.off, strict=False):
        yield _coefficient(shown, what, float(got), want, float(off))


def _coefficient(shown: Shown, what: str, got: float, want: float, off: float) -> Told:
    """Return a sentence on a coefficient: as declared, or what else it is."""
    if abs(got - want) <= off:
        return f"{what} {number(want)} as declared", None
    equals = _equals(got, off, shown.case)
    told = f"0{equals.replace(' = 0', '')}" if abs(got) <= off else f"{number(got)}{equals}"
    return shown.contradiction(f"{what} {told} (declared: {number(want)})", got, want, off)


def _equals(got: float, off: float, case: Case) -> str:
    """Return what a number can be: a single factor before products, then the nearest first."""
    names = {**of_scores(case), "0": 0.0, "1": 1.0}
    near = [(abs(got - x), name) for name, x in names.items() if abs(got - x) <= off]
    single = {*factors(case), "0", "1"}
    near = sorted([one for one in near if one[1] in single] or near)
    return "".join(f" = {name}" for _, name in near[:3] if name != number(got))


def sums(shown: Shown) -> Iterator[Told]:
    """Yield a contradiction if the weights of a query do not sum to what they should."""
    want, got, bound = shown.right.o.sum(axis=-1), shown.o.sum(axis=-1), shown.bound()
    off = 2.0 * np.sqrt((bound**2).sum(axis=-1)) + 8.0 * bound.max(axis=-1)
    if (np.abs(got - want) <= off).all():
        return
    at = np.unravel_index(int((np.abs(got - want) - off).argmax()), got.shape)
    columns = shown.o.sum(axis=-2)
    some = columns[columns > 0.0]
    if len(some) and np.abs(some - 1.0).max() <= 0.05:
        text = "weights: those of a key sum to 1, not those of a query: the softmax runs over queries"
    else:
        text = f"weights: those of a query sum to {_summed(shown, got, want, off)}, not to 1"
    yield shown.contradiction(text, float(got[at]), float(want[at]), float(off[at]))


def _summed(shown: Shown, got: np.ndarray, want: np.ndarray, off: np.ndarray) -> str:
    """Return in words what rows sum to: a number and its names if it is the same in all, else a range."""
    there = want > 0.0
    ratio = float(np.median(got[there] / want[there])) if there.any() else 0.0
    if there.any() and (np.abs(got - ratio * want)[there] <= off[there]).all():
        return number(ratio) + _equals(ratio, float(off[there].max()), shown.case)
    low, high = number(float(got.min())), number(float(got.max()))
    return f"between {low} and {high}" if low != high else f"{low} to within {np.abs(got - want).max():.1e}"
