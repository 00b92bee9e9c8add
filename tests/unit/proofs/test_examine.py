"""What is asked of a claim: right ones pass, and each kind of error is a fault that is named."""

import numpy as np
import pytest

from attngrad.proofs.claim import Chapter, Claim, Definition, Identity, Number, Theorem, Wrong
from attngrad.proofs.examine import Result, examine, page_formulas
from attngrad.proofs.mutants import of_string
from attngrad.proofs.read import Table

TABLE = Table(
    index=dict.fromkeys("ijl", "n"),
    names={**{x: ("n",) for x in ("s", "p", "v")}, "J": ("n", "n"), "c": (), r"\Omega": "+", "n": "size"},
    kronecker=r"\delta",
)
SOFTMAX = r"p_i = \frac{e^{s_i}}{\sum_l e^{s_l}}"
JACOBIAN = r"\frac{\partial p_i}{\partial s_j} = p_i (\delta_{ij} - p_j)"


def examined(claim: Claim, tex: str, *others: Claim, **formulas: str) -> Result:
    chapter = Chapter("small", TABLE, ({"n": 2}, {"n": 3}), (Definition("def-p"), *others, claim))
    shown = {"def-p": SOFTMAX, claim.label: tex, **{k.replace("_", "-"): v for k, v in formulas.items()}}
    text = "\n\n".join(f"$$\n{t}\n$$ ({label})" for label, t in shown.items())
    return examine(chapter, page_formulas(chapter, text), claim)


def distribution(random: np.random.Generator, trial: int) -> dict[str, object]:
    k = random.integers(1, 6)
    p = random.dirichlet(np.ones(k)) if trial else np.full(k, 1 / k)
    if trial == 1:
        k, p = 3, np.array([0.5, 0.5, 0.0])
    return {
        "n": k,
        "p": p,
        "c": float(random.uniform(0, 1)) if trial else 0.0,
        r"\Omega": float(np.finfo("float32").max),
    }


class TestIdentities:
    def test_a_right_one_is_proved_and_no_mutant_survives(self) -> None:
        found = examined(Identity("eq-x", ("def-p",)), JACOBIAN)
        assert found.faults == []
        assert found.verdict.word == "PROVED"
        assert found.killed > 25

    @pytest.mark.parametrize(("kind", "wrong"), of_string(JACOBIAN, TABLE))
    def test_every_small_error_in_it_is_a_fault_or_says_the_same(self, kind: str, wrong: str) -> None:
        found = examined(Identity("eq-x", ("def-p",)), wrong)
        assert (
            found.faults or found.fingerprint == examined(Identity("eq-x", ("def-p",)), JACOBIAN).fingerprint
        )

    def test_a_line_of_a_derivation_without_reason_is_a_fault(self) -> None:
        lines = r"\begin{aligned} \sum_i p_i &= 1 && \text{(one)} \\ &= \sum_l p_l %s \end{aligned}"
        claim = Identity("eq-x", ("def-p",))
        assert examined(claim, lines % r"&& \text{(renamed)}").faults == []
        assert "line 2 of the derivation gives no reason" in examined(claim, lines % "").faults[0]

    def test_a_known_mistake_that_is_no_mistake_is_a_fault(self) -> None:
        harmless = Identity(
            "eq-x",
            ("def-p",),
            mistakes={"harmless": r"\frac{\partial p_i}{\partial s_j} = p_i \delta_{ij} - p_j p_i"},
        )
        assert any("the mistake harmless is not refuted" in f for f in examined(harmless, JACOBIAN).faults)

    def test_a_definition_that_no_claim_checks_leaves_survivors(self) -> None:
        found = examined(Definition("def-c"), r"c = 2 n")
        assert any("survives" in f and "all 0 claims" in f for f in found.faults)

    def test_a_definition_that_is_checked_leaves_none(self) -> None:
        claim = Identity("eq-y", ("def-c", "def-p"))
        assert (
            examined(
                Definition("def-c"),
                r"c = \sum_l s_l p_l",
                claim,
                eq_y=r"\frac{\partial c}{\partial s_j} = p_j (1 + s_j - c)",
            ).faults
            == []
        )


