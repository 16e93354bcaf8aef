"""`Station`: turns tasks into outcomes; `DeviceStation` measures, that of `replay` looks up."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

import convfind
from convfind.errors import NoSolverError, SolverError
from convfind.find.decision import decide
from convfind.find.finder import find
from convfind.find.recording import record
from convfind.find.screening import screen
from convfind.find.search import Search
from convfind.finddb import BinaryStore, FindDb
from convfind.policy import Isolate, Policy
from convfind.problem import ConvProblem
from convfind.runtime.kernel_cache import KernelCache
from convfind.runtime.session import Session, silent
from convfind.settings import Settings
from convfind.solver import TunableSolver, asking, versioned_id
from convfind.solver.config import Config
from convfind.solver.kernel_spec import Program
from convfind_finddb_tools.tune.order import (
    Identity,
    Known,
    Order,
    Outcome,
    Seed,
    Strategy,
    Task,
)
from convfind_finddb_tools.tune.turn import Turn

if TYPE_CHECKING:
    from convfind.plugins.registry import Registry

_FORGET_AFTER = 64  # tasks, after which compiled programs are let go of: most serve one shape
_SAMPLED = 24  # configs that a search is sure to try, compiled ahead
_SEED = 1

#: Compiled programs by key, as `KernelCache.accept` takes them.
Binaries = tuple[tuple[str, bytes], ...]


class Station(Protocol):
    """Does tasks, one at a time."""

    identity: Identity

    def measure(self, task: Task) -> Outcome:
        """Tune one problem. A problem that cannot be tuned gives a failure, not an exception."""

    def compile(self, tasks: Sequence[Task]) -> Binaries:
        """Compile what measuring the tasks is going to need."""

    def accept(self, binaries: Binaries) -> None:
        """Take over what another station of the same run compiled."""

    def close(self) -> None:
        """Release the device."""


class DeviceStation:
    """An open device on which problems are tuned as a find would, without a database of its own."""

    def __init__(
        self,
        order: Order,
        device: str | None = None,
        registry: Registry | None = None,
        settings: Settings | None = None,
    ) -> None:
        """Open the device. Raises `DeviceError` and its kin."""
        self._order = order
        self._settings = settings or Settings.from_environment()
        self._handle = convfind.open(device, registry=registry, settings=self._settings)
        self._target = self._handle.target
        folder = None if self._settings.disable_binary_cache else self._settings.user_db_path
        self._store = BinaryStore.open(folder)
        policy = self._handle.policy(
            mode="hybrid", enforce="none", **{"race": False, **order.policy}
        )
        # Many problems share the child's start, and none of them shall end the run.
        if policy.isolate is Isolate.AUTO and self._handle.session.child is not None:
            policy = policy.with_changes(isolate=Isolate.ALWAYS)
        self._policy = policy
        self.identity = Identity(self._target.identity, self._fingerprint())
        self._tasks = 0
        self._kernels = self._new_cache()
        self._turn = Turn.on(self._target)

    def measure(self, task: Task) -> Outcome:
        """Tune one problem; see `Station`. Other stations on the same cores wait."""
        with self._turn.alone():
            return self._measured(task)

    def _measured(self, task: Task) -> Outcome:
        began = time.perf_counter()
        self._tasks += 1
        if not self._tasks % _FORGET_AFTER:
            self._kernels = self._new_cache()
        compiled = self._kernels.compiled
        problem = ConvProblem.from_key(task.problem)
        session = self._session(problem, task.known)
        failure, measured = "", 0
        try:
            measured = self._tune(problem, session, task.seed)
        except NoSolverError as exc:
            failure = str(exc)
        except Exception as exc:  # anybody's solvers run here, and the other problems shall too
            failure = f"{type(exc).__name__}: {exc}"
        return Outcome(
            problem=task.problem,
            identity=self.identity,
            found=_news(session.database, session, problem, task.known),
            failure=failure,
            seconds=time.perf_counter() - began,
            compiled=self._kernels.compiled - compiled,
            measured=measured,
        )

    def compile(self, tasks: Sequence[Task]) -> Binaries:
        """Compile the candidates of tasks, and the configs with which their tuning begins."""
        with self._turn.shared():
            return self._compiled(tasks)

    def _compiled(self, tasks: Sequence[Task]) -> Binaries:
        programs: dict[Program, None] = {}
        for task in tasks:
            problem = ConvProblem.from_key(task.problem)
            session = self._session(problem, task.known)
            programs |= dict.fromkeys(self._programs(problem, session, task.seed))
        _, failures = self._kernels.load(programs)
        built = [program for program in programs if program not in failures]
        binaries = self._kernels.binaries(built)
        self._kernels = self._new_cache()
        return binaries

    def accept(self, binaries: Binaries) -> None:
        """Keep binaries where the kernel cache looks for them."""
        self._kernels.accept(binaries)

    def close(self) -> None:
        """Release the device."""
        self._handle.close()
        self._store.close()
        self._turn.close()

    # -- tuning -----------------------------------------------------------------------------------

    def _tune(self, problem: ConvProblem, session: Session, seed: Seed | None) -> int:
        """Measure and record; returns how many solutions were measured."""
        if seed is not None:
            measured = self._measure_seed(problem, session, seed)
            if measured:
                return measured
        policy = self._policy
        if self._order.strategy is not Strategy.DEFAULTS:
            policy = dataclasses.replace(policy, tune=True, use_db=False)
        result = find(problem, session, policy)
        _ = result.best  # raises where there is none
        return result.measured

    def _measure_seed(self, problem: ConvProblem, session: Session, seed: Seed) -> int:
        """Measure what won on a neighbour; nothing where none of that takes the problem."""
        policy = self._seeded(seed)
        screening = screen(problem, session, policy)
        configs = self._legal_configs(problem, seed)
        outcome = Search(problem, session, policy, silent, configs).run(screening)
        record(problem, session, policy, outcome)
        return len(outcome.trials)

    def _seeded(self, seed: Seed) -> Policy:
        allowed = frozenset(seed.solvers)
        if self._policy.solvers is not None:
            allowed &= self._policy.solvers
        return dataclasses.replace(self._policy, solvers=allowed)

    def _legal_configs(self, problem: ConvProblem, seed: Seed) -> dict[str, Config]:
        configs = {}
        for solver_id, values in seed.configs.items():
            solver, config = self._handle.registry.find_solver(solver_id), Config(values)
            try:
                if solver and not asking.config_fault(solver, problem, self._target, config):
                    configs[solver_id] = config
            except SolverError:
                continue  # measuring reports it
        return configs

    def _programs(
        self, problem: ConvProblem, session: Session, seed: Seed | None
    ) -> Iterable[Program]:
        policy = self._policy if seed is None else self._seeded(seed)
        given = {} if seed is None else self._legal_configs(problem, seed)
        tunes = seed is None and self._order.strategy is not Strategy.DEFAULTS
        if tunes or seed is not None:
            screening = screen(problem, session, policy)
        else:
            screening = decide(problem, session, policy).screening
        for solver in screening.candidates:
            if solver.is_last_resort:
                continue
            configs = [given.get(solver.solver_id)]
            try:
                if tunes and isinstance(solver, TunableSolver):
                    configs += asking.sample(solver, problem, self._target, _SAMPLED, _SEED)
                for config in configs:
                    limit = policy.workspace_limit
                    yield from asking.recipe(solver, problem, self._target, config, limit).programs
            except SolverError:
                continue  # measuring reports it

    # -- small parts ------------------------------------------------------------------------------

    def _session(self, problem: ConvProblem, known: Known) -> Session:
        """A session whose database is in memory and knows what is known about the problem."""
        database = FindDb.open(None)
        if known.entry is not None:
            database.store(self._target, problem, known.entry)
        for tuned in known.configs:
            database.store_config(
                *(self._target, problem, tuned.solver, tuned.solver_version),
                *(Config(tuned.config), tuned.time_ms),
            )
        for quarantined in known.quarantine:
            database.quarantine(self._target, problem, quarantined)
        return dataclasses.replace(self._handle.session, database=database, kernels=self._kernels)

    def _new_cache(self) -> KernelCache:
        session = self._handle.session
        return KernelCache(session.device, self._store, self._settings.compile_parallel_level)

    def _fingerprint(self) -> str:
        solvers, _ = self._handle.registry.solvers_for(self._target)
        parts = (
            self._target.driver,
            sorted(map(versioned_id, solvers)),
            *(self._order.strategy.value, sorted(self._order.policy.items())),
        )
        return fingerprint(parts)


def fingerprint(parts: object) -> str:
    """Hash everything in which two runs must agree to reuse each other's work."""
    text = json.dumps(parts, default=lambda value: sorted(value) if _is_set(value) else str(value))
    return blake2b(text.encode(), digest_size=8).hexdigest()


def _is_set(value: object) -> bool:
    return isinstance(value, (set, frozenset))


def _news(database: FindDb, session: Session, problem: ConvProblem, known: Known) -> Known:
    """Return the new contents of the database, without configs that are already known."""
    entry, configs, quarantine = database.own(session.target, problem)
    old = {_of_no_date(tuned) for tuned in known.configs}
    fresh = tuple(tuned for tuned in configs if _of_no_date(tuned) not in old)
    return Known(entry=entry, configs=fresh, quarantine=quarantine)


def _of_no_date(tuned: Any) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(tuned, created=0), order="sorted")
