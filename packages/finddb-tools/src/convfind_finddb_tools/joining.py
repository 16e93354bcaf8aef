"""Joining records of several databases: better evidence wins, whatever the order.

Per problem and solver: a quiet measurement before a noisy one, then more samples, then newer, then
smaller spread. Ties are decided by the lesser time and finally by the bytes of the record, so that
joining is commutative, associative and idempotent: any number of databases, in any order and
however often, give one result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from convfind.finddb.change import Change, Get
from convfind.finddb.evidence import noise
from convfind.finddb.key import seal, stored_key
from convfind.finddb.record import FindEntry, FindRecord, QuarantineRecord, TunedConfig
from convfind.finddb.table import CONFIG, FIND, QUARANTINE, Table
from convfind_finddb_tools.database import FOREIGN, FOREIGN_CONFIG
from convfind_finddb_tools.miopen_text import ForeignResult, results
from convfind_finddb_tools.perf_text import configs
from convfind_finddb_tools.sealed import open_foreign

T = TypeVar("T")
R = TypeVar("R")

_encoder = msgspec.msgpack.Encoder()


@dataclass(frozen=True, slots=True)
class Join(Generic[T]):
    """Reading, writing and joining the values of one sub-database."""

    join: Callable[[T, T], T]
    pack: Callable[[bytes, T, Change], bytes]
    unpack: Callable[[bytes, bytes, Get], T | None]


def join_entries(first: FindEntry, second: FindEntry) -> FindEntry:
    """Join what two databases know about a problem on a device."""
    best = _best((*first.records, *second.records), record_identity, _evidence)
    records = sorted(best, key=_speed)
    considered = sorted({*first.considered, *second.considered})
    return FindEntry(records=tuple(records), considered=tuple(considered))


def join_configs(
    first: tuple[TunedConfig, ...], second: tuple[TunedConfig, ...]
) -> tuple[TunedConfig, ...]:
    """Join tuned configs: of one solver version the newer, then the faster."""
    best = _best(
        (*first, *second),
        lambda tuned: (tuned.solver, tuned.solver_version),
        lambda tuned: (tuned.created, -tuned.time_ms, _bytes(tuned)),
    )
    return tuple(sorted(best, key=_bytes))


def join_quarantines(
    first: tuple[QuarantineRecord, ...], second: tuple[QuarantineRecord, ...]
) -> tuple[QuarantineRecord, ...]:
    """Join quarantines: of one solver version the newer."""
    best = _best(
        (*first, *second),
        lambda record: (record.solver, record.solver_version),
        lambda record: (record.created, _bytes(record)),
    )
    return tuple(sorted(best, key=_bytes))


def join_foreign(first: bytes, second: bytes) -> bytes:
    """Join MIOpen's texts, which hold only times: for each solver the lesser above zero."""
    if first == second:
        return first
    best = _best(
        (*results(first), *results(second)),
        lambda result: result.solver,
        lambda result: _Descending(_foreign_order(result)),
    )
    return ";".join(result.text for result in sorted(best, key=_foreign_order)).encode()


def join_foreign_configs(first: bytes, second: bytes) -> bytes:
    """Join MIOpen's tuned configs, which hold no evidence: the text that sorts last."""
    if first == second:
        return first
    best: dict[str, str] = {}
    for solver, text in (*configs(first), *configs(second)):
        best[solver] = max(text, best.get(solver, text))
    return ";".join(best[solver] for solver in sorted(best)).encode()


def record_identity(record: FindRecord) -> tuple[str, int, bool, int]:
    """Return the fields by which two records are about the same thing, as in convfind itself."""
    return record.solver, record.solver_version, record.constant_weights, record.workspace


def _evidence(record: FindRecord) -> tuple[float, int, int, float, float, bytes]:
    return (
        *(-noise(record), record.samples, record.created),
        *(-record.spread_ms, -record.time_ms, _bytes(record)),
    )


def _speed(record: FindRecord) -> tuple[float, str, int, bytes]:
    return record.time_ms, record.solver, record.solver_version, _bytes(record)


def _foreign_order(result: ForeignResult) -> tuple[bool, float, str]:
    return result.time_ms == 0, result.time_ms, result.text


class _Descending:
    """Reverses an order."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __gt__(self, other: _Descending) -> bool:
        return bool(self.value < other.value)


def _bytes(value: Any) -> bytes:
    return _encoder.encode(value)


def _best(
    records: Iterable[R], identity: Callable[[R], object], evidence: Callable[[R], Any]
) -> list[R]:
    """Return, for each identity, the record with the best evidence."""
    best: dict[object, R] = {}
    for record in records:
        name = identity(record)
        if name not in best or evidence(record) > evidence(best[name]):
            best[name] = record
    return list(best.values())


def _of_table(table: Table[T], join: Callable[[T, T], T]) -> Join[T]:
    return Join(join, table.pack, table.unpack)


def _of_foreign(table: str, join: Callable[[bytes, bytes], bytes]) -> Join[bytes]:
    return Join(
        join,
        lambda key, text, change: seal(key, text),
        lambda key, sealed, get: open_foreign(key, sealed, table),
    )


#: For every sub-database that records lie in.
JOINS: dict[str, Join[Any]] = {
    FIND.name: _of_table(FIND, join_entries),
    CONFIG.name: _of_table(CONFIG, join_configs),
    QUARANTINE.name: _of_table(QUARANTINE, join_quarantines),
    FOREIGN: _of_foreign(FOREIGN, join_foreign),
    FOREIGN_CONFIG: _of_foreign(FOREIGN_CONFIG, join_foreign_configs),
}


def join_into(
    change: Change,
    table: str,
    key: bytes,
    value: Any,
    on_meeting: Callable[[Any, Any], None] = lambda old, new: None,
) -> bool:
    """Join a value into a sub-database; False where nothing changed. A damaged value gives way."""
    join, stored = JOINS[table], stored_key(key)
    sealed = change.get(table, stored)
    old = None if sealed is None else join.unpack(key, sealed, change.get)
    if old is None:
        joined = join.join(value, value)
    else:
        on_meeting(old, value)
        joined = join.join(old, value)
        # In another roster than the newest it is the same too.
        if joined == old and _bytes(joined) == _bytes(old):
            return False
    change.put(table, stored, join.pack(key, joined, change))
    return True
