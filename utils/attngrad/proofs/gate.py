"""The built site against the proofs: what a reader sees is what was proved."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bs4 import BeautifulSoup, Tag

from .claim import Chapter, Wrong
from .examine import mark, page_formulas
from .ledger import chapters
from .read import ReadError, read

# What an unlabelled display may hold: it shows something and states nothing. All else needs a label.
HARMLESS = frozenset(
    """frac tfrac dfrac sqrt sum prod partial top cdot odot mathbf mathrm mathcal mathbb operatorname
    bar hat tilde vec log ln exp left right big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr quad qquad
    begin end dots ldots cdots vdots ddots ell infty displaystyle textstyle limits lvert rvert lVert rVert
    langle rangle underbrace alpha beta gamma delta epsilon varepsilon zeta eta theta kappa lambda mu nu xi
    pi rho sigma tau phi varphi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega""".split()
)
DEFINES = re.compile(
    r"\\(?:re|provide)?newcommand|\\(?:g|e|x)?def(?![a-z])|\\let(?![a-z])|\\DeclareMathOperator|\\(?:re)?newenvironment|\\Declare[A-Z]|\\Newextarrow|\\require(?![a-z])"
)
HIDING = frozenset(("d-none", "sd-d-none", "visually-hidden", "sr-only", "hidden"))
_UNDER_SUM = re.compile(r"\\(?:sum|prod)\s*_\s*\{[^{}]*\}")


@dataclass(frozen=True)
class Shown:
    """One display of a built page."""

    page: str
    label: str | None
    tex: str
    marked_wrong: bool
    hidden: bool = False


def shown(html: str, page: str) -> list[Shown]:
    """Return the displays of a built page, outputs of code cells left out."""
    out = []
    for block in BeautifulSoup(html, "html.parser").select("div.math"):
        if block.find_parent(class_="cell_output"):
            continue
        name = block.get("id", "")
        label = name.removeprefix("equation-") if name.startswith("equation-") else None
        wrong = block.find_parent(class_="wrong") is not None
        out.append(Shown(page, label, _tex(block), wrong, _is_hidden(block)))
    return out


def _is_hidden(block: Tag) -> bool:
    """Say whether the page's own source hides a display from the reader."""
    return any(
        tag.has_attr("hidden")
        or HIDING & set(tag.get("class", ()))
        or re.search(r"display\s*:\s*none|visibility\s*:\s*hidden", tag.get("style", ""))
        for tag in (block, *block.parents)
        if isinstance(tag, Tag)
    )


def macro_faults(html: str, page: str) -> list[str]:
    """Name definitions of macros in a page's mathematics: they change what later formulas show."""
    math = BeautifulSoup(html, "html.parser").select("div.math, span.math")
    found = [m[0] for block in math if (m := DEFINES.search(block.get_text()))]
    return [f"{page}: {what} changes what formulas show; write them out" for what in found]


def _tex(block: Tag) -> str:
    for number in block.select(".eqno"):
        number.extract()
    return re.sub(r"^\s*\\\[|\\\]\s*$", "", block.get_text().strip()).strip()


def states_something(tex: str) -> bool:
    """Say whether a display could state something: a sign or a macro in it is not known to be harmless."""
    tex = _UNDER_SUM.sub(" ", tex)
    return (
        bool(re.search(r"[=<>:|]|(?:[-+*/]|\\cdot|\\odot)\s*$", tex))
        or not set(re.findall(r"\\([A-Za-z]+)", tex)) <= HARMLESS
    )


def faults(displays: Iterable[Shown], books: Iterable[Chapter], formulas: Mapping[str, Mapping]) -> list[str]:
    """Return every difference between the built displays and the ledger, one sentence each."""
    out, seen = [], set()
    owner = {c.label: chapter for chapter in books for c in chapter.claims}
    for d in displays:
        if d.label is None:
            if states_something(d.tex):
                out.append(f"{d.page}: a display states something and has no label: {_short(d.tex)}")
            continue
        if d.label not in owner:
            out.append(f"{d.page}: the label {d.label} is not in the ledger")
            continue
        if d.hidden:
            continue
        seen.add(d.label)
        out += _compare(d, owner[d.label], formulas[owner[d.label].page][d.label].tex)
    out += [f"{label} is in the ledger, but the site does not show it" for label in sorted(set(owner) - seen)]
    return out


def _compare(d: Shown, chapter: Chapter, proved: str) -> list[str]:
    claim = chapter[d.label]
    table, quote = chapter.table_of(claim), isinstance(claim, Wrong)
    if d.marked_wrong != quote:
        return [
            f"{d.page}: {d.label} is "
            + ("wrong and not marked as wrong" if quote else "marked as wrong, and is not")
        ]
    try:
        if mark(d.tex, read(d.tex, table, quote=quote)) != mark(proved, read(proved, table, quote=quote)):
            return [f"{d.page}: {d.label} shows another formula than the proved one: {_short(d.tex)}"]
    except ReadError as error:
        return [f"{d.page}: {d.label} cannot be read from the page: {error}"]
    return []


def _short(tex: str) -> str:
    return re.sub(r"\s+", " ", tex)[:90]


def check_site(site: Path) -> list[str]:
    """Return the faults of a built site.

    Raises
    ------
    FileNotFoundError
        When there is no built site in that folder.
    """
    pages = sorted(p for p in site.rglob("*.html") if "_static" not in p.parts)
    if not pages:
        raise FileNotFoundError(f"no built pages in {site}: run `make book` first")
    books = chapters()
    texts = {str(page.relative_to(site)): page.read_text(encoding="utf-8") for page in pages}
    found = [d for page, text in texts.items() for d in shown(text, page)]
    macros = [fault for page, text in texts.items() for fault in macro_faults(text, page)]
    return macros + faults(found, books, {c.page: page_formulas(c) for c in books})
