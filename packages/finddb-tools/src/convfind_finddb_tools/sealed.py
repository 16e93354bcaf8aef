"""Foreign values: unsealed and checked, so that what they hold can be relied on."""

from __future__ import annotations

from convfind.finddb.key import unseal
from convfind_finddb_tools.miopen_text import is_record


def open_foreign(key: bytes, sealed: bytes) -> bytes | None:
    """Return the text of a foreign record, None where it is damaged or no such record."""
    values = unseal(key, sealed)
    name = key.rpartition(b"|")[2]
    return values if values is not None and is_record(name, values) else None
