"""`CompilePool`: child processes that compile, kept for the next program."""

from __future__ import annotations

import atexit
import subprocess
import sys
import tempfile
from pathlib import Path
from signal import Signals
from threading import Lock
from typing import IO

from convfind_backend_hip import compile_worker

_SCRIPT = Path(compile_worker.__file__)
_LAST_WORDS = 2000


class CompilerDiedError(Exception):
    """The child process ended instead of answering; the text says how."""


class _Worker:
    """One child process, for one thread at a time."""

    def __init__(self) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives with the process
        # -P: the script's folder holds this package's modules, which are nobody else's.
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(_SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )

    def compile(self, source: str, name: str, options: tuple[str, ...]) -> tuple[bytes, str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            compile_worker.send(self._process.stdin, (source, name, options))
            code, log = compile_worker.receive(self._process.stdout)
        except (EOFError, OSError) as exc:
            raise CompilerDiedError(self._last_words()) from exc
        return code, log

    def close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.wait()
        self._errors.close()

    def _last_words(self) -> str:
        status = self._process.wait()
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip()[-_LAST_WORDS:]
        self._discard()
        ending = Signals(-status).name if status < 0 else f"status {status}"
        return f"the compiler process ended with {ending}" + (f": {said}" if said else "")

    def _discard(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:  # what was not written cannot be any more
                    continue
        self._errors.close()


class CompilePool:
    """As many processes as callers at a time; idle ones wait for the next program."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._idle: list[_Worker] = []

    def compile(self, source: str, name: str, options: tuple[str, ...]) -> tuple[bytes, str]:
        """Return a code object, empty where the source does not compile, and the log.

        Raises `CompilerDiedError` where the compiler takes its process with it.
        """
        with self._lock:
            worker = self._idle.pop() if self._idle else None
        worker = worker or _Worker()
        reply = worker.compile(source, name, options)
        with self._lock:
            self._idle.append(worker)
        return reply

    def close(self) -> None:
        """End the idle processes."""
        with self._lock:
            workers, self._idle = self._idle, []
        for worker in workers:
            worker.close()


#: The pool of this process.
shared_pool = CompilePool()
atexit.register(shared_pool.close)
