"""`DaskFleet`: workers of Dask distributed, started here or on an existing cluster.

A worker offers ``device``, of which a measuring batch takes one, or ``compile``, of which a
compiling batch takes one; Dask sends each where it may run. Dask is told not to try a batch again
whose worker died: what of it is to be repeated, and whose fault it was, is for `run` to say.
"""

from __future__ import annotations

import itertools
import logging
import queue
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Self

from convfind.errors import ConvfindError
from convfind.install_hint import pip_install
from convfind_finddb_tools.tune.fleet import Completion
from convfind_finddb_tools.tune.order import Identity, Order, Task
from convfind_finddb_tools.tune.tasks import BATCHES_AHEAD
from convfind_finddb_tools.tune.worker import (
    Broken,
    compile_batch,
    identify,
    measure_batch,
    release,
)

_LOOK_SECONDS = 2.0  # between two counts of the workers
_PATIENCE = 120.0  # seconds without any worker before a run gives up
_START_SECONDS = 120.0  # for workers to start and to open their devices
#: A result is small: what takes longer died with its worker.
_RESULT_SECONDS = 15
_GATHER_SECONDS = 0.3  # in which everything that a dead worker had comes back
_GONE = "the scheduler is gone; the same command goes on where this run ended"
_HOW = "start them with `dask worker ADDRESS --nthreads 1 --resources device=1`"


@dataclass(slots=True)
class _Death:
    """Results received from a dead worker so far."""

    why: str
    since: float
    jobs: list[_Job]


@dataclass(slots=True)
class _Job:
    """A batch on its way: compiling first where anybody compiles."""

    number: int  # workers begin the lower one first
    names: tuple[str, ...]
    tasks: tuple[Task, ...]
    binaries: Any = None  # a future


