"""`Apart`: contestants in a process of their own, where no other's threads and libraries are."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from peers.timing import Contestant

#: Makes contestants, and what else is to be known of them, which has to be picklable.
Make = Callable[..., tuple[Sequence[Contestant], Any]]


class Apart:
    """Contestants that a function makes in a new process; they are timed when they are asked.

    Attributes:
        contestants: those that ask the others.
        facts: what the function returned beside them.
    """

    def __init__(self, make: Make, *arguments: Any) -> None:
        """Start the process and wait until all is made. Raises what the function raises."""
        context = multiprocessing.get_context("spawn")
        self._asking, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, make, arguments))
        self._process.start()
        theirs.close()
        try:
            made, self.facts = self._answer()
        except BaseException:
            self.close()
            raise
        self.contestants = [
            Contestant(name, bound, partial(self._time_ms, at), spin_s)
            for at, (name, bound, spin_s) in enumerate(made)
        ]

    def close(self) -> None:
        """End the process."""
        self._asking.close()
        self._process.join(10)
        self._process.kill()

    def _time_ms(self, at: int, calls: int) -> float:
        self._asking.send((at, calls))
        milliseconds: float = self._answer()
        return milliseconds

    def _answer(self) -> Any:
        answer, error = self._asking.recv()
        if error is not None:
            raise error
        return answer


def _serve(asked: Connection, make: Make, arguments: tuple[Any, ...]) -> None:
    """Make contestants and time them until nobody asks any more."""
    with suppress(EOFError, BrokenPipeError):
        try:
            contestants, facts = make(*arguments)
            asked.send((([(one.name, one.bound, one.spin_s) for one in contestants], facts), None))
            while True:
                at, calls = asked.recv()
                asked.send((contestants[at].time_ms(calls), None))
        except Exception as error:
            if isinstance(error, EOFError | BrokenPipeError):
                raise
            asked.send((None, error))
