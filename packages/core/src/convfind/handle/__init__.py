"""An open device in the hands of a user."""

from __future__ import annotations

from convfind.handle.handle import Handle

__all__ = ["Handle"]
