r"""Letters that print alike: ``v`` and ``\nu``, ``l`` and ``\ell``, a Cyrillic or full-width twin.

A reader of the page cannot tell them apart, so a notation table must not hold both, and a formula
must not hold a character that only looks like a declared one.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from itertools import combinations

from .spelling import FONTS, canonical, units

_TWINS = {
    r"\nu": "v", r"\upsilon": "v", r"\ell": "l", r"\rho": "p", r"\varrho": "p", r"\omega": "w",
    r"\chi": "x", r"\times": "x", r"\kappa": "k", r"\varkappa": "k", r"\iota": "i", r"\imath": "i",
    r"\jmath": "j", r"\omicron": "o", "I": "l", "1": "l", "0": "o", "O": "o",
    r"\Alpha": "A", r"\Beta": "B", r"\Epsilon": "E", r"\Zeta": "Z", r"\Eta": "H", r"\Iota": "l",
    r"\Kappa": "K", r"\Mu": "M", r"\Nu": "N", r"\Omicron": "o", r"\Rho": "P", r"\Tau": "T",
    r"\Upsilon": "Y", r"\Chi": "X", r"\varepsilon": r"\epsilon", r"\vartheta": r"\theta",
    r"\varphi": r"\phi", r"\varsigma": r"\sigma", r"\varpi": r"\pi", r"\widehat": r"\hat",
    r"\widetilde": r"\tilde", r"\overline": r"\bar", r"\prime": "'",
}  # fmt: skip
_KEPT_FONTS = {r"\mathcal", r"\mathscr", r"\mathbb", r"\mathfrak"}
_LATIN_TWINS = {
    "CYRILLIC": "a Cyrillic letter", "GREEK": "a Greek letter", "FULLWIDTH": "a full-width character",
    "MATHEMATICAL": "a mathematical alphabet letter", "ARABIC": "an Arabic character",
}  # fmt: skip


def skeleton(name: str) -> str:
    r"""Return what a hasty reader sees: fonts dropped, look-alikes replaced by one of them.

    Example
    -------
    >>> skeleton(r"\hat{\nu}") == skeleton(r"\widehat{v}"), skeleton("v") == skeleton("w")
    (True, False)
    """
    seen = [_TWINS.get(u, u) for u in units(canonical(name))]
    upright = [u for u in seen if u not in FONTS or u in _KEPT_FONTS]
    return "".join(u for u in upright if u not in "{}")


def pairs(names: Iterable[str]) -> list[tuple[str, str]]:
    """Return the pairs of different names that print alike."""
    seen = {name: skeleton(name) for name in sorted(set(names))}
    return [(a, b) for a, b in combinations(seen, 2) if seen[a] == seen[b]]


def character(symbol: str) -> str:
    """Return a sentence about a character that is not ASCII.

    Example
    -------
    >>> character("\u2212")
    "the character '\u2212' (U+2212 MINUS SIGN) is not read: type the ASCII sign or the LaTeX macro"
    """
    name = unicodedata.name(symbol, "without a name")
    kind = next((k for word, k in _LATIN_TWINS.items() if name.startswith(word)), "")
    said = f", {kind} that may print like another," if kind else ""
    shown = f"the character {symbol!r} (U+{ord(symbol):04X} {name}){said}"
    return f"{shown} is not read: type the ASCII sign or the LaTeX macro"
