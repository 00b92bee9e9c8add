"""The side of the child: it loads an implementation and answers messages until its input ends."""

import faulthandler
import os
import sys
from pathlib import Path
from typing import Any, BinaryIO

from .loading import CannotRun, load
from .session import Session
from .wire import receive, send


def private_streams() -> tuple[BinaryIO, BinaryIO]:
    """Take standard input and output for messages; what the implementation prints goes to standard error."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout.reconfigure(line_buffering=True)
    return requests, replies


def set_path(library: str) -> None:
    """Search the current folder first, and the library last; never the folder of these modules."""
    here = Path(__file__).resolve().parent
    sys.path[:] = [os.getcwd(), *(place for place in sys.path if not place or Path(place).resolve() != here)]
    if library not in sys.path:
        sys.path.append(library)


def serve(library: str) -> None:
    """Answer "load", "describe", "rows" and "run" in turn."""
    requests, replies = private_streams()
    faulthandler.enable()
    set_path(library)
    session: Session | None = None
    while True:
        try:
            message, given = receive(requests)
        except EOFError:
            return
        try:
            if message["do"] == "load":
                sys.argv[:] = [message["target"]]
                session = Session(*load(message["target"]))
                send(replies, {})
            else:
                _answer(session, message, given, replies)
        except CannotRun as error:
            send(replies, {"cannot": str(error)})
        except Exception as error:
            send(replies, {"failed": f"{type(error).__name__}: {error}"})


def _answer(session: Any, message: dict[str, Any], given: dict[str, Any], replies: BinaryIO) -> None:
    """Answer one message of a loaded implementation."""
    if message["do"] == "describe":
        send(replies, session.describe())
    elif message["do"] == "rows":
        send(replies, {}, {"rows": session.rows(message["N"], message["M"], message["query_start"])})
    else:
        reply, runs = session.run(message["told"], given)
        answers = {f"{number}/{name}": x for number, run in enumerate(runs) for name, x in run.items()}
        send(replies, {**reply, "runs": len(runs)}, answers)
