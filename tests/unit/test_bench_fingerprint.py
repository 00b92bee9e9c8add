"""Fingerprints: what changes a run changes them, also far from the contender; what does not, does not."""

import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from attngrad.bench import OPERATORS
from attngrad.bench.bias_gradient import build_layers as build_attention
from attngrad.bench.fingerprint import DIGITS, PACKAGES, fingerprint
from attngrad.bench.softmax_vjp import build_closed, build_layers
from attngrad.notation import RangeError

SOFTMAX, CLOSED = "attngrad/bench/softmax_vjp.py", "attngrad/closed/softmax.py"


def after(tmp_path: Path, name: str, old: str, new: str, function) -> tuple[str, str]:
    """Return the fingerprints of a function before and after an edit of a file."""
    packages = tmp_path / "packages"
    sources = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGES / "attngrad", packages / "attngrad", ignore=sources)
    path = packages / name
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    return fingerprint([function]), fingerprint([function], packages)


FORMULA = "return p, p * (dp - (p * dp).sum(dim=-1, keepdim=True))"
# name: the file, what stands there, what is put in its place, the contender
CHANGES = {
    "a constant": (SOFTMAX, FORMULA, FORMULA.replace("-1", "-2"), build_closed),
    "an operation": (SOFTMAX, FORMULA, FORMULA.replace("dp -", "dp +"), build_closed),
    "a keyword": (SOFTMAX, FORMULA, FORMULA.replace("True", "False"), build_closed),
    "a class that the layer uses": (
        CLOSED,
        "return p * (x - (p * x).sum(dim=-1, keepdim=True))",
        "return p * x - p * (p * x).sum(dim=-1, keepdim=True)",
        build_layers,
    ),
    "a function two modules away": (
        "attngrad/closed/modes.py",
        "level.key() == TransformType.Jvp",
        "level.key() != TransformType.Jvp",
        build_attention,
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_can_change_a_run_changes_the_fingerprint(tmp_path, change):
    before, now = after(tmp_path, *CHANGES[change])
    assert before != now


HARMLESS = {
    "a comment": (SOFTMAX, FORMULA, f"# The mean first.\n    {FORMULA}", build_closed),
    "a docstring": (SOFTMAX, "Do the formula one operation at a time", "Do it step by step", build_closed),
    "layout": (SOFTMAX, FORMULA, f"return (\n        {FORMULA.removeprefix('return ')}\n    )", build_closed),
    "an annotation": (SOFTMAX, "s: Any, dp: Any) -> tuple[Any, Any]", "s, dp) -> tuple", build_closed),
    "another contender": (SOFTMAX, "fast(inputs[", "fast(2.0 * inputs[", build_closed),
    "the message of an error": (
        "attngrad/notation.py",
        'raise ShapeError(f"{name}: expected a shape that broadcasts',
        'raise ShapeError(f"{name}: wanted a shape that broadcasts',
        build_layers,
    ),
}


@pytest.mark.parametrize("change", HARMLESS)
def test_what_cannot_does_not(tmp_path, change):
    before, now = after(tmp_path, *HARMLESS[change])
    assert before == now


def test_contenders_differ():
    functions = [one.build for operator in OPERATORS.values() for one in operator.contenders]
    assert len({fingerprint([function]) for function in functions}) == len(functions)


def test_several_functions_count_together_in_any_order():
    both = fingerprint([build_closed, build_layers])
    assert both == fingerprint([build_layers, build_closed])
    assert both not in (fingerprint([build_closed]), fingerprint([build_layers]))


def test_torch_is_not_loaded_for_it():
    code = (
        "import sys\nfrom attngrad.bench import find\nfrom attngrad.bench.measuring import code_of\n"
        "for name in ('softmax-vjp', 'bias-gradient'):\n"
        "    operator = find(name)\n"
        "    [code_of(operator, one, device) for device in ('cpu', 'cuda') for one in operator.on(device)]\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_function_inside_another_is_refused():
    def inner():
        return 1

    with pytest.raises(RangeError, match=r"one on the top level of its module, got .*<locals>\.inner"):
        fingerprint([inner])


def planted(folder: Path, text: str) -> str:
    """Return the fingerprint of the function ``build`` of a package attngrad with two small modules."""
    package = folder / "attngrad"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "layers.py").write_text("def softmax(s):\n    return s\n")
    (package / "planted.py").write_text(text)
    function = SimpleNamespace(__module__="attngrad.planted", __qualname__="build")
    return fingerprint([function], folder)


BUILD = "{}\n\ndef build(inputs):\n    return {}\n"


@pytest.mark.parametrize(
    ("top", "body", "told"),
    [
        ("import attngrad.layers", "attngrad.layers.softmax", "planted: expected `from attngrad import`"),
        ("from attngrad import layers", "layers", "expected the module layers as in `layers.function`"),
        ("from attngrad import layers", "layers.nothing", "layers: expected 'nothing' to be defined or"),
        ("from attngrad.layers import nothing", "nothing", "layers: expected 'nothing' to be defined or"),
    ],
)
def test_a_use_that_cannot_be_followed_is_refused(tmp_path, top, body, told):
    with pytest.raises(RangeError, match=told):
        planted(tmp_path, BUILD.format(top, body))


@pytest.mark.parametrize(
    "text",
    [
        BUILD.format("from attngrad import layers", "layers.softmax"),
        BUILD.format("from attngrad.layers import softmax as s", "s"),
        BUILD.format("from .layers import softmax", "softmax"),
        "def build(inputs):\n    from attngrad import layers\n    return layers.softmax\n",
    ],
)
def test_every_way_to_import_is_followed(tmp_path, monkeypatch, text):
    before = planted(tmp_path / "a", text)
    monkeypatch.setattr(Path, "write_text", doubled(Path.write_text))
    assert planted(tmp_path / "b", text) != before


def doubled(write):
    """Return a way to write files in which the layer returns something else."""
    return lambda path, text: write(path, text.replace("return s\n", "return 2 * s\n"))


def test_definitions_behind_a_condition_are_followed(tmp_path):
    text = "if True:\n    FACTOR = {}\nelse:\n    FACTOR = 1\n\ndef build(inputs):\n    return FACTOR\n"
    assert planted(tmp_path / "a", text.format(2)) != planted(tmp_path / "b", text.format(3))
    assert planted(tmp_path / "c", text.format(2)) == planted(tmp_path / "d", text.format("2  # two"))


def test_a_loop_of_uses_ends(tmp_path):
    text = "def build(inputs):\n    return other\n\ndef other():\n    return build\n"
    assert len(planted(tmp_path, text)) == DIGITS
