"""The run: hands problems to workers and stores outcomes until done or out of time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from convfind.errors import ConvfindError
from convfind.problem import ConvProblem
from convfind_finddb_tools.tune.campaign import Campaign
from convfind_finddb_tools.tune.fleet import Completion, Fleet
from convfind_finddb_tools.tune.journal import place
from convfind_finddb_tools.tune.neighbours import by_weight, representatives, seed_from
from convfind_finddb_tools.tune.order import Outcome, Seed, Strategy, Task
from convfind_finddb_tools.tune.tasks import TaskQueue, batch_size

CHECKPOINT_SECONDS = 10.0
CHECKPOINT_OUTCOMES = 1000
_POLL = 0.25  # seconds between looks at the clock


@dataclass(slots=True)
class Summary:
    """Results of a run; ``stopped`` is empty if nothing was left to do."""

    total: int = 0
    before: int = 0  # finished by earlier runs
    finished: int = 0
    failed: dict[str, str] = field(default_factory=dict)  # of all runs, by problem
    quarantined: list[str] = field(default_factory=list)
    remaining: int = 0
    compiled: int = 0
    measured: int = 0
    deaths: int = 0
    seconds: float = 0.0
    merge_seconds: float = 0.0
    stopped: str = ""


class Watcher(Protocol):
    """Receives the progress of a run."""

    def started(self, summary: Summary, workers: int) -> None:
        """The run begins."""

    def finished(self, outcome: Outcome, workers: int) -> None:
        """A problem is finished."""

    def note(self, text: str) -> None:
        """Something noteworthy happened."""

    def tick(self) -> None:
        """Some time has passed."""


class Run:
    """One run of a campaign; `go` does it."""

    def __init__(
        self,
        campaign: Campaign,
        fleet: Fleet,
        problems: Sequence[ConvProblem],
        counts: Mapping[str, int],
        strategy: Strategy,
        watcher: Watcher,
        *,
        budget: float | None = None,
    ) -> None:
        """Prepare a run.

        Args:
            campaign: where outcomes go.
            fleet: who tunes.
            problems: plain problems, each once.
            counts: how often each occurs, by network config.
            strategy: how much is measured.
            watcher: who is told.
            budget: seconds after which no problem is begun.
        """
        self._campaign = campaign
        self._fleet = fleet
        self._watcher = watcher
        self._budget = budget
        ordered = by_weight(problems, dict(counts))
        self._after = representatives(ordered) if strategy is Strategy.NEIGHBOURS else {}
        self._names = [problem.key for problem in ordered]
        self._seeds: dict[str, Seed | None] = {}
        self._standing_in = set(self._after.values())
        self._pace: float | None = None
        self._current = ""
        self._stop: Callable[[], bool] = lambda: False
        self.summary = Summary(total=len(self._names))

    def go(self, stop: Callable[[], bool] = lambda: False) -> Summary:
        """Tune until all is done, the budget is spent, or ``stop`` returns True.

        Raises:
            ConvfindError: no worker is left. Finished shards are merged.
        """
        began = last = time.monotonic()
        summary = self.summary
        self._stop = stop
        queue = self._queue()
        self._watcher.started(summary, self._fleet.workers)
        try:
            while True:
                if self._over(began) and not summary.stopped and queue.unfinished:
                    summary.stopped = "budget"
                if not self._is_stopped():
                    self._submit(queue)
                if not self._fleet.busy and (summary.stopped or not queue.unfinished):
                    break
                if self._is_stopped() and not self._fleet.workers:
                    break  # Ctrl-C reached the workers too, and nobody is left to wait for
                for completion in self._fleet.wait(_POLL):
                    self._take_in(completion, queue)
                self._watcher.tick()
                now = time.monotonic()
                if now - last > CHECKPOINT_SECONDS or (
                    self._campaign.pending >= CHECKPOINT_OUTCOMES
                ):
                    self._checkpoint()
                    last = now
        except ConvfindError as exc:
            summary.stopped = str(exc)
            raise
        finally:
            for outcome in self._campaign.unreported():
                if outcome.identity == self._fleet.identity:
                    self._finish(outcome, queue)
            self._checkpoint()
            summary.remaining = queue.unfinished
            summary.seconds = time.monotonic() - began
            self._campaign.journal.write(
                "stopped",
                why=summary.stopped or "done",
                **self._identity(),
                problem=self._current,
                finished=summary.finished,
                remaining=summary.remaining,
                seconds=round(summary.seconds, 3),
            )
        return summary

    # -- stages -----------------------------------------------------------------------------------

    def _queue(self) -> TaskQueue:
        """Leave out what earlier runs finished or gave up; take in what they did not merge."""
        campaign, identity = self._campaign, self._fleet.identity
        for outcome in campaign.unreported():
            campaign.add(outcome)
        campaign.checkpoint()
        past = campaign.past
        names = []
        for name in self._names:
            where = place(identity, name)
            if where in past.quarantined:
                self.summary.quarantined.append(name)
            elif where in past.finished:
                self.summary.before += 1
                if past.finished[where]:
                    self.summary.failed[name] = past.finished[where]
            else:
                names.append(name)
        deaths = {name: past.deaths[place(identity, name)] for name in names}
        queue = TaskQueue(names, self._after, deaths)
        for name in queue.quarantined:
            self._quarantine(name)
        return queue

    def _submit(self, queue: TaskQueue) -> None:
        while self._fleet.free > 0:
            batch = queue.take(self._batch_size(queue))
            if not batch:
                return
            if self._fleet.in_process:
                self._current = batch[0]
                self._campaign.journal.write("begun", **self._identity(), problem=batch[0])
                self._campaign.journal.flush()
            self._fleet.submit([self._task(name) for name in batch])

    def _task(self, name: str) -> Task:
        known = self._campaign.known(self._fleet.identity, name)
        neighbour = self._after.get(name, name)
        if neighbour == name:
            return Task(problem=name, known=known)
        if neighbour not in self._seeds:
            entry = self._campaign.known(self._fleet.identity, neighbour).entry
            self._seeds[neighbour] = seed_from(entry)
        return Task(problem=name, known=known, seed=self._seeds[neighbour])

    def _take_in(self, completion: Completion, queue: TaskQueue) -> None:
        for outcome in completion.outcomes:
            self._finish(outcome, queue)
        if not completion.death:
            return
        batch = set(completion.batch)
        finished = {outcome.problem for outcome in completion.outcomes}
        for outcome in self._campaign.unreported():
            if outcome.problem in batch and outcome.identity == self._fleet.identity:
                finished.add(outcome.problem)
                self._finish(outcome, queue)
        if self._is_stopped():
            # Whoever ends a run may end its workers too: no problem is to blame.
            queue.give_back([name for name in completion.batch if name not in finished])
            return
        culprit = next((name for name in completion.batch if name not in finished), None)
        if culprit is not None:
            self.summary.deaths += 1
            self._campaign.journal.write(
                "died", **self._identity(), problem=culprit, detail=completion.death
            )
            self._watcher.note(f"a worker died with {culprit}")
        if queue.lose(completion.batch, finished) is not None and culprit is not None:
            self._quarantine(culprit)
        self._campaign.journal.flush()

    def _finish(self, outcome: Outcome, queue: TaskQueue) -> None:
        if not self._campaign.add(outcome):
            return
        summary = self.summary
        summary.finished += 1
        summary.compiled += outcome.compiled
        summary.measured += outcome.measured
        if outcome.failure:
            summary.failed[outcome.problem] = outcome.failure
        if outcome.problem in self._standing_in:
            self._seeds[outcome.problem] = seed_from(outcome.found.entry)
        self._current = ""
        self._pace = (
            outcome.seconds if self._pace is None else 0.9 * self._pace + 0.1 * outcome.seconds
        )
        queue.finish(outcome.problem)
        self._watcher.finished(outcome, self._fleet.workers)

    def _quarantine(self, name: str) -> None:
        self.summary.quarantined.append(name)
        self._campaign.journal.write("quarantined", **self._identity(), problem=name)
        self._watcher.note(f"{name} killed three workers and is left out")

    # -- small parts ------------------------------------------------------------------------------

    def _checkpoint(self) -> None:
        began = time.monotonic()
        self._campaign.checkpoint()
        self.summary.merge_seconds += time.monotonic() - began

    def _batch_size(self, queue: TaskQueue) -> int:
        wanted = batch_size(self._pace, queue.ready, self._fleet.workers)
        return min(wanted, self._fleet.most_in_batch)

    def _is_stopped(self) -> bool:
        if self._stop() and not self.summary.stopped:
            self.summary.stopped = "interrupted"
        return bool(self.summary.stopped)

    def _over(self, began: float) -> bool:
        return self._budget is not None and time.monotonic() - began >= self._budget

    def _identity(self) -> dict[str, str]:
        identity = self._fleet.identity
        return {"device": identity.device, "fingerprint": identity.fingerprint}