class DaskFleet:
    """Workers behind a scheduler. Make one with `start` or `connect`."""

    most_in_batch = 256
    in_process = False

    def __init__(self, order: Order, client: Any, cluster: Any = None) -> None:
        self._order = order
        self._client = client
        self._cluster = cluster
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._compiling: dict[Any, _Job] = {}  # by future
        self._compiled: deque[_Job] = deque()
        self._measuring: dict[Any, _Job] = {}
        self._deaths: dict[str, _Death] = {}  # by address of the worker
        self._name = uuid.uuid4().hex
        self._numbers = itertools.count()
        self._looked = 0.0
        self._seen = time.monotonic()
        self._devices: list[str] = []
        self._compilers: list[str] = []
        self.identity = Identity("", "")
        self.dashboard = ""

    @classmethod
    def start(cls, order: Order, workers: int, compilers: int) -> Self:
        """Start workers on this machine.

        Raises:
            ConvfindError: Dask is not installed, or the workers do not start.
        """
        distributed = _dask()
        cluster_kind = distributed.deploy.spec.SpecCluster
        spec = {
            f"{kind}-{number}": {
                "cls": distributed.Nanny,
                "options": {
                    "nthreads": 1,
                    "resources": {kind: 1},
                    "memory_limit": 0,  # a large problem is not a fault
                    "silence_logs": logging.CRITICAL,
                },
            }
            for kind, count in (("device", workers), ("compile", compilers))
            for number in range(count)
        }
        scheduler = {
            "cls": distributed.Scheduler,
            "options": {"host": "127.0.0.1", "port": 0, "dashboard_address": "127.0.0.1:0"},
        }
        cluster = cluster_kind(workers=spec, scheduler=scheduler, silence_logs=logging.CRITICAL)
        return cls(order, distributed.Client(cluster, set_as_default=False), cluster)._ready(
            workers
        )

    @classmethod
    def connect(cls, order: Order, address: str) -> Self:
        """Use the workers behind a scheduler.

        Raises:
            ConvfindError: Dask is not installed, nobody answers, or no worker offers a device.
        """
        distributed = _dask()
        try:
            client = distributed.Client(address, timeout=20, set_as_default=False)
        except (OSError, ValueError) as exc:
            msg = f"no scheduler answers at {address}: {exc}"
            raise ConvfindError(msg) from exc
        return cls(order, client)._ready(1)

    def _ready(self, least: int) -> Self:
        """Wait for the workers and ask them who they are."""
        try:
            self._client.run_on_scheduler(_never_retry())
            deadline = time.monotonic() + _START_SECONDS
            while self.workers < least:
                if time.monotonic() > deadline:
                    msg = f"{self.workers} workers offer a device, {least} are needed; {_HOW}"
                    raise ConvfindError(msg)
                time.sleep(0.05)
                self._looked = 0.0
            identities = self._identities()
            if len(identities) > 1:
                names = "; ".join(sorted(f"{one.device} ({one.fingerprint})" for one in identities))
                msg = f"workers differ in device, driver or solvers: {names}; tune them apart"
                raise ConvfindError(msg)
            self.identity = identities.pop()
            self.dashboard = _dashboard(self._client)
        except BaseException:
            self.close()
            raise
        return self

    def _identities(self) -> set[Identity]:
        """Ask every worker that measures, and wake those that compile."""
        measuring = self._ask("device", self._devices)
        compiling = self._ask("compile", self._compilers)
        try:
            found = {_sound(future.result(timeout=_START_SECONDS)) for future in measuring}
        except ConvfindError:
            raise
        except Exception as exc:  # Dask's, of several kinds
            msg = f"a worker does not open its device: {type(exc).__name__}: {exc}"
            raise ConvfindError(msg) from exc
        for future in compiling:
            with suppress(Exception):  # whoever cannot compile leaves it to those who measure
                future.result(timeout=_START_SECONDS)
        return found

    def _ask(self, resource: str, workers: Sequence[str]) -> list[Any]:
        """Ask workers who they are, by a task: a device is opened by the thread that uses it."""
        return [
            self._client.submit(
                *(identify, self._order),
                key=f"convfind-identify-{self._name}-{resource}-{number}",
                workers=[worker],
                resources={resource: 1},
                pure=False,
            )
            for number, worker in enumerate(workers)
        ]

    @property
    def workers(self) -> int:
        """Return the number of workers that offer a device now."""
        self._look()
        return len(self._devices)

    @property
    def free(self) -> int:
        """Batches that may be submitted."""
        return BATCHES_AHEAD * self.workers + len(self._compilers) - self.busy

    @property
    def busy(self) -> int:
        """Return the number of batches that are compiling, compiled, being measured, or lost."""
        lost = sum(len(death.jobs) for death in self._deaths.values())
        return len(self._compiling) + len(self._compiled) + len(self._measuring) + lost

    def submit(self, tasks: Sequence[Task]) -> None:
        """Start a batch."""
        names = tuple(task.problem for task in tasks)
        job = _Job(next(self._numbers), names, tuple(tasks))
        if self._compilers and not self._order.replay:
            future = self._submit(compile_batch, "compile", self._order, job.tasks)
            self._compiling[future] = job
        else:
            self._compiled.append(job)
            self._measure_some()

    def wait(self, seconds: float) -> list[Completion]:
        """Wait for batches to end; see `Fleet`."""
        self._measure_some()
        ended: list[Any] = []
        with suppress(queue.Empty):
            ended.append(self._done.get(timeout=seconds))
            while True:
                ended.append(self._done.get_nowait())
        completions = []
        for future in ended:
            job = self._compiling.pop(future, None)
            if job is not None and future.status == "finished":
                job.binaries = future
                self._compiled.append(job)
                continue
            job = job or self._measuring.pop(future, None)
            if job is None:
                continue
            outcomes = self._outcomes(future)
            if outcomes is None:
                self._lose(job, future)
            else:
                completions.append(Completion(job.names, outcomes))
        completions += self._buried()
        self._measure_some()
        if not ended:
            self._check()
        return completions

    def close(self) -> None:
        """Let the workers go, and stop them where they were started here."""
        with suppress(Exception):  # whoever is dead already cannot be told
            if self._client.status == "running" and self._cluster is None:
                self._client.run(release, self._order, on_error="ignore")
        with suppress(Exception):
            self._client.close(timeout=5)
        if self._cluster is not None:
            with suppress(Exception):
                self._cluster.close(timeout=20)

    # -- small parts ------------------------------------------------------------------------------

    def _measure_some(self) -> None:
        while self._compiled and len(self._measuring) < max(BATCHES_AHEAD * self.workers, 1):
            job = self._compiled.popleft()
            binaries = () if job.binaries is None else job.binaries
            future = self._submit(
                *(measure_batch, "device", self._order),
                *(f"{self._name}-{job.number}", job.tasks, binaries),
            )
            self._measuring[future] = job

    def _submit(self, work: Any, resource: str, *arguments: Any) -> Any:
        future = self._client.submit(
            work,
            *arguments,
            key=f"convfind-{work.__name__}-{self._name}-{next(self._numbers)}",
            resources={resource: 1},
            retries=0,
            pure=False,
        )
        future.add_done_callback(self._done.put)
        return future

    def _outcomes(self, future: Any) -> Any:
        """Return what a worker found; None where it died, with the result or before it had one."""
        if future.status != "finished":
            return None
        try:
            return _sound(future.result(timeout=_RESULT_SECONDS))
        except OSError as exc:  # too late, or cut off: repeated, where somebody is left to do it
            if not self.workers:
                raise ConvfindError(_GONE) from exc
            return None
        except Exception as exc:  # its worker died since, and what it was at came to an end
            if not _is_death(exc):
                raise
            return None

    def _lose(self, job: _Job, future: Any) -> None:
        """Note that a worker died with a batch; raise where something else went wrong."""
        if future.status in ("finished", "lost", "pending"):  # its worker died with the result
            self._deaths[future.key] = _Death("its result is lost", time.monotonic(), [job])
            return
        error = future.exception() if future.status == "error" else None
        if error is None:
            raise ConvfindError(_GONE)
        if not _is_death(error):
            msg = f"a worker failed: {type(error).__name__}: {error}"
            raise ConvfindError(msg) from error
        worker = str(getattr(error.last_worker, "address", job.number))
        death = self._deaths.setdefault(worker, _Death(str(error), time.monotonic(), []))
        death.jobs.append(job)
        self._looked = 0.0

    def _buried(self) -> Iterator[Completion]:
        """Return dead workers' batches, one for each, in the order of execution."""
        for worker, death in list(self._deaths.items()):
            if time.monotonic() - death.since > _GATHER_SECONDS:
                del self._deaths[worker]
                jobs = sorted(death.jobs, key=lambda job: job.number)
                yield Completion(tuple(name for job in jobs for name in job.names), (), death.why)

    def _check(self) -> None:
        """Raise where nobody is left who could ever finish anything."""
        if self._client.status != "running":
            raise ConvfindError(_GONE)
        if self.workers:
            self._seen = time.monotonic()
        elif time.monotonic() - self._seen > _PATIENCE:
            msg = f"no worker offers a device since {_PATIENCE:.0f} s; {_HOW}"
            raise ConvfindError(msg)

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._looked < _LOOK_SECONDS or self._client.status != "running":
            return
        self._looked = now
        try:
            found = self._client.scheduler_info(n_workers=-1)["workers"]
        except Exception:  # a scheduler that is going down; `_check` says so
            return
        self._devices = [one for one in found if found[one]["resources"].get("device")]
        self._compilers = [one for one in found if found[one]["resources"].get("compile")]


