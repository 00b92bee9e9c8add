"""The right answers of a case in float64, and the weights that belong to them."""

from functools import lru_cache
from weakref import WeakKeyDictionary

import numpy as np

from attngrad import reference
from attngrad.doctor.case import Case

_ANSWERS: WeakKeyDictionary[Case, dict[str, np.ndarray]] = WeakKeyDictionary()


@lru_cache(maxsize=2)
def weights(case: Case) -> reference.Attention:
    """Return what the forward pass of a case gives and keeps."""
    return reference.attention(
        case.q, case.k, case.v, case.dense_bias(), scale=case.scale,
        bias_inside_scale=case.bias_inside_scale, softcap=case.softcap, softcap_on=case.softcap_on,
        mask=case.allowed(), causal=case.causal, query_start=case.start if case.causal else None,
        sink=case.sink, keep=case.keep, dropout=case.dropout,
    )  # fmt: skip


def answers(case: Case) -> dict[str, np.ndarray]:
    """Return o, lse and every gradient that a case wants; a case is computed once."""
    if case not in _ANSWERS:
        _ANSWERS[case] = _answers(case)
    return _ANSWERS[case]


def _answers(case: Case) -> dict[str, np.ndarray]:
    """Compute the answers of a case."""
    saved = weights(case)
    grads = reference.attention_vjp(saved, case.do, case.dlse)
    found = {"dq": grads.dq, "dk": grads.dk, "dv": grads.dv, "dscale": np.asarray(grads.dscale)}
    if grads.dsink is not None:
        found["dsink"] = grads.dsink
    if grads.dbias is not None:
        found |= {"dbias": grads.dbias} if case.table is None else {"dtable": to_table(case, grads.dbias)}
    return {"o": saved.o, "lse": saved.lse, **{name: found[name] for name in case.wants}}


def to_table(case: Case, dbias: np.ndarray) -> np.ndarray:
    """Return the cotangent of a table or of slopes for that of the bias of all pairs, (H or 1, N, M)."""
    if case.table.ndim == 1:
        return reference.alibi_bias_vjp(case.row, dbias)
    return reference.table_bias_vjp(case.row, dbias, case.table.shape[1])
