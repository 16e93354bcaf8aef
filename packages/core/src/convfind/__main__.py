"""``python -m convfind`` is the program ``convfind``."""

from __future__ import annotations

from convfind.cli import main

main()
