"""`Table`: a sub-database whose values have one type."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from convfind.finddb.change import Change, Get
from convfind.finddb.key import seal, unseal
from convfind.finddb.record import EntryInFile, FindEntry, QuarantineRecord, TunedConfig
from convfind.finddb.roster import enrol, members

T = TypeVar("T")

_encoder = msgspec.msgpack.Encoder()


class Table(Generic[T]):
    """Name of a sub-database and the coding of its values. Immutable."""

    def __init__(self, name: str, kind: type[T]) -> None:
        self.name = name
        self._decoder = msgspec.msgpack.Decoder(kind)

    def pack(self, key: bytes, value: T, change: Change) -> bytes:
        """Encode a value for storage under a key, in the change that stores it."""
        return seal(key, self.encode(value, change))

    def encode(self, value: T, change: Change) -> bytes:
        """Encode a value without the seal that ties it to a key."""
        return _encoder.encode(value)

    def unpack(self, key: bytes, sealed: bytes | None, get: Get) -> T | None:
        """Decode a stored value of a file that ``get`` reads; a missing or damaged one is None."""
        payload = None if sealed is None else unseal(key, sealed)
        if payload is None:
            return None
        try:
            return self._decoder.decode(payload)
        except (msgspec.MsgspecError, RecursionError):
            return None


class EntryTable(Table[FindEntry]):
    """The sub-database of entries, whose considered solvers lie in rosters."""

    def __init__(self, name: str) -> None:
        super().__init__(name, FindEntry)
        self._in_file = Table(name, EntryInFile)

    def encode(self, value: FindEntry, change: Change) -> bytes:
        """Encode an entry, and write the roster that it needs."""
        roster, bits = enrol(value.considered, change)
        entry = EntryInFile(records=value.records, roster=roster, bits=bits)
        return self._in_file.encode(entry, change)

    def unpack(self, key: bytes, sealed: bytes | None, get: Get) -> FindEntry | None:
        """Decode an entry; where its roster is lost, no solver was considered."""
        found = self._in_file.unpack(key, sealed, get)
        if found is None:
            return None
        considered = found.considered or members(get, found.roster, found.bits)
        return FindEntry(records=found.records, considered=considered)


FIND = EntryTable("find")
CONFIG = Table("config", tuple[TunedConfig, ...])
QUARANTINE = Table("quarantine", tuple[QuarantineRecord, ...])
