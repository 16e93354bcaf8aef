"""`Table`: a sub-database whose values have one type."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from convfind.finddb.key import seal, unseal
from convfind.finddb.record import FindEntry, QuarantineRecord, TunedConfig

T = TypeVar("T")

_encoder = msgspec.msgpack.Encoder()


class Table(Generic[T]):
    """Name of a sub-database and the coding of its values. Immutable."""

    def __init__(self, name: str, kind: type[T]) -> None:
        self.name = name
        self._decoder = msgspec.msgpack.Decoder(kind)

    def pack(self, key: bytes, value: T) -> bytes:
        """Encode a value for storage under a key."""
        return seal(key, _encoder.encode(value))

    def unpack(self, key: bytes, sealed: bytes | None) -> T | None:
        """Decode a stored value; a missing or damaged one is None."""
        payload = None if sealed is None else unseal(key, sealed)
        if payload is None:
            return None
        try:
            return self._decoder.decode(payload)
        except (msgspec.MsgspecError, RecursionError):
            return None


FIND = Table("find", FindEntry)
CONFIG = Table("config", tuple[TunedConfig, ...])
QUARANTINE = Table("quarantine", tuple[QuarantineRecord, ...])
