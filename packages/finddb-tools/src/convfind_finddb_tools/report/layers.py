"""A model's layers on a device, before and after: the data of a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from convfind.errors import ConvfindError
from convfind.finddb.evidence import in_doubt
from convfind.finddb.record import QuarantineRecord
from convfind.problem import ConvProblem
from convfind.problem.text import parse_key
from convfind.types import Layout
from convfind_finddb_tools.entry import Entry, Measured
from convfind_finddb_tools.report.occurrences import Occurrence

_GEMM = "gemm"


@dataclass(frozen=True)
class Layer:
    """A problem with all that was measured; times in milliseconds for one run.

    Attributes:
        entry: everything recorded.
        count: how often the model runs it.
        name: of the layer, if it has one.
        best: the fastest record of each solver, fastest first; never empty.
        before: what it is compared with, None where there is nothing.
        sources: the networks that have it, each with its number of occurrences there.
    """

    entry: Entry
    count: int
    name: str
    best: tuple[Measured, ...]
    before: Measured | None
    sources: tuple[tuple[str, int], ...] = ()

    @property
    def winner(self) -> Measured:
        """The fastest record."""
        return self.best[0]

    @property
    def runner_up(self) -> Measured | None:
        """The fastest record of another solver."""
        return self.best[1] if len(self.best) > 1 else None

    @property
    def margin(self) -> float | None:
        """Time of the runner-up over that of the winner."""
        second = self.runner_up
        return None if second is None else second.time_ms / self.winner.time_ms

    @property
    def is_noisy(self) -> bool:
        """True where nothing should be concluded from its time, or from the one before."""
        return self.winner.is_noisy or (self.before is not None and self.before.is_noisy)

    @property
    def total_ms(self) -> float:
        """Time in one pass of the model."""
        return self.count * self.winner.time_ms

    @property
    def gain_ms(self) -> float:
        """Time gained in one pass of the model."""
        return 0.0 if self.before is None else self.count * self.before.time_ms - self.total_ms

    @cached_property
    def problem(self) -> ConvProblem | None:
        """The problem, None where convfind has none for a key of MIOpen's."""
        try:
            return parse_key(self.entry.problem)
        except ConvfindError:
            return None

    @cached_property
    def label(self) -> str:
        """The problem in short: what is usual is left out."""
        return self.entry.problem if self.problem is None else short_name(self.problem)


@dataclass(frozen=True, slots=True)
class Failure:
    """A solver in quarantine, and for how many problems."""

    record: QuarantineRecord
    problems: int


@dataclass
class DeviceReport:
    """All layers on one device."""

    device: str
    layers: list[Layer]
    missing: list[Occurrence] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    without_result: Counter[str] = field(default_factory=Counter)  # "id@version": problems
    untimed: int = 0  # problems with defective times only

    @cached_property
    def compared(self) -> list[Layer]:
        """The layers that have something to be compared with, noisy ones left out."""
        return [layer for layer in self.layers if layer.before is not None and not layer.is_noisy]

    @cached_property
    def noisy(self) -> list[Layer]:
        """The layers whose times, or what they are compared with, are noisy."""
        return [layer for layer in self.layers if layer.is_noisy]

    @cached_property
    def after_ms(self) -> float:
        """Expected time of all layers in one pass."""
        return sum(layer.total_ms for layer in self.layers)

    @cached_property
    def compared_before_ms(self) -> float:
        """Time of the compared layers before."""
        return sum(layer.count * layer.before.time_ms for layer in self.compared if layer.before)

    @cached_property
    def compared_after_ms(self) -> float:
        """Time of the compared layers after."""
        return sum(layer.total_ms for layer in self.compared)

    @property
    def speedup(self) -> float | None:
        """Speed-up of the compared layers."""
        return self.compared_before_ms / self.compared_after_ms if self.compared else None

    @cached_property
    def drivers(self) -> list[str]:
        """The drivers that it was measured with."""
        records = (result.record for layer in self.layers for result in layer.best)
        return sorted({record.driver for record in records if record and record.driver})


def device_reports(
    entries: Iterable[Entry],
    occurrences: Sequence[Occurrence] | None,
    before: Mapping[tuple[str, str], Entry] | None,
) -> list[DeviceReport]:
    """Arrange entries by device, each problem as often as the model has it.

    Args:
        entries: of any number of devices.
        occurrences: what the model has; None takes each problem of the database once.
        before: entries of another database by device and problem; None compares with the GEMM
            fallback in the same entry.
    """
    by_device: dict[str, dict[str, Entry]] = {}
    for entry in entries:
        by_device.setdefault(entry.device, {})[entry.problem] = entry
    reports = []
    for device, known in by_device.items():
        report = DeviceReport(device, [])
        for entry, count, name, sources in _chosen(known, occurrences, report):
            best = _best(entry)
            if not best:
                report.untimed += 1
                continue
            layer = Layer(entry, count, name, best, _before(entry, best, before), sources)
            report.layers.append(layer)
            measured = {f"{one.solver}@{_version(one)}" for one in entry.results}
            marked = set(map(in_doubt, measured))
            report.without_result.update(set(entry.considered) - measured - marked)
        if report.layers:
            reports.append(report)
    return reports


def short_name(problem: ConvProblem) -> str:
    """Spell a problem in short, e.g. ``fwd 64x128x56x56 * 128x128x3x3 s2``."""

    def sizes(numbers: Sequence[int]) -> str:
        same = len(set(numbers)) == 1
        return str(numbers[0]) if same else "x".join(map(str, numbers))

    words = [
        problem.direction.short,
        "x".join(map(str, problem.x_shape)),
        "*",
        "x".join(map(str, problem.w_shape)),
    ]
    unusual = (
        (set(problem.stride) != {1}, f"s{sizes(problem.stride)}"),
        (set(problem.dilation) != {1}, f"d{sizes(problem.dilation)}"),
        (problem.groups != 1, f"g{problem.groups}"),
        (problem.layout is not Layout.of(problem.spatial_rank), problem.layout.value),
        (problem.dtype.value != "float32", problem.dtype.value),
    )
    return " ".join([*words, *(word for holds, word in unusual if holds)])


def _chosen(
    known: Mapping[str, Entry], occurrences: Sequence[Occurrence] | None, report: DeviceReport
) -> Iterator[tuple[Entry, int, str, tuple[tuple[str, int], ...]]]:
    if occurrences is None:
        yield from ((entry, 1, "", ()) for entry in known.values())
        return
    for one in occurrences:
        entry = next((known[name] for name in one.names if name in known), None)
        if entry is not None:
            yield entry, one.count, one.label, one.sources
        elif one.wanted:
            report.missing.append(one)


def _best(entry: Entry) -> tuple[Measured, ...]:
    """The fastest record of each solver that packs its weights in every run, fastest first."""
    best: dict[str, Measured] = {}
    for result in entry.results:
        if result.time_ms <= 0 or (result.record is not None and result.record.constant_weights):
            continue
        old = best.get(result.solver)
        if old is None or result.time_ms < old.time_ms:
            best[result.solver] = result
    return tuple(sorted(best.values(), key=lambda result: (result.time_ms, result.solver)))


def _before(
    entry: Entry,
    best: tuple[Measured, ...],
    before: Mapping[tuple[str, str], Entry] | None,
) -> Measured | None:
    if before is None:
        return next((result for result in best if result.algorithm == _GEMM), None)
    other = before.get((entry.device, entry.problem))
    return None if other is None else next(iter(_best(other)), None)


def _version(result: Measured) -> int:
    return result.record.solver_version if result.record else 0
