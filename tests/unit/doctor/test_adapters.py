"""Attention that others wrote: each adapter is healthy on the cases that its specification claims."""

import inspect
import os
from dataclasses import replace

# Read when kernels are defined: they run on the CPU.
os.environ.setdefault("TRITON_INTERPRET", "1")

import numpy as np
import pytest
import torch

from attngrad.doctor import Spec, adapters, cases, examine
from attngrad.doctor.adapters.claiming import claims
from attngrad.doctor.judging import bounds, oracle
from attngrad.doctor.running.runners import InProcess

WITHOUT_GRADIENT = ("flex_bias", "flex_table")  # of q, k and v, on a CPU
BROKEN = ("t5_flex",)
SLOW = ("layers_triton",)  # in the interpreter
WITH_TRANSFORMERS = ("gemma2_eager", "gpt_oss_eager", "llama_eager", "t5_eager", "t5_sdpa")


def wrong(case, outcome):
    """Return the answers of a case that are missing or beyond what rounding explains."""
    exact = oracle.answers(case)
    most = bounds.low_precision(case, exact)
    found = [name for name in case.wants if name not in outcome.answers]
    for name, x in outcome.answers.items():
        with np.errstate(invalid="ignore"):
            off = np.where(x == exact[name], 0.0, np.abs(x - exact[name]))
        if not (off <= np.broadcast_to(most[name], off.shape)).all():
            found.append(name)
    return found


def ran(subject, spec=None, quick=True):
    """Return the cases of an adapter with what came of them."""
    with InProcess(subject, spec) as run:
        told = run.describe().spec
        return [(case, run.run(case, told)) for case in cases.plan(told, quick=quick)]


@pytest.mark.parametrize("name", [name for name in adapters.__all__ if name not in (*BROKEN, *SLOW)])
def test_an_adapter_is_healthy_on_what_it_claims(name):
    if name in WITH_TRANSFORMERS:
        pytest.importorskip("transformers")
    tried = ran(getattr(adapters, name), quick=name not in WITHOUT_GRADIENT)
    supported = [(case, outcome) for case, outcome in tried if outcome.status != "unsupported"]
    assert supported
    for case, outcome in supported:
        assert (case.name, outcome.status, outcome.text, outcome.faults) == (case.name, "ok", "", ())
        assert (case.name, wrong(case, outcome)) == (case.name, [])
    refused = {outcome.text for _, outcome in tried if outcome.status == "unsupported"}
    if name in WITHOUT_GRADIENT:
        assert refused == {"FlexAttention has no gradient of q, k and v on a CPU"}
    else:
        assert len(supported) > len(tried) / 2


@pytest.mark.parametrize("name", ["layers_tiled", "layers_tiled_bias"])
def test_tiles_are_healthy_on_every_case(name):
    report = examine(getattr(adapters, name))
    assert (report.verdict, len(report.tried) > 90) == ("healthy", True), str(report)


@pytest.mark.parametrize("names", [["tail", "gqa"], pytest.param(None, marks=pytest.mark.slow)])
def test_kernels_are_healthy(names):
    pytest.importorskip("triton", reason="needs triton, which the extra attngrad[triton] brings")
    report = examine(adapters.layers_triton, quick=True, cases=names)
    assert report.verdict == "healthy", str(report)


def test_the_flex_attention_of_t5_is_right_for_one_batch_and_fails_for_more():
    pytest.importorskip("transformers")
    with InProcess(adapters.t5_flex) as run:
        spec = run.describe().spec
        case = next(case for case in cases.plan(spec) if case.name == "bias-alone")
        one = replace(case, **{name: getattr(case, name)[:1] for name in ("q", "k", "v", "do")})
        outcome = run.run(one, spec)
        assert (outcome.status, wrong(one, outcome)) == ("ok", [])
        outcome = run.run(case, spec)
        assert outcome.status == "ok" or outcome.text.startswith("IndexError")
        basic = run.run(cases.plan(spec)[0], spec)
        assert basic.status == "unsupported"


@pytest.mark.parametrize(
    "name", ["sdpa_math", "layers_attention", "layers_table", "multihead_attention_weights"]
)
def test_a_wrong_gradient_of_an_adapter_is_seen(name):
    """A factor enters dk by a hook on a copy of k."""
    function = getattr(adapters, name)

    def forgetful(q, k, v, *arguments, **options):
        if k.requires_grad:
            k = k.clone()
            k.register_hook(lambda dk: dk * 1.25)
        return function(q, k, v, *arguments, **options)

    forgetful.__signature__ = inspect.signature(function)
    found = [
        wrong(case, outcome) for case, outcome in ran(forgetful, function.spec) if outcome.status == "ok"
    ]
    assert any("dk" in names for names in found)
    assert not any("dv" in names for names in found)


def test_a_flag_and_a_mask_are_refused_together():
    x = torch.zeros(1, 1, 2, 4)
    with pytest.raises(adapters.pytorch.Unsupported, match="causal masking or attn_mask, not both"):
        adapters.sdpa_flash(x, x, x, torch.ones(2, 2, dtype=torch.bool), is_causal=True)
    with pytest.raises(adapters.pytorch.Unsupported, match="no kernel of FLASH_ATTENTION"):
        adapters.sdpa_flash(x, x, x[..., :2])


def test_claims_are_checked():
    @claims(layout="bnhd")
    def attention(q, k, v):
        return v

    assert attention.spec == Spec(layout="bnhd")
    with pytest.raises(ValueError, match="layout: expected one of"):
        claims(layout="nope")
