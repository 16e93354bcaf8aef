"""`ReplayStation`: recorded measurements in place of a device."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from convfind.errors import FindDbError
from convfind.finddb.key import SCHEMA
from convfind.finddb.record import FindEntry, FindRecord
from convfind.finddb.table import CONFIG, FIND, QUARANTINE
from convfind.problem import ConvProblem
from convfind_finddb_tools.database import Snapshot
from convfind_finddb_tools.entry import first_keys, own_traits, split_key
from convfind_finddb_tools.tune.order import Identity, Known, Order, Outcome, Strategy, Task
from convfind_finddb_tools.tune.station import Binaries, fingerprint

#: Seconds that a find spends on each candidate besides running it: building the recipe, loading,
#: comparing with the reference. An estimate: real runs on two cores of an EPYC took about 0.3.
SECONDS_PER_CANDIDATE = 0.25
#: Configs that a search tries for a solver: its samples and two steps downhill. Assumed.
CONFIGS_TRIED = 40


def seconds_of(records: Sequence[FindRecord], *, tuned: bool = False) -> float:
    """Estimate how long measuring took: each candidate's own part, and its samples.

    Where configs were ``tuned``, a record that has one stands for as many candidates as a search
    tries.
    """
    seconds = 0.0
    for record in records:
        tries = CONFIGS_TRIED if tuned and record.config is not None else 1
        seconds += tries * (SECONDS_PER_CANDIDATE + record.samples * record.time_ms / 1e3)
    return seconds


class ReplayStation:
    """Answers with a database's records for one device, at once or at the pace of measuring.

    The strategy decides what of it would have been measured: all records, or those of the solvers
    that won on a neighbour. Tuned configs appear where the strategy tunes.
    """

    def __init__(self, order: Order) -> None:
        """Open the database.

        Raises:
            FindDbError: it cannot be used, or does not say for which device to replay.
        """
        self._order = order
        self._snapshot = Snapshot(Path(order.replay))
        try:
            device = _device(self._snapshot, order)
        except BaseException:
            self._snapshot.close()
            raise
        self.identity = Identity(device, fingerprint(("replay", order.strategy.value)))

    def measure(self, task: Task) -> Outcome:
        """Return what is recorded for the problem; what is not is a failure."""
        began = time.perf_counter()
        recorded = self._recorded(task)
        records = recorded.entry.records if recorded.entry else ()
        if self._order.pace and records:
            time.sleep(self._order.pace * seconds_of(records))
        nothing = not records and not recorded.quarantine
        return Outcome(
            problem=task.problem,
            identity=self.identity,
            found=recorded,
            failure=f"nothing is recorded in {self._snapshot.path}" if nothing else "",
            seconds=time.perf_counter() - began,
            measured=len(records),
        )

    def problems(self) -> list[ConvProblem]:
        """The convolutions that are recorded for the device; strategies know no other problems."""
        prefix = f"{SCHEMA}|{self.identity.device}|".encode()
        keys = (key for key, _ in self._snapshot.items(FIND.name, prefix))
        names = (split_key(key)[1] for key in keys)
        return [ConvProblem.from_key(name) for name in names if own_traits(name).direction != "?"]

    def compile(self, tasks: Sequence[Task]) -> Binaries:
        """Compile nothing."""
        return ()

    def accept(self, binaries: Binaries) -> None:
        """Need nothing."""

    def close(self) -> None:
        """Let go of the database."""
        self._snapshot.close()

    def _recorded(self, task: Task) -> Known:
        key = f"{SCHEMA}|{self.identity.device}|{task.problem}".encode()

        def read(table: Any) -> Any:
            sealed = self._snapshot.get(table.name, key)
            return table.unpack(key, sealed, self._snapshot.get)

        entry: FindEntry | None = read(FIND)
        tunes = self._order.strategy is not Strategy.DEFAULTS and task.seed is None
        if entry is not None and task.seed is not None:
            some = _only(entry, task.seed.solvers)
            entry = some if some.records else entry  # as on a device: then everything is measured
        return Known(
            entry=entry,
            configs=(read(CONFIG) or ()) if tunes else (),
            quarantine=read(QUARANTINE) or (),
        )


def _only(entry: FindEntry, solvers: Sequence[str]) -> FindEntry:
    """Return the part of an entry that a search among some solvers would have found."""
    return msgspec.structs.replace(
        entry,
        records=tuple(record for record in entry.records if record.solver in solvers),
        considered=tuple(one for one in entry.considered if one.partition("@")[0] in solvers),
    )


def _device(snapshot: Snapshot, order: Order) -> str:
    devices = [split_key(key)[0] for key in first_keys(snapshot, FIND.name)]
    wanted = order.devices[0].lower() if order.devices else ""
    chosen = [device for device in devices if wanted in device.lower()]
    if len(chosen) != 1:
        names = ", ".join(devices) or "none"
        msg = f"{snapshot.path}: name one of its devices, or a part of it, by --device: {names}"
        raise FindDbError(msg)
    return chosen[0]
