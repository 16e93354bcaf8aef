"""Foreign values: unsealed and checked, so that what they hold can be relied on."""

from __future__ import annotations

from convfind.finddb.key import unseal
from convfind_finddb_tools.database import FOREIGN
from convfind_finddb_tools.text_kinds import KINDS


def open_foreign(key: bytes, sealed: bytes, table: str = FOREIGN) -> bytes | None:
    """Return the text of a foreign record, None where it is damaged or no such record."""
    values = unseal(key, sealed)
    name = key.rpartition(b"|")[2]
    return values if values is not None and KINDS[table].is_record(name, values) else None
