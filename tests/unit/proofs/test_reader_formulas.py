"""Formulas as authors write them: each is read, and an explicit index form of it reads as the same."""

# ruff: noqa: E501 (a formula stays on one line)
from __future__ import annotations

import statistics
import time

import pytest
from sympy import Symbol

from attngrad.proofs.read import Table
from attngrad.proofs.read.reader import ReadError, fingerprint, read

from .exact_values import alike

LETTERS = {"i": "N", "j": "M", "l": "M", "m": "M", "u": "N", "c": "d_k", "f": "d_k", "a": "d_v", "w": ("1-N", "M-1")}
NAMES = {
    **{x: ("N", "M") for x in ("S", "P", "dS", "dP", "b", "G", "A")},
    **{x: ("N", "d_k") for x in ("Q", "dQ")}, **{x: ("M", "d_k") for x in ("K", "dK")},
    **{x: ("M", "d_v") for x in ("V", "dV")}, **{x: ("N", "d_v") for x in ("O", "dO")},
    **{x: ("N",) for x in ("D", "Z")}, **{x: (("1-N", "M-1"),) for x in ("r", "dr")},
    "L": (), r"\alpha": "+", **{x: "size" for x in ("d_k", "d_v", "N", "M")},
}  # fmt: skip
ALIAS = {"q": "Q", "k": "K", "v": "V", "o": "O"}


def attention(index: dict | None = None, names: dict | None = None, without: str = "", integers: dict | None = None) -> Table:
    letters = {k: v for k, v in {**LETTERS, **(index or {})}.items() if k != without}
    return Table(index=letters, names={**NAMES, **(names or {})}, alias=ALIAS, kronecker=r"\delta", integers=integers or {})


ATTENTION = attention()
SELF = attention(
    index={k: "N" for k in "ijlmu"},
    names={**{x: ("N", "N") for x in ("S", "P", "dS", "dP", "b", "G", "A")}, "K": ("N", "d_k"), "dK": ("N", "d_k"), "V": ("N", "d_v")},
)
BUCKETS = attention(
    index={"u": "B"}, names={"t": ("B",), "dt": ("B",), "B": "size"}, integers={r"\beta": ((("1-N", "M-1"),), (1, "B"))}
)
OFFSETS = attention(index={r"\rho": ("1-N", "M-1")}, without="w")
SLOPE = attention(names={r"\mu": ()})
VECTOR = Table(
    index={x: "n" for x in "ijlm"},
    names={**{x: ("n",) for x in ("s", "p", "g", "y", "v", "ds", "x")}, "J": ("n", "n"), "H": ("n", "n", "n"), "L": (), "n": "size"},
    kronecker=r"\delta",
)
NORM = Table(
    index={x: "n" for x in "ijlc"},
    names={"x": ("n",), r"\hat{x}": ("n",), r"\mu": (), r"\sigma": "+", r"\varepsilon": "+", "n": "size", "L": (), "g": ("n",)},
    kronecker=r"\delta",
)
MERGE = Table(
    index={"j": "n"}, names={"s": ("n",), "m": (), "m_1": (), "m_2": (), "n": "size", "x": ("n",)}, integers={"r": ((), (1, "n"))}
)
CHAIN = r"""\begin{aligned}
   \frac{\partial L}{\partial b_{ij}} &= \sum_l dP_{il} \frac{\partial P_{il}}{\partial S_{ij}} && \text{(chain rule; the bias enters one score)} \\
     &= \sum_l dP_{il}\, P_{il} (\delta_{lj} - P_{ij}) && \text{(softmax Jacobian)} \\
     &= P_{ij}\, dP_{ij} - P_{ij} \underbrace{\sum_l P_{il}\, dP_{il}}_{\text{does not depend on the column}} && \text{(split the sum)} \\
     &= P_{ij}\, (dP_{ij} - D_i). && \text{(definition of $D_i$)} \tag{3.4}
   \end{aligned}"""
CHAIN_PLAIN = (
    r"\frac{\partial L}{\partial b_{ij}} = \sum_m dP_{im} \frac{\partial P_{im}}{\partial S_{ij}} "
    r"= \sum_m dP_{im} P_{im} (\delta_{mj} - P_{ij}) = P_{ij} dP_{ij} - P_{ij} (\sum_m P_{im} dP_{im}) = P_{ij} (dP_{ij} - D_i)"
)

