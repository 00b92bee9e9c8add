"""With values that are the identity the output is the weights, which say what the forward pass computes."""

from dataclasses import replace

import numpy as np
import pytest

from attngrad.doctor import Outcome, Spec
from attngrad.doctor.cases import plan
from attngrad.doctor.judging import verdicts
from attngrad.doctor.naming.fitting import cap_of, fitted
from attngrad.doctor.naming.probing import probe
from attngrad.mistakes.whole import WHOLE, Attention, right
from attngrad.mistakes.whole.stages import stage

from .diagnosis_cases import SPECS, changed, healthy, planted, tried

BRAIN = replace(SPECS["bias"], dtypes=("bfloat16",))
PROBED = {name: spec for name, spec in SPECS.items() if name != "half"} | {"brain": BRAIN}
CASES = {
    name: [case for case in plan(spec) if case.name.startswith("probe-")] for name, spec in PROBED.items()
}


def probed(name, make):
    """Return the sentences and findings on answers to the probes of a specification."""
    return probe(tried(CASES[name], PROBED[name], make), PROBED[name])


@pytest.mark.parametrize("name", PROBED)
def test_a_right_forward_pass_is_as_declared(name):
    sentences, findings = probed(name, healthy)
    assert findings == ()
    assert 3 <= len(sentences) <= 5
    assert all("declared" in text or "as it must be" in text for text in sentences)


TOLD = [
    ("attention-scale-inverted", "= 1/scale (declared"),
    ("attention-scale-missing", "scale: 1 (declared"),
    ("attention-scale-ignored", "= 1/sqrt(D) (declared"),
    ("attention-scale-by-d", "= 1/D (declared"),
    ("attention-scale-twice", "= scale^2 (declared"),
    ("attention-scale-after-softmax", "weights: those of a query sum to 0.2245 = scale, not to 1"),
    ("bias-inside-scale-instead", "bias: enters with coefficient 0.2245 = scale (declared: 1)"),
    ("bias-exp2-unscaled", "= ln 2 (declared: 1)"),
    ("bias-ignored", "bias: enters with coefficient 0 (declared: 1)"),
    ("bias-sign-flipped", "bias: enters with coefficient -1 (declared: 1)"),
    ("attention-causal-top-left", "causal: query 0 stands at position 0, top-left (declared: 13)"),
    ("attention-causal-off-by-one", "causal: query 0 stands at position 12"),
    ("attention-causal-ignored", "causal: queries attend to later keys"),
    ("attention-softmax-over-queries", "the softmax runs over queries"),
    ("attention-tail-keys-joined", "weights: those of a query sum to between"),
    ("softcap-ignored", "soft-cap: none (declared: 2.3 on the scores)"),
    ("softcap-before-bias", "soft-cap: 2.3 on the product (declared: 2.3 on the scores)"),
]


@pytest.mark.parametrize(("id", "told"), TOLD)
@pytest.mark.parametrize("name", ["table", "bias"])
def test_what_contradicts_the_claim_is_told_and_is_a_finding(name, id, told):
    sentences, findings = probed(name, planted(id))
    assert any(told in text for text in sentences), sentences
    assert any(told in finding.text for finding in findings)
    assert all(finding.kind == "probe" and finding.case.startswith("probe-") for finding in findings)


@pytest.mark.parametrize(
    ("id", "told"),
    [
        ("attention-scale-inverted", "1/scale"), ("bias-exp2-unscaled", "= ln 2"),
        ("bias-ignored", "coefficient 0 ("), ("attention-causal-top-left", "top-left"),
        ("softcap-ignored", "soft-cap: none"),
    ],
)  # fmt: skip
def test_bfloat16_is_enough_to_tell(id, told):
    sentences, findings = probed("brain", planted(id))
    assert any(told in text for text in sentences)
    assert findings


def test_a_bias_inside_the_scale_that_is_added_outside_is_told():
    sentences, findings = probed("inside", planted("bias-outside-scale-instead"))
    assert "bias: enters with coefficient 1 (declared: 0.2245)" in sentences
    assert len(findings) == 1
    sentences, _ = probed("inside", planted("softcap-after-bias"))
    assert "soft-cap: 2.3 on the scores (declared: 2.3 on the product)" in sentences


def test_weights_that_no_such_scores_give_are_told():
    sentences, findings = probed("slopes", planted("alibi-signed-offset"))
    assert any("no softmax of a multiple of q.k" in text for text in sentences)
    assert findings


