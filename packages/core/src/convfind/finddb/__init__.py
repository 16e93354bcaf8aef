"""The find database: what was measured, tuned, built and quarantined, remembered on disk."""

from __future__ import annotations

from convfind.finddb.binary_store import BinaryStore, Gathered
from convfind.finddb.database import FindDb
from convfind.finddb.degradation import FindDbWarning
from convfind.finddb.merge import StoredEntry
from convfind.finddb.record import FindEntry, FindRecord, QuarantineRecord, TunedConfig

__all__ = [
    "BinaryStore",
    "FindDb",
    "FindDbWarning",
    "FindEntry",
    "FindRecord",
    "Gathered",
    "QuarantineRecord",
    "StoredEntry",
    "TunedConfig",
]
