"""From printed formula to verdict, on small pages made for the purpose."""

from fractions import Fraction

import pytest

from attngrad.proofs.claim import Chapter, Definition, Hypothesis, Identity, LedgerError, Wrong
from attngrad.proofs.examine import page_formulas, verdict
from attngrad.proofs.prove import Context, judge
from attngrad.proofs.read import Table
from attngrad.proofs.witness import BadPlant, Search

TABLE = Table(
    index={**dict.fromkeys("ijl", "n"), "r": (1, "n-1")},
    names={
        **{x: ("n",) for x in ("s", "p", "y", "v", "w", r"\mu")},
        "J": ("n", "n"),
        "L": (),
        "c": (),
        r"\tau": "+",
        "n": "size",
    },
    kronecker=r"\delta",
)
SOFTMAX = r"p_i = \frac{e^{s_i}}{\sum_l e^{s_l}}"


def page(*claims, **formulas: str) -> tuple[Chapter, dict]:
    """Return a chapter and its displays; underscores of the keywords stand for hyphens."""
    chapter = Chapter("small", TABLE, ({"n": 2}, {"n": 3}, {"n": 1}), claims)
    text = "\n\n".join(f"$$\n{tex}\n$$ ({label.replace('_', '-')})" for label, tex in formulas.items())
    return chapter, page_formulas(chapter, text)


def word(claim: Identity, tex: str, **definitions: str) -> str:
    """Return the verdict on one formula with the given definitions in force."""
    labels = [k.replace("_", "-") for k in definitions]
    given = [Definition(label) for label in labels]
    claim = type(claim)(claim.label, tuple(labels), claim.assume)
    chapter, formulas = page(*given, claim, **definitions, **{claim.label.replace("-", "_"): tex})
    return verdict(chapter, formulas, claim).word


EQ, BAD = Identity("eq-x"), Wrong("bad-x")


@pytest.mark.parametrize(
    "tex",
    [
        r"\frac{\partial p_i}{\partial s_j} = p_i (\delta_{ij} - p_j)",
        r"\sum_i p_i = 1",
        r"\log p_i = s_i - \log\Bigl(\sum_l e^{s_l}\Bigr)",
        r"\frac{e^{s_i - c}}{\sum_l e^{s_l - c}} = p_i",
        r"\frac{\partial p_i}{\partial s_i} = p_i - p_i^2",
        r"\frac{\partial^2 p_i}{\partial s_j \partial s_l} "
        r"= \frac{\partial^2 p_i}{\partial s_l \partial s_j}",
    ],
)
def test_right_formulas_are_proved(tex: str) -> None:
    assert word(EQ, tex, def_p=SOFTMAX) == "PROVED"


@pytest.mark.parametrize(
    "tex",
    [
        r"\frac{\partial p_i}{\partial s_j} = p_i (1 - p_j)",
        r"\sum_i p_i = n",
        r"\log p_i = s_i - \sum_l s_l",
        r"\frac{e^{s_i - c}}{\sum_l e^{s_l + c}} = p_i",
        r"\frac{\partial^2 p_i}{\partial s_j\, \partial s_l} = 0",
    ],
)
def test_wrong_formulas_are_refuted(tex: str) -> None:
    assert word(EQ, tex, def_p=SOFTMAX) == "REFUTED"


def test_one_wrong_line_refutes_a_chain_and_is_named() -> None:
    claim = Identity("eq-x", ("def-p",))
    tex = r"\begin{aligned} \sum_i p_i &= 1 && \text{(one)} \\ &= n \sum_i p_i && \text{(two)} \end{aligned}"
    chapter, formulas = page(Definition("def-p"), claim, def_p=SOFTMAX, eq_x=tex)
    found = verdict(chapter, formulas, claim)
    assert found.word == "REFUTED"
    assert found.witness["line"] == 2
    assert "(line 2)" in found.detail


def test_a_derivative_by_a_name_on_which_nothing_depends_is_not_zero_but_refused() -> None:
    assert word(EQ, r"\frac{\partial L}{\partial s_j} = 0", def_l=r"L = \sum_i v_i") == "UNDECIDED"


def test_a_derivative_by_a_defined_name_takes_it_as_an_input() -> None:
    assert (
        word(EQ, r"\frac{\partial L}{\partial p_j} = v_j", def_p=SOFTMAX, def_l=r"L = \sum_i v_i p_i")
        == "PROVED"
    )


