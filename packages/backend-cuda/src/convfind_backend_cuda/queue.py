"""`Queue`: the order of a device's work, on the stream that its caller works on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from convfind_backend_cuda.context import Context
from convfind_backend_cuda.stream import Event, is_capturing

#: CUDA's default stream, on which PyTorch, CuPy and others work if they are told nothing.
DEFAULT = 0


class Queue:
    """One order of work, on a given stream or on the one that PyTorch works on at the moment.

    Where the stream changes, the new one waits for the old. Work that is captured for a graph
    belongs to its graph alone, and waits for nothing outside.
    """

    def __init__(self, context: Context, number: int, stream: int | None = None) -> None:
        """Make a queue on a stream; None: PyTorch's of the moment, else CUDA's default stream."""
        self.context = context
        #: Address of the stream of the last `follow`.
        self.stream = DEFAULT if stream is None else stream
        self._number = number
        self._ask: Callable[[int], int] | None = None if stream is None else lambda _: stream

    def follow(self) -> int:
        """Return the stream to work on now."""
        ask = self._ask
        if ask is None:
            ask = self._find_torch()
            if ask is None:
                return self.stream
        stream = ask(self._number)
        if stream != self.stream:
            self._move(stream)
        return stream

    @contextmanager
    def moved(self, stream: int) -> Iterator[None]:
        """Let what is enqueued meanwhile go to another stream; nobody waits for anybody."""
        before, self.stream = self.stream, stream
        try:
            yield
        finally:
            self.stream = before

    @property
    def is_capturing(self) -> bool:
        """True where what is enqueued becomes part of a graph, and does not run."""
        return is_capturing(self.follow())

    def _find_torch(self) -> Callable[[int], int] | None:
        torch = sys.modules.get("torch")  # a stream of it can only come from a program that has it
        if torch is None or not torch.cuda.is_initialized():
            return None
        quick = getattr(torch._C, "_cuda_getCurrentRawStream", None)
        self._ask = quick or (lambda number: int(torch.cuda.current_stream(number).cuda_stream))
        return self._ask

    def _move(self, stream: int) -> None:
        with self.context:
            if not is_capturing(stream) and not is_capturing(self.stream):
                reached = Event()
                reached.record(self.stream)
                reached.hold_back(stream)
        self.stream = stream