# (name, table, the formula as printed, an explicit form whose array letters are i and j)
FORMULAS = [
    ("softmax jacobian", VECTOR, r"\frac{\partial p_i}{\partial s_j} = p_i\,(\delta_{ij} - p_j)",
     r"\partial_{s_j} p_i = \delta_{ij} p_i - p_j p_i"),
    ("softmax jacobian, operator", VECTOR, r"\partial_{s_j} p_i = p_i \delta_{ij} - p_i p_j",
     r"\frac{\partial p_i}{\partial s_j} = p_i (\delta_{ij} - p_j)"),
    ("jacobian matrix", VECTOR, r"J = \operatorname{diag}(p) - p p^\top",
     r"J_{ij} = \delta_{ij} p_i - p_i p_j"),
    ("jacobian symmetric", VECTOR, r"J^\top = J",
     "J_{ji} = J_{ij}"),
    ("jacobian kills constants", VECTOR, r"J\,\mathbf 1 = 0",
     r"\sum_l J_{il} = 0"),
    ("vjp", VECTOR, r"\frac{\partial L}{\partial s_j} = p_j\Bigl(g_j - \sum_i g_i p_i\Bigr)",
     r"\frac{\partial L}{\partial s_j} = p_j g_j - p_j \sum_l g_l p_l"),
    ("vjp, matrix", VECTOR, r"J^\top g = p \odot (g - (p^\top g)\mathbf 1)",
     r"\sum_l J_{li} g_l = p_i (g_i - \sum_l p_l g_l)"),
    ("variance form", VECTOR, r"v^\top J v = \sum_i p_i v_i^2 - \biggl(\sum_i p_i v_i\biggr)^2",
     r"\sum_{i,j} v_i J_{ij} v_j = \sum_l p_l v_l v_l - \sum_i \sum_j p_i v_i p_j v_j"),
    ("variance, pairs", VECTOR, r"\sum_i p_i v_i^2 - \left(\sum_i p_i v_i\right)^2 = \tfrac12 \sum_{i,j} p_i p_j (v_i - v_j)^2",
     r"\sum_l v_l^2 p_l - (\sum_j v_j p_j)^2 = \frac{1}{2} \sum_l \sum_m (v_l - v_m)^2 p_l p_m"),
    ("rows sum to one", ATTENTION, r"\sum_j P_{ij} = 1",
     r"\sum_{l=1}^{M} P_{il} = 1"),
    ("hessian", VECTOR, r"\frac{\partial J_{ij}}{\partial s_l} = p_i(\delta_{il}-p_l)(\delta_{ij}-p_j) - p_i p_j(\delta_{jl} - p_l)",
     r"\partial_{s_l} J_{ij} = (\delta_{ij} - p_j) (\delta_{il} - p_l) p_i - p_i p_j \delta_{jl} + p_i p_j p_l"),
    ("log-softmax", VECTOR, r"\frac{\partial \log p_i}{\partial s_j} = \delta_{ij} - p_j",
     r"\partial_{s_j} (\log(p_i)) = -p_j + [j = i]"),
    ("cross-entropy", VECTOR, r"\frac{\partial L}{\partial s_j} = p_j \sum_i y_i - y_j",
     r"\frac{\partial L}{\partial s_j} = -y_j + \sum_l p_j y_l"),
    ("logsumexp", VECTOR, r"\partial_{s_j} \Bigl(\log\Bigl(\sum_i e^{s_i}\Bigr)\Bigr) = p_j",
     r"\frac{\partial \log(\sum_l \exp(s_l))}{\partial s_j} = p_j"),
    ("dP", ATTENTION, r"\frac{\partial L}{\partial P_{ij}} = dP_{ij}",
     r"\partial_{P_{ij}} L = \mathrm{d}P_{i,j}"),
    ("dP dot", ATTENTION, r"dP_{ij} = dO_i \cdot v_j",
     r"dP_{ij} = \sum_a dO_{ia} V_{ja}"),
    ("dP matrix", ATTENTION, r"dP = dO\, V^\top",
     r"dP_{ij} = \sum_a dO_{ia} V_{ja}"),
    ("dV", ATTENTION, r"\frac{\partial L}{\partial V_{ja}} = \sum_i P_{ij}\, dO_{ia}",
     r"\frac{\partial L}{\partial V_{ja}} = \sum_u dO_{ua} P_{uj}"),
    ("dV matrix", ATTENTION, r"dV = P^\top dO",
     r"dV_{ja} = \sum_i P_{ij} dO_{ia}"),
    ("dS", ATTENTION, r"\frac{\partial L}{\partial S_{ij}} = P_{ij}\left( dP_{ij} - \sum_{l=1}^{M} P_{il}\, dP_{il} \right)",
     r"\frac{\partial L}{\partial S_{ij}} = P_{ij} dP_{ij} - P_{ij} \sum_m dP_{im} P_{im}"),
    ("dS upright", ATTENTION, r"\frac{\partial L}{\partial S_{ij}} = P_{ij}\bigl( \mathrm{d}P_{ij} - \sum_{l} P_{il} \mathrm{d}P_{il} \bigr)",
     r"\frac{\partial L}{\partial S_{ij}} = P_{ij} dP_{ij} - P_{ij} \sum_m dP_{im} P_{im}"),
    ("dS off-diagonal form", ATTENTION, r"\frac{\partial L}{\partial S_{ij}} = P_{ij}(1-P_{ij})\,dP_{ij} - P_{ij}\sum_{l \ne j} P_{il}\,dP_{il}",
     r"\frac{\partial L}{\partial S_{ij}} = P_{ij} dP_{ij} - P_{ij}^2 dP_{ij} - \sum_l (1 - \delta_{lj}) P_{ij} P_{il} dP_{il}"),
    ("dS matrix", ATTENTION, r"dS = P \odot \bigl(dP - D\,\mathbf{1}^\top\bigr)",
     "dS_{ij} = P_{ij} (dP_{ij} - D_i)"),
    ("dS rows", ATTENTION, r"dS\,\mathbf 1 = 0",
     r"\sum_j dS_{ij} = 0"),
    ("D_i", ATTENTION, r"D_i = dO_i \cdot o_i",
     r"D_i = \sum_a O_{ia} dO_{ia}"),
    ("D_i transposed", ATTENTION, r"D_i = dO_i^\top o_i",
     r"D_i = \sum_a O_{ia} dO_{ia}"),
    ("D rowsum", ATTENTION, r"D = \operatorname{rowsum}(dO \odot O)",
     r"D_i = \sum_a O_{ia} dO_{ia}"),
    ("dQ", ATTENTION, r"\frac{\partial L}{\partial Q_{ic}} = \alpha \sum_j dS_{ij} K_{jc}",
     r"\frac{\partial L}{\partial q_{ic}} = \sum_l \alpha dS_{il} K_{lc}"),
    ("dQ vector", ATTENTION, r"dQ_i = \alpha \sum_j dS_{ij}\, k_j",
     r"dQ_{ic} = \alpha \sum_j dS_{ij} K_{jc}"),
    ("dQ matrix", ATTENTION, r"dQ = \alpha\, dS\, K",
     r"dQ_{ic} = \alpha \sum_j dS_{ij} K_{jc}"),
    ("dK", ATTENTION, r"\frac{\partial L}{\partial K_{jc}} = \alpha \sum_i dS_{ij} Q_{ic}",
     r"\frac{\partial L}{\partial K_{jc}} = \sum_u dS_{uj} Q_{uc} \alpha"),
    ("dK matrix", ATTENTION, r"dK = \alpha\, dS^\top Q",
     r"dK_{jc} = \alpha \sum_i dS_{ij} Q_{ic}"),
    ("db, outside the scale", ATTENTION, r"\frac{\partial L}{\partial b_{ij}} = P_{ij}\, (dP_{ij} - dO_i \cdot o_i)",
     r"\frac{\partial L}{\partial b_{ij}} = P_{ij} dP_{ij} - P_{ij} \sum_a dO_{ia} O_{ia}"),
    ("db, inside the scale", ATTENTION, r"\frac{\partial L}{\partial b_{ij}} = \frac{P_{ij}}{\sqrt{d_k}} \Bigl( dP_{ij} - \sum_{m} P_{im}\, dP_{im} \Bigr)",
     r"\frac{\partial L}{\partial b_{ij}} = P_{ij} (dP_{ij} - \sum_l P_{il} dP_{il}) / \sqrt{d_k}"),
    ("dalpha", ATTENTION, r"\frac{\partial L}{\partial \alpha} = \sum_{i,j} dS_{ij}\, q_i^\top k_j",
     r"\frac{\partial L}{\partial \alpha} = \sum_i \sum_j \sum_c dS_{ij} Q_{ic} K_{jc}"),
    ("trace pairing", ATTENTION, r"\operatorname{tr}(dS^\top P) = \langle dS, P \rangle",
     r"\sum_{i,j} dS_{ij} P_{ij} = \sum_{i,j} P_{ij} dS_{ij}"),
    ("euler", ATTENTION, r"\langle Q, dQ \rangle = \langle K, dK \rangle",
     r"\sum_{i,c} Q_{ic} dQ_{ic} = \sum_{j,c} K_{jc} dK_{jc}"),
    ("self-attention dK", SELF, r"\frac{\partial L}{\partial K_{jc}} = \alpha \sum_i dS_{ij} Q_{ic}",
     r"\frac{\partial L}{\partial K_{jc}} = \sum_u dS_{uj} Q_{uc} \alpha"),
    ("self-attention Jacobian", SELF, r"\frac{\partial P_{ij}}{\partial S_{ul}} = \delta_{iu} P_{ij} (\delta_{jl} - P_{il})",
     r"\frac{\partial P_{ij}}{\partial S_{ul}} = P_{ij} \delta_{ui} \delta_{lj} - P_{ij} P_{il} \delta_{iu}"),
    ("relative table", OFFSETS, r"\frac{\partial L}{\partial r_\rho} = \sum_{i,j} \mathbf 1[j-i=\rho]\, dS_{ij}",
     r"\partial_{r_\rho} L = \sum_{ij} [j - i = \rho] dS_{ij}"),
    ("table adjoint", OFFSETS, r"\sum_\rho r_\rho\, dr_\rho = \sum_{i,j} dS_{ij}\, r_{j-i}",
     r"\sum_\rho dr_\rho r_\rho = \sum_i \sum_j r_{j-i} dS_{ij}"),
    ("table sums to zero", OFFSETS, r"\sum_\rho dr_\rho = 0",
     r"\sum_\rho \mathrm{d}r_{\rho} = 0"),
    ("T5", BUCKETS, r"\frac{\partial L}{\partial t_u} = \sum_{i,j} [\beta(j-i) = u]\, dS_{ij}",
     r"\frac{\partial L}{\partial t_u} = \sum_i \sum_j \mathbf{1}[u = \beta_{j-i}] dS_{ij}"),
    ("T5, subscript spelling", BUCKETS, r"\frac{\partial L}{\partial t_u} = \sum_{i=1}^{N} \sum_{j=1}^{M} [\beta_{j-i} = u]\, dS_{ij}",
     r"\frac{\partial L}{\partial t_u} = \sum_{ij} [\beta(j-i) = u] dS_{ij}"),
    ("ALiBi slope", SLOPE, r"\frac{\partial L}{\partial \mu} = -\sum_{i,j} dS_{ij}\, |i-j|",
     r"\frac{\partial L}{\partial \mu} = -\sum_i \sum_j |j - i| dS_{ij}"),
    ("LayerNorm", NORM, r"\frac{\partial \hat x_i}{\partial x_j} = \frac{1}{\sigma}\left(\delta_{ij} - \frac1n - \frac{\hat x_i \hat x_j}{n}\right)",
     r"\partial_{x_j} \hat{x}_i = \frac{\delta_{ij}}{\sigma} - \frac{1}{\sigma n} - \frac{\hat{x}_i \hat{x}_j}{n \sigma}"),
    ("LayerNorm vjp", NORM, r"\frac{\partial L}{\partial x_j} = \frac{1}{\sigma}\Bigl(g_j - \frac{1}{n}\sum_i g_i - \frac{\hat x_j}{n} \sum_i g_i \hat x_i\Bigr)",
     r"\frac{\partial L}{\partial x_j} = \frac{g_j}{\sigma} - \frac{\sum_l g_l}{n \sigma} - \frac{\hat{x}_j \sum_l \hat{x}_l g_l}{n \sigma}"),
    ("online merge", MERGE, r"e^{m_1-m}\sum_{j=1}^{r} e^{s_j-m_1} + e^{m_2-m}\sum_{j=r+1}^{n} e^{s_j-m_2} = \sum_{j=1}^{n} e^{s_j-m}",
     r"e^{m_1-m} (\sum_{j=1}^r \exp(s_j-m_1)) + e^{m_2-m} (\sum_{j=r+1}^n \exp(s_j-m_2)) = \sum_j \exp(s_j-m)"),
    ("chain", ATTENTION, CHAIN, CHAIN_PLAIN),
    ("coloured", ATTENTION, r"dS_{ij} = \textcolor{red}{P_{ij}}\, \boxed{dP_{ij}} - \underbrace{P_{ij} D_i}_{\text{row term}}",
     "dS_{ij} = P_{ij} dP_{ij} - P_{ij} D_i"),
    ("formula under a brace", ATTENTION, r"dS_{ij} = P_{ij}\, dP_{ij} - P_{ij} \underbrace{\sum_l P_{il}\, dP_{il}}_{D_i}",
     r"dS_{ij} = P_{ij} dP_{ij} - P_{ij} \sum_m P_{im} dP_{im}, \quad \sum_m P_{im} dP_{im} = D_i"),
    ("two equations", ATTENTION, r"dQ = \alpha\, dS\, K, \qquad dK = \alpha\, dS^\top Q",
     r"dQ_{ic} = \alpha \sum_j dS_{ij} K_{jc}, \quad dK_{jc} = \alpha \sum_i dS_{ij} Q_{ic}"),
]  # fmt: skip
SIZES = {Symbol(name, integer=True, positive=True): value for name, value in (("N", 2), ("M", 2), ("d_k", 2), ("d_v", 2), ("n", 2), ("B", 2), ("r", 1))}


