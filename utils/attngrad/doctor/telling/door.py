"""The file door: cases written to a file, answered by any program, and judged with NumPy alone.

Cases and answers are an .npz or a folder of .npy files, in which "case/dq" is called case__dq.npy and the
manifest is manifest.json. The arrays are those of `attngrad.doctor.exchange`.
"""

import difflib
import io
import json
import time
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attngrad.doctor import cases as planning
from attngrad.doctor import exchange
from attngrad.doctor.case import FORWARD, GRADIENTS, Case
from attngrad.doctor.examining import CHOSEN, About, Examination, concluded, left_out, selected
from attngrad.doctor.outcome import Outcome
from attngrad.doctor.running.runners import CannotRun
from attngrad.doctor.spec import Spec
from attngrad.notation import RangeError

TEXTS = ("unsupported", "error")
ANSWERS = (*FORWARD, *GRADIENTS, *TEXTS)
MANIFEST = "manifest"


def write_cases(
    path: str | Path,
    spec: Spec,
    *,
    seed: int = 0,
    quick: bool = False,
    rows: Callable[[int, int, int | None], Any] | None = None,
) -> tuple[Case, ...]:
    """Write the cases of a specification to an .npz, or to a folder for any other name, and return them.

    ``rows`` gives the rows of a map that is a callable, which defaults to the map itself.

    Raises: RangeError for a map that the file of a specification cannot tell; OSError for a bad path.
    """
    planned = planning.plan(spec, seed=seed, quick=quick, rows=rows or spec.map)
    save(path, exchange.pack(planned, spec, seed))
    return planned


def read_cases(path: str | Path) -> tuple[tuple[Case, ...], Spec, int]:
    """Return the cases of a file or folder, their specification and their seed.

    Raises: RangeError for what is no file of cases; OSError for a path that cannot be read.
    """
    return exchange.unpack(load(path))


def judge(cases: str | Path, answers: str | Path, *, names: Sequence[str] | None = None) -> Examination:
    """Return the examination of answers from a file; ``names`` are those of the cases to judge, or None.

    Cases without an answer are not tried. Wrong shapes are findings.

    Raises: RangeError for files that are none or do not belong together, or an answer with an unknown name;
    CannotRun if no case is answered; OSError for a path that cannot be read.
    """
    started = time.monotonic()
    stored = load(cases)
    planned, spec, seed = exchange.unpack(stored)
    answered = _by_case(load(answers), planned, stored[MANIFEST])
    chosen = selected(planned, names)
    ran = [(case, outcome_of(case, spec, answered[case.name])) for case in chosen if case.name in answered]
    missing = [case.name for case in chosen if case.name not in answered]
    if not ran:
        raise CannotRun(f"{answers} answers none of the cases {', '.join(missing)}")
    notes = ["repeated runs: a file holds one answer to each case", *left_out(planned)]
    notes += [f"{', '.join(missing)}: not answered"] if missing else []
    notes += [CHOSEN] if names is not None else []
    command = f"attention-doctor judge {cases} {answers}"
    versions = {"numpy": np.__version__}
    about = About(str(answers), seed, started, versions, tuple(notes), command)
    return concluded(about, spec, ran)


def outcome_of(case: Case, spec: Spec, arrays: Mapping[str, np.ndarray]) -> Outcome:
    """Return what came of a case from its part of a file of answers."""
    for status in TEXTS:
        if status in arrays:
            return Outcome(status, str(arrays[status]))
    faults = [f"shape: {name} was not asked for; case {case.name} has no such input"
              for name in arrays if name in GRADIENTS and not _has(case, name)]  # fmt: skip
    read = {name: _floats(x, case) for name, x in arrays.items() if name in FORWARD or _has(case, name)}
    return exchange.outcome(case, spec, [read], faults)


def listing(path: str | Path) -> str:
    """Return a line for each case of a file: name, type, sizes, what is asked, and why."""
    planned, _, seed = read_cases(path)
    width = max((len(case.name) for case in planned), default=0)
    lines = [f"{len(planned)} cases, seed {seed}"]
    for case in planned:
        sizes = " ".join(f"{axis}={size}" for axis, size in case.sizes.items())
        lines.append(f"{case.name:{width}}  {case.dtype:8}  {sizes}  asks o {' '.join(case.wants)}")
        lines.append(f"{'':{width}}  {case.why}")
    return "\n".join(lines) + "\n"