class TestWrongFormulas:
    def test_one_that_is_wrong_is_refuted(self) -> None:
        found = examined(Wrong("bad-x", ("def-p",)), r"\frac{\partial p_i}{\partial s_j} = p_i (1 - p_i)")
        assert found.faults == []
        assert "at n = 2" in found.verdict.detail

    def test_one_that_is_right_is_a_fault(self) -> None:
        assert examined(Wrong("bad-x", ("def-p",)), JACOBIAN).faults


class TestTheorems:
    def judged(self, tex: str, tight: bool = True) -> Result:
        return examined(Theorem("thm-x", model=distribution, tight=tight), tex)

    def test_a_sharp_one_is_argued(self) -> None:
        assert self.judged(r"\frac1n \le \sum_i p_i^2").faults == []

    def test_a_strict_one_needs_no_equality(self) -> None:
        found = self.judged(r"0 < \sum_i p_i^2")
        assert found.faults == []
        assert "equality" not in found.verdict.detail

    @pytest.mark.parametrize(
        ("tex", "message"),
        [
            (r"\frac1n \ge \sum_i p_i^2", "off by"),
            (r"\frac{1}{n+1} \le \sum_i p_i^2", "not attained"),
            (r"\sum_i p_i^2 \le \sum_i p_i^2", "an equality at every instance"),
            (r"\sum_i p_i^2 = 1", "inequality is expected"),
            (r"\sum_i v_i^2 \le 1", "no value for v"),
            (r"\frac1n < \sum_i p_i^2", "an equality, where < or > is printed"),
            (r"p_i \log p_i \le 0", "one side has no value"),
            (r"\frac{1}{p_i} \ge 1", "one side has no value"),
            (r"p_i \ge 0.00000000001", "cannot be told from rounding"),
        ],
    )
    def test_what_is_not_is_a_fault(self, tex: str, message: str) -> None:
        assert any(message in f for f in self.judged(tex).faults)


class TestNumbers:
    def judged(self, tex: str) -> Result:
        return examined(Number("num-x", model=distribution), tex)

    def test_the_measured_digits_pass_and_one_digit_less_is_also_true(self) -> None:
        found = self.judged(r"\log(\Omega) \approx 88.72")
        assert found.faults == []
        assert found.also_true == 1  # 88.7
        assert self.judged(r"\log(\Omega) \approx 88.7").faults == []
        assert self.judged(r"\log(\Omega) \approx 8.872 \cdot 10^{1}").faults == []

    @pytest.mark.parametrize(
        "tex",
        [
            r"\log(\Omega) \approx 88.73",
            r"\log(\Omega) \approx 8.88 \cdot 10^{1}",
            r"\log(\Omega) \approx 88.7 + 0.02",
            r"\log(\Omega) \approx 89.72",
            r"\log(\Omega) = 88.72",
            r"\log(c) \approx 88.72",
        ],
    )
    def test_another_number_is_a_fault(self, tex: str) -> None:
        assert self.judged(tex).faults


def test_string_mutants_cover_the_kinds_of_errors_that_people_make() -> None:
    tex = r"v^\top J v = \frac12 \sum_{i,j} p_i (v_i - v_j)^2 + \sqrt{2} s \odot v"
    kinds = {kind for kind, _ in of_string(tex, TABLE)}
    assert {
        "sign",
        "letter",
        "drop",
        "name",
        "number",
        "sum dropped",
        "bracket dropped",
        "transpose dropped",
        "product",
        "root dropped",
        "square dropped",
    } <= kinds
    assert {"swap", "fraction turned", "denominator dropped"} <= {
        k for k, _ in of_string(r"J_{ij} = \frac{p_i}{p_j}", TABLE)
    }


def test_prose_is_not_mutated() -> None:
    tex = r"p_i = s_i && \text{(i - j + 1)}"
    assert all(r"\text{(i - j + 1)}" in mutant for _, mutant in of_string(tex, TABLE))
