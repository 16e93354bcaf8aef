"""The words between a process and its child: pickled, each behind its length."""

from __future__ import annotations

import pickle
import struct
from typing import IO, Any

from convfind.errors import ConvfindError

_LENGTH = struct.Struct("<Q")


class ForeignError(ConvfindError):
    """Something that only the process knows where it was made."""


def send(stream: IO[bytes], message: object) -> None:
    """Write a message."""
    data = pickle.dumps(message)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Read a message. Raises `EOFError` where the other side is gone."""
    (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    return pickle.loads(_exactly(stream, length))


def packed(value: object) -> bytes:
    """Pickle something of anybody's. Raises `ForeignError`."""
    try:
        return pickle.dumps(value)
    except Exception as error:
        raise ForeignError(f"cannot be sent it: {error}") from error


def unpacked(data: bytes) -> Any:
    """Unpickle something of anybody's. Raises `ForeignError`."""
    try:
        return pickle.loads(data)
    except Exception as error:
        raise ForeignError(f"does not know it: {error}") from error


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data
