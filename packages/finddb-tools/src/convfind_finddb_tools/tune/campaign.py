"""`Campaign`: the target database, and beside it the folder from which a run resumes.

    <database>/tuning/journal.jsonl       what was done
    <database>/tuning/shards/<worker>/    what a worker has finished

Workers commit to their own shards and report; a checkpoint merges what they reported into the
target database and then into the journal. Work that was finished but not reported, because
a process died, is found in the shards, at once or by the next run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from convfind.errors import FindDbError
from convfind.finddb.change import Change
from convfind.finddb.database import FILE_NAME
from convfind.finddb.database_file import file_in, make_private_folder
from convfind.finddb.key import SCHEMA
from convfind.finddb.table import CONFIG, FIND, QUARANTINE
from convfind_finddb_tools.database import Writer
from convfind_finddb_tools.joining import join_into
from convfind_finddb_tools.tune.journal import Journal, Past, place
from convfind_finddb_tools.tune.order import Identity, Known, Outcome
from convfind_finddb_tools.tune.shard import read_shard, values


def state_folder(database: Path) -> Path:
    """The folder from which a run on a database resumes."""
    file = file_in(database, FILE_NAME)
    return file.with_name("tuning" if file.name == FILE_NAME else f"{file.stem}.tuning")


class Campaign:
    """One run at a time on one database. A context manager."""

    def __init__(self, database: Path) -> None:
        """Open the database and the folder beside it, created where missing.

        Raises:
            FindDbError: the database cannot be used, or another run is at work on it.
        """
        self.folder = state_folder(database)
        self.shards = self.folder / "shards"
        try:
            make_private_folder(self.folder)
            self._lock = _lock(self.folder)
        except OSError as exc:
            msg = f"{self.folder} cannot be used: {exc.strerror or exc}"
            raise FindDbError(msg) from exc
        try:
            self._writer = Writer(database)
            self.journal = Journal(self.folder / "journal.jsonl")
        except BaseException:
            os.close(self._lock)
            raise
        self.past: Past = self.journal.past()
        self._pending: list[Outcome] = []

    def known(self, identity: Identity, problem: str) -> Known:
        """Return the target database's contents for a problem."""
        key = f"{SCHEMA}|{identity.device}|{problem}".encode()

        def read(table: Any) -> Any:
            sealed = self._writer.get(table.name, key)
            return table.unpack(key, sealed, self._writer.get)

        return Known(
            entry=read(FIND), configs=read(CONFIG) or (), quarantine=read(QUARANTINE) or ()
        )

    def add(self, outcome: Outcome) -> bool:
        """Take an outcome over, with the next checkpoint; False where it is known already."""
        name = place(outcome.identity, outcome.problem)
        if name in self.past.finished:
            return False
        self.past.finished[name] = outcome.failure
        self._pending.append(outcome)
        return True

    @property
    def pending(self) -> int:
        """Outcomes since the last checkpoint."""
        return len(self._pending)

    def checkpoint(self) -> None:
        """Merge what came in into the target database, then note it in the journal."""
        if self._pending:
            pending = self._pending
            self._writer.change(lambda change: self._join(change, pending))
            for outcome in pending:
                self._note(outcome)
            self.journal.write("checkpoint", problems=len(pending))
            self._pending = []
        self.journal.flush()

    def unreported(self) -> Iterator[Outcome]:
        """Outcomes in the shards that nobody reported; damaged shards are noted in the journal."""
        for path in sorted(self.shards.glob(f"*/{FILE_NAME}")):
            reading = read_shard(path)
            if reading.damage:
                self.journal.write("damaged", shard=str(path), detail=reading.damage)
            for outcome in reading.outcomes:
                if place(outcome.identity, outcome.problem) not in self.past.finished:
                    yield outcome

    def forget_shards(self) -> None:
        """Delete the shards. Call it when nobody writes to them and everything is merged."""
        shutil.rmtree(self.shards, ignore_errors=True)

    def forget(self, identity: Identity, problems: Iterable[str]) -> None:
        """Let problems be tuned again that are finished or in quarantine."""
        for problem in problems:
            name = place(identity, problem)
            self.past.finished.pop(name, None)
            self.past.quarantined.discard(name)
            self.past.deaths.pop(name, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.checkpoint()
        finally:
            self.journal.close()
            self._writer.__exit__(kind, error, traceback)
            os.close(self._lock)

    def _join(self, change: Change, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            for table, key, value in values(outcome):
                join_into(change, table, key, value)

    def _note(self, outcome: Outcome) -> None:
        entry = outcome.found.entry
        best = min(entry.records, key=lambda record: record.time_ms) if entry else None
        self.journal.write(
            "finished",
            device=outcome.identity.device,
            fingerprint=outcome.identity.fingerprint,
            problem=outcome.problem,
            worker=outcome.worker,
            seconds=round(outcome.seconds, 6),
            compiled=outcome.compiled,
            measured=outcome.measured,
            solver=best.solver if best else "",
            time_ms=best.time_ms if best else None,
            failure=outcome.failure,
        )


def _lock(folder: Path) -> int:
    """Lock the folder against other runs until the process ends; returns the descriptor."""
    import fcntl

    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        msg = f"another run tunes into {folder.parent}; wait for it, or tune into another database"
        raise FindDbError(msg) from None
    return descriptor
