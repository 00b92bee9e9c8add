"""Messages between two processes: JSON and the bytes of arrays, each with its length. Nothing is pickled."""

import json
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np

LENGTH = struct.Struct(">Q")
KINDS = "biuf"
NOTHING: Mapping[str, np.ndarray] = {}


def send(stream: BinaryIO, message: Mapping[str, Any], arrays: Mapping[str, np.ndarray] = NOTHING) -> None:
    """Write a message and its arrays.

    Raises: TypeError for an array of objects or texts, or a message that JSON does not hold.
    """
    held = {name: np.asarray(x) for name, x in arrays.items()}
    for name, x in held.items():
        if x.dtype.kind not in KINDS:
            raise TypeError(f"{name}: expected an array of numbers, got {x.dtype}")
    listed = [[name, x.dtype.str, list(x.shape)] for name, x in held.items()]
    header = json.dumps({"message": message, "arrays": listed}, default=_plain).encode()
    stream.write(LENGTH.pack(len(header)) + header)
    for x in held.values():
        stream.write(x.tobytes())
    stream.flush()


def receive(stream: BinaryIO) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read a message and its arrays, which may be written to.

    Raises: EOFError where the other side is gone.
    """
    header = json.loads(_exactly(stream, LENGTH.unpack(_exactly(stream, LENGTH.size))[0]))
    arrays = {}
    for name, dtype, shape in header["arrays"]:
        x = np.empty(shape, dtype=np.dtype(dtype))
        x.reshape(-1).view(np.uint8)[:] = np.frombuffer(_exactly(stream, x.nbytes), dtype=np.uint8)
        arrays[name] = x
    return header["message"], arrays


def _plain(x: Any) -> Any:
    """Return a number of NumPy as one of Python."""
    if isinstance(x, np.generic):
        return x.item()
    raise TypeError(f"message: expected what JSON holds, got {type(x).__name__}")


def _exactly(stream: BinaryIO, size: int) -> bytes:
    """Read that many bytes."""
    parts, left = [], size
    while left:
        part = stream.read(left)
        if not part:
            raise EOFError(f"expected {left} more bytes, got the end")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
