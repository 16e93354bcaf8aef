"""Simulation of a campaign: a thousand workers and a million problems in minutes.

A discrete-event simulation of what `run` and `cluster` do. The queue, the sizes of batches, the
choice of representatives and the treatment of deaths are the real code; workers, head and clock are
modelled: a worker has a batch and a further one that waits for it, as on a cluster; the head
(scheduler and client together) serves one batch at a time, and does nothing else while it merges.
The head's own costs were measured, see `Costs`.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from convfind_finddb_tools.tune.run import CHECKPOINT_OUTCOMES, CHECKPOINT_SECONDS
from convfind_finddb_tools.tune.tasks import BATCHES_AHEAD, TaskQueue, batch_size

_MOST_IN_BATCH = 256  # as in `cluster.DaskFleet`


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of the head, measured by benchmarks/tune_scale.py on two cores of an EPYC."""

    batch: float = 3.0e-3  # to hand a batch over and to take it back
    problem: float = 8.0e-5  # for each problem in it
    merge: float = 8.4e-6  # to merge one outcome
    restart: float = 5.0  # until a worker that died is back: assumed


@dataclass(frozen=True, slots=True)
class Scenario:
    """Parameters of a simulation.

    Attributes:
        workers: how many there are.
        names: problems in the order in which they are wanted.
        seconds: how long a worker needs for a problem.
        after: the problem for which one waits.
        budget: seconds after which no problem is begun.
        mean_life: seconds after which a worker dies, on average; None: never.
        costs: what the head needs.
        seed: of the random numbers.
    """

    workers: int
    names: Sequence[str]
    seconds: Callable[[str], float]
    after: Mapping[str, str] = field(default_factory=dict)
    budget: float | None = None
    mean_life: float | None = None
    costs: Costs = Costs()
    seed: int = 1


@dataclass(slots=True)
class SimulationReport:
    """Results of a simulation; times in simulated seconds.

    Attributes:
        seconds: from the first batch to the last merge.
        ideal_seconds: the work divided by the workers.
        busy: share of their time in which workers tuned.
        head_load: share of its time in which the head worked.
        queue_most: most batches that waited for the head at once.
        queue_mean: how many waited, on average over time.
        merge_seconds: time of the head spent on merging.
        deaths: workers that died.
        repeated_seconds: work done in vain by them.
        finished: problems, in the order in which they were.
    """

    seconds: float = 0.0
    ideal_seconds: float = 0.0
    busy: float = 0.0
    head_load: float = 0.0
    queue_most: int = 0
    queue_mean: float = 0.0
    merge_seconds: float = 0.0
    deaths: int = 0
    repeated_seconds: float = 0.0
    batches: int = 0
    finished: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _End:
    """A worker is through with its first batch, or dies with it after some of its problems."""

    worker: int
    finished: int
    is_death: bool = False


@dataclass(frozen=True, slots=True)
class _Ready:
    """A worker that died is back, and takes as many batches as it lost."""

    worker: int
    slots: int


@dataclass(frozen=True, slots=True)
class _Return:
    """A batch that came back, or what a dead worker left of all that it had."""

    worker: int
    batch: tuple[str, ...]
    finished: int


