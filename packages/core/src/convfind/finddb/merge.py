"""How records meet: new ones with recorded ones, and the user's with those that packages ship."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from convfind.finddb.record import FindEntry, FindRecord


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """What all layers together know about a problem.

    Attributes:
        entry: records fastest first, and every solver that was considered in any layer.
        from_user: ids of the solvers that have a record in the user's database.
    """

    entry: FindEntry
    from_user: frozenset[str]


def merge_entries(old: FindEntry | None, new: FindEntry) -> FindEntry:
    """Add new records: each replaces the old one of the same identity, all others stay."""
    return _united((new,) if old is None else (new, old))


def layer_entries(user: FindEntry | None, shipped: Sequence[FindEntry]) -> StoredEntry | None:
    """Lay the user's entry over shipped ones, the first of them uppermost."""
    if not shipped:
        if user is None:
            return None
        return StoredEntry(user, frozenset([record.solver for record in user.records]))
    if user is None:
        return StoredEntry(shipped[0] if len(shipped) == 1 else _united(shipped), frozenset())
    own = frozenset([record.solver for record in user.records])
    return StoredEntry(_united((user, *shipped)), own)


def _united(entries: Sequence[FindEntry]) -> FindEntry:
    """Unite entries; earlier ones win.

    A solver may have several records: with constant weights or without, and with different amounts
    of workspace, so that a search under a workspace limit never hides what it could not use.
    """
    records: dict[tuple[str, int, bool, int], FindRecord] = {}
    for entry in entries:
        for record in entry.records:
            records.setdefault(_identity(record), record)
    considered = _any_of(tuple([entry.considered for entry in entries]))
    return FindEntry(records=tuple(sorted(records.values(), key=_speed)), considered=considered)


@lru_cache(maxsize=64)
def _any_of(lists: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    """Unite lists of names, hundreds each, of which few combinations occur."""
    return tuple(sorted(set[str]().union(*lists)))


def _identity(record: FindRecord) -> tuple[str, int, bool, int]:
    return record.solver, record.solver_version, record.constant_weights, record.workspace


def _speed(record: FindRecord) -> tuple[float, str, int]:
    return record.time_ms, record.solver, record.solver_version
