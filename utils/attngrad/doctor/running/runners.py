"""How an implementation is run: in this process, or in a child that may crash, hang or print."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from attngrad.doctor import exchange
from attngrad.doctor.case import Case
from attngrad.doctor.outcome import Outcome
from attngrad.doctor.running.child import Ended, Process, Reply
from attngrad.doctor.running.inside.loading import CannotRun, load
from attngrad.doctor.running.inside.session import Session
from attngrad.doctor.spec import Spec

__all__ = ["CannotRun", "Child", "Description", "InProcess"]


@dataclass(frozen=True)
class Description:
    """What an implementation says of itself: its specification, None if it declares none.

    ``notes`` are sentences, such as which parameters of a callable are not passed, and ``versions`` those of
    what its process has loaded.
    """

    spec: Spec | None
    notes: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)


def _told(case: Case, spec: Spec) -> dict[str, Any]:
    """Return what a case says, with the claims of the specification."""
    return {**exchange.told(case, spec), "claims": json.loads(spec.to_json())}


def _outcome(case: Case, spec: Spec, reply: Mapping[str, Any], runs: list[Mapping[str, Any]]) -> Outcome:
    """Return the outcome that a reply tells."""
    status, faults = reply["status"], tuple(reply["faults"])
    if status != "ok":
        return Outcome(status, reply["text"], faults=faults, seconds=reply["seconds"])
    return replace(exchange.outcome(case, spec, runs, faults), seconds=reply["seconds"])


def _description(told: Mapping[str, Any], map: Any = None) -> Description:
    """Return the description that an implementation sent.

    Raises: CannotRun for a specification that is none.
    """
    try:
        spec = None if told["spec"] is None else Spec.from_json(told["spec"], map)
    except (TypeError, ValueError) as error:
        raise CannotRun(f"spec: {error}") from error
    return Description(spec, tuple(told["notes"]), dict(told["versions"]))


class InProcess:
    """An implementation in this process: an object with forward and backward, a callable, or a target's name.

    Raises: CannotRun with the reason.

    >>> with InProcess(lambda q, k, v: v, Spec(scale="default")) as run:
    ...     run.describe().notes
    ()
    """

    def __init__(self, subject: Any, spec: Spec | None = None) -> None:
        """Load it."""
        found, module = load(subject) if isinstance(subject, str) else (subject, None)
        self._session = Session(found, module, spec)

    def describe(self) -> Description:
        """Return what the implementation says of itself."""
        map = getattr(self._session.spec, "map", None)
        return _description(self._session.describe(), map)

    def run(self, case: Case, spec: Spec) -> Outcome:
        """Return what came of a case."""
        reply, runs = self._session.run(_told(case, spec), exchange.case_arrays(case, spec))
        return _outcome(case, spec, reply, runs)

    def rows(self, N: int, M: int, query_start: int | None) -> np.ndarray:
        """Return the rows of the implementation's own map."""
        return self._session.rows(N, M, query_start)

    def close(self) -> None:
        """Do nothing: there is no process."""

    def __enter__(self) -> "InProcess":
        """Return this."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()


class Child:
    """An implementation in a process of its own, started again after a crash or a hang.

    ``target`` is "path/file.py:name", "path/file.py" or "package.module:name". A case may take ``limit_s``
    seconds, counted once a process has answered a first one; until then, and to load, it has ``warm_up_s``,
    for what is compiled. ``env`` are environment variables beside those of this process.

    Raises: CannotRun with the reason.
    """

    def __init__(
        self,
        target: str,
        *,
        limit_s: float = 60.0,
        warm_up_s: float = 300.0,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Start the process and load the implementation."""
        self.target, self.limit_s, self.warm_up_s = str(target), limit_s, warm_up_s
        self._env = dict(env or {})
        self._first_s, self._hung = 0.0, 0
        self._start()

    def _start(self) -> None:
        """Start a process and load the implementation in it."""
        self._process = Process(self._env)
        self._warm = False
        self._asked({"do": "load", "target": self.target}, self.warm_up_s)

    def _asked(self, message: Mapping[str, Any], limit_s: float) -> Reply:
        """Return the answer to a message that every implementation can answer.

        Raises: CannotRun where it does not.
        """
        try:
            reply, arrays = self._process.ask(message, {}, limit_s)
        except Ended as error:
            raise CannotRun(f"{self.target}: {error}") from error
        for key in ("cannot", "failed"):
            if key in reply:
                self.close()
                raise CannotRun(reply[key])
        return reply, arrays

    def _ready(self) -> None:
        """Start again after an end."""
        if not self._process.alive:
            self._start()

    def _limit(self) -> float:
        """Return how long a case may take: long for the first of a process, unless hanging is its habit."""
        if self._warm:
            return self.limit_s
        known = self._first_s or self._hung > 1
        return min(self.warm_up_s, self.limit_s + 3.0 * self._first_s) if known else self.warm_up_s

    def describe(self) -> Description:
        """Return what the implementation says of itself.

        Raises: CannotRun with the reason.
        """
        self._ready()
        return _description(self._asked({"do": "describe"}, self.warm_up_s)[0])

    def run(self, case: Case, spec: Spec) -> Outcome:
        """Return what came of a case; a crash or a hang is an outcome too."""
        try:
            self._ready()
            limit_s = self._limit()
            message = {"do": "run", "told": _told(case, spec)}
            reply, arrays = self._process.ask(message, exchange.case_arrays(case, spec), limit_s)
        except CannotRun as error:
            return Outcome("crash", f"it could not be started again: {error}")
        except Ended as ended:
            self._hung += ended.status == "hang"
            return Outcome(ended.status, str(ended), seconds=ended.seconds)
        if "status" not in reply:
            return Outcome("error", reply.get("cannot") or reply["failed"])
        if reply["status"] == "ok" and not self._warm:
            self._warm, self._first_s = True, reply["seconds"]
        if reply["broken"]:  # a CUDA error stays in its process
            self.close()
        runs: list[dict[str, np.ndarray]] = [{} for _ in range(reply["runs"])]
        for key, x in arrays.items():
            number, _, name = key.partition("/")
            runs[int(number)][name] = x
        return _outcome(case, spec, reply, runs)

    def rows(self, N: int, M: int, query_start: int | None) -> np.ndarray:
        """Return the rows of the implementation's own map.

        Raises: CannotRun where it declares none or fails.
        """
        self._ready()
        asked = {"do": "rows", "N": N, "M": M, "query_start": query_start}
        return self._asked(asked, self.warm_up_s)[1]["rows"]

    def close(self) -> None:
        """End the process."""
        self._process.end()

    def __enter__(self) -> "Child":
        """Return this."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()
