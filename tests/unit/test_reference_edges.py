"""The reference at its edges: extreme temperatures, logits that cannot be, targets that may not be."""

import subprocess
import sys

import numpy as np
import pytest

import attngrad
from attngrad import reference as ref
from attngrad.checks import check_close
from attngrad.notation import DtypeError, RangeError, ShapeError

LOGITS, U = np.array([0.0, 1.0, -3.0]), np.array([0.5, -1.0, 2.0])
P3, P23 = np.full(3, 1 / 3), np.full((2, 3), 1 / 3)


@pytest.mark.parametrize("tau", [1e-170, 1e-300, 1e200, 1e300])
def test_derivatives_at_extreme_temperatures(tau):
    s, p = LOGITS * tau, ref.softmax(LOGITS)
    g = ref.softmax_vjp(p, U)
    check_close("p", ref.softmax_temperature(s, tau), p)
    ds, dtau = ref.softmax_temperature_vjp(p, s, tau, U)
    check_close("ds", ds, g / tau)
    check_close("dtau", dtau, -(g * LOGITS).sum() / tau, terms=10.0 / tau)
    tp = ref.softmax_temperature_jvp(p, s, tau, U * tau, tau)
    check_close("tp", tp, ref.softmax_jvp(p, U - LOGITS), terms=10.0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_logit_with_weight_is_finite(bad):
    s, p = np.array([[0.0, 1.0], [2.0, bad]]), np.full((2, 2), 0.5)
    told = rf"s: expected finite logits where p > 0, got {bad} at index \(1, 1\)"
    with pytest.raises(RangeError, match=told):
        ref.softmax_temperature_vjp(p, s, 2.0, p)
    with pytest.raises(RangeError, match=told):
        ref.softmax_temperature_jvp(p, s, 2.0, p, 1.0)
    hidden = np.array([[0.5, 0.5], [1.0, 0.0]])
    assert np.isfinite(ref.softmax_temperature_vjp(hidden, s, 2.0, p)[0]).all()


def test_a_masked_target_is_refused_by_the_vjp_as_by_the_loss():
    mask = np.array([True, True, False])
    p, y = ref.softmax(LOGITS, mask), np.array([0.5, 0.0, 0.5])
    for call in (
        lambda: ref.cross_entropy(LOGITS, y, mask),
        lambda: ref.cross_entropy_vjp(p, y, np.array(1.0), mask),
        lambda: ref.cross_entropy_vjp(p, np.array(2), np.array(1.0), mask),
    ):
        with pytest.raises(RangeError, match=r"y: expected weight 0 on masked keys.* at index \(2,\)"):
            call()
    fits = np.array([0.5, 0.25, 0.0])
    want = ref.cross_entropy_vjp(p, fits, np.array(1.0))
    assert np.array_equal(ref.cross_entropy_vjp(p, fits, np.array(1.0), mask), want)
    # Without a mask a weight of 0 may be an underflow, where the target counts.
    under = ref.cross_entropy_vjp(ref.softmax(np.array([0.0, -1e4])), np.array([0.0, 1.0]), np.array(1.0))
    assert under.tolist() == [1.0, -1.0]


BAD_CALLS = {
    "negative masked": (
        lambda: ref.cross_entropy(P3, -P3, np.array([True, False, True])),
        RangeError,
        r"y: expected weight 0 on masked keys .* got -0.33\d* at index \(1,\)",
    ),
    "negative empty": (
        lambda: ref.cross_entropy_vjp(np.zeros(3), -P3, np.array(1.0)),
        RangeError,
        r"y: expected weight 0 on a row without a key, got -0.33\d* at index \(0,\)",
    ),
    "negative masked vjp": (
        lambda: ref.cross_entropy_vjp(P3, -P3, np.array(1.0), np.array([True, False, True])),
        RangeError,
        r"y: expected weight 0 on masked keys, got -0.33\d* at index \(1,\)",
    ),
    "dloss": (
        lambda: ref.cross_entropy_vjp(P23, P23, np.array([1.0, np.nan])),
        RangeError,
        r"dloss: .* got nan at index \(1,\)",
    ),
    "dx": (
        lambda: ref.reduce_kv_heads(np.full((2, 1, 1), np.nan), 1),
        RangeError,
        r"dx: .* got nan at index \(0, 0, 0\)",
    ),
    "no query heads": (
        lambda: ref.expand_kv_heads(np.ones((1, 2, 2)), 0),
        RangeError,
        "H: expected an integer of at least 1, got 0",
    ),
    "vjp s": (
        lambda: ref.softmax_temperature_vjp(P23, P3, 2.0, P23),
        ShapeError,
        r"s: expected shape \(2, 3\) as for p, got \(3,\)",
    ),
    "jvp s": (
        lambda: ref.softmax_temperature_jvp(P23, P3, 2.0, P23, 0.0),
        ShapeError,
        r"s: expected shape \(2, 3\) as for p, got \(3,\)",
    ),
    "jvp ts": (
        lambda: ref.softmax_temperature_jvp(P23, P23, 2.0, P3, 0.0),
        ShapeError,
        r"ts: expected shape \(2, 3\) as for p, got \(3,\)",
    ),
    "ttau nan": (
        lambda: ref.softmax_temperature_jvp(P3, P3, 2.0, P3, np.nan),
        RangeError,
        "ttau: expected a finite number, got nan",
    ),
    "ttau vector": (
        lambda: ref.softmax_temperature_jvp(P3, P3, 2.0, P3, P3),
        DtypeError,
        r"ttau: expected a number, got an array of shape \(3,\) and float64",
    ),
    "huge tau": (lambda: ref.softmax_temperature(P3, 10**400), RangeError, "tau: expected a positive finite"),
    "masked array": (lambda: ref.softmax(np.ma.array(P3)), DtypeError, "s: .* got MaskedArray"),
    "masked targets": (lambda: ref.cross_entropy(P3, np.ma.array(P3)), DtypeError, "y: .* masked array"),
    "masked labels": (lambda: ref.cross_entropy(P23, np.ma.array([1, 2])), DtypeError, "y: .* masked array"),
    "mask True": (lambda: ref.softmax(P3, True), DtypeError, "mask: expected a NumPy array .* got bool"),
    "no key": (
        lambda: ref.cross_entropy(np.zeros((2, 0)), np.array([0, 0])),
        RangeError,
        r"y: expected no label, since a row has no key, got 0 at index \(0,\)",
    ),
}


@pytest.mark.usefixtures("raw_errors")
@pytest.mark.parametrize("case", BAD_CALLS)
def test_bad_input_is_named(case):
    call, error, message = BAD_CALLS[case]
    with pytest.raises(error, match=message):
        call()


def test_a_package_that_is_not_installed_has_no_version(monkeypatch):
    from importlib import metadata

    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert not hasattr(attngrad, "__version__")
    with pytest.raises(AttributeError, match="not installed as a package"):
        _ = attngrad.__version__


def test_a_part_that_cannot_load_is_absent_and_its_import_names_the_extra():
    code = """
import sys
sys.modules["torch"] = None
import attngrad
assert not hasattr(attngrad, "layers")
try:
    attngrad.layers
except AttributeError as error:
    assert "attngrad[torch]" in str(error), error
    print("absent")
from attngrad import layers
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stdout == "absent\n", run.stderr
    assert run.stderr.splitlines()[-1].startswith("ModuleNotFoundError: attngrad.layers needs torch")
    assert "attngrad[torch] brings" in run.stderr
