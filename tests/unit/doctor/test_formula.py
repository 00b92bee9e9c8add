"""The formula that scripts carry as text is right whatever the options are, and what scripts do with it."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from attngrad.doctor import Case, Spec, clip, exchange
from attngrad.doctor.examining import Examination
from attngrad.doctor.judging import oracle
from attngrad.doctor.telling.formula import formula
from attngrad.doctor.telling.replay import _line, _shown
from attngrad.doctor.telling.reproduction import _before
from attngrad.offsets import relative_offset

B, H, N, M, D, D_V = 2, 4, 5, 7, 3, 2


def case_of(rng, **options):
    """Return a case of random numbers with some options."""
    H_kv = options.pop("H_kv", H)
    shapes = {"q": (B, H, N, D), "k": (B, H_kv, M, D), "v": (B, H_kv, M, D_V), "do": (B, H, N, D_V)}
    arrays = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    wants = ["dq", "dk", "dv", "dscale"]
    wants += [f"d{name}" for name in ("bias", "table", "sink") if options.get(name) is not None]
    return Case(
        "a-case", "", "float64", scale=0.37, bias_dtype="float64", wants=tuple(wants), **arrays, **options
    )  # fmt: skip


def answered(case, spec):
    """Return what the text of the formula gives for a case."""
    names = {"np": np}
    exec(formula(case, spec), names)
    return names["formula"]({**exchange.told(case, spec), **exchange.case_arrays(case, spec)})


def choices(rng):
    """Return options that exclude one another, in groups of which a case takes one each."""
    hidden = rng.standard_normal((B, 1, N, M))
    hidden[0, 0, 1], hidden[0, 0, 2, 3] = -np.inf, np.finfo(np.float32).min
    row = clip(2)(N, M, None)
    dense = [{"bias": x} for x in (None, rng.standard_normal((H, N, M)), hidden, rng.standard_normal((N, 1)))]
    tables = [{"table": rng.standard_normal((heads, 5)), "row": row} for heads in (H, 1)]
    slopes = {"table": rng.uniform(0.1, 1.0, H), "row": np.abs(relative_offset(N, M))}
    biases = [*dense, *tables, slopes]
    causal = [{"causal": True}, {"causal": True, "query_start": -2}]
    masks = [{}, {"mask": rng.random((B, 1, N, M)) > 0.6}, *causal]
    caps = [{}, {"softcap": 1.5}, {"softcap": 1.5, "softcap_on": "product"}]
    others = [{}, {"sink": rng.standard_normal(H)}, {"dlse": rng.standard_normal((B, H, N))}, {"H_kv": 2},
              {"keep": rng.random((B, H, N, M)) > 0.3, "dropout": 0.3}]  # fmt: skip
    return biases, masks, caps, others


@pytest.mark.parametrize("layout", ["bhnd", "bnhd"])
def test_the_text_gives_the_right_answers(layout):
    rng = np.random.default_rng(0)
    spec = Spec(layout=layout, table="rh" if layout == "bnhd" else "hr", options=("lse",))
    for number, (bias, mask, cap, other) in enumerate(itertools.product(*choices(rng))):
        inside = any(x is not None for x in bias.values()) and number % 2 == 1
        if cap.get("softcap_on") == "product" and inside:
            continue
        case = case_of(rng, **bias, **mask, **cap, **other, bias_inside_scale=inside)
        if case.dlse is not None:  # a row without a key has no finite lse, and its cotangent is 0
            case.dlse[~np.isfinite(oracle.answers(case)["lse"])] = 0.0
        got, want = answered(case, spec), oracle.answers(case)
        assert set(got) == {"o", "lse", *case.wants}
        for name, x in got.items():
            turned = exchange.turned(name, np.asarray(x), spec)
            np.testing.assert_allclose(turned, want[name], rtol=1e-11, atol=1e-12)


def test_packed_sequences_do_not_see_each_other():
    rng, spec = np.random.default_rng(1), Spec(options=("lse",))
    q, k, v, do = (rng.standard_normal((1, 2, 6, 3)) for _ in range(4))
    for causal in (False, True):
        case = Case("packed", "", "float64", q, k, v, do, 0.5, lengths=(2, 4), causal=causal)
        got, want = answered(case, spec), oracle.answers(case)
        for name, x in got.items():
            np.testing.assert_allclose(x, want[name], rtol=1e-11, atol=1e-12)


def test_only_the_lines_that_a_case_needs_are_written():
    plain = formula(case_of(np.random.default_rng(0)), Spec())
    others = ("sink", "cap", "keep =", "allowed", "mask", "row", "repeat", "swapaxes(1, 2)")
    assert not any(word in plain for word in others)
    assert len(plain.splitlines()) <= 22


def test_a_line_of_the_comparison_says_what_is_off():
    want, bound = np.array([1.0, -np.inf, 3.0]), np.full(3, 1e-6)
    assert _line(want + np.array([1e-7, 0.0, 0.0]), want, bound, False)[0] is False
    infinite, absent = np.array([1.0, np.inf, 3.0]), np.where(want == 3.0, np.nan, want)
    for got in (want + 1e-5, absent, infinite, want[:2], None):
        off, line = _line(got, want, bound, False)
        assert off is True
        assert line.startswith("OFF")
    told = _line(want + [0, 0, 1], want, bound, False)[1]
    assert "at (2,): got 4, want 3, difference 1, rounding 1e-06" in told
    summed = _line(np.ones((2, 3, 4)), np.full((3, 1), 8.0), np.full((3, 1), 1e-9), True)
    assert summed[0] is False


def shown(runs, want, faults=(), status="ok", **claims):
    """Return the status of a script for the answers of some runs."""
    reply = {"status": status, "text": "why", "faults": list(faults)}
    claims = {"options": [], "deterministic": False, **claims}
    return _shown((reply, runs), want, {f"bound_{name}": np.full(2, 1e-6) for name in want}, claims)


def test_the_status_of_a_script_is_that_of_what_came(capsys):
    want = {"o": np.ones(2), "lse": np.zeros(2)}
    right, near = {"o": np.ones(2), "lse": np.zeros(2)}, {"o": np.ones(2) + 1e-7, "lse": np.zeros(2)}
    off = {"o": np.ones(2), "lse": np.zeros(2) + 1.0}
    assert shown([right], want) == 0
    assert shown([{"o": np.ones(2)}], want) == 0  # lse is not claimed
    assert shown([{"o": np.ones(2)}], want, options=["lse"]) == 1
    assert shown([{"lse": np.zeros(2)}], want) == 1
    assert shown([right, off], want) == 1
    assert "(run 2)" in capsys.readouterr().out
    assert shown([right, near], want) == 0
    assert shown([right, near], want, deterministic=True) == 1
    assert "o has other bits in run 2" in capsys.readouterr().out
    assert shown([right], want, faults=["input-changed: q differs"]) == 1
    assert "input-changed: q differs" in capsys.readouterr().out
    assert shown([{}], want, status="error") == 1
    assert shown([{}], want, status="unsupported") == 2


def test_the_cases_before_are_those_that_may_be_remembered():
    rng = np.random.default_rng(0)
    tables, row = [rng.standard_normal((heads, 5)) for heads in (H, 1, H, 1)], clip(2)(N, M, None)
    cases = [case_of(rng, table=table, row=row) for table in tables]
    cases = [replace(case, name=f"case-{k}") for k, case in enumerate(cases)]
    longer = replace(cases[3], name="case-4", q=cases[3].q[:, :, :2], do=cases[3].do[:, :, :2])
    examined = Examination(None, Spec(), tuple((case, None, ()) for case in (*cases, longer)))
    names = {case.name: [one.name for one in _before(case, examined)] for case in (*cases, longer)}
    assert list(names.values()) == [
        [], ["case-0"], ["case-0", "case-1"], ["case-0", "case-1", "case-2"], ["case-0", "case-1", "case-3"]
    ]  # fmt: skip
