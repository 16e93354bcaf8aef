"""A database's records for one problem on one device, convfind's and MIOpen's in one form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from convfind.finddb.evidence import is_noisy
from convfind.finddb.record import FindEntry, FindRecord
from convfind.finddb.table import FIND
from convfind_finddb_tools.database import FOREIGN, FOREIGN_CONFIG, Snapshot
from convfind_finddb_tools.miopen_text import results
from convfind_finddb_tools.sealed import open_foreign

_DIRECTIONS = {"F": "fwd", "B": "bwd-data", "W": "bwd-weights"}
_TYPES = {"FP32": "float32", "FP16": "float16", "BF16": "bfloat16", "FP64": "float64"}


@dataclass(frozen=True, slots=True)
class Traits:
    """Properties of a key's problem, read without parsing all of it."""

    direction: str
    dtype: str
    layout: str  # of x


@dataclass(frozen=True, slots=True)
class Measured:
    """The record of one solver; times in milliseconds, sizes in bytes."""

    solver: str
    algorithm: str
    time_ms: float
    workspace: int
    record: FindRecord | None = None  # everything known about it, where it is ours

    @property
    def is_noisy(self) -> bool:
        """True where its samples are known to differ too much."""
        return self.record is not None and is_noisy(self.time_ms, self.record.spread_ms)


@dataclass(frozen=True, slots=True)
class Entry:
    """All records for one problem on one device, in the order of the database."""

    origin: str  # "convfind" or "miopen"
    device: str
    problem: str
    traits: Traits
    results: tuple[Measured, ...]
    considered: tuple[str, ...] = ()  # "id@version": whom searches decided about, where it is ours

    @property
    def winner(self) -> Measured | None:
        """The fastest record; MIOpen's zero times are defects and never win."""
        timed = [result for result in self.results if result.time_ms > 0]
        return min(timed, key=lambda result: (result.time_ms, result.solver), default=None)


def split_key(key: bytes) -> tuple[str, str]:
    """Return device and problem of a full key."""
    rest, _, problem = key.decode(errors="replace").rpartition("|")
    return rest.partition("|")[2], problem


def first_keys(snapshot: Snapshot, table: str) -> Iterator[bytes]:
    """The first key of each device in a sub-database, without reading what is between."""
    start = b""
    while (key := next((key for key, _ in snapshot.items_from(table, start)), None)) is not None:
        yield key
        start = key.rpartition(b"|")[0] + b"}"  # the next character after "|"


def own_traits(problem: str) -> Traits:
    """Read the traits from a network config."""
    head = problem.partition("_")[0]
    shapes, layout, dtype, *_ = (*head.rsplit("-", 2), "?", "?")
    direction = next((word for word in _DIRECTIONS.values() if shapes.startswith(word)), "?")
    return Traits(direction, dtype, layout)


def foreign_traits(problem: str) -> Traits:
    """Read the traits from a MIOpen key."""
    fields = problem.partition("_")[0].rsplit("-", 5)
    direction, word = fields[-1], fields[-2]
    layouts = fields[1:-2] if fields[1].isalpha() else fields[-3:-2]
    layout = layouts[-1] if direction in "BW" else layouts[0]
    return Traits(_DIRECTIONS.get(direction, "?"), _TYPES.get(word, word.lower()), layout)


def perf_traits(problem: str) -> Traits:
    """Read the traits from a key of MIOpen's perf-db."""
    *_, layout, word, direction = ("?", "?", *problem.split("x"))
    return Traits(_DIRECTIONS.get(direction, "?"), _TYPES.get(word, word.lower()), layout)


def traits_of(table: str, problem: str) -> Traits:
    """Read the traits from the problem in a key of a sub-database."""
    read = {FOREIGN: foreign_traits, FOREIGN_CONFIG: perf_traits}.get(table, own_traits)
    return read(problem)


def own_entry(key: bytes, found: FindEntry) -> Entry:
    """Bring a find entry of convfind into the common form."""
    device, problem = split_key(key)
    measured = tuple(
        Measured(record.solver, record.algorithm, record.time_ms, record.workspace, record)
        for record in found.records
    )
    return Entry("convfind", device, problem, own_traits(problem), measured, found.considered)


def foreign_entry(key: bytes, values: bytes) -> Entry:
    """Bring a record of MIOpen into the common form."""
    device, problem = split_key(key)
    measured = tuple(
        Measured(result.solver, result.family, result.time_ms, result.workspace)
        for result in results(values)
    )
    return Entry("miopen", device, problem, foreign_traits(problem), measured)


def own_entries(snapshot: Snapshot, prefix: bytes = b"") -> Iterator[Entry]:
    """Read convfind's own find records; damaged ones are left out."""
    for key, sealed in snapshot.items(FIND.name, prefix):
        found = FIND.unpack(key, sealed, snapshot.get)
        if found is not None:
            yield own_entry(key, found)


def foreign_entries(snapshot: Snapshot, prefix: bytes = b"") -> Iterator[Entry]:
    """Read MIOpen's records; damaged ones are left out."""
    for key, sealed in snapshot.items(FOREIGN, prefix):
        values = open_foreign(key, sealed)
        if values is not None:
            yield foreign_entry(key, values)
