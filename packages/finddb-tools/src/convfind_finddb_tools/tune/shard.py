"""`Shard`: the database of one worker, in which a result and the mark "finished" are one commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lmdb
import msgspec

from convfind.finddb.change import Change
from convfind.finddb.database import FILE_NAME
from convfind.finddb.database_file import make_private_folder
from convfind.finddb.environment import (
    CORRUPT,
    Environment,
    Layout,
    Transaction,
    acquire,
    release,
)
from convfind.finddb.file_check import fault, folder_lock
from convfind.finddb.key import SCHEMA, full_key, seal, stored_key, unseal
from convfind.finddb.table import CONFIG, FIND, QUARANTINE
from convfind_finddb_tools.database import LAYOUT
from convfind_finddb_tools.joining import join_into
from convfind_finddb_tools.tune.order import Known, Outcome

_FINISHED = "finished"  # outcomes without what was found, which lies where every database has it
_LAYOUT = Layout(tables=(*LAYOUT.tables, _FINISHED), schema=LAYOUT.schema)
_MAP_SIZE = 64 << 20

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Outcome)


class Shard:
    """A worker's own find database, readable by every tool. Only its worker writes to it."""

    def __init__(self, folder: Path) -> None:
        """Open or create it. Raises `OSError` or `lmdb.Error` where that is impossible."""
        self.path = folder / FILE_NAME
        make_private_folder(folder)
        with folder_lock(folder):
            self._environment = acquire(self.path, _LAYOUT, writable=True, map_size=_MAP_SIZE)

    def commit(self, outcomes: Sequence[Outcome]) -> None:
        """Write results and that they are finished, all or nothing, to the disk."""

        def work(transaction: Transaction) -> None:
            change = Change(self._environment.table, transaction)
            for outcome in outcomes:
                for table, key, value in values(outcome):
                    join_into(change, table, key, value)
                name = _name(outcome)
                mark = msgspec.structs.replace(outcome, found=Known())
                change.put(_FINISHED, stored_key(name), seal(name, _encoder.encode(mark)))

        self._environment.write(work)

    def close(self) -> None:
        """Let go of the file."""
        release(self._environment)


def values(outcome: Outcome) -> Iterator[tuple[str, bytes, Any]]:
    """Table, key and value of everything that an outcome has for a database."""
    key = f"{SCHEMA}|{outcome.identity.device}|{outcome.problem}".encode()
    found = outcome.found
    if found.entry is not None:
        yield FIND.name, key, found.entry
    if found.configs:
        yield CONFIG.name, key, found.configs
    if found.quarantine:
        yield QUARANTINE.name, key, found.quarantine


@dataclass(frozen=True, slots=True)
class ShardReading:
    """The outcomes in a shard; ``damage`` says why there may be more than could be read."""

    outcomes: tuple[Outcome, ...] = ()
    damage: str = ""


def read_shard(path: Path) -> ShardReading:
    """Read what a worker, alive or dead, finished."""
    problem = fault(path)
    if problem is not None:
        return ShardReading(damage=f"{path}: {problem}")
    try:
        # As its worker opens it, because this process may be the worker.
        environment = acquire(path, _LAYOUT, writable=True, map_size=_MAP_SIZE)
    except (*CORRUPT, lmdb.Error, OSError) as exc:
        return ShardReading(damage=f"{path}: {exc}")
    try:
        return ShardReading(
            environment.read(lambda reading: tuple(_outcomes(environment, reading)))
        )
    except (*CORRUPT, lmdb.Error) as exc:
        return ShardReading(damage=f"{path}: {exc}")
    finally:
        release(environment)


def _outcomes(environment: Environment, reading: Transaction) -> Iterator[Outcome]:
    finished = environment.table(_FINISHED)
    assert finished is not None

    def get(table: str, key: bytes) -> bytes | None:
        return reading.get(key, db=environment.table(table))

    for stored, sealed in reading.cursor(finished):
        name = full_key(stored, sealed)
        payload = unseal(name, sealed)
        if payload is None:
            continue
        mark = _decoder.decode(payload)
        key = f"{SCHEMA}|{mark.identity.device}|{mark.problem}".encode()

        def read(table: Any, key: bytes = key) -> Any:
            return table.unpack(key, get(table.name, stored_key(key)), get)

        configs, quarantine = read(CONFIG) or (), read(QUARANTINE) or ()
        known = Known(entry=read(FIND), configs=configs, quarantine=quarantine)
        yield msgspec.structs.replace(mark, found=known)


def _name(outcome: Outcome) -> bytes:
    identity = outcome.identity
    return f"{identity.fingerprint}|{identity.device}|{outcome.problem}".encode()
