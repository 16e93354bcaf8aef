"""`Session`: the state that the stages of a find share."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping, MutableMapping
from dataclasses import dataclass, field
from threading import RLock
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from convfind.runtime.disturbance import LATEST, Disturbance

if TYPE_CHECKING:
    from convfind.device.target import Target
    from convfind.find.isolation.child import Child
    from convfind.finddb import BinaryStore, FindDb
    from convfind.heuristics import Heuristic
    from convfind.plugins.registry import Registry
    from convfind.problem.contract import Problem
    from convfind.runtime.backend import Device
    from convfind.runtime.kernel_cache import KernelCache

#: Logarithms of measured times over forecasts of one problem, by solver id and who forecast it.
Residuals: TypeAlias = Mapping[tuple[str, str], float]
#: Those of the problems of each kind that err alike, the latest last.
Lessons: TypeAlias = MutableMapping[Hashable, tuple[Residuals, ...]]
#: Called with stage, number done, total and a label; stages are "compile", "measure", "tune".
Progress = Callable[[str, int, int, str], None]


def silent(stage: str, done: int, total: int, label: str) -> None:
    """Report to nobody."""


@dataclass(frozen=True, slots=True)
class Session:
    """An open device with its database, kernel cache, registry and settings."""

    device: Device
    registry: Registry
    database: FindDb
    kernels: KernelCache
    models: tuple[Heuristic, ...] = ()  # that the user installed
    child: Child | None = None  # where candidates may run; None where it cannot open the device
    #: Solvers, by plain problem, whose programs a network of it is worth.
    favoured: dict[Problem, frozenset[str]] = field(default_factory=dict)
    #: How far forecasts were off in finds so far.
    lessons: Lessons = field(default_factory=dict)
    #: Things that checks keep from one find to the next, by purpose.
    kept: dict[Hashable, Any] = field(default_factory=dict, repr=False, compare=False)
    #: How far other work on the machine disturbed the latest races.
    disturbances: deque[Disturbance] = field(default_factory=lambda: deque(maxlen=LATEST))
    #: Whose find measures: those of several threads take turns, as one would disturb the other.
    turn: RLock = field(default_factory=RLock, repr=False, compare=False)

    @classmethod
    def elsewhere(
        cls,
        target: Target,
        registry: Registry,
        store: BinaryStore,
        models: tuple[Heuristic, ...] = (),
    ) -> Session:
        """Return a session of a device that need not be here, in which nothing can run.

        Nothing is recorded in it. Forecasts, and which programs are in the store, are the same as
        in a session of the device itself.
        """
        from convfind.finddb import FindDb
        from convfind.runtime.kernel_cache import KernelCache

        device = cast("Device", SimpleNamespace(target=target))
        return cls(device, registry, FindDb.open(None), KernelCache(device, store, 1), models)

    @property
    def heuristics(self) -> tuple[Heuristic, ...]:
        """Heuristics in the order of consultation: the user's own, then those of packages."""
        return (*self.models, *self.registry.heuristics)

    @property
    def target(self) -> Target:
        """The device as a value."""
        return self.device.target

    def times(
        self, identity: str, problem: Problem, *, constant_weights: bool = False
    ) -> dict[str, float]:
        """Look recorded times up, as `FindDb.times`; those here under all identities of the device.

        The first of them with a record counts.
        """
        here = self.target.identities
        for name in here if identity in here else (identity,):
            if found := self.database.times(name, problem, constant_weights=constant_weights):
                return found
        return {}
