"""`TaskQueue`: the problems still to be tuned, their order, and those that killed workers.

It is independent of processes and of time, so that real runs, tests and simulations share it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence

_BATCH_SECONDS = 0.5  # of work for a worker at a time, so that handing it over costs little
_SHARE_SECONDS = 0.008  # the same for each worker there is: one head serves them all in turn

#: Batches that a worker has: one under way, and one so that it need not wait for the next.
BATCHES_AHEAD = 2

#: A problem that was under way so often when a worker died is not tried again.
MOST_DEATHS = 3


class TaskQueue:
    """Problems by name, in order; some of them wait for another one to be finished.

    Workers take batches and process them in order. If a worker dies, the first unfinished problem
    of its batch is blamed. It returns alone, so that it affects no other problem.
    """

    def __init__(
        self,
        names: Sequence[str],
        after: Mapping[str, str] | None = None,
        deaths: Mapping[str, int] | None = None,
    ) -> None:
        """Make a queue.

        Args:
            names: problems in the order in which they are wanted.
            after: the problem for which one waits, by its name; only those that are in the queue
                are waited for.
            deaths: workers that problems have killed in earlier runs.
        """
        self._deaths = Counter(deaths or {})
        self.quarantined = [name for name in names if self._deaths[name] >= MOST_DEATHS]
        names = [name for name in dict.fromkeys(names) if self._deaths[name] < MOST_DEATHS]
        queued = set(names)
        self._waiting: dict[str, list[str]] = {}
        self._ready: deque[str] = deque()
        self._suspects: deque[str] = deque()
        for name in names:
            first = (after or {}).get(name, "")
            if first in queued and first != name:
                self._waiting.setdefault(first, []).append(name)
            else:
                self._ready.append(name)
        self._unfinished = queued

    @property
    def unfinished(self) -> int:
        """Number of unfinished problems, including those in progress."""
        return len(self._unfinished)

    @property
    def ready(self) -> int:
        """Number of problems that can be taken now."""
        return len(self._ready) + len(self._suspects)

    def take(self, most: int) -> tuple[str, ...]:
        """Take the next batch, of at most so many; empty where none is ready."""
        if self._suspects:
            return (self._suspects.popleft(),)
        count = min(most, len(self._ready))
        return tuple(self._ready.popleft() for _ in range(count))

    def finish(self, name: str) -> None:
        """Note that a problem is finished, whatever came of it; those that wait become ready."""
        self._unfinished.discard(name)
        self._ready.extend(self._waiting.pop(name, ()))

    def give_back(self, batch: Sequence[str]) -> None:
        """Put back what was taken and never begun."""
        self._ready.extendleft(reversed(batch))

    def lose(self, batch: Sequence[str], finished: Collection[str]) -> str | None:
        """Put back what a dead worker leaves; returns the problem that is quarantined, if any.

        The caller calls `finish` for those that are finished.
        """
        left = [name for name in batch if name not in finished]
        if not left:
            return None
        culprit, *innocent = left
        self.give_back(innocent)
        self._deaths[culprit] += 1
        if self._deaths[culprit] < MOST_DEATHS:
            self._suspects.append(culprit)
            return None
        self.quarantined.append(culprit)
        self.finish(culprit)
        return culprit


def batch_size(pace: float | None, ready: int, workers: int) -> int:
    """Return the number of problems to hand over at a time.

    As many as keep a worker busy for a moment, longer the more workers there are, while all of them
    get some of what is left.

    Args:
        pace: seconds that a problem takes, None where nobody knows yet.
        ready: problems that can be taken.
        workers: how many there are.
    """
    if pace is None:
        return 1
    seconds = max(_BATCH_SECONDS, _SHARE_SECONDS * workers)
    share = -(-ready // (2 * max(workers, 1)))
    return max(1, min(int(seconds / max(pace, 1e-6)), share))