def short(case):
    """Return the right answers, each rounded to float32 as a softmax of that type would leave them."""
    return {name: x.astype(np.float32).astype(np.float64) for name, x in healthy(case).items()}


def test_a_lack_of_precision_contradicts_nothing():
    spec = replace(SPECS["bias"], dtypes=("float64",), options=("cross",), causal="never")
    cases = plan(spec)
    assert len([case for case in cases if case.name.startswith("probe-")]) == 3
    found = tried(cases, spec, short)
    assert {finding.kind for *_, findings in found for finding in findings} == {"imprecise"}
    sentences, findings = probe(found, spec)
    assert findings == ()
    assert sentences
    assert all("declared" in text or "as it must be" in text for text in sentences), sentences


def test_an_output_inside_its_bound_contradicts_nothing():
    case = next(case for case in CASES["bias"] if case.name == "probe-weights")
    wrong = WHOLE["attention-scale-inverted"].answers(case)
    outcome = Outcome("ok", answers=wrong)
    assert probe([(case, outcome, ())], SPECS["bias"])[1] == ()
    _, findings = probe([(case, outcome, verdicts.judge(case, outcome, SPECS["bias"]))], SPECS["bias"])
    assert findings


class Capped(Attention):
    """Attention with a soft-cap that nobody declared."""

    @stage
    def cap_scores(self) -> float:
        """The cap."""
        return 5.0


def test_a_soft_cap_that_is_not_declared_is_measured():
    spec = Spec(framework="numpy", bias=("1hnm",))
    cases = [case for case in plan(spec) if case.name.startswith("probe-")]
    sentences, findings = probe(tried(cases, spec, lambda case: Capped(case).answers()), spec)
    assert "soft-cap: 5 on the scores (declared: none)" in sentences
    assert any(finding.text.startswith("soft-cap") for finding in findings)
    assert probe(tried(cases, spec, healthy), spec)[1] == ()


def test_a_dv_that_is_no_transpose_of_the_output_is_a_finding():
    _, findings = probed("bias", changed("dv", lambda x: 1.001 * x, lambda case: case.name == "probe-values"))
    assert [(finding.what, finding.case) for finding in findings] == [("dv", "probe-values")]
    assert findings[0].got == pytest.approx(1.001 * findings[0].want, rel=1e-4)
    spoilt, _ = probed("bias", planted("dropout-dv-undropped"))
    assert "dv is the transpose of the output where V = dO = I, as it must be" in spoilt


def test_a_backward_pass_alone_is_no_matter_of_the_forward_one():
    for id in ("attention-dq-unscaled", "bias-vjp-scaled-outside", "softmax-vjp-elementwise"):
        assert probed("bias", planted(id)) == probed("bias", healthy)


def test_probes_without_an_answer_are_passed_over():
    case = CASES["bias"][0]
    spoilt = {"o": np.full(right(case).o.shape, np.nan)}
    outcomes = [Outcome("error", "no"), Outcome("ok"), Outcome("ok", answers=spoilt)]
    outcomes += [Outcome("ok", answers={"o": np.zeros((1, 2))})]
    assert probe([(case, outcome, ()) for outcome in outcomes], SPECS["bias"]) == ((), ())


def test_a_fit_returns_the_coefficients_and_refuses_columns_that_say_the_same():
    rng = np.random.default_rng(0)
    x, b = rng.standard_normal((2, 1, 2, 6, 9))
    weights = np.exp(0.7 * x - 0.3 * b + rng.standard_normal((1, 2, 6, 1)))
    fit = fitted(weights, np.full(x.shape, 1e-9), [x, b])
    assert np.allclose(fit.coefficients, [0.7, -0.3], atol=1e-7)
    assert fit.holds
    assert fitted(weights, np.full(x.shape, 1e-9), [x, 2.0 * x]) is None
    assert fitted(weights, np.full(x.shape, 10.0), [x]) is None
    c, left = cap_of(np.exp(3.0 * np.tanh(4.0 * x / 3.0)), np.full(x.shape, 1e-9), 4.0 * x, 0.0)
    assert c == pytest.approx(3.0, rel=1e-4)
    assert left < 1e3


def test_every_mistake_told_here_is_one():
    assert {id for id, _ in TOLD} <= set(WHOLE)
