"""`Change`: the values of a file within one transaction that changes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import lmdb

from convfind.finddb.environment import Transaction

#: Reads the sealed value under a key of a sub-database; None where it is missing.
Get: TypeAlias = Callable[[str, bytes], bytes | None]


class Change:
    """Sealed values by sub-database and stored key. Lives as long as its transaction."""

    __slots__ = ("_table", "_transaction")

    def __init__(
        self, table: Callable[[str], lmdb._Database | None], transaction: Transaction
    ) -> None:
        """``table`` gives the handle of each sub-database that is used."""
        self._table = table
        self._transaction = transaction

    def get(self, table: str, key: bytes) -> bytes | None:
        """Read a value; None where it is missing."""
        return self._transaction.get(key, db=self._table(table))

    def put(self, table: str, key: bytes, sealed: bytes) -> None:
        """Write a value in place of an older one."""
        self._transaction.put(key, sealed, db=self._table(table))

    def delete(self, table: str, key: bytes) -> None:
        """Remove a value, where there is one."""
        self._transaction.delete(key, db=self._table(table))
