"""The program ``convfind``: one file a command."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NoReturn

from convfind.starting import INTERRUPTED, EndedAtOnce

if TYPE_CHECKING:
    from convfind.cli.program import build_program

__all__ = ["build_program", "main"]


def __getattr__(name: str) -> Any:
    if name == "build_program":
        from convfind.cli.program import build_program

        return build_program
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)


def main() -> NoReturn:
    """Run the program on the process's arguments, environment and installed plugins."""
    try:
        with EndedAtOnce():
            from convfind.cli.interruption import end_when_interrupted
            from convfind.cli.program import main as run

        end_when_interrupted()
        run()
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