def _dashboard(client: Any) -> str:
    """Return the address of Dask's dashboard, if the scheduler serves one."""
    try:
        return str(client.dashboard_link or "")
    except Exception:  # a scheduler without one has no port for it
        return ""


def _is_death(error: BaseException) -> bool:
    return type(error).__name__ == "KilledWorker"


def _sound(result: Any) -> Any:
    """Return a worker's result; raise `ConvfindError` where it says that the worker is broken."""
    if isinstance(result, Broken):
        msg = f"a worker failed: {result.reason}"
        raise ConvfindError(msg)
    return result


def _dask() -> Any:
    """Import Dask and set what has to be set before anything starts."""
    try:
        dask, distributed = import_module("dask"), import_module("distributed")
    except ImportError as exc:
        msg = (
            f"several workers need Dask: {pip_install('convfind-finddb-tools[tune]')}; "
            "--workers 0 tunes in this process"
        )
        raise ConvfindError(msg) from exc
    dask.config.set(
        {
            "distributed.scheduler.allowed-failures": 0,
            "distributed.worker.profile.enabled": False,  # a thread that looks in every 10 ms
            "distributed.client.heartbeat": "1s",
        }
    )
    return distributed


def _never_retry() -> Callable[..., None]:
    """A function for the scheduler, which travels whole: this package may be missing there."""

    def never_retry(dask_scheduler: Any) -> None:
        dask_scheduler.allowed_failures = 0

    return never_retry
