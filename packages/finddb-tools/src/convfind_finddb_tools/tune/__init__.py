"""Tuning many problems: on one device, on several, on a cluster, or replayed."""

from __future__ import annotations
