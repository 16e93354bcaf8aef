"""`Dataset`: problems with the measured times of solvers, as arrays, from databases of any kind."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import geometric_mean

import numpy as np
from numpy.typing import NDArray

from convfind.errors import FindDbError, ProblemError
from convfind.finddb.table import FIND
from convfind.heuristics.domain import undescribed
from convfind.heuristics.features import sizes
from convfind.heuristics.model_file import ModelDevice
from convfind.problem import ConvProblem
from convfind.types import Direction
from convfind_finddb_tools.database import FOREIGN, Snapshot
from convfind_finddb_tools.entry import foreign_entries, own_entries
from convfind_finddb_tools.foreign import ForeignDevice
from convfind_finddb_tools.heuristics.family import family_of
from convfind_finddb_tools.miopen_text import records, results, upgrade
from convfind_finddb_tools.text_blocks import read_blocks

#: Version of foreign solvers: no installed solver has it, so that they are never confused.
FOREIGN_VERSION = 0

_DIRECTIONS = tuple(Direction)
_TEXT = (".txt", ".bz2")

#: Device, problem, and time in milliseconds by versioned id.
_Record = tuple[str, str, dict[str, float]]


@dataclass(frozen=True, slots=True)
class Dataset:
    """Measured problems: arrays with one row per problem, and three with one row per time.

    Attributes:
        devices: the devices that occur.
        solvers: versioned ids.
        texts: the problems as they were read.
        rows: the sizes of each problem, (problems, fields).
        directions: index of each problem's direction in `Direction`.
        device: index of each problem's device.
        family: a number for each problem's shape family.
        time_row, time_solver: which problem and solver a time is of; ascending by problem.
        time_ms: milliseconds.
        digest: SHA-256 of all of it.
        skipped: how many problems were left out for each reason.
    """

    devices: tuple[ModelDevice, ...]
    solvers: tuple[str, ...]
    texts: NDArray[np.str_]
    rows: NDArray[np.int32]
    directions: NDArray[np.int8]
    device: NDArray[np.int16]
    family: NDArray[np.uint64]
    time_row: NDArray[np.int32]
    time_solver: NDArray[np.int16]
    time_ms: NDArray[np.float32]
    digest: str
    skipped: Counter[str]

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, chosen: NDArray[np.bool_]) -> Dataset:
        """The problems that are chosen, with their times; ``digest`` stays that of all."""
        place = np.cumsum(chosen) - 1
        times = chosen[self.time_row]
        return replace(
            self,
            texts=self.texts[chosen],
            rows=self.rows[chosen],
            directions=self.directions[chosen],
            device=self.device[chosen],
            family=self.family[chosen],
            time_row=place[self.time_row[times]].astype(np.int32),
            time_solver=self.time_solver[times],
            time_ms=self.time_ms[times],
        )

    def in_direction(self, direction: Direction) -> Dataset:
        """The problems of one direction."""
        return self.select(self.directions == _DIRECTIONS.index(direction))

    def of_device(self, identity: str) -> NDArray[np.bool_]:
        """Return whether each problem was measured on this device."""
        index = [device.identity for device in self.devices].index(identity)
        return np.asarray(self.device == index, np.bool_)

    def on_device(self, identity: str) -> Dataset:
        """The problems measured on one device."""
        return self.select(self.of_device(identity))

    def log_times(self, solvers: Sequence[str]) -> NDArray[np.float32]:
        """Natural logarithms of the times, (problems, solvers); infinite where there is none."""
        column = {name: number for number, name in enumerate(solvers)}
        columns = np.array([column.get(name, -1) for name in self.solvers], np.int64)
        table = np.full((len(self), len(solvers)), np.inf, np.float32)
        known = columns[self.time_solver] >= 0
        place = self.time_row[known], columns[self.time_solver[known]]
        table[place] = np.log(self.time_ms[known])
        return table

    def used_solvers(self) -> tuple[str, ...]:
        """The solvers that any of the problems has a time of."""
        return tuple(self.solvers[number] for number in np.unique(self.time_solver))


def read_dataset(
    paths: Sequence[Path],
    on_progress: Callable[[int], None] = lambda count: None,
    *,
    with_older: bool = False,
) -> Dataset:
    """Read databases (convfind's own and imported records) and MIOpen's find-db text files.

    Times of 0 ms, a defect in some of MIOpen's files, are left out; so are times with constant
    weights, and problems with properties that no feature describes. Where several files have a
    time, their geometric mean counts.

    Args:
        paths: the files.
        on_progress: is told how many problems have been read.
        with_older: where a solver has a time of an older version only than the newest that occurs,
            estimate that of the newest, by how the two compare where both are known; else the
            problem is left out, since without that solver it would look as if the solver did not
            take it.

    Raises:
        FindDbError: a file cannot be used, or there is nothing in any of them.
    """
    read: dict[tuple[str, str], list[dict[str, float]]] = {}
    for path in paths:
        for device, problem, times in _records(path):
            read.setdefault((device, problem), []).append(times)
            if not len(read) % 1024:
                on_progress(len(read))
    found = {key: _mean(several) for key, several in read.items()}
    outdated = _keep_newest(found, with_older=with_older)
    dataset = _arrays(found)
    if outdated:
        dataset.skipped["a solver has been measured in an older version only"] += outdated
    if not len(dataset):
        msg = f"no measured problem to learn from in {', '.join(map(str, paths))}"
        raise FindDbError(msg)
    return dataset


def _records(path: Path) -> Iterator[_Record]:
    if path.suffix in _TEXT:
        device = ForeignDevice.of_file(path).identity
        for block in read_blocks(path):
            for key, values in records(upgrade(block.text)):
                times = {result.solver: result.time_ms for result in results(values)}
                yield device, key.decode(), _foreign(times)
        return
    with Snapshot(path) as snapshot:
        if snapshot.count(FIND.name):
            for entry in own_entries(snapshot):
                own = [r.record for r in entry.results if r.record is not None]
                yield (
                    entry.device,
                    entry.problem,
                    {
                        f"{record.solver}@{record.solver_version}": record.time_ms
                        for record in own
                        if record.time_ms > 0 and not record.constant_weights
                    },
                )
        if snapshot.count(FOREIGN):
            for entry in foreign_entries(snapshot):
                times = {result.solver: result.time_ms for result in entry.results}
                yield entry.device, entry.problem, _foreign(times)


def _foreign(times: dict[str, float]) -> dict[str, float]:
    return {f"{solver}@{FOREIGN_VERSION}": time for solver, time in times.items() if time > 0}


def _mean(several: list[dict[str, float]]) -> dict[str, float]:
    if len(several) == 1:
        return several[0]
    times: dict[str, list[float]] = {}
    for one in several:
        for name, time in one.items():
            times.setdefault(name, []).append(time)
    return {name: geometric_mean(values) for name, values in times.items()}


def _keep_newest(found: dict[tuple[str, str], dict[str, float]], *, with_older: bool) -> int:
    """Keep a time of each solver, of its newest version; returns how many problems were left out
    because they have none.
    """
    newest: dict[str, int] = {}
    for times in found.values():
        for name in times:
            solver, _, version = name.rpartition("@")
            newest[solver] = max(newest.get(solver, 0), int(version))
    present = {f"{solver}@{version}" for solver, version in newest.items()}
    ratios: dict[str, list[float]] = {}
    for times in found.values():
        for name in times.keys() - present:
            new = f"{name.rpartition('@')[0]}@{newest[name.rpartition('@')[0]]}"
            if new in times:
                ratios.setdefault(name, []).append(times[new] / times[name])
    outdated = []
    for key, times in found.items():
        for name in sorted(times.keys() - present, key=_version, reverse=True):
            new = f"{name.rpartition('@')[0]}@{newest[name.rpartition('@')[0]]}"
            time = times.pop(name)
            if new not in times:
                if not with_older:
                    outdated.append(key)
                    break
                times[new] = time * geometric_mean(ratios.get(name, (1.0,)))
    for key in outdated:
        del found[key]
    return len(outdated)


def _version(name: str) -> int:
    return int(name.rpartition("@")[2])


def _arrays(found: dict[tuple[str, str], dict[str, float]]) -> Dataset:
    """Sort, so that neither the order nor the form of the files matters, and bring into arrays."""
    digest = hashlib.sha256()
    devices: dict[str, int] = {}
    solvers: dict[str, int] = {}
    seen: dict[str, tuple[tuple[int, ...], int, int] | None] = {}
    skipped: Counter[str] = Counter()
    texts: list[str] = []
    problems: list[tuple[tuple[int, ...], int, int]] = []
    device_of: list[int] = []
    entries: list[tuple[int, int, float]] = []
    for (device, text), times in sorted(found.items()):
        if not times:
            skipped["no solver with a time"] += 1
            continue
        if text not in seen:
            seen[text] = _describe(text)
        described = seen[text]
        if described is None:
            skipped["a problem that no feature describes"] += 1
            continue
        digest.update(f"{device}|{text}|{sorted(times.items())}\n".encode())
        for solver, time in sorted(times.items()):
            entries.append((len(texts), solvers.setdefault(solver, len(solvers)), time))
        texts.append(text)
        problems.append(described)
        device_of.append(devices.setdefault(device, len(devices)))
    return Dataset(
        tuple(ModelDevice(identity=name, compute_units=_units(name)) for name in devices),
        tuple(solvers),
        np.array(texts, np.str_),
        np.array([row for row, _, _ in problems], np.int32),
        np.array([direction for _, direction, _ in problems], np.int8),
        np.array(device_of, np.int16),
        np.array([family for _, _, family in problems], np.uint64),
        np.array([row for row, _, _ in entries], np.int32),
        np.array([solver for _, solver, _ in entries], np.int16),
        np.array([time for _, _, time in entries], np.float32),
        digest.hexdigest(),
        skipped,
    )


def _describe(text: str) -> tuple[tuple[int, ...], int, int] | None:
    """Sizes, direction and family; None where the features would leave something out."""
    try:
        problem = ConvProblem.from_key(text)
    except ProblemError:
        return None
    if undescribed(problem) is not None:
        return None
    row = sizes(problem)
    if max(row) >= 2**31:
        return None
    return row, _DIRECTIONS.index(problem.direction), family_of(problem)


def _units(identity: str) -> int:
    """Compute units, which end the identity of a device."""
    units = identity.rpartition("|")[2]
    return max(int(units), 1) if units.isdecimal() else 1
