"""The child process that compiles: a loop over requests on standard input. Run as a script.

hiprtc may end the process, as its older versions do over an instruction set that they do not know;
nobody but this child is hurt. Messages are msgpack, each behind its length in four bytes.
Request: [source, name, options]; reply: [code object or empty, log].
"""

from __future__ import annotations

import os
import struct
import sys
from typing import IO, Any

import msgspec

_LENGTH = struct.Struct("<I")


def send(stream: IO[bytes], message: object) -> None:
    """Write a message."""
    data = msgspec.msgpack.encode(message)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Read a message. Raises `EOFError` where the other side is gone."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (length,) = _LENGTH.unpack(head)
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return msgspec.msgpack.decode(data)


def compile_source(source: str, name: str, options: list[str]) -> tuple[bytes, str]:
    """Return a code object, empty where the source does not compile, and the compiler's log."""
    from hip import hiprtc

    def checked(result: tuple[Any, ...], call: str) -> Any:
        if result[0]:
            msg = f"error: {call} failed with {result[0].name}"
            raise RuntimeError(msg)
        return result[1] if len(result) > 1 else None

    created = hiprtc.hiprtcCreateProgram(source.encode(), name.encode(), 0, None, None)
    program = checked(created, "hiprtcCreateProgram")
    try:
        words = [word.encode() for word in options]
        (status,) = hiprtc.hiprtcCompileProgram(program, len(words), words)
        log = _log(hiprtc, program)
        if status:
            return b"", log or f"error: hiprtcCompileProgram failed with {status.name}"
        code = bytearray(checked(hiprtc.hiprtcGetCodeSize(program), "hiprtcGetCodeSize"))
        checked(hiprtc.hiprtcGetCode(program, code), "hiprtcGetCode")
        return bytes(code), log
    finally:
        program_again = hiprtc.hiprtcDestroyProgram(program.createRef())
        checked(program_again, "hiprtcDestroyProgram")


def _log(hiprtc: Any, program: Any) -> str:
    status, size = hiprtc.hiprtcGetProgramLogSize(program)
    if status or not size:
        return ""
    log = bytearray(size)
    (status,) = hiprtc.hiprtcGetProgramLog(program, log)
    return "" if status else log.rstrip(b"\0").decode(errors="replace")


def main() -> None:
    """Serve until the parent closes the pipe."""
    requests = sys.stdin.buffer
    # The compiler may print; only replies go to the parent.
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    while True:
        try:
            source, name, options = receive(requests)
        except EOFError:
            return
        try:
            reply = compile_source(source, name, options)
        except (RuntimeError, OSError, ImportError) as exc:
            reply = (b"", f"error: {exc}")
        send(replies, reply)


if __name__ == "__main__":
    main()
