"""Recorded rows: the files book/results/OPERATOR.DEVICE.json, one for each operator and kind of device."""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from attngrad.bench.provenance import KEYS
from attngrad.bench.timing import Spread

FOLDER = Path("book") / "results"


class ResultsError(ValueError):
    """A file of recorded rows that does not say what it must."""


@dataclass(frozen=True)
class Row:
    """What was measured of one contender: times in seconds, ratios to the first row, bytes; or why not.

    ``limit`` is its speed as a part of that of the limit, ``pages`` are those that a call fetches from the
    system, ``error`` is the largest of its errors, each as a part of the largest entry of its result,
    ``repeats`` says whether two calls gave equal bits, and ``rest`` is the share of the time of the contender
    of which this one is a part that it does not take.
    """

    contender: str
    fingerprint: str
    time: Spread | None = None
    ratio: Spread | None = None
    memory: int | None = None
    note: str = ""
    limit: float | None = None
    pages: int | None = None
    error: float | None = None
    repeats: bool | None = None
    rest: Spread | None = None


@dataclass(frozen=True)
class Run:
    """One comparison: an operator in one case on one device, with all that its contenders share."""

    operator: str
    device: str
    case: str
    sizes: Mapping[str, int]
    dtype: str
    flops: int
    bytes: int
    provenance: Mapping[str, Any]
    rows: tuple[Row, ...]


SPREAD = {"low": float, "median": float, "high": float}
ROW = {"contender": str, "fingerprint": str, "time": dict | None, "ratio": dict | None,
       "memory": int | None, "note": str, "limit": float | None, "pages": int | None,
       "error": float | None, "repeats": bool | None, "rest": dict | None}  # fmt: skip
RUN = {"case": str, "sizes": dict, "dtype": str, "flops": int, "bytes": int, "provenance": dict, "rows": list}
FILE = {"operator": str, "device": str, "runs": list}


def folder() -> Path | None:
    """Return the folder of recorded rows, None where there is no book.

    The book is looked for in $ATTNGRAD_BOOK, else in the checkout to which this library belongs, in the
    working directory, and in the one above it, which holds the book when a chapter runs.
    """
    named = os.environ.get("ATTNGRAD_BOOK")
    roots = [Path(named)] if named else [Path(__file__).resolve().parents[3], Path.cwd(), Path.cwd().parent]
    return next((root / FOLDER for root in roots if (root / "book" / "text").is_dir()), None)


def file_name(operator: str, device: str) -> str:
    """Return the name of the file of an operator on a kind of device."""
    return f"{operator}.{device}.json"


def recorded(operator: str, device: str) -> dict[str, Run]:
    """Return the recorded runs by case; none where nothing is recorded.

    Raises: ResultsError that names the file and what is wrong in it.
    """
    where = folder()
    return read(where / file_name(operator, device), operator, device) if where else {}


def read(path: Path, operator: str, device: str) -> dict[str, Run]:
    """Return the runs of a file by case; none where there is no file.

    Raises: ResultsError that names the file and what is wrong in it.
    """
    if not path.is_file():
        return {}
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ResultsError(f"{path.name}: expected JSON, got {error}") from error
    _check(data, FILE, path.name)
    if (data["operator"], data["device"]) != (operator, device):
        got = f"{data['operator']} on {data['device']}"
        raise ResultsError(f"{path.name}: expected rows of {operator} on {device}, got {got}")
    runs = [run_of(one, operator, device, f"{path.name}, run {k}") for k, one in enumerate(data["runs"])]
    return {run.case: run for run in runs}


def write(run: Run, where: Path) -> Path:
    """Write a run into its file, in place of an earlier one of the same case, and return the file.

    Raises: ResultsError where the file that is there cannot be read.
    """
    path = where / file_name(run.operator, run.device)
    runs = read(path, run.operator, run.device) | {run.case: run}
    ordered = sorted(runs.values(), key=lambda one: math.prod(one.sizes.values()))
    data = {"operator": run.operator, "device": run.device, "runs": [stored(one) for one in ordered]}
    where.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def stored(run: Run) -> dict[str, Any]:
    """Return a run in its form in the file, which names operator and device once."""
    return {key: value for key, value in asdict(run).items() if key in RUN}


def run_of(data: Any, operator: str, device: str, where: str) -> Run:
    """Return a run from its form in the file.

    Raises: ResultsError that names what is wrong in it.
    """
    _check(data, RUN, where)
    _check(data["provenance"], dict.fromkeys(KEYS, object), f"{where}, provenance")
    rows = tuple(_row(one, f"{where}, row {k}") for k, one in enumerate(data["rows"]))
    return Run(operator, device, **{**data, "rows": rows})


def _row(data: Any, where: str) -> Row:
    """Return a row from its form in the file."""
    _check(data, ROW, where)
    least = {"time": 0.0, "ratio": 0.0, "rest": -math.inf}
    return Row(**data | {key: _spread(data[key], where, above) for key, above in least.items()})


def _spread(data: Any, where: str, above: float) -> Spread | None:
    """Return quartiles above a number from their form in the file."""
    if data is None:
        return None
    _check(data, SPREAD, where)
    found = Spread(**data)
    if not above < found.low <= found.median <= found.high < math.inf:
        told = f"{above:.0f} < low <= median <= high" if above == 0.0 else "low <= median <= high"
        raise ResultsError(f"{where}: expected quartiles {told}, got {data}")
    return found


def _check(data: Any, wanted: Mapping[str, Any], where: str) -> None:
    """Require an object with exactly these keys, and values of these types."""
    got = sorted(data) if isinstance(data, dict) else type(data).__name__
    if got != sorted(wanted):
        raise ResultsError(f"{where}: expected an object with {sorted(wanted)}, got {got}")
    for key, kind in wanted.items():
        if not isinstance(data[key], kind):
            told = kind.__name__ if isinstance(kind, type) else str(kind)
            raise ResultsError(f"{where}: expected {key} to be {told}, got {data[key]!r}")
