"""`Change`: the values of a file within one transaction that changes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import lmdb

from convfind.finddb.environment import Transaction

#: Reads the sealed value under a key of a sub-database; None where it is missing.
Get: TypeAlias = Callable[[str, bytes], bytes | None]


class Change:
    """Sealed values by sub-database and stored key. Lives as long as its transaction.

    In a file whose keys damage has put out of order LMDB may put a value where it does not find
    it, or find an older one behind one that was removed. Each change is therefore looked at, before
    it is made.
    """

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
        """Write a value in place of an older one.

        Raises:
            lmdb.CorruptedError: it cannot be read back.
        """
        self._transaction.put(key, sealed, db=self._table(table))
        self._expect(table, key, sealed)

    def delete(self, table: str, key: bytes) -> None:
        """Remove a value, where there is one.

        Raises:
            lmdb.CorruptedError: there is another one under the same key.
        """
        self._transaction.delete(key, db=self._table(table))
        self._expect(table, key, None)

    def _expect(self, table: str, key: bytes, sealed: bytes | None) -> None:
        if self.get(table, key) != sealed:
            msg = f"keys of {table} are out of order"
            raise lmdb.CorruptedError(msg)
