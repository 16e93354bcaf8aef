"""Ctrl-C in the first imports of the program ``convfind``: one line and exit code 130.

convfind's package is imported before any of its modules, the program's included, and takes a while.
An exception raised in an import may be lost in a callback or become an `ImportError`, so that
while there is nothing to close yet the process ends at the signal itself.
"""

from __future__ import annotations

import os
import signal
import sys

# Nothing that takes longer to import: until this module is there, Ctrl-C is Python's.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType

#: Exit code of a process that Ctrl-C ended.
INTERRUPTED = 130


def is_program() -> bool:
    """Return whether this process is the program, by its script or by ``python -m convfind``."""
    words: list[str] = getattr(sys, "argv", None) or [""]  # an embedded interpreter may have none
    if words[0] != "-m":
        return os.path.splitext(os.path.basename(words[0]))[0] == "convfind"
    # Python writes "-m" in place of the path until it has found the module, named just before
    # the arguments: ["python", "-m", "convfind", "find"] becomes ["-m", "find"].
    return sys.orig_argv[-len(words)] in ("convfind", "-mconvfind")


class EndedAtOnce:
    """A block in which Ctrl-C ends the process, unless somebody else handles or ignores it."""

    def __enter__(self) -> None:
        self._end = begin()

    def __exit__(self, *_: object) -> None:
        self._end()


def begin() -> Callable[[], None]:
    """Let Ctrl-C end the process until the function that this returns is called."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return _nothing
    try:
        signal.signal(signal.SIGINT, _end)
    except ValueError:  # not the main thread, which alone sets handlers
        return _nothing

    def end() -> None:
        if signal.getsignal(signal.SIGINT) is _end:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    return end


def begin_program() -> Callable[[], None]:
    """Do so if this process is the program, which from then on also ends without a traceback."""
    if not is_program():
        return _nothing
    shown_before = sys.excepthook

    def show(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        if issubclass(kind, KeyboardInterrupt):
            _end()
        shown_before(kind, error, traceback)

    sys.excepthook = show  # between the imports and the program
    return begin()


def _end(number: int = signal.SIGINT, frame: FrameType | None = None) -> None:
    os.write(2, b"error: interrupted\n")
    os._exit(INTERRUPTED)


def _nothing() -> None:
    pass
