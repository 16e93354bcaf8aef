"""The logger ``convfind``, silent unless a program, or CONVFIND_LOG_LEVEL, asks for messages."""

from __future__ import annotations

import logging

logger = logging.getLogger("convfind")
logger.addHandler(logging.NullHandler())

_HANDLER_NAME = "convfind-stderr"


def show_messages(level: int | str) -> None:
    """Write messages from this level on to standard error; a second call changes the level."""
    if not any(handler.get_name() == _HANDLER_NAME for handler in logger.handlers):
        from rich.console import Console
        from rich.logging import RichHandler

        handler = RichHandler(
            console=Console(stderr=True), show_time=False, show_path=False, markup=False
        )
        handler.set_name(_HANDLER_NAME)
        handler.setFormatter(logging.Formatter("%(message)s"))
        logger.addHandler(handler)
    logger.setLevel(level)
