"""`State`: how far a run on a database is or was, read from its journal by anybody."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from convfind.errors import FindDbError
from convfind_finddb_tools.tune.campaign import state_folder


class _Line(msgspec.Struct):
    event: str
    time: float = 0.0
    problems: int = 0
    workers: int = 0
    strategy: str = ""
    device: str = ""
    problem: str = ""
    worker: str = ""
    dashboard: str = ""
    seconds: float = 0.0
    failure: str = ""
    why: str = ""
    remaining: int | None = None


@dataclass(slots=True)
class WorkerState:
    """A worker's work in the run: problems, seconds of work, and the last one with its time."""

    problems: int = 0
    seconds: float = 0.0
    last_problem: str = ""
    last_time: float = 0.0


@dataclass(slots=True)
class State:
    """A run on a database.

    Attributes:
        total: problems that the run was to tune, those of earlier runs included.
        is_running: whether its process holds the database's lock.
        stopped: why it ended; empty while it runs, or where it was killed.
        remaining: problems that it left, where it said so.
        dashboard: address of Dask's page about its workers, while it runs.
    """

    device: str = ""
    strategy: str = ""
    total: int = 0
    finished: int = 0
    failed: int = 0
    died: int = 0
    quarantined: int = 0
    began: float = 0.0
    latest: float = 0.0
    is_running: bool = False
    stopped: str = ""
    remaining: int | None = None
    dashboard: str = ""
    workers: dict[str, WorkerState] = field(default_factory=dict)

    @property
    def rate(self) -> float | None:
        """Problems a minute, from the beginning of the run to its latest event."""
        passed = self.latest - self.began
        return 60 * self.finished / passed if self.finished and passed > 0 else None


def read_state(database: Path) -> State:
    """Read the state of the last run on a database.

    Raises:
        FindDbError: no run ever tuned into it.
    """
    runs = read_runs(database)
    if not runs:
        raise FindDbError(f"no run ever tuned into {database}; `convfind tune run` does")
    state = runs[-1]
    state.is_running = _is_locked(state_folder(database) / "lock")
    if not state.is_running:
        state.dashboard = ""
    return state


def journal_path(database: Path) -> Path:
    """The journal of the runs on a database; where none ever was, it is missing."""
    return state_folder(database) / "journal.jsonl"


def read_runs(database: Path) -> tuple[State, ...]:
    """Read all runs on a database, the last one last; whether that one still runs is left open."""
    decoder = msgspec.json.Decoder(_Line)
    runs: list[State] = []
    try:
        with journal_path(database).open("rb") as file:
            for text in file:
                try:
                    line = decoder.decode(text)
                except msgspec.MsgspecError:
                    continue  # cut short by a crash, or being written
                if line.event == "started":
                    run = State(line.device, line.strategy, line.problems, began=line.time)
                    run.dashboard = line.dashboard
                    runs.append(run)
                if runs:
                    _take(runs[-1], line)
    except OSError:
        return ()
    return tuple(runs)


def _take(state: State, line: _Line) -> None:
    state.latest = line.time
    if line.event == "finished":
        state.finished += 1
        state.failed += bool(line.failure)
        worker = state.workers.setdefault(line.worker or "this process", WorkerState())
        worker.problems += 1
        worker.seconds += line.seconds
        worker.last_problem, worker.last_time = line.problem, line.time
    elif line.event == "died":
        state.died += 1
    elif line.event == "quarantined":
        state.quarantined += 1
    elif line.event == "stopped":
        state.stopped, state.remaining = line.why, line.remaining


def _is_locked(lock: Path) -> bool:
    import fcntl

    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def ago(seconds: float) -> str:
    """Spell how long ago a time was."""
    passed = max(0.0, time.time() - seconds)
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if passed >= size:
            return f"{passed / size:.0f} {unit} ago"
    return f"{passed:.0f} s ago"
