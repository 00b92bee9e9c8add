"""Laws that the declared semantic implies: sums and pairings that hold whatever the numbers are.

Each holds under hypotheses that are computed from the case. The error that is allowed is the sum of those of
the answers, so that answers within their bounds break none; a law says something about the kind of mistake.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from attngrad.doctor.case import Case
from attngrad.doctor.exchange import expected_shape
from attngrad.doctor.judging.exact import weights
from attngrad.doctor.outcome import Finding

Answers = Mapping[str, np.ndarray]
Sides = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Law:
    """A law: ``text`` what must hold, ``reads`` the answers, ``when`` its hypotheses beside them.

    ``sides`` gives the left side, the right side and the error allowed between them.
    """

    id: str
    text: str
    reads: tuple[str, ...]
    when: Callable[[Case], bool]
    sides: Callable[[Case, Answers, Answers], Sides]

    def applies(self, case: Case) -> bool:
        """Say whether the semantic of a case implies the law, and the case wants what it reads."""
        wanted = ("o", *case.wants)
        return all(name in wanted for name in self.reads) and self.when(case)

    def check(self, case: Case, got: Answers, bound: Answers) -> Finding | None:
        """Return what breaks the law, None if it holds, does not apply, or lacks an answer."""
        if not self.applies(case) or not all(_readable(case, name, got) for name in self.reads):
            return None
        left, right, allowed = (np.asarray(x) for x in self.sides(case, got, bound))
        off = np.abs(left - right) - (1.0 + 1e-9) * allowed
        if not np.any(off > 0.0):
            return None
        at = np.unravel_index(int(np.argmax(off)), off.shape)
        error, limit = float(abs(left[at] - right[at])), float(np.broadcast_to(allowed, off.shape)[at])
        text = f"{self.text}: {left[at]:.6g} and {right[at]:.6g} differ by {error:.1e}"
        text += f" where rounding explains {limit:.1e}"
        index, sides = tuple(int(k) for k in at), (float(left[at]), float(right[at]))
        return Finding(case.name, self.reads[-1], "law", text, error, limit, index, *sides)


def _readable(case: Case, name: str, got: Answers) -> bool:
    """Say whether an answer is there, of the right shape, and finite."""
    x = got.get(name)
    return x is not None and x.shape == expected_shape(case, name) and bool(np.isfinite(x).all())


def broken(case: Case, got: Answers, bound: Answers) -> list[Finding]:
    """Return a finding for each law that the answers of a case break."""
    return [finding for law in LAWS if (finding := law.check(case, got, bound)) is not None]


def _uncapped_scores(case: Case) -> bool:
    """Say whether no cap acts on the scores."""
    return case.softcap is None or case.softcap_on != "scores"


def _dlse(case: Case) -> np.ndarray:
    """Return the cotangent of lse, 0 for a query without a key, (B, H, N)."""
    lse = weights(case).lse
    return np.zeros(lse.shape) if case.dlse is None else np.where(np.isneginf(lse), 0.0, case.dlse)


def _bias_factor(case: Case) -> float:
    """Return what multiplies the bias."""
    return case.scale if case.bias_inside_scale else 1.0


def _rounding(terms: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Return what float64 may lose in a sum that the law takes itself."""
    return 1e-13 * np.abs(terms).sum(axis=axes)


def _rows_apply(case: Case) -> bool:
    """Say whether a row of dbias has all pairs of a query, and no cap or sink takes a part."""
    shape = case.sizes["N"], case.sizes["M"]
    full = case.bias is not None and case.bias.ndim >= 2 and case.bias.shape[-2:] == shape
    return full and case.sink is None and _uncapped_scores(case)


def _rows(case: Case, got: Answers, bound: Answers) -> Sides:
    """Rows of dbias, and the cotangent of lse summed over the axes along which the bias is broadcast."""
    heads = (1,) * (4 - case.bias.ndim) + case.bias.shape[:-2]
    dlse = _dlse(case)
    summed = tuple(k for k in (0, 1) if heads[k] == 1)
    right = _bias_factor(case) * dlse.sum(axis=summed, keepdims=True).reshape(case.bias.shape[:-1])
    dbias = got["dbias"]
    allowed = np.broadcast_to(bound["dbias"], dbias.shape).sum(axis=-1) + _rounding(dbias, (-1,))
    return dbias.sum(axis=-1), right, allowed


