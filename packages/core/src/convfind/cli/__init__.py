"""The program ``convfind``: one file a command."""

from __future__ import annotations

from convfind.cli.program import build_program, main

__all__ = ["build_program", "main"]
