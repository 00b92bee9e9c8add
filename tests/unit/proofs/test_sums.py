"""The normal form: laws, SymPy's known traps, refusals, rules and bad input."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sympy import (
    Derivative,
    Function,
    IndexedBase,
    Integral,
    KroneckerDelta,
    MatrixSymbol,
    Piecewise,
    Rational,
    Sum,
    Symbol,
    Trace,
    exp,
    oo,
    symbols,
)

from attngrad.proofs.sums import (
    CannotDecide,
    Norm2,
    Partial,
    PowerRule,
    RowSumRule,
    Scope,
    SumRule,
    is_zero,
    normal_form,
)

from .engine_laws import LAWS, SCOPE, broken_laws

n, m = symbols("n m", integer=True, positive=True)
i, j, k, l, p, q = symbols("i j k l p q", integer=True)
x, y, z, A, G, P = map(IndexedBase, ("x", "y", "z", "A", "G", "P"))
TYPED = Scope({i: (1, n), j: (1, n), p: (1, n), q: (1, n)})


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_laws(law):
    assert is_zero(law.left - law.right, SCOPE, law.rules) is law.holds


def test_broken_laws_are_reported():
    assert broken_laws() == []
    assert len(broken_laws(decide=lambda *_: True)) == sum(not law.holds for law in LAWS) > 20
    assert len(broken_laws(decide=lambda *_: False)) == sum(law.holds for law in LAWS) > 40


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (Sum(KroneckerDelta(k, p) * x[k], (k, 1, n)), x[p]),
        (Sum(x[p], (k, 1, n)), n * x[p]),
        (Sum(k, (k, 1, 4)), 10),
        ((x[p] + y[p]) ** 2, x[p] ** 2 + 2 * x[p] * y[p] + y[p] ** 2),
        (exp(x[p]) ** 2 / exp(2 * x[p]), 1),
        ((2 * x[p]) ** -2, Rational(1, 4) / x[p] ** 2),
    ],
)
def test_expected_forms(expression, expected):
    assert normal_form(expression, TYPED) == expected


def test_bound_letters_never_equal_those_of_the_input():
    form = normal_form(Sum(x[k] * y[k], (k, 1, n)), TYPED)
    assert isinstance(form, Sum)
    assert form.limits[0][0] != k
    assert normal_form(form, TYPED) == form


class TestSympyTraps:
    """What SymPy does wrong in silence, or cannot do, with sums."""

    def test_a_derivative_by_a_bound_letter_is_refused(self):
        assert Sum(x[k], (k, 1, n)).diff(x[k]) == Sum(1, (k, 1, n)), "SymPy no longer errs here"
        with pytest.raises(CannotDecide, match="not carried out"):
            normal_form(Partial(Sum(x[k], (k, 1, n)), x[k]), TYPED)

    def test_substitution_captures_in_sympy_and_is_told_apart_here(self):
        right = Sum(z[k] * z[j], (k, 1, n))
        captured = right.subs(j, k)
        assert captured == Sum(z[k] ** 2, (k, 1, n)), "SymPy no longer errs here"
        assert not is_zero(captured - right, TYPED)

    def test_a_macro_called_with_its_own_letter(self):
        product = Sum(x[k] * Sum(y[k], (k, 1, n)), (k, 1, n))
        assert is_zero(product - Sum(x[k] * y[l], (k, 1, n), (l, 1, n)), TYPED)
        assert not is_zero(product - Sum(x[k] * y[k], (k, 1, n)), TYPED)

    def test_products_with_delta_sums_are_no_trouble(self):
        inner = Sum(KroneckerDelta(k, l) * G[i, l], (l, 1, n))
        assert is_zero(Sum(A[i, k] * inner, (k, 1, n)) - Sum(A[i, k] * G[i, k], (k, 1, n)), TYPED)

    def test_alpha_equivalence_and_order_of_sums(self):
        assert (Sum(z[k], (k, 1, n)) - Sum(z[l], (l, 1, n))).doit() != 0, "SymPy decides it now"
        assert is_zero(Sum(z[k], (k, 1, n)) - Sum(z[l], (l, 1, n)), TYPED)

    def test_a_delta_without_range_gives_no_cases(self):
        assert Sum(KroneckerDelta(k, j) * z[k], (k, 1, n)).doit().has(Piecewise)
        assert normal_form(Sum(KroneckerDelta(k, j) * z[k], (k, 1, n)), TYPED) == z[j]

    def test_matrix_traces_are_refused(self):
        square = MatrixSymbol("S", n, n)
        with pytest.raises(CannotDecide, match="does not cover"):
            normal_form(Trace(square), TYPED)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        (Sum(x[k], (k, 1, l), (l, 1, n)), "0/1 mask"),
        (Sum(x[l] * Sum(x[k], (k, l, n)), (l, 1, n)), "0/1 mask"),
        (Partial(x[p], x[q]), "not carried out"),
        (Derivative(Function("f")(x[p]), x[p]), "does not cover"),
        (Integral(Symbol("s"), Symbol("s")), "does not cover"),
        (Piecewise((x[p], p > 1), (0, True)), "does not cover"),
        (Symbol("s") * 0.5, "does not cover"),
        (oo * Symbol("s"), "does not cover"),
        (1 / KroneckerDelta(p, q), "denominator"),
        (x[p] / Sum(0, (k, 1, n)), "denominator is 0"),
        (KroneckerDelta(p, q, (1, n)), "range of its own"),
        (KroneckerDelta(p, Sum(k * x[k], (k, 1, n))), "inside a Kronecker delta"),
    ],
)
def test_refusals_say_why(expression, reason):
    with pytest.raises(CannotDecide, match=reason):
        normal_form(expression, TYPED)


def test_a_free_letter_may_be_a_limit():
    head = Sum(x[k], (k, 1, p))
    assert is_zero(head + Sum(x[k], (k, p + 1, n)) - Sum(x[k], (k, 1, n)), TYPED)


def test_an_index_without_range_is_not_collapsed():
    form = normal_form(Sum(KroneckerDelta(k, l) * x[k], (k, 1, n)), TYPED)
    assert isinstance(form, Sum) or form.has(Sum)
    assert normal_form(Sum(KroneckerDelta(k, l) * x[k], (k, 1, n)), TYPED.with_ranges({l: (1, n)})) == x[l]


def test_scopes_are_values_without_global_state():
    wide, narrow = Scope({l: (1, m)}), Scope({l: (1, n)})
    collapsed = Sum(KroneckerDelta(k, l) * x[k], (k, 1, n)) - x[l]
    assert not is_zero(collapsed, wide)
    assert is_zero(collapsed, narrow)
    assert not is_zero(collapsed, wide)
    assert Scope({l: (1, m)}) == wide != narrow
    assert hash(Scope({l: (1, m)})) == hash(wide)


def test_a_rule_is_used_only_when_given():
    row = Sum(P[p, k], (k, 1, n)) - 1
    assert not is_zero(row, TYPED)
    assert is_zero(row, TYPED, (RowSumRule(P, (1, n)),))
    assert not is_zero(row, TYPED, (RowSumRule(P, (1, m)),))
    assert is_zero(row + 1 - x[p], TYPED, (RowSumRule(P, (1, n), x[p]),)) is True


def test_is_zero_needs_the_common_denominator():
    parts = x[p] / (x[p] + y[q]) + y[q] / (x[p] + y[q]) - 1
    assert normal_form(parts, TYPED) != 0
    assert is_zero(parts, TYPED)
    assert not is_zero(parts + 1, TYPED)


def test_nodes_print_their_arguments():
    norm = Norm2(IndexedBase("J"))
    assert norm.base == IndexedBase("J")
    assert is_zero(2 * norm - norm - norm, TYPED)
    second = Partial(Partial(Symbol("L"), x[p]), x[q])
    assert second.function == Partial(Symbol("L"), x[p])
    assert second.variable == x[q]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: Partial(x[p], 3), TypeError, "by an array entry or a symbol, got 3"),
        (lambda: Norm2(x[p]), TypeError, "name of an array"),
        (lambda: Scope({p: 3}), TypeError, "pair .*, got 3"),
        (lambda: Scope({x[p]: (1, n)}), TypeError, r"Symbol or an IndexedBase, got x\[p\]"),
        (lambda: RowSumRule(P, 3), TypeError, "limits .*, got 3"),
        (lambda: RowSumRule(Symbol("P"), (1, n)), TypeError, "belongs to an IndexedBase, got P"),
        (lambda: SumRule(x[i], i), TypeError, r"\(letter, lowest, highest\), got"),
        (lambda: SumRule(x[j], (i, 1, n)), ValueError, "does not depend on i"),
        (lambda: SumRule(x[i], (i, 1, n), (j,), y[j]), ValueError, "not in the summand"),
        (lambda: PowerRule(P[1]), TypeError, "belongs to"),
        (lambda: PowerRule(P, 1, 2), ValueError, "1 -> 2"),
        (lambda: normal_form(x[p], {p: (1, n)}), TypeError, "come from a Scope"),
        (lambda: normal_form(p > 1, TYPED), TypeError, "expression"),
        (lambda: normal_form(x[p], TYPED, ("rows",)), TypeError, "a rule is"),
        (lambda: is_zero(x[p], TYPED, (SumRule(x[i] + y[i], (i, 1, n)),)), CannotDecide, "one product"),
    ],
)
def test_bad_input_is_named(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_the_form_does_not_depend_on_the_hash_seed():
    code = (
        "from proofs.engine_fuzz import *\n"
        "w = Writer(Random(5))\n"
        "for _ in range(30):\n"
        "    try: print(normal_form(w.expression(), SCOPE))\n"
        "    except CannotDecide as e: print(e)\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[1])},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "7")
    }
    assert len(outputs) == 1
    assert len(outputs.pop().splitlines()) == 30


def test_a_sum_that_may_be_empty_is_not_cancelled():
    short = (1, n - 1)
    total = Sum(x[i], (i, *short))
    for one in (total / Sum(x[j], (j, *short)) - 1, Sum(x[i] / Sum(x[j], (j, *short)), (i, *short)) - 1):
        assert not is_zero(one, TYPED)
    assert not is_zero(Sum(P[p, i], (i, *short)) - 1, TYPED, (RowSumRule(P, short),))
    whole = Sum(x[i], (i, 1, n)) / Sum(x[j], (j, 1, n)) - 1
    assert is_zero(whole, TYPED)