def _table_applies(case: Case) -> bool:
    """Say whether every pair takes its bias from one row of a table: no slopes, no cap, no sink."""
    return case.table is not None and case.table.ndim == 2 and case.sink is None and _uncapped_scores(case)


def _table(case: Case, got: Answers, bound: Answers) -> Sides:
    """The sum of dtable of a head, and the sum of the cotangents of lse: 0 without them."""
    dtable, dlse = got["dtable"], _dlse(case).sum(axis=(0, 2))
    right = _bias_factor(case) * (dlse if len(dtable) == len(dlse) else dlse.sum(keepdims=True))
    allowed = np.broadcast_to(bound["dtable"], dtable.shape).sum(axis=-1) + _rounding(dtable, (-1,))
    return dtable.sum(axis=-1), right, allowed


def _keys(case: Case, got: Answers, bound: Answers) -> Sides:
    """The sum of dk over keys, and scale dlse_i q_i over queries and heads of a group, (B, H_kv, D)."""
    s, dk = case.sizes, got["dk"]
    terms = case.scale * _dlse(case)[..., None] * case.q
    right = terms.sum(axis=2).reshape(s["B"], s["H_kv"], -1, s["D"]).sum(axis=2)
    allowed = np.broadcast_to(bound["dk"], dk.shape).sum(axis=2) + _rounding(dk, (2,))
    return dk.sum(axis=2), right, allowed


def _pairing(
    a: np.ndarray, b: np.ndarray, loose: np.ndarray, axes: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sum of a b over axes, and the error that it may have if b is off by ``loose``."""
    return (a * b).sum(axis=axes), (np.abs(a) * loose).sum(axis=axes) + _rounding(a * b, axes)


def _queries(case: Case, got: Answers, bound: Answers) -> Sides:
    """q.dq and k.dk, both the sum of ds times scale q.k, by batch and head of keys."""
    s, axes = case.sizes, (2, 3)
    left, of_q = _pairing(case.q, got["dq"], bound["dq"], axes)
    right, of_k = _pairing(case.k, got["dk"], bound["dk"], axes)
    grouped = [x.reshape(s["B"], s["H_kv"], -1).sum(axis=-1) for x in (left, of_q)]
    return grouped[0], right, grouped[1] + of_k


def _values(case: Case, got: Answers, bound: Answers) -> Sides:
    """o.do and v.dv: the output is linear in the values; by batch and head of keys."""
    s, axes = case.sizes, (2, 3)
    left, of_o = _pairing(case.do, got["o"], bound["o"], axes)
    right, of_v = _pairing(case.v, got["dv"], bound["dv"], axes)
    grouped = [x.reshape(s["B"], s["H_kv"], -1).sum(axis=-1) for x in (left, of_o)]
    return grouped[0], right, grouped[1] + of_v


def _scale(case: Case, got: Answers, bound: Answers) -> Sides:
    """q.dq of all, and scale dscale."""
    left, of_q = _pairing(case.q, got["dq"], bound["dq"], (0, 1, 2, 3))
    return left, case.scale * got["dscale"], of_q + abs(case.scale) * bound["dscale"]


def _no_cap_no_sink(case: Case) -> bool:
    """Say whether a constant added to all keys changes no weight."""
    return case.softcap is None and case.sink is None


def _always(case: Case) -> bool:
    """Say yes: the law needs no hypothesis."""
    return True


def _outside(case: Case) -> bool:
    """Say whether the scale multiplies the product alone."""
    return not case.bias_inside_scale or case.dense_bias() is None


LAWS = (
    Law("rows", "a row of dbias sums to the cotangent of its lse", ("dbias",), _rows_apply, _rows),
    Law("table", "dtable of a head sums to its cotangents of lse", ("dtable",), _table_applies, _table),
    Law("keys", "dk sums over keys to scale dlse q", ("dk",), _no_cap_no_sink, _keys),
    Law("queries", "q.dq equals k.dk", ("dk", "dq"), _always, _queries),
    Law("values", "o.do equals v.dv", ("o", "dv"), _always, _values),
    Law("scale", "q.dq equals scale dscale", ("dq", "dscale"), _outside, _scale),
)