def test_copies_of_a_definition_do_not_capture_each_other() -> None:
    square = r"\sum_i \Bigl( \sum_l p_l v_l \Bigr) p_i v_i = \Bigl( \sum_i p_i v_i \Bigr)^2"
    assert word(EQ, square, def_p=SOFTMAX) == "PROVED"
    nested = {"def_c": r"c = \sum_i s_i", "def_l": r"L = \sum_i c\, v_i"}
    assert word(EQ, r"L = \Bigl(\sum_i s_i\Bigr)\Bigl(\sum_i v_i\Bigr)", **nested) == "PROVED"


def test_a_quotation_may_use_a_letter_twice_and_is_refuted() -> None:
    literal = r"\frac{\partial p_i}{\partial s_j} = \sum_i p_i (\delta_{ij} - p_j) + p_i"
    assert word(BAD, literal, def_p=SOFTMAX) == "REFUTED"
    assert word(EQ, literal, def_p=SOFTMAX) == "REFUSED"


class TestHypotheses:
    """What is assumed is read from the page, and the planted numbers must satisfy it as printed."""

    @staticmethod
    def judged(assumed: str, claimed: str, plant) -> str:
        claim = Identity("eq-x", ("def-p", "def-l"), ("def-y",))
        chapter, formulas = page(
            Definition("def-p"),
            Definition("def-l"),
            Hypothesis("def-y", plant=plant),
            claim,
            def_p=SOFTMAX,
            def_l=r"L = - \sum_i y_i \log p_i",
            def_y=assumed,
            eq_x=claimed,
        )
        return verdict(chapter, formulas, claim).word

    @staticmethod
    def ones(sizes, random):
        n = sizes["n"]
        y = [Fraction(random.randint(-5, 5)) for _ in range(n - 1)]
        return {("y", k + 1): v for k, v in enumerate([*y, 1 - sum(y)])}

    def test_it_is_used(self) -> None:
        claimed = r"\frac{\partial L}{\partial s_j} = p_j - y_j"
        assert self.judged(r"\sum_i y_i = 1", claimed, self.ones) == "PROVED"

    def test_a_changed_hypothesis_is_noticed(self) -> None:
        with pytest.raises(BadPlant, match="def-y"):
            self.judged(r"\sum_i y_i = 2", r"\frac{\partial L}{\partial s_j} = p_j - y_j", self.ones)

    def test_a_form_that_is_no_rule_is_refused(self) -> None:
        with pytest.raises(LedgerError, match="a hypothesis reads"):
            self.judged(
                r"\sum_i y_i + y_j = 1 + y_j", r"\frac{\partial L}{\partial s_j} = p_j - y_j", self.ones
            )


class TestWorkedInstances:
    """A formula at fixed sizes is compared at every entry."""

    def test_right_and_wrong(self) -> None:
        claim = Identity("eq-x", ("def-v",), at={"n": 2})
        chapter, formulas = page(
            Definition("def-v", at={"n": 2}),
            claim,
            def_v=r"v = \begin{pmatrix} 3 \\ 5 \end{pmatrix}",
            eq_x=r"\sum_i v_i = 8",
        )
        context = Context(chapter, formulas, claim)
        assert judge(context, formulas["eq-x"].tex).word == "EXACT"
        assert judge(context, r"\sum_i v_i = 9").word == "REFUTED"


@pytest.mark.parametrize(
    ("tex", "message"),
    [
        (r"p_i + s_i = 1", "left side of a definition"),
        (r"p_i = s_i = v_i", "one equation"),
        (r"J_{ii} = p_i", "a letter of its own"),
    ],
)
def test_what_is_no_definition_is_refused(tex: str, message: str) -> None:
    claim = Definition("def-x")
    chapter, formulas = page(claim, def_x=tex)
    found = verdict(chapter, formulas, claim)
    assert found.word == "REFUSED"
    assert message in found.detail


def test_a_name_defined_twice_is_refused() -> None:
    claim = Identity("eq-x", ("def-a", "def-b"))
    chapter, formulas = page(
        Definition("def-a"), Definition("def-b"), claim, def_a=r"c = \tau", def_b=r"c = 2 \tau", eq_x="c = c"
    )
    with pytest.raises(LedgerError, match="defined twice"):
        Context(chapter, formulas, claim)