class Simulation:
    """One run; `go` does it."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._queue = TaskQueue(scenario.names, scenario.after)
        self._random = random.Random(scenario.seed)
        self._events: list[tuple[float, int, _End | _Ready]] = []
        self._numbers = 0
        # A worker stands here once for each batch that it would take.
        self._slots = deque([*range(scenario.workers)] * BATCHES_AHEAD)
        self._batches: list[deque[tuple[str, ...]]] = [deque() for _ in range(scenario.workers)]
        self._down: set[int] = set()
        self._pace: float | None = None
        self._unmerged = 0
        self._merged_at = 0.0
        self._head_busy = 0.0
        self._worked = 0.0
        self.report = SimulationReport()

    def go(self) -> SimulationReport:
        """Simulate until everything is done or the budget is spent."""
        waiting: deque[_Return] = deque()
        now = head_free = waited = 0.0
        head_free = self._hand_out(0.0)
        while self._events or waiting:
            # The head takes the next batch as soon as it is free and one is there.
            if waiting and (not self._events or head_free <= self._events[0][0]):
                now = max(now, head_free)
                head_free = self._hand_out(self._take_back(waiting.popleft(), now))
                continue
            then, _, what = heapq.heappop(self._events)
            waited += len(waiting) * (then - now)
            now = then
            if isinstance(what, _Ready):
                self._revive(what, now)
                head_free = self._hand_out(max(now, head_free))
            else:
                waiting.append(self._end(what, now))
                self.report.queue_most = max(self.report.queue_most, len(waiting))
                head_free = max(head_free, now)
        end = self._merge(max(now, head_free))
        return self._summed_up(end, waited)

    # -- the head ---------------------------------------------------------------------------------

    def _take_back(self, back: _Return, now: float) -> float:
        """Serve one batch that ended; returns when the head is free again."""
        costs, report = self._scenario.costs, self.report
        finished = back.batch[: back.finished]
        for name in finished:
            self._queue.finish(name)
        report.finished += finished
        died = back.finished < len(back.batch)
        if died:
            self._queue.lose(back.batch, finished)
        else:
            self._slots.append(back.worker)
        self._unmerged += len(finished)
        busy = costs.batch + costs.problem * len(back.batch)
        self._head_busy += busy
        now += busy
        late = now - self._merged_at > CHECKPOINT_SECONDS
        if late or self._unmerged >= CHECKPOINT_OUTCOMES:
            now = self._merge(now)
        return now

    def _merge(self, now: float) -> float:
        busy = self._scenario.costs.merge * self._unmerged
        self.report.merge_seconds += busy
        self._head_busy += busy
        self._unmerged, self._merged_at = 0, now + busy
        return now + busy

    def _hand_out(self, now: float) -> float:
        """Give batches to the workers; what that costs is counted when they come back."""
        budget = self._scenario.budget
        if budget is not None and now >= budget:
            return now
        while self._slots:
            wanted = batch_size(self._pace, self._queue.ready, self._scenario.workers)
            batch = self._queue.take(min(wanted, _MOST_IN_BATCH))
            if not batch:
                break
            worker = self._slots.popleft()
            self.report.batches += 1
            self._batches[worker].append(batch)
            if len(self._batches[worker]) == 1 and worker not in self._down:
                self._work(worker, now)
        return now

    # -- the workers ------------------------------------------------------------------------------

    def _work(self, worker: int, now: float) -> None:
        """Decide how a worker's first batch is going to end."""
        scenario, report = self._scenario, self.report
        batch = self._batches[worker][0]
        life = (
            self._random.expovariate(1 / scenario.mean_life)
            if scenario.mean_life is not None
            else float("inf")
        )
        spent = 0.0
        for done, name in enumerate(batch):
            seconds = scenario.seconds(name)
            self._pace = seconds if self._pace is None else 0.9 * self._pace + 0.1 * seconds
            if spent + seconds > life:
                report.deaths += 1
                report.repeated_seconds += life - spent
                self._worked += spent
                self._push(now + life, _End(worker, done, is_death=True))
                return
            spent += seconds
        self._worked += spent
        self._push(now + spent, _End(worker, len(batch)))

    def _end(self, end: _End, now: float) -> _Return:
        """Take a batch, or all that a dead worker had, and let the worker go on."""
        batches = self._batches[end.worker]
        if not end.is_death:
            batch = batches.popleft()
            if batches:
                self._work(end.worker, now)
            return _Return(end.worker, batch, end.finished)
        self._down.add(end.worker)
        back = _Ready(end.worker, len(batches))
        self._push(now + self._scenario.costs.restart, back)
        lost = tuple(name for batch in batches for name in batch)
        batches.clear()
        return _Return(end.worker, lost, end.finished)

    def _revive(self, ready: _Ready, now: float) -> None:
        self._down.discard(ready.worker)
        self._slots.extend([ready.worker] * ready.slots)
        if self._batches[ready.worker]:
            self._work(ready.worker, now)

    def _push(self, when: float, what: _End | _Ready) -> None:
        self._numbers += 1
        heapq.heappush(self._events, (when, self._numbers, what))

    def _summed_up(self, end: float, waited: float) -> SimulationReport:
        report, workers = self.report, self._scenario.workers
        report.seconds = end
        report.ideal_seconds = self._worked / workers
        if end:
            report.busy = (self._worked + report.repeated_seconds) / (workers * end)
            report.head_load = self._head_busy / end
            report.queue_mean = waited / end
        return report
