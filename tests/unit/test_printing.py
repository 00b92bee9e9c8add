"""What is printed: the value that came, to digits that no machine can round apart."""

import numpy as np
import pytest

from attngrad import checks
from attngrad.notation import DtypeError, RangeError


def test_the_value_that_came_is_printed_and_not_the_wanted_one(capsys):
    """The certified error is 0.625e-12: a tie is too near to one of these values and not to the other."""
    near, far = 0.125 + 0.4e-12, 0.125 + 0.9e-12
    with pytest.raises(RangeError, match="halfway"):
        checks.report("x", near, far, terms=0.5, digits=2)
    checks.report("x", far, near, terms=0.5, digits=2)
    assert capsys.readouterr().out == "x: 0.13  (within 1e-12)\n"


def test_the_norm_is_printed_to_digits_of_the_whole_array(capsys):
    checks.report("many", np.full(100, 0.5), np.full(100, 0.5), digits=3)
    assert capsys.readouterr().out == "many: shape (100,), norm 5.00  (within 1e-12)\n"
    checks.report("zero", np.zeros(20), np.zeros(20), terms=3.0, digits=3)
    assert capsys.readouterr().out == "zero: shape (20,), norm 0.0  (within 1e-12)\n"


@pytest.mark.parametrize(
    ("got", "terms", "refused"),
    [
        (0.125, None, True),
        (0.125 + 0.6e-12, 0.5, True),
        (0.125 - 0.6e-12, 0.5, True),
        (0.125 + 0.65e-12, 0.5, False),
        (0.125 - 0.6e-12, None, False),
        (0.125 + 0.05e-12, None, True),
    ],
)
def test_a_value_nearer_to_a_tie_than_its_certified_error_is_refused(got, terms, refused):
    """The error that is certified here is 1e-12 (0.125 + terms)."""
    if refused:
        with pytest.raises(RangeError, match="lies halfway between two numbers of 2 digits"):
            checks.report("x", got, got, terms=terms, digits=2)
    else:
        checks.report("x", got, got, terms=terms, digits=2)


def test_values_of_two_machines_print_the_same_or_are_refused(capsys):
    """Two values within the certified error of one wanted value: equal text, or an error for one of them."""
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(400):
        want = rng.uniform(1.0, 9.9)
        texts = set()
        for error in (-0.99e-6, 0.0, 0.99e-6):
            try:
                checks.report("x", want * (1.0 + error), want, kind="difference", digits=5)
                texts.add(capsys.readouterr().out)
            except RangeError:
                refused += 1
        assert len(texts) <= 1
    assert 0 < refused < 400


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5e-324, "5 x 1e-324"),
        (1e300, "1 x 1e+300"),
        (np.full(17, 1e300), "shape (17,), norm 4 x 1e+300"),
        (np.array([1e300, -2e-300]), "[1, 0] x 1e+300"),
        (np.array([np.inf, 1.0]), "[inf, 1]"),
    ],
)
def test_extremes_are_printed(value, text):
    assert checks.format_value(value, 1) == text


def test_a_norm_beyond_the_floats_is_refused():
    with pytest.raises(RangeError, match=r"norm: .* beyond the range of floats"):
        checks.format_value(np.full(17, 1.7e308), 3)


def test_a_scale_where_machines_would_count_digits_apart_is_refused():
    assert checks.format_value(0.25, 3, 1.0 - 1e-15) == checks.format_value(0.25, 3, 1.0) == "0.25"
    # Counted as 1 from 1 - 2.3e-9 on.
    for off in (-2e-13, 2e-13):
        with pytest.raises(RangeError, match=r"scale: 0.99999\d+ lies where machines would count"):
            checks.format_value(0.25, 3, 10.0 ** (-1e-9 + off))


@pytest.mark.usefixtures("raw_errors")
@pytest.mark.parametrize("digits", [True, 2.0, "3"])
def test_digits_are_an_integer(digits):
    for call in (
        lambda: checks.report("x", 1.0, 1.0, digits=digits),
        lambda: checks.format_value(1.0, digits),
    ):
        with pytest.raises(DtypeError, match="digits: expected an integer"):
            call()


def fail():
    """Raise a KeyError."""
    raise KeyError("k")


def test_expect_error_takes_several_errors(capsys):
    checks.expect_error((ValueError, KeyError), fail)
    assert capsys.readouterr().out == "KeyError: 'k'\n"
    with pytest.raises(AssertionError, match="expected ValueError or TypeError, got KeyError"):
        checks.expect_error((ValueError, TypeError), fail)
    with pytest.raises(AssertionError, match="expected ValueError or TypeError, but int was returned"):
        checks.expect_error((ValueError, TypeError), lambda: 3)
