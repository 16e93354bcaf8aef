"""`Fleet`: the workers of a run. `LocalFleet` is this process; `cluster.DaskFleet` has many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from convfind_finddb_tools.tune.order import Identity, Outcome, Task
from convfind_finddb_tools.tune.shard import Shard
from convfind_finddb_tools.tune.station import Station


@dataclass(frozen=True, slots=True)
class Completion:
    """The end of a batch, or of a part of it.

    Attributes:
        batch: the problems that are over, in the order in which they were begun.
        outcomes: of those that are finished, in that order.
        death: why the worker died before the rest; empty where it did not.
    """

    batch: tuple[str, ...]
    outcomes: tuple[Outcome, ...] = ()
    death: str = ""


class Fleet(Protocol):
    """Workers, each of which does one batch at a time."""

    identity: Identity
    most_in_batch: int
    in_process: bool  # a problem that kills its worker ends the program
    dashboard: str  # address of a page that shows the workers; empty where there is none

    @property
    def workers(self) -> int:
        """Return the number of workers now."""

    @property
    def free(self) -> int:
        """Return the number of batches that can be submitted now."""

    @property
    def busy(self) -> int:
        """Return the number of batches in progress."""

    def submit(self, tasks: Sequence[Task]) -> None:
        """Start a batch."""

    def wait(self, seconds: float) -> list[Completion]:
        """Wait a limited time for batches to end; raise `ConvfindError` if no worker is left.

        A fleet in this process works here, for as long as one problem takes.
        """

    def close(self) -> None:
        """Release the workers; work in progress is lost."""


class LocalFleet:
    """One worker: this process."""

    most_in_batch = 1
    in_process = True
    dashboard = ""

    def __init__(self, station: Station, shard: Shard) -> None:
        self._station = station
        self._shard = shard  # what is in it outlives a crash between two checkpoints
        self._tasks: list[Task] = []
        self.identity = station.identity

    @property
    def workers(self) -> int:
        """One."""
        return 1

    @property
    def free(self) -> int:
        """One, or none."""
        return 1 - len(self._tasks)

    @property
    def busy(self) -> int:
        """One, or none."""
        return len(self._tasks)

    def submit(self, tasks: Sequence[Task]) -> None:
        """Keep the task for `wait`."""
        self._tasks += tasks

    def wait(self, seconds: float) -> list[Completion]:
        """Do the task."""
        if not self._tasks:
            return []
        task = self._tasks.pop()
        outcome = self._station.measure(task)
        self._shard.commit([outcome])
        return [Completion((task.problem,), (outcome,))]

    def close(self) -> None:
        """Release the device and the shard."""
        self._station.close()
        self._shard.close()
