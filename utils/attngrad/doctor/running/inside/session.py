"""An implementation that is loaded: described, run on cases, asked for its rows."""

import json
import platform
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from . import calling, loading


class Session:
    """One loaded implementation. ``found`` is what its owner named, ``module`` where, if that is known.

    Raises: CannotRun where it is none.
    """

    def __init__(self, found: Any, module: Any = None, spec: Any = None) -> None:
        """Make the implementation, and read the specification that it declares unless one is given."""
        self.notes: list[str] = []
        self.subject = loading.subject(found, self.notes)
        self.spec = loading.declared(found, self.subject, module) if spec is None else spec

    def spec_text(self) -> str | None:
        """Return the declared specification as text."""
        if self.spec is None:
            return None
        return json.dumps(self.spec) if isinstance(self.spec, dict) else self.spec.to_json()

    def describe(self) -> dict[str, Any]:
        """Return the specification, notes and versions."""
        return {"spec": self.spec_text(), "notes": self.notes, "versions": versions()}

    def rows(self, N: int, M: int, query_start: int | None) -> np.ndarray:
        """Return the row of each pair by the map of the implementation's own.

        Raises: ValueError where it declares none.
        """
        map = getattr(self.spec, "map", None)
        if not callable(map):
            raise ValueError("map: expected a specification with a callable map, got none")
        rows = map(N, M, query_start)
        rows = rows.detach().cpu().numpy() if hasattr(rows, "detach") else np.asarray(rows)
        if rows.shape != (N, M) or rows.dtype.kind not in "iu":
            raise ValueError(f"map: expected integers of shape {(N, M)}, got {rows.dtype} of {rows.shape}")
        return rows.astype(np.int64)

    def run(
        self, told: Mapping[str, Any], given: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, Any], list[dict[str, np.ndarray]]]:
        """Return what came of a case, and the answers of each of its runs."""
        first = calling.run(self.subject, told, given)
        runs, faults = [first.answers], first.faults
        for number in range(1, int(told["repeats"]) if first.status == "ok" else 1):
            again = calling.run(self.subject, told, given)
            if again.status != "ok":
                faults.append(f"repeat: case, run {number + 1}: {again.text}")
                break
            runs.append(again.answers)
            faults += [fault for fault in again.faults if fault not in faults]
        reply = {"status": first.status, "text": first.text, "faults": faults, "seconds": first.seconds,
                 "broken": first.broken}  # fmt: skip
        return reply, runs


def versions() -> dict[str, str]:
    """Return the versions of what has been loaded, and the machine."""
    found = {"python": platform.python_version(), "numpy": np.__version__}
    for name in ("torch", "triton"):
        module = sys.modules.get(name)
        if hasattr(module, "__version__"):
            found[name] = str(module.__version__)
    found["platform"] = f"{platform.system()} {platform.machine()}"
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        found["device"] = torch.cuda.get_device_name()
    return found