def test_definitions_in_a_circle_are_refused() -> None:
    claim = Identity("eq-x", ("def-a", "def-b"))
    chapter, formulas = page(
        Definition("def-a"), Definition("def-b"), claim, def_a=r"c = 2 L", def_b=r"L = c + 1", eq_x="c = c"
    )
    with pytest.raises(LedgerError, match="circle: L, c"):
        Context(chapter, formulas, claim)


@pytest.mark.parametrize(
    ("claims", "formulas", "message"),
    [
        ((), {"eq_x": "c = c"}, "without a ledger entry: eq-x"),
        ((Identity("eq-x"),), {}, "without a display: eq-x"),
    ],
)
def test_page_and_ledger_have_the_same_labels(claims, formulas, message) -> None:
    with pytest.raises(LedgerError, match=message):
        page(*claims, **formulas)


def test_labels_are_checked_when_a_ledger_is_written() -> None:
    with pytest.raises(ValueError, match="start with 'eq-'"):
        Identity("thm-x")
    with pytest.raises(ValueError, match="claimed twice"):
        Chapter("small", TABLE, (), (EQ, EQ))
    with pytest.raises(ValueError, match="unknown labels: def-none"):
        Chapter("small", TABLE, (), (Identity("eq-x", ("def-none",)),))


def test_claims_that_lean_on_each_other_are_refused() -> None:
    a, b = Identity("eq-a", ("eq-b",)), Identity("eq-b", ("eq-a",))
    with pytest.raises(ValueError, match="lean on each other: eq-a, eq-b"):
        Chapter("small", TABLE, (), (a, b))


def test_a_lemma_that_assumes_something_is_no_ground() -> None:
    lemma = Identity("eq-a", ("def-p",), ("def-y",))
    with pytest.raises(LedgerError, match="eq-b builds on eq-a, which assumes def-y"):
        Chapter(
            "small", TABLE, (), (Definition("def-p"), Hypothesis("def-y"), lemma, Identity("eq-b", ("eq-a",)))
        )


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ((Wrong("bad-a"), Identity("eq-b", ("bad-a",))), "neither definition nor identity"),
        ((Identity("eq-a", at={"n": 2}), Identity("eq-b", ("eq-a",))), "which holds at {'n': 2} only"),
        ((Definition("def-a"), Identity("eq-b", (), ("def-a",))), "which is no hypothesis"),
    ],
)
def test_a_claim_builds_on_what_holds_for_it(claims, message: str) -> None:
    with pytest.raises(LedgerError, match=message):
        Chapter("small", TABLE, (), claims)


@pytest.mark.parametrize("sizes", [{"n": 0}, {"n": 2.0}, {"n": True}, {"m": 2}])
def test_sizes_are_names_and_integers_from_one(sizes) -> None:
    with pytest.raises(LedgerError, match="a size is a name of the table"):
        Chapter("small", TABLE, (sizes,), ())


@pytest.mark.parametrize(
    ("definition", "claimed", "message"),
    [
        ("p_n = 1", r"\sum_i p_i = n", "a letter of its own, over the whole axis"),
        ("p_r = 1", r"\sum_i p_i = n", "a letter of its own, over the whole axis"),
        (r"\tau = -1", r"\sqrt{\tau^2} = -1", "declared positive"),
    ],
)
def test_a_definition_covers_all_of_its_name(definition: str, claimed: str, message: str) -> None:
    with pytest.raises(LedgerError, match=message):
        word(EQ, claimed, def_a=definition)


@pytest.mark.parametrize(
    "assumed",
    [r"\sum_i y_i \le 1", r"\mu_1^2 = \mu_1", r"J_{ii}^2 = J_{ii}", r"\sum_j J_{rj} = 1", r"\sum_r y_r = 1"],
)
def test_a_hypothesis_speaks_of_all_entries(assumed: str) -> None:
    claim = Hypothesis("def-y")
    chapter, formulas = page(claim, def_y=assumed)
    found = verdict(chapter, formulas, claim)
    assert found.word == "REFUSED"
    assert "for all entries" in found.detail


