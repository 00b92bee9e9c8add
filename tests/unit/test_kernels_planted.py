"""Mistakes planted in the text of the kernels: the check against float64 must reject each of them."""

import functools
import importlib
import shutil
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch

from .kernel_cases import FAR, Answers, Case, check, exact, far_apart, kernels, plain, run  # isort: skip

ROOT = Path(kernels.__file__).parent
CASE = Case(B=2, H=2, H_kv=1, N=19, M=21, D=5, D_v=3, causal=True, query_start=3)
OPEN = replace(CASE, causal=False, query_start=None)
ATOMIC = replace(CASE, deterministic=False)

# What is planted: file, text, what stands there instead, and the case that shows it where it is not CASE.
PLANTED = {
    "tail of keys not masked": ("tiles", "seen = inside", "seen = i < N", OPEN),
    "sign of the offset of the bias": ("tiles", "(j - i + N - 1)", "(i - j + M - 1)"),
    "bias of the next diagonal": ("tiles", "(j - i + N - 1)", "tl.maximum(j - i + N - 2, 0)"),
    "causal mask without its start": ("tiles", "j <= i + start", "j <= i"),
    "causal mask without the diagonal": ("tiles", "j <= i + start", "j < i + start"),
    "keys of another head": ("forward", "(K, b, h // GROUP", "(K, b, h * 0", replace(CASE, H_kv=2)),
    "running sum not faded": ("forward", "total = total * fade", "total = total", OPEN),
    "running output not faded": ("forward", "o = o * fade[:, None]", "o = o", OPEN),
    "lse in base 2": ("forward", "top + tl.log(total)", "top + tl.log2(total)"),
    "weights in base 2": ("backward", "p = tl.exp(", "p = tl.exp2("),
    "cotangent of lse dropped": ("backward", "tl.sum(do * o, 1) - dlse", "tl.sum(do * o, 1)"),
    "sign of the cotangent of lse": ("backward", "tl.sum(do * o, 1) - dlse", "tl.sum(do * o, 1) + dlse"),
    "dk without the scale": ("backward", "scale * dk", "dk"),
    "dq scaled twice": ("backward", "scale * along", "scale * scale * along"),
    "only the last head of a group": ("backward", "range(GROUP)", "range(GROUP - 1, GROUP)"),
    "a block of queries skipped": ("diagonals", "tl.maximum(c * BLOCK - start, 0) // BLOCK", "c"),
    "upper half of a tile lost": ("backward", "put_block(carry + upper", "put_block(carry"),
    "no carry": ("backward", "put_block(carry + upper", "put_block(upper"),
    "last carry lost": ("backward", "put_block(carry, SUMS", "put_block(0.0 * carry, SUMS"),
    "carry into the next head": ("backward", "carry = tl.zeros(", "carry = carry if g else tl.zeros("),
    "rotated the other way": ("diagonals", "(a - x) & (BLOCK - 1)", "(x - a) & (BLOCK - 1)"),
    "halves swapped": ("diagonals", "tl.where(x <= a, turned, 0.0)", "tl.where(x > a, turned, 0.0)"),
    "main diagonal in the lower half": ("diagonals", "x <= a", "x < a"),
    "stored, not added over the batch": ("diagonals", "sums += tl.load(", "sums = tl.load("),
    "diagonals shifted": ("diagonals", "e * BLOCK + x + N - 1", "e * BLOCK + x + N"),
    "places of another block": ("diagonals", "r = c - e", "r = c - e - 1"),
    "stored, not added": ("diagonals", "tl.atomic_add(", "stored(", ATOMIC),
    "added elsewhere": ("diagonals", "(c - r) * BLOCK + x + N - 1", "(r - c) * BLOCK + x + N - 1", ATOMIC),
}
STORED = """

@triton.jit
def stored(at, x, mask, sem: tl.constexpr):
    tl.store(at, x, mask=mask)
"""


def planted(folder: Path, monkeypatch: pytest.MonkeyPatch, file: str, old: str, new: str) -> ModuleType:
    """Return the package with a text of a file replaced, imported under a name of its own."""
    name = f"planted_{abs(hash((file, old, new)))}"
    shutil.copytree(ROOT, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (folder / name).glob("*.py"):
        path.write_text(path.read_text().replace("attngrad.kernels.", f"{name}."))
    path = folder / name / f"{file}.py"
    text = path.read_text()
    assert old in text, f"{file}.py no longer holds {old!r}"
    path.write_text(text.replace(old, new) + STORED)
    monkeypatch.syspath_prepend(folder)
    package = importlib.import_module(name)
    launching = importlib.import_module(f"{name}.launching")
    launching.tiles, launching.CHUNK = (lambda dtype, width: launching.Tiles(16, 4, 2)), 2
    return package


@functools.cache
def right(case: Case) -> tuple[Answers, Answers]:
    """Return what is right for a case, and what a plain run answers."""
    return exact(case, case.draw()), plain(case, case.draw())


# A mistake may read memory that was never written; NumPy then warns of what it finds there.
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("mistake", PLANTED)
def test_a_planted_mistake_is_seen(mistake, tmp_path, monkeypatch):
    file, old, new, *case = PLANTED[mistake]
    case = case[0] if case else CASE
    got = run(case, case.draw(), planted(tmp_path, monkeypatch, file, old, new))
    with pytest.raises(AssertionError, match=r"^(o|lse|dq|dk|dv|ddiagonals|dscale)\b"):
        check(case, got, *right(case))


@pytest.mark.parametrize("case", [CASE, OPEN, ATOMIC], ids=["causal", "open", "atomics"])
def test_nothing_planted_nothing_seen(case, tmp_path, monkeypatch):
    package = planted(tmp_path, monkeypatch, "diagonals", "tl.load", "tl.load")
    check(case, run(case, case.draw(), package), *right(case))


IN_SUMS = [("- (N - 1) + i", "- N + i"), ("sums += tl.load(", "sums = tl.load("), ("(j < M)", "(j < N)")]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("old", "new"), IN_SUMS)
def test_a_mistake_planted_in_diagonal_sums_is_seen(old, new, tmp_path, monkeypatch):
    package = planted(tmp_path, monkeypatch, "diagonal_sums", old, new)
    x = torch.rand(2, 40, 50)
    assert (package.diagonal_sums(x) - kernels.diagonal_sums(x)).abs().max() > 0.1


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_offsets_of_32_bits_are_seen(tmp_path, monkeypatch):
    package = planted(tmp_path, monkeypatch, "tiles", "b.to(tl.int64) * X.b", "b * X.b")
    near = FAR.draw()
    far = far_apart(monkeypatch, near)
    got, want = (package.attention(x["q"], x["k"], x["v"]) for x in (far, near))
    assert torch.equal(got[:2], want[:2])
    assert not torch.equal(got[2], want[2])