def names_of_letters(statement: object) -> tuple[list[Symbol], list[Symbol]]:
    """Return the free letters, those of array equations first row, then column."""
    fresh = [s for s in statement.free if "<" in s.name]
    return sorted(fresh, key=lambda s: s.name.startswith("column")), [s for s in statement.free if "<" not in s.name]


def says_the_same(text: str, plain: str, table: Table) -> bool:
    """Compare the two readings on exact rationals, at every value of every letter."""
    first, second = read(text, table).statements, read(plain, table).statements
    if [s.relation for s in first] != [s.relation for s in second]:
        return False
    for one, two in zip(first, second, strict=True):
        (fresh, named), (_, letters) = names_of_letters(one), names_of_letters(two)
        order = [x for x in _order(two.rhs, _order(two.lhs, letters)) if x not in named]
        renamed = dict(zip(fresh, order, strict=True))
        at = {letter: 2 for letter in letters}
        if not all(alike(a.xreplace(renamed), b, at, SIZES) for a, b in ((one.lhs, two.lhs), (one.rhs, two.rhs))):
            return False
    return True


def _order(side: object, letters: list[Symbol]) -> list[Symbol]:
    """Return the letters as they stand in an entry, the others as they came."""
    indices = [x for x in getattr(side, "indices", ()) if x in letters]
    return indices + [x for x in letters if x not in indices]