def test_numbers_are_planted_for_the_hypothesis_alone() -> None:
    plant = lambda sizes, random: {**TestHypotheses.ones(sizes, random), ("v", 1): Fraction(0)}  # noqa: E731
    with pytest.raises(BadPlant, match="planted for v too"):
        TestHypotheses.judged(r"\sum_i y_i = 1", r"v_i = 0", plant)


class TestNothingIsProvedOverAGap:
    """A place that the oracle cannot evaluate leaves the verdict open, also where the prover would agree."""

    @pytest.mark.parametrize(
        "tex",
        [
            r"[i=1] \sqrt{2}\, p_i = [i=1] \sqrt{2}\, p_i",
            r"1 = 1, \quad \sqrt{n}\, p_i = \sqrt{n}\, p_i",
        ],
    )
    def test_a_root_without_a_rational_value(self, tex: str) -> None:
        assert word(EQ, tex, def_p=SOFTMAX) == "UNDECIDED"

    def test_a_place_without_value(self) -> None:
        assert word(EQ, r"\frac{v_i}{v_i - v_j} = 1 + \frac{v_j}{v_i - v_j}") == "UNDECIDED"

    def test_a_sum_that_is_empty_for_one_key(self) -> None:
        assert word(EQ, r"\sum_r \frac{v_r}{\sum_{l=1}^{n-1} v_l} = 1") != "PROVED"

    @pytest.mark.parametrize(
        "tex",
        [r"\log 2 = 1", r"\log v_1 = 2", r"e^{v_1 - 3} = 2", r"\sqrt{v_i} = 2", r"\frac{1}{v_i - 5} = -1"],
    )
    def test_a_worked_instance_is_proved_and_not_only_evaluated(self, tex: str) -> None:
        claim = Identity("eq-x", ("def-v",), at={"n": 2})
        four = r"v = \begin{pmatrix} 4 \\ 5 \end{pmatrix}"
        chapter, formulas = page(Definition("def-v", at={"n": 2}), claim, def_v=four, eq_x=tex)
        assert verdict(chapter, formulas, claim).word != "EXACT"


def test_a_softmax_over_another_axis_is_not_taken_for_one() -> None:
    diagonal = r"p_i = \frac{e^{J_{ii}}}{\sum_l e^{J_{il}}}"
    assert word(EQ, r"\sum_j p_j = 1", def_p=diagonal) == "REFUTED"
    assert (
        word(
            EQ,
            r"\frac{\partial p_i}{\partial J_{jl}} = \delta_{ij}\, p_i\, (\delta_{il} - p_l)",
            def_p=diagonal,
        )
        == "REFUTED"
    )


def test_the_norm_of_a_defined_array_is_not_a_constant() -> None:
    tex = r"\frac{\partial (\lVert J \rVert_2 + s_i)}{\partial s_j} = \delta_{ij}"
    assert word(EQ, tex, def_j=r"J_{ij} = s_i s_j") == "UNDECIDED"


@pytest.mark.parametrize(
    ("definitions", "claimed"),
    [
        ({}, r"\frac{1}{1 + e^{-s_i}} = \frac{e^{s_i}}{1 + e^{s_i}}"),
        ({"def_w": r"w_i = e^{s_i}"}, r"w_i^2 = e^{2 s_i}"),
        ({"def_c": r"c = \log\Bigl(\sum_l e^{s_l}\Bigr)"}, r"\sum_i e^{s_i - c} = 1"),
        ({"def_c": r"c = \log\Bigl(\sum_l e^{s_l}\Bigr)", "def_p": SOFTMAX}, r"p_i = e^{s_i - c}"),
        ({"def_p": SOFTMAX, "def_w": r"w_i = \log p_i"}, r"p_i = e^{w_i}"),
    ],
)
def test_a_true_relation_between_exponentials_is_never_refuted(definitions, claimed: str) -> None:
    assert word(EQ, claimed, **definitions) != "REFUTED"
    assert word(BAD, claimed, **definitions) != "REFUTED"


def test_a_counterexample_that_the_prover_contradicts_does_not_count(monkeypatch) -> None:
    fake = Search({"line": 1, "at": {}, "inputs": {}, "left": 0, "right": 1})
    monkeypatch.setattr("attngrad.proofs.prove.search", lambda *args: fake)
    claim = Identity("eq-x", ("def-p",))
    chapter, formulas = page(Definition("def-p"), claim, def_p=SOFTMAX, eq_x=r"\sum_i p_i = 1")
    found = verdict(chapter, formulas, claim)
    assert found.word == "UNDECIDED"
    assert "proves what the oracle refutes" in found.detail


