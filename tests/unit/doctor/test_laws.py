"""Laws: right answers break none, and each is broken by a mistake that obeys all others."""

import numpy as np
import pytest

from attngrad.doctor import Spec, alibi, t5
from attngrad.doctor.case import Case
from attngrad.doctor.cases import plan
from attngrad.doctor.judging import bounds, oracle
from attngrad.doctor.judging.laws import LAWS, broken
from attngrad.doctor.spec import BIASES

from .specs import ALL, SPECS

RNG = np.random.default_rng(5)
BY_ID = {law.id: law for law in LAWS}
DENSE = {case.name: case for case in plan(Spec(bias=("bhnm", "1hnm", "bh1m"), options=ALL, causal="both"))}
TABLE = {case.name: case for case in plan(SPECS["t5"])}


def broken_by(case: Case, **wrong) -> set[str]:
    """Return which laws the right answers break once some are replaced."""
    exact = oracle.answers(case)
    found = broken(case, {**exact, **wrong}, bounds.healthy(case, exact))
    return {law.id for law in LAWS if any(finding.text.startswith(f"{law.text}:") for finding in found)}


def applying(case: Case) -> set[str]:
    """Return which laws apply to a case."""
    return {law.id for law in LAWS if law.applies(case)}


def random_spec(rng: np.random.Generator) -> Spec:
    """Return a specification of random claims."""
    options = tuple(option for option in ALL if rng.random() < 0.6)
    fields = {"options": options, "causal": str(rng.choice(["never", "always", "both"]))}
    fields["alignment"] = str(rng.choice(["bottom-right", "top-left"]))
    fields["dtypes"] = (str(rng.choice(["float64", "float32", "bfloat16"])),)
    fields["bias_inside_scale"] = bool(rng.random() < 0.5)
    kind = rng.integers(4)
    if kind == 0:
        return Spec(bias=tuple(str(b) for b in rng.choice(BIASES, 2, replace=False)), **fields)
    maps = {1: t5(8, 20), 2: alibi(3, learned=True), 3: None}
    return Spec(map=maps[int(kind)], **fields)


@pytest.mark.parametrize("number", range(50))
def test_right_answers_break_no_law(number):
    rng = np.random.default_rng(number)
    for case in plan(random_spec(rng), seed=number, quick=True):
        assert broken_by(case) == set(), case.name


def test_healthy_errors_break_no_law():
    for case in (*DENSE.values(), *TABLE.values()):
        exact = oracle.answers(case)
        bound = bounds.healthy(case, exact)
        moved = {name: x + bound[name] for name, x in exact.items()}
        assert broken(case, moved, bound) == []


def test_a_bias_gradient_without_delta_breaks_the_law_of_rows_alone():
    case = DENSE["bias-bhnm"]
    dbias = oracle.answers(case)["dbias"] + 0.01
    assert broken_by(case, dbias=dbias) == {"rows"}
    shared = DENSE["bias-1hnm"]
    assert broken_by(shared, dbias=oracle.answers(shared)["dbias"] + 0.01) == {"rows"}


def test_columns_beyond_the_last_key_break_the_law_of_tables_alone():
    case = TABLE["basic"]
    dtable = oracle.answers(case)["dtable"].copy()
    dtable[0, 3] += 0.5
    assert broken_by(case, dtable=dtable) == {"table"}
    # What moves between rows of a table keeps its sum: the law does not see it.
    dtable[0, 4] -= 0.5
    assert broken_by(case, dtable=dtable) == set()


def test_keys_that_get_too_much_break_the_law_of_keys_alone():
    case = TABLE["basic"]
    dk, k = oracle.answers(case)["dk"], case.k
    extra = RNG.standard_normal(k.shape)
    extra -= (extra * k).sum(axis=(2, 3), keepdims=True) / (k * k).sum(axis=(2, 3), keepdims=True) * k
    assert broken_by(case, dk=dk + 0.1 * extra) == {"keys"}


def test_a_lost_scale_of_dq_breaks_its_laws():
    case = TABLE["basic"]
    assert broken_by(case, dq=oracle.answers(case)["dq"] / case.scale) == {"queries", "scale"}
    plain = plan(Spec())[0]
    assert broken_by(plain, dq=oracle.answers(plain)["dq"] / plain.scale) == {"queries"}


def test_a_wrong_dscale_breaks_the_law_of_the_scale_alone():
    case = TABLE["basic"]
    assert broken_by(case, dscale=-oracle.answers(case)["dscale"]) == {"scale"}


def test_a_tail_that_dv_lacks_breaks_the_law_of_values_alone():
    case = TABLE["basic"]
    dv = oracle.answers(case)["dv"].copy()
    dv[:, :, 128:] = 0.0
    assert broken_by(case, dv=dv) == {"values"}


def test_every_law_is_broken_by_a_mistake_of_its_own_above():
    assert set(BY_ID) == {"rows", "table", "keys", "queries", "scale", "values"}


def test_hypotheses():
    assert {"rows", "keys", "queries", "values", "scale"} <= applying(DENSE["dlse"])
    assert "rows" not in applying(DENSE["softcap"]) | applying(DENSE["sink"]) | applying(DENSE["bias-bh1m"])
    assert "rows" in applying(DENSE["softcap-product"])
    assert not {"table", "keys"} & (applying(TABLE["softcap"]) | applying(TABLE["sink"]))
    assert "keys" not in applying(TABLE["softcap-product"])
    assert {"table", "keys"} <= applying(TABLE["dropout"]) & applying(TABLE["mask"]) & applying(TABLE["gqa"])
    slopes = plan(SPECS["alibi"], quick=True)[0]
    assert "table" not in applying(slopes)
    assert "scale" not in applying(plan(SPECS["inside"], quick=True)[0])


@pytest.mark.parametrize("name", ["softcap", "sink"])
@pytest.mark.parametrize("law", ["rows", "keys"])
def test_a_law_would_be_broken_by_right_answers_where_it_does_not_apply(name, law):
    case = DENSE[name]
    exact, law = oracle.answers(case), BY_ID[law]
    left, right, allowed = law.sides(case, exact, bounds.healthy(case, exact))
    assert np.any(np.abs(left - right) > 10.0 * allowed)


def test_a_cotangent_of_lse_enters_the_laws():
    for name in ("dlse", "dropout-dlse"):
        case = TABLE[name]
        exact = oracle.answers(case)
        for law in ("table", "keys"):
            _, right, allowed = BY_ID[law].sides(case, exact, bounds.healthy(case, exact))
            assert np.all(np.abs(right).max() > 100.0 * np.asarray(allowed).max())


def test_what_is_missing_or_not_finite_breaks_no_law():
    case = TABLE["basic"]
    exact = oracle.answers(case)
    bound = bounds.healthy(case, exact)
    assert broken(case, {"o": exact["o"]}, bound) == []
    assert broken(case, {**exact, "dq": np.full_like(exact["dq"], np.nan)}, bound) == []
