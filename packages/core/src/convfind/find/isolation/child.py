"""`Child`: the process beside a session in which candidates run, started when it is needed."""

from __future__ import annotations

import itertools
import threading
import weakref
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

from convfind.errors import DeviceError
from convfind.find.isolation.gate import Gate
from convfind.find.isolation.place import Place
from convfind.find.isolation.process import OverdueError, Process

#: Seconds in which a child opens its device: importing may take long where disks are far away.
_START = 120.0


class Child:
    """A server of benches for one device. A new process takes the place of one that has ended.

    Methods may be called from several threads at once.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._process: Process | None = None
        self._starting = threading.Lock()
        self._life = 0
        self._end: weakref.finalize[..., Any] | None = None
        self.gate = Gate()
        self.numbers = itertools.count()  # of benches and candidates, in all its lives

    @property
    def pid(self) -> int | None:
        """The number of the process, None where none runs."""
        process = self._process
        return process.pid if process is not None and process.is_alive else None

    def life(self) -> int:
        """Return the number of this life, a new one where the last has ended.

        Raises:
            DeviceError: the device cannot be opened in a child; says why.
            EndedError: it ends while it is starting, as `call` has it.
        """
        with self._starting:
            if self._process is None or not self._process.is_alive:
                self._start()
            return self._life

    def call(self, method: str, *arguments: object, limit: float | None) -> Any:
        """Ask for something and wait for the answer, so many seconds at most.

        Raises:
            EndedError: the child ended before it answered.
            OverdueError: it did not answer in time, and was killed.
            Exception: whatever the method raised there.
        """
        self.life()
        process = self._process
        assert process is not None
        return _answer(process, method, arguments, limit)

    def kill(self) -> None:
        """End the process, whatever it does."""
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """End the process."""
        if self._end is not None:
            self._end()

    def _start(self) -> None:
        try:
            process = Process()
        except OSError as error:
            msg = f"no interpreter starts as a child: {error}"
            raise DeviceError(msg) from error
        if self._end is not None:
            self._end()
        self._end = weakref.finalize(self, process.close)
        self._process, self._life = process, self._life + 1
        _answer(process, "open", (self._place,), _START)


def _answer(
    process: Process, method: str, arguments: tuple[object, ...], limit: float | None
) -> Any:
    answer = process.ask(method, arguments)
    try:
        return answer.result(limit)
    except (FutureTimeoutError, CancelledError) as error:
        if answer.done():
            raise
        process.kill()
        msg = f"no answer in {limit:.1f} s"
        raise OverdueError(msg) from error
    except KeyboardInterrupt:
        process.kill()
        raise
