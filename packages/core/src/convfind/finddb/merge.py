"""How records meet: new ones with recorded ones, and the user's with those that packages ship."""

from __future__ import annotations

from collections.abc import Container, Hashable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from convfind.finddb.evidence import supersedes
from convfind.finddb.record import FindEntry, FindRecord


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """The knowledge of all layers together about a problem.

    Attributes:
        entry: records fastest first, and every solver that was considered in any layer.
        from_user: ids of the solvers that have a record in the user's database.
        concluded: what finds concluded from it, by all else that they asked; goes with it.
    """

    entry: FindEntry
    from_user: frozenset[str]
    concluded: dict[Hashable, object] = field(default_factory=dict, compare=False, repr=False)


def merge_entries(
    old: FindEntry | None, new: FindEntry, *, replace: bool = False, tuned_again: bool = False
) -> FindEntry:
    """Add new records: each replaces one of the same identity that it supersedes, all others stay.

    With ``replace`` the new entry stands for all that is known of solvers that it decided about:
    records with other workspace go as well, and those of solvers that failed. Records that
    it did not look at stay: of other solvers, and with constant weights beside those without.
    ``tuned_again`` says that the configs of these solvers were searched for again.
    """
    if old is None:
        return _united((new,))
    decided = frozenset(new.considered if replace else ())
    kinds = {record.constant_weights for record in new.records}
    measured: dict[tuple[str, int, bool], list[FindRecord]] = {}
    for record in new.records:
        measured.setdefault(_identity(record)[:3], []).append(record)

    def stays(record: FindRecord) -> bool:
        anew = f"{record.solver}@{record.solver_version}" in decided
        later = measured.get(_identity(record)[:3])
        if later is None:
            return not (anew and record.constant_weights in kinds)
        return not any(
            supersedes(one, record, tuned_again=tuned_again and anew)
            for one in later
            if anew or one.workspace == record.workspace
        )

    kept = FindEntry(
        records=tuple(record for record in old.records if stays(record)), considered=old.considered
    )
    return _united((kept, new))


def entry_without(old: FindEntry, solvers: Container[str]) -> FindEntry | None:
    """Leave solvers out, as if no search had considered them; None where nothing is left."""
    records = tuple(record for record in old.records if record.solver not in solvers)
    considered = tuple(name for name in old.considered if name.rpartition("@")[0] not in solvers)
    if not records and not considered:
        return None
    return FindEntry(records=records, considered=considered)


def reconsidered(entry: FindEntry, solver: str) -> FindEntry:
    """Let searches decide about a solver again; what was measured of it stays."""
    considered = tuple(name for name in entry.considered if name.rpartition("@")[0] != solver)
    return FindEntry(records=entry.records, considered=considered)


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
