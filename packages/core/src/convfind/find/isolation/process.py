"""`Process`: one life of a child; a thread of the parent hears its answers, and how it ends."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from concurrent.futures import Future
from contextlib import suppress
from signal import Signals
from typing import Any

from convfind.errors import ConvfindError
from convfind.find.isolation import wire
from convfind.find.isolation.wire import ForeignError

_MAIN = "import sys; sys.path[:] = {path!r}; from {module} import main; main({parent})"
_SERVER = "convfind.find.isolation.server"
_LAST_WAIT = 2.0  # seconds in which a child without requests may end by itself


class EndedError(ConvfindError):
    """The child ended before it answered; the text says how."""


class OverdueError(EndedError):
    """The child did not answer in time, and was ended."""


class Process:
    """A child that runs from the beginning to its first end."""

    def __init__(self) -> None:
        """Start it. Raises `OSError` where there is no interpreter to run."""
        self._serials = itertools.count()
        self._answers: dict[int, Future[Any]] = {}
        self._lock = threading.Lock()
        self._has_ended = self._is_killed = False
        self._owner = os.getpid()
        started: Future[subprocess.Popen[bytes]] = Future()
        # The thread that hears the child has started it, too: systems may end a child together
        # with the thread that it comes from.
        threading.Thread(target=self._hear, args=(started,), daemon=True).start()
        self._process = started.result()

    @property
    def is_alive(self) -> bool:
        """False once it is ended, and in a process that was forked from its parent."""
        return not (self._has_ended or self._is_killed) and self._owner == os.getpid()

    @property
    def pid(self) -> int:
        """The number that the system knows it by."""
        return self._process.pid

    def ask(self, method: str, arguments: tuple[object, ...]) -> Future[Any]:
        """Send a request and return its answer to come; an `EndedError` where the child ends.

        Raises `ForeignError` for arguments that no other process can have.
        """
        serial = next(self._serials)
        message = serial, method, wire.packed(arguments)
        answer: Future[Any] = Future()
        assert self._process.stdin is not None
        with self._lock:
            if self._has_ended:
                answer.set_exception(EndedError("it had ended"))
                return answer
            self._answers[serial] = answer
            with suppress(OSError):  # the thread that hears it knows more
                wire.send(self._process.stdin, message)
        return answer

    def kill(self) -> None:
        """End it, whatever it does; all answers to come are an `EndedError`."""
        self._is_killed = True
        self._process.kill()

    def close(self) -> None:
        """Let it end: by itself where it is idle."""
        if self._owner != os.getpid():
            return
        if self._answers:
            self.kill()
        assert self._process.stdin is not None
        with suppress(OSError):  # what was not written cannot be any more
            self._process.stdin.close()
        try:
            self._process.wait(_LAST_WAIT)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()

    def _hear(self, started: Future[subprocess.Popen[bytes]]) -> None:
        path = [entry for entry in sys.path if isinstance(entry, str)]  # as importing has it
        main = _MAIN.format(path=path, module=_SERVER, parent=os.getpid())
        try:
            process = subprocess.Popen(
                [sys.executable or "python", "-c", main],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        except OSError as error:
            started.set_exception(error)
            return
        started.set_result(process)
        assert process.stdout is not None
        with process.stdout:
            while True:
                try:
                    serial, is_right, answer = wire.receive(process.stdout)
                except (EOFError, OSError, ValueError):
                    break
                with self._lock:
                    waiting = self._answers.pop(serial)
                if waiting.set_running_or_notify_cancel():
                    _settle(waiting, is_right, answer)
        self._mourn(process)

    def _mourn(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()  # where it has only closed its end
        ending = _ending(process.wait())
        with self._lock:
            self._has_ended = True
            orphans, self._answers = self._answers, {}
        for waiting in orphans.values():
            if waiting.set_running_or_notify_cancel():
                waiting.set_exception(EndedError(ending))


def _settle(waiting: Future[Any], is_right: bool, answer: bytes) -> None:
    try:
        value = wire.unpacked(answer)
    except ForeignError as error:
        is_right, value = False, error
    if is_right:
        waiting.set_result(value)
    else:
        waiting.set_exception(value)


def _ending(status: int) -> str:
    """Say how a process ended."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return Signals(-status).name
    except ValueError:
        return f"signal {-status}"