@pytest.mark.parametrize("name, table, text, plain", FORMULAS, ids=[f[0] for f in FORMULAS])
def test_a_formula_reads_as_its_explicit_form(name: str, table: Table, text: str, plain: str) -> None:
    assert says_the_same(text, plain, table)


@pytest.mark.parametrize("name, table, text, plain", FORMULAS, ids=[f[0] for f in FORMULAS])
def test_a_changed_form_is_noticed(name: str, table: Table, text: str, plain: str) -> None:
    """The comparison above can fail: a changed right side is seen for every formula."""
    right = plain.rindex("=", 0, plain.rindex("[") if "[" in plain else len(plain))
    changed = plain[: right + 1] + " 3 + " + plain[right + 1 :].lstrip().lstrip("-")
    assert not says_the_same(text, changed, table)


def test_the_chain_keeps_its_reasons_and_places() -> None:
    statements = read(CHAIN, ATTENTION).statements
    assert [s.reason for s in statements] == [
        "(chain rule; the bias enters one score)", "(softmax Jacobian)", "(split the sum)", "(definition of $D_i$)"
    ]  # fmt: skip
    assert [CHAIN[s.at] for s in statements] == ["="] * 4
    assert statements[0].rhs == statements[1].lhs


def test_quoted_mistakes_shadow_and_plain_ones_are_refused() -> None:
    text = r"\frac{\partial L}{\partial b_{ij}} = \sum_i \sum_j dP_{ij} P_{ij} (1 - P_{ij})"
    with pytest.raises(ReadError, match="i is free in this formula"):
        read(text, ATTENTION)
    statement = read(text, ATTENTION, quote=True).statements[0]
    assert {s.name for s in statement.free} == {"i", "j"}
    assert not statement.rhs.free_symbols & set(statement.free)


def test_equal_fingerprints_are_equal_readings() -> None:
    """Matrix and index forms differ in the names of their letters; three pairs differ in style alone."""
    groups: dict[str, list[str]] = {}
    for name, table, text, _ in FORMULAS:
        groups.setdefault(fingerprint(read(text, table)), []).append(name)
    alike_in_style = [["dS", "dS upright"], ["D_i", "D_i transposed"], ["T5", "T5, subscript spelling"]]
    assert [names for names in groups.values() if len(names) > 1] == alike_in_style


def test_reading_is_fast() -> None:
    """The median of the formulas takes 3 ms on a quiet machine."""
    times = []
    for _, table, text, _ in FORMULAS:
        start = time.process_time()
        read(text, table)
        times.append(time.process_time() - start)
    assert statistics.median(times) < 0.03
