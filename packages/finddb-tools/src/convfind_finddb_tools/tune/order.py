"""Instructions for workers: the order of a whole campaign, and single tasks."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from convfind.finddb.record import FindEntry, QuarantineRecord, TunedConfig
from convfind.solver.config import ConfigValue


class Strategy(StrEnum):
    """Strategy of a campaign: how much is measured."""

    DEFAULTS = "defaults"  # every solver with its default config
    FULL = "full"  # every solver, tunable ones tuned
    NEIGHBOURS = "neighbours"  # some problems in full, the others with what won on the nearest


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Instructions common to all workers of a campaign; picklable.

    Attributes:
        strategy: how much is measured.
        devices: names for `convfind.open`, for local workers in turn; none: the environment's.
        policy: fields of `convfind.policy.Policy` that differ from the environment's.
        shards: folder, on the worker's machine, in which each worker has its own database.
        replay: database whose records take the part of measurements; empty: a device is measured.
        pace: seconds of replay for each second that measuring took, 0 for none at all.
    """

    strategy: Strategy
    devices: tuple[str, ...] = ()
    policy: dict[str, Any] = {}
    shards: str = ""
    replay: str = ""
    pace: float = 0.0


class Identity(msgspec.Struct, frozen=True):
    """Device, software and policy of measurements; equal identities share results."""

    device: str  # identity of the target
    fingerprint: str  # of driver, solvers, strategy and policy


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """A database's contents for one problem on one device."""

    entry: FindEntry | None = None
    configs: tuple[TunedConfig, ...] = ()
    quarantine: tuple[QuarantineRecord, ...] = ()


class Seed(msgspec.Struct, frozen=True):
    """The winners on a neighbour: the only solvers to be measured, and their configs."""

    solvers: tuple[str, ...]
    configs: dict[str, dict[str, ConfigValue]] = {}


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One plain problem to be tuned.

    Attributes:
        problem: its network config.
        known: what the target database has already.
        seed: what to measure where a neighbour has been tuned; None: everything.
    """

    problem: str
    known: Known = Known()
    seed: Seed | None = None


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a task. ``failure`` is empty if something was measured or known."""

    problem: str
    identity: Identity
    found: Known = Known()
    failure: str = ""
    worker: str = ""
    seconds: float = 0.0
    compiled: int = 0
    measured: int = 0

    @property
    def best_ms(self) -> float | None:
        """The least time."""
        entry = self.found.entry
        return min((record.time_ms for record in entry.records), default=None) if entry else None
