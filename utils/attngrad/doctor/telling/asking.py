"""The specification from the command line: a file, and fields that replace its own."""

import argparse
import json
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attngrad.doctor.spec import (
    BIASES,
    DTYPES,
    MAPS,
    OPTIONS,
    Spec,
    alibi,
    clip,
    no_rows,
    offset,
    t5,
    window,
)
from attngrad.notation import RangeError
from attngrad.offsets import BeitMap

MAP_WORDS: dict[str, Callable[..., Any]] = {
    "t5": t5, "offset": offset, "clip": clip, "window": window, "beit": BeitMap, "alibi": alibi
}  # fmt: skip
FLAGS = {"true": True, "false": False, "bidirectional": True, "one-directional": False, "learned": True}


def add_fields(parser: argparse.ArgumentParser) -> None:
    """Add the options that tell a specification, one for each field."""
    group = parser.add_argument_group("what the implementation claims to do")
    add = group.add_argument
    add("--spec", metavar="FILE.json", help="a specification, or some of its fields, as JSON")
    add("--framework", choices=("torch", "numpy"), help="the arrays that it takes")
    add("--device", metavar="NAME", help="where torch has them, such as cuda")
    add("--dtypes", metavar="A,B", help=f"among {', '.join(DTYPES)}")
    add("--head-dims", metavar="D,D", help="the features of a head that it can do")
    add("--length-multiple", type=int, metavar="N", help="of what N and M must be multiples")
    add("--layout", choices=("bhnd", "bnhd"), help="the axes of q, k, v and o")
    maps = "t5:32,128  clip:8  offset:64  window:7,7  beit:7,7  alibi:8"
    add("--map", metavar="MAP", help=f"of a bias by positions: {maps}")
    add("--table", choices=("hr", "rh"), help="the axes of the table")
    add("--bias", metavar="A,B", help=f"shapes of a dense bias, among {', '.join(BIASES)}")
    add("--bias-dtype", choices=("same", *DTYPES), help="the type of a bias or table")
    add("--causal", choices=("never", "always", "both"), help="whether it hides later keys")
    add("--alignment", choices=("bottom-right", "top-left"), help="of the causal mask where N != M")
    add("--scale", metavar="SCALE", help="argument, default or a number")
    add("--options", metavar="A,B", help=f"among {', '.join(OPTIONS)}")
    add("--deterministic", action="store_true", default=None, help="equal bits at each run are promised")


def changes(asked: argparse.Namespace) -> dict[str, Any]:
    """Return the fields of a specification that a command line tells, those of its file included.

    Raises: RangeError for a file that holds no specification, or a word that is none; OSError without a file.
    """
    told = _from_file(asked.spec) if asked.spec else {}
    for field in ("framework", "device", "length_multiple", "layout", "table", "bias_dtype", "causal",
                  "alignment", "deterministic"):  # fmt: skip
        if getattr(asked, field) is not None:
            told[field] = getattr(asked, field)
    for field in ("dtypes", "bias", "options"):
        if getattr(asked, field) is not None:
            told[field] = _words(getattr(asked, field))
    if asked.head_dims is not None:
        told["head_dims"] = tuple(_number("--head-dims", word, int) for word in _words(asked.head_dims))
    if asked.scale is not None:
        word = asked.scale
        told["scale"] = word if word in ("argument", "default") else _number("--scale", word, float)
    if asked.map is not None:
        told |= {"map": map_of(asked.map), "map_rows": None}
    return told


def map_of(text: str) -> Any:
    """Return the map that a text such as "t5:32,128" tells.

    Raises: RangeError for another text.

    >>> map_of("t5:32,128")
    T5Map(num_buckets=32, max_distance=128, bidirectional=True)
    """
    word, _, told = text.partition(":")
    if word not in MAP_WORDS:
        raise RangeError(f"--map: expected one of {', '.join(MAP_WORDS)} with its numbers, got {text!r}")
    arguments = [FLAGS[one] if one in FLAGS else _number("--map", one, int) for one in _words(told)]
    try:
        return MAP_WORDS[word](*arguments)
    except TypeError as error:
        told = f"--map: expected the arguments of {MAP_WORDS[word].__name__}, got {text!r}"
        raise RangeError(told) from error


def _from_file(path: str) -> dict[str, Any]:
    """Return the fields that a file tells."""
    try:
        told = json.loads(Path(path).read_text())
        if not isinstance(told, dict):
            raise RangeError(f"fields by name, got a {type(told).__name__}")
        spec = Spec.from_json(json.dumps(told))
    except (TypeError, ValueError) as error:
        told = f"--spec: expected fields of a specification as JSON in {path}, got: {error}"
        raise RangeError(told) from error
    if spec.map is no_rows:
        raise RangeError(f"--spec: expected a map among {', '.join(MAPS)} in {path}, got a callable")
    return {field: getattr(spec, field) for field in told}


def _words(text: str) -> tuple[str, ...]:
    """Return the words of a list with commas."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _number(option: str, text: str, kind: Callable[[str], Any]) -> Any:
    """Return a number that a text tells."""
    try:
        return kind(text)
    except ValueError as error:
        raise RangeError(f"{option}: expected a number, got {text!r}") from error


def command(program: str, words: Sequence[str]) -> str:
    """Return a command line again, without what chooses cases and forms of the report.

    >>> command("attention-doctor", ["mine.py:f", "--quick", "--case", "tail-65", "--json"])
    'attention-doctor mine.py:f --quick'
    """
    kept, rest = [], iter(words)
    for word in rest:
        option, sign, _ = word.partition("=")
        if option in ("--case", "--out"):
            if not sign:
                next(rest, None)
        elif word not in ("--json", "--markdown", "--allow-low-precision"):
            kept.append(shlex.quote(word))
    return " ".join([program, *kept])
