"""The logger ``convfind``, silent unless a program, or CONVFIND_LOG_LEVEL, asks for messages."""

from __future__ import annotations

import logging
import sys

logger = logging.getLogger("convfind")
logger.addHandler(logging.NullHandler())


class _StderrHandler(logging.Handler):
    """One line a message, to whatever standard error is at that time: progress bars redirect it."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr)


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return f"{record.levelname.lower()}: {super().format(record)}"


def show_messages(level: int | str) -> None:
    """Write messages from this level on, such as ``"info"``, to standard error.

    A second call changes the level.
    """
    if not any(isinstance(handler, _StderrHandler) for handler in logger.handlers):
        handler = _StderrHandler()
        handler.setFormatter(_Formatter("%(message)s"))
        logger.addHandler(handler)
    logger.setLevel(level.upper() if isinstance(level, str) else level)
