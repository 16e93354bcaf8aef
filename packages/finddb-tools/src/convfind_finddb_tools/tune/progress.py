"""Progress on a terminal: share done, remaining time, each worker's last action."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from convfind_finddb_tools.tune.order import Outcome
from convfind_finddb_tools.tune.run import Summary

_MOST_SHOWN = 16  # workers with a line of their own
_REFRESH = 0.2  # seconds; a thread that draws would take time from what is being measured


class TuneProgress:
    """A `convfind_finddb_tools.tune.run.Watcher` on standard error, where that is a terminal.

    Notes are printed anywhere.
    """

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._enabled = self._console.is_terminal
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("ETA"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            auto_refresh=False,
        )
        self._all: TaskID | None = None
        self._workers: dict[str, TaskID] = {}
        self._done: dict[str, int] = {}
        self._drawn = 0.0

    def started(self, summary: Summary, workers: int) -> None:
        """Show the bar."""
        if not self._enabled:
            return
        self._all = self._bars.add_task("problems", total=summary.total)
        self._bars.update(self._all, completed=summary.before + len(summary.quarantined))
        self._bars.start()

    def finished(self, outcome: Outcome, workers: int) -> None:
        """Advance the bar and the worker's line."""
        if self._all is None:
            return
        self._bars.advance(self._all)
        self._bars.update(self._all, description=f"problems, {workers} workers")
        self._show_worker(outcome)
        self.tick()

    def note(self, text: str) -> None:
        """Print a line."""
        self._console.print(text, markup=False, soft_wrap=True)

    def tick(self) -> None:
        """Draw, now and then."""
        if self._all is not None and time.monotonic() - self._drawn > _REFRESH:
            self._bars.refresh()
            self._drawn = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._all is not None:
            self._bars.stop()

    def _show_worker(self, outcome: Outcome) -> None:
        name = outcome.worker
        if not name or (name not in self._workers and len(self._workers) >= _MOST_SHOWN):
            return
        if name not in self._workers:
            self._workers[name] = self._bars.add_task(name, total=None)
        self._done[name] = self._done.get(name, 0) + 1
        text = f"  {name}  {outcome.seconds:.2f} s  {outcome.problem}"
        self._bars.update(
            self._workers[name],
            description=text[: self._console.width // 2],
            completed=self._done[name],
            total=self._done[name],  # nobody knows how many are still to come to it
        )
