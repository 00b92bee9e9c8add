r"""Every way to type what prints as a declared name.

``d_k`` is also ``d_{k}`` and ``d_ k``; ``\hat{x}`` is also ``\hat x``; ``dS`` is also ``d S`` and
``\mathrm{d}S``. Braces may be left out only where TeX takes the same argument without them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_ACCENTS = "hat bar tilde vec dot ddot widehat widetilde overline underline breve check"
_FONTS = "mathrm operatorname mathcal mathscr mathbf mathbb mathit mathsf mathfrak boldsymbol bm mathtt"
ACCENTS, FONTS = (frozenset("\\" + macro for macro in words.split()) for words in (_ACCENTS, _FONTS))
_UNIT = re.compile(r"\\[A-Za-z]+|\\.|[{}_^]|\s+|.", re.S)
_UPRIGHT = (r"\mathrm", r"\operatorname")
_UPRIGHT_D = r"(?:\\(?:mathrm|operatorname)\s*(?:\{\s*d\s*\}|d)|d)"


def units(name: str) -> list[str]:
    r"""Split a name into TeX tokens, spaces dropped; ``\mathrm{d}`` in front becomes a plain d.

    Example
    -------
    >>> units(r"\hat{x}_1")
    ['\\hat', '{', 'x', '}', '_', '1']
    """
    found = [u for u in _UNIT.findall(name) if not u.isspace()]
    if found[:1] and found[0] in _UPRIGHT and found[1:4] == ["{", "d", "}"] and len(found) > 4:
        found = ["d", *found[4:]]
    return found


def is_single_token(name: str) -> bool:
    """Say whether TeX takes the name as one argument without braces."""
    return len(units(name)) == 1


def is_differential(name: str) -> bool:
    """Say whether the name is a cotangent: a d in front of another name."""
    parts = units(name)
    return len(parts) > 1 and parts[0] == "d" and parts[1] not in "_^'"


def canonical(name: str) -> str:
    r"""Return one spelling for all that print alike by TeX's rules alone: braces made explicit.

    Example
    -------
    >>> canonical("d_k") == canonical("d_{k}"), canonical(r"\hat x") == canonical(r"\hat{x}")
    (True, True)
    """
    parts, out, at = units(name), [], 0
    while at < len(parts):
        unit = parts[at]
        out.append(r"\mathrm" if unit in _UPRIGHT else unit)
        takes_argument = unit in "_^" or (
            unit.startswith("\\") and at + 1 < len(parts) and _accent(parts, at)
        )
        if takes_argument and at + 1 < len(parts) and parts[at + 1] != "{":
            out += ["{", parts[at + 1], "}"]
            at += 1
        at += 1
    return " ".join(out)


def pattern(name: str) -> str:
    """Return a regular expression for every way to type this name."""
    parts = units(name)
    if is_differential(name):
        return _UPRIGHT_D + _sequence(parts[1:], first=False)
    return _sequence(parts, first=True)


def compiled(names: Iterable[str]) -> tuple[re.Pattern[str], dict[str, str]]:
    """Return one expression for all names, the longest first, and the name of each of its groups."""
    order = sorted(names, key=lambda n: (-len(n), n))
    groups = {f"name{k}": n for k, n in enumerate(order)}
    whole = "|".join(f"(?P<{g}>{pattern(n)})" for g, n in groups.items())
    return re.compile(whole or r"(?!)", re.ASCII), groups


def _accent(parts: list[str], at: int) -> bool:
    """Say whether the macro at this place takes the next unit as its argument."""
    return parts[at + 1] == "{" or parts[at] in ACCENTS or parts[at] in FONTS


def _sequence(parts: list[str], first: bool) -> str:
    """Return the expression for a row of units, with the spaces that TeX ignores."""
    out, at = "", 0
    while at < len(parts):
        unit = parts[at]
        gap = "" if first and not out else r"\s*"
        takes_argument = unit in "_^" or (unit[0] == "\\" and at + 1 < len(parts) and _accent(parts, at))
        if takes_argument and at + 1 < len(parts):
            argument, at = _argument(parts, at + 1)
            out += gap + _head(unit) + _braced(argument)
        else:
            out += gap + _head(unit)
            at += 1
    return out


def _head(unit: str) -> str:
    if unit in _UPRIGHT:
        return r"\\(?:mathrm|operatorname)(?![A-Za-z])"
    return re.escape(unit) + ("(?![A-Za-z])" if unit[0] == "\\" and unit[1:].isalpha() else "")


def _argument(parts: list[str], at: int) -> tuple[list[str], int]:
    """Return the argument that starts here, without its braces, and the place behind it."""
    if parts[at] != "{":
        return [parts[at]], at + 1
    depth = 0
    for end in range(at, len(parts)):
        depth += (parts[end] == "{") - (parts[end] == "}")
        if depth == 0:
            return parts[at + 1 : end], end + 1
    raise ValueError(f"unbalanced braces in the name {''.join(parts)}")


def _braced(argument: list[str]) -> str:
    inside = _sequence(argument, first=True)
    if len(argument) == 1:
        return rf"\s*(?:\{{\s*{inside}\s*\}}|{inside})"
    return rf"\s*\{{\s*{inside}\s*\}}"
