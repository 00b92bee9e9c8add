"""Code on a card is that of the library, line by line, without what only checks."""

import ast
import inspect
from pathlib import Path

import pytest

from attngrad import reference
from booktools import excerpts
from booktools.excerpts import LINES, excerpt, is_check
from booktools.paths import BookError

VJP = "attngrad.reference.softmax_vjp"


def test_an_excerpt_is_the_signature_and_the_lines_that_compute() -> None:
    *core, last = excerpt(VJP).splitlines()
    assert core == ["def softmax_vjp(p, dp):", "    mean = (p * dp).sum(axis=-1, keepdims=True)"]
    assert last == "    return p * (dp - mean)"


@pytest.mark.parametrize("name", ["softmax", "softmax_hessian", "cross_entropy_vjp", "expand_kv_heads"])
def test_every_line_stands_in_the_source_and_the_whole_is_python(name: str) -> None:
    shown = excerpt(f"attngrad.reference.{name}")
    source = inspect.getsource(inspect.unwrap(getattr(reference, name))).splitlines()
    assert set(shown.splitlines()[1:]) <= set(source)
    assert ast.parse(shown)
    assert len(shown.splitlines()) <= LINES


@pytest.mark.parametrize(
    ("statement", "only_checks"),
    [
        ('"""Say what it does."""', True),
        ('check_same_shape("dp", dp.shape, "p", p.shape)', True),
        ("if wrong.any():\n    raise RangeError(told)", True),
        ('p = finite_array("p", p)', True),
        ('p, dp = finite_array("p", p), finite_array("dp", dp, rank=0)', True),
        ("np.add.at(table, bucket, ds)", False),
        ("if n == 0:\n    return s", False),
        ("if n == 0:\n    raise error\nelse:\n    n = 1", False),
        ('p = finite_array("p", q)', False),
        ('p = finite_array("q", p)', False),
        ('p, n = finite_array("p", p), 3', False),
        ("p, n = p.shape", False),
        ("p = softmax(p)", False),
        ("return p", False),
    ],
)
def test_what_only_checks_is_told_from_what_computes(statement: str, only_checks: bool) -> None:
    assert is_check(ast.parse(statement).body[0]) == only_checks


CHAPTER = """# A chapter

```{code-cell} ipython3
---
tags: [hide-input]
---
def half(x):
    \"\"\"Return the half.\"\"\"
    return x / 2


def twice(x):
    return 2 * x
```

```{code-cell} ipython3
def twice(x):
    return x + x
```

```python
def shown_only(x):
    return x
```
"""


def test_a_function_of_a_chapter_is_taken_from_its_cell(tmp_path: Path) -> None:
    (tmp_path / "01_a.md").write_text(CHAPTER)
    assert excerpt("01_a.half", texts=tmp_path) == "def half(x):\n    return x / 2"


@pytest.mark.parametrize(("name", "count"), [("twice", 2), ("shown_only", 0), ("other", 0)])
def test_a_function_that_no_cell_or_several_define_is_refused(name: str, count: int, tmp_path: Path) -> None:
    (tmp_path / "01_a.md").write_text(CHAPTER)
    with pytest.raises(BookError, match=rf"expected one function {name} in .*01_a\.md; got {count}"):
        excerpt(f"01_a.{name}", texts=tmp_path)


def test_a_name_stands_for_the_next_statement_that_gives_it_a_value(tmp_path: Path) -> None:
    cell = "def f(x):\n    y = z = None\n    y = x\n    if x:\n        y = 2\n    y = 3\n    return y"
    (tmp_path / "01_a.md").write_text(f"# A\n\n```{{code-cell}} ipython3\n{cell}\n```\n")
    shown = [excerpt("01_a.f", ["y"] * count, tmp_path).splitlines()[1:] for count in (1, 2)]
    assert shown == [["    ...", "    y = x"], ["    ...", "    y = x", "    if x:", "        y = 2"]]
    assert excerpt("01_a.f", texts=tmp_path) == cell


def test_named_statements_alone_are_shown_and_gaps_are_marked() -> None:
    assert excerpt("attngrad.reference.softmax_hessian", ["second", "return"]).splitlines()[1:] == [
        "    ...",
        "    second = p[..., :, None, None] * jacobian[..., None, :, :]",
        "    return diagonal - first - second",
    ]


@pytest.mark.parametrize(
    ("path", "names", "said"),
    [
        ("numpy.exp", [], r"expected a path attngrad\.module\.function or NN_topic\.function"),
        ("softmax", [], r"expected a path attngrad\.module\.function"),
        ("attngrad", [], "there is no attngrad"),
        ("attngrad.reference.softmin", [], "there is no attngrad.reference.softmin"),
        ("attngrad.nowhere.softmax", [], "there is no attngrad.nowhere.softmax"),
        ("attngrad.checks.TOLERANCES", [], "is a dict"),
        (VJP, ["mean", "delta"], r"in the order in which .*softmax_vjp assigns them; got no further delta"),
        (VJP, ["return", "mean"], "got no further mean"),
        (VJP, ["mean", "mean"], "got no further mean"),
    ],
)
def test_what_cannot_be_shown_is_refused(path: str, names: list[str], said: str) -> None:
    with pytest.raises(BookError, match=said):
        excerpt(path, names)


def test_more_lines_than_a_card_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(excerpts, "LINES", 3)
    assert len(excerpt(VJP).splitlines()) == 3
    with pytest.raises(BookError, match=r"at most 3 lines of attngrad.reference.softmax, .* got 5"):
        excerpt("attngrad.reference.softmax")
