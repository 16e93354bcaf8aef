"""The entry point: what the package registers with convfind."""

from __future__ import annotations
