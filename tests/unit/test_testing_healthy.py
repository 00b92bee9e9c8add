"""`attngrad.testing.assert_healthy`: silent for what is healthy, and an error that says what is wrong."""

import pytest
import torch

from attngrad.doctor import Spec
from attngrad.doctor.judging import verdicts
from attngrad.doctor.running.runners import CannotRun
from attngrad.testing import assert_healthy


def attention(q, k, v, scale):
    """Return attention in plain operations."""
    return torch.softmax(scale * q @ k.mT, dim=-1) @ v


def unscaled(q, k, v, scale):
    """Return attention of which the keys get no scale on the way back."""
    s = scale * q @ k.mT
    return torch.softmax(s + (q.detach() @ (k - k.detach()).mT) * (1.0 - scale), dim=-1) @ v


def test_what_is_healthy_passes_and_its_report_is_returned():
    report = assert_healthy(attention)
    assert report.verdict == "healthy"
    assert len(report.tried) < 15


def test_what_is_wrong_is_told_in_the_error():
    with pytest.raises(AssertionError) as caught:
        assert_healthy(unscaled, Spec())
    told = str(caught.value)
    assert ": WRONG\n" in told
    assert "attention-dk-unscaled" in told
    assert "dk: wrong" in told
    assert len(told.splitlines()) < 40


def test_low_precision_passes_where_it_is_allowed(monkeypatch):
    monkeypatch.setattr(verdicts, "verdict", lambda findings: "imprecise")
    with pytest.raises(AssertionError, match="IMPRECISE"):
        assert_healthy(attention)
    assert assert_healthy(attention, allow_low_precision=True).verdict == "imprecise"
    monkeypatch.setattr(verdicts, "verdict", lambda findings: "wrong")
    with pytest.raises(AssertionError, match="WRONG"):
        assert_healthy(attention, allow_low_precision=True)


def test_what_cannot_run_is_another_error():
    with pytest.raises(CannotRun, match="nothing_of_that_name"):
        assert_healthy("nothing_of_that_name:attention")
    with pytest.raises(CannotRun):
        assert_healthy(lambda queries_of_mine: queries_of_mine)