def save(path: str | Path, stored: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name to an .npz, or to a folder for a path of any other name.

    Raises: RangeError for a path with another file's ending, or a folder that already holds arrays.
    """
    path = Path(path)
    if path.suffix == ".npz":
        with path.open("wb") as file:
            np.savez(file, **stored)
        return
    if path.suffix:
        raise RangeError(f"path: expected a name that ends in .npz, or a folder, got {path}")
    if path.is_dir() and (next(path.glob("*.npy"), None) or next(path.glob("*.json"), None)):
        raise RangeError(f"path: expected an empty folder, got {path}, which holds arrays already")
    path.mkdir(parents=True, exist_ok=True)
    for name, x in stored.items():
        if name == MANIFEST:
            (path / "manifest.json").write_text(json.dumps(json.loads(str(x)), indent=1))
        else:
            np.save(path / f"{name.replace('/', '__')}.npy", x)


def load(path: str | Path) -> dict[str, np.ndarray]:
    """Return the arrays of an .npz or a folder by name; texts of a folder may be .txt files.

    Raises: RangeError for a file of another kind, or one that is damaged; OSError if there is none.
    """
    path = Path(path)
    try:
        if path.is_dir():
            return _folder(path)
        stored = np.load(io.BytesIO(path.read_bytes()), allow_pickle=False)
        if isinstance(stored, np.ndarray):
            raise RangeError(f"path: expected an .npz or a folder, got a single array in {path}")
        with stored:
            return {name: stored[name] for name in stored.files}
    except (zipfile.BadZipFile, ValueError, EOFError, KeyError) as error:
        if isinstance(error, RangeError):
            raise
        told = f"path: expected an .npz of plain arrays or a folder of .npy, got {path}: {error}"
        raise RangeError(told) from error


def _folder(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays and texts of a folder."""
    stored = {}
    for file in sorted(path.iterdir()):
        name = file.stem.replace("__", "/")
        if file.suffix == ".npy":
            stored[name] = np.load(file, allow_pickle=False)
        elif file.suffix == ".txt" and name.rpartition("/")[2] in TEXTS:
            stored[name] = np.array(file.read_text().strip())
        elif file.name == "manifest.json":
            stored[MANIFEST] = np.array(file.read_text())
    if not stored:
        raise RangeError(f"path: expected a folder with .npy files, got {path}, which has none")
    return stored


def _by_case(
    stored: Mapping[str, np.ndarray], planned: Iterable[Case], manifest: np.ndarray
) -> dict[str, dict[str, np.ndarray]]:
    """Return answers by case and name; refuse those of other cases, and names that nobody asked for."""
    known = {case.name for case in planned}
    answers = {name: x for name, x in stored.items() if name != MANIFEST}
    if MANIFEST in stored and _told(stored[MANIFEST]) != _told(manifest):
        raise RangeError("answers: expected those to these cases, got those to cases of another manifest")
    if answers and not any(name.partition("/")[0] in known for name in answers):
        raise RangeError(f"answers: expected names such as {min(known)}/o, got {min(answers)}; other cases?")
    allowed = [f"{case}/{what}" for case in sorted(known) for what in ANSWERS]
    by_case: dict[str, dict[str, np.ndarray]] = {}
    for name, x in answers.items():
        if name not in set(allowed):
            near = difflib.get_close_matches(name, allowed, n=3, cutoff=0.5) or allowed[:2]
            raise RangeError(f"answers: expected names such as {', '.join(near)}, got {name}")
        case, _, what = name.partition("/")
        by_case.setdefault(case, {})[what] = x
    return by_case


def _told(manifest: np.ndarray) -> Any:
    """Return what a manifest tells, however its text is laid out."""
    try:
        return json.loads(str(manifest))
    except json.JSONDecodeError:
        return None


def _has(case: Case, name: str) -> bool:
    """Say whether a gradient has an input on a case."""
    source = {"dbias": case.bias, "dtable": case.table, "dsink": case.sink}
    return source.get(name, case.q) is not None


def _floats(x: np.ndarray, case: Case) -> np.ndarray:
    """Return an array as it came; two opaque bytes, as NumPy reads a foreign bfloat16, in float32."""
    if x.dtype.kind != "V" or x.dtype.itemsize != 2 or "bfloat16" not in (case.dtype, case.bias_dtype):
        return x
    bits = np.ascontiguousarray(x).view(np.uint16).astype(np.uint32) << 16
    return bits.view(np.float32).reshape(x.shape)
