"""The symbols and the tables that the reader's tests share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sympy import Dummy, Expr, Function, IndexedBase, Integer, KroneckerDelta, Sum, Symbol

from attngrad.proofs.read import Table


@dataclass(frozen=True)
class Refused:
    """The formula must be refused, with these words in the message."""

    because: str


def scalars(names: str) -> dict[str, tuple]:
    return {name: () for name in names}


TABLE = Table(
    index={"i": "N", "j": "N", "l": "N", "c": "d_k"},
    names={
        **scalars("xyzm"), r"\alpha": "+", "N": "size", "d_k": "size", "B": "size", "a": ("N",),
        "b": ("N",), "p": ("N",),
        "P": ("N", "N"), "S": ("N", "N"), "O": ("N", "d_k"), "K": ("N", "d_k"), "V": ("N", "d_k"),
        "Q": ("N", "d_k"),
        "dS": ("N", "N"), "r": (("1-N", "N-1"),), r"\hat{x}": ("N",), "t": ("B",),
    },
    integers={r"\beta": ((("1-N", "N-1"),), (1, "B"))},
    functions=(r"\phi",),
    alias={"q": "Q", "k": "K", "v": "V"},
    kronecker=r"\delta",
)  # fmt: skip
PLAIN_D = Table(
    index={"i": "N", "j": "N"},
    names={"d": "size", "dS": ("N", "N"), "S": ("N", "N"), "T": "size", "x": (), "P": ("N", "N")},
)
ROW = Table(
    index={letter: "n" for letter in "ijlab"} | {"r": (1, "n-1")},
    names={
        **{name: ("n",) for name in ("s", "p", "dp", "ds", "ts", "tp", "v", "y", "w", r"p^{\downarrow}")},
        "J": ("n", "n"), "A": ("n", "m"), "T": ("n", "n", "n"), "L": (), "c": (), r"\mathrm{lse}": (),
        r"\bar{v}": (), r"\mathcal{L}": (),
        r"\operatorname{Var}": (), r"\tau": "+", "n": "size", "m": "size", r"v^{\dagger}": ("n",),
    },
    functions=(r"\phi",),
    kronecker=r"\delta",
    identity="I",
)  # fmt: skip
PAIR = ROW.at(n=2, m=3)

x, y, z, m_, c_, L = (Symbol(name) for name in "xyzmcL")
alpha, tau = Symbol(r"\alpha", positive=True), Symbol(r"\tau", positive=True)
N, d_k, n, m, d, T = (Symbol(name, integer=True, positive=True) for name in ("N", "d_k", "n", "m", "d", "T"))
i, j, l, c, a_, b_ = (Symbol(letter, integer=True) for letter in "ijlcab")
a, b, p, P, S, K, V, Q, O, r, t, dS, J, A, s, v, w, ds, dp, ts = map(
    IndexedBase, "a b p P S K V Q O r t dS J A s v w ds dp ts".split()
)
x_hat = IndexedBase(r"\hat{x}")
beta = IndexedBase(r"\beta", integer=True)
phi, delta = Function(r"\phi"), KroneckerDelta


def over(summand: Callable[..., Expr], *highest: Expr | int) -> Sum:
    """Return the sum of ``summand(k, ...)`` over 1..highest for each letter."""
    letters = [Dummy(f"s{k}", integer=True) for k in range(len(highest))]
    limits = [(letter, Integer(1), high) for letter, high in zip(letters, highest, strict=True)]
    return Sum(summand(*letters), *limits)