class TestLemmas:
    """A lemma holds where it was proved: not for other definitions, and not under a derivative."""

    C, EQUAL = r"c = \sum_i p_i^2", r"c = \sum_i p_i^2 + \sum_i p_i - 1"

    def judged(self, claimed: str, *extra: Definition, **formulas: str) -> str:
        lemma = Identity("eq-c", ("def-c", "def-p"))
        claim = Identity("eq-x", ("eq-c", *(d.label for d in extra)))
        chapter, shown = page(Definition("def-p"), Definition("def-c"), lemma, *extra, claim, def_p=SOFTMAX,
                              def_c=self.C, eq_c=self.EQUAL, eq_x=claimed, **formulas)  # fmt: skip
        return verdict(chapter, shown, claim).word

    def test_a_derivative_on_the_ground_of_a_lemma_is_refused(self) -> None:
        assert self.judged(r"\frac{\partial c}{\partial p_j} = 2 p_j + 1") == "REFUSED"

    def test_another_definition_of_a_name_of_its_proof_is_refused(self) -> None:
        with pytest.raises(LedgerError, match="eq-c was proved with p from def-p"):
            self.judged(r"c = c", Definition("def-q"), def_q=r"p_i = s_i^2")


class TestRoots:
    """LayerNorm: its root is rational on planted numbers, and its Jacobian is proved for every size."""

    NORM = Table(
        index=dict.fromkeys("ijl", "n"),
        names={**{x: ("n",) for x in ("x", "g", r"\hat{x}")}, r"\mu": (), "L": (), r"\sigma": "+",
               r"\varepsilon": (), "n": "size"},
        kronecker=r"\delta",
    )  # fmt: skip
    MEAN = r"\mu = \frac1n \sum_l x_l"
    ROOT = r"\sigma = \sqrt{\frac1n \sum_l (x_l - \mu)^2 + \varepsilon}"
    HAT = r"\hat{x}_i = \frac{x_i - \mu}{\sigma}"
    JACOBIAN = (
        r"\frac{\partial \hat{x}_i}{\partial x_j} "
        r"= \frac{1}{\sigma} \Bigl( \delta_{ij} - \frac1n %s \frac{\hat{x}_i \hat{x}_j}{n} \Bigr)"
    )

    @staticmethod
    def rational_root(sizes, random):
        """Draw x and the root, and let epsilon make up for the difference."""
        x = [Fraction(random.randint(-9, 9)) for _ in range(sizes["n"])]
        mean = sum(x) / len(x)
        epsilon = Fraction(random.randint(10, 20)) ** 2 - sum((v - mean) ** 2 for v in x) / len(x)
        return {(r"\varepsilon",): epsilon, **{("x", k + 1): v for k, v in enumerate(x)}}

    def judged(self, sign: str, plant=None) -> str:
        claim = Identity("eq-x", ("def-h",))
        root = Definition("def-s", ("def-m",), plant=plant)
        claims = (Definition("def-m"), root, Definition("def-h", ("def-s",)), claim)
        chapter = Chapter("small", self.NORM, ({"n": 2}, {"n": 3}), claims)
        shown = {"def-m": self.MEAN, "def-s": self.ROOT, "def-h": self.HAT, "eq-x": self.JACOBIAN % sign}
        text = "\n\n".join(f"$$\n{tex}\n$$ ({label})" for label, tex in shown.items())
        return verdict(chapter, page_formulas(chapter, text), claim).word

    def test_the_jacobian_is_proved(self) -> None:
        assert self.judged("-", self.rational_root) == "PROVED"

    def test_a_wrong_sign_is_refuted(self) -> None:
        assert self.judged("+", self.rational_root) == "REFUTED"

    def test_without_planted_numbers_it_stays_open(self) -> None:
        assert self.judged("-") == "UNDECIDED"

    def test_a_defined_name_cannot_be_planted(self) -> None:
        with pytest.raises(BadPlant, match="which is defined"):
            self.judged("-", lambda sizes, random: {(r"\mu",): Fraction(1)})
