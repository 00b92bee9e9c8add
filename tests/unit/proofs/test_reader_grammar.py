"""The grammar has no conflict: no formula has two parse trees; it is built once, at first use."""

# ruff: noqa: E501 (a formula stays on one line)
from __future__ import annotations

import io
import logging
import subprocess
import sys

import lark
import pytest

from attngrad.proofs.read import grammar


def log_of_a_build(monkeypatch: pytest.MonkeyPatch, text: str) -> str:
    """Return what lark reports when it builds a parser for this grammar; a refusal is part of it."""
    monkeypatch.setattr(grammar, "GRAMMAR", text)
    log = io.StringIO()
    handler, level = logging.StreamHandler(log), lark.logger.level
    lark.logger.addHandler(handler)
    lark.logger.setLevel(logging.DEBUG)
    try:
        grammar.build(debug=True)
    except lark.exceptions.GrammarError as error:
        log.write(f"conflict: {error}")
    finally:
        lark.logger.removeHandler(handler)
        lark.logger.setLevel(level)
    return log.getvalue().lower()


def test_there_is_no_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "conflict" not in log_of_a_build(monkeypatch, grammar.GRAMMAR)


@pytest.mark.parametrize(
    "line",
    [
        "?term: run | term _SLASH run -> quotient | run _SLASH factor -> quotient | run big -> run | run DOT big -> run | big",
        "?term: run | run _SLASH factor -> quotient | run big -> run | run DOT big -> run | big | big _PLUS term -> plus",
        "?term: run | run run -> run | run _SLASH factor -> quotient | run big -> run | run DOT big -> run | big",
    ],
)
def test_a_planted_ambiguity_is_reported(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    start = grammar.GRAMMAR.index("?term:")
    ambiguous = grammar.GRAMMAR[:start] + line + grammar.GRAMMAR[grammar.GRAMMAR.index("\n", start) :]
    assert "conflict" in log_of_a_build(monkeypatch, ambiguous)


def test_the_parser_is_built_once_at_first_use() -> None:
    code = (
        "from attngrad.proofs.read import grammar\n"
        "assert grammar.parser.cache_info().currsize == 0\n"
        "assert grammar.parser() is grammar.parser()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
