"""The HIP backend of convfind: AMD GPUs through hip-python."""

from __future__ import annotations

from convfind_backend_hip.backend import HipBackend

__all__ = ["HipBackend"]
