"""Convfind's convolution and PyTorch's own, timed in turns, and what was measured before."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

import torch

from convfind.device.target import DeviceKind
from convfind.find.solution import Solution
from convfind.finddb import FindDb
from convfind.finddb.record import FindEntry, FindRecord
from convfind.problem import ConvProblem
from convfind.settings import Settings
from convfind.types import ConvMode
from convfind_torch.place import Place

#: Samples of each, and the seconds after which no more are taken.
_SAMPLES = 7
_FEWEST = 3
_ENOUGH = 0.5


@dataclass(frozen=True, slots=True)
class Comparison:
    """Milliseconds of a call by convfind and of the same by PyTorch, medians."""

    ours_ms: float
    pytorch_ms: float

    @property
    def gain(self) -> float:
        """How many times as fast convfind is."""
        return self.pytorch_ms / self.ours_ms


def open_comparisons() -> FindDb:
    """Open the database of comparisons: a find database of its own, beside the user's.

    Finds must not see these times: they are of whole calls, with what PyTorch does around them.
    """
    settings = Settings.from_environment()
    return FindDb.open(None if settings.disable_find_db else settings.user_db_path / "pytorch")


def recorded(
    database: FindDb,
    place: Place,
    solution: Solution,
    problem: ConvProblem,
    *,
    replayed: bool = False,
) -> Comparison | None:
    """Return what was measured with these versions of PyTorch and solver; None if nothing was."""
    stored = database.lookup(place.handle.target, problem.plain())
    driver = _driver(place, replayed)
    records = {
        record.solver: record.time_ms
        for record in (() if stored is None else stored.entry.records)
        if record.driver == driver and record.constant_weights == solution.constant_weights
    }
    ours = records.get(_own_name(problem, solution.solver))
    pytorch = records.get(_own_name(problem, "pytorch"))
    return None if ours is None or pytorch is None else Comparison(ours, pytorch)


def measured(
    database: FindDb,
    place: Place,
    solution: Solution,
    problem: ConvProblem,
    ours: Callable[[], torch.Tensor],
    pytorch: Callable[[], torch.Tensor],
    *,
    replayed: bool = False,
) -> Comparison:
    """Time two functions that compute the same, in turns, and record it.

    Args:
        database: where to.
        place: the device.
        solution: what convfind's function runs.
        problem: what both compute.
        ours: computes it by convfind.
        pytorch: computes it by PyTorch.
        replayed: calls are replayed later, so that the host's time does not count.
    """
    times = in_turns(place, ours, pytorch, replayed=replayed)
    return record(database, place, solution, problem, *times, replayed=replayed)


def record(
    database: FindDb,
    place: Place,
    solution: Solution,
    problem: ConvProblem,
    ours: Sequence[float],
    pytorch: Sequence[float],
    *,
    replayed: bool = False,
) -> Comparison:
    """Record milliseconds of convfind's and of PyTorch's calls."""
    records = tuple(
        FindRecord(
            solver=_own_name(problem, name),
            solver_version=1,
            package=f"torch {torch.__version__}",
            algorithm=solution.algorithm.value,
            time_ms=median(times),
            spread_ms=_spread(times),
            samples=len(times),
            driver=_driver(place, replayed),
            created=int(time.time()),
            constant_weights=solution.constant_weights,
        )
        for name, times in ((solution.solver, ours), ("pytorch", pytorch))
    )
    entry = FindEntry(records=records, considered=tuple(f"{one.solver}@1" for one in records))
    database.store(place.handle.target, problem.plain(), entry, replace=True)
    return Comparison(records[0].time_ms, records[1].time_ms)


def median_of(ours: Sequence[float], pytorch: Sequence[float]) -> Comparison:
    """Return the comparison of samples."""
    return Comparison(median(ours), median(pytorch))


def in_turns(
    place: Place,
    first: Callable[[], torch.Tensor],
    second: Callable[[], torch.Tensor],
    *,
    replayed: bool = False,
) -> tuple[list[float], list[float]]:
    """Return milliseconds of two functions, each called warm, after the other.

    An operator of PyTorch's on the result belongs to a sample, as in a network: it wakes threads
    that one of the functions may have sent to sleep, and its own may spin into the other.
    """
    for function in (first, second):
        _sample(place, function, replayed)
    began, firsts, seconds = time.perf_counter(), list[float](), list[float]()
    while len(firsts) < _FEWEST or (
        len(firsts) < _SAMPLES and time.perf_counter() - began < _ENOUGH
    ):
        firsts.append(_sample(place, first, replayed))
        seconds.append(_sample(place, second, replayed))
    return firsts, seconds


def _sample(place: Place, function: Callable[[], torch.Tensor], replayed: bool) -> float:
    """Return milliseconds of a call, of as many in a row as a device needs to be kept busy."""
    calls = place.calls_in_a_sample

    def work() -> None:
        for _ in range(calls):
            torch.relu_(function())

    return place.milliseconds(work, replayed=replayed) / calls


def _own_name(problem: ConvProblem, name: str) -> str:
    """Return the name of a record: a transposed call is another than the plain one it equals."""
    return f"{name}+transposed" if problem.mode is ConvMode.TRANSPOSE else name


def _driver(place: Place, replayed: bool) -> str:
    """Return what makes a comparison void when it changes."""
    target = place.handle.target
    if target.kind is DeviceKind.CPU:
        return f"torch {torch.__version__}|{torch.get_num_threads()}|{target.driver}"
    how = "benchmark" if torch.backends.cudnn.benchmark else "heuristics"
    calls = f"{place.calls_in_a_sample} {'replayed ' if replayed else ''}calls"
    return f"torch {torch.__version__}|{how}, {calls}|{target.driver}"


def _spread(times: Sequence[float]) -> float:
    low, _, high = quantiles(times, n=4)
    return high - low
