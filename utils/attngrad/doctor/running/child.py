"""A child process that answers messages, and how it ended if it does not."""

import contextlib
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from attngrad.doctor.running.inside import wire
from attngrad.doctor.running.inside.calling import LIBRARIES

START = Path(__file__).parent / "inside" / "start.py"
LIBRARY = Path(__file__).resolve().parents[3]
TAIL = 1 << 14  # bytes of standard error that are kept
LINES = 3
GRACE_S = 5.0
SLICE_S = 0.5
STACK = re.compile(r'^\s*File "(.+)", line (\d+) in (\S+)', re.MULTILINE)

Reply = tuple[dict[str, Any], dict[str, np.ndarray]]


class Ended(Exception):
    """No answer came. ``status`` is "crash" or "hang", ``seconds`` how long was waited."""

    def __init__(self, status: str, text: str, seconds: float) -> None:
        """Keep them."""
        super().__init__(text)
        self.status, self.seconds = status, seconds


class Process:
    """One child process with an implementation, or none yet, in it."""

    def __init__(self, env: Mapping[str, str]) -> None:
        """Start it, and read what it sends and prints in threads."""
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [sys.executable, str(START), str(LIBRARY)], stdin=pipe, stdout=pipe, stderr=pipe,
            env={**os.environ, **env}, start_new_session=True,
        )  # fmt: skip
        self._replies: queue.Queue[Reply | None] = queue.Queue()
        self._tail = b""
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._receive, self._listen)]
        for thread in self._threads:
            thread.start()

    @property
    def alive(self) -> bool:
        """Say whether it runs."""
        return self._process.poll() is None

    def ask(self, message: Mapping[str, Any], arrays: Mapping[str, np.ndarray], limit_s: float) -> Reply:
        """Return the answer to a message.

        Raises: Ended where none comes within the limit, or the process dies; it is gone then.
        """
        started = time.monotonic()
        try:
            wire.send(self._process.stdin, message, arrays)
            reply = self._answer(started + limit_s)
        except OSError:  # it died before it read all
            reply = None
        except queue.Empty:
            self.end()
            text = f"no answer within {limit_s:.3g} s{self._said()}"
            raise Ended("hang", text, time.monotonic() - started) from None
        if reply is None:
            self.end(GRACE_S)
            raise Ended("crash", f"{self._cause()}{self._said()}", time.monotonic() - started)
        return reply

    def _answer(self, until: float) -> Reply | None:
        """Return the next answer, None if the process died, though its own children may hold the pipe.

        Raises: queue.Empty where none comes in time.
        """
        while True:
            left = until - time.monotonic()
            try:
                return self._replies.get(timeout=max(0.0, min(left, SLICE_S)))
            except queue.Empty:
                if not self.alive:
                    return None
                if left <= SLICE_S:
                    raise

    def end(self, grace_s: float = 0.0) -> None:
        """End the process and what it started, after it had some time to end by itself."""
        if grace_s:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(grace_s)
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        elif self.alive:
            self._process.kill()
        self._process.wait()
        for thread in self._threads:
            thread.join(GRACE_S)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(OSError):
                stream.close()

    def _receive(self) -> None:
        """Put every answer into the queue, and None at the end."""
        with contextlib.suppress(EOFError, OSError, ValueError):
            while True:
                self._replies.put(wire.receive(self._process.stdout))
        self._replies.put(None)

    def _listen(self) -> None:
        """Hand on what the process prints, and keep the last of it."""
        with contextlib.suppress(OSError, ValueError):
            while part := self._process.stderr.read1(1 << 16):
                self._tail = (self._tail + part)[-TAIL:]
                if sys.stderr is not None:
                    sys.stderr.write(part.decode(errors="replace"))

    def _cause(self) -> str:
        """Return how the process ended."""
        code = self._process.returncode
        names = {number.value: number.name for number in signal.Signals}
        if code < 0:
            return f"killed by {names.get(-code, f'signal {-code}')}"
        return f"the process ended with exit status {code}"

    def _said(self) -> str:
        """Return where the process was, if it could say so, else the last lines that it printed."""
        text = self._tail.decode(errors="replace")
        stack = STACK.findall(text[text.rfind("most recent call first") :]) if "Fatal Python" in text else []
        own = [frame for frame in stack if not frame[0].startswith(LIBRARIES)] or stack
        if own:
            file, line, name = own[0]
            return f" ({Path(file).name} line {line} in {name})"
        lines = [line.strip()[:200] for line in text.splitlines() if line.strip()][-LINES:]
        return f"; last printed: {' | '.join(lines)}" if lines else ""
