"""The displays of a text: found with their labels, code passed over, malformed ones refused."""

import pytest

from attngrad.proofs.page import PageError, book_root, displays

TEXT = r"""
# Title

$$
x = y
$$ (eq-one)

Inline $a = b$ is no display.

$$ x < y $$

```{code-cell} ipython3
print("$$ not = this $$ (eq-code)")
```

::::{admonition} Wrong: nested
:class: wrong

$$
\begin{aligned}
x &= y \\
  &= z
\end{aligned}
$$ (bad-nested)
::::

```python
$$
```

````
$$ bare = fence $$ (eq-bare)
```
````

~~~
$$ tilde = fence $$ (eq-tilde)
~~~

<!-- $$
comment = out
$$ (eq-comment) -->

% $$ line = comment $$ (eq-line)

```{exercise}
:label: e

$$
in = exercise
$$ (eq-exercise)
```

$$ last = one $$
"""


def test_displays_in_order_with_labels_and_lines() -> None:
    found = displays(TEXT)
    first = [(d.label, d.line) for d in found[:3]]
    assert first == [("eq-one", 4), (None, 10), ("bad-nested", 19)]
    assert [(d.label, d.tex) for d in found[3:]] == [("eq-exercise", "in = exercise"), (None, "last = one")]
    assert found[1].tex == "x < y"
    assert found[2].tex.splitlines()[1] == r"x &= y \\"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("$$\nx = y\n", "no closing"),
        ("$$\nx\n$$ (Eq_One)", "lower-case letters"),
        ("$$\nx\n$$ (eq-a)\n\n$$\ny\n$$ (eq-a)", "given twice"),
    ],
)
def test_what_cannot_be_told_apart_is_refused(text: str, message: str) -> None:
    with pytest.raises(PageError, match=message):
        displays(text, "page")


def test_a_library_without_its_book_says_what_to_do(tmp_path) -> None:
    with pytest.raises(FileNotFoundError, match="clone the book"):
        book_root(tmp_path)
